/* What nodes of a graph's trees take on devices: counted for each cell, and times by declared rates (cluster.h).
 *
 *     n nodes of a kind together   overhead + max(n flops / rate, (weights + n moved) / memory bandwidth)
 *     a message                    latency + bytes / link bandwidth
 *
 * weights are read once a launch, and moved are the numbers that products and steps read and write. */
#ifndef HETERPS_SCHED_TREES_PLACE_CELLS_H
#define HETERPS_SCHED_TREES_PLACE_CELLS_H

#include "graph/graph.h"
#include "sched/cluster.h"
#include "sched/trees/tree_place.h"

/* Of a node, but for weight_bytes, of a launch. */
struct place_work {
    double flops, moved_bytes, weight_bytes;
};

struct place_cells {
    uint32_t kind_count; /* of nodes, outputs not counted */
    uint32_t units;
    uint32_t children_min[PLACE_KINDS_MAX]; /* children that a node needs                  */
    uint32_t children[PLACE_KINDS_MAX];     /* that it has: 2, or as many as its cell allows */
    struct place_work work[PLACE_KINDS_MAX];
    double value_bytes; /* what a parent sees of a node        */
    double word_bytes[PLACE_KINDS_MAX];
    double root_bytes;
};

/* The forward pass of a graph's tree op, its first one; units: of each state, 0: as the graph has it. With `classes`
 * every node has an output, of the kind kind_count, a product of [units, classes]. Returns the node in *tree. INVALID:
 * the graph has no [tree], or it has more kinds than can be placed; path: for messages. */
MUST_USE status place_cells_of_graph(struct place_cells *cells, uint32_t *tree, const struct graph *graph,
                                     const char *path, uint32_t units, uint32_t classes);
/* Of one node, or output, of a kind: seconds[PLACE_SIZES]. */
void place_seconds_declare(double *seconds, const struct place_work *work, const struct cluster_rates *rates);
/* Sets what travels, and the links: device 0 is a host, the others hang on it by links of these rates [device_count];
 * between two of them a message takes both links' time. */
void place_links_declare(struct place_machine *m, const struct place_cells *cells, bool has_outputs,
                         const struct cluster_rates *const *rates);

#endif
