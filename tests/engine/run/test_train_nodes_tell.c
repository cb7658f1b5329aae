/* What node 0 tells of all nodes at the end of a training, from accounts that are made up:
 * the table, and the event. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/run/session_fixture.h"

#include <math.h>

#include "engine/run/train_nodes_tell.c"

static struct graph tables = {.table_count = 1}, dense;
static struct opened told;

/* What is told of them: told.text, told.events. */
static void accounts_told(const struct graph *graph, enum log_format format, const struct account *all, uint32_t count,
                          uint64_t steps)
{
    const struct trainer t = {.graph = graph};
    memset(&told, 0, sizeof told);
    assert_ok(scope_open(&told.scope));
    told.before = scope_enter(told.scope);
    log_open(format, 0);
    opened_keep(&told);
    accounts_tell(&t, count, steps, all);
    opened_end(&told);
    scope_enter(told.before);
    scope_close(told.scope);
}

static void assert_number(const json_t *object, const char *name, double wanted)
{
    const json_t *value = json_object_get(object, name);
    if (!json_is_number(value) || fabs(json_number_value(value) - wanted) > 1e-9)
        fail_msg("%s: expected %g, found %g", name, wanted, json_number_value(value));
}

/* Of three nodes, the last of which has rows alone; and for whom each has waited. */
static const struct account by_lanes[3] = {
    {.rank = 0,
     .lane_begin = 0,
     .lane_count = 5,
     .wall_ns = 1000,
     .worker_count = 2,
     .busy_ns = {[WORK_FORWARD] = 500, [WORK_BACKWARD] = 800, [WORK_UPDATE] = 120},
     .reading_ns = 410,
     .sent_bytes = 6000000,
     .rows = 3000000,
     .asked_rows = 4000,
     .early_rows = 2800,
     .least_a_step = 400000,
     .rounds = {.ns = 300, .last_ns = {0, 120, 45}}},
    {.rank = 2,
     .lane_begin = 5,
     .lane_count = 3,
     .wall_ns = 2000,
     .worker_count = 1,
     .busy_ns = {[WORK_FORWARD] = 500, [WORK_BACKWARD] = 700, [WORK_UPDATE] = 20},
     .reading_ns = 100,
     .sent_bytes = 5000,
     .rows = 0,
     .asked_rows = 0,
     .least_a_step = 0,
     .rounds = {.ns = 100, .last_ns = {70, 0, 5}}},
    {.rank = 3,
     .wall_ns = 1000,
     .worker_count = 1,
     .sent_bytes = 2048,
     .rows = 1000000,
     .asked_rows = 6000,
     .early_rows = 1200,
     .least_a_step = 102.4,
     .rounds = {.ns = 500, .last_ns = {30, 20, 0}}},
};

static void accounts_tell__lanes__a_line_each(void **state)
{
    (void)state;
    accounts_told(&tables, LOG_TEXT, by_lanes, 3, 10);
    assert_string_equal(
        told.text, "nodes    node    lanes  forward  backward  update  reading  exchange  came last        sent  "
                   "of least           rows      asked for\n"
                   "nodes       0      0-4      25%       40%      6%      41%       30%        17%     5.7 MiB      "
                   "1.50      3,000,000          4,000\n"
                   "nodes       2      5-7      25%       35%      1%       5%        5%        18%     "
                   "4.9 KiB         -              0              0\n"
                   "nodes       3     none       0%        0%      0%       0%       50%        12%     2.0 KiB      "
                   "2.00      1,000,000          6,000\n"
                   "nodes    the node with the most rows has 1.50 times the mean; "
                   "the node asked for the most rows, 1.20 times\n"
                   "nodes    of the rows that nodes were asked for, "
                   "40% were sent before the update of the step in front\n");
    json_decref(told.events);
}

static void accounts_tell__lanes__the_event_has_the_same(void **state)
{
    (void)state;
    accounts_told(&tables, LOG_JSON, by_lanes, 3, 10);
    assert_string_equal(told.text, "");
    assert_int_equal(json_array_size(told.events), 1);
    const json_t *event = event_last(&told, "nodes"), *each = json_object_get(event, "each");
    assert_number(event, "nodes", 3);
    assert_number(event, "sent_bytes", 6000000);
    assert_number(event, "sent_bytes_a_step", 600000);
    assert_number(event, "sent_bytes_least", 400000);
    assert_number(event, "rows_skew", 1.5);
    assert_number(event, "asked_skew", 1.2);
    assert_int_equal(json_array_size(each), 3);
    static const struct {
        const char *name;
        double value[3];
    } fields[] = {
        {"rank", {0, 2, 3}},
        {"lane_begin", {0, 5, 0}},
        {"lanes", {5, 3, 0}},
        {"forward", {0.25, 0.25, 0}},
        {"backward", {0.4, 0.35, 0}},
        {"update", {0.06, 0.01, 0}},
        {"reading", {0.41, 0.05, 0}},
        {"exchange", {0.3, 0.05, 0.5}},
        {"came_last", {100 / 600.0, 140 / 800.0, 50 / 400.0}},
        {"sent_bytes", {6000000, 5000, 2048}},
        {"sent_bytes_a_step", {600000, 500, 204.8}},
        {"sent_bytes_least", {400000, 0, 102.4}},
        {"rows", {3000000, 0, 1000000}},
        {"asked_rows", {4000, 0, 6000}},
        {"early_rows", {2800, 0, 1200}},
    };
    for (size_t n = 0; n < 3; n++) {
        const json_t *one = json_array_get(each, n);
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
            assert_number(one, fields[i].name, fields[i].value[n]);
        assert_int_equal(json_object_size(one), sizeof fields / sizeof *fields);
    }
    json_decref(told.events);
}

/* No line compares nodes by their rows. */
static void assert_no_rows(void)
{
    assert_null(strstr(told.text, "the node with the most rows"));
    assert_null(strstr(told.text, "of the rows that nodes were asked for"));
}

/* Nodes without tables say nothing of rows; nor does one node say how it compares with others. */
static void accounts_tell__no_tables_or_one_node__no_word_about_rows(void **state)
{
    (void)state;
    struct account all[2] = {{.rank = 0, .lane_count = 1, .sent_bytes = 100, .least_a_step = 10},
                             {.rank = 1, .lane_begin = 1, .lane_count = 2}};
    accounts_told(&dense, LOG_JSON, all, 2, 5);
    const json_t *event = event_last(&told, "nodes");
    assert_null(json_object_get(event, "rows_skew"));
    assert_null(json_object_get(event, "asked_skew"));
    json_decref(told.events);
    accounts_told(&dense, LOG_TEXT, all, 2, 5);
    assert_told(&told, "\nnodes       0      0-0       0%        0%      0%       0%        0%         0%       "
                       "100 B      2.00              0              0\n");
    assert_no_rows();
    json_decref(told.events);
    all[0].rows = all[0].asked_rows = 7;
    accounts_told(&tables, LOG_TEXT, all, 1, 5);
    assert_no_rows();
    json_decref(told.events);
    accounts_told(&tables, LOG_TEXT, all, 2, 5);
    assert_told(&told, "nodes    the node with the most rows has 1.00 times the mean; "
                       "the node asked for the most rows, 1.00 times\n");
    json_decref(told.events);
    /* Rows that nobody has any more have been asked for: that node counts as one that holds some. */
    all[1].asked_rows = 21;
    accounts_told(&tables, LOG_TEXT, all, 2, 5);
    assert_told(&told, "nodes    the node with the most rows has 2.00 times the mean; "
                       "the node asked for the most rows, 1.50 times\n");
    assert_null(strstr(told.text, "of the rows that nodes were asked for")); /* none was early */
    json_decref(told.events);
}

static void accounts_tell__stages__named_in_place_of_lanes(void **state)
{
    (void)state;
    const struct account all[3] = {{.rank = 0, .stages = 7 | 32, .rows = 5, .asked_rows = 5},
                                   {.rank = 1, .stages = 8, .rows = 1, .asked_rows = 5},
                                   {.rank = 2, .stages = 16 | UINT64_C(1) << 62 | UINT64_C(1) << 63}};
    accounts_told(&tables, LOG_TEXT, all, 3, 1);
    assert_told(&told, "nodes    node   stages  forward");
    assert_told(&told, "\nnodes       0    0-2,5  ");
    assert_told(&told, "\nnodes       1        3  ");
    assert_told(&told, "\nnodes       2  4,62-63  ");
    assert_no_rows();
    json_decref(told.events);
    accounts_told(&tables, LOG_JSON, all, 3, 1);
    const json_t *each = json_object_get(event_last(&told, "nodes"), "each");
    static const char *const wanted[3] = {"0-2,5", "3", "4,62-63"};
    for (size_t n = 0; n < 3; n++)
        assert_string_equal(json_string_value(json_object_get(json_array_get(each, n), "stages")), wanted[n]);
    json_decref(told.events);
}

static void accounts_tell__workers__numbered_in_place_of_lanes(void **state)
{
    (void)state;
    const struct account all[2] = {{.rank = 0, .is_worker = true, .rows = 5, .asked_rows = 5},
                                   {.rank = 3, .is_worker = true, .rows = 1, .asked_rows = 5}};
    accounts_told(&tables, LOG_TEXT, all, 2, 1);
    assert_told(&told, "nodes    node   worker  forward");
    assert_told(&told, "\nnodes       0        0  ");
    assert_told(&told, "\nnodes       3        1  ");
    assert_no_rows();
    json_decref(told.events);
}

/* The longest text that has room, and one that has none. */
static void stages_text__little_room__ends_within_it(void **state)
{
    (void)state;
    char text[24];
    assert_string_equal(stages_text(0, text, sizeof text), "");
    assert_string_equal(stages_text(UINT64_MAX, text, sizeof text), "0-63");
    assert_string_equal(stages_text(5, text, 3), "0,");
    assert_string_equal(stages_text(UINT64_C(0x5555555555555555), text, sizeof text), "0,2,4,6,8,10,12,14,16,1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accounts_tell__lanes__a_line_each),
        cmocka_unit_test(accounts_tell__lanes__the_event_has_the_same),
        cmocka_unit_test(accounts_tell__no_tables_or_one_node__no_word_about_rows),
        cmocka_unit_test(accounts_tell__stages__named_in_place_of_lanes),
        cmocka_unit_test(accounts_tell__workers__numbered_in_place_of_lanes),
        cmocka_unit_test(stages_text__little_room__ends_within_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
