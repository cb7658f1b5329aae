/* Sleeping on a word of memory, and the short spin that comes before it. Both rings and teams wait this way: the other
 * side usually answers within microseconds, and where it does not, the core belongs to somebody else. */
#ifndef HETERPS_ENGINE_PIPE_FUTEX_H
#define HETERPS_ENGINE_PIPE_FUTEX_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/base/clock.h"

/* 20 us: a hand-over between two running threads takes about 0.1 us and the gap between two ops a few; a wake
 * through the kernel costs 5 to 50 us. Longer spins take the core from the reader. */
#define SPIN_NS 20000

/* Sleeps while *word == seen, until woken; may return without cause, so callers look again. */
static inline void futex_wait(_Atomic uint32_t *word, uint32_t seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}
static inline void futex_wake(_Atomic uint32_t *word, uint32_t count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count > INT_MAX ? INT_MAX : count, NULL, NULL, 0);
}

static inline void spin_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* A spin that has not used up its time: for (struct spin s = {0}; !done() && spin_more(&s);) */
struct spin {
    uint64_t end_ns;
    uint32_t rounds;
};
static inline bool spin_more(struct spin *s)
{
    spin_pause();
    /* The clock is read once in 32 rounds: reading it takes as long as one pause. */
    if (s->rounds++ % 32 != 0) return true;
    uint64_t now = clock_ns();
    if (s->end_ns == 0) s->end_ns = now + SPIN_NS;
    return now < s->end_ns;
}

#endif
