/* Every method of methods.def keeps to the same contract; and each of those that sample or
 * propose does what its name says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sched/climb.h"
#include "sched/method.h"
#include "sched/solution.h"
#include "tests/sched/search_fixture.h"

#define LAYERS_MAX 12u

/* A random instance, some with few units, with devices given or not. */
struct scene {
    struct instance instance;
    struct cost_model model;
};

static void scene_open(struct scene *s, uint64_t seed, uint32_t L, uint32_t T)
{
    assert_int_equal(instance_random(&s->instance, seed, L, T), ST_OK);
    if (seed % 3 == 1)
        for (uint32_t t = 0; t < T; t++)
            s->instance.types[t].resource.limit = 1 + s->instance.types[t].resource.limit / 8;
    if (seed % 7 == 2) s->instance.throughput_limit = 0;
    if (seed % 11 == 5) s->instance.throughput_limit *= 100;
    assert_int_equal(cost_model_open(&s->model, &s->instance), ST_OK);
}

static void scene_close(struct scene *s)
{
    cost_model_free(&s->model);
    instance_free(&s->instance);
}

/* Of a run: what remains when the search is closed. */
struct outcome {
    status st;
    uint64_t evaluations;
    bool is_feasible, is_proven;
    double score;
    type_index types[LAYERS_MAX];
    enum search_end ended_by;
};

static struct outcome run(const struct scene *s, method_id method, const struct search_options *options)
{
    struct search search;
    assert_int_equal(search_open(&search, &s->model, options), ST_OK);
    struct outcome o = {.st = method_table[method].run(&search)};
    o.evaluations = search.evaluations;
    o.is_feasible = search.is_feasible;
    o.is_proven = search.is_proven;
    o.score = search.best_score;
    o.ended_by = search.ended_by;
    if (o.evaluations > 0 || o.is_feasible) memcpy(o.types, search.best, s->model.layer_count * sizeof *o.types);
    search_close(&search);
    return o;
}

static struct cost_result provisioned(const struct cost_model *model, const type_index *types)
{
    struct cost_stage stages[LAYERS_MAX];
    return provision_exact(model, stages, cost_stages(model, types, stages));
}

/* --- all ---------------------------------------------------------------------------------------- */

static void methods__random_instances__give_what_they_say_and_never_beat_the_optimum(void **state)
{
    (void)state;
    uint32_t feasible = 0, infeasible = 0;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        struct scene s;
        scene_open(&s, seed, 4 + (uint32_t)(seed % 5), 1 + (uint32_t)(seed % 4));
        struct outcome exact = run(&s, METHOD_ID_exact, &(struct search_options){.seed = 1});
        assert_true(exact.st == ST_OK && exact.is_proven);
        *(exact.is_feasible ? &feasible : &infeasible) += 1;
        for (uint32_t method = 0; method < METHOD_ID_COUNT; method++) {
            /* bo takes a millisecond an evaluation. */
            uint64_t budget = method == METHOD_ID_bo ? 60 : 600;
            struct outcome o = run(&s, method, &(struct search_options){.seed = seed, .evaluations = budget});
            if (o.st == ST_INVALID || o.st == ST_USAGE) continue; /* the method has said why */
            assert_int_equal(o.st, ST_OK);
            if (method_table[method].kind != METHOD_PROOF) assert_true(o.evaluations <= budget);
            if (!o.is_feasible) continue;
            struct cost_result r = provisioned(&s.model, o.types);
            assert_true(exact.is_feasible && r.is_feasible);
            /* One that chooses units itself does no better than what is best for its types. */
            assert_true(method == METHOD_ID_rl_joint ? o.score >= r.score * (1 - 1e-12) : r.score == o.score);
            if (o.score < exact.score * (1 - 1e-12))
                fail_msg("seed %u: %s found %.17g, exact %.17g", (unsigned)seed, method_table[method].name, o.score,
                         exact.score);
        }
        scene_close(&s);
    }
    print_message("# %u feasible instances, %u not\n", feasible, infeasible);
    assert_true(feasible > 10 && infeasible > 0);
}

static const method_id sampled[] = {METHOD_ID_climb, METHOD_ID_genetic, METHOD_ID_bo};
#define SAMPLED_COUNT (sizeof sampled / sizeof *sampled)

static void methods_sampled__same_seed__same_plan_and_the_whole_budget(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s, 3, 12, 16);
    for (uint32_t m = 0; m < SAMPLED_COUNT; m++) {
        uint64_t budget = sampled[m] == METHOD_ID_bo ? 120 : 1000;
        const struct search_options options = {.seed = 7, .evaluations = budget};
        const struct search_options other = {.seed = 8, .evaluations = budget};
        struct outcome a = run(&s, sampled[m], &options), b = run(&s, sampled[m], &options),
                       c = run(&s, sampled[m], &other);
        assert_int_equal(a.evaluations, budget);
        assert_int_equal(a.ended_by, SEARCH_EVALUATIONS);
        assert_true(a.score == b.score);
        assert_memory_equal(a.types, b.types, sizeof a.types);
        if (m > 0) assert_true(c.score != a.score || memcmp(a.types, c.types, sizeof a.types) != 0);
    }
    scene_close(&s);
}

/* When each plan better than those before was found, and the last of them, by a hash: any other
 * step of a method finds others, or at another time. Whoever changes a method on purpose takes the
 * hashes that this test then tells. */
static void methods_sampled__fixed_seeds__find_the_same_at_the_same_evaluations(void **state)
{
    (void)state;
    static const uint64_t expected[][SAMPLED_COUNT] = {
        {UINT64_C(0xf2a1ea154ada0aa2), UINT64_C(0x99dfbc542d8df4fd), UINT64_C(0x0705ba0eb05725ac)},
        {UINT64_C(0xca2bdf8f0dd2e91b), UINT64_C(0x8719df0db130335d), UINT64_C(0x0ae0bb723f65b060)},
        {UINT64_C(0xc2ab9bfa11d93c18), UINT64_C(0xbed35e2bdaf4930b), UINT64_C(0xf37b01effdc60b9c)}};
    for (uint32_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        struct scene s;
        scene_open(&s, 20 + i, 12, 8);
        for (uint32_t m = 0; m < SAMPLED_COUNT; m++) {
            const struct search_options options = {
                .seed = i, .evaluations = sampled[m] == METHOD_ID_bo ? 150 : 2000, .keeps_curve = true};
            const uint64_t hash = search_fingerprint(&s.model, sampled[m], &options);
            if (hash != expected[i][m])
                fail_msg("%s from seed %u: 0x%016" PRIx64 ", expected 0x%016" PRIx64, method_table[sampled[m]].name, i,
                         hash, expected[i][m]);
        }
        scene_close(&s);
    }
}

/* 16 plans in all: what is new runs out, the budget does not. */
static void methods_sampled__all_plans_seen__end_with_the_best(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s, 2, 4, 2);
    double least = INFINITY;
    for (uint32_t plan = 0; plan < 16; plan++) {
        type_index types[4];
        for (uint32_t l = 0; l < 4; l++) types[l] = plan >> l & 1;
        least = fmin(least, provisioned(&s.model, types).score);
    }
    for (uint32_t m = 0; m < SAMPLED_COUNT; m++) {
        struct outcome o = run(&s, sampled[m], &(struct search_options){.seed = 1, .evaluations = 150});
        assert_int_equal(o.evaluations, 150);
        assert_true(o.score == least);
    }
    scene_close(&s);
    /* One type: one plan. */
    scene_open(&s, 2, 4, 1);
    for (uint32_t m = 0; m < SAMPLED_COUNT; m++)
        assert_int_equal(run(&s, sampled[m], &(struct search_options){.seed = 1, .evaluations = 200}).evaluations, 200);
    scene_close(&s);
}

static void methods_sampled__ceiling_of_seconds__end_and_say_so(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s, 3, 12, 4);
    for (uint32_t m = 0; m < SAMPLED_COUNT; m++) {
        /* A round of bo takes as long as thousands of evaluations, so it may not wait
         * for hundreds to read the clock. */
        double seconds = sampled[m] == METHOD_ID_bo ? 0.01 : 0.1;
        struct outcome o = run(&s, sampled[m], &(struct search_options){.seed = 1, .seconds = seconds});
        assert_int_equal(o.ended_by, SEARCH_SECONDS);
        assert_true(o.evaluations > 0);
        if (sampled[m] == METHOD_ID_bo) assert_true(o.evaluations < 256);
    }
    scene_close(&s);
}

/* How near each comes on instances that have an optimum: the figures are printed, and the
 * bounds leave room for other seeds. */
static void methods_sampled__small_instances__are_near_the_optimum(void **state)
{
    (void)state;
    static const struct {
        uint64_t evaluations, seeds;
        uint32_t optimal_least; /* in a hundred instances */
        double mean_max;        /* above the optimum */
    } bounds[SAMPLED_COUNT] = {{20000, 18, 90, 0.01}, {20000, 18, 60, 0.05}, {250, 6, 30, 0.3}};
    for (uint32_t m = 0; m < SAMPLED_COUNT; m++) {
        uint32_t count = 0, optimal = 0;
        double sum = 0;
        for (uint64_t seed = 1; seed <= bounds[m].seeds; seed++) {
            struct scene s;
            scene_open(&s, seed, 8, 2 + (uint32_t)(seed % 5));
            struct outcome exact = run(&s, METHOD_ID_exact, &(struct search_options){.seed = 1});
            struct outcome o =
                run(&s, sampled[m], &(struct search_options){.seed = 1, .evaluations = bounds[m].evaluations});
            scene_close(&s);
            if (!exact.is_feasible) continue;
            assert_true(o.is_feasible);
            count++;
            optimal += o.score <= exact.score * (1 + 1e-9);
            sum += o.score / exact.score - 1;
        }
        print_message("# %s, %u evaluations: %u of %u optimal, %.2f%% above in the mean\n",
                      method_table[sampled[m]].name, (unsigned)bounds[m].evaluations, optimal, count,
                      100 * sum / count);
        assert_true(count > 4);
        assert_true(100 * optimal >= bounds[m].optimal_least * count && sum <= bounds[m].mean_max * count);
    }
}

/* --- climb -------------------------------------------------------------------------------------- */

static void climb__any_start__ends_where_no_move_is_better(void **state)
{
    (void)state;
    const uint32_t L = 10, T = 4;
    struct scene s;
    scene_open(&s, 6, L, T);
    struct search search;
    assert_int_equal(search_open(&search, &s.model, &(struct search_options){.seed = 1}), ST_OK);
    struct draw draw = draw_make(5, 0);
    for (int start = 0; start < 50; start++) {
        type_index types[LAYERS_MAX], moved[LAYERS_MAX];
        draw_plan_uniform(&draw, types, L, T);
        double before = search_evaluate(&search, types), score = climb(&search, &draw, types, before);
        assert_true(score <= before && score == search_evaluate(&search, types));
        /* A run of one type put on another: of one layer, of a whole stage, or of the
         * neighbour's type at one end of a stage. */
        for (uint32_t begin = 0; begin < L; begin++)
            for (uint32_t end = begin + 1; end <= L && types[end - 1] == types[begin]; end++)
                for (uint32_t type = 0; type < T; type++) {
                    bool is_begin = begin == 0 || types[begin - 1] != types[begin];
                    bool is_end = end == L || types[end] != types[begin];
                    bool is_shift = (is_begin && begin > 0 && types[begin - 1] == type) ||
                                    (is_end && end < L && types[end] == type);
                    if (end > begin + 1 && !(is_begin && is_end) && !is_shift) continue;
                    memcpy(moved, types, sizeof moved);
                    for (uint32_t l = begin; l < end; l++) moved[l] = (type_index)type;
                    assert_true(search_evaluate(&search, moved) >= score);
                }
    }
    search_close(&search);
    scene_close(&s);
}

/* --- fixed plans -------------------------------------------------------------------------------- */

/* The least score of plans with the first layer on a type of `first` and the rest on one
 * of `rest`, bits of types. */
static double least_of(const struct scene *s, uint32_t first, uint32_t rest, bool is_same)
{
    double least = INFINITY;
    for (uint32_t one = 0; one < s->model.type_count; one++)
        for (uint32_t other = 0; other < s->model.type_count; other++) {
            type_index types[LAYERS_MAX];
            if (!(first >> one & 1) || !(rest >> other & 1) || (is_same && one != other)) continue;
            for (uint32_t l = 0; l < s->model.layer_count; l++) types[l] = (type_index)(l == 0 ? one : other);
            least = fmin(least, provisioned(&s->model, types).score);
        }
    return least;
}

static void methods_fixed__devices__say_which_types_they_use(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct scene s;
        scene_open(&s, seed, 6, 4);
        /* Types 1 and 3 are CPUs; then none is told: type 0. */
        for (uint32_t t = 0; t < 4; t++) s.instance.types[t].resource.device = t % 2 ? RESOURCE_CPU : RESOURCE_CUDA;
        for (int round = 0; round < 2; round++) {
            uint32_t cpu = round ? 1 : 10, gpu = 15 - cpu;
            const struct search_options any = {.seed = 1};
            assert_true(run(&s, METHOD_ID_cpu, &any).score == least_of(&s, cpu, cpu, true));
            assert_true(run(&s, METHOD_ID_gpu, &any).score == least_of(&s, gpu, gpu, true));
            assert_true(run(&s, METHOD_ID_heuristic, &any).score == least_of(&s, cpu, gpu, false));
            assert_true(run(&s, METHOD_ID_inverse, &any).score == least_of(&s, gpu, cpu, false));
            assert_int_equal(run(&s, METHOD_ID_cpu, &any).evaluations, round ? 1 : 2);
            for (uint32_t t = 0; t < 4; t++) s.instance.types[t].resource.device = RESOURCE_SIM;
        }
        scene_close(&s);
    }
}

static void methods_fixed__no_accelerator__are_refused_with_a_sentence(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s, 3, 6, 1);
    const struct search_options any = {.seed = 1};
    assert_int_equal(run(&s, METHOD_ID_cpu, &any).st, ST_OK);
    static const method_id with[] = {METHOD_ID_gpu, METHOD_ID_heuristic, METHOD_ID_inverse};
    for (uint32_t m = 0; m < 3; m++) {
        assert_int_equal(run(&s, with[m], &any).st, ST_INVALID);
        assert_non_null(strstr(status_message(), "has no accelerator type to put layers on"));
        assert_non_null(strstr(status_message(), s.instance.name));
    }
    scene_close(&s);
}

/* --- names -------------------------------------------------------------------------------------- */

static void solve_method_check__names__all_of_the_table_and_auto(void **state)
{
    (void)state;
    char expected[512] = "unknown method \"brut\"; expected auto";
    assert_int_equal(solve_method_check("auto"), ST_OK);
    for (uint32_t m = 0; m < METHOD_ID_COUNT; m++) {
        assert_int_equal(solve_method_check(method_table[m].name), ST_OK);
        assert_int_equal(method_find(method_table[m].name), m);
        snprintf(expected + strlen(expected), sizeof expected - strlen(expected), ", %s", method_table[m].name);
    }
    assert_int_equal(solve_method_check("brut"), ST_USAGE);
    assert_string_equal(status_message(), expected);
}

/* --- greedy ------------------------------------------------------------------------------------- */

static void greedy__every_layer__is_on_the_type_that_was_cheapest_so_far(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct scene s;
        scene_open(&s, seed, 9, 4);
        struct outcome o = run(&s, METHOD_ID_greedy, &(struct search_options){.seed = 1});
        assert_int_equal(o.evaluations, 1);
        for (uint32_t l = 0; l < 9; l++) {
            /* The problem of the layers so far, as one of its own; the penalty of the whole. */
            struct instance so_far = s.instance;
            struct cost_model model;
            so_far.layer_count = l + 1;
            assert_int_equal(cost_model_open(&model, &so_far), ST_OK);
            model.penalty = s.model.penalty;
            type_index types[LAYERS_MAX];
            memcpy(types, o.types, sizeof types);
            double chosen = provisioned(&model, types).score;
            for (uint32_t t = 0; t < 4; t++) {
                types[l] = (type_index)t;
                double other = provisioned(&model, types).score;
                assert_true(t < o.types[l] ? other > chosen : other >= chosen);
            }
            cost_model_free(&model);
        }
        scene_close(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(methods__random_instances__give_what_they_say_and_never_beat_the_optimum),
        cmocka_unit_test(methods_sampled__same_seed__same_plan_and_the_whole_budget),
        cmocka_unit_test(methods_sampled__fixed_seeds__find_the_same_at_the_same_evaluations),
        cmocka_unit_test(methods_sampled__all_plans_seen__end_with_the_best),
        cmocka_unit_test(methods_sampled__ceiling_of_seconds__end_and_say_so),
        cmocka_unit_test(methods_sampled__small_instances__are_near_the_optimum),
        cmocka_unit_test(climb__any_start__ends_where_no_move_is_better),
        cmocka_unit_test(methods_fixed__devices__say_which_types_they_use),
        cmocka_unit_test(methods_fixed__no_accelerator__are_refused_with_a_sentence),
        cmocka_unit_test(solve_method_check__names__all_of_the_table_and_auto),
        cmocka_unit_test(greedy__every_layer__is_on_the_type_that_was_cheapest_so_far),
    };
    int failure_count = cmocka_run_group_tests(tests, NULL, NULL);
    return failure_count ? 1 : 0;
}
