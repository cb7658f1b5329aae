/* What the planner and a run say of where stages lie: of random clusters every plan that a method
 * proposes is one that a run takes, and of all plans each refuses those that the other does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/node/stages.h"
#include "sched/estimate.h"
#include "sched/nodes.h"
#include "sched/solution.h"

/* Two tables, one of which an early and a late layer look up; a loss in the middle. */
static const char tied_text[] = "[model]\nname = tied\n"
                                "[data]\ndense = I1..I3\nsparse = C1..C26\n"
                                "[table a]\ndim = 4\noptimizer = adagrad 0.05\n"
                                "[table b]\ndim = 2\noptimizer = adagrad 0.05\n"
                                "[embedding ea]\ntable = a\ninput = C1..C3\n"
                                "[embedding eb]\ntable = b\ninput = C4..C6\n"
                                "[concat x]\ninput = ea, eb, dense\n"
                                "[fc h]\ninput = x\nunits = 4\n"
                                "[embedding late]\ntable = a\ninput = C7\n"
                                "[concat z]\ninput = h, late\n"
                                "[fc w]\ninput = z\nunits = 1\n"
                                "[loss first]\ninput = w\n"
                                "[fc g]\ninput = z\nunits = 64\n"
                                "[fc y]\ninput = g\nunits = 1\n"
                                "[loss bce]\ninput = y\n"
                                "[train]\nbatch = 60\nmicro = 4\nlanes = 5\n";
/* One table, and nothing that has to be together; most parameters come late, as ralp wants. */
static const char free_text[] = "[model]\nname = free\n"
                                "[data]\ndense = I1..I3\nsparse = C1..C26\n"
                                "[table a]\ndim = 4\noptimizer = adagrad 0.05\n"
                                "[embedding e]\ntable = a\ninput = sparse\n"
                                "[concat x]\ninput = e, dense\n"
                                "[fc h]\ninput = x\nunits = 2\n"
                                "[fc g]\ninput = h\nunits = 64\n"
                                "[fc f]\ninput = g\nunits = 64\n"
                                "[fc y]\ninput = f\nunits = 1\n"
                                "[loss bce]\ninput = y\n"
                                "[train]\nbatch = 64\nmicro = 4\nlanes = 4\n";

static uint32_t below(uint64_t *state, uint32_t count)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % count;
}

/* Types on random nodes of four, some on several, with unlike prices, rates and links. */
static void cluster_make(struct cluster *cluster, uint64_t *state)
{
    char text[4096];
    size_t used = 0;
    const uint32_t types = 2 + below(state, 3);
    for (uint32_t t = 0; t < types; t++) {
        const uint32_t nodes = t == 0 || below(state, 2) ? 1 + below(state, 15) : 1u << below(state, 4);
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "[type t%u]\ndevice = cpu\nprice_per_hour = %u\nlimit = %u\nflops = %ue7\n"
                                 "memory_bandwidth = %ue8\nlink_bandwidth = 1e10\nnodes = ",
                                 t, 1 + below(state, 9), 1 + below(state, 4), 1 + below(state, 9), 1 + below(state, 9));
        const char *between = "";
        for (uint32_t n = 0; n < 4; n++)
            if (nodes >> n & 1) {
                used += (size_t)snprintf(text + used, sizeof text - used, "%s%c", between, 'a' + (int)n);
                between = ", ";
            }
        used += (size_t)snprintf(text + used, sizeof text - used, "\n");
    }
    snprintf(text + used, sizeof text - used,
             "[node a]\n[node b]\nmemory = %u\n[node c]\nprice_per_hour = %u\n[node d]\n[link]\nbandwidth = %ue%u\n"
             "[link a..b]\nbandwidth = 1e7\nlatency = 1e-5\n[goal]\nexamples = 1e6\nthroughput = %u\n",
             below(state, 2) ? 0 : 2000, below(state, 9), 1 + below(state, 9), 5 + below(state, 4),
             below(state, 2) * 1000);
    if (cluster_parse(cluster, "c.cfg", text, strlen(text)) != ST_OK) fail_msg("%s:\n%s", status_message(), text);
}

static void instance_make_for(struct instance *instance, const struct graph *graph, const struct cluster *cluster)
{
    struct layer_table table;
    const struct nodes_step step = {graph->header->micro, graph->header->batch, graph->header->lanes};
    if (layer_table_of_graph(&table, graph) != ST_OK ||
        estimate(instance, &table, cluster, graph->header->micro) != ST_OK ||
        nodes_apply(instance, cluster, &step) != ST_OK)
        fail_msg("%s", status_message());
    layer_table_free(&table);
}

/* Whether a run takes the plan, by its own check. */
static bool run_takes(const struct graph *graph, const struct plan *plan)
{
    static const uint32_t ranks[] = {0, 1, 2, 3};
    struct exchange_stages stages;
    const struct stages_options options = {
        .graph = graph, .plan = plan, .node_count = plan->node_count, .job_nodes = plan->node_count, .rank_of = ranks};
    if (plan->node_count == 0 || stages_are_even(&options)) return true;
    const status st = stages_place(&stages, &options);
    if (st == ST_OK) stages_free(&stages);
    return st == ST_OK;
}

/* Compares what the planner and a run say of random plans; counts those that both refuse. */
static void plans_compare(const struct graph *graph, const struct instance *instance, uint64_t *state,
                          uint32_t *refused, uint32_t *taken)
{
    struct cost_model m;
    struct cost_stage stages[16];
    struct plan_stage plan_stages[16];
    type_index types[16];
    const uint32_t L = instance->layer_count;
    assert_int_equal(cost_model_open(&m, instance), ST_OK);
    for (uint32_t p = 0; p < 60; p++) {
        enum cost_misplaced why;
        uint64_t all = 0;
        for (uint32_t l = 0; l < L; l++)
            types[l] = l > 0 && below(state, 3) ? types[l - 1] : (type_index)below(state, instance->type_count);
        const uint32_t count = cost_stages(&m, types, stages);
        for (uint32_t s = 0; s < count; s++) {
            plan_stages[s] = (struct plan_stage){.first_layer = stages[s].first, .last_layer = stages[s].last};
            plan_stages[s].nodes = nodes_of_plan(instance, stages, count, stages[s].type);
            all |= plan_stages[s].nodes;
        }
        const struct plan plan = {
            .stages = plan_stages, .stage_count = count, .node_count = (uint32_t)__builtin_popcountll(all)};
        const bool fits = cost_misplaced(&m, stages, count, &why) == 0, takes = run_takes(graph, &plan);
        if (fits != takes) fail_msg("the planner %s, the run: %s", nodes_misplaced_text(why), status_message());
        *(fits ? taken : refused) += 1;
    }
    cost_model_free(&m);
}

/* Plans with a stage on several nodes; of these, with a stage on one; of these, ralp's. Plans whose last
 * stage is on several nodes, and another is not on the same. */
struct proposals {
    uint32_t shared, mixed, ralp, last;
};
/* Runs every method that needs no policy. */
static void proposals_check(const struct graph *graph, const struct instance *instance, struct proposals *count)
{
    for (uint32_t method = 0; method < METHOD_ID_COUNT; method++) {
        const struct solve_options options = {.method = method_table[method].name, .seed = 1, .evaluations = 150};
        struct solution solution;
        struct plan plan;
        if (method == METHOD_ID_policy || method == METHOD_ID_brute) continue;
        if (solve(instance, &options, &solution) != ST_OK) continue; /* ralp declines, as gpu does */
        if (solution.result.is_feasible) {
            if (solution_to_plan(&solution, graph, &plan) != ST_OK || !run_takes(graph, &plan))
                fail_msg("%s: %s", options.method, status_message());
            bool has_shared = false, has_single = false, has_other = false;
            const uint64_t last = plan.stages[plan.stage_count - 1].nodes;
            for (uint32_t s = 0; s < plan.stage_count; s++) {
                const bool is_shared = (plan.stages[s].nodes & (plan.stages[s].nodes - 1)) != 0;
                has_shared |= is_shared;
                has_single |= !is_shared;
                has_other |= plan.stages[s].nodes != last;
            }
            count->last += has_other && (last & (last - 1)) != 0;
            count->shared += has_shared;
            count->mixed += has_shared && has_single;
            if (method == METHOD_ID_ralp && has_shared) {
                count->ralp++;
                assert_int_equal(plan.stage_count, 2);
                assert_true(__builtin_popcountll(plan.stages[0].nodes) > 1);
                assert_int_equal(__builtin_popcountll(plan.stages[1].nodes), 1);
            }
            plan_free(&plan);
        }
        solution_free(&solution);
    }
}

static void planner__random_clusters__proposes_what_a_run_takes(void **state)
{
    (void)state;
    static const char *const texts[] = {tied_text, free_text};
    uint32_t refused = 0, taken = 0;
    struct proposals count = {0};
    uint64_t random = 7;
    for (uint32_t c = 0; c < 30; c++) {
        const char *text = texts[c % 2];
        struct graph graph;
        struct cluster cluster;
        struct instance instance;
        if (graph_compile(&graph, "test.cfg", text, strlen(text), NULL, 0, NULL) != ST_OK)
            fail_msg("%s", status_message());
        cluster_make(&cluster, &random);
        instance_make_for(&instance, &graph, &cluster);
        plans_compare(&graph, &instance, &random, &refused, &taken);
        proposals_check(&graph, &instance, &count);
        instance_free(&instance);
        cluster_free(&cluster);
        graph_close(&graph);
    }
    print_message("%u plans taken, %u refused; %u proposals on several nodes, %u of them on one, too; %u of ralp; the "
                  "last stage on several of %u\n",
                  taken, refused, count.shared, count.mixed, count.ralp, count.last);
    assert_true(refused > 300 && taken > 300 && count.shared > 50 && count.mixed > 10 && count.ralp > 0);
    assert_true(count.last > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planner__random_clusters__proposes_what_a_run_takes),
    };
    return cmocka_run_group_tests_name("places", tests, NULL, NULL) ? 1 : 0;
}
