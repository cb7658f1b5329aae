/* The exact provision against all numbers of units, one after the other. */
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

#define STAGES_MAX 4

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

/* What all k from 1 to the limits come to: the least cost of those that keep to limits and throughput, infinite: there
 * is none; the greatest throughput within the limits, 0: there are no k at all. */
static void all_units(const struct cost_stage *given, uint32_t count, double *cost, double *throughput)
{
    struct cost_stage stages[STAGES_MAX];
    struct cost_model any = model;
    any.tau_max = INFINITY;
    memcpy(stages, given, count * sizeof *stages);
    for (uint32_t s = 0; s < count; s++) stages[s].k = 1;
    *cost = INFINITY;
    *throughput = 0;
    for (uint32_t s = 0; s < count;) {
        struct cost_result r = cost_of(&model, stages, count);
        if (r.is_feasible && r.cost < *cost) *cost = r.cost;
        r = cost_of(&any, stages, count);
        if (r.is_feasible && r.throughput > *throughput) *throughput = r.throughput;
        for (s = 0; s < count && ++stages[s].k > model.limit[stages[s].type];) stages[s++].k = 1;
    }
}

/* A plan that cannot keep to the throughput: what is said to bind does, since one more unit helps, or no number of
 * them. */
static void limit_check(const struct cost_result *r, const struct cost_stage *stages)
{
    const struct cost_stage *limiting = &stages[r->limiting_stage];
    struct cost_time time = limiting->time;
    if (r->is_limit_reached) return;
    for (uint32_t k = limiting->k + 1; k < limiting->k + 1000; k++) assert_true(cost_et(&time, k) >= limiting->et);
}

static void provision_exact__random_stages__equals_trying_all_units(void **state)
{
    (void)state;
    uint64_t seed = 5;
    uint32_t feasible_count = 0, infeasible_count = 0, unplaceable_count = 0, above_count = 0;
    for (uint32_t c = 0; c < 6000; c++) {
        uint32_t L = 1 + fixture_below(&seed, STAGES_MAX), T = 1 + fixture_below(&seed, 3);
        struct cost_stage stages[STAGES_MAX];
        type_index types[STAGES_MAX];
        double cost, throughput;
        fixture_random_make(&fixture, &seed, L, T, 1 + fixture_below(&seed, L < 3 ? 30 : 8),
                            c % 4 ? fixture_between(&seed, 0.1, 12) : 0);
        fixture.types[0].resource.price_per_hour = 0.04;
        for (uint32_t l = 0; l < L; l++) types[l] = (type_index)fixture_below(&seed, T);
        model_make();
        uint32_t count = cost_stages(&model, types, stages);
        struct cost_result r = provision_exact(&model, stages, count);
        all_units(stages, count, &cost, &throughput);
        assert_int_equal(r.is_feasible, !isinf(cost));
        if (r.is_feasible) {
            equal(r.cost, cost);
            assert_true(r.throughput >= fixture.instance.throughput_limit * (1 - 1e-15));
            above_count += r.throughput > 1.01 * fixture.instance.throughput_limit;
            feasible_count++;
        } else if (throughput > 0) {
            equal(r.throughput, throughput);
            limit_check(&r, stages);
            infeasible_count++;
        } else {
            assert_true(r.throughput == 0);
            unplaceable_count++;
        }
        if (throughput > 0) {
            struct cost_result again = cost_of(&model, stages, count);
            assert_true(again.cost == r.cost && again.throughput == r.throughput);
            for (uint32_t s = 0; s < count; s++) assert_true(stages[s].et == cost_et(&stages[s].time, stages[s].k));
        }
        cost_model_free(&model);
    }
    assert_true(feasible_count > 1000 && infeasible_count > 500 && unplaceable_count > 50 && above_count > 500);
}

/* One stage of many units, where rounding of the least k would show. */
static void provision_exact__one_stage__takes_the_least_units(void **state)
{
    (void)state;
    struct cost_stage stage;
    fixture_make(&fixture, 1, 1);
    fixture.times[0] = (struct instance_time){.oct = 1, .alpha = 1};
    fixture.types[0].resource.limit = 100000;
    for (uint32_t k = 1; k <= 100000; k = k * 3 + 1) {
        fixture.instance.throughput_limit = k;
        model_make();
        uint32_t count = cost_stages(&model, (const type_index[]){0}, &stage);
        struct cost_result r = provision_exact(&model, &stage, count);
        assert_true(r.is_feasible);
        equal(r.cost, 1); /* twice as many cost as much a second, for half as long */
        assert_true(stage.k >= k);
        cost_model_free(&model);
    }
}

/* The dear stage takes a second whatever its units, the cheap one two seconds over k: a second cheap unit halves the
 * time of the dear one, 2 (10 + 1) > 1 (10 + 2), though the throughput of half an example a second was reached without
 * it. */
static void provision_exact__faster_is_cheaper__goes_above_the_throughput(void **state)
{
    (void)state;
    struct cost_stage stages[2];
    fixture_make(&fixture, 2, 2);
    fixture.types[0].resource.price_per_hour = 10;
    fixture.times[0] = fixture.times[1] = (struct instance_time){.oct = 1, .alpha = 0};
    fixture.times[2] = fixture.times[3] = (struct instance_time){.oct = 2, .alpha = 1};
    fixture.instance.throughput_limit = 0.5;
    model_make();
    uint32_t count = cost_stages(&model, (const type_index[]){0, 1}, stages);
    struct cost_result r = provision_exact(&model, stages, count);
    assert_true(r.is_feasible);
    assert_int_equal(stages[0].k, 1);
    assert_int_equal(stages[1].k, 2);
    equal(r.throughput, 1);
    equal(r.cost, 12);
    cost_model_free(&model);
    fixture.types[1].resource.limit = 1;
    model_make();
    r = provision_exact(&model, stages, count);
    assert_true(r.is_feasible);
    equal(r.cost, 22);
    cost_model_free(&model);
}

static void provision_exact__out_of_reach__says_which_stage_binds_and_why(void **state)
{
    (void)state;
    struct cost_stage stages[2];
    fixture_make(&fixture, 2, 2);
    fixture.times[0] = fixture.times[1] = (struct instance_time){.oct = 1, .alpha = 0};
    fixture.times[2] = fixture.times[3] = (struct instance_time){.oct = 6, .alpha = 1};
    fixture.types[1].resource.limit = 3;
    fixture.instance.throughput_limit = 4;
    model_make();
    uint32_t count = cost_stages(&model, (const type_index[]){0, 1}, stages);
    struct cost_result r = provision_exact(&model, stages, count);
    assert_false(r.is_feasible);
    equal(r.throughput, 0.5);
    assert_int_equal(r.limiting_stage, 1);
    assert_true(r.is_limit_reached);
    cost_model_free(&model);
    fixture.types[1].resource.limit = 12;
    model_make();
    r = provision_exact(&model, stages, count);
    assert_false(r.is_feasible);
    equal(r.throughput, 1);
    assert_int_equal(r.limiting_stage, 0);
    assert_false(r.is_limit_reached);
    cost_model_free(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(provision_exact__random_stages__equals_trying_all_units),
        cmocka_unit_test(provision_exact__one_stage__takes_the_least_units),
        cmocka_unit_test(provision_exact__faster_is_cheaper__goes_above_the_throughput),
        cmocka_unit_test(provision_exact__out_of_reach__says_which_stage_binds_and_why),
    };
    int failure_count = cmocka_run_group_tests(tests, NULL, NULL);
    return failure_count ? 1 : 0;
}
