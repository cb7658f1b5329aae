/* Shared by the files of the placement policies. */
#ifndef HETERPS_SCHED_TREES_PLACE_INSIDE_H
#define HETERPS_SCHED_TREES_PLACE_INSIDE_H

#include "sched/trees/tree_place.h"

struct placing {
    uint8_t *device; /* [count]: the result */
    const struct place_units *u;
    const struct place_machine *m;
    const struct place_options *options;
    struct place_clock *clock;
};

typedef status place_maker(const struct placing *);
#define PLACE(id, ...) place_maker place_##id;
#include "sched/trees/place.def"
#undef PLACE

#endif
