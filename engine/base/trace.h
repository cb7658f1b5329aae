/* What every thread did when, as a file that chrome://tracing and Perfetto read (--trace FILE). A thread
 * writes records into a ring of its own; the main thread drains the rings into the file a few times a
 * second. So a thread never waits: if its ring is full, the record is dropped and counted, and the file's
 * last event says how many were dropped.
 *
 * Without --trace a thread has no ring, and trace_span is one test of a thread-local pointer.
 *
 * The file is an array of events in Chrome's trace event format, a line each:
 *
 *     [
 *     {"name":"process_name","ph":"M","pid":1,"args":{"name":"heterps-run"}},
 *     {"name":"thread_name","ph":"M","pid":1,"tid":2,"args":{"name":"stage 0 worker 1"}},
 *     {"name":"h1","cat":"op","ph":"X","ts":1234.567,"dur":89.012,"pid":1,"tid":2,"args":{"step":7,"micro":3}},
 *     {"name":"trace end","cat":"trace","ph":"i","s":"g","ts":…,"pid":1,"tid":1,
 *      "args":{"dropped_records":0,"untraced_threads":0}}
 *     ]
 *
 * ts and dur are microseconds, ts since trace_open, or node 0's; tid numbers the threads from 1 in the order
 * of trace_thread. The file is an array and not an object with "traceEvents", because viewers forgive the
 * missing end of an array: they can show what kill -9 leaves.
 *
 * Cost, measured by tests/bench/trace_bench.c on one core of an EPYC: a span without --trace 0.6 ns;
 * with it 4 ns, an op and its reading of the clock 30 ns; and for the main thread 105 ns and 109
 * bytes of the file for each. At 20 records a micro-batch of 1 ms that is 0.06 % of the worker and
 * 0.2 % of the core that writes. */
#ifndef HETERPS_ENGINE_BASE_TRACE_H
#define HETERPS_ENGINE_BASE_TRACE_H

#include <stdbool.h>

#include "engine/base/clock.h"
#include "engine/base/status.h"

/* Categories, as the file names them.
 *
 *   forward, backward   a stage's list of ops on a micro-batch
 *   update              its parameters and rows
 *   op, op backward     one op of a list, by its name in the model; lies within the list's span
 *   wait                nothing to do
 *   read                reading and parsing one micro-batch
 *   prepare             its keys: rows found or made, numbered within the step
 *   exchange            a round of a step between nodes, from its own part to the last of the others': sums,
 *                       squares, values
 *   save                a checkpoint
 *   eval                an evaluation */
#define TRACE_KINDS(X)                                                                                                 \
    X(FORWARD, "forward")                                                                                              \
    X(BACKWARD, "backward")                                                                                            \
    X(UPDATE, "update")                                                                                                \
    X(OP, "op")                                                                                                        \
    X(OP_BACKWARD, "op backward")                                                                                      \
    X(WAIT, "wait")                                                                                                    \
    X(READ, "read")                                                                                                    \
    X(PREPARE, "prepare")                                                                                              \
    X(EXCHANGE, "exchange")                                                                                            \
    X(SAVE, "save")                                                                                                    \
    X(EVAL, "eval")
enum trace_kind {
#define X(id, name) TRACE_##id,
    TRACE_KINDS(X)
#undef X
        TRACE_KIND_COUNT
};

/* Records that a thread may write between two drains: 10^5 a second for 0.65 s. */
#define TRACE_RING_RECORDS 65536u

/* Opens the file (IO if it cannot be; a full disk shows at the first drain) and takes the memory of
 * `thread_max` rings (2.5 MiB each) under the part "trace" (MEMORY). The file keeps its contents until the
 * first drain. Before the threads start; again only after trace_close. Keeps `path` until trace_close. */
MUST_USE status trace_open(const char *path, uint32_t thread_max);
/* Makes sure of rings for `thread_count` further threads; there are 4,096 at most. Main thread, before these
 * threads start. Without trace_open: nothing. MEMORY. */
MUST_USE status trace_room(uint32_t thread_count);
/* For one of several nodes: each node has a file of its own, PATH.RANK, in which it is a process of its own.
 * This node has this rank. After trace_open, before all else. */
void trace_node(uint32_t rank);
/* When the trace was begun, by CLOCK_REALTIME; 0: there is none. */
uint64_t trace_begin_real_ns(void);
/* Makes the files of a job's nodes fit together, as trace_merge needs it: from now on times are since
 * `begin_real_ns` of node 0, whose clock is `ahead_ns` ahead of this node's, within `within_ns`. Before the
 * first drain, main thread; the file says so in an event:
 *
 *     {"name":"clock","cat":"trace","ph":"M","pid":3,"args":{"job":"18a9c3…","ranks":"7","within_us":21.300}} */
struct trace_clock {
    uint64_t begin_real_ns;
    int64_t ahead_ns;
    uint64_t within_ns;
    uint64_t ranks; /* bit r: rank r takes part */
};
void trace_align(const struct trace_clock *clock);
/* Joins PATH.0, PATH.1, … of a job, one after another, to PATH, event by event, in little memory.
 * Waits for each file to be complete, up to `wait_ns` for all. `is_lenient`: warns of a missing
 * file, and leaves a PATH.0 of another job alone; else both fail with IO, INVALID or MISMATCH. Also
 * fails as file_writer does (IO). */
MUST_USE status trace_merge(const char *path, uint64_t wait_ns, bool is_lenient);
/* Gives the calling thread a ring and a name in the file ("stage 0 worker 1") until the thread ends.
 * Does nothing without trace_open, or if the thread has a ring. `name` is copied, cut to 63 bytes. A
 * thread that has ended leaves its ring to the next one of the same name (an evaluation's reader to the
 * next evaluation's). Threads beyond the room are counted, but not traced. From any thread, at any
 * time; neither allocates nor waits. */
void trace_thread(const char *name);
/* Writes out the records in the rings; main thread; neither allocates nor locks. IO, told once: the disk is
 * full or the like; the trace then ends with its last whole event, and the run goes on. */
MUST_USE status trace_drain(void);
/* The same, where a failure is only a warning: the message of a failure that is on its way up stays. */
void trace_tell(void);
/* Drains, completes the file, warns if it lacks records; main thread, after the threads have ended. IO as
 * trace_drain. Gives the memory back, unless a thread that was traced has not ended. Without trace_open:
 * nothing. An old file stays as it is if there was no drain and no trace_align. */
MUST_USE status trace_close(void);
/* Whether the last trace has replaced what was in its file; also after trace_close. */
bool trace_has_events(void);

struct trace_ring;
extern _Thread_local struct trace_ring *trace_mine;
/* Only where trace_is_on(). */
void trace_put(enum trace_kind kind, const char *name, uint64_t begin_ns, uint64_t end_ns, uint64_t step,
               uint32_t micro);

static inline bool trace_is_on(void) { return trace_mine != NULL; }
/* `name` must exist until the next trace_drain (or trace_close) that begins afterwards has ended: code that
 * frees names, of a graph or of stages, drains first. Times are of clock_ns, begin_ns <= end_ns. */
static inline void trace_span(enum trace_kind kind, const char *name, uint64_t begin_ns, uint64_t end_ns, uint64_t step,
                              uint32_t micro)
{
    if (trace_mine) trace_put(kind, name, begin_ns, end_ns, step, micro);
}

#endif
