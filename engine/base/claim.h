/* A claim is the right to do something alone for a while. It is tried, never waited for: a thread that
 * fails goes on to other work. The holder learns, when it gives the claim back, that a thread has
 * failed, and can ring the bell for it. */
#ifndef HETERPS_ENGINE_BASE_CLAIM_H
#define HETERPS_ENGINE_BASE_CLAIM_H

#include <stdatomic.h>
#include <stdbool.h>

struct claim {
    _Alignas(64) _Atomic bool shared_taken;
    _Atomic bool shared_missed;
};

static inline bool claim_try(struct claim *claim)
{
    /* Acquire pairs with claim_give(): what the last holder wrote is visible. */
    if (!atomic_exchange_explicit(&claim->shared_taken, true, memory_order_acquire)) return true;
    /* Sequentially consistent, both, with the two accesses of claim_give(): either the holder sees that we
     * have missed it, or we see that it is free by now. */
    atomic_store_explicit(&claim->shared_missed, true, memory_order_seq_cst);
    return !atomic_exchange_explicit(&claim->shared_taken, true, memory_order_seq_cst);
}

/* Returns whether a thread has failed to get the claim since it was taken. */
static inline bool claim_give(struct claim *claim)
{
    /* Release, and sequentially consistent as in claim_try(). */
    atomic_store_explicit(&claim->shared_taken, false, memory_order_seq_cst);
    return atomic_load_explicit(&claim->shared_missed, memory_order_seq_cst) &&
           atomic_exchange_explicit(&claim->shared_missed, false, memory_order_seq_cst);
}

#endif
