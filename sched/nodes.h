/* Types of resources that lie on nodes of their own, as HeterPS's cluster has them: CPUs here, cards there.
 * Neighbouring stages are of different types, so every cut between stages crosses the link between two nodes,
 * which takes
 *
 *     bytes across the cut / network_bandwidth + 2 link_latency a micro-batch
 *
 * there and back (HeterPS, section 4.1: ODT), beside what the stage's type takes to move them to and from its memory.
 * The link is no unit of a stage's: that part divides among none. It is in the instance's times, so every method, the
 * exact one too, has it. */
#ifndef HETERPS_SCHED_NODES_H
#define HETERPS_SCHED_NODES_H

#include "sched/cluster.h"
#include "sched/cost.h"

/* Adds the link to an instance of the cluster's types, where these lie on nodes; micro: examples of a message.
 * INVALID: some types have a node and others have none; two have the same; they do not have one network_bandwidth and
 * link_latency, for what a cut costs would depend on which two it lies between; a cut's bytes are not known. */
MUST_USE status nodes_apply(struct instance *instance, const struct cluster *cluster, double micro);
/* On which node of the plan a stage of that type lies: of the nodes of its types, in their order. False: the plan says
 * nothing of nodes, for its types have none, or all lie on one. */
bool nodes_of_plan(const struct instance *instance, const struct cost_stage *stages, uint32_t stage_count,
                   uint32_t type, uint32_t *node);

#endif
