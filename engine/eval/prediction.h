/* What a model says of an example, as a line of text: a column for each loss, in the order of the model, with tabs
 * between them; of a loss that predicts several numbers these, with spaces. Whoever predicts writes it: files
 * (`predict`), answers (`serve`). */
#ifndef HETERPS_ENGINE_EVAL_PREDICTION_H
#define HETERPS_ENGINE_EVAL_PREDICTION_H

#include "engine/slot/slot.h"

struct prediction {
    const struct graph *graph;
    double *values;        /* of a loss and an example             */
    size_t line_bytes_max; /* of a line with its end, and a 0 behind */
};

/* Keeps the graph. MEMORY: then there is nothing to close. */
MUST_USE status prediction_open(struct prediction *prediction, const struct graph *graph);
/* Zeroed memory may be closed. */
void prediction_close(struct prediction *prediction);
/* The line of example b of a slot whose forward pass is done, without its end: "nan" in every column of a malformed
 * one. `to` has room for line_bytes_max; returns the line's bytes. One caller at a time. */
size_t prediction_write(const struct prediction *prediction, const struct slot *slot, uint32_t b, char *to);

/* The model's only loss is at every node of a tree (softmax_nodes): each has a line, too. */
bool prediction_is_of_nodes(const struct graph *graph);
/* Of such a model: nodes of example b of a slot; 1 of a malformed one. */
uint32_t prediction_node_count(const struct prediction *prediction, const struct slot *slot, uint32_t b);
/* Of such a model, as prediction_write: what it says of the node at `place`, 0 … count - 1: the root, and back to
 * the first that ends in the text. */
size_t prediction_node_write(const struct prediction *prediction, const struct slot *slot, uint32_t b, uint32_t place,
                             char *to);

/* The model's only loss is over candidates: a line is the best words of a vocabulary then, and what
 * engine/eval/rank.h writes. */
bool prediction_is_words(const struct graph *graph);

#endif
