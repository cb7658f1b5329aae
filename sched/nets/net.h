/* Convolutional networks as tables of layers, for planning RALP's and HetPipe's models, which this program
 * does not train. A table is made by code from the published description (nets.def, net_table.c); nothing is
 * measured. Layers stand in the order of the forward pass; a branch of an inception module or a residual
 * block is one layer after another, so that a cut after any layer is a cut through the whole net. */
#ifndef HETERPS_SCHED_NETS_NET_H
#define HETERPS_SCHED_NETS_NET_H

#include <stdint.h>

#include "engine/base/status.h"

#define NET_NAME_BYTES  32u
#define NET_CLASSES_MAX 10000000u

enum net_kind { NET_CONV, NET_POOL, NET_FC, NET_DROPOUT, NET_CONCAT, NET_ADD };

/* Elements are float32 values of one image. */
struct net_layer {
    char name[NET_NAME_BYTES]; /* its kind, numbered from 0 within the kind: "conv0", "affine2"                       */
    enum net_kind kind;
    uint64_t params;   /* trained: weights, and biases or the shift and scale of the batch normalisation behind it */
    uint64_t in_elems; /* of all its inputs                                                                         */
    uint64_t out_elems;
    uint64_t cut_elems; /* what later layers read of it and of earlier layers; of the last layer: its output */
    /* what the forward pass keeps for the backward pass: its output, and under batch normalisation the
     * convolution's, too; activations are in place */
    uint64_t stash_elems;
    double flops; /* of its forward pass for an image, multiply and add apart */
};

struct net {
    const char *name, *source;
    uint32_t layer_count;
    struct net_layer *layers; /* [layer_count]; owned                     */
    uint64_t in_elems;        /* of an image                              */
    uint32_t batch;           /* images a worker and step, by default     */
};

typedef enum {
#define NET(id, ...) NET_ID_##id,
#include "sched/nets/nets.def"
#undef NET
    NET_ID_COUNT
} net_id;
extern const char *const net_names[NET_ID_COUNT + 1]; /* the last is NULL */

/* The net of that name, whose last layer tells `classes` classes (1 to NET_CLASSES_MAX). INVALID: there is no
 * such name, with all names, or the number of classes is out of range; MEMORY. On failure *net is empty. */
MUST_USE status net_make(struct net *net, const char *name, uint32_t classes);
void net_free(struct net *net);

/* Convolutions, pools and fully connected layers: the layers that RALP counts. */
static inline bool net_layer_is_counted(const struct net_layer *l) { return l->kind <= NET_FC; }
/* Of layers first … last - 1. */
uint64_t net_params(const struct net *net, uint32_t first, uint32_t last);
double net_flops(const struct net *net, uint32_t first, uint32_t last);

#endif
