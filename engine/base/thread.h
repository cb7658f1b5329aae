/* Starts threads. They leave signals to the main thread, so a handler never runs beside the code that it
 * interrupts, and changes nothing that another thread is about to free. */
#ifndef HETERPS_BASE_THREAD_H
#define HETERPS_BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>

/* The stack of every thread; whoever starts a thread adds it to the plan of memory. Kernels keep their blocks
 * in scratch; the deepest use is a failure's message. */
#define THREAD_STACK_BYTES ((size_t)512 << 10)

/* As pthread_create, with all signals blocked in the new thread, which works for the caller's scope (scope.h)
 * and is under way when this returns. Returns an errno. */
int thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

/* The calling thread, and those that it starts from now on, leave the processor to others that want it: each
 * gets about a thirtieth of what one of these gets. There is no way back without privileges. */
void thread_step_back(void);

#endif
