/* Schedules of the learning rate: factors at chosen steps, and the reading of their text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "graph/schedule.h"

static struct graph_schedule parsed(const char *text)
{
    struct graph_schedule s;
    if (schedule_parse(text, RULES_NEWEST, &s) != ST_OK) fail_msg("%s", status_message());
    assert_int_equal(schedule_validate(&s), ST_OK);
    return s;
}

static void schedule_factor__chosen_steps__is_the_formula(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t t;
        double expected;
    } cases[] = {
        {"constant", 1, 1},
        {"constant", UINT64_MAX, 1},
        {"constant warmup=4", 1, 0.25},
        {"constant warmup=4", 3, 0.75},
        {"constant warmup=4", 4, 1},
        {"constant warmup=4", 5, 1},
        {"step every=10 factor=0.5", 1, 1},
        {"step every=10 factor=0.5", 10, 1},
        {"step every=10 factor=0.5", 11, 0.5},
        {"step every=10 factor=0.5", 31, 0.125},
        {"step every=10 factor=0.5 warmup=2", 2, 1},
        {"step every=10 factor=0.5 warmup=2", 12, 1},
        {"step every=10 factor=0.5 warmup=2", 13, 0.5},
        {"step every=1 factor=0", 2, 0},
        {"linear steps=4 floor=0", 1, 1},
        {"linear steps=4 floor=0", 2, 0.75},
        {"linear steps=4 floor=0", 4, 0.25},
        {"linear steps=4 floor=0", 5, 0},
        {"linear steps=4 floor=0", 1000, 0},
        {"linear steps=4 floor=0.5", 3, 0.75},
        {"linear steps=4 floor=0.5", 9, 0.5},
        {"linear steps=4 floor=0.5 warmup=8", 4, 0.5},
        {"linear steps=4 floor=0.5 warmup=8", 11, 0.75},
        {"cosine steps=4", 1, 1},
        {"cosine steps=4", 3, 0.5},
        {"cosine steps=4", 5, 0},
        {"cosine steps=4", 77, 0},
        {"cosine steps=4 floor=0.25", 5, 0.25},
        {"cosine steps=4 warmup=10", 11, 1},
        {"cosine steps=4 warmup=10", 15, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct graph_schedule s = parsed(cases[i].text);
        double factor = schedule_factor(&s, cases[i].t, 3);
        if (!(fabs(factor - cases[i].expected) <= 1e-15))
            fail_msg("%s at %llu: expected %.17g, found %.17g", cases[i].text, (unsigned long long)cases[i].t,
                     cases[i].expected, factor);
    }
    struct graph_schedule s = parsed("cosine steps=1000 floor=0.1 warmup=100");
    for (uint64_t t = 101; t < 1200; t++) {
        double part = t < 1101 ? (double)(t - 101) / 1000 : 1;
        const double expected = 0.1 + 0.9 * (1 + cos(3.14159265358979323846 * part)) / 2;
        assert_true(fabs(schedule_factor(&s, t, 0) - expected) < 1e-14);
    }
}

/* The first pass of `passes` is the same as of `constant`, to the bit: one pass over the data does not depend
 * on the schedule. */
static void schedule_factor__passes__falls_from_pass_to_pass(void **state)
{
    (void)state;
    struct graph_schedule s = parsed("passes"), root = parsed("passes power=0.5 warmup=4");
    assert_true(schedule_factor(&s, 1, 0) == 1 && schedule_factor(&s, 1000000, 0) == 1);
    for (uint64_t pass = 1; pass < 50; pass++)
        assert_true(fabs(schedule_factor(&s, 7, pass) * (double)(pass + 1) - 1) < 1e-14);
    assert_true(schedule_factor(&root, 3, 0) == 0.75 && schedule_factor(&root, 5, 0) == 1);
    assert_true(fabs(schedule_factor(&root, 5, 3) - 0.5) < 1e-15);
    s = parsed("passes power=0");
    assert_true(schedule_factor(&s, 1, 9) == 1);
}

static void schedule_parse__defaults__are_those_of_the_keys(void **state)
{
    (void)state;
    struct graph_schedule s = parsed(" step\tfactor=0.1 ");
    assert_int_equal(s.kind, SCHEDULE_ID_step);
    assert_true(s.param[0] == 0 && s.param[1] == 10000 && s.param[2] == 0.1);
    s = parsed("step");
    assert_true(s.param[0] == 0 && s.param[1] == 10000 && s.param[2] == 0.5);
    s = parsed("linear");
    assert_true(s.param[0] == 0 && s.param[1] == 100000 && s.param[2] == 0);
    s = parsed("cosine");
    assert_true(s.param[0] == 0 && s.param[1] == 100000 && s.param[2] == 0);
    s = parsed("passes");
    assert_true(s.param[0] == 0 && s.param[1] == 1 && s.param[2] == 0);
    s = parsed("constant");
    struct graph_schedule zeros = {0};
    assert_memory_equal(&s, &zeros, sizeof s); /* a header of zeros is constant */
}

/* Ends of the ranges belong to them. */
static void schedule_parse__ends_of_ranges__are_taken(void **state)
{
    (void)state;
    (void)parsed("constant warmup=1e15");
    (void)parsed("step every=1e15 factor=1");
    (void)parsed("step every=1 factor=0");
    (void)parsed("linear steps=1e15 floor=1");
    (void)parsed("cosine steps=1 floor=0");
    (void)parsed("passes power=0");
    (void)parsed("passes power=10");
}

static void schedule_parse__bad_text__says_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "found nothing"},
        {"cosin", "did you mean cosine"},
        {"exponential", "expected one of constant step linear cosine passes, found"},
        {"constant 5", "KEY=VALUE after constant"},
        {"constant every=5", "expected a key of constant (warmup), found \"every\""},
        {"linear step=5", "did you mean steps"},
        {"linear gamma=5", "expected a key of linear (warmup, steps, floor)"},
        {"linear steps=0", "steps, a whole number of 1 to 1e+15"},
        {"linear steps=2.5", "steps, a whole number"},
        {"linear steps=1 steps=2", "twice"},
        {"cosine floor=1.5", "floor of 0 to 1"},
        {"step factor=nan", "factor of 0 to 1"},
        {"constant warmup=-1", "warmup, a whole number"},
        {"constant warmup=1.1e15", "warmup, a whole number"},
        {"step every=0", "every, a whole number of 1 to 1e+15"},
        {"step every=1.1e15", "every, a whole number"},
        {"step factor=1.1", "factor of 0 to 1"},
        {"step factor=-0.1", "factor of 0 to 1"},
        {"linear steps=1.1e15", "steps, a whole number"},
        {"cosine floor=-0.1", "floor of 0 to 1"},
        {"passes power=-1", "power of 0 to 10"},
        {"passes power=10.1", "power of 0 to 10"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct graph_schedule s;
        assert_int_equal(schedule_parse(cases[i].text, RULES_NEWEST, &s), ST_INVALID);
        if (strstr(status_message(), cases[i].says) == NULL)
            fail_msg("\"%s\": expected \"%s\" in \"%s\"", cases[i].text, cases[i].says, status_message());
    }
}

static void schedule_validate__damaged__is_refused(void **state)
{
    (void)state;
    struct graph_schedule s = parsed("linear"), bad = s;
    bad.kind = SCHEDULE_ID_COUNT;
    assert_int_equal(schedule_validate(&bad), ST_INVALID);
    bad = s, bad.param[1] = 0.5;
    assert_int_equal(schedule_validate(&bad), ST_INVALID);
    bad = s, bad.param[2] = NAN;
    assert_int_equal(schedule_validate(&bad), ST_INVALID);
    bad = parsed("constant"), bad.param[2] = 1;
    assert_int_equal(schedule_validate(&bad), ST_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedule_factor__chosen_steps__is_the_formula),
        cmocka_unit_test(schedule_factor__passes__falls_from_pass_to_pass),
        cmocka_unit_test(schedule_parse__defaults__are_those_of_the_keys),
        cmocka_unit_test(schedule_parse__ends_of_ranges__are_taken),
        cmocka_unit_test(schedule_parse__bad_text__says_what_is_wrong),
        cmocka_unit_test(schedule_validate__damaged__is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
