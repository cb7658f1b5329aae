/* Counts the calls of engine/base/steady.def. The linker sends a call of malloc to __wrap_malloc below, and
 * __real_malloc to the C library's (or a sanitizer's) malloc. */
#include "engine/base/steady.h"

#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "engine/base/scope_internal.h"
#include "engine/base/status.h"

/* Written at the borders of steady state; read by every call, so on a cache line that nothing else writes. */
static _Alignas(64) atomic_uint shared_on_count; /* of all scopes: begins that have no end yet */
/* Written by calls in steady state only, of which there should be none. */
static _Alignas(64) atomic_uint_fast64_t shared_allocations;
static atomic_uint_fast64_t shared_locks;

static _Thread_local bool is_left_out;

/* Relaxed, here and below: the counts order nothing. What starts and ends the work of threads
 * also orders it with begin and end. */
static inline void count_call(atomic_uint_fast64_t *shared_count)
{
    if (__builtin_expect(atomic_load_explicit(&shared_on_count, memory_order_relaxed), 0) && steady_is_on() &&
        !is_left_out)
        atomic_fetch_add_explicit(shared_count, 1, memory_order_relaxed);
}

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
/* A sanitizer's allocator also serves the C library, and calls a hook for every block, so the hook counts;
 * ThreadSanitizer's calls none for aligned blocks. Declared here because gcc does not install the header of
 * this public interface. Returns not 0 if there was room for the hooks. */
int __sanitizer_install_malloc_and_free_hooks(void (*taken)(const volatile void *, size_t),
                                              void (*given)(const volatile void *));
#define COUNT_ALLOCATION() ((void)0)
#ifdef __SANITIZE_THREAD__
#define COUNT_ALIGNED() count_call(&shared_allocations)
#else
#define COUNT_ALIGNED() ((void)0)
#endif

static atomic_bool shared_is_hooked;

static void block_hook(const volatile void *block, size_t bytes)
{
    (void)block, (void)bytes;
    count_call(&shared_allocations);
}
static void free_hook(const volatile void *block) { (void)block; }

__attribute__((constructor)) static void hook(void)
{
    atomic_store(&shared_is_hooked, __sanitizer_install_malloc_and_free_hooks(block_hook, free_hook) != 0);
}
static bool allocations_are_counted(void) { return atomic_load(&shared_is_hooked); }
#else
#define COUNT_ALLOCATION() count_call(&shared_allocations)
#define COUNT_ALIGNED()    count_call(&shared_allocations)
static bool allocations_are_counted(void) { return true; }
#endif

#define WRAP(result, name, parameters, arguments, counting)                                                            \
    result __real_##name parameters;                                                                                   \
    result __wrap_##name parameters;                                                                                   \
    result __wrap_##name parameters                                                                                    \
    {                                                                                                                  \
        counting;                                                                                                      \
        return __real_##name arguments;                                                                                \
    }
#define ALLOCATES(result, name, parameters, arguments) WRAP(result, name, parameters, arguments, COUNT_ALLOCATION())
#define ALIGNS(result, name, parameters, arguments)    WRAP(result, name, parameters, arguments, COUNT_ALIGNED())
#define MAPS(result, name, parameters, arguments)                                                                      \
    WRAP(result, name, parameters, arguments, count_call(&shared_allocations))
#define LOCKS(result, name, parameters, arguments) WRAP(result, name, parameters, arguments, count_call(&shared_locks))
/* Weak: a shared C library keeps these names to itself, and no code outside of it calls them. */
#define INNER(result, name, parameters, arguments)                                                                     \
    __attribute__((weak)) result __real_##name parameters;                                                             \
    LOCKS(result, name, parameters, arguments)
#include "engine/base/steady.def"
#undef ALLOCATES
#undef ALIGNS
#undef MAPS
#undef LOCKS
#undef INNER

void steady_begin(void)
{
    atomic_fetch_add(&scope_now()->steady.shared_on_count, 1);
    atomic_fetch_add(&shared_on_count, 1);
}

void steady_end(void)
{
    CHECK(atomic_fetch_sub(&scope_now()->steady.shared_on_count, 1) > 0);
    CHECK(atomic_fetch_sub(&shared_on_count, 1) > 0);
}

void steady_leave_out(void) { is_left_out = true; }

bool steady_is_on(void) { return atomic_load_explicit(&scope_now()->steady.shared_on_count, memory_order_relaxed) > 0; }

struct steady_counts steady_counts(void)
{
    return (struct steady_counts){atomic_load_explicit(&shared_allocations, memory_order_relaxed),
                                  atomic_load_explicit(&shared_locks, memory_order_relaxed)};
}

bool steady_counts_work(void)
{
    /* Where the linker wraps a name, the name means the wrapper in this file too. Volatile: a compiler may
     * take two names for two functions. */
    typedef void (*volatile function)(void);
    const struct {
        function name, wrapper;
    } pairs[] = {
#define ALLOCATES(result, name, parameters, arguments)                                                                 \
    {(void (*)(void))(result(*) parameters)name, (void (*)(void))__wrap_##name},
#define ALIGNS ALLOCATES
#define MAPS   ALLOCATES
#define LOCKS  ALLOCATES
#define INNER(result, name, parameters, arguments)
#include "engine/base/steady.def"
    };
    bool all = allocations_are_counted();
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) all = all && pairs[i].name == pairs[i].wrapper;
    return all;
}
