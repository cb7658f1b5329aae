/* Sleeping on a word of memory, and the short spin before it. Bells and teams both wait this way: the other
 * side usually answers within microseconds; where it does not, the core is given to other threads. */
#ifndef HETERPS_BASE_FUTEX_H
#define HETERPS_BASE_FUTEX_H

#include <errno.h>
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
/* The same until the clock (clock_ns) says end_ns; UINT64_MAX: without end. False: the time is over. */
static inline bool futex_wait_until(_Atomic uint32_t *word, uint32_t seen, uint64_t end_ns)
{
    if (end_ns == UINT64_MAX) return futex_wait(word, seen), true;
    struct timespec end = {.tv_sec = (time_t)(end_ns / 1000000000u), .tv_nsec = (long)(end_ns % 1000000000u)};
    /* The bitset form takes a moment of CLOCK_MONOTONIC, where the plain form takes a length of time. */
    long result = syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, seen, &end, NULL, FUTEX_BITSET_MATCH_ANY);
    return !(result == -1 && errno == ETIMEDOUT);
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
