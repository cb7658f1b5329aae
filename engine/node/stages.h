/* Where the stages of a plan lie, on the nodes that are there. Node n of the plan is the job's node n. The
 * nodes of a stage share its lanes evenly. Lanes of a lost node go to the stage's other nodes; if none of
 * these is there, to the next node below that is. Every node works this out.
 *
 * Under wsp the nodes of a stage are of different workers: worker w is the w-th node of each stage, so all
 * stages are on as many nodes. The stages of a lost node go to the next node below of the same worker, or to
 * its first. A worker of which no node is there is lost.
 *
 *     stage 0 on 0, 2; stage 1 on 1, 3     worker 0: node 0 ══ node 1     worker 1: node 2 ══ node 3 */
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
    uint32_t index;          /* of this node among those that are there */
    bool has_waves;          /* wsp */
};
/* INVALID: the plan is for another number of nodes; a stage has fewer lanes than nodes; layers that share a
 * table or parameters are on other nodes; losses and heads are not on the nodes of the last stage; a table on
 * several nodes is not on those of all others; too many stages on several nodes. Under wsp: stages are on
 * different numbers of nodes; a node is of two workers; node 0 has not the last stage of its worker.
 * MEMORY. */
MUST_USE status stages_place(struct exchange_stages *stages, const struct stages_options *options);
/* Whether each stage lies on all nodes that are there: then nodes share the lanes of all. */
bool stages_are_even(const struct stages_options *options);
void stages_free(struct exchange_stages *stages);
/* A line of facts, malloc'd: layers, replicas and nodes, "0..1 as 2 on 0+1, 2..5 as 1 on 1". MEMORY. */
MUST_USE status stages_text(const struct plan *plan, char **text);

#endif
