/* Lists of random binary trees to place, each list a batch of trees that come at once;
 * with scratch for placing. */
#ifndef HETERPS_SCHED_TREES_FORESTS_H
#define HETERPS_SCHED_TREES_FORESTS_H

#include "sched/draw.h"
#include "sched/trees/tree_place.h"

struct forests_options {
    uint32_t count, trees;           /* lists; trees of a list                          */
    uint32_t leaves_min, leaves_max; /* of a tree                                       */
    uint32_t leaf_kind, inner_kind;
    uint32_t output_kind; /* of an output after every node, or TREE_NONE     */
    uint64_t seed;
};

struct forests {
    uint32_t count;
    struct place_units *unit, *node;           /* [count]: with outputs, and nodes alone */
    const struct place_units **units, **nodes; /* [count]: the same                      */
    double node_count;                         /* of a list, on average                  */
    struct place_clock clock;                  /* room for the longest list, as the …    */
    uint8_t *device, *other;                   /* … following                            */
    double *scratch;                           /* of place_bound                         */
    void *memory;
};
/* The same options give the same trees. Batches are by height. MEMORY. */
MUST_USE status forests_open(struct forests *f, const struct forests_options *o);
void forests_close(struct forests *f);

#endif
