/* A bell wakes whoever sleeps until something has changed: a slot in one of several rings, a claim given back, a step
 * opened. What has changed is in the rings and claims; the bell itself carries nothing.
 *
 *     changer   change ──▶ sleepers += 0 ──▶ sleepers > 0: count++, wake
 *     waiter    look ──▶ spin, look ──▶ seen = count ──▶ sleepers += 1 ──▶ look once more ──▶ sleep while count == seen
 *
 * No wake is lost: both sides add to `sleepers`. If the changer's addition is the earlier one, the waiter's acquires it,
 * and the waiter's last look sees the change; if it is the later one, the changer sees the sleeper and moves `count`,
 * which was read before, so the kernel refuses to let the waiter sleep, or wakes it. */
#ifndef HETERPS_ENGINE_PIPE_BELL_H
#define HETERPS_ENGINE_PIPE_BELL_H

#include "engine/pipe/futex.h"

struct bell {
    _Alignas(64) _Atomic uint32_t shared_sleepers;
    _Atomic uint32_t shared_count; /* a futex word */
};

/* After every change that a waiter may be looking for. Safe in a signal handler. */
static inline void bell_ring(struct bell *bell)
{
    /* Release: the change comes before; acquire: or the sleeper is seen. An addition of nothing, because a load could
     * be answered before the change is visible. */
    uint32_t sleepers = atomic_fetch_add_explicit(&bell->shared_sleepers, 0, memory_order_acq_rel);
    if (sleepers == 0) return;
    atomic_fetch_add_explicit(&bell->shared_count, 1, memory_order_release);
    futex_wake(&bell->shared_count, UINT32_MAX);
}

/* Waits until look(context) returns true: looks, spins with further looks (if `spins`), then sleeps between rings. */
static inline void bell_await(struct bell *bell, bool spins, bool (*look)(void *context), void *context)
{
    if (look(context)) return;
    if (spins)
        for (struct spin s = {0}; spin_more(&s);)
            if (look(context)) return;
    for (;;) {
        /* Acquire pairs with the release in bell_ring(): read before the last look. */
        uint32_t seen = atomic_load_explicit(&bell->shared_count, memory_order_acquire);
        atomic_fetch_add_explicit(&bell->shared_sleepers, 1, memory_order_acq_rel);
        bool found = look(context);
        if (!found) futex_wait(&bell->shared_count, seen);
        /* Relaxed: a count that is high for a moment costs a needless wake. */
        atomic_fetch_sub_explicit(&bell->shared_sleepers, 1, memory_order_relaxed);
        if (found || look(context)) return;
    }
}

#endif
