/* Resource-aware layer placement: where a network is split into a front, which many
 * workers train data-parallel, and a back, which one node keeps, so that not the back's
 * parameters but its input crosses links.
 *
 *     worker 0: front ──O──▶ ┐
 *     worker 1: front ──O──▶ ├ back, one worker's activations at a time: forward and backward use the same weights
 *     worker 2: front ──O──▶ ┘      ◀──O── their gradients; P, the front's parameters and gradients, as in a
 *                                           parameter server
 *
 * Source: Park, Kim, Lee, Jeon and Noh, "Accelerated Training for CNN Distributed Deep Learning through
 * Automatic Resource-Aware Layer Placement" (2019), section 4.3. Departures from its print: formula 1 gives
 * its Table 1 if the skewness is that of the layer's index, each layer weighted by its parameters; its split
 * gives its Table 2 if only cuts without a convolution behind them count. */
#ifndef HETERPS_SCHED_RALP_H
#define HETERPS_SCHED_RALP_H

#include "sched/instance.h"

#define RALP_THRESHOLD (-0.5) /* K: a network with a skewness below it is split */

struct ralp_layer {
    double param_bytes;
    double out_bytes; /* O: all that crosses the cut after it, of a worker's batch, one way */
    bool is_counted;  /* it has parameters, or is a pool: only such layers have an index     */
    bool is_conv;
};

enum ralp_verdict { RALP_SPLIT, RALP_NOT_SKEWED, RALP_NOTHING_BEHIND };
struct ralp {
    enum ralp_verdict verdict;
    double skewness, threshold;
    uint32_t last;      /* last layer of the front, whatever the verdict           */
    double out_bytes;   /* O after this layer                                      */
    double front_bytes; /* P: parameters up to this layer                          */
    double param_bytes; /* of all layers                                           */
};

/* The third standardised moment of the layer's index among counted layers, weighted by parameters: below 0 if
 * most parameters lie at the end. 0 if fewer than two layers have parameters. */
double ralp_skewness(const struct ralp_layer *layers, uint32_t count);
/* argmin over i of O_i + sum of P up to i, the first of equals, over counted layers without a
 * convolution behind them. NOT_SKEWED: the skewness is not below the threshold; NOTHING_BEHIND: the
 * minimum is after the last counted layer. */
struct ralp ralp_profile(const struct ralp_layer *layers, uint32_t count, double threshold);
/* Bytes of a step over all links, both ways: of the split with W workers (Table 2: 2 W (O + P)), and of a
 * ring all-reduce of all parameters (2 S (W - 1)). */
double ralp_step_bytes(const struct ralp *r, uint32_t workers);
double ralp_all_reduce_bytes(const struct ralp *r, uint32_t workers);
/* "vgg11 is split behind mpool4: skewness -3.62, below -0.50; …" or why it is not; returns buffer. */
char *ralp_text(const struct ralp *r, const char *net, const char *last_layer, char *buffer, size_t bytes);

/* layers[L] of an instance, O of a batch of B_o. A layer is counted if it has weights or its kind has "pool"
 * in it, and a convolution if its kind begins with "conv". INVALID: a layer before the last has no
 * cut_bytes, or no layer has weights. */
MUST_USE status ralp_layers_of_instance(struct ralp_layer *layers, const struct instance *instance);

#endif
