/* What graph_file.c, graph_check.c and the compiler share. */
#ifndef HETERPS_GRAPH_GRAPH_INTERNAL_H
#define HETERPS_GRAPH_GRAPH_INTERNAL_H

#include "graph/graph.h"

/* Validates an image as graph_open promises and points the graph into it; on failure *graph is empty. Keeps `image`
 * (8-byte aligned) and takes nothing: graph->owned is the caller's to set. `path` is for messages. */
MUST_USE status graph_bind(struct graph *graph, const char *path, const uint8_t *image, size_t bytes);

/* Updates of parameters; those of tables are counted apart. */
#define PARAM_UPDATES_MAX 1

/* The second half of graph_bind: the sections lie in the image and the pointers are set; every record is checked. */
MUST_USE status graph_check(const struct graph *graph, const char *path, const uint8_t *image);

#endif
