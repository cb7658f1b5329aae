/* Method auto where exact refuses, where nothing is feasible, and where it is told to stop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sched/expect.h"
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

/* Two layers, each fast on a type of its own: by the formulas they are two stages. Where a step has one
 * micro-batch, these take turns. */
static void auto__steps_of_one_micro_batch__are_not_cut_into_stages(void **state)
{
    (void)state;
    struct solution solution;
    struct solve_options options = {.method = "auto", .seed = 1, .evaluations = 200};
    fixture_make(&fixture, 2, 2);
    for (uint32_t i = 0; i < 4; i++)
        fixture.times[i] = (struct instance_time){.oct = i == 0 || i == 3 ? 1 : 1.1, .alpha = 1};
    for (uint32_t t = 0; t < 2; t++) {
        fixture.types[t].resource.device = RESOURCE_CPU;
        fixture.types[t].resource.price_per_hour = 1;
        fixture.types[t].resource.limit = 1;
    }
    fixture.instance.throughput_limit = 0.4;
    fixture.instance.run = (struct instance_run){.micros = 1, .cores = 4};
    for (uint32_t adapts = 0; adapts < 2; adapts++) {
        options.adapts = adapts;
        if (solve(&fixture.instance, &options, &solution) != ST_OK) fail_msg("%s", status_message());
        assert_int_equal(solution.stage_count, adapts ? 1 : 2);
        assert_true(solution.result.is_feasible && solution.is_proven == !adapts);
        assert_true(solution.result.throughput > (adapts ? 0.47 : 0.99));
        assert_true(solution.expected == (adapts ? 1 / 2.1 : 0.5));
        assert_true(solution.expected_before == (adapts ? 0.5 : 0));
        assert_string_equal(solution.method, adapts ? SOLUTION_ADAPTED : "exact");
        if (adapts) assert_string_equal(solution.adapted_from, "exact");
        solution_free(&solution);
    }
    fixture.instance.run.micros = 0; /* it does not say how it runs: the proven plan stays */
    if (solve(&fixture.instance, &options, &solution) != ST_OK) fail_msg("%s", status_message());
    assert_true(solution.stage_count == 2 && solution.is_proven && solution.expected == 0);
    solution_free(&solution);
}

/* Two types, of which a plan on the first one is proven the cheapest. Reading sets the pace: a plan on
 * the second one has the same rate, and costs `price` where the proven one costs 4. */
static void adapt(struct solution *solution, double price)
{
    const struct solve_options options = {.method = "auto", .seed = 1, .evaluations = 200, .adapts = true};
    fixture_make(&fixture, 2, 2);
    for (uint32_t i = 0; i < 4; i++) fixture.times[i] = (struct instance_time){.oct = i % 2 ? 0.3 : 0.1, .alpha = 1};
    for (uint32_t t = 0; t < 2; t++) {
        fixture.types[t].resource.device = RESOURCE_SIM;
        fixture.types[t].resource.price_per_hour = t ? price : 4;
        fixture.types[t].resource.limit = 1;
    }
    fixture.instance.service_seconds = 1;
    fixture.instance.run = (struct instance_run){.micros = 1, .cores = 1};
    if (solve(&fixture.instance, &options, solution) != ST_OK) fail_msg("%s", status_message());
}

static void auto__another_plan_of_the_same_rate__has_its_own_figures(void **state)
{
    (void)state;
    struct solution solution;
    adapt(&solution, 2);
    assert_true(solution.types[0] == 1 && solution.types[1] == 1 && solution.stage_count == 1);
    assert_true(solution.expected == 1 && solution.expected_before == 1 && !solution.is_proven);
    assert_true(solution.result.throughput == 1 / solution.stages[0].et && solution.stages[0].et == 0.6);
    assert_true(solution_run_cost(&solution) > 1.999 && solution_run_cost(&solution) < 2.001);
    solution_free(&solution);
}

static void auto__a_gain_too_small_to_measure__keeps_the_proven_plan(void **state)
{
    (void)state;
    static const double gains[] = {0.001, EXPECT_GAIN - 0.0001, EXPECT_GAIN + 0.0001};
    for (size_t i = 0; i < sizeof gains / sizeof *gains; i++) {
        struct solution solution;
        const bool is_kept = gains[i] < EXPECT_GAIN;
        adapt(&solution, 4 * (1 - gains[i]));
        assert_string_equal(solution.method, is_kept ? "exact" : SOLUTION_ADAPTED);
        assert_true(solution.is_proven == is_kept && solution.stage_count == 1);
        assert_true(solution.types[0] == !is_kept && solution.types[1] == !is_kept);
        assert_true(solution.stages[0].et == (is_kept ? 0.2 : 0.6) && solution.expected == 1);
        solution_free(&solution);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(auto__more_stages_than_exact_takes__is_what_rl_finds),
        cmocka_unit_test(auto__told_to_stop__says_so_and_starts_no_other_method),
        cmocka_unit_test(auto__nothing_feasible__is_proven_and_the_fastest_plan),
        cmocka_unit_test(auto__steps_of_one_micro_batch__are_not_cut_into_stages),
        cmocka_unit_test(auto__another_plan_of_the_same_rate__has_its_own_figures),
        cmocka_unit_test(auto__a_gain_too_small_to_measure__keeps_the_proven_plan),
    };
    int failure_count = cmocka_run_group_tests(tests, NULL, NULL);
    return failure_count ? 1 : 0;
}
