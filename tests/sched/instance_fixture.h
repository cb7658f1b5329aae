/* Small scheduling problems in memory, for tests of the cost model and of the methods that prove. Nothing of
 * them is plausible: shares of 0 and 1, communication that binds, free types, limits of one unit and
 * throughputs out of reach all come up. */
#ifndef HETERPS_TESTS_SCHED_INSTANCE_FIXTURE_H
#define HETERPS_TESTS_SCHED_INSTANCE_FIXTURE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "sched/cost.h"

#define FIXTURE_LAYERS_MAX 64u
#define FIXTURE_TYPES_MAX  64u
#define FIXTURE_NODES_MAX  8u

struct instance_fixture {
    struct instance instance;
    struct instance_type types[FIXTURE_TYPES_MAX];
    struct instance_layer layers[FIXTURE_LAYERS_MAX];
    struct instance_time times[FIXTURE_LAYERS_MAX * FIXTURE_TYPES_MAX];
    struct instance_nodes nodes;
    struct instance_node node[FIXTURE_NODES_MAX];
    struct instance_link links[FIXTURE_NODES_MAX * FIXTURE_NODES_MAX];
};

/* SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014). */
static inline uint64_t fixture_random(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}
/* Whole, from 0 to count - 1. */
static inline uint32_t fixture_below(uint64_t *state, uint32_t count)
{
    return (uint32_t)(fixture_random(state) % count);
}
static inline double fixture_between(uint64_t *state, double low, double high)
{
    return low + (high - low) * (double)(fixture_random(state) >> 11) * 0x1p-53;
}

/* B_o = 1, M = 3600, one epoch: times are seconds an example, and a cost is tau times the sum of prices. */
static inline void fixture_make(struct instance_fixture *f, uint32_t layer_count, uint32_t type_count)
{
    memset(f, 0, sizeof *f);
    f->instance = (struct instance){.name = "fixture",
                                    .layer_count = layer_count,
                                    .type_count = type_count,
                                    .batch = 1,
                                    .examples = 3600,
                                    .epochs = 1,
                                    .types = f->types,
                                    .layers = f->layers,
                                    .times = f->times};
    for (uint32_t l = 0; l < layer_count; l++) f->layers[l].name = f->layers[l].kind = "layer";
    for (uint32_t t = 0; t < type_count; t++) {
        f->types[t].resource.name = "type";
        f->types[t].resource.device = RESOURCE_SIM;
        f->types[t].resource.price_per_hour = 1;
        f->types[t].resource.limit = 100;
    }
}

/* A share that divides among units: often none or all of it. */
static inline double fixture_share(uint64_t *state)
{
    uint32_t kind = fixture_below(state, 8);
    return kind == 0 ? 0 : kind == 1 ? 1 : fixture_between(state, 0.5, 1);
}

/* A random problem. Limits from 1 to limit_max; `throughput` times what the cheapest single unit
 * reaches is asked for, 0: nothing. */
static inline void fixture_random_make(struct instance_fixture *f, uint64_t *state, uint32_t layer_count,
                                       uint32_t type_count, uint32_t limit_max, double throughput)
{
    double slowest = 0;
    fixture_make(f, layer_count, type_count);
    f->instance.batch = 1u << fixture_below(state, 10);
    f->instance.examples = 1e6;
    f->instance.epochs = 1 + fixture_below(state, 3);
    for (uint32_t t = 0; t < type_count; t++) {
        f->types[t].resource.limit = 1 + fixture_below(state, limit_max);
        f->types[t].resource.price_per_hour = fixture_below(state, 20) ? fixture_between(state, 0.04, 8) : 0;
    }
    for (uint32_t l = 0; l < layer_count; l++) {
        double work = fixture_between(state, 1e-3, 1e-1);
        for (uint32_t t = 0; t < type_count; t++) {
            struct instance_time *time = &f->times[(size_t)l * type_count + t];
            time->oct = work * fixture_between(state, 0.1, 2);
            time->alpha = fixture_share(state);
            time->odt = fixture_below(state, 4) ? work * fixture_between(state, 0, 1) : 0;
            time->beta = fixture_share(state);
        }
        slowest += work;
    }
    f->instance.throughput_limit = throughput * f->instance.batch / slowest;
}

/* Puts the types of a random problem on up to node_max nodes, several on one or none on some, with links that
 * differ by some hundred times and in their two ways; half of the time with memory that binds, and with
 * prices of nodes; a third of the types add moves. */
static inline void fixture_nodes_put(struct instance_fixture *f, uint64_t *state, uint32_t node_max)
{
    const uint32_t L = f->instance.layer_count, T = f->instance.type_count, N = 1 + fixture_below(state, node_max);
    const bool has_memory = fixture_below(state, 2), has_price = fixture_below(state, 2);
    f->nodes = (struct instance_nodes){.count = N, .message = f->instance.batch, .node = f->node, .links = f->links};
    f->instance.nodes = &f->nodes;
    for (uint32_t l = 0; l < L; l++) {
        f->layers[l].cut_bytes = fixture_between(state, 0, 1000);
        f->layers[l].weight_bytes = fixture_between(state, 0, 100);
    }
    for (uint32_t t = 0; t < T; t++) {
        f->types[t].resource.nodes = UINT64_C(1) << fixture_below(state, N);
        f->types[t].resource.adds_moves = fixture_below(state, 3) == 0;
    }
    for (uint32_t a = 0; a < N; a++) {
        f->node[a] = (struct instance_node){.name = "node"};
        if (has_memory && fixture_below(state, 2)) f->node[a].memory_bytes = fixture_between(state, 1, 50.0 * L);
        if (has_price && fixture_below(state, 2)) f->node[a].price_per_hour = fixture_between(state, 0, 20);
        for (uint32_t b = 0; b < N; b++)
            *instance_link(&f->nodes, a, b) = (struct instance_link){
                .bandwidth = exp(fixture_between(state, 11, 17)),
                .latency = fixture_below(state, 2) ? fixture_between(state, 0, 2e-3) * f->instance.batch : 0};
    }
}

/* Lets types of such a problem lie on several nodes, with lanes that do not divide evenly; layers have
 * rows, are tied, or are ends. */
static inline void fixture_shared_put(struct instance_fixture *f, uint64_t *state)
{
    const uint32_t L = f->instance.layer_count, T = f->instance.type_count, N = f->nodes.count;
    f->nodes.step = f->instance.batch * (1 + fixture_below(state, 8));
    f->nodes.lanes = fixture_below(state, 2) ? N + fixture_below(state, 5) : 0;
    for (uint32_t t = 0; t < T; t++) {
        if (fixture_below(state, 2)) continue;
        f->types[t].resource.nodes |= fixture_random(state) & instance_nodes_all(&f->nodes);
    }
    for (uint32_t l = 0; l < L; l++) {
        struct instance_layer *layer = &f->layers[l];
        layer->dense_bytes =
            fixture_below(state, 3) ? layer->weight_bytes : fixture_between(state, 0, layer->weight_bytes);
        layer->row_bytes = fixture_below(state, 3) == 0 ? fixture_between(state, 0, 1000) : 0;
        layer->is_end = fixture_below(state, 8) == 0;
        layer->tied_before = fixture_below(state, 8) == 0 ? fixture_below(state, l + 1) : 0;
        layer->tied_behind = fixture_below(state, 8) == 0 ? fixture_below(state, L - l) : 0;
        for (uint32_t t = 0; t < T; t++) {
            struct instance_time *time = &f->times[(size_t)l * T + t];
            time->fixed = fixture_below(state, 2) ? time->oct * fixture_between(state, 0, 1) : 0;
        }
    }
}

#endif
