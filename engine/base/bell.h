/* A bell wakes whoever sleeps until something has changed: a slot in one of several rings, a claim given
 * back, a step opened. The change itself is in the rings and claims; the bell carries nothing.
 *
 *     changer   change ──▶ sleepers += 0 ──▶ sleepers > 0: count++, wake
 *     waiter    look ──▶ spin, look ──▶ seen = count ──▶ sleepers += 1 ──▶ look once more ──▶ sleep while count == seen
 *
 * No wake is lost. Both sides add to `sleepers`, and these additions have one order, each acquiring all
 * before it (nothing else is ever done to `sleepers`, so the chain of additions is not broken). If the
 * changer's addition is the earlier one, the waiter's last look comes after the change and sees it. If it is
 * the later one, the changer sees the sleeper and moves `count`. The waiter has read `count` before its own
 * addition, so `seen` is not the moved count: the kernel refuses to let the waiter sleep, or, if it sleeps
 * already, the wake ends its sleep.
 *
 * A bell must exist as long as anyone may ring it. A thread that has seen the change may not free the bell,
 * because the ringer may still use it. */
#ifndef HETERPS_BASE_BELL_H
#define HETERPS_BASE_BELL_H

#include "engine/base/futex.h"

/* All zero at first. */
struct bell {
    _Alignas(64) _Atomic uint32_t shared_sleepers;
    _Atomic uint32_t shared_count; /* a futex word */
};

/* Call after every change that a waiter may look for. Safe in a signal handler, also of a
 * thread that is about to sleep. */
static inline void bell_ring(struct bell *bell)
{
    /* Release: the change comes before; acquire: or the sleeper is seen, with its look at `count`. An
     * addition of nothing, because a load could be answered before the change is visible. */
    uint32_t sleepers = atomic_fetch_add_explicit(&bell->shared_sleepers, 0, memory_order_acq_rel);
    if (sleepers == 0) return;
    atomic_fetch_add_explicit(&bell->shared_count, 1, memory_order_release);
    futex_wake(&bell->shared_count, UINT32_MAX);
}

/* Waits until look(context) returns true, or until the clock says end_ns; UINT64_MAX: without end. Returns
 * the result of the last look. Looks, spins with further looks (if `spins`), then sleeps between rings. What
 * a look reads must be atomic; a look may also take what it finds. */
static inline bool bell_await_until(struct bell *bell, bool spins, uint64_t end_ns, bool (*look)(void *context),
                                    void *context)
{
    if (look(context)) return true;
    if (spins)
        for (struct spin s = {0}; spin_more(&s);)
            if (look(context)) return true;
    for (bool found = false;;) {
        /* Acquire pairs with the release in bell_ring(): a ring that has been counted is not waited for
         * again.
         * Read before the last look. */
        uint32_t seen = atomic_load_explicit(&bell->shared_count, memory_order_acquire);
        /* Acquire: the changes of earlier ringers; release: `count` has been read before. */
        atomic_fetch_add_explicit(&bell->shared_sleepers, 1, memory_order_acq_rel);
        found = look(context);
        bool is_late = !found && !futex_wait_until(&bell->shared_count, seen, end_ns);
        /* Relaxed: nothing needs to be seen before it, and as an addition it passes on what others have
         * released; a count that is high for a moment costs a needless wake. */
        atomic_fetch_sub_explicit(&bell->shared_sleepers, 1, memory_order_relaxed);
        if (found || look(context)) return true;
        if (is_late) return false;
    }
}

static inline void bell_await(struct bell *bell, bool spins, bool (*look)(void *context), void *context)
{
    (void)bell_await_until(bell, spins, UINT64_MAX, look, context);
}

#endif
