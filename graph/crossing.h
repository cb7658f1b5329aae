/* What the layers of a stage take and give: every tensor that lies on both sides of a cut in front of the stage
 * or behind it (graph/cut.h), or that the engine reads in the stage, once with what the stage does with it, and
 * lists of these by when they move.
 *
 *            cut in front                                         cut behind
 *     slot ── activations, columns of the data ──▶ forward pass  ── activations ──▶ slot, what losses and heads write
 *     slot ◀── gradients of what it has taken ──── backward pass ◀── gradients ──── slot
 *
 * FRONT and BEHIND are the bytes of graph_cut: what has to be on the stage's side, whether it reads that or
 * later ones do. The other lists are what a device moves that keeps nothing but the stage's own tensors: what
 * only passes the stage by stays where it is. */
#ifndef HETERPS_GRAPH_CROSSING_H
#define HETERPS_GRAPH_CROSSING_H

#include "graph/graph.h"

enum crossing_list {
    CROSSING_FRONT,       /* forward, across the cut in front: all of graph_cut's                       */
    CROSSING_BEHIND,      /* back, across the cut behind: likewise                                      */
    CROSSING_FORWARD_IN,  /* activations and columns that the stage reads and has not made; no keys     */
    CROSSING_FORWARD_OUT, /* made by the stage, across the cut behind                                   */
    CROSSING_LOSSES,      /* besides these, in training: what losses have written, and read of at most two columns */
    /* likewise where nothing is trained: what heads read and have written, and what evaluation ranks by */
    CROSSING_HEADS,
    CROSSING_BACKWARD_IN,    /* gradients from behind of what the stage has made, or adds to               */
    CROSSING_BACKWARD_OUT,   /* gradients of what it has taken                                             */
    CROSSING_BACKWARD_BEGUN, /* of these, those that nobody behind has added to                           */
    CROSSING_LISTS
};
struct crossing {
    uint32_t *tensor[CROSSING_LISTS]; /* ascending */
    uint32_t count[CROSSING_LISTS];
    bool counts_keys; /* a node asks how many keys an example has in a field */
    bool has_loss;    /* examples' weights are read                          */
};

/* Of the layers [first_layer, last_layer]. A start-up call: it takes scratch memory, which crossing_free gives
 * back. MEMORY. */
MUST_USE status crossing_find(struct crossing *crossing, const struct graph *g, uint32_t first_layer,
                              uint32_t last_layer);
void crossing_free(struct crossing *crossing);

#endif
