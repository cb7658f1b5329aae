/* Which cards make a virtual worker (allocate.def). */
#ifndef HETERPS_SCHED_WORKERS_ALLOCATE_H
#define HETERPS_SCHED_WORKERS_ALLOCATE_H

#include "sched/workers/partition.h"

/* Where parameters are served: layers with weights by turns on all nodes,
 * or each stage's on the node of its card. */
enum placement { PLACEMENT_DEFAULT, PLACEMENT_LOCAL, PLACEMENT_COUNT };
extern const char *const placement_names[PLACEMENT_COUNT + 1]; /* "default", "local", NULL */

typedef enum {
#define ALLOCATION(id, name, meaning) ALLOCATION_ID_##id,
#include "sched/workers/allocate.def"
#undef ALLOCATION
    ALLOCATION_ID_COUNT
} allocation_id;
extern const char *const allocation_names[ALLOCATION_ID_COUNT + 1]; /* the last is NULL */

struct allocation {
    struct worker_cards workers[WORKERS_MAX];
    uint32_t worker_count;
};

/* INFEASIBLE, with a sentence: the nodes do not allow the allocation.
 * The model says how fast the types are. */
MUST_USE status allocate(struct allocation *a, allocation_id id, const struct workers_cluster *cluster,
                         const struct workers_model *model);
/* How many workers share the bandwidth that a node has for bytes from other nodes: all with the default
 * placement; else the workers with cards on the node and elsewhere, of the node with the most, at least 1. */
uint32_t allocation_sharers(const struct allocation *a, enum placement placement);

#endif
