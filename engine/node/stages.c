/* Places stages, once a generation. */
#include "engine/node/stages.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/base/words.h"
#include "graph/op.h"

_Static_assert(PLAN_SHARED_MAX < EXCHANGE_BUCKETS_MAX, "a run of stages on several nodes has a bucket at least");
#define NODES_TEXT_BYTES (4 * PLAN_NODES_MAX) /* of a stage's nodes in a message */

/* The nodes that are there, by index, that have a stage of these nodes of the plan. */
static uint64_t nodes_there(const struct stages_options *o, uint64_t nodes)
{
    uint64_t there = 0;
    uint32_t below = 0;
    for (uint32_t n = 0; n < o->node_count; n++) {
        const uint32_t rank = o->rank_of[n];
        there |= (nodes >> rank & 1) << n;
        if (rank <= (uint32_t)__builtin_ctzll(nodes) && rank > o->rank_of[below]) below = n;
    }
    return there ? there : UINT64_C(1) << below;
}

/* --- workers ------------------------------------------------------------------------------------ */

/* The node of the plan that has the stage, of the worker. */
static uint32_t planned_node(const struct plan *plan, uint32_t stage, uint32_t worker)
{
    uint64_t nodes = plan->stages[stage].nodes;
    for (; worker > 0; worker--) nodes &= nodes - 1;
    return (uint32_t)__builtin_ctzll(nodes);
}

/* Finds the nodes of the plan's workers: bit n of planned[w]. */
static status workers_find(const struct plan *plan, uint64_t planned[PLAN_NODES_MAX], uint32_t *count)
{
    *count = (uint32_t)__builtin_popcountll(plan->stages[0].nodes);
    for (uint32_t stage = 0; stage < plan->stage_count; stage++) {
        const uint32_t nodes = (uint32_t)__builtin_popcountll(plan->stages[stage].nodes);
        if (nodes != *count)
            FAIL(INVALID,
                 "stage 0 lies on %u node%s and stage %u on %u: under train.sync = wsp a worker has one node of each "
                 "stage, in order; give every stage as many nodes as there are workers, or --set train.sync=bsp",
                 *count, words_s(*count), stage, nodes);
        for (uint32_t w = 0; w < *count; w++) {
            const uint32_t node = planned_node(plan, stage, w);
            for (uint32_t v = 0; v < *count; v++)
                if (v != w && (planned[v] >> node & 1))
                    FAIL(INVALID,
                         "node %u has stage %u of worker %u, and an earlier stage of worker %u: under train.sync = wsp "
                         "the nodes of each stage are those of workers 0, 1, … in order, and a node is of one worker",
                         node, stage, w, v);
            planned[w] |= UINT64_C(1) << node;
        }
    }
    return ST_OK;
}

/* Which of the nodes that are there has the stage of a worker, of which some are. */
static uint32_t worker_node(const struct stages_options *o, uint32_t stage, uint32_t worker, uint64_t planned)
{
    const uint32_t node = planned_node(o->plan, stage, worker);
    uint32_t found = UINT32_MAX;
    for (uint32_t n = 0; n < o->node_count; n++)
        if ((planned >> o->rank_of[n] & 1) && (found == UINT32_MAX || o->rank_of[n] <= node)) found = n;
    return found;
}

/* Puts the nodes that are there into workers, and says which of them have each stage. */
static status workers_place(struct exchange_stages *s, const struct stages_options *o)
{
    uint64_t planned[PLAN_NODES_MAX] = {0};
    uint32_t count;
    TRY(workers_find(o->plan, planned, &count));
    s->worker_of = calloc(o->node_count, sizeof *s->worker_of);
    s->nodes_of = calloc(o->plan->stage_count, sizeof *s->nodes_of);
    if (s->worker_of == NULL || s->nodes_of == NULL) FAIL(MEMORY, "no memory for workers of several nodes");
    for (uint32_t w = 0; w < count; w++) {
        bool is_there = false;
        for (uint32_t n = 0; n < o->node_count; n++)
            if (planned[w] >> o->rank_of[n] & 1) {
                s->worker_of[n] = (uint8_t)s->worker_count;
                is_there = true;
            }
        for (uint32_t i = 0; is_there && i < o->plan->stage_count; i++)
            s->nodes_of[i] |= UINT64_C(1) << worker_node(o, i, w, planned[w]);
        s->worker_count += is_there;
    }
    if (s->nodes_of[o->plan->stage_count - 1] & 1) return ST_OK;
    FAIL(INVALID,
         "the last stage, %u, of node 0's worker is not on node 0, which tells figures: begin its nodes with node 0",
         o->plan->stage_count - 1);
}

/* The node of this node's worker that has the stage. */
static uint64_t own_nodes(const struct exchange_stages *s, const struct stages_options *o, uint32_t stage)
{
    uint64_t nodes = s->nodes_of[stage];
    for (uint32_t n = 0; n < o->node_count; n++)
        if (s->worker_of[n] != s->worker_of[o->index]) nodes &= ~(UINT64_C(1) << n);
    return nodes;
}

/* --- lanes and tables ----------------------------------------------------------------------------- */

static uint32_t stage_of_layer(const struct plan *plan, uint32_t layer)
{
    uint32_t stage = 0;
    while (plan->stages[stage].last_layer < layer) stage++;
    return stage;
}

static const char *layer_name(const struct graph *g, uint32_t layer) { return graph_string(g, g->layers[layer].name); }

static uint64_t nodes_of_layer(const struct plan *plan, uint32_t layer)
{
    return plan->stages[stage_of_layer(plan, layer)].nodes;
}

/* Layers that share a table or parameters are on the same nodes. */
static status ties_check(const struct stages_options *o, const uint32_t *first, const uint32_t *last)
{
    const struct graph *g = o->graph;
    for (uint32_t l = 0; l < g->layer_count; l++) {
        const uint32_t ends[] = {first[l], last[l]};
        for (uint32_t i = 0; i < 2; i++) {
            const uint64_t nodes = nodes_of_layer(o->plan, l), other = nodes_of_layer(o->plan, ends[i]);
            char text[2][NODES_TEXT_BYTES];
            if (other == nodes) continue;
            FAIL(INVALID,
                 "layers \"%s\" on node %s and \"%s\" on node %s share a table or parameters: put both on the same",
                 layer_name(g, l), plan_nodes_text(nodes, ", ", text[0], NODES_TEXT_BYTES), layer_name(g, ends[i]),
                 plan_nodes_text(other, ", ", text[1], NODES_TEXT_BYTES));
        }
    }
    return ST_OK;
}

static uint32_t stage_of_table(const struct stages_options *o, uint32_t table)
{
    return stage_of_layer(o->plan, o->graph->nodes[graph_table_first_node(o->graph, table)].layer);
}

/* A table is where it is looked up. All tables are on one node each, or all on the same several nodes. */
static status rows_place(struct exchange_stages *s, const struct stages_options *o)
{
    const struct graph *g = o->graph;
    uint32_t shared = 0, other = 0;
    if (g->table_count == 0) return ST_OK;
    s->rows_stage = stage_of_table(o, 0);
    for (uint32_t t = 0; t < g->table_count; t++) {
        const uint32_t stage = stage_of_table(o, t);
        if (!exchange_stage_is_whole(s, stage)) shared = t + 1;
        if (!exchange_stages_are_alike(s, s->rows_stage, stage)) other = t;
    }
    if (shared && other)
        FAIL(INVALID,
             "tables \"%s\" and \"%s\" are looked up on other nodes, and a stage of them is on several nodes: put the "
             "look-ups of all tables on the same nodes, or each on one node",
             graph_string(g, g->tables[0].name), graph_string(g, g->tables[other].name));
    if (shared) return ST_OK;
    s->node_of_table = calloc(g->table_count, sizeof *s->node_of_table);
    if (s->node_of_table == NULL) FAIL(MEMORY, "no memory for where tables lie");
    for (uint32_t t = 0; t < g->table_count; t++)
        s->node_of_table[t] = (uint8_t)exchange_stage_node(s, stage_of_table(o, t), 0);
    return ST_OK;
}

static status tables_place(struct exchange_stages *s, const struct stages_options *o)
{
    const uint32_t layers = o->graph->layer_count;
    uint32_t *ends = calloc(2 * (size_t)layers, sizeof *ends);
    if (ends == NULL) FAIL(MEMORY, "no memory for the ties of %u layers", layers);
    graph_ties(o->graph, ends, ends + layers);
    const status st = ties_check(o, ends, ends + layers);
    free(ends);
    return st == ST_OK && !o->has_waves ? rows_place(s, o) : st;
}

/* Losses and heads lie where the last stage is: what is told of a lane comes together on one node. */
static status ends_check(const struct stages_options *o)
{
    const struct graph *g = o->graph;
    const uint64_t nodes = o->plan->stages[o->plan->stage_count - 1].nodes;
    char text[2][NODES_TEXT_BYTES];
    for (uint32_t i = 0; i < g->forward_count; i++) {
        if (graph_loss_next(g, i) != i && graph_head_next(g, i) != i) continue;
        const uint32_t stage = stage_of_layer(o->plan, g->nodes[i].layer);
        if (o->plan->stages[stage].nodes == nodes) continue;
        FAIL(INVALID,
             "[%s %s] is in stage %u, on node %s; expected losses and heads on node %s, where the last stage is",
             op_table[g->nodes[i].op].section, graph_string(g, g->nodes[i].name), stage,
             plan_nodes_text(o->plan->stages[stage].nodes, ", ", text[0], NODES_TEXT_BYTES),
             plan_nodes_text(nodes, ", ", text[1], NODES_TEXT_BYTES));
    }
    return ST_OK;
}

/* Gives the stage's lanes to its nodes in even shares. */
static status lanes_give(const struct exchange_stages *s, const struct stages_options *o, uint32_t stage)
{
    const uint64_t nodes = o->has_waves ? own_nodes(s, o, stage) : nodes_there(o, o->plan->stages[stage].nodes);
    const uint32_t lanes = o->graph->header->lanes, count = (uint32_t)__builtin_popcountll(nodes);
    uint32_t *begin = s->lane_begin + (size_t)stage * (s->node_count + 1);
    if (count > lanes)
        FAIL(INVALID,
             "stage %u lies on %u nodes, which share %u lane%s of a step: give at most as many nodes, or "
             "--set train.lanes=%u",
             stage, count, lanes, words_s(lanes), count);
    for (uint32_t n = 0, given = 0; n <= s->node_count; n++) {
        begin[n] = (uint32_t)((uint64_t)lanes * given / count);
        given += n < s->node_count && (nodes >> n & 1);
    }
    return ST_OK;
}

static status nodes_check(const struct stages_options *o)
{
    if (o->plan->node_count == o->job_nodes) return ST_OK;
    FAIL(INVALID, "the plan's stages lie on %u node%s, and this job has %u: start as many as the plan has",
         o->plan->node_count, words_s(o->plan->node_count), o->job_nodes);
}

static status place(struct exchange_stages *s, const struct stages_options *o)
{
    const struct plan *plan = o->plan;
    TRY(nodes_check(o));
    s->count = plan->stage_count;
    s->node_count = o->node_count;
    s->first_layer = calloc(plan->stage_count, sizeof *s->first_layer);
    s->lane_begin = calloc((size_t)plan->stage_count * (o->node_count + 1), sizeof *s->lane_begin);
    if (s->lane_begin == NULL || s->first_layer == NULL) FAIL(MEMORY, "no memory for where stages lie");
    if (o->has_waves) TRY(workers_place(s, o));
    for (uint32_t i = 0; i < plan->stage_count; i++) {
        s->first_layer[i] = plan->stages[i].first_layer;
        TRY(lanes_give(s, o, i));
    }
    TRY(ends_check(o));
    const uint32_t sections = exchange_stages_sections(s);
    if (sections >= EXCHANGE_BUCKETS_MAX)
        FAIL(INVALID, "%u runs of neighbouring stages lie on several nodes each; expected at most %u", sections,
             EXCHANGE_BUCKETS_MAX - 1);
    return tables_place(s, o);
}

bool stages_are_even(const struct stages_options *o)
{
    const uint64_t all = UINT64_MAX >> (64 - o->node_count);
    bool is_even = o->plan->node_count == o->job_nodes && o->node_count > 1;
    for (uint32_t i = 0; i < o->plan->stage_count; i++) is_even &= nodes_there(o, o->plan->stages[i].nodes) == all;
    return is_even;
}

status stages_place(struct exchange_stages *s, const struct stages_options *o)
{
    *s = (struct exchange_stages){0};
    const status st = place(s, o);
    if (st != ST_OK) stages_free(s);
    return st;
}

void stages_free(struct exchange_stages *s)
{
    free(s->lane_begin);
    free(s->first_layer);
    free(s->node_of_table);
    free(s->worker_of);
    free(s->nodes_of);
    *s = (struct exchange_stages){0};
}

status stages_text(const struct plan *plan, char **text)
{
    size_t bytes;
    char nodes[NODES_TEXT_BYTES];
    FILE *out = open_memstream(text, &bytes);
    if (out == NULL) FAIL(MEMORY, "no memory for where stages lie");
    for (uint32_t i = 0; i < plan->stage_count; i++)
        fprintf(out, "%s%u..%u as %u on %s", i ? ", " : "", plan->stages[i].first_layer, plan->stages[i].last_layer,
                plan->stages[i].replicas, plan_nodes_text(plan->stages[i].nodes, "+", nodes, sizeof nodes));
    if (fclose(out) != 0) FAIL(MEMORY, "no memory for where stages lie");
    return ST_OK;
}
