/* The provisions that the exact one is compared with: Newton's method finds the least cost of the
 * continuous problem, rounding keeps to limits and throughput, fixed proportions are what they say; and
 * none is ever better than the exact one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sched/draw.h"
#include "sched/method.h"
#include "sched/provision.h"

#define LAYERS_MAX     12u
#define INSTANCE_COUNT 60u
#define PLANS          20u /* of an instance */

/* What every test goes through: random plans of random instances, some with limits that bind, some without a
 * throughput, some bound by communication. */
struct scene {
    struct instance instance;
    struct cost_model model;
    struct draw draw;
    type_index types[LAYERS_MAX];
    struct cost_stage stages[LAYERS_MAX];
    uint32_t count;
};

static void scene_open(struct scene *s, uint64_t seed)
{
    s->draw = draw_make(seed, 0);
    uint32_t L = 4 + draw_below(&s->draw, LAYERS_MAX - 3), T = 1 + draw_below(&s->draw, 4);
    assert_int_equal(instance_random(&s->instance, seed, L, T), ST_OK);
    if (seed % 3 == 1)
        for (uint32_t t = 0; t < T; t++)
            s->instance.types[t].resource.limit = 1 + s->instance.types[t].resource.limit / 8;
    if (seed % 4 == 2) s->instance.throughput_limit = 0;
    if (seed % 5 == 3)
        for (uint32_t c = 0; c < L * T; c++) s->instance.times[c].odt *= 20;
    assert_int_equal(cost_model_open(&s->model, &s->instance), ST_OK);
}

static void scene_plan(struct scene *s)
{
    draw_plan_segments(&s->draw, s->types, s->model.layer_count, s->model.type_count, 1 + draw_below(&s->draw, 4));
    s->count = cost_stages(&s->model, s->types, s->stages);
}

static void scene_close(struct scene *s)
{
    cost_model_free(&s->model);
    instance_free(&s->instance);
}

/* A provision says of itself what its units come to. */
static void assert_units_give(const struct scene *s, const struct cost_stage *stages, const struct cost_result *r)
{
    struct cost_result again = cost_of(&s->model, stages, s->count);
    for (uint32_t n = 0; n < s->count; n++) {
        assert_true(stages[n].k >= 1);
        assert_true(stages[n].et == cost_et(&stages[n].time, stages[n].k));
    }
    assert_true(again.is_feasible == r->is_feasible);
    assert_true(again.cost == r->cost && again.throughput == r->throughput);
}

/* --- balanced ----------------------------------------------------------------------------------- */

#define GRID_POINTS 20000

static void provision_balance__random_plans__newton_agrees_with_a_fine_grid(void **state)
{
    (void)state;
    uint32_t compared = 0, inside = 0;
    double worst = 0;
    for (uint64_t seed = 1; seed <= INSTANCE_COUNT; seed++) {
        struct scene s;
        scene_open(&s, seed);
        for (int plan = 0; plan < 3; plan++) {
            struct provision_balance b;
            scene_plan(&s);
            if (!provision_balance(&s.model, s.stages, s.count, &b)) continue;
            assert_true(b.k_least >= 1 && b.k_least <= b.k && b.k <= b.k_max);
            double least = INFINITY;
            for (int n = 0; n <= GRID_POINTS; n++) {
                double k = b.k_least * pow(b.k_max / b.k_least, (double)n / GRID_POINTS);
                double cost = provision_balance_cost(&s.model, s.stages, s.count, b.stage, k);
                if (cost < least) least = cost;
            }
            double found = provision_balance_cost(&s.model, s.stages, s.count, b.stage, b.k);
            if (found / least - 1 > worst) worst = found / least - 1;
            compared++;
            inside += b.k > b.k_least * (1 + 1e-9) && b.k < b.k_max * (1 - 1e-9);
        }
        scene_close(&s);
    }
    print_message("# %u plans, %u with the least between the bounds, worst %.2g above the grid's\n", compared, inside,
                  worst);
    assert_true(compared > INSTANCE_COUNT && inside > 0);
    assert_true(worst < 1e-9);
}

static void provision_balanced__random_plans__never_beats_exact_and_is_near(void **state)
{
    (void)state;
    static double gaps[INSTANCE_COUNT * PLANS];
    uint32_t count = 0, infeasible = 0;
    double sum = 0, worst = 0;
    for (uint64_t seed = 1; seed <= INSTANCE_COUNT; seed++) {
        struct scene s;
        scene_open(&s, seed);
        for (uint32_t plan = 0; plan < PLANS; plan++) {
            struct cost_stage exact[LAYERS_MAX];
            scene_plan(&s);
            memcpy(exact, s.stages, sizeof exact);
            struct cost_result best = provision_exact(&s.model, exact, s.count);
            struct cost_result r = provision_balanced(&s.model, s.stages, s.count);
            assert_true(r.is_feasible == best.is_feasible);
            if (!best.is_feasible) {
                assert_true(r.score == best.score);
                infeasible++;
                continue;
            }
            assert_units_give(&s, s.stages, &r);
            assert_true(r.score >= best.score * (1 - 1e-12));
            double gap = r.score / best.score - 1;
            gaps[count++] = gap;
            sum += gap;
            if (gap > worst) worst = gap;
        }
        scene_close(&s);
    }
    uint32_t near = 0;
    for (uint32_t n = 0; n < count; n++) near += gaps[n] < 0.1;
    print_message(
        "# %u plans: %.1f%% above exact in the mean, %.1f%% at worst, %.0f%% of them within 10%%; %u infeasible\n",
        count, 100 * sum / count, 100 * worst, 100.0 * near / count, infeasible);
    /* Rounding few units moves the cost much: half a unit of one and a half is a third of a stage. */
    assert_true(sum < 0.03 * count && near > 0.9 * count && worst < 1);
    assert_true(count > INSTANCE_COUNT && infeasible > 0);
}

/* Two stages, one unit of the first a third as fast as needed, computation only. Worked by hand: at tau = 1 s
 * an example and no sequential part, k = 3 and 2. */
static void provision_balanced__perfectly_parallel__is_formula_13(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s, 4);
    for (uint32_t n = 0; n < 2; n++)
        s.stages[n] = (struct cost_stage){.first = n, .last = n, .time.compute_shared = 3 - n};
    s.model.limit[0] = 100;
    s.model.tau_max = 1;
    s.count = 2;
    struct cost_result r = provision_balanced(&s.model, s.stages, s.count);
    assert_true(r.is_feasible);
    assert_int_equal(s.stages[0].k, 3);
    assert_int_equal(s.stages[1].k, 2);
    /* Communication of the second binds: 4.4 / 1 units, rounded up for the throughput. */
    s.stages[1].time.move_shared = 4.4;
    assert_true(provision_balanced(&s.model, s.stages, s.count).is_feasible);
    assert_int_equal(s.stages[0].k, 3);
    assert_int_equal(s.stages[1].k, 5);
    /* 7 units in all for them: still within the limit of their type; 6: not. */
    s.stages[1].time.move_shared = 4;
    s.model.limit[0] = 7;
    assert_true(provision_balanced(&s.model, s.stages, s.count).is_feasible);
    s.model.limit[0] = 6;
    assert_false(provision_balanced(&s.model, s.stages, s.count).is_feasible);
    scene_close(&s);
}

/* --- fixed proportions --------------------------------------------------------------------------- */

static void provision_static__random_plans__has_the_proportions_and_never_beats_exact(void **state)
{
    (void)state;
    uint32_t feasible = 0, both = 0;
    for (uint64_t seed = 1; seed <= INSTANCE_COUNT; seed++) {
        struct scene s;
        scene_open(&s, seed);
        for (uint32_t plan = 0; plan < PLANS; plan++) {
            struct cost_stage exact[LAYERS_MAX];
            scene_plan(&s);
            memcpy(exact, s.stages, sizeof exact);
            struct cost_result best = provision_exact(&s.model, exact, s.count), ratio[2];
            for (int has_servers = 0; has_servers < 2; has_servers++) {
                struct cost_result *r = &ratio[has_servers];
                *r = provision_static(&s.model, s.stages, s.count, has_servers);
                if (!r->is_feasible) {
                    assert_true(r->score >= s.model.penalty);
                    continue;
                }
                feasible++;
                assert_true(best.is_feasible && r->score >= best.score * (1 - 1e-12));
                uint64_t cores = 0, accelerators = 0;
                double rate = 0;
                for (uint32_t n = 0; n < s.count; n++) {
                    bool is_cpu = method_type_is_cpu(&s.instance, s.stages[n].type);
                    *(is_cpu ? &cores : &accelerators) += s.stages[n].k;
                    rate += s.stages[n].k * s.model.price[s.stages[n].type];
                }
                /* All are given to the stages of their kind, and where there are
                 * none, 6 cores a server idle. */
                uint64_t servers = accelerators ? accelerators : cores / 6;
                assert_int_equal(cores, cores ? 6 * servers : 0);
                rate += s.model.price[0] * (double)((cores ? 0 : 6 * servers) + (has_servers ? 6 * servers : 0));
                assert_true(fabs(r->cost * r->throughput / s.model.usd_per_rate / rate - 1) < 1e-12);
                assert_true(1 / r->throughput <= s.model.tau_max);
                /* One server less does not reach the throughput. */
                uint64_t least[2] = {0, 0};
                for (uint32_t n = 0; n < s.count; n++)
                    least[method_type_is_cpu(&s.instance, s.stages[n].type)] +=
                        cost_units_least(&s.stages[n].time, s.model.tau_max, UINT32_MAX);
                assert_true(least[0] > servers - 1 || least[1] > 6 * (servers - 1));
            }
            if (!ratio[0].is_feasible || !ratio[1].is_feasible) continue;
            both++;
            assert_true(ratio[1].cost > ratio[0].cost);
        }
        scene_close(&s);
    }
    print_message("# %u feasible, %u plans with both\n", feasible, both);
    assert_true(both > INSTANCE_COUNT);
}

static void provision_static__serving_parameters__takes_cores_of_the_stages_or_its_own(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s, 4);
    s.instance.throughput_limit = 1;
    s.instance.server_seconds = 2.5;
    s.instance.server_price = 1;
    s.model.tau_max = 1;
    s.model.limit[0] = 100;
    s.stages[0] = (struct cost_stage){.last = 3, .time.compute_shared = 4};
    s.count = 1;
    /* 4 cores to compute and 3 to serve: two servers of 6, of which 9 compute,
     * and 3 hold the throughput at 3 / 2.5. */
    struct cost_result r = provision_static(&s.model, s.stages, 1, false);
    assert_int_equal(s.stages[0].k, 9);
    assert_true(fabs(r.throughput - 1.2) < 1e-12);
    assert_true(fabs(r.cost / (s.model.usd_per_rate / 1.2 * 12 * s.model.price[0]) - 1) < 1e-12);
    /* One server of 6 and 6: 6 compute, at 1.5; 6 serve, enough for 2.4. */
    r = provision_static(&s.model, s.stages, 1, true);
    assert_int_equal(s.stages[0].k, 6);
    assert_true(fabs(r.throughput - 1.5) < 1e-12);
    assert_true(fabs(r.cost / (s.model.usd_per_rate / 1.5 * 12 * s.model.price[0]) - 1) < 1e-12);
    /* As many servers as whoever needs more of them: 7 cores to compute and 6 to serve, or the other way. */
    for (int serves_more = 0; serves_more < 2; serves_more++) {
        s.instance.server_seconds = serves_more ? 6.5 : 5.5;
        s.stages[0] = (struct cost_stage){.last = 3, .time.compute_shared = serves_more ? 6 : 7};
        (void)provision_static(&s.model, s.stages, 1, true);
        assert_int_equal(s.stages[0].k, 12);
    }
    scene_close(&s);
}

/* --- parameter servers ---------------------------------------------------------------------------- */

static void provision_server__seconds_an_example__are_cores_rounded_up(void **state)
{
    (void)state;
    struct instance i = {.examples = 3600, .epochs = 2, .server_seconds = 0.25, .server_price = 0.5};
    assert_int_equal(provision_server_cores(&i, 8), 2);
    assert_int_equal(provision_server_cores(&i, 8.1), 3);
    assert_int_equal(provision_server_cores(&i, 0), 0);
    assert_int_equal(provision_server_cores(&i, 1e300), UINT32_MAX);
    /* 2 epochs of 3600 examples at 8 a second: a quarter of an hour, of 2 cores. */
    assert_true(provision_server_cost(&i, 8) == 2 * 0.5 * 0.25);
    assert_true(provision_server_cost(&i, 0) == 0);
    i.server_seconds = 0;
    assert_int_equal(provision_server_cores(&i, 8), 0);
    assert_true(provision_server_cost(&i, 8) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(provision_balance__random_plans__newton_agrees_with_a_fine_grid),
        cmocka_unit_test(provision_balanced__random_plans__never_beats_exact_and_is_near),
        cmocka_unit_test(provision_balanced__perfectly_parallel__is_formula_13),
        cmocka_unit_test(provision_static__random_plans__has_the_proportions_and_never_beats_exact),
        cmocka_unit_test(provision_static__serving_parameters__takes_cores_of_the_stages_or_its_own),
        cmocka_unit_test(provision_server__seconds_an_example__are_cores_rounded_up),
    };
    int failure_count = cmocka_run_group_tests(tests, NULL, NULL);
    return failure_count ? 1 : 0;
}
