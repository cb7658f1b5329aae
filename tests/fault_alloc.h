/* Makes an allocation of a test program fail, the n-th of all threads: the program's malloc, calloc and
 * realloc stand before the C library's, for the library as well. Include in one file of a program with
 * cmocka. A sanitizer has an allocator of its own: there nothing fails, and FAULT_ALLOC_SKIP ends a test. */
#ifndef HETERPS_TESTS_FAULT_ALLOC_H
#define HETERPS_TESTS_FAULT_ALLOC_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Allocations until one fails; negative: none does. */
static atomic_int_fast64_t shared_fault_left = -1;

static inline void fault_alloc_set(int64_t n) { atomic_store(&shared_fault_left, n); }
/* None fails from now on; whether one has. */
static inline bool fault_alloc_end(void) { return atomic_exchange(&shared_fault_left, -1) < 0; }

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define FAULT_ALLOC_SKIP() skip()
#else
#define FAULT_ALLOC_SKIP() ((void)0)

/* The C library's, by the names that a program which has the others can call. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);

static inline bool fault_alloc_falls(void)
{
    if (atomic_load_explicit(&shared_fault_left, memory_order_relaxed) < 0) return false;
    const bool falls = atomic_fetch_sub(&shared_fault_left, 1) == 0;
    if (falls) errno = ENOMEM;
    return falls;
}
void *malloc(size_t bytes) { return fault_alloc_falls() ? NULL : __libc_malloc(bytes); }
void *calloc(size_t count, size_t bytes) { return fault_alloc_falls() ? NULL : __libc_calloc(count, bytes); }
void *realloc(void *block, size_t bytes) { return fault_alloc_falls() ? NULL : __libc_realloc(block, bytes); }
#endif

/* Has the n-th allocation of `call` fail, for each n that it comes to: it says so, or does without. */
#define EACH_ALLOCATION_FAILS(call, undo)                                                                              \
    for (int64_t n = 0, most = 100000; n < most; n++) {                                                                \
        fault_alloc_set(n);                                                                                            \
        const status st_ = (call);                                                                                     \
        const bool has_failed = fault_alloc_end();                                                                     \
        if (st_ != ST_OK && st_ != ST_MEMORY) fail_msg("allocation %d: %s", (int)n, status_message());                 \
        if (st_ == ST_OK) {                                                                                            \
            undo;                                                                                                      \
        }                                                                                                              \
        if (!has_failed) {                                                                                             \
            if (st_ != ST_OK) fail_msg("%s", status_message());                                                        \
            assert_true(n > 0);                                                                                        \
            break;                                                                                                     \
        }                                                                                                              \
    }

#endif
