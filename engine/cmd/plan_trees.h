/* heterps-run plan --trees: on which devices the nodes of trees go (engine/bench/placements.h). */
#ifndef HETERPS_ENGINE_CMD_PLAN_TREES_H
#define HETERPS_ENGINE_CMD_PLAN_TREES_H

#include "engine/plan/planner.h"

struct plan_trees_flags {
    const struct planner_source *source;
    const char *html; /* NULL: no page */
    uint32_t trees;
    bool has_grid;
    uint64_t seed, evaluations; /* evaluations 0: as many as for sched/README.md's figures */
};
MUST_USE status plan_trees_run(const struct plan_trees_flags *flags);

#endif
