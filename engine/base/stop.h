/* SIGINT and SIGTERM ask the run to stop after the current step; a second one ends the process at once. */
#ifndef HETERPS_ENGINE_BASE_STOP_H
#define HETERPS_ENGINE_BASE_STOP_H

#include <stdbool.h>

/* Installs the handlers, which run on the main thread: all others block signals. May be called again, to wake something
 * else. While the run has not ended, `wake` is called a second after the first signal from a handler (so it may only use
 * atomics and futexes): it unblocks a thread that waits for input, and returns true; or false if nothing is stuck, to be
 * asked again a second later. NULL: nothing to wake. */
void stop_listen(bool (*wake)(void *context), void *context);
bool stop_requested(void);
/* The signal that asked, or 0. */
int stop_signal(void);

#endif
