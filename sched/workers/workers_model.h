/* What a model asks of the cards that train it, for planning virtual workers (HetPipe, section 7): sums over its layers
 * of weights, of what the backward pass needs, of seconds on each type of card; and what crosses each cut.
 *
 *     layers   0     1     2    …   L - 1
 *     cuts   0     1     2     3  …       L      cut[i] is before layer i: activations there, gradients back
 *
 * All bytes and seconds are of a minibatch, but those of weights. */
#ifndef HETERPS_SCHED_WORKERS_WORKERS_MODEL_H
#define HETERPS_SCHED_WORKERS_WORKERS_MODEL_H

#include "sched/cluster.h"
#include "sched/instance.h"
#include "sched/nets/net.h"

#define WORKERS_CARDS_MAX 8u /* of a worker */
#define WORKERS_MAX       64u
#define WORKERS_NODES_MAX 8u

/* A forward pass's share of a minibatch's computing: a backward pass makes two gradients, each as dear. */
#define WORKERS_FORWARD_SHARE (1. / 3)
/* What a card's driver and libraries keep of its memory. */
#define WORKERS_RESERVED_BYTES (256. * 1024 * 1024)

/* A node and its cards, all of one type. */
struct workers_node {
    char name[RESOURCE_NAME_BYTES + 1]; /* of the type */
    uint32_t type, card_count;
    double memory_bytes; /* of a card */
};
/* inside, between: bytes a second that a card sends or receives within its node, and that a node receives from
 * others. */
struct workers_cluster {
    struct workers_node nodes[WORKERS_NODES_MAX];
    uint32_t node_count;
    double inside, between;
};

/* Of a cluster's text: types of which more are there than a node has are several nodes; the slowest declared ways are
 * all's. INVALID, with file and line, where memory or rates are not given; INFEASIBLE: more nodes than
 * WORKERS_NODES_MAX. */
MUST_USE status workers_cluster_of(struct workers_cluster *to, const struct cluster *cluster);

struct workers_model {
    const char *name;
    uint32_t layer_count, type_count;
    double batch;                       /* examples of a minibatch */
    char (*names)[INSTANCE_NAME_BYTES]; /* [L]                                                   */
    double *weight_bytes, *stash_bytes; /* [L + 1]: of the layers before it together             */
    double *cut_bytes;                  /* [L + 1]: one way; cut 0 is the input, cut L nothing   */
    double *out_bytes;                  /* [L]                                                   */
    double *seconds;                    /* [T][L + 1]: as weight_bytes, forward and backward     */
    void *memory;
};

/* Room for so many layers and types, all 0. MEMORY. workers_model_free. */
MUST_USE status workers_model_make(struct workers_model *m, uint32_t layer_count, uint32_t type_count);
/* A net's, on types that do `flops[t]` a second of it, three times its forward pass's an example. Borrows its name. */
MUST_USE status workers_model_of_net(struct workers_model *m, const struct net *net, double batch, const double *flops,
                                     uint32_t type_count);
/* An instance's: its oct, on its types; of a layer that moves two ways the half is a cut, and a layer leaves for the
 * backward pass what it gives to the next, for an instance says no more. Borrows its name. */
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

/* How many minibatches the stage `index` of `count` holds at once, of Nm in flight: the first all, the last one, for
 * there forward and backward are one task, and those between in even steps. A stage starts no forward pass beyond. */
uint32_t workers_held(uint32_t in_flight, uint32_t index, uint32_t count);

/* What a stage of layers first … end - 1 keeps on its card while it holds so many minibatches. */
struct workers_memory {
    double weights;  /* with the gradient and the sum of a wave's                                      */
    double versions; /* of weights that minibatches in flight have begun with, beside the newest       */
    double stash;    /* what backward passes need: the stage's input, and what its layers leave        */
    double working;  /* two of the largest output: a gradient that comes, and the one it becomes       */
    double reserved;
};
struct workers_memory workers_memory_of(const struct workers_model *m, uint32_t first, uint32_t end, uint32_t held);
static inline double workers_memory_sum(const struct workers_memory *b)
{
    return b->weights + b->versions + b->stash + b->working + b->reserved;
}

#endif
