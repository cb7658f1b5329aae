/* Where the stages of a plan lie, on the nodes that are there. Node n of the plan is the job's node n; stages
 * of a lost node go to the next node below it that is there. Every node works this out. */
#ifndef HETERPS_ENGINE_NODE_STAGES_H
#define HETERPS_ENGINE_NODE_STAGES_H

#include "engine/sync/exchange.h"
#include "sched/plan.h"

struct stages_options {
    const struct graph *graph;
    const struct plan *plan; /* with nodes */
    uint32_t node_count;     /* that are there, of … */
    uint32_t job_nodes;
    const uint32_t *rank_of; /* [node_count] */
};
/* INVALID: the plan is for another number of nodes; layers that share a table or parameters are on two;
 * losses and heads are not on the node of the last stage. MEMORY. */
MUST_USE status stages_place(struct exchange_stages *stages, const struct stages_options *options);
void stages_free(struct exchange_stages *stages);
/* A line of facts, malloc'd: layers, replicas and nodes, "0..1 as 2 on 0, 2..5 as 1 on 1". MEMORY. */
MUST_USE status stages_text(const struct plan *plan, char **text);

#endif
