/* The exact provision against all numbers of units, one after the other, and against steps of one unit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

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

/* What all k from 1 to the limits come to: the least cost of those that keep to limits and throughput,
 * infinite: there is none; the greatest throughput within the limits, 0: there are no k at all. */
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

/* A plan that cannot keep to the throughput: what is said to bind does, since one more
 * unit helps, or no number of them. */
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

/* The dear stage takes a second whatever its units, the cheap one two seconds over k: a second cheap unit
 * halves the time of the dear one, 2 (10 + 1) > 1 (10 + 2), though the throughput of half an example a
 * second was reached without it. */
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

/* A unit after another to the slowest stage, until it is faster than before:
 * false if no further units do that. */
static bool plain_step(struct cost_stage *stages, uint32_t count)
{
    uint32_t at = 0, used = 0;
    for (uint32_t s = 0; s < count; s++) at = stages[s].et > stages[at].et ? s : at;
    for (uint32_t s = 0; s < count; s++) used += stages[s].type == stages[at].type ? stages[s].k : 0;
    for (uint32_t k = stages[at].k + 1; used++ < model.limit[stages[at].type]; k++) {
        double et = cost_et(&stages[at].time, k);
        if (et >= stages[at].et) continue;
        stages[at].k = k;
        stages[at].et = et;
        return true;
    }
    return false;
}

static double plain_tau(const struct cost_stage *stages, uint32_t count)
{
    double tau = 0;
    for (uint32_t s = 0; s < count; s++) tau = fmax(tau, stages[s].et);
    return tau;
}

/* Steps from one unit each to the throughput, and from there on to the end of what bounds allow. */
static struct cost_result plain(struct cost_stage *stages, uint32_t count, uint32_t *step_count)
{
    double rate = 0, bound = 0, best = INFINITY, best_tau = 0;
    for (uint32_t s = 0; s < count; s++) {
        stages[s].k = 1;
        stages[s].et = cost_et(&stages[s].time, 1);
    }
    while (plain_tau(stages, count) > model.tau_max)
        if (!plain_step(stages, count)) {
            while (plain_step(stages, count)) continue;
            return cost_of(&model, stages, count);
        }
    for (uint32_t s = 0; s < count; s++) {
        rate += model.price[stages[s].type] * stages[s].k;
        bound += model.price[stages[s].type] * stages[s].k * stages[s].et;
    }
    for (*step_count = 0;; ++*step_count) {
        double tau = plain_tau(stages, count);
        uint32_t at = 0;
        while (stages[at].et < tau) at++;
        if (rate * tau < best) {
            best = rate * tau;
            best_tau = tau;
        }
        double price = model.price[stages[at].type], k = stages[at].k;
        if (!(bound < best) || !plain_step(stages, count)) break;
        rate += price * (stages[at].k - k);
        bound += price * (stages[at].k * stages[at].et - k * tau);
    }
    for (uint32_t s = 0; s < count; s++) {
        stages[s].k = 1;
        while (cost_et(&stages[s].time, stages[s].k) > best_tau) stages[s].k++;
        stages[s].et = cost_et(&stages[s].time, stages[s].k);
    }
    return cost_of(&model, stages, count);
}

static void provision_exact__random_stages__is_to_the_bit_what_plain_steps_give(void **state)
{
    (void)state;
    uint64_t seed = 23;
    uint32_t feasible_count = 0, infeasible_count = 0;
    for (uint32_t c = 0; c < 8000; c++) {
        uint32_t L = 1 + fixture_below(&seed, 12), T = 1 + fixture_below(&seed, 4), step_count;
        struct cost_stage stages[12], expected[12];
        type_index types[12];
        fixture_random_make(&fixture, &seed, L, T, 100, c % 4 ? fixture_between(&seed, 0.1, 60) : 0);
        for (uint32_t l = 0; l < L; l++) types[l] = (type_index)fixture_below(&seed, T);
        model_make();
        uint32_t count = cost_stages(&model, types, stages);
        cost_stages(&model, types, expected);
        struct cost_result r = provision_exact(&model, stages, count);
        if (r.throughput > 0) {
            struct cost_result e = plain(expected, count, &step_count);
            assert_true(r.is_feasible == e.is_feasible && r.cost == e.cost && r.throughput == e.throughput);
            for (uint32_t s = 0; s < count; s++) assert_int_equal(stages[s].k, expected[s].k);
            feasible_count += r.is_feasible;
            infeasible_count += !r.is_feasible;
        }
        cost_model_free(&model);
    }
    assert_true(feasible_count > 1500 && infeasible_count > 1500);
}

/* A dear stage that nothing speeds up, before cheap ones that a great many units do: the optimum
 * is far above the throughput. With one cheap stage it is found exactly, with two within one
 * unit of the second's thousands. */
static void provision_exact__optimum_far_away__is_the_one_of_plain_steps(void **state)
{
    (void)state;
    uint64_t seed = 29;
    uint32_t far_count = 0;
    for (uint32_t c = 0; c < 40; c++) {
        struct cost_stage stages[3], expected[3];
        uint32_t step_count, L = 2 + c % 2;
        fixture_make(&fixture, L, 3);
        for (uint32_t t = 0; t < 3; t++) fixture.types[t].resource.limit = c % 5 ? 40000 : 12000;
        fixture.types[0].resource.price_per_hour = pow(10, fixture_between(&seed, 6, 10));
        for (uint32_t l = 0; l < L; l++)
            for (uint32_t t = 0; t < 3; t++)
                fixture.times[l * 3 + t] = t ? (struct instance_time){.oct = fixture_between(&seed, 1, 3), .alpha = 0.9}
                                             : (struct instance_time){.oct = 1e-6, .alpha = 0};
        model_make();
        uint32_t count = cost_stages(&model, (const type_index[]){0, 1, 2}, stages);
        memcpy(expected, stages, sizeof expected);
        struct cost_result r = provision_exact(&model, stages, count), e = plain(expected, count, &step_count);
        assert_true(r.is_feasible);
        far_count += step_count > 10000;
        if (!(fabs(r.cost - e.cost) <= (L == 2 ? 1e-12 : 1e-4) * e.cost))
            fail_msg("case %u: expected %.17g, found %.17g, %u steps", c, e.cost, r.cost, step_count);
        cost_model_free(&model);
    }
    assert_true(far_count > 20);
}

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Limits of 2^32 - 1, shares of 0 and 1, no price, times and prices of any magnitude: far from it, an
 * evaluation would take minutes. Whatever is said to be feasible is. */
static void provision_exact__limits_without_measure__ends_soon(void **state)
{
    (void)state;
    uint64_t seed = 31;
    double slowest = 0;
    for (uint32_t c = 0; c < 400; c++) {
        static struct cost_stage stages[INSTANCE_LAYERS_MAX];
        static type_index types[INSTANCE_LAYERS_MAX];
        struct instance i;
        uint32_t L = c % 100 == 99 ? INSTANCE_LAYERS_MAX : 1 + fixture_below(&seed, 20),
                 T = 1 + fixture_below(&seed, 8);
        if (instance_make(&i, L, T) != ST_OK) fail_msg("%s", status_message());
        i.batch = i.examples = i.epochs = 1;
        for (uint32_t t = 0; t < T; t++) {
            i.types[t].resource.limit = UINT32_MAX;
            i.types[t].resource.price_per_hour = fixture_below(&seed, 4) ? pow(10, fixture_between(&seed, -9, 9)) : 0;
        }
        for (uint32_t l = 0; l < L * T; l++) {
            static const double shares[] = {0, 1, 1e-9, 1 - 1e-12};
            i.times[l].oct = pow(10, fixture_between(&seed, -9, 9));
            i.times[l].alpha = c % 5 < 4 ? shares[c % 5] : fixture_between(&seed, 0, 1);
            i.times[l].odt = fixture_below(&seed, 2) ? pow(10, fixture_between(&seed, -9, 9)) : 0;
            i.times[l].beta = c % 7 < 4 ? shares[c % 7] : fixture_share(&seed);
        }
        for (uint32_t l = 0; l < L; l++) types[l] = (type_index)fixture_below(&seed, T);
        i.throughput_limit = c % 3 ? pow(10, fixture_between(&seed, -10, 5)) : 0;
        if (cost_model_open(&model, &i) != ST_OK) fail_msg("%s", status_message());
        uint32_t count = cost_stages(&model, types, stages);
        double begin = cpu_seconds();
        struct cost_result r = provision_exact(&model, stages, count);
        double seconds = cpu_seconds() - begin;
        if (L <= 20) slowest = fmax(slowest, seconds);
        assert_true(seconds < (L > 20 ? 5 : 0.1));
        struct cost_result again = cost_of(&model, stages, count);
        assert_true(again.is_feasible == r.is_feasible && again.cost == r.cost);
        if (L > 20) printf("1024 layers: %.3g s\n", seconds);
        cost_model_free(&model);
        instance_free(&i);
    }
    printf("20 layers: at most %.3g s\n", slowest);
}

/* However far the goal is out of reach: a plan that reaches something is nearer than one that has no unit
 * for a stage, and of two the faster one. */
static void provision_exact__goal_far_out_of_reach__comes_before_no_units(void **state)
{
    (void)state;
    static const type_index slow[] = {0, 0, 0}, fast[] = {1, 1, 1}, turns[] = {0, 1, 0};
    for (double goal = 1e2; goal <= 1e18; goal *= 10) {
        struct cost_stage stages[STAGES_MAX];
        fixture_make(&fixture, 3, 2);
        fixture.instance.throughput_limit = goal;
        for (uint32_t l = 0; l < 3; l++)
            for (uint32_t t = 0; t < 2; t++) fixture.times[2 * l + t].oct = t ? 0.5 : 1;
        fixture.types[0].resource.limit = 1; /* turns needs two */
        model_make();
        const double of_slow = provision_exact(&model, stages, cost_stages(&model, slow, stages)).score,
                     of_fast = provision_exact(&model, stages, cost_stages(&model, fast, stages)).score,
                     of_turns = provision_exact(&model, stages, cost_stages(&model, turns, stages)).score;
        if (!(of_fast < of_slow && of_slow < of_turns))
            fail_msg("goal %g: scores %.17g, %.17g, %.17g", goal, of_fast, of_slow, of_turns);
        cost_model_free(&model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(provision_exact__goal_far_out_of_reach__comes_before_no_units),
        cmocka_unit_test(provision_exact__random_stages__equals_trying_all_units),
        cmocka_unit_test(provision_exact__one_stage__takes_the_least_units),
        cmocka_unit_test(provision_exact__faster_is_cheaper__goes_above_the_throughput),
        cmocka_unit_test(provision_exact__out_of_reach__says_which_stage_binds_and_why),
        cmocka_unit_test(provision_exact__random_stages__is_to_the_bit_what_plain_steps_give),
        cmocka_unit_test(provision_exact__optimum_far_away__is_the_one_of_plain_steps),
        cmocka_unit_test(provision_exact__limits_without_measure__ends_soon),
    };
    int failure_count = cmocka_run_group_tests(tests, NULL, NULL);
    return failure_count ? 1 : 0;
}
