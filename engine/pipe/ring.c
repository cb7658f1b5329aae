/* The queue behind ring.h: cells between a head that only the consumer moves and a tail that only the producer moves, both
 * counting without end and taken modulo the cells.
 *
 *        head ──▶ │ item │ item │ item │ ◀── tail          full: tail - head == cell_count; empty: tail == head
 *
 * Carries slot numbers, some hundred to some ten thousand a second, so an end keeps the simplest argument that is right: each
 * moves its index, then looks whether the other sleeps. */
#include "engine/pipe/ring.h"

#include <string.h>

#include "engine/pipe/futex.h"

static uint32_t cells_rounded(uint32_t cell_count)
{
    CHECK(cell_count >= 1 && cell_count <= UINT32_C(1) << 31);
    uint32_t rounded = 1;
    while (rounded < cell_count) rounded *= 2;
    return rounded;
}

size_t ring_bytes(uint32_t cell_count) { return arena_bytes((size_t)cells_rounded(cell_count) * sizeof(uint32_t)); }

void ring_place(struct ring *ring, struct arena *arena, uint32_t cell_count)
{
    memset(ring, 0, sizeof *ring);
    ring->cell_count = cells_rounded(cell_count);
    ring->cells = arena_take(arena, (size_t)ring->cell_count * sizeof(uint32_t));
}

/* Wakes who sleeps on the word, if anyone may. The caller has just moved its index, sequentially consistent; a
 * sleeper adds itself, then looks at that index, sequentially consistent too: so either it sees the move or we see
 * it here. */
static void wake(struct ring *ring, _Atomic uint32_t *changes)
{
    if (atomic_load_explicit(&ring->shared_sleepers, memory_order_seq_cst) == 0) return;
    /* Release, ordered before the wake by the kernel: a sleeper that has read the old count is either not yet asleep
     * and the kernel refuses, or is woken. */
    atomic_fetch_add_explicit(changes, 1, memory_order_release);
    futex_wake(changes, 1);
}

bool ring_try_push(struct ring *ring, uint32_t item)
{
    /* Relaxed: the producer is the only writer of shared_tail. */
    uint32_t tail = atomic_load_explicit(&ring->shared_tail, memory_order_relaxed);
    /* Relaxed: a push that races with the close may still land; whoever closes knows what it does with it. */
    if (atomic_load_explicit(&ring->shared_closed, memory_order_relaxed)) return false;
    if (tail - ring->head_seen == ring->cell_count) {
        /* Acquire pairs with the store in ring_try_pop(): a cell is ours again only after the consumer has copied it
         * out. Sequentially consistent, so that it may be the last look before sleep; see wake(). */
        ring->head_seen = atomic_load_explicit(&ring->shared_head, memory_order_seq_cst);
        if (tail - ring->head_seen == ring->cell_count) return false;
    }
    ring->cells[tail & (ring->cell_count - 1)] = item;
    /* Release makes the cell, and all that the producer wrote into the slot, visible before the tail that announces it;
     * sequentially consistent for wake(). */
    atomic_store_explicit(&ring->shared_tail, tail + 1, memory_order_seq_cst);
    wake(ring, &ring->shared_pushes);
    return true;
}

bool ring_try_pop(struct ring *ring, uint32_t *item)
{
    /* Relaxed: the consumer is the only writer of shared_head. */
    uint32_t head = atomic_load_explicit(&ring->shared_head, memory_order_relaxed);
    if (head == ring->tail_seen) {
        /* Acquire pairs with the store in ring_try_push(); sequentially consistent as there. */
        ring->tail_seen = atomic_load_explicit(&ring->shared_tail, memory_order_seq_cst);
        if (head == ring->tail_seen) return false;
    }
    *item = ring->cells[head & (ring->cell_count - 1)];
    /* Release: the cell is copied out before the producer may overwrite it; sequentially consistent for wake(). */
    atomic_store_explicit(&ring->shared_head, head + 1, memory_order_seq_cst);
    wake(ring, &ring->shared_pops);
    return true;
}

/* Sleeps until `changes` moves on from `seen`, unless the ring is closed. */
static void sleep_on(struct ring *ring, _Atomic uint32_t *changes, uint32_t seen)
{
    if (!atomic_load_explicit(&ring->shared_closed, memory_order_acquire)) futex_wait(changes, seen);
}

bool ring_push(struct ring *ring, uint32_t item)
{
    for (struct spin s = {0};;) {
        if (ring_try_push(ring, item)) return true;
        /* Acquire pairs with ring_close(). */
        if (atomic_load_explicit(&ring->shared_closed, memory_order_acquire)) return false;
        if (spin_more(&s)) continue;
        /* The count is read before the last look: whatever changes after the look also changes the count. */
        uint32_t seen = atomic_load_explicit(&ring->shared_pops, memory_order_acquire);
        atomic_fetch_add_explicit(&ring->shared_sleepers, 1, memory_order_seq_cst);
        bool pushed = ring_try_push(ring, item);
        if (!pushed) sleep_on(ring, &ring->shared_pops, seen);
        /* Relaxed: a count that is high for a moment costs a needless wake. */
        atomic_fetch_sub_explicit(&ring->shared_sleepers, 1, memory_order_relaxed);
        if (pushed) return true;
    }
}

bool ring_pop(struct ring *ring, uint32_t *item)
{
    for (struct spin s = {0};;) {
        if (ring_try_pop(ring, item)) return true;
        /* Acquire pairs with ring_close(): what was pushed before the close is drained first, so look once more. */
        if (atomic_load_explicit(&ring->shared_closed, memory_order_acquire)) return ring_try_pop(ring, item);
        if (spin_more(&s)) continue;
        uint32_t seen = atomic_load_explicit(&ring->shared_pushes, memory_order_acquire);
        atomic_fetch_add_explicit(&ring->shared_sleepers, 1, memory_order_seq_cst);
        bool popped = ring_try_pop(ring, item);
        if (!popped) sleep_on(ring, &ring->shared_pushes, seen);
        atomic_fetch_sub_explicit(&ring->shared_sleepers, 1, memory_order_relaxed);
        if (popped) return true;
    }
}

void ring_close(struct ring *ring)
{
    /* Release pairs with the acquires after a failed try; the counts move after it, so that a sleeper that has
     * missed the flag finds its count changed, or is woken. */
    atomic_store_explicit(&ring->shared_closed, true, memory_order_release);
    atomic_fetch_add_explicit(&ring->shared_pushes, 1, memory_order_release);
    atomic_fetch_add_explicit(&ring->shared_pops, 1, memory_order_release);
    futex_wake(&ring->shared_pushes, UINT32_MAX);
    futex_wake(&ring->shared_pops, UINT32_MAX);
}

bool ring_is_closed(const struct ring *ring)
{
    /* Acquire pairs with the release in ring_close(): what the closer wrote before is visible. */
    return atomic_load_explicit(&ring->shared_closed, memory_order_acquire);
}
