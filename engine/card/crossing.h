/* What moves between the host and a card for the layers of a stage. Tensors of a micro-batch have a place on both sides; a stage on a card
 * takes what others have written and its nodes read, and gives what others read:
 *
 *     host  ── activations, columns of the data ──▶ forward pass  ── activations that cross the cut behind, heads ──▶ host
 *     host  ── gradients from behind ──▶            backward pass ── gradients of what it has taken ──▶               host
 *
 * Behind a cut with the CPU on one side that is what graph_cut counts, but for tensors that only pass the stage by, which stay where they are. */
#ifndef HETERPS_ENGINE_CARD_CROSSING_H
#define HETERPS_ENGINE_CARD_CROSSING_H

#include "graph/op.h"

enum crossing_list {
    CROSSING_FORWARD_IN,
    CROSSING_FORWARD_OUT, /* across the cut behind                                                       */
    CROSSING_LOSSES,      /* besides these, in training: what losses have written                        */
    CROSSING_HEADS, /* likewise where nothing is trained: what heads read and have written, and what evaluation ranks by */
    CROSSING_BACKWARD_IN,
    CROSSING_BACKWARD_OUT,
    CROSSING_LISTS
};
struct crossing {
    uint32_t *tensor[CROSSING_LISTS]; /* ascending */
    uint32_t count[CROSSING_LISTS];
    bool counts_keys; /* a node asks how many keys an example has in a field */
    bool has_loss;    /* examples' weights are read                          */
};

/* Of the forward nodes [node_begin, node_end): layers up to last_layer. A start-up call: it takes scratch memory, which crossing_free gives
 * back. MEMORY. */
MUST_USE status crossing_find(struct crossing *crossing, const struct graph *g, uint32_t node_begin, uint32_t node_end,
                              uint32_t last_layer);
void crossing_free(struct crossing *crossing);
/* Bytes that an example has in the tensors of a list; of those with a row a micro-batch, all. */
uint64_t crossing_bytes(const struct crossing *crossing, const struct graph *g, enum crossing_list list);

#endif
