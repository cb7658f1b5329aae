/* The queues behind ring.h: cells between a head that pops move and a tail that pushes move, both counting
 * without end and taken modulo the cells.
 *
 *        head ──▶ │ item │ item │ item │ ◀── tail          full: tail - head == cell_count; empty: tail == head
 *
 * RING_ONE needs no more than head and tail. In RING_MANY every cell also tells its
 * position in the endless count:
 *
 *        sequence == p              free for position p
 *        sequence == p + 1          filled with the item of position p
 *        sequence == p + count      free for the next lap
 *
 * Sequence and item share one word, so a push or a pop is one exchange of a cell: no cell is
 * ever claimed and not yet filled or emptied. Head and tail only say where to begin; a thread
 * that finds one behind moves it on.
 *
 * Rings carry some hundred to some ten thousand numbers a second. */
#include "engine/base/ring.h"

#include <string.h>

static uint32_t cells_rounded(uint32_t cell_count, enum ring_kind kind)
{
    CHECK(cell_count >= 1 && cell_count <= UINT32_C(1) << 30);
    /* With a single cell, "filled" and "free for the next lap" would be one number. */
    uint32_t rounded = kind == RING_MANY ? 2 : 1;
    while (rounded < cell_count) rounded *= 2;
    return rounded;
}

static size_t cell_bytes(enum ring_kind kind) { return kind == RING_ONE ? sizeof(uint32_t) : sizeof(uint64_t); }

size_t ring_bytes(uint32_t cell_count, enum ring_kind kind)
{
    return arena_bytes(cells_rounded(cell_count, kind) * cell_bytes(kind));
}

void ring_place(struct ring *ring, struct arena *arena, uint32_t cell_count, enum ring_kind kind)
{
    memset(ring, 0, sizeof *ring);
    ring->kind = kind;
    ring->cell_count = cells_rounded(cell_count, kind);
    void *cells = arena_take(arena, ring->cell_count * cell_bytes(kind));
    if (kind == RING_ONE) {
        ring->item = cells;
        return;
    }
    ring->shared_cell = cells;
    /* Relaxed: no other thread has the ring yet. */
    for (uint32_t p = 0; p < ring->cell_count; p++)
        atomic_store_explicit(&ring->shared_cell[p], (uint64_t)p << 32, memory_order_relaxed);
}

/* --- one pushes, one pops --------------------------------------------------------------------- */

static bool one_push(struct ring *ring, uint32_t item)
{
    /* Relaxed: the pusher is the only writer of shared_tail. An earlier pusher has handed its end over by
     * release and acquire, so its last store is found here, and head_seen is as it left it. */
    uint32_t tail = atomic_load_explicit(&ring->shared_tail, memory_order_relaxed);
    if (tail - ring->head_seen == ring->cell_count) {
        /* Acquire pairs with the release in one_pop(): a cell is ours again only after
         * the item has been copied out. */
        ring->head_seen = atomic_load_explicit(&ring->shared_head, memory_order_acquire);
        if (tail - ring->head_seen == ring->cell_count) return false;
    }
    ring->item[tail & (ring->cell_count - 1)] = item;
    /* Release makes the cell, and all that the pusher wrote into the slot, visible before the tail that
     * announces it. */
    atomic_store_explicit(&ring->shared_tail, tail + 1, memory_order_release);
    return true;
}

static bool one_pop(struct ring *ring, uint32_t *item)
{
    /* Relaxed: the popper is the only writer of shared_head, or has acquired the end from the last one, as in
     * one_push(). */
    uint32_t head = atomic_load_explicit(&ring->shared_head, memory_order_relaxed);
    if (head == ring->tail_seen) {
        /* Acquire pairs with the release in one_push(). The hand-over makes visible what an earlier popper
         * acquired and left as tail_seen. */
        ring->tail_seen = atomic_load_explicit(&ring->shared_tail, memory_order_acquire);
        if (head == ring->tail_seen) return false;
    }
    *item = ring->item[head & (ring->cell_count - 1)];
    /* Release: the item is copied out before the pusher may overwrite it. */
    atomic_store_explicit(&ring->shared_head, head + 1, memory_order_release);
    return true;
}

/* --- many push, many pop ---------------------------------------------------------------------- */

/* Moves head or tail past position `at`, which the caller has filled or emptied, or found so; does
 * nothing where another thread has done it. Release, after an acquire of the cell, pairs with the
 * acquires of head and tail below: a thread that finds the index at p finds every cell below p
 * filled (tail) or emptied (head). */
static void index_advance(_Atomic uint32_t *index, uint32_t at)
{
    (void)atomic_compare_exchange_strong_explicit(index, &at, at + 1, memory_order_release, memory_order_relaxed);
}

static bool many_push(struct ring *ring, uint32_t item)
{
    for (;;) {
        /* Acquire pairs with index_advance(): all positions below `tail` have been filled. */
        uint32_t tail = atomic_load_explicit(&ring->shared_tail, memory_order_acquire);
        _Atomic uint64_t *cell = &ring->shared_cell[tail & (ring->cell_count - 1)];
        /* Acquire pairs with the exchanges here and in many_pop(), whose position
         * index_advance() then announces. */
        uint64_t found = atomic_load_explicit(cell, memory_order_acquire);
        uint32_t ahead = (uint32_t)(found >> 32) - tail;
        /* The cell still has the item of the last lap, so all positions from this item
         * to below `tail` are taken: full. */
        if (ahead == 1 - ring->cell_count) return false;
        if (ahead == 0) {
            /* Release makes all that was written into the slot visible with the cell. Relaxed on failure:
             * another pusher was here, and everything is looked at again. The exchange can only succeed by
             * mistake for a thread that has slept through exactly 2^32 positions, over a day of them. */
            uint64_t filled = (uint64_t)(tail + 1) << 32 | item;
            if (!atomic_compare_exchange_strong_explicit(cell, &found, filled, memory_order_release,
                                                         memory_order_relaxed))
                continue;
            index_advance(&ring->shared_tail, tail);
            return true;
        }
        /* The cell is filled, and perhaps emptied again: `tail` is behind, because a pusher has not moved it
         * yet, or because it has moved since it was read. */
        index_advance(&ring->shared_tail, tail);
    }
}

static bool many_pop(struct ring *ring, uint32_t *item)
{
    for (;;) {
        /* Acquire pairs with index_advance(): all positions below `head` have been emptied. */
        uint32_t head = atomic_load_explicit(&ring->shared_head, memory_order_acquire);
        _Atomic uint64_t *cell = &ring->shared_cell[head & (ring->cell_count - 1)];
        /* Acquire pairs with the release of the push: what came with the item is visible. */
        uint64_t found = atomic_load_explicit(cell, memory_order_acquire);
        uint32_t ahead = (uint32_t)(found >> 32) - head;
        /* Position `head` has not been filled, and positions are filled in order: empty. */
        if (ahead == 0) return false;
        if (ahead == 1) {
            /* Release, for a thread that acquires the empty cell and announces it in our place;
             * relaxed on failure, as in a push. */
            uint64_t emptied = (uint64_t)(head + ring->cell_count) << 32;
            if (!atomic_compare_exchange_strong_explicit(cell, &found, emptied, memory_order_release,
                                                         memory_order_relaxed))
                continue;
            index_advance(&ring->shared_head, head);
            *item = (uint32_t)found;
            return true;
        }
        index_advance(&ring->shared_head, head);
    }
}

/* --- either kind ------------------------------------------------------------------------------ */

bool ring_try_push(struct ring *ring, uint32_t item)
{
    return ring->kind == RING_ONE ? one_push(ring, item) : many_push(ring, item);
}

bool ring_try_pop(struct ring *ring, uint32_t *item)
{
    return ring->kind == RING_ONE ? one_pop(ring, item) : many_pop(ring, item);
}

uint32_t ring_depth(const struct ring *ring)
{
    /* Relaxed: a figure, ordered with nothing. Head may have moved past the tail that was read, and in
     * RING_MANY a tail may be behind until its pusher, or another, has moved it. */
    uint32_t tail = atomic_load_explicit(&ring->shared_tail, memory_order_relaxed);
    uint32_t depth = tail - atomic_load_explicit(&ring->shared_head, memory_order_relaxed);
    if (depth > UINT32_MAX / 2) return 0;
    return depth < ring->cell_count ? depth : ring->cell_count;
}
