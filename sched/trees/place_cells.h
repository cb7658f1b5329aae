/* The times of nodes of a graph's trees on devices: work counted for each cell, divided
 * by declared rates (cluster.h).
 *
 *     n nodes of a kind together   overhead + max(n flops / rate, (weights + n moved) / memory bandwidth)
 *     a message                    latency + bytes / link bandwidth
 *
 * weights are read once a launch; moved are the bytes that products and steps read and write. */
#ifndef HETERPS_SCHED_TREES_PLACE_CELLS_H
#define HETERPS_SCHED_TREES_PLACE_CELLS_H

#include "graph/graph.h"
#include "sched/cluster.h"
#include "sched/trees/tree_place.h"

/* Work of a node; weight_bytes are of a launch. */
struct place_work {
    double flops, moved_bytes, weight_bytes;
};

struct place_cells {
    uint32_t kind_count; /* of nodes, outputs not counted */
    uint32_t units;
    uint32_t children_min[PLACE_KINDS_MAX]; /* children that a node must have              */
    uint32_t children[PLACE_KINDS_MAX];     /* that it has here: 2, or the number nearest to 2 that its cell allows */
    struct place_work work[PLACE_KINDS_MAX];
    double value_bytes; /* of a node's value, which its parent reads */
    double word_bytes[PLACE_KINDS_MAX];
    double root_bytes;
};

/* The forward pass of a graph's first tree op; units: of each state, 0: as the graph has it. With `classes`
 * every node has an output of kind kind_count, a product of [units, classes]. Sets *tree to the op's node.
 * INVALID: the graph has no [tree], or more kinds than can be placed; path: for messages. */
MUST_USE status place_cells_of_graph(struct place_cells *cells, uint32_t *tree, const struct graph *graph,
                                     const char *path, uint32_t units, uint32_t classes);
/* Sets seconds[PLACE_SIZES] of the nodes, or outputs, of a kind. */
void place_seconds_declare(double *seconds, const struct place_work *work, const struct cluster_rates *rates);
/* Sets the bytes that travel, and the links: device 0 is the host, to which every other device has a link of
 * its rates [device_count]; a message between two others takes the time of both links. */
void place_links_declare(struct place_machine *m, const struct place_cells *cells, bool has_outputs,
                         const struct cluster_rates *const *rates);

#endif
