/* The frontier: nodes that are ready, kind by kind. A node is ready when its children
 * are computed and it is not. */
#ifndef HETERPS_SCHED_TREES_FRONTIER_H
#define HETERPS_SCHED_TREES_FRONTIER_H

#include <string.h>

#include "sched/trees/itinerary.h"

struct frontier {
    const struct tree_nodes *nodes;
    struct itinerary_scratch *scratch;
    uint32_t kind_count;
    uint32_t kinds[KIND_WORDS];           /* bits: kinds with ready nodes                           */
    uint32_t ready[TREE_KINDS_MAX];       /* of a kind: a ready node, whose scratch->next is another; or NONE */
    uint32_t ready_count[TREE_KINDS_MAX]; /* how many are ready                                     */
    uint64_t height_sum[TREE_KINDS_MAX];  /* of the ready nodes                                     */
};

/* Finds heights and parents. Call it before the first frontier_begin. */
void frontier_open(struct frontier *f, const struct tree_nodes *nodes, uint32_t kind_count,
                   struct itinerary_scratch *scratch);
/* Starts with nothing computed: the nodes without children are ready. */
void frontier_begin(struct frontier *f);

static inline void frontier_add(struct frontier *f, uint32_t node)
{
    uint32_t kind = f->nodes->kind[node];
    f->scratch->next[node] = f->ready[kind];
    f->ready[kind] = node;
    f->ready_count[kind]++;
    f->height_sum[kind] += f->scratch->height[node];
    f->kinds[kind / 32] |= UINT32_C(1) << kind % 32;
}

/* The agenda's kind, of equals the first; NONE: all nodes are computed. */
uint32_t frontier_lowest(const struct frontier *f);
struct automaton_sight frontier_sight(const struct frontier *f);

/* Takes all ready nodes of a kind as one batch; batch_of[nodes] gets its number. */
static inline void frontier_take(struct frontier *f, uint32_t kind, uint32_t batch, uint32_t *batch_of)
{
    const struct itinerary_scratch *s = f->scratch;
    uint32_t node = f->ready[kind], next;
    f->ready[kind] = TREE_NONE;
    f->ready_count[kind] = 0;
    f->height_sum[kind] = 0;
    f->kinds[kind / 32] &= ~(UINT32_C(1) << kind % 32);
    for (; node != TREE_NONE; node = next) {
        next = s->next[node];
        batch_of[node] = batch;
        for (uint32_t e = s->edge[node]; e != TREE_NONE; e = s->edge_next[e])
            if (--s->left[s->edge_parent[e]] == 0) frontier_add(f, s->edge_parent[e]);
    }
}

/* Computes all nodes by an automaton; with NULL, and where the automaton has no answer, by the agenda.
 * Returns the number of batches; stops at batch_max. */
uint32_t frontier_run(struct frontier *f, const struct automaton *automaton, uint32_t *batch_of, uint32_t batch_max);

#endif
