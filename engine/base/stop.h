/* SIGINT and SIGTERM ask every run that listens to stop after the current step; a second one ends the process
 * at once. A run is a scope (scope.h): what is called here acts on that of the calling thread. */
#ifndef HETERPS_ENGINE_BASE_STOP_H
#define HETERPS_ENGINE_BASE_STOP_H

#include <stdbool.h>

struct scope;

/* Installs the handlers, which run on the main thread: all others block signals. From now on signals ask this
 * scope, and one that has come already has asked. May be called again, to wake something else. While the run
 * has not ended, `wake` is called a second after it was first asked from a handler (so it may only use atomics
 * and futexes): it unblocks a thread that waits for input, and returns true; or false if nothing is stuck, to
 * be asked again a second later. NULL: nothing to wake. When this returns, no handler calls the `wake` before
 * it. */
void stop_listen(bool (*wake)(void *context), void *context);
/* SIGINT and SIGTERM are another's, who asks scopes as it sees fit: stop_listen leaves their handlers alone from now
 * on. Before threads. */
void stop_signals_leave(void);
/* Asks that scope alone, as the signal would. */
void stop_ask(struct scope *scope, int signal);
bool stop_requested(void);
/* The signal that asked, or 0. */
int stop_signal(void);

#endif
