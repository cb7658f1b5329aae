/* Whether two instances say the same, to the last bit. */
#ifndef HETERPS_TESTS_SCHED_INSTANCE_EQUAL_H
#define HETERPS_TESTS_SCHED_INSTANCE_EQUAL_H

#include <string.h>

#include "sched/instance.h"

static inline bool resource_equal(const struct resource_type *one, const struct resource_type *other)
{
    return strcmp(one->name, other->name) == 0 && one->device == other->device &&
           one->device_index == other->device_index && one->price_per_hour == other->price_per_hour &&
           one->limit == other->limit && one->adds_moves == other->adds_moves &&
           one->slow.from_step == other->slow.from_step && one->slow.for_steps == other->slow.for_steps &&
           one->slow.every_steps == other->slow.every_steps &&
           memcmp(one->slow.op, other->slow.op, sizeof one->slow.op) == 0;
}

static inline bool instance_equal(const struct instance *a, const struct instance *b)
{
    if (strcmp(a->name, b->name) != 0 || a->layer_count != b->layer_count || a->type_count != b->type_count ||
        a->batch != b->batch || a->examples != b->examples || a->epochs != b->epochs ||
        a->throughput_limit != b->throughput_limit || a->has_graph_hash != b->has_graph_hash ||
        a->graph_hash != b->graph_hash || a->service_seconds != b->service_seconds ||
        a->service_cores != b->service_cores || a->server_seconds != b->server_seconds ||
        a->server_price != b->server_price || a->run.micros != b->run.micros || a->run.cores != b->run.cores)
        return false;
    for (uint32_t t = 0; t < a->type_count; t++)
        if (!resource_equal(&a->types[t].resource, &b->types[t].resource) || a->types[t].source != b->types[t].source)
            return false;
    for (uint32_t l = 0; l < a->layer_count; l++) {
        const struct instance_layer *x = &a->layers[l], *y = &b->layers[l];
        if (strcmp(x->name, y->name) != 0 || strcmp(x->kind, y->kind) != 0 || x->in_bytes != y->in_bytes ||
            x->weight_bytes != y->weight_bytes || x->cut_bytes != y->cut_bytes || x->tied_before != y->tied_before ||
            x->tied_behind != y->tied_behind || x->dense_bytes != y->dense_bytes || x->row_bytes != y->row_bytes ||
            x->is_end != y->is_end)
            return false;
    }
    if ((a->nodes == NULL) != (b->nodes == NULL)) return false;
    if (a->nodes) {
        const uint32_t n = a->nodes->count;
        if (b->nodes->count != n || a->nodes->message != b->nodes->message || a->nodes->step != b->nodes->step ||
            a->nodes->lanes != b->nodes->lanes)
            return false;
        for (uint32_t t = 0; t < a->type_count; t++)
            if (a->types[t].resource.nodes != b->types[t].resource.nodes) return false;
        for (uint32_t node = 0; node < n; node++) {
            const struct instance_node *of_a = &a->nodes->node[node], *of_b = &b->nodes->node[node];
            if (strcmp(of_a->name, of_b->name) != 0 || of_a->memory_bytes != of_b->memory_bytes ||
                of_a->price_per_hour != of_b->price_per_hour || of_a->cores != of_b->cores)
                return false;
        }
        if (memcmp(a->nodes->links, b->nodes->links, (size_t)n * n * sizeof *a->nodes->links) != 0) return false;
    }
    return memcmp(a->times, b->times, (size_t)a->layer_count * a->type_count * sizeof *a->times) == 0;
}

#endif
