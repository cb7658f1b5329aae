/* The learned methods: they repeat to the bit, find proven optima, get better with their budget and only with
 * it, and hand their policy on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "engine/base/fmath.h"
#include "sched/method.h"
#include "sched/policy.h"
#include "tests/sched/search_fixture.h"

#define LAYERS_MAX 20u
#define SEED       11u

struct scene {
    struct instance instance;
    struct cost_model model;
};

static void scene_open(struct scene *s, uint64_t seed, uint32_t L, uint32_t T)
{
    assert_int_equal(instance_random(&s->instance, seed, L, T), ST_OK);
    assert_int_equal(cost_model_open(&s->model, &s->instance), ST_OK);
}

static void scene_close(struct scene *s)
{
    cost_model_free(&s->model);
    instance_free(&s->instance);
}

struct outcome {
    uint64_t evaluations;
    bool is_feasible, is_proven;
    double score;
    type_index types[LAYERS_MAX];
    enum search_end ended_by;
};

static struct outcome run(const struct scene *s, method_id method, const struct search_options *options)
{
    struct search search;
    struct outcome o = {0};
    assert_int_equal(search_open(&search, &s->model, options), ST_OK);
    assert_int_equal(method_table[method].run(&search), ST_OK);
    o.evaluations = search.evaluations;
    o.is_feasible = search.is_feasible;
    o.is_proven = search.is_proven;
    o.score = search.best_score;
    o.ended_by = search.ended_by;
    memcpy(o.types, search.best, s->model.layer_count * sizeof *o.types);
    search_close(&search);
    return o;
}

/* The last one also chooses units, which none of the others has to find. */
static const method_id learned[] = {METHOD_ID_rl, METHOD_ID_rl_rnn, METHOD_ID_rl_polish, METHOD_ID_rl_joint};
#define LEARNED_COUNT (sizeof learned / sizeof *learned)

static void rl__same_seed__same_plan_bit_for_bit(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s, SEED, 12, 9);
    for (size_t m = 0; m < LEARNED_COUNT; m++) {
        const struct search_options options = {.seed = 5, .evaluations = 3000}, other = {.seed = 6, .evaluations = 300},
                                    short_ = {.seed = 5, .evaluations = 300};
        struct outcome a = run(&s, learned[m], &options), b = run(&s, learned[m], &options);
        assert_memory_equal(&a.score, &b.score, sizeof a.score);
        assert_memory_equal(a.types, b.types, sizeof a.types);
        assert_true(run(&s, learned[m], &other).score != run(&s, learned[m], &short_).score);
    }
    scene_close(&s);
}

/* When each plan better than those before was found, and the last of them, by a hash, as in test_methods.c:
 * whoever changes a method on purpose takes the hashes that this test then tells. */
static void rl__fixed_seeds__find_the_same_at_the_same_evaluations(void **state)
{
    (void)state;
    static const struct {
        uint64_t instance, seed, evaluations;
        uint32_t layers, types;
        bool plain;
        uint64_t expected[LEARNED_COUNT];
    } cases[] = {
        {SEED,
         5,
         3000,
         12,
         9,
         false,
         {UINT64_C(0xa7c0b897590a18ca), UINT64_C(0xc9b84eff4db525ef), UINT64_C(0xa7c0b897590a18ca),
          UINT64_C(0x10786d9e8bcfeab4)}},
        {SEED + 1,
         6,
         12000,
         6,
         3,
         false,
         {UINT64_C(0xd6579a63e0566078), UINT64_C(0xbcb42bd439ea371b), UINT64_C(0xd6579a63e0566078),
          UINT64_C(0x13bedec337f0dff2)}}, /* small enough to begin anew */
        {SEED + 2,
         7,
         600,
         9,
         2,
         true,
         {UINT64_C(0xadfa8548d5a988c2), UINT64_C(0xadfa8548d5a988c2), UINT64_C(0xadfa8548d5a988c2),
          UINT64_C(0x9f1ddb26174ffa22)}},
    };
    bool is_good = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scene s;
        scene_open(&s, cases[i].instance, cases[i].layers, cases[i].types);
        for (size_t m = 0; m < LEARNED_COUNT; m++) {
            const struct search_options options = {.seed = cases[i].seed,
                                                   .evaluations = cases[i].evaluations,
                                                   .plain_reinforce = cases[i].plain,
                                                   .keeps_curve = true};
            const uint64_t hash = search_fingerprint(&s.model, learned[m], &options);
            if (hash != cases[i].expected[m])
                print_message("# %s of case %zu: 0x%016" PRIx64 "\n", method_table[learned[m]].name, i, hash);
            is_good = is_good && hash == cases[i].expected[m];
        }
        scene_close(&s);
    }
    assert_true(is_good);
}

static void rl__any_budget__is_spent_and_not_more(void **state)
{
    (void)state;
    static const uint64_t budgets[] = {1, 2, 127, 128, 129, 130, 1000};
    struct scene s;
    scene_open(&s, SEED, 8, 5);
    for (size_t m = 0; m < LEARNED_COUNT; m++)
        for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++) {
            const struct search_options options = {.seed = 5, .evaluations = budgets[i]};
            struct outcome o = run(&s, learned[m], &options);
            assert_int_equal(o.evaluations, budgets[i]);
            assert_int_equal(o.ended_by, SEARCH_EVALUATIONS);
            assert_false(o.is_proven);
        }
    scene_close(&s);
}

/* The mean over instances of log(cost / least cost). */
static double gap(method_id method, const struct search_options *options, uint32_t count)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct scene s;
        const struct search_options unbounded = {0};
        scene_open(&s, 100 + i, 10, 6);
        struct outcome exact = run(&s, METHOD_ID_exact, &unbounded), found = run(&s, method, options);
        assert_true(exact.is_proven && exact.is_feasible);
        assert_true(found.score >= exact.score * (1 - 1e-12));
        sum += fmath_log(found.score / exact.score);
        scene_close(&s);
    }
    return sum / count;
}

static void rl__some_thousand_plans__finds_proven_optima(void **state)
{
    (void)state;
    for (size_t m = 0; m < LEARNED_COUNT; m++) {
        const struct search_options options = {.seed = 3, .evaluations = 10000};
        double g = gap(learned[m], &options, 4);
        print_message("%s: mean gap %.4f %%\n", method_table[learned[m]].name, 100 * g);
        assert_true(g < (learned[m] == METHOD_ID_rl_joint ? 0.1 : 0.01));
    }
}

/* With a few units of each type every number is a column, and the least cost is found. */
static void rl_joint__small_instances__finds_types_and_units_of_the_optimum(void **state)
{
    (void)state;
    uint32_t optimal_count = 0;
    for (uint64_t seed = 0; seed < 8; seed++) {
        struct scene s;
        struct search search;
        const struct search_options options = {.seed = 3, .evaluations = 8000}, unbounded = {0};
        assert_int_equal(instance_random(&s.instance, 300 + seed, 5 + seed % 4, 3), ST_OK);
        for (uint32_t t = 0; t < 3; t++) s.instance.types[t].resource.limit = 4 + 3 * t;
        s.instance.throughput_limit = 0;
        assert_int_equal(cost_model_open(&s.model, &s.instance), ST_OK);
        const struct outcome exact = run(&s, METHOD_ID_exact, &unbounded);
        assert_int_equal(search_open(&search, &s.model, &options), ST_OK);
        assert_int_equal(method_rl_joint(&search), ST_OK);
        assert_true(search.is_feasible && exact.is_proven && search.best_score >= exact.score * (1 - 1e-12));
        optimal_count += search.best_score <= exact.score * (1 + 1e-9);
        /* What it says of units is what its plan comes to, within the limits. */
        struct cost_stage stages[LAYERS_MAX];
        const uint32_t count = cost_stages(&s.model, search.best, stages);
        for (uint32_t i = 0; i < count; i++) stages[i].k = search.best_units[stages[i].first];
        const struct cost_result result = cost_of(&s.model, stages, count);
        assert_true(result.is_feasible && result.cost == search.best_score);
        search_close(&search);
        scene_close(&s);
    }
    print_message("rl-joint: %u of 8 optimal\n", optimal_count);
    assert_true(optimal_count >= 7);
}

static void rl__no_rounds__is_visibly_worse(void **state)
{
    (void)state;
    for (size_t m = 0; m < LEARNED_COUNT; m++) {
        const struct search_options none = {.seed = 3, .evaluations = 1};
        assert_true(gap(learned[m], &none, 6) > 0.5);
    }
}

static void rl__without_learning__is_worse_than_with_it(void **state)
{
    (void)state;
    /* Patience and restarts alone would draw from first weights: as many plans, each of its own search. */
    double drawn = 0;
    struct scene s;
    scene_open(&s, 104, 10, 6);
    const struct search_options options = {.seed = 3, .evaluations = 4000};
    double best = INFINITY, found = run(&s, METHOD_ID_rl, &options).score;
    for (uint64_t seed = 0; seed < 40; seed++) {
        const struct search_options one_round = {.seed = seed, .evaluations = 100};
        drawn = run(&s, METHOD_ID_rl, &one_round).score;
        best = drawn < best ? drawn : best;
    }
    print_message("4000 plans: %g by learning, %g without\n", found, best);
    assert_true(found < best);
    scene_close(&s);
}

static void rl__plain_reinforce__learns_but_less(void **state)
{
    (void)state;
    const struct search_options first = {.seed = 3, .evaluations = 129, .plain_reinforce = true},
                                plain = {.seed = 3, .evaluations = 5000, .plain_reinforce = true},
                                seeking = {.seed = 3, .evaluations = 5000};
    for (size_t m = 0; m < 2; m++) {
        double at_first = gap(learned[m], &first, 4), later = gap(learned[m], &plain, 4),
               best = gap(learned[m], &seeking, 4);
        print_message("%s: mean gap %.3f after a round, plain %.3f, risk-seeking %.4f\n", method_table[learned[m]].name,
                      at_first, later, best);
        assert_true(later < 0.7 * at_first);
        assert_true(best < later);
    }
}

static void rl__nothing_feasible__finds_the_greatest_throughput(void **state)
{
    (void)state;
    struct scene s;
    struct fastest fastest;
    type_index types[LAYERS_MAX];
    struct cost_stage stages[LAYERS_MAX];
    scene_open(&s, SEED, 7, 4);
    cost_model_free(&s.model);
    s.instance.throughput_limit *= 1e4;
    assert_int_equal(cost_model_open(&s.model, &s.instance), ST_OK);
    assert_int_equal(exact_fastest(&s.model, 0, types, stages, &fastest), ST_OK);
    for (size_t m = 0; m < LEARNED_COUNT; m++) {
        const struct search_options options = {.seed = 3, .evaluations = 10000};
        struct outcome o = run(&s, learned[m], &options);
        assert_false(o.is_feasible);
        double throughput = provision_exact(&s.model, stages, cost_stages(&s.model, o.types, stages)).throughput;
        assert_true(throughput > 0.9 * fastest.throughput && throughput < fastest.throughput * (1 + 1e-9));
    }
    scene_close(&s);
}

static void rl__one_type__is_that_type(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s, SEED, 5, 1);
    for (size_t m = 0; m < LEARNED_COUNT; m++) {
        const struct search_options options = {.seed = 3, .evaluations = 500};
        struct outcome o = run(&s, learned[m], &options);
        for (uint32_t l = 0; l < 5; l++) assert_int_equal(o.types[l], 0);
    }
    scene_close(&s);
}

/* --- policies handed on ------------------------------------------------------------------------ */

static void rl__policy_to__applied_to_the_same_instance_gives_its_plan(void **state)
{
    (void)state;
    struct scene s;
    struct policy *policy;
    type_index types[LAYERS_MAX];
    scene_open(&s, SEED, 10, 6);
    for (size_t m = 0; m < 2; m++) {
        assert_int_equal(policy_make(&policy, POLICY_LSTM, 1), ST_OK);
        const struct search_options options = {.seed = 3, .evaluations = 6000, .policy_to = policy};
        struct outcome o = run(&s, learned[m], &options);
        assert_int_equal(policy_cell_of(policy), m == 0 ? POLICY_LSTM : POLICY_ELMAN);
        assert_int_equal(policy_apply(policy, &s.model, types), ST_OK);
        struct cost_stage stages[LAYERS_MAX];
        double applied = provision_exact(&s.model, stages, cost_stages(&s.model, types, stages)).score;
        assert_true(applied < o.score * 1.05);
        policy_free(policy);
    }
    scene_close(&s);
}

static void rl__policy_from__is_where_it_begins(void **state)
{
    (void)state;
    struct scene s;
    struct policy *policy;
    type_index types[LAYERS_MAX];
    scene_open(&s, SEED, 10, 6);
    assert_int_equal(policy_make(&policy, POLICY_LSTM, 1), ST_OK);
    const struct search_options options = {.seed = 3, .evaluations = 6000, .policy_to = policy};
    run(&s, METHOD_ID_rl, &options);
    const struct search_options once = {.seed = 9, .evaluations = 1, .policy_from = policy};
    struct outcome o = run(&s, METHOD_ID_rl, &once);
    assert_int_equal(policy_apply(policy, &s.model, types), ST_OK);
    assert_memory_equal(o.types, types, 10 * sizeof *types);
    /* Measured again: other times, the same layers and types. It begins where it was. */
    for (uint32_t c = 0; c < 60; c++) s.instance.times[c].oct *= 1 + 0.01 * (c % 7);
    cost_model_free(&s.model);
    assert_int_equal(cost_model_open(&s.model, &s.instance), ST_OK);
    o = run(&s, METHOD_ID_rl, &once);
    assert_memory_equal(o.types, types, 10 * sizeof *types);
    policy_free(policy);
    scene_close(&s);
}

static void rl__policy_from_of_the_other_cell__is_a_mismatch(void **state)
{
    (void)state;
    struct scene s;
    struct policy *policy;
    struct search search;
    scene_open(&s, SEED, 6, 3);
    assert_int_equal(policy_make(&policy, POLICY_ELMAN, 1), ST_OK);
    const struct search_options options = {.seed = 3, .evaluations = 100, .policy_from = policy};
    assert_int_equal(search_open(&search, &s.model, &options), ST_OK);
    assert_int_equal(method_rl(&search), ST_MISMATCH);
    assert_non_null(strstr(status_message(), "LSTM"));
    assert_int_equal(search.evaluations, 0);
    search_close(&search);
    policy_free(policy);
    scene_close(&s);
}

/* Weights for columns are no policy: it takes none, of whatever cell, and leaves none. */
static void rl_joint__policies__are_let_be(void **state)
{
    (void)state;
    struct scene s;
    struct policy *policy;
    scene_open(&s, SEED, 6, 3);
    assert_int_equal(policy_make(&policy, POLICY_ELMAN, 1), ST_OK);
    for (int with_policy = 0; with_policy < 2; with_policy++) {
        static type_index best[LAYERS_MAX];
        struct search search;
        struct search_options options = {.seed = 3, .evaluations = 200};
        if (with_policy) options.policy_from = options.policy_to = policy;
        assert_int_equal(search_open(&search, &s.model, &options), ST_OK);
        assert_int_equal(method_rl_joint(&search), ST_OK);
        if (with_policy) assert_memory_equal(best, search.best, 6 * sizeof *best);
        memcpy(best, search.best, 6 * sizeof *best);
        search_close(&search);
    }
    assert_int_equal(policy_cell_of(policy), POLICY_ELMAN);
    policy_free(policy);
    scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rl__same_seed__same_plan_bit_for_bit),
        cmocka_unit_test(rl__fixed_seeds__find_the_same_at_the_same_evaluations),
        cmocka_unit_test(rl__any_budget__is_spent_and_not_more),
        cmocka_unit_test(rl__some_thousand_plans__finds_proven_optima),
        cmocka_unit_test(rl_joint__small_instances__finds_types_and_units_of_the_optimum),
        cmocka_unit_test(rl__no_rounds__is_visibly_worse),
        cmocka_unit_test(rl__without_learning__is_worse_than_with_it),
        cmocka_unit_test(rl__plain_reinforce__learns_but_less),
        cmocka_unit_test(rl__nothing_feasible__finds_the_greatest_throughput),
        cmocka_unit_test(rl__one_type__is_that_type),
        cmocka_unit_test(rl__policy_to__applied_to_the_same_instance_gives_its_plan),
        cmocka_unit_test(rl__policy_from__is_where_it_begins),
        cmocka_unit_test(rl__policy_from_of_the_other_cell__is_a_mismatch),
        cmocka_unit_test(rl_joint__policies__are_let_be),
    };
    int failure_count = cmocka_run_group_tests(tests, NULL, NULL);
    return failure_count ? 1 : 0;
}
