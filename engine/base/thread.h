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
/* Of a thread that has stepped back itself, in its long loops: lets a thread that waits for this processor
 * have it at once. Linux may tell a thread that another waits when it next enters the kernel, and else not
 * before the clock's tick, up to 4 ms later. Other threads: nothing. */
void thread_give_way(void);
/* The calling thread, and those that it starts from now on, answer others, and do so at once: they run for
 * a short while at a time, and begin as soon as they wake. Before Linux 6.12 nothing changes. */
void thread_answer(void);

#endif
