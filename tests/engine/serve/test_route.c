/* Which request is answered by whom, who may ask, and what becomes of lines on their
 * way to the model and back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/serve/served_test.h"

#define LINES "a,b,job\n1,2,x\n0,0,\n"
/* Of 1 + 4 - 3 and of -3. */
#define ANSWERS "0.880797078\n0.0474258732\n"

static void route__paths_and_methods__have_their_answers(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        int code;
        const char *header, *body;
    } cases[] = {
        {"POST /predict", 200, "Heterps-Version: 20\r\n", ANSWERS},
        {"POST /predict/line", 200, "Content-Type: text/plain; charset=utf-8\r\n", ANSWERS},
        {"POST /predict/none", 404, NULL, "there is no model of this name\n"},
        {"POST /predict/", 404, NULL, NULL},
        {"POST /predictx", 404, NULL, NULL},
        {"POST /predict/line/x", 404, NULL, "there is no model of this name\n"},
        {"GET /predict", 405, "Allow: POST\r\n", "this path takes POST\n"},
        {"GET /healthz", 200, "X-Content-Type-Options: nosniff\r\n", "ok\n"},
        {"POST /healthz", 405, "Allow: GET, HEAD\r\n", "this path takes GET\n"},
        {"GET /healthz/", 404, NULL, NULL},
        {"GET /readyz", 200, NULL, "ok\n"},
        {"GET /metrics", 200, "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n", NULL},
        {"POST /metrics", 405, NULL, NULL},
        {"GET /version/line", 200, "Content-Type: application/json\r\n", NULL},
        {"GET /", 200, "Content-Type: text/html; charset=utf-8\r\n", NULL},
        {"GET /page/line", 200, NULL, NULL},
        {"GET /page/none", 404, NULL, NULL},
        {"GET /figures", 200, NULL, NULL},
        {"GET /v2", 200, NULL, NULL},
        {"GET /v2x", 404, "Content-Type: text/plain; charset=utf-8\r\n",
         "there is nothing here; POST /predict takes lines of the model's data\n"},
        {"GET /v2/none", 404, "Content-Type: application/json\r\n", "{\"error\":\"there is nothing here\"}\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        served_check(served_ask(&server, cases[i].what, "", cases[i].what[0] == 'P' ? LINES : ""), cases[i].code,
                     cases[i].header, cases[i].body);
}

static void route__a_connection__answers_one_request_after_the_other(void **state)
{
    (void)state;
    int fd = served_connect(&server);
    for (int i = 0; i < 3; i++) {
        served_check(served_ask_on(fd, "POST /predict", "", LINES), 200, NULL, ANSWERS);
        served_check(served_ask_on(fd, "POST /predict", "", ""), 200, NULL, "");
    }
    close(fd);
}

static void route__another_origin__may_only_look(void **state)
{
    (void)state;
    static const struct {
        const char *what, *origin;
        int code;
    } cases[] = {
        {"POST /predict", "Origin: http://here\r\n", 200},     {"POST /predict", "Origin: https://HERE\r\n", 200},
        {"POST /predict", "Origin: http://there\r\n", 403},    {"POST /predict", "Origin: null\r\n", 403},
        {"POST /v2/models/line", "Origin: http://h\r\n", 403}, {"GET /healthz", "Origin: http://there\r\n", 200},
        {"POST /predict", "Origin: http://here.to\r\n", 403},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        served_check(served_ask(&server, cases[i].what, cases[i].origin, LINES), cases[i].code, NULL, NULL);
}

static void route__tokens__are_asked_of_all_but_health(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        bool is_open;
    } cases[] = {{"GET /healthz", true},         {"GET /readyz", true}, {"GET /v2/health/live", true},
                 {"GET /v2/health/ready", true}, {"GET /", false},      {"GET /metrics", false},
                 {"POST /predict", false},       {"GET /v2", false},    {"GET /v2/models/line", false},
                 {"GET /version", false},        {"GET /page", false},  {"GET /figures", false}};
    const char *path = fixture_path("tokens");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("0123456789abcdef\n", file);
    assert_int_equal(fclose(file), 0);
    struct serve_options o = served_options();
    o.token_file = path;
    struct running guarded = served_start(&o);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *body = cases[i].what[0] == 'P' ? LINES : "";
        served_check(served_ask(&guarded, cases[i].what, "", body), cases[i].is_open ? 200 : 401,
                     cases[i].is_open ? NULL : "WWW-Authenticate: Basic realm=\"heterps\"\r\n", NULL);
        served_check(served_ask(&guarded, cases[i].what, "Authorization: Bearer 0123456789abcdef\r\n", body), 200, NULL,
                     NULL);
        served_check(served_ask(&guarded, cases[i].what, "Authorization: Bearer 0123456789abcdeg\r\n", body),
                     cases[i].is_open ? 200 : 401, NULL, NULL);
    }
    assert_int_equal(served_end(&guarded), 0);
}

static void request__malformed_lines__are_nan_in_place_and_counted(void **state)
{
    (void)state;
    const char *answer = served_ask(&server, "POST /predict", "", "a,b,job\n0,0,\n0,z,\n1,2,\n0\n");
    served_check(answer, 200, "Heterps-Bad-Lines: 2\r\n", "0.0474258732\nnan\n0.880797078\nnan\n");
    served_check(answer, 200, "Heterps-Bad-Line: line 3: column 2 (b): expected a number, found \"z\"\r\n", NULL);
    if (strstr(served_ask(&server, "POST /predict", "", LINES), "Heterps-Bad-Line")) fail_msg("no line was malformed");
    served_check(served_ask(&server, "POST /predict", "", "b,job\n2,x\n"), 400, NULL, NULL);
    served_has(served_ask(&server, "POST /predict", "", "b,job\n2,x\n"), "line 1: ");
}

static void request__packed__is_refused(void **state)
{
    (void)state;
    served_check(served_ask(&server, "POST /predict", "Content-Encoding: gzip\r\n", LINES), 415, NULL,
                 "expected a request that is not packed, found Content-Encoding gzip\n");
    served_check(served_ask(&server, "POST /predict", "Content-Encoding: identity\r\n", LINES), 200, NULL, ANSWERS);
}

/* Bodies may be as large as the largest model's; each model has a bound of its own. */
static void request__as_large_as_may_be__is_answered_and_one_byte_more_is_not(void **state)
{
    (void)state;
    struct graph graph;
    char wide[512], text[4096 + 2];
    snprintf(wide, sizeof wide, "%s", fixture_path("wide.bin"));
    served_compile(&graph, "wide.bin", "serve.body=64KiB");
    graph_close(&graph);
    const struct serve_model models[] = {{"line", served_graph, served_directory}, {"wide", wide, served_directory}};
    struct serve_options o = served_options();
    o.models = models;
    o.model_count = 2;
    struct running two = served_start(&o);
    memset(text, 'j', sizeof text); /* a long job in the last line */
    memcpy(text, LINES, strlen(LINES) - 1);
    text[4096] = 0;
    served_check(served_ask(&two, "POST /predict", "", text), 200, NULL, ANSWERS);
    served_check(served_ask(&two, "POST /predict/line", "", text), 200, NULL, ANSWERS);
    text[4096] = 'j', text[4097] = 0;
    served_check(served_ask(&two, "POST /predict/line", "", text), 413, NULL,
                 "a request has at most serve.body = 4096 bytes, this one 4097\n");
    served_check(served_ask(&two, "POST /predict/wide", "", text), 200, NULL, ANSWERS);
    served_has(served_ask(&two, "GET /metrics", "", ""), "heterps_http_held_bytes 0\n");
    assert_int_equal(served_end(&two), 0);
}

static void request__as_many_wait_as_may__a_further_one_is_to_ask_again(void **state)
{
    (void)state;
    static const char *const set[] = {"serve.wait=60000", "serve.queue=1"};
    static const char request[] = "POST /predict HTTP/1.1\r\nHost: h\r\nContent-Length: 19\r\n\r\n" LINES;
    struct serve_options o = served_options();
    o.set = set;
    o.set_count = 2;
    struct running one = served_start(&o);
    int other = served_connect(&one), fd = served_connect(&one);
    served_check(served_ask_on(other, "GET /readyz", "", ""), 200, NULL, NULL);
    served_send(fd, request, strlen(request));
    while (strstr(served_ask_on(other, "GET /metrics", "", ""), "\nheterps_requests_waiting{model=\"line\"} 1\n") ==
           NULL)
        usleep(1000);
    served_check(served_ask_on(other, "POST /predict", "", LINES), 503, "Retry-After: 1\r\n",
                 "too many requests wait; ask again\n");
    close(other); /* now nobody could ask besides */
    served_check(served_receive(fd), 200, NULL, ANSWERS);
    close(fd);
    assert_int_equal(served_end(&one), 0);
}

/* More lines than a micro-batch has, so that an answer comes in pieces. */
static void request__many_lines__are_answered_in_their_order(void **state)
{
    (void)state;
    static char text[4096], expected[4096];
    size_t at = (size_t)snprintf(text, sizeof text, "a,b,job\n"), end = 0;
    for (int i = 0; i < 100; i++) {
        at += (size_t)snprintf(text + at, sizeof text - at, i % 3 ? "1,2,x\n" : "0,0,\n");
        end += (size_t)snprintf(expected + end, sizeof expected - end, i % 3 ? "0.880797078\n" : "0.0474258732\n");
    }
    served_check(served_ask(&server, "POST /predict", "", text), 200, NULL, expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(route__paths_and_methods__have_their_answers),
        cmocka_unit_test(route__a_connection__answers_one_request_after_the_other),
        cmocka_unit_test(route__another_origin__may_only_look),
        cmocka_unit_test(route__tokens__are_asked_of_all_but_health),
        cmocka_unit_test(request__malformed_lines__are_nan_in_place_and_counted),
        cmocka_unit_test(request__packed__is_refused),
        cmocka_unit_test(request__as_large_as_may_be__is_answered_and_one_byte_more_is_not),
        cmocka_unit_test(request__as_many_wait_as_may__a_further_one_is_to_ask_again),
        cmocka_unit_test(request__many_lines__are_answered_in_their_order),
    };
    return cmocka_run_group_tests(tests, server_open, server_close) ? 1 : 0;
}
