/* heterps-run plan --trees: where the nodes of trees go (engine/bench/placements.h). */
#ifndef HETERPS_ENGINE_CMD_PLAN_TREES_H
#define HETERPS_ENGINE_CMD_PLAN_TREES_H

#include "engine/plan/planner.h"

struct plan_trees_flags {
    const struct planner_source *source;
    const char *html; /* NULL: no page */
    uint32_t trees;
    bool has_grid;
    uint64_t seed, evaluations; /* 0: as many as sched/README.md's figures have */
};
MUST_USE status plan_trees_run(const struct plan_trees_flags *flags);

#endif
