/* Types of resources that lie on nodes, as in HeterPS's cluster: CPUs here, cards there. Several
 * types may lie on one node, as its cores and its cards. A cut between stages of two nodes crosses
 * the link between them, there and back; sched/cost.h says what a cut takes, and what cuts of one
 * link take together. A cut between stages of one node crosses no link. Links are part of the
 * instance, so every method reckons with them. */
#ifndef HETERPS_SCHED_NODES_H
#define HETERPS_SCHED_NODES_H

#include "sched/cluster.h"
#include "sched/cost.h"

/* Puts an instance of the cluster's types on the cluster's nodes, if there are any; message: examples
 * of a message, a micro-batch. A link is that of its [link A..B], else of [link]. In a text without
 * both, bytes come at the network_bandwidth of the node that receives them, and a message takes the
 * longer link_latency of both. INVALID: some types have a node and others none; a link's speed is not
 * given; a cut's bytes are not known. */
MUST_USE status nodes_apply(struct instance *instance, const struct cluster *cluster, double message);
/* The node of the plan that a stage of the type lies on; the nodes that the plan uses are numbered in their
 * order. False: the plan says nothing of nodes, as its types have none, or all lie on one. */
bool nodes_of_plan(const struct instance *instance, const struct cost_stage *stages, uint32_t stage_count,
                   uint32_t type, uint32_t *node);

/* A cut of a plan on the link that it crosses. */
struct nodes_cut {
    uint32_t stage;     /* it is after this stage                                 */
    uint32_t from, to;  /* nodes of the instance                                  */
    double bytes;       /* an example, there and back                             */
    double seconds;     /* an example, on the link alone                          */
    uint32_t cut_count; /* cuts of the plan on this link, with this one           */
};
/* The cuts that cross links, in the order of the stages; returns how many, at most stage_count - 1. */
uint32_t nodes_cuts(const struct cost_model *model, const struct cost_stage *stages, uint32_t stage_count,
                    struct nodes_cut *cuts);
/* "e..pool to fc0 from node a to b: 1.2 KiB an example, 3.1 us at 1 GB/s there and 800 MB/s back", into
 * buffer; too long a text is cut. */
char *nodes_cut_text(const struct instance *instance, const struct cost_stage *stages, const struct nodes_cut *cut,
                     char *buffer, size_t bytes);

#endif
