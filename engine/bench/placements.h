/* plan --trees: placement policies for the nodes of a graph's trees on a cluster's processor and card. The processor is
 * measured here, one core, and so many cores take what HeterPS's formulas 1 and 2 make of it, with the type's
 * batch_overhead for being several; the card takes what its declared rates say (sched/trees/place_cells.h). */
#ifndef HETERPS_ENGINE_BENCH_PLACEMENTS_H
#define HETERPS_ENGINE_BENCH_PLACEMENTS_H

#include "sched/trees/trees_report.h"
#include "graph/graph.h"
#include "sched/cluster.h"

struct placements_options {
    const struct graph *graph;
    const char *graph_path;
    const struct cluster *cluster;
    const char *isa;
    uint32_t trees;
    uint64_t seed;
    uint32_t seeds;
    double effort; /* of learning and of episodes; 1: as published and as sched/README.md's figures are */
    bool has_grid;
    bool is_dqn_left_out;
};
/* INVALID: the graph has no trees of two children a node, the cluster no processor or no card with rates; STOPPED. The
 * report borrows names from graph and cluster. */
MUST_USE status placements_compare(struct trees_report *report, const struct placements_options *o);

#endif
