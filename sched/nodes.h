/* Types of resources that lie on nodes, as in HeterPS's cluster: CPUs here, cards there. Several types
 * may lie on one node, as its cores and its cards, and one type on several nodes, whose stages are
 * shared by these nodes, as RALP's workers share the front. A cut between stages of two nodes crosses
 * the link between them, there and back, and nodes that share a stage exchange over their links;
 * sched/cost.h says what this takes, and what all that takes one link takes together. A cut between
 * stages of one node crosses no link. Links are part of the instance, so every method reckons with them. */
#ifndef HETERPS_SCHED_NODES_H
#define HETERPS_SCHED_NODES_H

#include "sched/cluster.h"
#include "sched/cost.h"

/* What a step has. */
struct nodes_step {
    double message;  /* examples of a message: a micro-batch */
    double examples; /* of a step; 0: B_o                    */
    uint32_t lanes;  /* 0: not known                         */
};
/* Puts an instance of the cluster's types on the cluster's nodes, if there are any. A link is that of
 * its [link A..B], else of [link]. In a text without both, bytes come at the network_bandwidth of the
 * node that receives them, and a message takes the longer link_latency of both. INVALID: some types have
 * a node and others none; a link's speed is not given; a cut's bytes are not known; a type is on more nodes
 * than there are lanes. Cards on several nodes are limited to a node's lanes. */
MUST_USE status nodes_apply(struct instance *instance, const struct cluster *cluster, const struct nodes_step *step);
/* The checks of nodes_apply that need no instance. */
MUST_USE status nodes_check(const struct cluster *cluster, const struct nodes_step *step);
/* The nodes of the plan that a stage of the type lies on. The nodes that the plan uses are numbered in
 * their order, but without steps (wsp) from the last stage's on. 0: the plan says nothing of nodes, as
 * its types have none, or all lie on one. */
uint64_t nodes_of_plan(const struct instance *instance, const struct cost_stage *stages, uint32_t stage_count,
                       uint32_t type);
/* Why a run refuses a plan: "tables would lie on several nodes, …". */
const char *nodes_misplaced_text(enum cost_misplaced misplaced);

/* A part of a plan's cut on the link that it crosses; or the exchange of a stage's nodes, on its slowest
 * link. */
struct nodes_cut {
    uint32_t stage;    /* it is after this stage, or of it                       */
    uint32_t from, to; /* nodes of the instance                                  */
    bool is_exchange;
    double bytes;       /* an example, there and back                             */
    double seconds;     /* an example, on the link alone                          */
    uint32_t cut_count; /* cuts and exchanges of the plan on this link, with this one */
};
#define NODES_CUTS_MAX 2048u
/* What crosses links, in the order of the stages; returns how many, at most NODES_CUTS_MAX: the rest is
 * left out. */
uint32_t nodes_cuts(const struct cost_model *model, const struct cost_stage *stages, uint32_t stage_count,
                    struct nodes_cut cuts[NODES_CUTS_MAX]);
/* "e..pool to fc0 from node a to b: 1.2 KiB an example, 3.1 us at 1 GB/s there and 800 MB/s back", into
 * buffer; too long a text is cut. */
char *nodes_cut_text(const struct instance *instance, const struct cost_stage *stages, const struct nodes_cut *cut,
                     char *buffer, size_t bytes);

#endif
