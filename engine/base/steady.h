/* Steady state: between the first step and the last, pauses for checkpoints and evaluations apart, nobody allocates and
 * nobody takes a lock. This counts who does: the program is linked so that every call of malloc and its kin, mmap,
 * pthread_mutex_lock and its kin, from our code and from the libraries', passes through here (build.sh, --wrap). */
#ifndef HETERPS_BASE_STEADY_H
#define HETERPS_BASE_STEADY_H

#include <stdbool.h>
#include <stdint.h>

/* From begin to end, by any thread, calls are counted, and memory_take stops the program (CHECK). Calls nest not. */
void steady_begin(void);
void steady_end(void);
bool steady_is_on(void);

struct steady_counts {
    uint64_t allocations; /* malloc, calloc, realloc, aligned_alloc, posix_memalign, mmap                          */
    uint64_t locks;       /* pthread mutex, rwlock, spin, condition, and semaphores: what could wait               */
};
/* All that was counted since the start of the process. */
struct steady_counts steady_counts(void);

#endif
