/* Where the stages of a plan lie, on the nodes that are there. Node n of the plan is the job's node n. The
 * nodes of a stage share its lanes evenly. Lanes of a lost node go to the stage's other nodes; if none of
 * these is there, to the next node below that is. Every node works this out. */
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
/* INVALID: the plan is for another number of nodes; a stage has fewer lanes than nodes; layers that share a
 * table or parameters are on other nodes; losses and heads are not where the last stage is, or this is on
 * several nodes; a table on several nodes is not on those of all others; too many stages on several nodes.
 * MEMORY. */
MUST_USE status stages_place(struct exchange_stages *stages, const struct stages_options *options);
/* Whether each stage lies on all nodes that are there: then nodes share the lanes of all. */
bool stages_are_even(const struct stages_options *options);
void stages_free(struct exchange_stages *stages);
/* A line of facts, malloc'd: layers, replicas and nodes, "0..1 as 2 on 0+1, 2..5 as 1 on 1". MEMORY. */
MUST_USE status stages_text(const struct plan *plan, char **text);

#endif
