#include "engine/base/thread.h"

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/base/futex.h"
#include "engine/base/scope_internal.h"

/* Gives a thirtieth of another thread's share: even where the others never rest, a thread that has
 * stepped back comes to its end. */
#define NICE_BACK 15
/* A thread with this slice takes the processor as it wakes; with Linux's own, 3 ms, it may wait for the
 * slice of the thread that runs. */
#define SLICE_ANSWER_NS UINT64_C(100000)

/* On the starter's stack, until the new thread has taken it. */
struct start {
    void *(*run)(void *);
    void *argument;
    struct scope *scope;
    _Atomic uint32_t shared_is_taken; /* a futex word */
};

static void *start_main(void *pointer)
{
    struct start *s = pointer;
    void *(*run)(void *) = s->run;
    void *argument = s->argument;
    scope_enter(s->scope);
    /* Release pairs with the starter's acquire. The word may be gone by the time of the
     * wake, which uses its address alone. */
    atomic_store_explicit(&s->shared_is_taken, 1, memory_order_release);
    futex_wake(&s->shared_is_taken, 1);
    return run(argument);
}

int thread_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
    struct start start = {.run = run, .argument = argument, .scope = scope_now()};
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error != 0) return error;
    (void)pthread_attr_setstacksize(&attributes, THREAD_STACK_BYTES);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(thread, &attributes, start_main, &start);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    while (error == 0 && atomic_load_explicit(&start.shared_is_taken, memory_order_acquire) == 0)
        futex_wait(&start.shared_is_taken, 0);
    return error;
}

/* The first form of the struct of sched_setattr(2), for which libc has no name. */
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns, deadline_ns, period_ns;
};

/* Both are always allowed on Linux: a lower priority, and, since 6.12, any slice. */
static void attributes_set(int nice, uint64_t slice_ns)
{
    struct attributes a = {.size = sizeof a, .nice = nice, .runtime_ns = slice_ns};
    (void)syscall(SYS_sched_setattr, 0, &a, 0);
}

/* Of the calling thread; threads that it starts have none, and the system as its own judge. */
static _Thread_local bool has_stepped_back;

void thread_step_back(void)
{
    has_stepped_back = true;
    attributes_set(NICE_BACK, 0);
}

void thread_give_way(void)
{
    if (has_stepped_back) (void)sched_yield();
}

void thread_answer(void) { attributes_set(getpriority(PRIO_PROCESS, 0), SLICE_ANSWER_NS); }
