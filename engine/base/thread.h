/* Starts threads. They leave signals to the main thread, so that a handler never runs beside the
 * code that it interrupts, and changes nothing that another thread is about to free. */
#ifndef HETERPS_BASE_THREAD_H
#define HETERPS_BASE_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

/* Of every thread: who starts one adds it to the plan of memory. Kernels keep their blocks in scratch; what is deepest is a
 * failure's message. */
#define THREAD_STACK_BYTES ((size_t)512 << 10)

/* As pthread_create, with all signals blocked in the new thread. Returns an errno. */
static inline int thread_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error != 0) return error;
    (void)pthread_attr_setstacksize(&attributes, THREAD_STACK_BYTES);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(thread, &attributes, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}

#endif
