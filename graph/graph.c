/* Answers questions about a graph, compiled or read from a file. */
#include "graph/graph_internal.h"
#include "graph/op.h"

#include <string.h>

struct example_shape graph_example(const struct graph *g)
{
    return (struct example_shape){.dense_count = g->header->dense_count,
                                  .dense_stride = g->header->dense_stride,
                                  .field_count = g->field_count,
                                  .key_count_max = g->header->key_count_max,
                                  .label_count = g->label_count,
                                  .has_weight = *graph_string(g, g->header->weight) != 0,
                                  .has_group = *graph_string(g, g->header->group) != 0,
                                  .has_value = g->header->has_value};
}

/* The table that a forward node looks up, or NONE. */
static uint32_t table_of(const struct graph_node *n)
{
    struct embed_bag_attr attr;
    if (!(op_table[n->op].traits & OP_LOOKS_UP)) return GRAPH_NONE;
    memcpy(&attr, n->attr, sizeof attr);
    return attr.table;
}

void graph_table_serves(const struct graph *g, uint32_t table, uint8_t *serves)
{
    memset(serves, 0, g->field_count);
    for (uint32_t i = 0; i < g->forward_count; i++) {
        const struct graph_node *n = &g->nodes[i];
        if (table_of(n) != table) continue;
        for (uint32_t k = 0; k < n->input_count; k++) serves[g->tensors[g->args[n->arg_begin + k]].cols] = 1;
    }
}

uint32_t graph_table_lookups(const struct graph *g, uint32_t table, uint32_t *lookups)
{
    uint32_t lookup = 0, count = 0;
    for (uint32_t i = 0; i < g->forward_count; i++) {
        uint32_t looked_up = table_of(&g->nodes[i]);
        if (looked_up == table && lookups != NULL) lookups[count] = lookup;
        count += looked_up == table;
        lookup += looked_up != GRAPH_NONE;
    }
    return count;
}

uint32_t graph_table_first_node(const struct graph *g, uint32_t table)
{
    for (uint32_t i = 0; i < g->forward_count; i++)
        if (table_of(&g->nodes[i]) == table) return i;
    CHECK(false); /* the graph's validation has found one */
    return GRAPH_NONE;
}

/* The begin of the part of an update that the forward nodes from `node` on own. */
static uint64_t params_begin(const struct graph *g, uint32_t node, uint32_t update)
{
    for (uint32_t i = node; i < g->forward_count; i++) {
        const struct graph_node *n = &g->nodes[i];
        for (uint32_t k = 0; k < n->param_count; k++) {
            const struct graph_tensor *t = &g->tensors[g->args[n->arg_begin + n->input_count + k]];
            if (t->update == update && !t->is_alias) return t->offset;
        }
    }
    return g->updates[update].param_offset + g->updates[update].param_count;
}

void graph_params_of_nodes(const struct graph *g, uint32_t node_begin, uint32_t node_end, uint32_t update,
                           uint64_t *offset, uint64_t *count)
{
    CHECK(node_begin <= node_end && update < g->update_count && g->updates[update].table == GRAPH_NONE);
    *offset = params_begin(g, node_begin, update);
    *count = params_begin(g, node_end, update) - *offset;
}

/* The node that owns the parameter at an offset. */
static uint32_t owner_node(const struct graph *g, uint64_t offset)
{
    for (uint32_t i = 0; i < g->forward_count; i++) {
        const struct graph_node *n = &g->nodes[i];
        for (uint32_t k = 0; k < n->param_count; k++) {
            const struct graph_tensor *t = &g->tensors[g->args[n->arg_begin + n->input_count + k]];
            if (t->offset == offset && !t->is_alias) return i;
        }
    }
    CHECK(false); /* the graph's validation has found one */
    return GRAPH_NONE;
}

uint32_t graph_aliases(const struct graph *g, uint64_t offset, uint64_t count, struct graph_alias *aliases)
{
    uint32_t alias_count = 0;
    for (uint32_t i = 0; i < g->forward_count; i++) {
        const struct graph_node *n = &g->nodes[i];
        for (uint32_t k = 0; k < n->param_count; k++) {
            const struct graph_tensor *t = &g->tensors[g->args[n->arg_begin + n->input_count + k]];
            if (!t->is_alias || t->grad == GRAPH_NONE || t->offset < offset || t->offset >= offset + count) continue;
            if (aliases != NULL)
                aliases[alias_count] = (struct graph_alias){t->offset, graph_param_floats(t),
                                                            g->tensors[t->grad].offset, i, owner_node(g, t->offset)};
            alias_count++;
        }
    }
    return alias_count;
}

/* Ties the layers of both nodes, which share rows or parameters. */
static void tie(const struct graph *g, uint32_t node, uint32_t other, uint32_t *first, uint32_t *last)
{
    const uint32_t a = g->nodes[node].layer, b = g->nodes[other].layer, low = a < b ? a : b, high = a < b ? b : a;
    const uint32_t ends[] = {low, high};
    for (int i = 0; i < 2; i++) {
        if (first[ends[i]] > low) first[ends[i]] = low;
        if (last[ends[i]] < high) last[ends[i]] = high;
    }
}

void graph_ties(const struct graph *g, uint32_t *first, uint32_t *last)
{
    for (uint32_t l = 0; l < g->layer_count; l++) first[l] = last[l] = l;
    for (uint32_t i = 0; i < g->forward_count; i++) {
        const struct graph_node *n = &g->nodes[i];
        for (uint32_t k = 0; k < n->param_count; k++) {
            const struct graph_tensor *t = &g->tensors[g->args[n->arg_begin + n->input_count + k]];
            if (t->is_alias) tie(g, i, owner_node(g, t->offset), first, last);
        }
        if (!(op_table[n->op].traits & OP_LOOKS_UP)) continue;
        tie(g, i, graph_table_first_node(g, ((const struct embed_bag_attr *)n->attr)->table), first, last);
    }
    /* Layers within a run that are tied to layers outside extend the run. */
    for (bool grows = true; grows;) {
        grows = false;
        for (uint32_t l = 0; l < g->layer_count; l++)
            for (uint32_t k = first[l]; k <= last[l]; k++)
                if (first[k] < first[l] || last[k] > last[l]) {
                    if (first[k] < first[l]) first[l] = first[k];
                    if (last[k] > last[l]) last[l] = last[k];
                    grows = true;
                }
    }
}
