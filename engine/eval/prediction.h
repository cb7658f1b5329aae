/* A model's prediction for an example as a line of text, for files (`predict`) and answers (`serve`):
 * a column for each loss, in the order of the model, with tabs between columns, and with spaces
 * between the numbers of one loss. */
#ifndef HETERPS_ENGINE_EVAL_PREDICTION_H
#define HETERPS_ENGINE_EVAL_PREDICTION_H

#include "engine/slot/slot.h"

struct prediction {
    const struct graph *graph;
    double *values;        /* of one loss for an example           */
    size_t line_bytes_max; /* of a line with its end, and a 0 after it */
};

/* Keeps the graph. MEMORY: then there is nothing to close. */
MUST_USE status prediction_open(struct prediction *prediction, const struct graph *graph);
/* Zeroed memory may be closed. */
void prediction_close(struct prediction *prediction);
/* Writes the line of example b of a slot whose forward pass is done, without its end; a malformed example has
 * "nan" in every column. `to` has room for line_bytes_max; returns the line's bytes. One caller at a time. */
size_t prediction_write(const struct prediction *prediction, const struct slot *slot, uint32_t b, char *to);

/* Whether the model's only loss is at every node of a tree (softmax_nodes): then each node has a line. */
bool prediction_is_of_nodes(const struct graph *graph);
/* For such a model: the count of nodes of example b of a slot; 1 if the example is malformed. */
uint32_t prediction_node_count(const struct prediction *prediction, const struct slot *slot, uint32_t b);
/* For such a model, as prediction_write: the line of the node at `place`, 0 … count - 1, from the root back
 * to the node that ends first in the text. */
size_t prediction_node_write(const struct prediction *prediction, const struct slot *slot, uint32_t b, uint32_t place,
                             char *to);

/* Whether the model's only loss is over candidates: engine/eval/rank.h then writes the lines,
 * the best words of a vocabulary. */
bool prediction_is_words(const struct graph *graph);

#endif
