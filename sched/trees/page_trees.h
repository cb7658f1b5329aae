/* The page of plan --trees: figures 7 to 12 and 14 of DynPartition as far as they show times, and the grid.
 * It looks like the page of sched/plan_page.h. */
#ifndef HETERPS_SCHED_TREES_PAGE_TREES_H
#define HETERPS_SCHED_TREES_PAGE_TREES_H

#include "sched/trees/trees_report.h"

/* Writes the page whole or not at all; "-" is standard output. MEMORY, IO. */
MUST_USE status page_trees_write(const char *path, const struct trees_report *report);

#endif
