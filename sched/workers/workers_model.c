/* Sums over layers, from a net or an instance. Once a plan. */
#include "sched/workers/workers_model.h"

#include <stdio.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"

status workers_cluster_of(struct workers_cluster *to, const struct cluster *cluster)
{
    *to = (struct workers_cluster){.inside = INFINITY, .between = INFINITY};
    if (cluster->nodes != NULL)
        FAIL(INVALID,
             "%s: expected per_node and network_bandwidth of the types, by which virtual workers are planned, found "
             "nodes: leave out all [node] and [link] sections, and the keys node and nodes",
             cluster->path);
    for (uint32_t t = 0; t < cluster->type_count; t++) {
        const struct cluster_type *type = &cluster->types[t];
        const char *name = type->resource.name;
        if (!type->has_rates || type->memory_bytes == 0)
            FAIL(INVALID,
                 "%s:%u: [type %s]: expected memory, flops, memory_bandwidth and link_bandwidth, "
                 "which virtual workers are planned by, found no %s",
                 cluster->path, type->line, name, type->has_rates ? "memory" : "rates");
        const uint32_t limit = type->resource.limit, per_node = type->per_node ? type->per_node : limit;
        const double between = type->network_bandwidth;
        to->inside = fmin(to->inside, type->rates.link_bandwidth);
        to->between = fmin(to->between, between > 0 ? between : type->rates.link_bandwidth);
        for (uint32_t left = limit; left > 0;) {
            if (to->node_count == WORKERS_NODES_MAX)
                FAIL(INFEASIBLE,
                     "%s:%u: [type %s]: virtual workers are planned for at most %u nodes; "
                     "limit = %u with per_node = %u makes more",
                     cluster->path, type->line, name, WORKERS_NODES_MAX, limit, per_node);
            const uint32_t count = left < per_node ? left : per_node;
            struct workers_node *node = &to->nodes[to->node_count++];
            *node = (struct workers_node){.type = t, .card_count = count, .memory_bytes = (double)type->memory_bytes};
            snprintf(node->name, sizeof node->name, "%s", name);
            left -= count;
        }
    }
    return ST_OK;
}

static void model_layout(struct workers_model *m, struct layout *l)
{
    const uint32_t L = m->layer_count;
    LAYOUT_TAKE(l, m->weight_bytes, L + 1);
    LAYOUT_TAKE(l, m->stash_bytes, L + 1);
    LAYOUT_TAKE(l, m->cut_bytes, L + 1);
    LAYOUT_TAKE(l, m->out_bytes, L);
    LAYOUT_TAKE(l, m->seconds, (size_t)m->type_count * (L + 1));
    LAYOUT_TAKE(l, m->names, L);
    LAYOUT_TAKE(l, m->is_tied, L + 1);
}

status workers_model_make(struct workers_model *m, uint32_t layer_count, uint32_t type_count)
{
    *m = (struct workers_model){.layer_count = layer_count, .type_count = type_count};
    struct layout sum = {.align = 8};
    model_layout(m, &sum);
    m->memory = calloc(1, sum.bytes + 1);
    if (m->memory == NULL) {
        *m = (struct workers_model){0};
        FAIL(MEMORY, "no memory for a model of %u layers on %u types", layer_count, type_count);
    }
    model_layout(m, &(struct layout){.base = m->memory, .align = 8});
    return ST_OK;
}

void workers_model_free(struct workers_model *m)
{
    free(m->memory);
    *m = (struct workers_model){0};
}

status workers_model_of_net(struct workers_model *m, const struct net *net, double batch, const double *flops,
                            uint32_t type_count)
{
    const uint32_t L = net->layer_count;
    const double float_bytes = sizeof(float) * batch;
    TRY(workers_model_make(m, L, type_count));
    m->name = net->name;
    m->batch = batch;
    m->cut_bytes[0] = float_bytes * (double)net->in_elems;
    for (uint32_t i = 0; i < L; i++) {
        const struct net_layer *layer = &net->layers[i];
        m->weight_bytes[i + 1] = m->weight_bytes[i] + sizeof(float) * (double)layer->params;
        m->stash_bytes[i + 1] = m->stash_bytes[i] + float_bytes * (double)layer->stash_elems;
        m->out_bytes[i] = float_bytes * (double)layer->out_elems;
        if (i + 1 < L) m->cut_bytes[i + 1] = float_bytes * (double)layer->cut_elems;
        snprintf(m->names[i], sizeof m->names[i], "%s", layer->name);
        for (uint32_t t = 0; t < type_count; t++) {
            double *seconds = m->seconds + (size_t)t * (L + 1) + i;
            seconds[1] = seconds[0] + batch * layer->flops / WORKERS_FORWARD_SHARE / flops[t];
        }
    }
    return ST_OK;
}

status workers_model_of_instance(struct workers_model *m, const struct instance *instance)
{
    const uint32_t L = instance->layer_count, T = instance->type_count;
    TRY(workers_model_make(m, L, T));
    m->name = instance->name;
    m->batch = instance->batch;
    m->cut_bytes[0] = instance->batch * instance->layers[0].in_bytes;
    bool has_end = false;
    for (uint32_t i = 0; i < L; i++) {
        const struct instance_layer *layer = &instance->layers[i];
        has_end |= layer->is_end;
        const double next_bytes = i + 1 < L ? instance->layers[i + 1].in_bytes : 0;
        const double cut_bytes = layer->cut_bytes > 0 ? layer->cut_bytes / 2 : next_bytes;
        m->weight_bytes[i + 1] = m->weight_bytes[i] + layer->weight_bytes;
        m->out_bytes[i] = instance->batch * cut_bytes;
        m->stash_bytes[i + 1] = m->stash_bytes[i] + m->out_bytes[i];
        if (i + 1 < L) m->cut_bytes[i + 1] = m->out_bytes[i];
        if (i + 1 < L) m->is_tied[i + 1] = layer->tied_behind > 0 || has_end;
        snprintf(m->names[i], sizeof m->names[i], "%s", layer->name);
        for (uint32_t t = 0; t < T; t++) {
            double *seconds = m->seconds + (size_t)t * (L + 1) + i;
            seconds[1] = seconds[0] + instance_time(instance, i, t)->oct;
        }
    }
    return ST_OK;
}

uint32_t workers_held(uint32_t in_flight, uint32_t index, uint32_t count)
{
    if (count == 1) return 1;
    const uint32_t behind = count - 1 - index, steps = (in_flight - 1) * behind;
    return 1 + (steps + count - 2) / (count - 1);
}

struct workers_memory workers_memory_of(const struct workers_model *m, uint32_t first, uint32_t end, uint32_t held)
{
    const double weights = workers_weights(m, first, end);
    double largest = 0;
    for (uint32_t i = first; i < end; i++) largest = fmax(largest, m->out_bytes[i]);
    return (struct workers_memory){
        .weights = 3 * weights,
        .versions = (held - 1) * weights,
        .stash = held * (m->cut_bytes[first] + m->stash_bytes[end] - m->stash_bytes[first]),
        .working = 2 * largest,
        .reserved = WORKERS_RESERVED_BYTES,
    };
}
