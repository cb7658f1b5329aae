/* The policy's network. Layer after layer a recurrent cell reads the layer and the type given to the layer
 * before; its state gives a query, and the logit of each type is
 *
 *     logit[l, t] = query . (features[l, t], embedding[t]) + stay [t is the type
 *     before] + table[l, t] + bias[t]
 *
 * HeterPS, section 5.2, Figure 3, with per-type features instead of one output row a type, so that
 * the weights of the cell and of the query do not depend on L and T and serve every instance. The
 * others (embedding, stay, table, bias: the rows of the index one-hot and of T outputs) belong to
 * one instance's layers and types.
 *
 * A search samples some 10^5 plans a second: all plans of a batch step from layer to layer side by side.
 * Arithmetic is float, in an order that no instruction set changes. */
#ifndef HETERPS_SCHED_POLICY_NET_H
#define HETERPS_SCHED_POLICY_NET_H

#include "engine/base/random.h"
#include "sched/cost.h"
#include "sched/policy.h"

enum {
    NET_LANES = 8,     /* rows over types are padded to a multiple                                */
    NET_HIDDEN = 16,   /* of the cell                                                             */
    NET_FEATURES = 10, /* of a layer on a type                                                    */
    NET_EMBEDDING = 4, /* of a type, learned                                                      */
    NET_QUERY = 16,    /* features, embedding, stay; the last is not used                         */
    NET_STAY = NET_FEATURES + NET_EMBEDDING,
    NET_SCALARS = 6,  /* of a layer                                                              */
    NET_INDEXES = 32, /* of the one-hot of the layer's index; later layers share the last        */
    NET_KINDS = 16,   /* of the one-hot of the layer's kind, by hash                             */
    NET_GATES_MAX = 4 * NET_HIDDEN,
};

/* An instance as the network reads it. */
struct net_view {
    uint32_t layer_count, type_count, width; /* width: net_width(type_count) */
    uint32_t *kind;                          /* [L] */
    float *scalars;                          /* [L, NET_SCALARS] */
    float *keys;                             /* [L, NET_FEATURES, width] */
    float *values;                           /* [L, T, NET_FEATURES]: the same, for feeding back */
    void *memory;
};
MUST_USE status net_view_open(struct net_view *view, const struct cost_model *model);
/* Reads another model of as many layers and types. */
void net_view_set(struct net_view *view, const struct cost_model *model);
void net_view_close(struct net_view *view);

/* type_count up to a multiple of NET_LANES. */
static inline uint32_t net_width(uint32_t type_count) { return (type_count + NET_LANES - 1) / NET_LANES * NET_LANES; }

/* Offsets into the parameters, in floats. Parameters up to `shared_count` serve every instance. */
struct net_layout {
    uint32_t gates; /* NET_HIDDEN, or 4 times that */
    size_t recurrent, feedback, index, kind, scalar, start, query, query_bias, shared_count;
    size_t embedding, bias, stay, table, count;
};
struct net_layout net_layout(enum policy_cell cell, uint32_t layer_count, uint32_t width);

struct net {
    enum policy_cell cell;
    const struct net_view *view; /* borrowed until net_close */
    struct net_layout at;
    float *parameters, *gradient, *mean, *square; /* [at.count]; the last two are Adam's */
    uint64_t update_count;
    /* scratch */
    float *before;       /* [L, gates]: the part of a layer's gates that comes from the layer              */
    float *fed;          /* [L, T, gates]: `before`, and the part from the type of the layer before        */
    uint32_t *fed_stamp; /* [L, T]: the preparation that `fed` is of                                       */
    uint32_t stamp;
    float *dbefore; /* [L, gates] */
    float *tape;    /* one sequence's activations */
    float *state;   /* [batch, 2, NET_HIDDEN] */
    float *row;     /* [width] */
    uint32_t *bits; /* [batch, 4] */
    uint32_t batch_max;
    bool is_wide; /* registers of eight floats are used: the same bits, sooner */
    void *memory;
};
MUST_USE status net_open(struct net *net, enum policy_cell cell, const struct net_view *view, uint32_t batch_max);
void net_close(struct net *net);

/* Shared weights from a stream. */
void net_draw_shared(float *shared, enum policy_cell cell, struct random_stream stream);
/* Must be called after parameters have changed. */
void net_prepare(struct net *net);
/* `count` plans, types[count, L]; plan i draws from item + i of the stream. A share `uniform` of the
 * types is drawn from all alike. */
void net_sample(struct net *net, struct random_stream stream, uint64_t item, uint32_t count, float uniform,
                type_index *types);
/* types[L]: the most probable type of each layer, given the types chosen before it. */
void net_argmax(struct net *net, type_index *types);
/* Adds weight * d log P(types) / d parameters to the gradient; returns log P. */
double net_learn(struct net *net, const type_index *types, float weight);
/* Completes the gradient: carries the gates' gradient on to the weights of index, kind and scalars. */
void net_gather(struct net *net);
/* Forgets Adam's means. */
void net_reset(struct net *net);
/* net_gather, a step of Adam (Kingma and Ba 2015, Algorithm 1) uphill, a gradient of zero, net_prepare. */
void net_update(struct net *net, float rate_shared, float rate_own);

#endif
