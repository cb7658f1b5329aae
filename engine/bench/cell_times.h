/* Measures the time of the nodes of a graph's trees on this processor: the tree op itself runs over small
 * trees made for it, with as many nodes of a kind together as a batch has. */
#ifndef HETERPS_ENGINE_BENCH_CELL_TIMES_H
#define HETERPS_ENGINE_BENCH_CELL_TIMES_H

#include "graph/graph.h"
#include "sched/trees/place_cells.h"

struct cell_times_options {
    const struct graph *graph;
    uint32_t tree; /* forward node that place_cells_of_graph found */
    const struct place_cells *cells;
    uint32_t threads;
    const char *isa; /* as in cpu_device_open */
    double seconds;  /* bound of measuring, about; every kind is measured at least with one node */
};
/* seconds[kind] of the forward pass: medians, never falling; sizes without time or memory are extended from
 * smaller ones. With one thread its processor time counts, else the clock on the wall. INVALID: no kind of
 * node can be a leaf; also fails as opening a device. */
MUST_USE status cell_times_measure(double seconds[PLACE_KINDS_MAX][PLACE_SIZES],
                                   const struct cell_times_options *options);

#endif
