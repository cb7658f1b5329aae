/* A clock for test programs that look at figures of time: each look of the main thread takes a step, those of
 * others none, so that what is measured is known to the last digit. The program's clock_gettime stands before
 * the C library's, for the library as well. A step of 0: the true clock. Include in one file of a program. */
#ifndef HETERPS_TESTS_FIXTURE_CLOCK_H
#define HETERPS_TESTS_FIXTURE_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static _Atomic uint64_t fixture_step_ns, fixture_now_ns;
static _Atomic bool fixture_all_step; /* looks of every thread */

static inline void fixture_clock_set(uint64_t step_ns, bool all_step)
{
    atomic_store(&fixture_now_ns, UINT64_C(1000000000));
    atomic_store(&fixture_all_step, all_step);
    atomic_store(&fixture_step_ns, step_ns);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    const uint64_t step = atomic_load(&fixture_step_ns);
    if (step == 0) return (int)syscall(SYS_clock_gettime, clock, now);
    const bool steps = atomic_load(&fixture_all_step) || syscall(SYS_gettid) == getpid();
    const uint64_t ns = steps ? atomic_fetch_add(&fixture_now_ns, step) + step : atomic_load(&fixture_now_ns);
    *now = (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    return 0;
}

#endif
