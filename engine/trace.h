/* What every thread did when, as a file that chrome://tracing and Perfetto read (--trace FILE). A thread writes records into a
 * ring of its own; the main thread drains the rings into the file a few times a second, so a thread never waits: where its ring
 * is full the record is dropped and counted, and the file's last event says how many were.
 *
 * Without --trace a thread has no ring, and trace_span is one test of a thread-local pointer. */
#ifndef HETERPS_ENGINE_TRACE_H
#define HETERPS_ENGINE_TRACE_H

#include <stdbool.h>

#include "engine/base/clock.h"
#include "engine/base/status.h"

/* Categories, as the file names them. */
#define TRACE_KINDS(X)                                                                                                 \
    X(FORWARD,                                                                                                         \
      "forward") /* a stage's forward list on a micro-batch                                                 */         \
    X(BACKWARD,                                                                                                        \
      "backward")       /* its backward list                                                                       */  \
    X(UPDATE, "update") /* its parameters and rows                                                                 */  \
    X(OP, "op")         /* one op of a list, by its name in the model                                              */  \
    X(WAIT, "wait")     /* nothing to do                                                                           */  \
    X(READ, "read")     /* reading and parsing one micro-batch                                                     */  \
    X(PREPARE,                                                                                                         \
      "prepare")    /* its keys: rows found or made, numbered within the step                                  */      \
    X(SAVE, "save") /* a checkpoint                                                                            */      \
    X(EVAL, "eval") /* an evaluation                                                                           */
enum trace_kind {
#define X(id, name) TRACE_##id,
    TRACE_KINDS(X)
#undef X
        TRACE_KIND_COUNT
};

/* Opens the file (IO if it cannot be written) and takes the memory of `thread_max` rings under the part "trace". Once a process;
 * before the threads start. */
MUST_USE status trace_open(const char *path, uint32_t thread_max);
/* Gives the calling thread a ring and a name in the file ("stage 0 worker 1"); nothing without trace_open. `name` is copied. */
void trace_thread(const char *name);
/* Writes out what the rings hold; main thread. IO: the disk is full or the like; the trace ends there, the run goes on. */
MUST_USE status trace_drain(void);
/* Drains, completes the file; after the threads have ended. Without trace_open: nothing. */
MUST_USE status trace_close(void);

struct trace_ring;
extern _Thread_local struct trace_ring *trace_mine;
void trace_put(enum trace_kind kind, const char *name, uint64_t begin_ns, uint64_t end_ns, uint64_t step,
               uint32_t micro);

static inline bool trace_is_on(void) { return trace_mine != NULL; }
/* `name` must outlive the trace. Times are of clock_ns. */
static inline void trace_span(enum trace_kind kind, const char *name, uint64_t begin_ns, uint64_t end_ns, uint64_t step,
                              uint32_t micro)
{
    if (trace_mine) trace_put(kind, name, begin_ns, end_ns, step, micro);
}

#endif
