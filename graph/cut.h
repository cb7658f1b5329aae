/* What crosses the cut behind a layer when the layers up to it run on one device and the others on another: the
 * activations that were written before it and are read behind it, forward or backward; the columns of the input
 * that are read behind it; and the gradients that come back. Source: HeterPS, section 4.1 (ODT), for graphs
 * that are not chains. */
#ifndef HETERPS_GRAPH_CUT_H
#define HETERPS_GRAPH_CUT_H

#include "graph/graph.h"

struct cut {
    uint64_t forward_bytes, backward_bytes; /* an example: activations and input columns; gradients           */
    uint64_t micro_bytes;                   /* besides these, what comes once a micro-batch: both ways        */
};
/* The cut behind `layer`; behind the last one nothing is left to move. Where they are not NULL, fills
 * forward[tensor_count] and backward[tensor_count] with the tensors in ascending order, and their counts. A
 * start-up call: it takes scratch memory. MEMORY. */
MUST_USE status graph_cut(const struct graph *g, uint32_t layer, struct cut *cut, uint32_t *forward,
                          uint32_t *forward_count, uint32_t *backward, uint32_t *backward_count);

/* Bytes that an example has in a tensor, padding not counted: of a sparse field those of as many keys as it may
 * have. */
uint64_t graph_cut_tensor_bytes(const struct graph *g, uint32_t tensor);

#endif
