/* How fast this machine trains a graph, as one number, for sharing work among unequal machines. */
#ifndef HETERPS_ENGINE_PROFILE_PROFILE_SPEED_H
#define HETERPS_ENGINE_PROFILE_PROFILE_SPEED_H

#include "engine/base/cores.h"
#include "graph/graph.h"

struct profile_speed_options {
    const struct graph *graph;
    const char *graph_path; /* its data.path is relative to it                                              */
    const char *data, *isa; /* as in struct profile_options                                                 */
    const char *store_path; /* replaces the graph's                                                         */
    const struct cores *cores;
    uint32_t threads; /* in one gang                                                                 */
    double seconds;   /* of measuring, about                                                         */
};
/* Runs forward and backward passes of micro-batches over the data; *speed:
 * examples a second. Fails as profile_run. */
MUST_USE status profile_speed(const struct profile_speed_options *options, double *speed);

#endif
