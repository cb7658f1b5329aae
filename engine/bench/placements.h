/* plan --trees: placement policies for the nodes of a graph's trees on a cluster's processor and card. One
 * core of the processor is measured here; times on several cores follow by HeterPS's formulas 1 and 2, with
 * the type's batch_overhead. The card's times follow from its declared rates (sched/trees/place_cells.h). */
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
    double effort; /* of learning and of episodes; 1: as published, and as in sched/README.md */
    bool has_grid;
    bool is_dqn_left_out;
};
/* INVALID: the graph has no trees of two children a node, the cluster no processor or no card with rates;
 * STOPPED. The report borrows names from graph and cluster. */
MUST_USE status placements_compare(struct trees_report *report, const struct placements_options *o);

#endif
