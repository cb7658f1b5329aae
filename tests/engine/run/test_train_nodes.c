/* Trainings on several nodes, each a session on a thread of its own: what they refuse to begin with, what
 * each says at the end of what all have done, and where they stop. Ten steps of 32 examples are a pass. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/run/session_fixture.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>

#include "engine/base/stop.h"
#include "engine/run/train.h"

#define BATCH     32u
#define STEPS     10u
#define NODES_MAX 3u

static char data_path[256], eval_path[256];

static int group_open(void **state) { return session_fixture_open_data(state, STEPS * BATCH, data_path, eval_path); }

/* --- nodes -------------------------------------------------------------------------------------- */

struct run_member {
    /* given */
    const char *set[8], *lanes;
    struct train_options train;
    /* its own */
    struct session_nodes nodes;
    struct scope *scope;
    struct session session;
    pthread_t thread;
    status st;
    struct failure failure;
};
static struct run_member members[NODES_MAX];
static char graph_path[256];

static void *member_main(void *context)
{
    struct run_member *m = context;
    uint32_t count = 0;
    scope_enter(m->scope);
    log_open(members[0].set[7] ? LOG_TEXT : LOG_JSON, m->nodes.place.rank == 0 ? 0 : -1);
    log_node(m->nodes.place.rank, m->nodes.place.rank == 0);
    while (count < 7 && m->set[count]) count++;
    const struct session_options options = {
        .setup = {.graph_path = graph_path, .set = m->set, .set_count = count, .training = true},
        .crew = {.threads = 1, .share = true},
        .nodes = &m->nodes};
    m->st = session_open(&m->session, &options);
    const bool is_open = m->st == ST_OK;
    bool is_shared = false;
    if (is_open) m->st = train_data_share(&m->session, m->train.data, &is_shared);
    if (m->st == ST_OK && !is_shared && node_computes(m->session.node))
        m->st = model_data_look(&m->session.setup.model.data, m->train.data, NULL);
    if (m->st == ST_OK && m->train.out && m->nodes.place.rank == 0)
        m->st = model_dir_check(&m->session.setup.graph, m->train.out);
    if (m->st == ST_OK)
        m->st = train_run(&m->session, &m->train);
    else if (is_open)
        m->st = session_end(&m->session, m->st);
    failure_keep(&m->failure, m->st);
    if (is_open) session_close(&m->session);
    return NULL;
}

/* A socket that listens on loopback, at a port that is free. */
static int socket_listen(struct address *here)
{
    socklen_t bytes = sizeof here->v4;
    assert_ok(address_parse(here, "127.0.0.1:0", 0));
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && bind(fd, &here->any, bytes) == 0 && getsockname(fd, &here->any, &bytes) == 0 &&
                listen(fd, 16) == 0);
    return fd;
}

/* All on the data, unless they say otherwise; `as_text`: what node 0 says is text, else events. */
static void members_run(struct opened *o, uint32_t count, bool as_text)
{
    struct node_place place = {.count = count};
    int fd[NODES_MAX];
    memset(o, 0, sizeof *o);
    snprintf(graph_path, sizeof graph_path, "%s", fixture_path("small.bin"));
    for (uint32_t n = 0; n < count; n++) fd[n] = socket_listen(&place.address[n]);
    opened_keep(o);
    for (uint32_t n = 0; n < count; n++) {
        struct run_member *m = &members[n];
        if (m->train.data == NULL) m->train.data = data_path;
        m->set[7] = as_text ? "" : NULL;
        place.rank = n;
        place.listen_fd = fd[n];
        m->nodes =
            (struct session_nodes){.place = place, .verb = "train", .saves = m->train.out != NULL, .lanes = m->lanes};
        assert_ok(scope_open(&m->scope));
        assert_int_equal(pthread_create(&m->thread, NULL, member_main, m), 0);
    }
    for (uint32_t n = 0; n < count; n++) {
        assert_int_equal(pthread_join(members[n].thread, NULL), 0);
        scope_close(members[n].scope);
    }
    opened_end(o);
}

static void members_are_well(uint32_t count)
{
    for (uint32_t n = 0; n < count; n++)
        if (members[n].st != ST_OK) fail_msg("node %u: %s", n, members[n].failure.message);
}

/* How all of them have ended: a piece of what each says, where one wants it. */
static void assert_ended(uint32_t node, status st, const char *part)
{
    const struct run_member *m = &members[node];
    if (m->st != st || strstr(m->failure.message, part) == NULL)
        fail_msg("node %u: \"%s\" is not in: %s", node, part, m->failure.message);
}

/* Nothing but lanes for all of them. */
static void members_clear(void)
{
    memset(members, 0, sizeof members);
    for (uint32_t n = 0; n < NODES_MAX; n++) members[n].set[0] = "train.lanes=8";
}

/* --- what they begin with ------------------------------------------------------------------------ */

/* A copy of the data with another first byte. */
static void other_put(const char *path)
{
    fixture_data(path, 0, STEPS * BATCH, NULL);
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    const int first = fgetc(file);
    assert_true(fseek(file, 0, SEEK_SET) == 0 && fputc(first == '0' ? '1' : '0', file) != EOF && fclose(file) == 0);
}

static void train_run__nodes_read_other_data__say_which(void **state)
{
    (void)state;
    char shorter[256], other[256], two[600], told[400];
    struct opened o;
    snprintf(shorter, sizeof shorter, "%s", fixture_path("shorter.tsv"));
    fixture_data(shorter, 0, STEPS * BATCH - 1, NULL);
    snprintf(other, sizeof other, "%s", fixture_path("other.tsv"));
    other_put(other);
    snprintf(two, sizeof two, "%s,%s", data_path, eval_path);
    struct stat a, b;
    assert_true(stat(data_path, &a) == 0 && stat(shorter, &b) == 0);
    snprintf(told, sizeof told, "it reads other data: its %s has %llu bytes, and that of node 0 %llu", shorter,
             (unsigned long long)b.st_size, (unsigned long long)a.st_size);
    const struct {
        const char *data[2], *eval[2], *told;
    } cases[] = {
        {{two, data_path}, {NULL}, "it reads other data: 1 files, and node 0 2"},
        {{data_path, two}, {NULL}, "it reads other data: 2 files, and node 0 1"},
        {{data_path, shorter}, {NULL}, told},
        {{data_path, other}, {NULL}, "other.tsv has as many bytes as that of node 0, but different ones"},
        {{NULL}, {data_path, other}, "other.tsv has as many bytes as that of node 0, but different ones"},
        {{NULL}, {eval_path, data_path}, "data.tsv has "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        members_clear();
        for (uint32_t n = 0; n < 2; n++) {
            members[n].train.data = cases[i].data[n];
            if (cases[i].eval[n]) members[n].train.eval = eval_sets_of(cases[i].eval[n]);
        }
        members_run(&o, 2, true);
        for (uint32_t n = 0; n < 2; n++) assert_ended(n, ST_MISMATCH, cases[i].told);
        assert_ended(0, ST_MISMATCH, "node 1");
        json_decref(o.events);
    }
}

/* The second of two files may be another one, too; and names alone say nothing. */
static void train_run__nodes_read_other_last_files__say_which(void **state)
{
    (void)state;
    char same[256], both[2][600];
    struct opened o;
    snprintf(same, sizeof same, "%s", fixture_path("same.tsv"));
    fixture_data(same, 0, STEPS * BATCH, NULL);
    snprintf(both[0], sizeof both[0], "%s,%s", data_path, data_path);
    snprintf(both[1], sizeof both[1], "%s,%s", data_path, eval_path);
    members_clear();
    members[0].train.data = both[0];
    members[1].train.data = both[1];
    members_run(&o, 2, true);
    for (uint32_t n = 0; n < 2; n++) assert_ended(n, ST_MISMATCH, "eval.tsv has");
    json_decref(o.events);
    members_clear();
    snprintf(both[1], sizeof both[1], "%s,%s", data_path, same);
    members[0].train.data = both[0];
    members[1].train.data = both[1];
    members_run(&o, 2, true);
    members_are_well(2);
    json_decref(o.events);
}

/* --- what they tell ------------------------------------------------------------------------------ */

static double number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    if (!json_is_number(value)) fail_msg("there is no number %s", name);
    return json_number_value(value);
}

/* Rows of all tables, as the end of a training tells them. */
static double event_rows(const struct opened *o)
{
    return number(json_object_get(event_last(o, "done"), "store"), "emb");
}

/* Lanes as they are given; rows as the end of the training has them. */
static void train_run__nodes_with_lanes__each_is_told(void **state)
{
    (void)state;
    struct opened o;
    static const double lanes[3] = {5, 0, 3}, begin[3] = {0, 5, 5};
    members_clear();
    for (uint32_t n = 0; n < 3; n++) members[n].lanes = "5,0,3";
    members_run(&o, 3, false);
    members_are_well(3);
    const json_t *event = event_last(&o, "nodes"), *each = json_object_get(event, "each");
    double rows = 0, asked = 0;
    assert_int_equal(json_array_size(each), 3);
    for (size_t n = 0; n < 3; n++) {
        const json_t *one = json_array_get(each, n);
        assert_true(number(one, "rank") == (double)n && number(one, "lanes") == lanes[n]);
        assert_true(number(one, "lane_begin") == begin[n]);
        assert_true(number(one, "sent_bytes_a_step") == number(one, "sent_bytes") / STEPS);
        const double sent = number(one, "sent_bytes") / STEPS / number(one, "sent_bytes_least");
        if (!(sent >= 1 && sent < 2)) fail_msg("node %zu has sent %g times the least", n, sent);
        for (int i = 0; i < 3; i++) {
            static const char *const work[3] = {"forward", "backward", "update"};
            const double share = number(one, work[i]);
            assert_true(share <= 1 && (n == 1 || share > 0));
        }
        assert_true((number(one, "reading") > 0) == (n != 1) && number(one, "reading") <= 1);
        assert_true(number(one, "exchange") > 0 && number(one, "exchange") <= 1);
        assert_true(number(one, "came_last") >= 0 && number(one, "came_last") <= 1);
        rows += number(one, "rows");
        asked += number(one, "asked_rows");
    }
    assert_true(rows == event_rows(&o) && rows > 500);
    assert_true(asked > rows && asked < 4 * rows);
    json_decref(o.events);
}

/* --- where saves go ------------------------------------------------------------------------------ */

/* Nodes that train two steps and save where each says. */
static void saved(struct opened *o, uint32_t count, const char *const *out, const char *const *resume)
{
    members_clear();
    for (uint32_t n = 0; n < count; n++) {
        members[n].set[1] = "train.steps_max=2";
        members[n].train.out = out[n];
        members[n].train.resume = resume ? resume[n] : NULL;
    }
    members_run(o, count, true);
    members_are_well(count);
    json_decref(o->events);
}

static void train_run__nodes_share_a_directory_or_not__who_writes_is_told(void **state)
{
    (void)state;
    char out[256], apart[256], line[700];
    struct opened o;
    snprintf(out, sizeof out, "%s", fixture_path("model"));
    snprintf(apart, sizeof apart, "%s", fixture_path("apart"));
    assert_int_equal(mkdir(apart, 0777), 0);
    saved(&o, 3, (const char *const[]){out, out, out}, NULL);
    assert_told(&o, "nodes    3, which have 3, 3 and 2 of 8 lanes; every node writes to --out\n");
    saved(&o, 3, (const char *const[]){out, out, apart}, NULL);
    assert_told(&o, "lanes; node 0 writes to --out, also for node 2, which does not share it\n");
    saved(&o, 3, (const char *const[]){out, apart, apart}, NULL);
    assert_told(&o, "lanes; node 0 writes to --out, also for nodes 1 and 2, which do not share it\n");
    assert_null(strstr(o.text, "has sent its save"));
    /* And where saves are read. */
    saved(&o, 3, (const char *const[]){out, out, out}, (const char *const[]){out, out, out});
    assert_null(strstr(o.text, "has sent its save"));
    saved(&o, 3, (const char *const[]){out, out, out}, (const char *const[]){out, apart, out});
    snprintf(line, sizeof line, "resume   this node has sent its save to node 1: %s does not have it there\n", out);
    assert_told(&o, line);
    saved(&o, 3, (const char *const[]){out, out, out}, (const char *const[]){out, apart, apart});
    assert_told(&o, "resume   this node has sent its save to nodes 1 and 2: ");
}

/* One goes on from a save, or otherwise from it, and one does not: both say so, whoever is which. */
static void train_run__nodes_begin_otherwise__both_say_how(void **state)
{
    (void)state;
    enum { NOTHING, INIT, RESUME, CONTINUE, KINDS };
    static const char *const words[] = {"without --init, --resume and --continue", "with --init", "with --resume",
                                        "with --continue"};
    char out[256], wanted[200];
    struct opened o;
    snprintf(out, sizeof out, "%s", fixture_path("start"));
    saved(&o, 2, (const char *const[]){out, out}, NULL);
    for (uint32_t pair = 0; pair < KINDS * KINDS; pair++) {
        const uint32_t kinds[2] = {pair / KINDS, pair % KINDS};
        members_clear();
        for (uint32_t n = 0; n < 2; n++) {
            members[n].set[1] = "train.steps_max=3";
            if (kinds[n] == INIT) members[n].train.init = out;
            if (kinds[n] == RESUME || kinds[n] == CONTINUE) members[n].train.resume = out;
            members[n].train.is_new_pass = kinds[n] == CONTINUE;
        }
        members_run(&o, 2, true);
        json_decref(o.events);
        if (kinds[0] == kinds[1]) {
            members_are_well(2);
            continue;
        }
        snprintf(wanted, sizeof wanted, "it begins %s, and node 0 %s: give all nodes the same", words[kinds[1]],
                 words[kinds[0]]);
        for (uint32_t n = 0; n < 2; n++) assert_ended(n, ST_MISMATCH, wanted);
    }
}

static void train_run__nodes_have_waves__how_long_is_told(void **state)
{
    (void)state;
    char out[256];
    struct opened o;
    snprintf(out, sizeof out, "%s", fixture_path("waves"));
    members_clear();
    for (uint32_t n = 0; n < 2; n++) {
        static const char *const set[] = {"train.lanes=1", "train.sync=wsp", "train.optimizer=sgd 0.01",
                                          "train.in_flight=2", "train.clock_distance=3"};
        memcpy(members[n].set, set, sizeof set);
        members[n].train.out = out;
    }
    members_run(&o, 2, true);
    members_are_well(2);
    assert_told(&o, "nodes    2 workers, whose waves have 2 minibatches; clock distance 3; "
                    "every node writes to --out\n");
    assert_told(&o, "nodes    node   worker  forward");
    json_decref(o.events);
}

/* --- where they stop ----------------------------------------------------------------------------- */

struct asker {
    struct run_member *member;
    uint64_t step;
};
static void on_begun(void *context, struct feed *feed, const struct progress *from)
{
    (void)context, (void)feed, (void)from;
}
static void on_ending(void *context) { (void)context; }
static void on_saved(void *context, const struct progress *progress, double seconds)
{
    (void)context, (void)progress, (void)seconds;
}
static void on_told(void *context, const struct report_progress *progress) { (void)context, (void)progress; }
static void on_step(void *context, const struct progress *progress, const uint64_t *row_count)
{
    const struct asker *asker = context;
    (void)row_count;
    if (progress->step == asker->step) stop_ask(asker->member->scope, SIGTERM);
}

/* Whichever is asked, all stop after one step, and say how to go on. */
static void train_run__one_node_is_asked_to_stop__all_say_how_to_go_on(void **state)
{
    (void)state;
    char out[256], wanted[400];
    struct opened o;
    snprintf(out, sizeof out, "%s", fixture_path("stopped"));
    for (uint32_t asked = 0; asked < 2; asked++) {
        struct asker asker = {.member = &members[asked], .step = 3};
        const struct train_watch watch = {.context = &asker,
                                          .begun = on_begun,
                                          .ending = on_ending,
                                          .saved = on_saved,
                                          .told = on_told,
                                          .step_done = on_step};
        members_clear();
        for (uint32_t n = 0; n < 2; n++) {
            members[n].set[1] = "train.epochs=100000";
            if (asked) members[n].train.out = out;
        }
        members[asked].train.watch = &watch;
        members_run(&o, 2, false);
        uint64_t step;
        assert_int_equal(sscanf(members[0].failure.message, "all nodes have stopped after step %" SCNu64, &step), 1);
        assert_true(step >= 3 && step < 100000);
        snprintf(wanted, sizeof wanted,
                 asked ? "all nodes have stopped after step %" PRIu64 "; the model is saved; go on with --resume %s"
                       : "all nodes have stopped after step %" PRIu64
                         "; nothing was saved, because --out DIR was not given",
                 step, out);
        for (uint32_t n = 0; n < 2; n++) {
            assert_int_equal(members[n].st, ST_AGAIN);
            assert_string_equal(members[n].failure.message, wanted);
        }
        assert_true(event_number(&o, "done", "step") == (double)step);
        json_decref(o.events);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(train_run__nodes_read_other_data__say_which),
        cmocka_unit_test(train_run__nodes_read_other_last_files__say_which),
        cmocka_unit_test(train_run__nodes_with_lanes__each_is_told),
        cmocka_unit_test(train_run__nodes_share_a_directory_or_not__who_writes_is_told),
        cmocka_unit_test(train_run__nodes_begin_otherwise__both_say_how),
        cmocka_unit_test(train_run__nodes_have_waves__how_long_is_told),
        cmocka_unit_test(train_run__one_node_is_asked_to_stop__all_say_how_to_go_on),
    };
    return cmocka_run_group_tests(tests, group_open, session_fixture_close) ? 1 : 0;
}
