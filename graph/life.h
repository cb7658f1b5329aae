/* When a slot's tensors are in use, and which lie within others. Time is the index of a node in the order of
 * execution, forward nodes first; two activations may share bytes only if their lives do not meet. The compiler
 * places by it (compile_memory.c), and every graph that is opened is held to it (graph_check.c). */
#ifndef HETERPS_GRAPH_LIFE_H
#define HETERPS_GRAPH_LIFE_H

#include "graph/graph.h"

struct life {
    uint32_t begin, end; /* both included; GRAPH_NONE: no node uses the tensor */
};

/* Fills lives[tensor_count] from forward nodes and their backward nodes' places, of a graph whose indices hold: of its
 * tensors it reads `grad` only, of its header nothing. */
void lives_measure(const struct graph *g, struct life *lives);

/* An input of a concat may lie within the output, from column `col` on, so that nothing is copied; and its
 * gradient within the output's, if nobody else adds to it. A concat's output may be a part of the next one's. */
struct part {
    uint32_t whole; /* tensor, or GRAPH_NONE: lies by itself                                        */
    uint32_t col;   /* a whole number of cache lines                                               */
};
/* Fills parts[tensor_count] with what can be, by nodes and shapes alone. For a graph whose indices hold. */
void parts_find(const struct graph *g, struct part *parts);
/* Extends the lives of wholes by those of their parts. */
void lives_join(const struct graph *g, const struct part *parts, struct life *lives);

/* Looks for an activation that lies on bytes which another uses during its life, and is no part of it: *tensor,
 * and *life; GRAPH_NONE if there is none. For a graph whose indices hold and whose offsets do not overflow.
 * MEMORY. Cost O(n log n). */
MUST_USE status life_collision_find(const struct graph *g, uint32_t *tensor, struct life *life);

#endif
