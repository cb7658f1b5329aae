/* Measures how nodes of trees are batched: the batches of each policy of sched/trees, beside the lower bound
 * of any itinerary, and the time to make an itinerary. The automaton learns from one half of each family's
 * structures; all policies are counted on the other half. */
#include "engine/bench/bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "sched/trees/automaton_learn.h"
#include "sched/trees/random_trees.h"

#define SETS       20u /* micro-batches in a half */
#define SETS_QUICK 4u
#define SWEEPS     100u
#define NODE_MAX   2000u
#define EDGE_MAX   3000u
#define TREES      25u /* in a micro-batch */

/* A micro-batch, with its itinerary. */
struct batch_nodes {
    struct tree_nodes nodes;
    struct itinerary itinerary;
    struct itinerary_scratch scratch;
};

static void binary_add(struct batch_nodes *batch, double *value, struct draw *d)
{
    (void)value;
    for (uint32_t tree = 0; tree < TREES; tree++) random_binary_add(&batch->nodes, 5 + draw_below(d, 30), d);
}

static void math_add(struct batch_nodes *batch, double *value, struct draw *d)
{
    for (uint32_t tree = 0; tree < TREES; tree++) random_math_add(&batch->nodes, value, 40 + draw_below(d, 25), d);
}

static void graph_add(struct batch_nodes *batch, double *value, struct draw *d)
{
    (void)value;
    random_graph_add(&batch->nodes, 1000, GRAPH_KINDS, 50, d);
}

static const struct family {
    const char *name;
    uint32_t kind_count;
    void (*add)(struct batch_nodes *batch, double *value, struct draw *d);
} families[] = {{"binary trees", BINARY_KINDS, binary_add},
                {"MathFunc", MATH_KINDS, math_add},
                {"graph of three kinds", GRAPH_KINDS, graph_add}};

/* A family's micro-batches; the first half is for learning. */
struct trees_bench {
    const struct bench *b;
    const struct family *family;
    struct batch_nodes *batch; /* [2 * half] */
    uint32_t half;
    struct batching policy[BATCHING_ID_COUNT];
    uint32_t words[AUTOMATON_WORDS_MAX];
};

/* Counts the batches of the other half, and nanoseconds a node. */
static double policy_run(const struct trees_bench *t, const struct batching *policy, double *ns)
{
    uint64_t batches = 0, nodes = 0, begin_ns = clock_ns();
    for (uint32_t i = t->half; i < 2 * t->half; i++) {
        struct batch_nodes *batch = &t->batch[i];
        itinerary_make(&batch->itinerary, &batch->nodes, t->family->kind_count, policy, &batch->scratch);
        batches += batch->itinerary.batch_count;
        nodes += batch->nodes.count;
    }
    *ns = (double)(clock_ns() - begin_ns) / (double)nodes;
    return (double)batches;
}

static double bound_of(const struct trees_bench *t)
{
    uint64_t bound = 0;
    for (uint32_t i = t->half; i < 2 * t->half; i++)
        bound += itinerary_bound(&t->batch[i].nodes, t->family->kind_count, &t->batch[i].scratch);
    return (double)bound;
}

static void policies_tell(const struct trees_bench *t)
{
    const double bound = bound_of(t);
    for (uint32_t id = 0; id < BATCHING_ID_COUNT; id++) {
        struct series batches = {0}, limit = {0}, time = {0};
        char name[96];
        for (uint32_t r = 0; r < t->b->repeats; r++) {
            double ns;
            series_add(&batches, policy_run(t, &t->policy[id], &ns));
            series_add(&limit, bound);
            series_add(&time, ns);
        }
        snprintf(name, sizeof name, "%s, %s", t->family->name, batching_table[id].name);
        bench_tell(&(struct bench_figure){.subject = "trees",
                                          .name = name,
                                          .unit = "batches",
                                          .threads = 1,
                                          .less_is_better = true,
                                          .ours = &batches,
                                          .limit = &limit,
                                          .limit_name = "no itinerary has fewer"},
                   true);
        bench_tell(&(struct bench_figure){.subject = "trees",
                                          .name = name,
                                          .unit = "ns a node",
                                          .threads = 1,
                                          .less_is_better = true,
                                          .ours = &time},
                   true);
    }
}

static void batch_layout(struct batch_nodes *batch, struct layout *l)
{
    random_trees_layout(&batch->nodes, l, NODE_MAX, EDGE_MAX);
    itinerary_layout(&batch->itinerary, l, NODE_MAX);
    itinerary_scratch_layout(&batch->scratch, l, NODE_MAX, EDGE_MAX);
}

/* `memory` has room for all batches, `value` for the nodes of one. */
static status family_run(struct trees_bench *t, uint8_t *memory, double *value)
{
    struct layout l = {.base = memory};
    struct tree_nodes list[SETS];
    struct draw d = draw_make(1, DRAW_TREES);
    for (uint32_t i = 0; i < 2 * t->half; i++) {
        batch_layout(&t->batch[i], &l);
        t->batch[i].nodes.count = 0;
        t->batch[i].nodes.child_begin[0] = 0;
        t->family->add(&t->batch[i], value, &d);
        if (i < t->half) list[i] = t->batch[i].nodes;
    }
    size_t word_count;
    struct learn_report report;
    const struct learn_options options = {.seed = 1, .sweeps = SWEEPS};
    TRY(automaton_learn(t->words, &word_count, list, t->half, t->family->kind_count, &options, &report));
    for (uint32_t id = 0; id < BATCHING_ID_COUNT; id++) t->policy[id] = (struct batching){.id = (batching_id)id};
    TRY(automaton_read(&t->policy[BATCHING_ID_learned].automaton, t->words, word_count, t->family->kind_count));
    policies_tell(t);
    return ST_OK;
}

status bench_trees(const struct bench *b)
{
    const uint32_t half = b->o->quick ? SETS_QUICK : SETS;
    struct layout sum = {0};
    struct batch_nodes unused;
    for (uint32_t i = 0; i < 2 * half; i++) batch_layout(&unused, &sum);
    uint8_t *memory = aligned_alloc(CACHE_LINE_BYTES, arena_bytes(sum.bytes));
    double *value = malloc(NODE_MAX * sizeof *value);
    struct trees_bench *t = malloc(sizeof *t);
    struct batch_nodes *batch = malloc(2 * half * sizeof *batch);
    status st = ST_OK;
    if (memory == NULL || value == NULL || t == NULL || batch == NULL)
        st = status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for %u micro-batches of trees", 2 * half);
    if (st == ST_OK) bench_heading("trees"), bench_columns();
    for (size_t f = 0; f < sizeof families / sizeof *families && st == ST_OK; f++) {
        memset(memory, 0, sum.bytes);
        *t = (struct trees_bench){.b = b, .family = &families[f], .batch = batch, .half = half};
        st = family_run(t, memory, value);
    }
    free(memory);
    free(value);
    free(t);
    free(batch);
    return st;
}
