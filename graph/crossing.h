/* The tensors that a stage takes and gives: those that lie on both sides of a cut before or
 * after the stage (graph/cut.h), and those that the engine reads in the stage, listed by how the
 * stage uses them and when they move.
 *
 *            cut in front                                         cut behind
 *     slot ── activations, columns of the data ──▶ forward pass  ── activations ──▶ slot, outputs of losses and heads
 *     slot ◀── gradients of its inputs ─────────── backward pass ◀── gradients ──── slot
 *
 * FRONT and BEHIND list the bytes that graph_cut counts: all that the stage's side must have, even if only
 * later stages read it. The other lists are for a device that keeps the stage's own tensors alone: tensors
 * that only pass through the stage stay on the host. */
#ifndef HETERPS_GRAPH_CROSSING_H
#define HETERPS_GRAPH_CROSSING_H

#include "graph/graph.h"

enum crossing_list {
    CROSSING_FRONT,       /* forward, across the cut in front: all that graph_cut lists                 */
    CROSSING_BEHIND,      /* back, across the cut behind: likewise                                      */
    CROSSING_FORWARD_IN,  /* activations and columns that the stage reads and has not made; no keys     */
    CROSSING_FORWARD_OUT, /* activations that the stage makes and that cross the cut behind             */
    CROSSING_LOSSES,      /* also, in training: outputs of losses, and their inputs of at most two columns */
    /* also, where nothing is trained: the tensors that heads read and write,
     * and those that evaluation ranks by */
    CROSSING_HEADS,
    CROSSING_BACKWARD_IN,    /* gradients from later stages that the stage reads or adds to                */
    CROSSING_BACKWARD_OUT,   /* gradients of the stage's inputs                                            */
    CROSSING_BACKWARD_BEGUN, /* of these, gradients to which no later stage has added                      */
    CROSSING_LISTS
};
struct crossing {
    uint32_t *tensor[CROSSING_LISTS]; /* ascending */
    uint32_t count[CROSSING_LISTS];
    bool counts_keys;   /* a node asks how many keys an example has in a field */
    bool reads_weights; /* a node reads the weights of examples */
    bool reads_keys;    /* a node reads keys; and, of each example, numbers [log_q_begin, log_q_end) */
    uint32_t log_q_begin, log_q_end;
};

/* The crossing of the layers [first_layer, last_layer]. A start-up call: takes scratch memory;
 * crossing_free gives it back. MEMORY. */
MUST_USE status crossing_find(struct crossing *crossing, const struct graph *g, uint32_t first_layer,
                              uint32_t last_layer);
void crossing_free(struct crossing *crossing);

#endif
