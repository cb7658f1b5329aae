/* Starts the threads of the pipeline. They leave signals to the main thread, so that a handler never runs beside the
 * code that it interrupts, and changes nothing that another thread is about to free. */
#ifndef HETERPS_ENGINE_PIPE_THREAD_H
#define HETERPS_ENGINE_PIPE_THREAD_H

#include <pthread.h>
#include <signal.h>

/* As pthread_create, with all signals blocked in the new thread. Returns an errno. */
static inline int thread_start(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                               void *argument)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, attributes, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

#endif
