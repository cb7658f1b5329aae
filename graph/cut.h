/* The tensors that cross the cut after a layer, when the layers up to it run on one device and the later
 * ones on another: activations written before the cut and read after it, forward or backward; columns of
 * the input read after it; and the gradients that come back. Source: HeterPS, section 4.1 (ODT), here
 * for graphs that are not chains. */
#ifndef HETERPS_GRAPH_CUT_H
#define HETERPS_GRAPH_CUT_H

#include "graph/graph.h"

struct cut {
    uint64_t forward_bytes, backward_bytes; /* an example: activations and input columns; gradients */
    uint64_t micro_bytes;                   /* once a micro-batch: both ways */
};
/* The cut after `layer`; nothing crosses the cut after the last layer. Fills forward[tensor_count] and
 * backward[tensor_count], unless NULL, with the tensors in ascending order, and their counts. A start-up
 * call: takes scratch memory. MEMORY. */
MUST_USE status graph_cut(const struct graph *g, uint32_t layer, struct cut *cut, uint32_t *forward,
                          uint32_t *forward_count, uint32_t *backward, uint32_t *backward_count);

/* Bytes of an example in a tensor, without padding; of a sparse field, the bytes of as
 * many keys as an example may have. */
uint64_t graph_cut_tensor_bytes(const struct graph *g, uint32_t tensor);

#endif
