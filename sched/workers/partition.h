/* Layers over the cards of a virtual worker: an exact optimum. Source: HetPipe (Park et al., USENIX
 * ATC 2020), section 4 and 7, which solves it as an integer programme; here by dynamic programming
 * over layers and sets of cards.
 *
 *     stage 0            stage 1                 stage k - 1         each card has one stage, of at least one layer;
 *     layers 0 … a       a + 1 … b        …      … L - 1             in which order the cards come is found, too
 *
 * A stage's time is that of its layers, forward and backward, and of receiving activations from the stage
 * before and gradients from the stage behind. The plan makes the greatest of these times least; among
 * such plans it spends least time on receiving. Every stage fits its card (workers_memory_of); stages
 * hold fewer and fewer minibatches. */
#ifndef HETERPS_SCHED_WORKERS_PARTITION_H
#define HETERPS_SCHED_WORKERS_PARTITION_H

#include "sched/workers/workers_model.h"

/* A virtual worker: a number of cards of each node. */
struct worker_cards {
    uint32_t of_node[WORKERS_NODES_MAX];
};

struct partition_stage {
    uint32_t first, end;                               /* layers        */
    uint32_t node;                                     /* of its card   */
    uint32_t held;                                     /* minibatches   */
    double compute, receive_forward, receive_backward; /* seconds of a minibatch */
};
struct partition {
    struct partition_stage stages[WORKERS_CARDS_MAX];
    uint32_t stage_count;
    double seconds;     /* of the slowest stage          */
    double cross_bytes; /* between nodes, a minibatch, there and back */
};

uint32_t worker_card_count(const struct worker_cards *cards);
/* "2 V + 2 Q", into buffer. */
char *worker_cards_text(const struct worker_cards *cards, const struct workers_cluster *cluster, char *buffer,
                        size_t bytes);

/* The partition for in_flight (Nm) minibatches, where `sharers` workers share the way between nodes. 1 to
 * WORKERS_CARDS_MAX cards. *is_found is false, and the partition empty, if no partition fits. MEMORY. */
MUST_USE status partition_find(struct partition *p, const struct workers_model *model,
                               const struct workers_cluster *cluster, const struct worker_cards *cards,
                               uint32_t in_flight, uint32_t sharers, bool *is_found);
/* Sets held, times and sums of given stages (first, end, node), as partition_find does. */
void partition_tell(struct partition *p, const struct workers_model *model, const struct workers_cluster *cluster,
                    uint32_t in_flight, uint32_t sharers);

#endif
