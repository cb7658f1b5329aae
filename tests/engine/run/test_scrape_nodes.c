/* A training's figures over HTTP, of several nodes: each under its own name, of nodes that are made up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/run/session_fixture.h"

#include "engine/node/probe.h"
#include "engine/node/stream.h"
#include "engine/run/train.h"

/* Three nodes, of the job's ranks 0, 2 and 5; this one is the second. */
static const uint32_t ranks[] = {0, 2, 5};
#define node_reduce(node)      ((void)(node), (struct reduce *)NULL)
#define node_count(node)       ((void)(node), 3u)
#define node_index(node)       ((void)(node), 1u)
#define node_rank(node, n)     ((void)(node), ranks[n])
#define node_waits(node)       ((void)(node), UINT64_C(1) << 5 | UINT64_C(1) << 1)
#define reduce_sent_bytes(r)   ((void)(r), UINT64_C(70000))
#define reduce_least_bytes(r)  ((void)(r), UINT64_C(1000))
#define reduce_stream_bytes(r) ((void)(r), UINT64_C(30))
#define reduce_rows(r)         ((void)(r), (struct reduce_rows){.asked = 4321, .early = 1234, .least_bytes = 200})
#define reduce_rounds(r)                                                                                               \
    ((void)(r), (struct reduce_rounds){.ns = UINT64_C(4500000000), .last_ns = {1500000000, 999, 250000000}})
#include "engine/run/scrape.c"

static void scrape__several_nodes__what_each_has_done(void **state)
{
    (void)state;
    static struct scrape s;
    static char node;
    struct evbuffer *to = evbuffer_new();
    assert_non_null(to);
    PUT(s.shared_step, 25);
    PUT(s.shared_begun_step, 5);
    nodes_put(&s, NULL, to);
    assert_int_equal(evbuffer_get_length(to), 0);
    nodes_put(&s, (struct node *)&node, to);
    assert_int_equal(evbuffer_add(to, "", 1), 0);
    const char *text = (const char *)evbuffer_pullup(to, -1);
    static const char *const lines[] = {
        "# TYPE heterps_train_rank gauge\nheterps_train_rank 2\n",
        "# TYPE heterps_train_nodes gauge\nheterps_train_nodes 3\n",
        "# TYPE heterps_train_sent_bytes_total counter\nheterps_train_sent_bytes_total 70000\n",
        "# TYPE heterps_train_sent_bytes_least_total counter\nheterps_train_sent_bytes_least_total 20230\n",
        "# TYPE heterps_train_asked_rows_total counter\nheterps_train_asked_rows_total 4321\n",
        "# TYPE heterps_train_early_rows_total counter\nheterps_train_early_rows_total 1234\n",
        "# TYPE heterps_train_round_seconds_total counter\nheterps_train_round_seconds_total 4.5\n",
        "# TYPE heterps_train_round_last_seconds_total counter\n"
        "heterps_train_round_last_seconds_total{node=\"0\"} 1.5\n"
        "heterps_train_round_last_seconds_total{node=\"5\"} 0.25\n#",
        "# TYPE heterps_train_waits_for gauge\nheterps_train_waits_for{node=\"0\"} 0\n"
        "heterps_train_waits_for{node=\"5\"} 1\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (strstr(text, lines[i]) == NULL) fail_msg("\"%s\" is not in: %s", lines[i], text);
    assert_string_equal(text + strlen(text) - strlen("} 1\n"), "} 1\n"); /* and no more */
    evbuffer_free(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scrape__several_nodes__what_each_has_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
