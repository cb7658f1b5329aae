/* Bounded queues that carry slot numbers between threads, without locks and without waiting. An operation
 * that cannot be done now says so. A thread that wants to wait does so at a bell (bell.h), which the other
 * side rings after it has moved an item. */
#ifndef HETERPS_BASE_RING_H
#define HETERPS_BASE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/memory.h"
#include "engine/base/status.h"

/* RING_ONE    one thread pushes and one pops. Either end may pass from thread to thread, if the one that gives it up
 *             releases and the one that takes it acquires: a claim word, a lock, another ring.
 * RING_MANY   any number of threads push and pop. Items of one pusher arrive in its order. A thread that the system
 *             takes off its core in the middle of an operation holds up no other thread. */
enum ring_kind { RING_ONE, RING_MANY };

struct ring {
    /* set once */
    enum ring_kind kind;
    uint32_t cell_count;           /* a power of two                                  */
    uint32_t *item;                /* RING_ONE: [cell_count]                          */
    _Atomic uint64_t *shared_cell; /* RING_MANY: [cell_count], sequence << 32 | item  */
    /* pushing */
    _Alignas(64) _Atomic uint32_t shared_tail;
    uint32_t head_seen; /* RING_ONE: the pusher's last look at shared_head */
    /* popping */
    _Alignas(64) _Atomic uint32_t shared_head;
    uint32_t tail_seen; /* RING_ONE: the popper's last look at shared_tail */
};

/* What ring_place takes from the arena. */
size_t ring_bytes(uint32_t cell_count, enum ring_kind kind);
/* Takes the cells from the arena. cell_count (1 to 2^30) is rounded up to a power of two, for
 * RING_MANY to at least 2. The ring is empty. The caller makes it visible to other threads, for
 * instance by starting them afterwards. */
void ring_place(struct ring *ring, struct arena *arena, uint32_t cell_count, enum ring_kind kind);

/* ring_bytes and ring_place as a line of a layout; while the layout only counts bytes, `ring` is not used. */
static inline void ring_layout(struct ring *ring, struct layout *l, uint32_t cell_count, enum ring_kind kind)
{
    l->bytes += ring_bytes(cell_count, kind);
    if (l->arena) ring_place(ring, l->arena, cell_count, kind);
}

/* False, and nothing is done: the ring is full, or empty. Both answers are exact: a push that follows a pop
 * (in the sense of happens-before) finds its room, so a ring with a cell for every item that exists never
 * refuses one. What a thread wrote before its push is visible to the thread whose pop gets the item. */
bool ring_try_push(struct ring *ring, uint32_t item);
bool ring_try_pop(struct ring *ring, uint32_t *item);

/* How many items are in the ring; a rough number, because others push and pop meanwhile. Not 0 if an item was
 * pushed before (happens-before) and nobody has popped it. Safe in a signal handler. */
uint32_t ring_depth(const struct ring *ring);

#endif
