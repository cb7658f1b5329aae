/* When a slot's tensors are in use, and which of them lie within others. Time is the index of a node in the
 * order of execution, forward nodes first. Two activations may share bytes only if their lives do not
 * overlap. The compiler places activations by this (compile_memory.c), and every graph that is opened is
 * checked by it (graph_check.c). */
#ifndef HETERPS_GRAPH_LIFE_H
#define HETERPS_GRAPH_LIFE_H

#include "graph/graph.h"

struct life {
    uint32_t begin, end; /* both included; GRAPH_NONE: no node uses the tensor */
};

/* Fills lives[tensor_count] from the places of forward nodes and their backward nodes. The graph's indices
 * must hold; of its tensors only `grad` is read, of its header nothing. */
void lives_measure(const struct graph *g, struct life *lives);

/* An input of a concat may lie within the output, from column `col` on, so that nothing is copied.
 * Its gradient may lie within the output's gradient, if nothing else adds to it. A concat's output
 * may be a part of the next one's. */
struct life_part {
    uint32_t whole; /* tensor within which it lies; GRAPH_NONE: it lies by itself                   */
    uint32_t col;   /* a whole number of cache lines                                               */
};
/* Fills parts[tensor_count] with all possible parts, from nodes and shapes alone.
 * The graph's indices must hold. */
void parts_find(const struct graph *g, struct life_part *parts);
/* Extends the lives of wholes by those of their parts. */
void lives_join(const struct graph *g, const struct life_part *parts, struct life *lives);

/* Looks for an activation that lies on bytes that another one uses during its life, and that is no part of
 * it. Fills *tensor and *life; GRAPH_NONE: there is none. The graph's indices must hold, and its offsets must
 * not overflow. MEMORY. Cost O(n log n). */
MUST_USE status life_collision_find(const struct graph *g, uint32_t *tensor, struct life *life);

#endif
