#include "engine/base/thread.h"

#include <signal.h>
#include <sys/resource.h>

#include "engine/base/futex.h"
#include "engine/base/scope_internal.h"

/* Gives a thirtieth of another thread's share: even where the others never rest, a thread that has
 * stepped back comes to its end. */
#define NICE_BACK 15

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

/* On Linux this sets one thread's priority; a lower one is always allowed. */
void thread_step_back(void) { (void)setpriority(PRIO_PROCESS, 0, NICE_BACK); }
