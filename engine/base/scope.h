/* What each run has for itself where a process does several, as a server of two models would: a plan of
 * memory (memory.h), the format and events of its log (log.h), a stop (stop.h), and whether it is in steady
 * state (steady.h). A thread works for one scope at a time, and its calls of these four act on this scope.
 *
 *     main thread     the process's first scope ── scope_enter(b) ── b ── thread_start ── b ── scope_enter(first) ── …
 *     the new thread                                                      └── b …
 *
 * A process with one run calls nothing here. Signals, standard output, standard error and the
 * machine's limits belong to the process. */
#ifndef HETERPS_ENGINE_BASE_SCOPE_H
#define HETERPS_ENGINE_BASE_SCOPE_H

#include "engine/base/status.h"

struct scope;

/* A new scope: nothing planned, log in text, not asked to stop. Yours until scope_close; NULL after a failure
 * (MEMORY). */
MUST_USE status scope_open(struct scope **scope);
/* After its threads have ended and its blocks are given back. No thread may work for it any more. */
void scope_close(struct scope *scope);
/* The calling thread works for `scope` from now on. Returns the scope before, which stays as it is. */
struct scope *scope_enter(struct scope *scope);

#endif
