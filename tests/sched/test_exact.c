/* The proven optimum: equal to every plan tried, to the optima stored with real-looking instances, and honest
 * where it is stopped; and the greatest throughput. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <glob.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sched/method.h"
#include "sched/nodes.h"
#include "tests/sched/instance_fixture.h"

static struct instance_fixture fixture;

struct run {
    struct cost_model model;
    struct search search;
};

static void run_open(struct run *run, const struct instance *instance, const struct search_options *options)
{
    if (cost_model_open(&run->model, instance) != ST_OK || search_open(&run->search, &run->model, options) != ST_OK)
        fail_msg("%s", status_message());
}

static void run_close(struct run *run)
{
    search_close(&run->search);
    cost_model_free(&run->model);
}

static void solve_exact(struct run *run, const struct instance *instance)
{
    const struct search_options options = {0};
    run_open(run, instance, &options);
    if (method_exact(&run->search) != ST_OK) fail_msg("%s", status_message());
}

static bool is_near(double found, double expected) { return fabs(found - expected) <= 1e-11 * fabs(expected); }

/* What every plan comes to: the least score, and the greatest throughput within the limits. */
static void try_all(const struct cost_model *model, double *score, bool *is_feasible, double *throughput)
{
    struct cost_model fast = *model;
    type_index types[16] = {0};
    struct cost_stage stages[16];
    fast.tau_max = 0;
    *score = INFINITY;
    *throughput = 0;
    *is_feasible = false;
    for (uint32_t layer = 0; layer < model->layer_count;) {
        uint32_t count = cost_stages(model, types, stages);
        double reached = provision_exact(&fast, stages, count).throughput;
        struct cost_result r = provision_exact(model, stages, count);
        if (reached > *throughput) *throughput = reached;
        if (r.score < *score) *score = r.score;
        *is_feasible = *is_feasible || r.is_feasible;
        for (layer = 0; layer < model->layer_count && ++types[layer] == model->type_count;) types[layer++] = 0;
    }
}

static void exact__random__equals_every_plan(void **state)
{
    static const uint32_t limits[] = {1, 2, 3, 5, 8, 20, 200};
    (void)state;
    uint64_t seed = 11;
    uint32_t infeasible_count = 0;
    for (uint32_t c = 0; c < 3000; c++) {
        uint64_t begin = seed;
        uint32_t T = 1 + fixture_below(&seed, 5), L = 1 + fixture_below(&seed, T <= 2 ? 9 : T == 3 ? 6 : 5);
        uint32_t limit = limits[fixture_below(&seed, 7)];
        double score, fastest;
        bool is_feasible;
        struct run run;
        fixture_random_make(&fixture, &seed, L, T, limit, c % 5 ? exp(fixture_between(&seed, -3, 4)) : 0);
        fixture.types[0].resource.price_per_hour = 0.04;
        solve_exact(&run, &fixture.instance);
        try_all(&run.model, &score, &is_feasible, &fastest);
        const struct search *s = &run.search;
        if (!s->is_proven || s->is_feasible != is_feasible || !is_near(s->best_score, score))
            fail_msg("seed %llu: %u layers, %u types: %.17g is the least score (feasible: %d), "
                     "exact found %.17g (%d, proven: %d)",
                     (unsigned long long)begin, L, T, score, is_feasible, s->best_score, s->is_feasible, s->is_proven);
        assert_true(!is_feasible || (is_near(s->lower_bound, score) && s->lower_bound <= s->best_score));
        infeasible_count += !is_feasible;

        type_index types[16];
        struct cost_stage stages[16];
        struct fastest found;
        assert_int_equal(exact_fastest(&run.model, NULL, types, stages, &found), ST_OK);
        assert_true(found.is_proven);
        assert_true(found.throughput == fastest && found.bound == fastest);
        run_close(&run);
    }
    assert_true(infeasible_count > 500 && infeasible_count < 2500);
}

/* How often the cases of a kind had what they are for. */
struct node_cases {
    uint32_t infeasible, cross, share, other, none, exchange, misplaced, last;
};

/* Compares exact with every plan, and with brute, on a random problem with nodes; `shared`: of types
 * that lie on several. */
static void nodes_case(uint64_t *seed, bool shared, bool has_goal, struct node_cases *cases)
{
    static const uint32_t limits[] = {1, 3, 20};
    const uint64_t begin = *seed;
    const uint32_t T = 1 + fixture_below(seed, 4), L = 1 + fixture_below(seed, T <= 2 ? 9 : T == 3 ? 6 : 5);
    double score, fastest;
    bool is_feasible;
    struct run run, brute;
    const struct search_options options = {0};
    fixture_random_make(&fixture, seed, L, T, limits[fixture_below(seed, 3)],
                        has_goal ? exp(fixture_between(seed, -3, 3)) : 0);
    fixture.types[0].resource.price_per_hour = 0.04;
    fixture_nodes_put(&fixture, seed, 4);
    if (shared) fixture_shared_put(&fixture, seed);
    solve_exact(&run, &fixture.instance);
    try_all(&run.model, &score, &is_feasible, &fastest);
    run_open(&brute, &fixture.instance, &options);
    assert_int_equal(method_brute(&brute.search), ST_OK);
    const struct search *s = &run.search;
    /* Where no plan fits in memory, none is nearest. */
    const bool fits_none = fastest == 0;
    cases->none += fits_none;
    if (!s->is_proven || s->is_feasible != is_feasible || !(fits_none || is_near(s->best_score, score)) ||
        brute.search.is_feasible != is_feasible || !is_near(brute.search.best_score, score))
        fail_msg("seed %llu: %u layers, %u types on %u nodes: %.17g is the least score (feasible: %d), "
                 "exact found %.17g (%d, proven: %d), brute %.17g",
                 (unsigned long long)begin, L, T, fixture.nodes.count, score, is_feasible, s->best_score,
                 s->is_feasible, s->is_proven, brute.search.best_score);
    cases->infeasible += !is_feasible;
    type_index types[16];
    struct cost_stage stages[16];
    static struct nodes_cut cuts[NODES_CUTS_MAX];
    struct fastest found;
    enum cost_misplaced why;
    const uint32_t count = cost_stages(&run.model, s->best, stages);
    const uint32_t cut_count = nodes_cuts(&run.model, stages, count, cuts);
    cases->cross += cut_count > 0;
    const uint32_t end = s->best[L - 1];
    cases->last += cost_is_shared(&run.model, end) && run.model.place[s->best[0]] != run.model.place[end];
    for (uint32_t i = 0; i < cut_count; i++) cases->share += cuts[i].cut_count > 1;
    for (uint32_t i = 0; i < cut_count; i++) cases->exchange += cuts[i].is_exchange;
    if (!fits_none) assert_int_equal(cost_misplaced(&run.model, stages, count, &why), 0);
    assert_int_equal(exact_fastest(&run.model, NULL, types, stages, &found), ST_OK);
    assert_true(found.is_proven);
    if (!(found.throughput == fastest && found.bound == fastest))
        fail_msg("seed %llu: %.17g examples/s can be reached, exact found %.17g (bound %.17g)",
                 (unsigned long long)begin, fastest, found.throughput, found.bound);
    /* Without nodes another plan is best, often. */
    struct run free;
    fixture.instance.nodes = NULL;
    for (uint32_t t = 0; t < T; t++) fixture.types[t].resource.nodes = 0;
    solve_exact(&free, &fixture.instance);
    fixture.instance.nodes = &fixture.nodes;
    cases->other += memcmp(free.search.best, s->best, L * sizeof *s->best) != 0;
    cases->misplaced += cost_misplaced(&run.model, stages, cost_stages(&run.model, free.search.best, stages), &why) > 0;
    run_close(&free);
    run_close(&run);
    run_close(&brute);
}

/* Unlike links, in both ways, several types on a node, memory that binds, nodes with prices. */
static void exact__types_on_nodes__equals_every_plan(void **state)
{
    (void)state;
    uint64_t seed = 41;
    struct node_cases cases = {0};
    for (uint32_t c = 0; c < 600; c++) nodes_case(&seed, false, c % 5, &cases);
    assert_true(cases.infeasible > 100 && cases.infeasible < 400 && cases.none > 25 && cases.none < 150);
    assert_true(cases.cross > 40 && cases.share > 15 && cases.other > 100);
    assert_int_equal(cases.exchange, 0);
}

/* The same of types on several nodes, of which some plans are refused. */
static void exact__types_on_several_nodes__equals_every_plan(void **state)
{
    (void)state;
    static const uint64_t seeds[] = {43, 47, 53, 59};
    struct node_cases cases = {0};
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        uint64_t seed = seeds[i];
        for (uint32_t c = 0; c < 400; c++) nodes_case(&seed, true, c % 5, &cases);
    }
    assert_true(cases.infeasible > 250 && cases.infeasible < 1200);
    assert_true(cases.cross > 200 && cases.share > 40 && cases.other > 250);
    assert_true(cases.exchange > 100 && cases.misplaced > 100 && cases.last > 20);
}

/* Layers of a group have rows or parameters in common; group 0 is none. */
static void groups_tie(struct instance_layer *layers, uint32_t L, const uint32_t *group)
{
    for (uint32_t l = 0; l < L; l++) {
        uint32_t first = l, last = l;
        for (bool grows = true; grows;) {
            grows = false;
            for (uint32_t k = first; k <= last; k++)
                for (uint32_t o = 0; o < L; o++) {
                    if (group[k] == 0 || group[o] != group[k] || (o >= first && o <= last)) continue;
                    first = o < first ? o : first;
                    last = o > last ? o : last;
                    grows = true;
                }
        }
        layers[l].tied_before = l - first;
        layers[l].tied_behind = last - l;
    }
}

/* Whether each stage on a card has all layers of a group or none; where a run has no steps, each stage. */
static bool keeps_groups(const struct cost_model *m, const uint32_t *group, const type_index *types)
{
    struct cost_stage stages[16];
    const bool has_steps = m->instance->run.micros < INSTANCE_NEVER_DRAINED;
    uint32_t count = cost_stages(m, types, stages);
    for (uint32_t stage = 0; stage < count; stage++)
        for (uint32_t l = stages[stage].first;
             l <= stages[stage].last && (!has_steps || m->is_card[stages[stage].type]); l++)
            for (uint32_t o = 0; o < m->layer_count && group[l] > 0; o++)
                if (group[o] == group[l] && (o < stages[stage].first || o > stages[stage].last)) return false;
    return true;
}

static void exact__tied_layers__equals_every_plan_that_keeps_them_together(void **state)
{
    (void)state;
    uint64_t seed = 29;
    uint32_t tied_count = 0, feasible_count = 0;
    for (uint32_t c = 0; c < 2000; c++) {
        uint64_t begin = seed;
        uint32_t T = 2 + fixture_below(&seed, 2), L = 2 + fixture_below(&seed, T == 2 ? 7 : 4), group[16];
        double free_score, score = INFINITY;
        bool is_free_feasible, is_feasible = false;
        fixture_random_make(&fixture, &seed, L, T, 20, exp(fixture_between(&seed, -3, 2)));
        for (uint32_t t = 0; t < T; t++)
            fixture.types[t].resource.device = fixture_below(&seed, 3) ? RESOURCE_EMU : RESOURCE_CPU;
        if (c % 2) { /* cards that look rows up are one */
            fixture.instance.run = (struct instance_run){.micros = c % 4 == 1 ? 1 : INSTANCE_NEVER_DRAINED, .cores = 1};
            for (uint32_t l = 0; l < L; l++) fixture.layers[l].row_bytes = fixture_below(&seed, 3) == 0;
        }
        for (uint32_t l = 0; l < L; l++) group[l] = fixture_below(&seed, 4);
        struct cost_model free;
        assert_int_equal(cost_model_open(&free, &fixture.instance), ST_OK);
        type_index types[16] = {0};
        struct cost_stage stages[16];
        for (uint32_t layer = 0; layer < L;) {
            struct cost_result r = provision_exact(&free, stages, cost_stages(&free, types, stages));
            if (keeps_groups(&free, group, types) && r.is_feasible) {
                is_feasible = true;
                score = r.score < score ? r.score : score;
            }
            for (layer = 0; layer < L && ++types[layer] == T;) types[layer++] = 0;
        }
        double greatest;
        try_all(&free, &free_score, &is_free_feasible, &greatest);
        cost_model_free(&free);
        groups_tie(fixture.layers, L, group);
        struct run run, brute;
        const struct search_options options = {0};
        solve_exact(&run, &fixture.instance);
        run_open(&brute, &fixture.instance, &options);
        assert_int_equal(method_brute(&brute.search), ST_OK);
        const struct search *s = &run.search;
        if (!s->is_proven || s->is_feasible != is_feasible || (is_feasible && !is_near(s->best_score, score)) ||
            brute.search.is_feasible != is_feasible || (is_feasible && !is_near(brute.search.best_score, score)))
            fail_msg("seed %llu: %u layers, %u types: %.17g is the least cost (feasible: %d), "
                     "exact found %.17g (%d), brute %.17g",
                     (unsigned long long)begin, L, T, score, is_feasible, s->best_score, s->is_feasible,
                     brute.search.best_score);
        assert_true(!is_feasible || keeps_groups(&run.model, group, s->best));
        feasible_count += is_feasible;
        tied_count += is_free_feasible && (!is_feasible || score > free_score * (1 + 1e-9));
        run_close(&run);
        run_close(&brute);
    }
    assert_true(feasible_count > 300 && tied_count > 100);
}

/* Limits of 1 to 3 units: the least path breaks them nearly always. */
static void exact__limits_that_bind__equals_every_plan(void **state)
{
    (void)state;
    uint64_t seed = 17;
    for (uint32_t c = 0; c < 60; c++) {
        double score, fastest;
        bool is_feasible;
        struct run run;
        fixture_random_make(&fixture, &seed, 7, 4, 3, 0);
        fixture.types[0].resource.price_per_hour = 0.04;
        solve_exact(&run, &fixture.instance);
        try_all(&run.model, &score, &is_feasible, &fastest);
        run_close(&run);
        fixture.instance.throughput_limit = fastest * fixture_between(&seed, 0.5, 1);
        solve_exact(&run, &fixture.instance);
        try_all(&run.model, &score, &is_feasible, &fastest);
        assert_true(is_feasible && run.search.is_feasible && run.search.is_proven);
        assert_true(is_near(run.search.best_score, score));
        run_close(&run);
    }
}

/* The throughput that only the fastest plan reaches is kept to by it, and an ulp more by none. */
static void exact__at_the_greatest_throughput__is_feasible_and_above_it_not(void **state)
{
    (void)state;
    uint64_t seed = 23;
    for (uint32_t c = 0; c < 40; c++) {
        type_index types[24];
        struct cost_stage stages[24];
        struct fastest fastest;
        struct run run;
        fixture_random_make(&fixture, &seed, 4 + c % 9, 1 + c % 6, 12, 0);
        fixture.types[0].resource.price_per_hour = 0.04;
        solve_exact(&run, &fixture.instance);
        assert_int_equal(exact_fastest(&run.model, NULL, types, stages, &fastest), ST_OK);
        struct cost_result r = cost_of(&run.model, stages, fastest.stage_count);
        assert_true(fastest.is_proven && r.is_feasible && r.throughput == fastest.throughput);
        run_close(&run);
        fixture.instance.throughput_limit = fastest.throughput * (1 - 1e-12);
        solve_exact(&run, &fixture.instance);
        assert_true(run.search.is_proven && run.search.is_feasible);
        run_close(&run);
        fixture.instance.throughput_limit = fastest.throughput * (1 + 1e-12);
        solve_exact(&run, &fixture.instance);
        assert_true(run.search.is_proven && !run.search.is_feasible);
        /* What is left is the fastest plan. */
        uint32_t count = cost_stages(&run.model, run.search.best, stages);
        r = provision_exact(&run.model, stages, count);
        assert_true(r.throughput == fastest.throughput);
        run_close(&run);
    }
}

/* Layer 0 is ten times dearer on type 1, layer 1 on type 0; what crosses between them takes no time. */
static void exact__two_layers_that_each_like_a_type__get_it(void **state)
{
    (void)state;
    struct run run;
    fixture_make(&fixture, 2, 2);
    fixture.times[0] = fixture.times[3] = (struct instance_time){.oct = 1, .alpha = 1};
    fixture.times[1] = fixture.times[2] = (struct instance_time){.oct = 10, .alpha = 1};
    fixture.instance.throughput_limit = 3.5;
    solve_exact(&run, &fixture.instance);
    assert_true(run.search.is_proven && run.search.is_feasible);
    assert_int_equal(run.search.best[0], 0);
    assert_int_equal(run.search.best[1], 1);
    assert_true(is_near(run.search.best_score, 2)); /* 4 units of each for a quarter of a second an example */
    run_close(&run);
    fixture.types[1].resource.limit = 1;
    solve_exact(&run, &fixture.instance);
    assert_true(run.search.is_proven && run.search.is_feasible);
    assert_int_equal(run.search.best[1], 0);
    assert_true(is_near(run.search.best_score, 11)); /* one stage of 11 seconds on type 0: 39 units or more */
    run_close(&run);
}

/* --- stored optima ----------------------------------------------------------------------------- */

#define INSTANCES "../shared/instances/"

static void exact__stored_instances__equals_their_stored_optima(void **state)
{
    (void)state;
    glob_t paths;
    if (glob(INSTANCES "*.inst.json", 0, NULL, &paths) != 0) {
        print_message("no " INSTANCES "*.inst.json here\n");
        skip();
    }
    for (size_t p = 0; p < paths.gl_pathc; p++) {
        char path[1024];
        struct instance instance;
        struct run run;
        size_t stem = strlen(paths.gl_pathv[p]) - strlen(".inst.json");
        snprintf(path, sizeof path, "%.*s.sol.json", (int)stem, paths.gl_pathv[p]);
        json_t *stored = json_load_file(path, 0, NULL);
        double cost = json_number_value(json_object_get(stored, "cost"));
        bool is_feasible = json_is_true(json_object_get(stored, "feasible"));
        if (stored == NULL || instance_read(&instance, paths.gl_pathv[p]) != ST_OK)
            fail_msg("%s: %s", path, status_message());
        solve_exact(&run, &instance);
        const struct search *s = &run.search;
        if (!s->is_proven || s->is_feasible != is_feasible ||
            (is_feasible && !(fabs(s->best_score - cost) <= 1e-6 * cost && s->lower_bound <= s->best_score)))
            fail_msg("%s: %.17g is stored (feasible: %d), exact found %.17g (%d, proven: %d)", path, cost, is_feasible,
                     s->best_score, s->is_feasible, s->is_proven);
        run_close(&run);
        instance_free(&instance);
        json_decref(stored);
    }
    globfree(&paths);
}

static void exact__plausible_instances__are_proven_in_little_time(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct instance instance;
        struct run run;
        if (instance_random(&instance, seed, 20, 1u << seed % 7) != ST_OK) fail_msg("%s", status_message());
        clock_t begin = clock();
        solve_exact(&run, &instance);
        double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
        if (!run.search.is_proven || seconds > 2)
            fail_msg("seed %llu: proven: %d, after %.2f s", (unsigned long long)seed, run.search.is_proven, seconds);
        run_close(&run);
        instance_free(&instance);
    }
}

/* --- stopped ----------------------------------------------------------------------------------- */

/* At whichever look at the clock: the bound is one, the plan is a plan, and nothing is said to be proven that
 * is not. */
static void exact__stopped__keeps_its_best_plan_and_the_bound_reached(void **state)
{
    (void)state;
    uint64_t seed = 29;
    struct run whole;
    fixture_random_make(&fixture, &seed, 40, 24, 12, 8);
    fixture.types[0].resource.price_per_hour = 0.04;
    solve_exact(&whole, &fixture.instance);
    assert_true(whole.search.is_proven && whole.search.is_feasible);
    uint32_t stopped_count = 0;
    static const double seconds[] = {1e-9, 2e-3, 1e-2, 3e-2};
    for (uint32_t i = 0; i < 4; i++) {
        const struct search_options options = {.seconds = seconds[i]};
        struct run run;
        run_open(&run, &fixture.instance, &options);
        assert_int_equal(method_exact(&run.search), ST_OK);
        const struct search *s = &run.search;
        assert_true(s->is_proven || s->ended_by == SEARCH_SECONDS);
        assert_true(s->lower_bound <= whole.search.best_score * (1 + 1e-11));
        assert_true(s->best_score >= whole.search.best_score * (1 - 1e-11));
        assert_true(!s->is_proven || is_near(s->best_score, whole.search.best_score));
        stopped_count += !s->is_proven;
        run_close(&run);
    }
    assert_true(stopped_count > 0);
    run_close(&whole);
}

/* 300 layers on 200 types, which is more possible stages than exact takes. */
static void large_make(struct instance *instance)
{
    enum { LAYERS = 300, TYPES = 200 };
    uint64_t seed = 37;
    if (instance_make(instance, LAYERS, TYPES) != ST_OK) fail_msg("%s", status_message());
    instance->batch = instance->examples = instance->epochs = 1;
    for (uint32_t t = 0; t < TYPES; t++) instance->types[t].resource.limit = 1000;
    for (uint32_t c = 0; c < LAYERS * TYPES; c++)
        instance->times[c] = (struct instance_time){.oct = fixture_between(&seed, 1, 10), .alpha = 0.9};
}

static void exact__too_many_possible_stages__are_refused_with_a_sentence(void **state)
{
    (void)state;
    struct instance instance;
    struct run run;
    const struct search_options options = {0};
    large_make(&instance);
    run_open(&run, &instance, &options);
    assert_int_equal(method_exact(&run.search), ST_INVALID);
    if (strstr(status_message(), "exact: 300 layers on 200 types") == NULL) fail_msg("%s", status_message());
    run_close(&run);
    instance_free(&instance);
}

/* A plan of what it says it reaches, below the bound, and not proven. */
static void fastest__time_up_on_a_large_instance__is_an_unproven_plan_within_the_limits(void **state)
{
    (void)state;
    struct instance instance;
    struct run run;
    struct fastest fastest;
    const struct search_options none = {0}, options = {.seconds = 1e-9};
    large_make(&instance);
    type_index types[300];
    struct cost_stage stages[300];
    run_open(&run, &instance, &none);
    assert_int_equal(exact_fastest(&run.model, &options, types, stages, &fastest), ST_OK);
    struct cost_result r = cost_of(&run.model, stages, fastest.stage_count);
    assert_true(r.is_feasible && r.throughput == fastest.throughput && fastest.throughput < fastest.bound);
    assert_false(fastest.is_proven);
    assert_int_equal(fastest.ended_by, SEARCH_SECONDS);
    run_close(&run);
    instance_free(&instance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact__random__equals_every_plan),
        cmocka_unit_test(exact__types_on_nodes__equals_every_plan),
        cmocka_unit_test(exact__types_on_several_nodes__equals_every_plan),
        cmocka_unit_test(exact__tied_layers__equals_every_plan_that_keeps_them_together),
        cmocka_unit_test(exact__limits_that_bind__equals_every_plan),
        cmocka_unit_test(exact__at_the_greatest_throughput__is_feasible_and_above_it_not),
        cmocka_unit_test(exact__two_layers_that_each_like_a_type__get_it),
        cmocka_unit_test(exact__stored_instances__equals_their_stored_optima),
        cmocka_unit_test(exact__plausible_instances__are_proven_in_little_time),
        cmocka_unit_test(exact__stopped__keeps_its_best_plan_and_the_bound_reached),
        cmocka_unit_test(exact__too_many_possible_stages__are_refused_with_a_sentence),
        cmocka_unit_test(fastest__time_up_on_a_large_instance__is_an_unproven_plan_within_the_limits),
    };
    int failure_count = cmocka_run_group_tests(tests, NULL, NULL);
    return failure_count ? 1 : 0;
}
