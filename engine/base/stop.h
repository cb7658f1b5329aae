/* SIGINT and SIGTERM ask every run that listens to stop after the current step. A second signal ends the
 * process at once, except a SIGTERM within a second of the first. A run is a scope (scope.h): calls here act
 * on the calling thread's scope. */
#ifndef HETERPS_ENGINE_BASE_STOP_H
#define HETERPS_ENGINE_BASE_STOP_H

#include <stdbool.h>

struct scope;

/* Installs the handlers, which run on the main thread: all others block signals. From now on signals ask this
 * scope; a signal that has come already has asked it. May be called again, to wake something else.
 * `wake`, if not NULL, is called from a handler a second after the first request, if the run has not ended:
 * so it may use only atomics and futexes. It unblocks a thread that waits for input, and returns true; or it
 * returns false if nothing is stuck, and is called again a second later. When stop_listen returns, no handler
 * calls the earlier `wake` any more. */
void stop_listen(bool (*wake)(void *context), void *context);
/* SIGINT and SIGTERM belong to other code, which asks scopes as it sees fit: from now on stop_listen leaves
 * their handlers alone. Before threads. */
void stop_signals_leave(void);
/* Asks this scope alone, as the signal would. */
void stop_ask(struct scope *scope, int signal);
bool stop_requested(void);
/* The signal that has asked, or 0. */
int stop_signal(void);

#endif
