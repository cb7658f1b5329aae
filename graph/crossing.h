/* What a stage takes and gives: every tensor that lies on both sides of a cut before or after the stage
 * (graph/cut.h), and every tensor that the engine reads in the stage. Each is listed by how the stage uses it and when
 * it moves.
 *
 *            cut in front                                         cut behind
 *     slot ── activations, columns of the data ──▶ forward pass  ── activations ──▶ slot, what losses and heads write
 *     slot ◀── gradients of what it has taken ──── backward pass ◀── gradients ──── slot
 *
 * FRONT and BEHIND list the bytes that graph_cut counts: all that the stage's side must have, even if only later stages
 * read it. The other lists are for a device that keeps the stage's own tensors alone: what only passes through the
 * stage stays on the host. */
#ifndef HETERPS_GRAPH_CROSSING_H
#define HETERPS_GRAPH_CROSSING_H

#include "graph/graph.h"

enum crossing_list {
    CROSSING_FRONT,       /* forward, across the cut in front: all that graph_cut lists                 */
    CROSSING_BEHIND,      /* back, across the cut behind: likewise                                      */
    CROSSING_FORWARD_IN,  /* activations and columns that the stage reads and has not made; no keys     */
    CROSSING_FORWARD_OUT, /* activations that the stage makes and that cross the cut behind             */
    CROSSING_LOSSES,      /* besides, in training: what losses write, and what they read of at most two columns */
    /* besides, where nothing is trained: what heads read and write, and what evaluation ranks by */
    CROSSING_HEADS,
    CROSSING_BACKWARD_IN,    /* gradients, from later stages, of what the stage has made or adds to        */
    CROSSING_BACKWARD_OUT,   /* gradients of what the stage has taken                                      */
    CROSSING_BACKWARD_BEGUN, /* of these, gradients to which no later stage has added                      */
    CROSSING_LISTS
};
struct crossing {
    uint32_t *tensor[CROSSING_LISTS]; /* ascending */
    uint32_t count[CROSSING_LISTS];
    bool counts_keys; /* a node asks how many keys an example has in a field */
    bool has_loss;    /* examples' weights are read                          */
};

/* The crossing of the layers [first_layer, last_layer]. A start-up call: takes scratch memory; crossing_free gives
 * it back. MEMORY. */
MUST_USE status crossing_find(struct crossing *crossing, const struct graph *g, uint32_t first_layer,
                              uint32_t last_layer);
void crossing_free(struct crossing *crossing);

#endif
