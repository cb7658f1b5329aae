/* A page about a plan, for `plan --html`: one file that needs no other and no network. Plan, stages, pipeline over
 * time, cost against throughput, methods side by side, learning curves, units; drawings are inline SVG, light or
 * dark as the reader's system is. Names in an instance are anybody's, and are escaped. */
#ifndef HETERPS_SCHED_PLAN_PAGE_H
#define HETERPS_SCHED_PLAN_PAGE_H

#include "sched/solution.h"

/* Writes the page whole or not at all. `solutions`, at least one, are of one instance; the first is the chosen
 * plan, the others are compared with it. `path` "-" is standard output. Borrows all. MEMORY, IO. */
MUST_USE status page_write(const char *path, const struct solution *solutions, uint32_t count);

#endif
