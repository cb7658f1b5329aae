/* heterps-run plan --workers: virtual workers for a model and a cluster of several nodes, proposed and explained. */
#ifndef HETERPS_ENGINE_CMD_WORKERS_H
#define HETERPS_ENGINE_CMD_WORKERS_H

#include "engine/plan/planner.h"

struct workers_asked {
    const char *allocation;       /* of allocate.def, or "auto": NULL: no workers are asked for */
    const char *placement;        /* NULL: the better                                            */
    uint32_t distance, in_flight; /* in_flight 0: chosen                                         */
};

/* Tries what is asked, and prints the proposal with the greatest rate. USAGE: a name that there is not; INFEASIBLE:
 * nothing fits, with the first reason; as planner_open and net_make. */
MUST_USE status workers_plan(const struct planner_source *source, const struct workers_asked *asked);

#endif
