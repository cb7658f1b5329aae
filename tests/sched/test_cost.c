/* The cost model against sums done by hand, and the least number of units against
 * trying one after the other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "sched/provision.h"
#include "tests/sched/instance_fixture.h"

static struct instance_fixture fixture;
static struct cost_model model;

static void model_make(void)
{
    if (cost_model_open(&model, &fixture.instance) != ST_OK) fail_msg("%s", status_message());
}

static void equal(double found, double expected)
{
    if (!(fabs(found - expected) <= 1e-12 * fabs(expected))) fail_msg("expected %.17g, found %.17g", expected, found);
}

/* Three layers, two types; B_o = 4, 7200 examples, 2 epochs. */
static void hand_made(void)
{
    static const struct instance_time times[6] = {
        {.oct = 8, .alpha = 0.5, .odt = 4, .beta = 1},  {.oct = 2, .alpha = 1, .odt = 8, .beta = 0.25},
        {.oct = 4, .alpha = 0, .odt = 12, .beta = 0.5}, {.oct = 6, .alpha = 1, .odt = 0, .beta = 0},
        {.oct = 12, .alpha = 1, .odt = 2, .beta = 0},   {.oct = 4, .alpha = 0.75, .odt = 40, .beta = 1},
    };
    fixture_make(&fixture, 3, 2);
    memcpy(fixture.times, times, sizeof times);
    fixture.instance.batch = 4;
    fixture.instance.examples = 7200;
    fixture.instance.epochs = 2;
    fixture.types[0].resource.price_per_hour = 0.5;
    fixture.types[1].resource.price_per_hour = 3;
}

static void cost_et__one_layer__is_formulas_1_to_3(void **state)
{
    (void)state;
    hand_made();
    model_make();
    struct cost_time half = cost_segment(&model, 0, 0, 0);       /* CT 2 (1/2 + 1/2k), DT 1/k          */
    struct cost_time sequential = cost_segment(&model, 1, 1, 0); /* CT 1, DT 3 (1/2 + 1/2k)            */
    struct cost_time parallel = cost_segment(&model, 2, 2, 0);   /* CT 3/k, DT 1/2                     */
    struct cost_time moved = cost_segment(&model, 2, 2, 1);      /* CT 1/4 + 3/4k, DT 10/k: it binds   */
    equal(cost_et(&half, 1), 2);
    equal(cost_et(&half, 2), 1.5);
    equal(cost_et(&half, 1000), 1.001);
    equal(cost_et(&sequential, 1), 3);
    equal(cost_et(&sequential, 3), 2);
    equal(cost_et(&parallel, 1), 3);
    equal(cost_et(&parallel, 6), 0.5);
    equal(cost_et(&parallel, 100), 0.5);
    equal(cost_et(&moved, 1), 10);
    equal(cost_et(&moved, 10), 1);
    cost_model_free(&model);
}

static void cost_segment__several_layers__adds_computation_and_takes_the_last_cut(void **state)
{
    (void)state;
    hand_made();
    model_make();
    struct cost_time time = cost_segment(&model, 0, 2, 0);
    /* (8 + 4 + 12) / 4 of which (4 + 0 + 12) / 4 divides: the mean alpha, weighted by OCT, is 2/3. */
    equal(time.compute + time.compute_shared, 6);
    equal(time.compute_shared / (time.compute + time.compute_shared), 2.0 / 3);
    equal(time.move, 0.5);
    equal(time.move_shared, 0);
    equal(cost_et(&time, 4), 3);
    cost_model_free(&model);
}

static void cost_stages__a_plan__are_its_maximal_runs(void **state)
{
    (void)state;
    struct cost_stage stages[3];
    hand_made();
    model_make();
    assert_int_equal(cost_stages(&model, (const type_index[]){0, 0, 1}, stages), 2);
    assert_int_equal(stages[0].first, 0);
    assert_int_equal(stages[0].last, 1);
    assert_int_equal(stages[0].type, 0);
    assert_int_equal(stages[1].first, 2);
    assert_int_equal(stages[1].last, 2);
    assert_int_equal(stages[1].type, 1);
    struct cost_time first = cost_segment(&model, 0, 1, 0), second = cost_segment(&model, 2, 2, 1);
    assert_memory_equal(&stages[0].time, &first, sizeof first);
    assert_memory_equal(&stages[1].time, &second, sizeof second);
    assert_int_equal(cost_stages(&model, (const type_index[]){1, 0, 1}, stages), 3);
    assert_int_equal(cost_stages(&model, (const type_index[]){1, 1, 1}, stages), 1);
    cost_model_free(&model);
}

static void cost_of__stages_with_units__is_formulas_4_to_7(void **state)
{
    (void)state;
    struct cost_stage stages[3];
    hand_made();
    fixture.instance.throughput_limit = 0.5;
    fixture.types[0].resource.limit = 4;
    model_make();
    uint32_t count = cost_stages(&model, (const type_index[]){0, 0, 1}, stages);
    /* Stage 0: CT 3 (2/3 + 1/3k), DT 3 (1/2 + 1/2k); stage 1 as `moved` above. */
    stages[0].k = 4;
    stages[1].k = 4;
    struct cost_result r = cost_of(&model, stages, count);
    assert_false(r.is_feasible);
    equal(r.throughput, 1 / 2.5);
    equal(r.cost, 2 * 7200 * 2.5 / 3600 * (0.5 * 4 + 3 * 4));
    assert_int_equal(r.limiting_stage, 1);
    stages[1].k = 5;
    stages[0].k = 3;
    r = cost_of(&model, stages, count);
    assert_int_equal(r.limiting_stage, 0); /* CT 2 + 1/3 */
    assert_false(r.is_feasible);
    fixture.instance.throughput_limit = 0.4;
    cost_model_free(&model);
    model_make();
    r = cost_of(&model, stages, count);
    assert_true(r.is_feasible);
    equal(r.throughput, 3.0 / 7);
    equal(r.cost, 2 * 7200 * 7.0 / 3 / 3600 * (0.5 * 3 + 3 * 5));
    assert_true(r.score == r.cost);
    stages[0].k = 5; /* one more than there are */
    assert_false(cost_of(&model, stages, count).is_feasible);
    cost_model_free(&model);
}

/* Of stages that are as slow as one another the first limits, so that a plan says
 * the same wherever it is made. */
static void cost_of__rows_on_cards__are_looked_up_by_one(void **state)
{
    (void)state;
    struct cost_stage stages[3];
    hand_made();
    fixture.types[1].resource.device = RESOURCE_EMU;
    fixture.layers[0].row_bytes = 8;
    for (uint32_t is_run = 0; is_run < 2; is_run++) {
        if (is_run) fixture.instance.run = (struct instance_run){.micros = 1, .cores = 1};
        model_make();
        assert_int_equal(cost_stages(&model, (const type_index[]){1, 1, 0}, stages), 2);
        equal(cost_et(&stages[0].time, 2), is_run ? 2 : 1); /* CT 2/k, DT (4 + 2) / 4k … */
        for (uint32_t k = 1; k <= 2; k++) {
            stages[0].k = k;
            stages[1].k = 2;
            assert_int_equal(cost_of(&model, stages, 2).is_feasible, !is_run || k == 1);
        }
        assert_int_equal(cost_stages(&model, (const type_index[]){0, 1, 1}, stages), 2); /* rows on cores divide */
        stages[0].k = stages[1].k = 2;
        assert_true(cost_of(&model, stages, 2).is_feasible);
        cost_model_free(&model);
    }
}

static void cost_of__equally_slow_stages__the_first_limits(void **state)
{
    (void)state;
    struct cost_stage stages[3];
    hand_made();
    model_make();
    uint32_t count = cost_stages(&model, (const type_index[]){0, 1, 0}, stages);
    assert_int_equal(count, 3);
    for (uint32_t s = 0; s < count; s++) stages[s].k = 1;
    stages[1].time = stages[2].time = stages[0].time; /* 2 each */
    struct cost_result r = cost_of(&model, stages, count);
    equal(r.throughput, 0.5);
    assert_int_equal(r.limiting_stage, 0);
    stages[0].k = 2; /* 1.5 */
    assert_int_equal(cost_of(&model, stages, count).limiting_stage, 1);
    cost_model_free(&model);
}

static void cost_of__two_stages_of_a_type__share_its_limit(void **state)
{
    (void)state;
    struct cost_stage stages[3];
    hand_made();
    fixture.types[1].resource.limit = 7;
    model_make();
    uint32_t count = cost_stages(&model, (const type_index[]){1, 0, 1}, stages);
    stages[0].k = 3;
    stages[1].k = 1;
    stages[2].k = 4;
    assert_true(cost_of(&model, stages, count).is_feasible);
    stages[0].k = 4;
    assert_false(cost_of(&model, stages, count).is_feasible);
    cost_model_free(&model);
}

static void cost_units_least__by_hand__is_formula_13_as_corrected(void **state)
{
    (void)state;
    hand_made();
    model_make();
    struct cost_time half = cost_segment(&model, 0, 0, 0), sequential = cost_segment(&model, 1, 1, 0);
    struct cost_time parallel = cost_segment(&model, 2, 2, 0), moved = cost_segment(&model, 2, 2, 1);
    /* alpha OCT / (B_o tau - (1 - alpha) OCT) = 4 / (5 - 4) */
    assert_int_equal(cost_units_least(&half, 1.25, 100), 4);
    assert_int_equal(cost_units_least(&half, nextafter(1.25, 0), 100), 5);
    assert_int_equal(cost_units_least(&half, 2, 100), 1);
    assert_int_equal(cost_units_least(&half, 1, 1000000), 0);   /* the denominator is 0 */
    assert_int_equal(cost_units_least(&half, 0.5, 1000000), 0); /* and here below      */
    assert_int_equal(cost_units_least(&half, 1.25, 4), 4);
    assert_int_equal(cost_units_least(&half, 1.25, 3), 0);
    /* alpha = 0 asks only that OCT <= B_o tau; here communication needs 3 / (2 tau - 3). */
    assert_int_equal(cost_units_least(&sequential, 2, 100), 3);
    assert_int_equal(cost_units_least(&sequential, 3, 100), 1);
    assert_int_equal(cost_units_least(&parallel, 0.5, 100), 6);
    assert_int_equal(cost_units_least(&parallel, 0.49, 100), 0); /* communication does not divide */
    assert_int_equal(cost_units_least(&moved, 1, 100), 10);
    assert_int_equal(cost_units_least(&moved, INFINITY, 1), 1);
    cost_model_free(&model);
}

static void cost_units_least__random__equals_trying_one_after_the_other(void **state)
{
    (void)state;
    uint64_t seed = 13;
    uint32_t found_count = 0;
    for (uint32_t c = 0; c < 20000; c++) {
        struct cost_time t = {fixture_between(&seed, 0, 1), fixture_between(&seed, 0, 20), fixture_between(&seed, 0, 1),
                              fixture_between(&seed, 0, 20)};
        if (fixture_below(&seed, 4) == 0) t.compute = 0;
        if (fixture_below(&seed, 4) == 0) t.compute_shared = 0;
        if (fixture_below(&seed, 4) == 0) t.move = t.move_shared = 0;
        uint32_t limit = 1 + fixture_below(&seed, 200), k = 1;
        double tau = fixture_between(&seed, 0, 3);
        /* Half of them where a number of units only just is enough, or is not. */
        if (c % 2) tau = cost_et(&t, 1 + fixture_below(&seed, limit + 2));
        if (c % 8 == 3) tau = nextafter(tau, 0);
        while (k <= limit && cost_et(&t, k) > tau) k++;
        uint32_t expected = k <= limit ? k : 0, found = cost_units_least(&t, tau, limit);
        if (found != expected)
            fail_msg("times %.17g %.17g %.17g %.17g, tau %.17g, limit %u: expected %u, found %u", t.compute,
                     t.compute_shared, t.move, t.move_shared, tau, limit, expected, found);
        found_count += found > 1;
    }
    assert_true(found_count > 5000);
}

/* So little divides that a time rounds to what does not: then a number of units
 * is enough, and the least is found. */
static void cost_units_least__hardly_anything_divides__is_the_least_by_cost_et(void **state)
{
    (void)state;
    uint64_t seed = 19;
    for (uint32_t c = 0; c < 2000; c++) {
        struct cost_time t = {1, fixture_between(&seed, 0, 4e-14), 0, 0};
        uint32_t limit = 1 + fixture_below(&seed, 500), k = 1;
        double tau = cost_et(&t, 1 + fixture_below(&seed, limit));
        while (k <= limit && cost_et(&t, k) > tau) k++;
        assert_int_equal(cost_units_least(&t, tau, limit), k <= limit ? k : 0);
    }
}

/* The greatest limit there is, and rounding that holds a time over millions of units: steps would not end. */
static void cost_units_least__limits_without_measure__is_the_least_by_cost_et(void **state)
{
    (void)state;
    uint64_t seed = 37;
    uint32_t found_count = 0;
    for (uint32_t c = 0; c < 100000; c++) {
        struct cost_time t = {fixture_between(&seed, 0, 1), pow(10, fixture_between(&seed, -18, 10)), 0, 0};
        if (c % 3 == 0) t.compute = 0;
        if (c % 5 == 0) t.move_shared = t.compute_shared * fixture_between(&seed, 0, 2);
        uint32_t limit = c % 2 ? UINT32_MAX : UINT32_MAX - fixture_below(&seed, 3);
        uint32_t near = c % 4 ? (uint32_t)fixture_random(&seed) : limit;
        double tau = cost_et(&t, near ? near : 1);
        if (c % 7 == 0) tau = nextafter(tau, c % 2 ? 0 : 2);
        uint32_t k = cost_units_least(&t, tau, limit);
        if (k == 0) {
            assert_true(cost_et(&t, limit) > tau);
            continue;
        }
        assert_true(k <= limit && cost_et(&t, k) <= tau);
        assert_true(k == 1 || cost_et(&t, k - 1) > tau);
        found_count++;
    }
    assert_true(found_count > 80000);
    struct cost_time all = {.compute_shared = 1};
    assert_int_equal(cost_units_least(&all, 1 / 4294967296.0, UINT32_MAX), 0);
    assert_int_equal(cost_units_least(&all, 1 / 4294967295.0, UINT32_MAX), UINT32_MAX);
}

/* All units free: no plan costs anything, and one that is not feasible still scores above those that are. */
static void cost_model_open__free_units__still_tells_infeasible_plans(void **state)
{
    (void)state;
    struct cost_stage stages[3];
    hand_made();
    fixture.types[0].resource.price_per_hour = fixture.types[1].resource.price_per_hour = 0;
    fixture.types[0].resource.limit = 1;
    fixture.instance.throughput_limit = 0.1;
    model_make();
    struct cost_result r = provision_exact(&model, stages, cost_stages(&model, (const type_index[]){1, 1, 1}, stages));
    assert_true(r.is_feasible && r.score == 0);
    r = provision_exact(&model, stages, cost_stages(&model, (const type_index[]){0, 1, 0}, stages));
    assert_true(!r.is_feasible && r.score > 0);
    cost_model_free(&model);
}

/* All plans of random problems, provisioned exactly and at random: whatever keeps to limits and throughput
 * scores its cost, below whatever does not; of the latter, the nearer to the throughput the lower. */
static void cost_of__infeasible__scores_above_every_feasible_plan_and_lower_when_nearer(void **state)
{
    (void)state;
    uint64_t seed = 7;
    uint32_t feasible_count = 0, infeasible_count = 0, unplaceable_count = 0;
    for (uint32_t c = 0; c < 300; c++) {
        uint32_t L = 1 + fixture_below(&seed, 5), T = 1 + fixture_below(&seed, 3), layer = 0;
        double cost_max = 0, score_min = INFINITY, score_of_none = INFINITY;
        double nearest[2] = {0}; /* throughput and score of the plan before that misses the throughput */
        type_index types[8] = {0};
        struct cost_stage stages[8];
        fixture_random_make(&fixture, &seed, L, T, 6, c % 4 ? fixture_between(&seed, 0.1, 20) : 0);
        fixture.types[0].resource.price_per_hour = 0.04;
        model_make();
        while (layer < L) {
            uint32_t count = cost_stages(&model, types, stages);
            struct cost_result r = provision_exact(&model, stages, count);
            if (r.is_feasible) {
                assert_true(r.score == r.cost);
                if (r.cost > cost_max) cost_max = r.cost;
                for (uint32_t s = 0; s < count; s++) stages[s].k += fixture_below(&seed, model.limit[stages[s].type]);
                struct cost_result any = cost_of(&model, stages, count);
                if (any.is_feasible && any.cost > cost_max) cost_max = any.cost;
                feasible_count++;
            } else if (r.throughput > 0) {
                if (r.score < score_min) score_min = r.score;
                if (nearest[0] > 0 && r.throughput > nearest[0] * (1 + 1e-9)) assert_true(r.score < nearest[1]);
                if (nearest[0] > 0 && r.throughput < nearest[0] * (1 - 1e-9)) assert_true(r.score > nearest[1]);
                nearest[0] = r.throughput;
                nearest[1] = r.score;
                infeasible_count++;
            } else {
                assert_true(r.is_limit_reached);
                if (r.score < score_min) score_min = r.score;
                if (r.score < score_of_none) score_of_none = r.score;
                unplaceable_count++;
            }
            assert_false(isinf(r.score));
            for (layer = 0; layer < L && ++types[layer] == T;) types[layer++] = 0;
        }
        if (nearest[0] > 0) assert_true(nearest[1] < score_of_none);
        assert_true(cost_max < score_min);
        cost_model_free(&model);
    }
    assert_true(feasible_count > 1000 && infeasible_count > 1000 && unplaceable_count > 100);
}

static void cost_model_open__no_throughput_limit__allows_any_tau(void **state)
{
    (void)state;
    struct cost_stage stages[3];
    hand_made();
    model_make();
    assert_true(isinf(model.tau_max));
    uint32_t count = cost_stages(&model, (const type_index[]){1, 0, 1}, stages);
    for (uint32_t s = 0; s < count; s++) stages[s].k = 1;
    struct cost_result r = cost_of(&model, stages, count);
    assert_true(r.is_feasible);
    equal(r.throughput, 0.1);
    assert_true(r.cost < model.penalty);
    cost_model_free(&model);
}

/* Of a type that does not move while it computes: the sum of both, and what divides of each divides. */
static void cost_stages__a_type_that_does_not_overlap__adds_moves(void **state)
{
    (void)state;
    static struct instance_fixture f;
    struct cost_model m;
    struct cost_stage stages[2];
    fixture_make(&f, 2, 2);
    f.times[0] = f.times[1] = (struct instance_time){.oct = 8, .alpha = 0.5, .odt = 4, .beta = 0.25};
    f.times[2] = f.times[3] = (struct instance_time){.oct = 2, .alpha = 1, .odt = 1, .beta = 1};
    f.types[0].resource.adds_moves = true;
    assert_int_equal(cost_model_open(&m, &f.instance), ST_OK);
    assert_int_equal(cost_stages(&m, (type_index[]){0, 1}, stages), 2);
    assert_true(cost_et(&stages[0].time, 1) == 12 && cost_et(&stages[0].time, 2) == 4 + 2 + 3 + 0.5);
    assert_true(cost_et(&stages[1].time, 1) == 2);
    assert_int_equal(cost_stages(&m, (type_index[]){1, 0}, stages), 2);
    assert_true(cost_et(&stages[0].time, 1) == 8 && cost_et(&stages[1].time, 1) == 3);
    cost_model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cost_et__one_layer__is_formulas_1_to_3),
        cmocka_unit_test(cost_stages__a_type_that_does_not_overlap__adds_moves),
        cmocka_unit_test(cost_segment__several_layers__adds_computation_and_takes_the_last_cut),
        cmocka_unit_test(cost_stages__a_plan__are_its_maximal_runs),
        cmocka_unit_test(cost_of__stages_with_units__is_formulas_4_to_7),
        cmocka_unit_test(cost_of__rows_on_cards__are_looked_up_by_one),
        cmocka_unit_test(cost_of__equally_slow_stages__the_first_limits),
        cmocka_unit_test(cost_of__two_stages_of_a_type__share_its_limit),
        cmocka_unit_test(cost_units_least__by_hand__is_formula_13_as_corrected),
        cmocka_unit_test(cost_units_least__random__equals_trying_one_after_the_other),
        cmocka_unit_test(cost_units_least__hardly_anything_divides__is_the_least_by_cost_et),
        cmocka_unit_test(cost_units_least__limits_without_measure__is_the_least_by_cost_et),
        cmocka_unit_test(cost_model_open__free_units__still_tells_infeasible_plans),
        cmocka_unit_test(cost_of__infeasible__scores_above_every_feasible_plan_and_lower_when_nearer),
        cmocka_unit_test(cost_model_open__no_throughput_limit__allows_any_tau),
    };
    int failure_count = cmocka_run_group_tests(tests, NULL, NULL);
    return failure_count ? 1 : 0;
}
