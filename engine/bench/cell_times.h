/* What the nodes of a graph's trees take on the processor, measured here: the tree op itself runs over small trees
 * that are made for it, so many nodes of a kind together as a batch has. */
#ifndef HETERPS_ENGINE_BENCH_CELL_TIMES_H
#define HETERPS_ENGINE_BENCH_CELL_TIMES_H

#include "graph/graph.h"
#include "sched/trees/place_cells.h"

struct cell_times_options {
    const struct graph *graph;
    uint32_t tree; /* forward node: place_cells_of_graph's */
    const struct place_cells *cells;
    uint32_t threads;
    const char *isa; /* as cpu_device_open's */
    double seconds;  /* bound of measuring, about; every kind is measured with one node at least */
};
/* seconds[kind] of the forward pass: medians, never falling; sizes without time or memory for them follow from those
 * before. With one thread the processor's time of that thread counts, else the clock on the wall. INVALID: no kind
 * of node can be a leaf; else as opening a device fails. */
MUST_USE status cell_times_measure(double seconds[PLACE_KINDS_MAX][PLACE_SIZES],
                                   const struct cell_times_options *options);

#endif
