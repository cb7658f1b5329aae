/* What is told of a plan that was made for a cluster, at the start and when it is
 * changed; what it promises is made up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/run/session_fixture.h"

#include "engine/run/report.h"

static struct solution promised;
static uint32_t asked_micro, asked_cores;
static double expected(uint32_t micro_count, uint32_t core_count)
{
    asked_micro = micro_count;
    asked_cores = core_count;
    return 12345.5;
}
#define replanner_expected(replanner, micro_count, core_count) expected(micro_count, core_count)
#define replanner_solution(replanner)                          (&promised)
#include "engine/run/report.c"

static struct opened o;

static void replanned(enum log_format format, const char *const *set, bool is_changed)
{
    struct report r = {.session = &o.session};
    opened_begin(&o, set, format);
    o.session.replanner = (struct replanner *)&promised; /* that there is one */
    report_replan(&r, 40, "stage 1 is slower", is_changed);
    o.session.replanner = NULL;
    opened_end(&o);
}

static void report_replan__changed_or_not__line_and_event(void **state)
{
    (void)state;
    char wanted[700], plan[512];
    replanned(LOG_TEXT, NULL, true);
    plan_text(&o.session.crew.plan, &o.session.setup.graph, plan, sizeof plan);
    snprintf(wanted, sizeof wanted, "replan   step 40: stage 1 is slower; now %s: 12,345 samples/s expected\n", plan);
    assert_string_equal(o.text, wanted);
    opened_close(&o);
    replanned(LOG_TEXT, NULL, false);
    assert_string_equal(o.text, "");
    opened_close(&o);
    for (int is_changed = 0; is_changed < 2; is_changed++) {
        replanned(LOG_JSON, NULL, is_changed);
        assert_string_equal(event_steps(&o, "replan"), "40");
        assert_string_equal(event_text(&o, "replan", "why"), "stage 1 is slower");
        assert_string_equal(event_text(&o, "replan", "plan"), plan);
        assert_true(event_number(&o, "replan", "samples_per_s") == 12345.5);
        assert_true(event_number(&o, "replan", "changed") == is_changed);
        opened_close(&o);
    }
}

/* A plan is asked for what it gives with the micro-batches of a step, or, where steps do
 * not drain it, without end. */
static void report_replan__by_synchronisation__asks_for_steps_or_without_end(void **state)
{
    (void)state;
    static const char *const bsp[] = {"train.micro=8", "train.lanes=1", NULL}, *const wsp[] = {"train.sync=wsp",
                                                                                               "train.lanes=1", NULL};
    replanned(LOG_JSON, bsp, true);
    assert_int_equal(asked_micro, 4);
    assert_int_equal(asked_cores, 2);
    opened_close(&o);
    replanned(LOG_JSON, wsp, true);
    assert_int_equal(asked_micro, UINT32_MAX);
    opened_close(&o);
}

static void report_start__planned_for_a_cluster__says_what_it_promises(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct report r;
        opened_begin(&o, NULL, i == 2 ? LOG_JSON : LOG_TEXT);
        o.session.replanner = (struct replanner *)&promised;
        promised = (struct solution){.is_proven = i != 1};
        promised.method = "greedy";
        promised.result.cost = 0.125;
        promised.result.throughput = 777;
        report_start(&r, &o.session);
        o.session.replanner = NULL;
        opened_end(&o);
        if (i == 0) assert_told(&o, "planned  proven optimal: 12,345 samples/s expected here, 0.125 USD\n");
        if (i == 1) assert_told(&o, "planned  by greedy: 12,345 samples/s expected here, 0.125 USD\n");
        if (i == 2) {
            assert_string_equal(event_text(&o, "planned", "method"), "greedy");
            assert_true(event_number(&o, "planned", "proven") == 1);
            assert_true(event_number(&o, "planned", "samples_per_s") == 12345.5);
            assert_true(event_number(&o, "planned", "throughput") == 777);
            assert_true(event_number(&o, "planned", "cost") == 0.125);
        }
        opened_close(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(report_replan__changed_or_not__line_and_event),
        cmocka_unit_test(report_replan__by_synchronisation__asks_for_steps_or_without_end),
        cmocka_unit_test(report_start__planned_for_a_cluster__says_what_it_promises),
    };
    return cmocka_run_group_tests(tests, session_fixture_open, session_fixture_close) ? 1 : 0;
}
