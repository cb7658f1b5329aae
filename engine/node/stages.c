/* Places stages, once a generation. */
#include "engine/node/stages.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/base/words.h"
#include "graph/op.h"

/* The node, of the nodes that are there, that has the stages of the plan's node `rank`. */
static uint32_t node_of_rank(const struct stages_options *o, uint32_t rank)
{
    uint32_t node = 0;
    for (uint32_t n = 1; n < o->node_count; n++)
        if (o->rank_of[n] <= rank && o->rank_of[n] > o->rank_of[node]) node = n;
    return node;
}

static uint32_t stage_of_layer(const struct plan *plan, uint32_t layer)
{
    uint32_t stage = 0;
    while (plan->stages[stage].last_layer < layer) stage++;
    return stage;
}

static const char *layer_name(const struct graph *g, uint32_t layer) { return graph_string(g, g->layers[layer].name); }

/* Layers that share a table or parameters are on one node; a table is where it is looked up. */
static status ties_check(const struct exchange_stages *s, const struct stages_options *o, const uint32_t *first,
                         const uint32_t *last)
{
    const struct graph *g = o->graph;
    for (uint32_t l = 0; l < g->layer_count; l++) {
        const uint32_t node = o->plan->stages[stage_of_layer(o->plan, l)].node, ends[] = {first[l], last[l]};
        for (uint32_t i = 0; i < 2; i++) {
            const uint32_t other = o->plan->stages[stage_of_layer(o->plan, ends[i])].node;
            if (other == node) continue;
            FAIL(INVALID,
                 "layers \"%s\" on node %u and \"%s\" on node %u share a table or parameters: put both on one node",
                 layer_name(g, l), node, layer_name(g, ends[i]), other);
        }
    }
    for (uint32_t t = 0; t < g->table_count; t++) {
        const uint32_t layer = g->nodes[graph_table_first_node(g, t)].layer;
        s->node_of_table[t] = (uint8_t)s->node_of[stage_of_layer(o->plan, layer)];
    }
    return ST_OK;
}

static status tables_place(struct exchange_stages *s, const struct stages_options *o)
{
    const uint32_t layers = o->graph->layer_count;
    uint32_t *ends = calloc(2 * (size_t)layers, sizeof *ends);
    if (ends == NULL) FAIL(MEMORY, "no memory for the ties of %u layers", layers);
    graph_ties(o->graph, ends, ends + layers);
    const status st = ties_check(s, o, ends, ends + layers);
    free(ends);
    return st;
}

/* Losses and heads lie where the last stage is: all that is told of a model comes together there. */
static status ends_check(const struct stages_options *o)
{
    const struct graph *g = o->graph;
    const struct plan_stage *last = &o->plan->stages[o->plan->stage_count - 1];
    for (uint32_t i = 0; i < g->forward_count; i++) {
        if (graph_loss_next(g, i) != i && graph_head_next(g, i) != i) continue;
        const uint32_t stage = stage_of_layer(o->plan, g->nodes[i].layer);
        if (o->plan->stages[stage].node == last->node) continue;
        FAIL(INVALID,
             "[%s %s] is in stage %u, on node %u; expected losses and heads on node %u, where the last stage is",
             op_table[g->nodes[i].op].section, graph_string(g, g->nodes[i].name), stage, o->plan->stages[stage].node,
             last->node);
    }
    return ST_OK;
}

static status place(struct exchange_stages *s, const struct stages_options *o)
{
    const struct plan *plan = o->plan;
    if (plan->node_count != o->job_nodes)
        FAIL(INVALID, "the plan's stages lie on %u node%s, and this job has %u: start as many as the plan has",
             plan->node_count, words_s(plan->node_count), o->job_nodes);
    TRY(ends_check(o));
    s->count = plan->stage_count;
    s->node_of = calloc(plan->stage_count, sizeof *s->node_of);
    s->first_layer = calloc(plan->stage_count, sizeof *s->first_layer);
    s->node_of_table = calloc(o->graph->table_count + (size_t)1, sizeof *s->node_of_table);
    if (s->node_of == NULL || s->first_layer == NULL || s->node_of_table == NULL)
        FAIL(MEMORY, "no memory for where stages lie");
    for (uint32_t i = 0; i < plan->stage_count; i++) {
        s->node_of[i] = node_of_rank(o, plan->stages[i].node);
        s->first_layer[i] = plan->stages[i].first_layer;
    }
    return tables_place(s, o);
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
    free(s->node_of);
    free(s->first_layer);
    free(s->node_of_table);
    *s = (struct exchange_stages){0};
}

status stages_text(const struct plan *plan, char **text)
{
    size_t bytes;
    FILE *out = open_memstream(text, &bytes);
    if (out == NULL) FAIL(MEMORY, "no memory for where stages lie");
    for (uint32_t i = 0; i < plan->stage_count; i++)
        fprintf(out, "%s%u..%u as %u on %u", i ? ", " : "", plan->stages[i].first_layer, plan->stages[i].last_layer,
                plan->stages[i].replicas, plan->stages[i].node);
    if (fclose(out) != 0) FAIL(MEMORY, "no memory for where stages lie");
    return ST_OK;
}
