/* A page about a plan, for `plan --html`: one file that needs no other and no network. It shows plan,
 * stages, pipeline over time, cost against throughput, methods side by side, learning curves and units;
 * drawings are inline SVG, light or dark like the reader's system. Anybody may have given the names in an
 * instance, so they are escaped. */
#ifndef HETERPS_SCHED_PLAN_PAGE_H
#define HETERPS_SCHED_PLAN_PAGE_H

#include "sched/solution.h"

/* Writes the page whole or not at all. `solutions`, at least one, are of one instance; the first is the
 * chosen plan, with which the others are compared. `path` "-" is standard output. Borrows all. MEMORY, IO. */
MUST_USE status page_write(const char *path, const struct solution *solutions, uint32_t count);

#endif
