/* heterps-run plan --workers: proposes and explains virtual workers for a model
 * and a cluster of several nodes. */
#ifndef HETERPS_ENGINE_CMD_WORKERS_H
#define HETERPS_ENGINE_CMD_WORKERS_H

#include "engine/plan/planner.h"

struct workers_asked {
    const char *allocation;       /* of allocate.def, or "auto"; NULL: no workers wanted */
    const char *placement;        /* NULL: the better one */
    uint32_t distance, in_flight; /* in_flight 0: chosen here */
    const char *out;              /* NULL: no plan is written; "-": to standard output, and nothing else */
};

/* Tries what is asked for, and prints the proposal with the greatest rate, or writes it as a plan. USAGE:
 * an unknown name; INFEASIBLE: nothing fits (the message has the first reason); also fails as planner_open,
 * net_make and workers_plan_write do. */
MUST_USE status workers_plan(const struct planner_source *source, const struct workers_asked *asked);

#endif
