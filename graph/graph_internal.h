/* Shared by graph_file.c, graph_check.c and the compiler. */
#ifndef HETERPS_GRAPH_GRAPH_INTERNAL_H
#define HETERPS_GRAPH_GRAPH_INTERNAL_H

#include "graph/graph.h"

/* Validates an image as graph_open promises, and points the graph into it; on failure *graph is empty. Keeps
 * `image` (8-byte aligned) and owns nothing: the caller sets graph->owned. `path` is for messages. */
MUST_USE status graph_bind(struct graph *graph, const char *path, const uint8_t *image, size_t bytes);

/* Hash of the names of ops, optimizers and schedules in the order in which files number them. A file with
 * another numbering would be read as another model. */
uint64_t graph_numbering(void);

/* Updates of parameters at most: of trained parameters and of runs of statistics.
 * Updates of tables do not count. */
#define PARAM_UPDATES_MAX 1024u
#define MICRO_MAX         (1u << 20) /* examples; as in cfg/keys.def */

/* The floats that a parameter takes: its own, rounded up to a multiple of 16. */
static inline uint64_t graph_param_floats(const struct graph_tensor *t)
{
    return ((uint64_t)t->rows * t->cols + 15) & ~(uint64_t)15;
}

/* The second half of graph_bind: the sections lie in the image and the pointers are
 * set; checks every record. */
MUST_USE status graph_check(const struct graph *graph, const char *path, const uint8_t *image);

#endif
