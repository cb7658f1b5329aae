/* SIGINT and SIGTERM ask the run to stop after the current step; a second one ends the process at once. */
#ifndef HETERPS_ENGINE_STOP_H
#define HETERPS_ENGINE_STOP_H

#include <stdbool.h>

/* Installs the handlers, which run on the main thread: all others block signals. May be called again, to wake
 * something else. If the run has not ended two seconds after the first signal, `wake` is called from a handler (so
 * it may only use atomics and futexes): it unblocks a thread that waits for input. NULL: nothing to wake. */
void stop_listen(void (*wake)(void *context), void *context);
bool stop_requested(void);
/* The signal that asked, or 0. */
int stop_signal(void);

#endif
