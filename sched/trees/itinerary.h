/* An itinerary: the nodes of a micro-batch in the order in which they are computed, cut into batches. A
 * batch's nodes are of one kind and in ascending order, and every node comes in an earlier batch than its
 * parents. A policy decides which nodes come together (batching.def).
 *
 *     nodes        0 leaf   1 leaf   2 inner of 0, 1   3 leaf   4 inner of 2, 3
 *     order        0 1 3 | 2 | 4        batch_begin 0 3 4 5        batch_kind leaf inner inner
 *
 * Every micro-batch needs one, so nothing is allocated, and time is linear in nodes and children:
 * `heterps-run bench trees`, nanoseconds a node on an EPYC (Zen 5):
 *
 *                                                       node   height   agenda   learned
 *     25 binary trees of 5 to 34 words                   1.3       13       22        19
 *     25 trees of MathFunc, 40 to 64 nodes               1.0       11       22        31
 *     a graph of 1,000 nodes of three kinds              1.0       12       31        52
 */
#ifndef HETERPS_SCHED_TREES_ITINERARY_H
#define HETERPS_SCHED_TREES_ITINERARY_H

#include "engine/base/memory.h"
#include "engine/base/tree.h"
#include "graph/automaton.h"

typedef enum {
#define BATCHING(id, ...) BATCHING_ID_##id,
#include "sched/trees/batching.def"
#undef BATCHING
    BATCHING_ID_COUNT
} batching_id;

/* A policy. */
struct batching {
    batching_id id;
    struct automaton automaton; /* of learned; all zero: as agenda */
};

struct itinerary {
    uint32_t batch_count;
    uint32_t *order;       /* [nodes]                                  */
    uint32_t *batch_begin; /* [batch_count + 1]: first place in order  */
    uint8_t *batch_kind;   /* [batch_count]                            */
};

struct itinerary_scratch {
    uint32_t *height;                  /* [nodes]: 0 without children, else 1 more than the highest child */
    uint32_t *batch, *batch_of_agenda; /* [nodes]: the batch of a node                                    */
    uint32_t *next;                    /* [nodes]: another ready node of its kind                         */
    uint32_t *left;                    /* [nodes]: children that are not computed                         */
    uint32_t *edge;                    /* [nodes]: an edge to a parent, or NONE                           */
    uint32_t (*kinds)[KIND_WORDS];     /* [heights]: bits: kinds of the nodes of a height                 */
    uint32_t *edge_next, *edge_parent; /* [edges]: another edge of the same child; the parent             */
};

/* Room for at most node_max nodes with edge_max children in all. */
void itinerary_layout(struct itinerary *it, struct layout *l, size_t node_max);
void itinerary_scratch_layout(struct itinerary_scratch *s, struct layout *l, size_t node_max, size_t edge_max);

/* Makes the itinerary of nodes whose kinds are below kind_count <= TREE_KINDS_MAX. The same nodes and
 * policy give the same itinerary. */
void itinerary_make(struct itinerary *it, const struct tree_nodes *nodes, uint32_t kind_count,
                    const struct batching *policy, struct itinerary_scratch *scratch);

/* No itinerary has fewer batches: the most nodes of a kind on one path, summed over kinds (the depth of each
 * kind's own graph in ED-Batch). */
uint32_t itinerary_bound(const struct tree_nodes *nodes, uint32_t kind_count, struct itinerary_scratch *scratch);
/* The parts of itinerary_bound: sets chain[n] to the most nodes of n's own kind on a path from n up, with n,
 * and longest[kind_count] to the greatest of each kind. */
void itinerary_chains(const struct tree_nodes *nodes, uint32_t kind_count, uint32_t *scratch, uint32_t *chain,
                      uint32_t *longest);

struct batching_name {
    const char *name, *meaning;
};
extern const struct batching_name batching_table[BATCHING_ID_COUNT];
/* USAGE, with all names: no policy has this name. */
MUST_USE status batching_find(batching_id *id, const char *name);

#endif
