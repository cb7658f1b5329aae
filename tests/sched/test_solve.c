/* Method auto where exact refuses, where nothing is feasible, and where it is told to stop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sched/solution.h"
#include "tests/sched/instance_fixture.h"

static struct instance_fixture fixture;

static bool stop_at_once(void *context, const struct search_standing *standing)
{
    uint32_t *count = context;
    (void)standing;
    ++*count;
    return true;
}

/* More possible stages than exact takes: 300 * 301 / 2 * 200, each within any limit. */
static void large_make(struct instance *instance)
{
    enum { LAYERS = 300, TYPES = 200 };
    uint64_t seed = 41;
    if (instance_make(instance, LAYERS, TYPES) != ST_OK) fail_msg("%s", status_message());
    instance->batch = instance->examples = instance->epochs = 1;
    for (uint32_t t = 0; t < TYPES; t++) {
        instance->types[t].resource.limit = 1000;
        instance->types[t].resource.price_per_hour = 1;
    }
    for (uint32_t c = 0; c < LAYERS * TYPES; c++)
        instance->times[c] = (struct instance_time){.oct = fixture_between(&seed, 1, 10), .alpha = 0.9};
}

static void auto__more_stages_than_exact_takes__is_what_rl_finds(void **state)
{
    (void)state;
    struct instance instance;
    struct solution solution;
    const struct solve_options options = {.method = "auto", .seed = 1, .evaluations = 64};
    large_make(&instance);
    if (solve(&instance, &options, &solution) != ST_OK) fail_msg("%s", status_message());
    assert_true(solution.result.is_feasible && !solution.is_proven && solution.rl_cost > 0);
    assert_true(solution.lower_bound == 0 && solution.ended_by == SEARCH_EVALUATIONS);
    solution_free(&solution);
    instance_free(&instance);
}

static void auto__told_to_stop__says_so_and_starts_no_other_method(void **state)
{
    (void)state;
    struct instance instance;
    struct solution solution;
    uint32_t count = 0;
    const struct solve_options options = {
        .method = "auto", .seed = 1, .evaluations = 1000000, .progress = stop_at_once, .context = &count};
    large_make(&instance);
    instance.throughput_limit = 1e9;
    if (solve(&instance, &options, &solution) != ST_OK) fail_msg("%s", status_message());
    assert_int_equal(solution.ended_by, SEARCH_STOPPED);
    assert_true(!solution.result.is_feasible && solution.stage_count > 0 && solution.result.throughput > 0);
    assert_true(count > 0 && count <= 3); /* exact, or rl; and what looks for the nearest plan */
    solution_free(&solution);
    instance_free(&instance);
}

static void auto__nothing_feasible__is_proven_and_the_fastest_plan(void **state)
{
    (void)state;
    uint64_t seed = 43;
    for (uint32_t c = 0; c < 20; c++) {
        struct solution found, brute;
        fixture_random_make(&fixture, &seed, 5, 3, 8, 1e6);
        fixture.types[0].resource.price_per_hour = 0.04;
        struct solve_options options = {.method = "auto", .seed = 1, .evaluations = 200};
        if (solve(&fixture.instance, &options, &found) != ST_OK) fail_msg("%s", status_message());
        options.method = "brute";
        if (solve(&fixture.instance, &options, &brute) != ST_OK) fail_msg("%s", status_message());
        assert_true(found.is_proven && !found.result.is_feasible);
        assert_true(brute.is_proven && !brute.result.is_feasible);
        assert_true(found.result.throughput == brute.result.throughput);
        solution_free(&found);
        solution_free(&brute);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(auto__more_stages_than_exact_takes__is_what_rl_finds),
        cmocka_unit_test(auto__told_to_stop__says_so_and_starts_no_other_method),
        cmocka_unit_test(auto__nothing_feasible__is_proven_and_the_fastest_plan),
    };
    int failure_count = cmocka_run_group_tests(tests, NULL, NULL);
    return failure_count ? 1 : 0;
}
