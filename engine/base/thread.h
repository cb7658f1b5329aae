/* Starts threads. They leave signals to the main thread, so that a handler never runs beside the
 * code that it interrupts, and changes nothing that another thread is about to free. */
#ifndef HETERPS_BASE_THREAD_H
#define HETERPS_BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>

/* Of every thread: who starts one adds it to the plan of memory. Kernels keep their blocks in scratch; what is
 * deepest is a failure's message. */
#define THREAD_STACK_BYTES ((size_t)512 << 10)

/* As pthread_create, with all signals blocked in the new thread, which works for the caller's scope (scope.h)
 * and is under way when this returns. Returns an errno. */
int thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

#endif
