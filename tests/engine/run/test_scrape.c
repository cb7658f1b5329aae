/* A training's figures over HTTP: each that the training tells is answered, under its own name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <math.h>
#include <sys/socket.h>

#include "engine/base/doing.h"
#include "engine/base/steady.h"
#include "engine/run/report.h"
#include "engine/run/scrape.h"
#include "tests/engine/run/session_fixture.h"

static uint16_t port; /* that the figures are at */

/* The answer to "METHOD PATH" of a connection of its own, in one of two buffers. */
static const char *answer(const char *request)
{
    static char texts[2][1 << 15];
    static int next;
    char *text = texts[next = !next], line[128];
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    size_t bytes = 0;
    ssize_t got;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof to) == 0);
    const int length = snprintf(line, sizeof line,
                                "%s HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", request);
    assert_int_equal(send(fd, line, (size_t)length, MSG_NOSIGNAL), length);
    while ((got = recv(fd, text + bytes, sizeof texts[0] - 1 - bytes, 0)) > 0) bytes += (size_t)got;
    text[bytes] = 0;
    close(fd);
    return text;
}

static void answers(const char *request, const char *code, const char *part)
{
    const char *text = answer(request);
    if (strncmp(text, "HTTP/1.1 ", 9) != 0 || strncmp(text + 9, code, strlen(code)) != 0 || !strstr(text, part))
        fail_msg("%s: expected %s and \"%s\", found %s", request, code, part, text);
}

/* The value of the line that begins with `name`, labels included; NAN: there is none. */
static double figure(const char *text, const char *name)
{
    char begin[160];
    snprintf(begin, sizeof begin, "\n%s ", name);
    const char *at = strstr(text, begin);
    return at ? strtod(at + strlen(begin), NULL) : (double)NAN;
}

/* Each value comes behind a head of its own name, which says a type and what it is;
 * no head comes twice, or alone. */
static void assert_has_heads(const char *text)
{
    char name[128] = "", help[160], type[16], line[1024];
    uint32_t values = 1;
    const char *at = strstr(text, "\r\n\r\n");
    assert_non_null(at);
    for (at += 4; *at; at += strlen(line) + 1) {
        assert_int_equal(sscanf(at, "%1023[^\n]", line), 1);
        if (*line != '#') {
            const size_t length = strcspn(line, "{ ");
            if (strlen(name) != length || strncmp(line, name, length) != 0) fail_msg("behind # %s: %s", name, line);
            values++;
            continue;
        }
        if (values == 0) fail_msg("nothing is behind the head of %s", name);
        assert_int_equal(sscanf(at, "# HELP %127s", help), 1);
        assert_true(strlen(line) > strlen("# HELP ") + strlen(help) + 8 && line[strlen(line) - 1] == '.');
        at += strlen(line) + 1;
        assert_int_equal(sscanf(at, "# TYPE %127s %15s\n", name, type), 2);
        assert_int_equal(sscanf(at, "%1023[^\n]", line), 1);
        assert_string_equal(name, help);
        assert_true(strcmp(type, "gauge") == 0 || strcmp(type, "counter") == 0);
        assert_true((strstr(name, "_total") != NULL) == (strcmp(type, "counter") == 0));
        snprintf(help, sizeof help, "\n# TYPE %s ", name);
        assert_null(strstr(at, help));
        values = 0;
    }
    assert_true(values > 0);
}

struct figures {
    const char *name;
    double value; /* NAN: not told */
};
static void figures_check(const char *text, const struct figures *expected, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const double found = figure(text, expected[i].name), is = expected[i].value;
        if (isnan(is) ? !isnan(found) : !(fabs(found - is) <= 1e-8 * fabs(is)))
            fail_msg("%s: expected %.9g, found %.9g in %s", expected[i].name, is, found, text);
    }
}
#define CHECK_FIGURES(text, ...)                                                                                       \
    figures_check(text, (const struct figures[]){__VA_ARGS__},                                                         \
                  sizeof((const struct figures[]){__VA_ARGS__}) / sizeof(struct figures))

/* Opens it in that session; what it says of its address leads there. */
static struct scrape *scrape_here(struct opened *o, const struct train_watch **watch)
{
    char said[4096] = "";
    struct scrape *scrape;
    assert_ok(scrape_open(&scrape, &(struct scrape_options){.listen = "127.0.0.1:0"}));
    assert_ok(scrape_watch(scrape, &o->session, watch));
    fflush(NULL);
    assert_true(pread(o->out, said, sizeof said - 1, 0) > 0);
    const char *address = strstr(said, "127.0.0.1:");
    assert_true(strstr(said, "\"metrics\"") && address);
    port = (uint16_t)atoi(address + strlen("127.0.0.1:"));
    return scrape;
}

static void told(const struct train_watch *watch, struct heads *heads, uint64_t window, double loss)
{
    struct report_progress progress = {.loss = loss, .rate = 1234.5, .heads = heads, .window = window};
    watch->told(watch->context, &progress);
}

static void scrape__what_a_training_tells__is_answered(void **state)
{
    (void)state;
    struct opened o;
    struct feed *feed;
    struct heads heads;
    const struct train_watch *watch;
    char data[256], key[2][160];
    snprintf(data, sizeof data, "%s", fixture_path("none.tsv"));
    fixture_data(data, 0, 10, NULL);
    opened_begin(&o, NULL, LOG_JSON);
    struct scrape *scrape = scrape_here(&o, &watch);
    const struct feed_options options = crew_feed_options(&o.session.crew, data);
    assert_ok(heads_open(&heads, &o.session.setup.graph));
    assert_ok(feed_open(&feed, &options));
    assert_int_equal(heads.count, 1);

    /* Before it begins. */
    answers("GET /healthz", "200", "ok");
    answers("GET /readyz", "503", "training has not begun yet");
    const char *text = answer("GET /metrics");
    CHECK_FIGURES(text, {"heterps_planned_memory_bytes", (double)memory_planned_bytes()},
                  {"heterps_train_saves_total", 0}, {"heterps_train_save_seconds_total", 0},
                  {"heterps_train_saved_step", (double)NAN}, {"heterps_train_step", (double)NAN});
    assert_true(figure(text, "heterps_resident_memory_bytes") > 1e6);
    assert_true(figure(text, "heterps_resident_memory_max_bytes") >= figure(text, "heterps_resident_memory_bytes"));
    assert_non_null(strstr(text, "\nheterps_build_info{version=\""));

    /* The training goes on from a save. */
    const struct progress from = {.step = 70, .epoch = 2, .examples = 4480};
    watch->begun(watch->context, feed, &from);
    answers("GET /readyz", "200", "ok");
    text = answer("GET /metrics");
    CHECK_FIGURES(text, {"heterps_train_step", 70}, {"heterps_train_epoch", 2}, {"heterps_train_examples_total", 4480},
                  {"heterps_train_loss", (double)NAN}, {"heterps_train_examples_per_second", (double)NAN},
                  {"heterps_train_rows{table=\"emb\"}", (double)NAN}, {"heterps_train_window", (double)NAN},
                  {"heterps_train_seconds_total", 0}, {"heterps_train_time_share{phase=\"paused\"}", (double)NAN},
                  {"heterps_train_examples_read_total", 0}, {"heterps_train_bad_lines_total", 0});

    /* Steps, looks, saves and reports. */
    const struct progress done = {.step = 75, .epoch = 3, .examples = 4640};
    const uint64_t rows = 987;
    const struct train_look look = {.times = {.wall_ns = UINT64_C(8000000000),
                                              .busy_ns = {UINT64_C(3000000000), UINT64_C(5000000000), 4000000000},
                                              .worker_count = 2},
                                    .pause_ns = UINT64_C(2000000000)};
    watch->step_done(watch->context, &done, &rows);
    watch->looked(watch->context, &look);
    watch->saved(watch->context, &from, 1.5);
    watch->saved(watch->context, &done, 0.25);
    told(watch, &heads, 0, 0.75);
    text = answer("GET /metrics");
    CHECK_FIGURES(
        text, {"heterps_train_step", 75}, {"heterps_train_epoch", 3}, {"heterps_train_examples_total", 4640},
        {"heterps_train_rows{table=\"emb\"}", 987}, {"heterps_train_loss", 0.75},
        {"heterps_train_examples_per_second", 1234.5}, {"heterps_train_window", (double)NAN},
        {"heterps_train_ram_rows{table=\"emb\"}", (double)NAN}, {"heterps_train_saves_total", 2},
        {"heterps_train_saved_step", 75}, {"heterps_train_save_seconds_total", 1.75},
        {"heterps_train_last_save_seconds", 0.25}, {"heterps_train_seconds_total", 8},
        {"heterps_train_pause_seconds_total", 2}, {"heterps_train_workers", 2},
        {"heterps_train_worker_seconds_total{phase=\"forward\"}", 3},
        {"heterps_train_worker_seconds_total{phase=\"backward\"}", 5},
        {"heterps_train_worker_seconds_total{phase=\"update\"}", 4},
        {"heterps_train_reading_seconds_total{phase=\"parsing\"}", 0},
        {"heterps_train_reading_seconds_total{phase=\"rows\"}", 0}, {"heterps_train_time_share{phase=\"reading\"}", 0},
        {"heterps_train_time_share{phase=\"computing\"}", 0.75}, {"heterps_train_time_share{phase=\"waiting\"}", 0.25},
        {"heterps_train_time_share{phase=\"paused\"}", 0.2}, {"heterps_train_rank", (double)NAN});

    /* Figures of losses, of which one cannot be told. */
    for (int k = 0; k < 2; k++)
        snprintf(key[k], sizeof key[k], "heterps_train_figure{head=\"bce\",figure=\"%s\"}",
                 heads.items[0].figures[k].key);
    heads.items[0].values[0] = (double)NAN;
    heads.items[0].values[1] = 0.375;
    told(watch, &heads, 5000, 0.5);
    CHECK_FIGURES(answer("GET /metrics"), {"heterps_train_window", 5000}, {"heterps_train_loss", 0.5},
                  {key[0], (double)NAN}, {key[1], 0.375});
    heads.items[0].values[0] = 0.625;
    told(watch, &heads, 5001, 0.5);
    CHECK_FIGURES(answer("GET /metrics"), {"heterps_train_window", 5001}, {key[0], 0.625}, {key[1], 0.375});

    /* What threads are at; and all is written as the format wants it. */
    doing_begin(DOING_save);
    doing_begin(DOING_save);
    text = answer("GET /metrics");
    doing_end(DOING_save);
    doing_end(DOING_save);
    CHECK_FIGURES(text, {"heterps_train_doing{what=\"save\"}", 2}, {"heterps_train_doing{what=\"eval\"}", 0});
    assert_has_heads(text);

    /* Whoever asks is no part of the steady state. */
    if (steady_counts_work()) {
        const struct steady_counts before = steady_counts();
        steady_begin();
        (void)answer("GET /metrics");
        steady_end();
        assert_int_equal(steady_counts().allocations, before.allocations);
        assert_int_equal(steady_counts().locks, before.locks);
    }

    /* Workers whose times end a little later than the clock's are at work all the time. */
    const struct train_look later = {
        .times = {.wall_ns = UINT64_C(8000000000), .busy_ns = {UINT64_C(17000000000)}, .worker_count = 2}};
    watch->looked(watch->context, &later);
    CHECK_FIGURES(answer("GET /metrics"), {"heterps_train_time_share{phase=\"waiting\"}", 0});

    answers("POST /metrics", "405", "Allow: GET, HEAD");
    answers("GET /", "404", "there is nothing here; GET /metrics has figures of the training");
    watch->looked(watch->context, &(struct train_look){.times = look.times, .is_over = true});
    answers("GET /readyz", "503", "training is ending");
    watch->ending(watch->context);
    answers("GET /readyz", "503", "training is ending");
    CHECK_FIGURES(answer("GET /metrics"), {"heterps_train_step", (double)NAN}, {"heterps_train_saves_total", 2});
    scrape_close(scrape);
    feed_close(feed);
    heads_close(&heads);
    opened_end(&o);
    opened_close(&o);
}

/* A node listens so much above the port as its rank says, up to the last port; port 0 is any. */
static void scrape_check__ranks__have_ports_of_their_own(void **state)
{
    (void)state;
    assert_int_equal(scrape_check(&(struct scrape_options){.listen = "127.0.0.1:65533", .rank = 3}), ST_USAGE);
    assert_message("--metrics 127.0.0.1:65533: node 3 would listen at the port plus its rank, which is above 65535");
    status st = scrape_check(&(struct scrape_options){.listen = "127.0.0.1:65533", .rank = 2});
    if (st != ST_OK) assert_message("127.0.0.1:65535"); /* somebody has it */
    assert_ok(scrape_check(&(struct scrape_options){.listen = "127.0.0.1:0", .rank = 3}));
    assert_int_equal(scrape_check(&(struct scrape_options){.listen = "127.0.0.1:70000", .rank = 3}), ST_USAGE);
    assert_message("expected ADDR:PORT in numbers");
    assert_int_equal(scrape_check(&(struct scrape_options){.listen = "0.0.0.0:0"}), ST_USAGE);
    assert_ok(scrape_check(&(struct scrape_options){.listen = "0.0.0.0:0", .insecure = true}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scrape__what_a_training_tells__is_answered),
        cmocka_unit_test(scrape_check__ranks__have_ports_of_their_own),
    };
    return cmocka_run_group_tests(tests, session_fixture_open, session_fixture_close) ? 1 : 0;
}
