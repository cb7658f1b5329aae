/* A bounded queue of slot numbers from one producer thread to one consumer thread, without locks; an empty or full
 * end spins briefly, then sleeps on a futex. */
#ifndef HETERPS_ENGINE_PIPE_RING_H
#define HETERPS_ENGINE_PIPE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/memory.h"
#include "engine/base/status.h"

struct ring {
    /* set once */
    uint32_t *cells;
    uint32_t cell_count; /* a power of two */
    /* producer */
    _Alignas(64) _Atomic uint32_t shared_tail;
    uint32_t head_seen; /* the producer's last look at shared_head */
    /* consumer */
    _Alignas(64) _Atomic uint32_t shared_head;
    uint32_t tail_seen;
    /* both: the two futex words count changes, so that a sleeper cannot miss one */
    _Alignas(64) _Atomic uint32_t shared_pushes, shared_pops;
    _Atomic uint32_t shared_sleepers;
    _Atomic bool shared_closed;
};

size_t ring_bytes(uint32_t cell_count);
/* Takes the cells from the arena; cell_count is rounded up to a power of two. */
void ring_place(struct ring *ring, struct arena *arena, uint32_t cell_count);

/* False at once if full / empty. */
bool ring_try_push(struct ring *ring, uint32_t item);
bool ring_try_pop(struct ring *ring, uint32_t *item);
/* Wait for room / an item. False once the ring is closed (a pop first drains what is in it). */
bool ring_push(struct ring *ring, uint32_t item);
bool ring_pop(struct ring *ring, uint32_t *item);
/* Whether ring_close has been called. */
bool ring_is_closed(const struct ring *ring);
/* Either end, any thread: wakes all sleepers; pushes fail from now on. */
void ring_close(struct ring *ring);

#endif
