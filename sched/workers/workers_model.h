/* The demands of a model on the cards that train it, for planning virtual workers (HetPipe, section 7):
 * sums over its layers of weights, of bytes kept for the backward pass, of seconds on each type of card;
 * and the bytes across each cut.
 *
 *     layers   0     1     2    …   L - 1
 *     cuts   0     1     2     3  …       L      cut[i] is before layer i: activations there, gradients back
 *
 * Bytes and seconds are of a minibatch, except bytes of weights. */
#ifndef HETERPS_SCHED_WORKERS_WORKERS_MODEL_H
#define HETERPS_SCHED_WORKERS_WORKERS_MODEL_H

#include "sched/cluster.h"
#include "sched/instance.h"
#include "sched/nets/net.h"

#define WORKERS_CARDS_MAX 8u /* of a worker */
#define WORKERS_MAX       64u
#define WORKERS_NODES_MAX 8u

/* A forward pass's share of a minibatch's computing: a backward pass makes two
 * gradients, each at the same cost. */
#define WORKERS_FORWARD_SHARE (1. / 3)
/* Memory of a card that its driver and libraries keep. */
#define WORKERS_RESERVED_BYTES (256. * 1024 * 1024)

/* A node and its cards, all of one type. */
struct workers_node {
    char name[RESOURCE_NAME_BYTES + 1]; /* of the type */
    uint32_t type, card_count;
    double memory_bytes; /* of a card */
};
/* inside: bytes a second that a card sends or receives within its node; between:
 * that a node receives from others. */
struct workers_cluster {
    struct workers_node nodes[WORKERS_NODES_MAX];
    uint32_t node_count;
    double inside, between;
};

/* The nodes of a cluster's text: a type with more units than per_node makes several nodes; the slowest
 * declared ways count for all. INVALID, with file and line: memory or rates are not given, or the text has
 * nodes of its own; INFEASIBLE: more nodes than WORKERS_NODES_MAX. */
MUST_USE status workers_cluster_of(struct workers_cluster *to, const struct cluster *cluster);

struct workers_model {
    const char *name;
    uint32_t layer_count, type_count;
    double batch;                       /* examples of a minibatch */
    char (*names)[INSTANCE_NAME_BYTES]; /* [L]                                                   */
    double *weight_bytes, *stash_bytes; /* [L + 1]: sums over the layers before                  */
    double *cut_bytes;                  /* [L + 1]: one way; cut 0: the input, cut L: nothing    */
    double *out_bytes;                  /* [L]                                                   */
    bool *is_tied;                      /* [L + 1]: cut i is none: layers before and behind it go together */
    double *seconds;                    /* [T][L + 1]: sums likewise, forward and backward       */
    void *memory;
};

/* A model of zeros with room for the layers and types. MEMORY. workers_model_free. */
MUST_USE status workers_model_make(struct workers_model *m, uint32_t layer_count, uint32_t type_count);
/* The model of a net on types that do flops[t] operations a second, three times its forward pass's for an
 * example. Borrows the net's name. */
MUST_USE status workers_model_of_net(struct workers_model *m, const struct net *net, double batch, const double *flops,
                                     uint32_t type_count);
/* The model of an instance on its types, by oct. A cut carries half of the layer's bytes there and back. As
 * an instance says no more, a layer keeps its output for the backward pass. Layers that share a table or
 * parameters go together, and so do all from the first loss or head on, as a run asks. Borrows the
 * instance's name. */
MUST_USE status workers_model_of_instance(struct workers_model *m, const struct instance *instance);
void workers_model_free(struct workers_model *m);

/* Of layers first … end - 1. */
static inline double workers_seconds(const struct workers_model *m, uint32_t type, uint32_t first, uint32_t end)
{
    const double *s = m->seconds + (size_t)type * (m->layer_count + 1);
    return s[end] - s[first];
}
static inline double workers_weights(const struct workers_model *m, uint32_t first, uint32_t end)
{
    return m->weight_bytes[end] - m->weight_bytes[first];
}

/* How many of in_flight minibatches the stage `index` of `count` holds at once: the first stage
 * all, the last one (forward and backward are one task there), stages between in even steps. A
 * full stage starts no forward pass. */
uint32_t workers_held(uint32_t in_flight, uint32_t index, uint32_t count);

/* Bytes that a stage of layers first … end - 1 keeps on its card while it holds `held` minibatches. */
struct workers_memory {
    double weights;  /* weights, their gradient, and a wave's sum                                      */
    double versions; /* older weights, with which minibatches in flight began                          */
    double stash;    /* kept for backward passes: the stage's input, and its layers' stash             */
    double working;  /* two of the largest output: an incoming gradient, and the outgoing one          */
    double reserved;
};
struct workers_memory workers_memory_of(const struct workers_model *m, uint32_t first, uint32_t end, uint32_t held);
static inline double workers_memory_sum(const struct workers_memory *b)
{
    return b->weights + b->versions + b->stash + b->working + b->reserved;
}

#endif
