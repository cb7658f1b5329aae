/* Types of resources that lie on nodes, as HeterPS's cluster has them: CPUs here, cards there; several types may be on
 * one, as a node's cores and cards are. A cut between stages of two nodes crosses the link between them, in each of the
 * two directions; what it takes, and what cuts of one link come to, is in sched/cost.h. A cut between stages of one
 * node crosses none. Links are part of the instance, so every method, the exact one too, has them. */
#ifndef HETERPS_SCHED_NODES_H
#define HETERPS_SCHED_NODES_H

#include "sched/cluster.h"
#include "sched/cost.h"

/* Puts an instance of the cluster's types on the cluster's nodes, where it has any; message: examples of a message, a
 * micro-batch. A link is that of its [link A..B], else of [link]; in a text that has neither, bytes come at the
 * network_bandwidth of the node that receives them, and a message takes the longer link_latency of both.
 * INVALID: some types have a node and others have none; nothing says how fast a link is; a cut's bytes are not
 * known. */
MUST_USE status nodes_apply(struct instance *instance, const struct cluster *cluster, double message);
/* On which node of the plan a stage of that type lies: of the nodes of its types, in their order. False: the plan says
 * nothing of nodes, for its types have none, or all lie on one. */
bool nodes_of_plan(const struct instance *instance, const struct cost_stage *stages, uint32_t stage_count,
                   uint32_t type, uint32_t *node);

/* A cut of a plan on the link that it crosses. */
struct nodes_cut {
    uint32_t stage;     /* it is behind this one                                  */
    uint32_t from, to;  /* nodes of the instance                                  */
    double bytes;       /* an example, there and back                             */
    double seconds;     /* an example, on the link alone                          */
    uint32_t cut_count; /* cuts of the plan on this link, this one too            */
};
/* The cuts that cross links, in the order of the stages; returns how many, at most stage_count - 1. */
uint32_t nodes_cuts(const struct cost_model *model, const struct cost_stage *stages, uint32_t stage_count,
                    struct nodes_cut *cuts);
/* "e..pool to fc0 from node a to b: 1.2 KiB an example, 3.1 us at 1 GB/s there and 800 MB/s back", into buffer, cut
 * where it is too short. */
char *nodes_cut_text(const struct instance *instance, const struct cost_stage *stages, const struct nodes_cut *cut,
                     char *buffer, size_t bytes);

#endif
