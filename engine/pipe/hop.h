/* A hop carries slots to a stage, one way: forward from the stage before it (to the first stage: from the
 * gate), backward from the stage after it.
 *
 *     whoever has a slot ──hop_give──▶ ring of the seat whose lane it is ──hop_take──▶ a worker of the stage
 *
 * What travels is a slot's number; between stages of one process the slot's memory is the same on both
 * sides. */
#ifndef HETERPS_ENGINE_PIPE_HOP_H
#define HETERPS_ENGINE_PIPE_HOP_H

#include "engine/base/bell.h"
#include "engine/base/ring.h"

struct hop {
    struct ring *rings; /* [seat_count] */
    uint32_t seat_count;
    struct bell *bell; /* of whoever takes */
};

/* Rings with a cell for each of slot_count slots, so that giving never waits. */
static inline void hop_layout(struct hop *hop, struct layout *l, uint32_t seat_count, uint32_t slot_count,
                              enum ring_kind kind)
{
    hop->seat_count = seat_count;
    LAYOUT_TAKE(l, hop->rings, seat_count);
    for (uint32_t s = 0; s < seat_count; s++) ring_layout(l->arena ? &hop->rings[s] : NULL, l, slot_count, kind);
}

static inline uint32_t hop_depth(const struct hop *hop, uint32_t seat) { return ring_depth(&hop->rings[seat]); }

/* Returns how many slots were in the ring already. */
static inline uint32_t hop_give(struct hop *hop, uint32_t seat, uint32_t slot)
{
    const uint32_t depth = hop_depth(hop, seat);
    CHECK(ring_try_push(&hop->rings[seat], slot)); /* a ring has a cell for every slot */
    bell_ring(hop->bell);
    return depth;
}

static inline bool hop_take(struct hop *hop, uint32_t seat, uint32_t *slot)
{
    return ring_try_pop(&hop->rings[seat], slot);
}

#endif
