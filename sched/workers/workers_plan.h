/* A proposal of virtual workers as plan.json (sched/plan.h), which a run under train.sync = wsp takes: a
 * stage lies on a node for each worker, and worker w is the w-th node of each stage (engine/node/stages.h).
 *
 *     cards of the proposal       stage 0   stage 1   …   stage S - 1
 *     nodes, of W workers         from (S - 1) W on       0 … W - 1      cards of one stage follow one another */
#ifndef HETERPS_SCHED_WORKERS_WORKERS_PLAN_H
#define HETERPS_SCHED_WORKERS_WORKERS_PLAN_H

#include "sched/workers/propose.h"

struct workers_plan {
    const struct proposal *proposal;
    const struct workers_model *model;
    const struct workers_cluster *cluster;
    const struct cluster *text; /* of the cluster's types    */
    bool has_graph_hash;        /* where the model is a graph's */
    uint64_t graph_hash;
};

/* Writes the plan; "-" is standard output. INFEASIBLE, naming what to give instead: workers are cut at
 * different layers, parameters lie elsewhere than their stage, a type is a card, which takes no part in
 * waves, or there are more cards than a plan has nodes. MEMORY; IO. */
MUST_USE status workers_plan_write(const struct workers_plan *plan, const char *path);

#endif
