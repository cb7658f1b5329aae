/* Steady state: between the first step and the last, except in pauses for saves and evaluations, no thread
 * allocates or takes a lock. This file counts the calls that do. The program is linked so that every call of
 * a function listed in engine/base/steady.def, from our code and from the libraries', passes through
 * engine/base/steady.c (build.sh, --wrap). Outside steady state a call costs one load and one branch more:
 * 0.3 ns of malloc and free's 9 ns (AMD EPYC, static).
 *
 * What is seen. --wrap renames undefined symbols, so a call is seen if its object is part of the link:
 *
 *   caller                                  static program (release, debug)   tests with cmocka   asan, tsan
 *                                                                             (dynamic)
 *   our code, jansson, xxHash, zlib         all                               all                 all
 *   the C library: strdup, fopen, getline,  allocations; its pthread mutexes  nothing             allocations, by the
 *     pthread_create, strerror, qsort …       and rwlocks (lines INNER)                           sanitizer's hook;
 *                                                                                                 no locks
 *
 * What is never seen: free, munmap and the unlocks, which do not wait; the try forms (pthread_mutex_trylock),
 * which do not wait either; the C library's mmap, brk and sbrk for the heap (the malloc that needs them is)
 * and for the stack of a new thread; locks that it inlines as futexes: those of FILE, of the heap's arenas,
 * of exit handlers, of localtime; pthread_once and pthread_join; and system calls that are made directly:
 * futex (engine/base/futex.h, whose waits the pipeline's figures tell), mremap. */
#ifndef HETERPS_BASE_STEADY_H
#define HETERPS_BASE_STEADY_H

#include <stdbool.h>
#include <stdint.h>

/* Between begin and end, calls of any thread of the caller's scope (scope.h) are counted, and memory_take and
 * memory_give stop the program (CHECK). Of several trainings in a scope: while any of them is between the
 * two. A thread that other synchronisation orders after begin is counted from begin on; a thread that runs
 * beside it, from some moment on. */
void steady_begin(void);
void steady_end(void);
bool steady_is_on(void);
/* From now on the calling thread, which saves, is no part of steady state. */
void steady_leave_out(void);

struct steady_counts {
    /* malloc, calloc, realloc, memalign, aligned_alloc, posix_memalign, mmap */
    uint64_t allocations;
    uint64_t locks; /* pthread mutex, rwlock, spin, barrier, condition, and semaphores: calls that could wait */
};
/* All that was counted since the start of the process. */
struct steady_counts steady_counts(void);

/* Whether this program was linked so that it counts: every function of steady.def passes through
 * here, or under a sanitizer, whose hook is set. If false, the counts are zero and prove
 * nothing, and a test of them skips. */
bool steady_counts_work(void);

#endif
