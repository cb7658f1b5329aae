/* The pipeline runs a graph as its plan says: every stage of the plan is a set of workers (a worker is a thread
 * that leads a gang of cores and owns a device), slots travel between them on rings, and nothing in it waits
 * for a lock.
 *
 *            gate          stage 0                    stage 1                     stage 2
 *   feed ──▶ admits ──▶ ( forward ) ──ring──▶ ( forward ) ──ring──▶ ( forward, loss ) ─┐
 *            a slot  ◀─ ( backward ) ◀──ring── ( backward ) ◀──ring── ( backward ) ◀───┘
 *            again         update                     update                      update
 *
 * A worker takes the most downstream task that is ready, backward before forward, oldest slot first; so each
 * stage falls into one forward, one backward by itself. What a task may start on, and what follows a backward
 * pass, is the synchronisation's (engine/sync/sync.h).
 *
 * Threads: one (the main thread) opens, runs jobs one after another and closes; it sleeps while a job runs and
 * is called back a few times a second. */
#ifndef HETERPS_ENGINE_PIPE_PIPELINE_H
#define HETERPS_ENGINE_PIPE_PIPELINE_H

#include "cfg/settings.h"
#include "engine/base/cores.h"
#include "engine/device/kind.h"
#include "engine/pipe/feed.h"
#include "engine/sync/sync.h"
#include "sched/plan.h"

struct pipeline;

struct pipeline_options {
    const struct graph *graph; /* kept, as is the model */
    struct model *model;
    const struct plan *plan; /* kept until close           */
    bool share;              /* stages share the cores, where the plan asks for more than there are          */
    const struct cores *cores;
    uint32_t core_count;     /* how many of them the stages may use                                              */
    uint32_t beside;         /* threads of others that are to answer on the cores, too: where they would have none of
                                  their own, who waits for an input leaves them its own at once                       */
    uint32_t readers;        /* threads that parse for its feed; 0: as its service cores allow                   */
    const char *isa;         /* as cpu_device_open's                                                             */
    uint64_t card_row_bytes; /* rows that stay on a card (engine/device/card/card_rows.h) */
    /* training only */
    bool training;
    uint32_t sync;             /* train.sync of cfg/settings.h                                                */
    uint32_t in_flight;        /* micro-batches in a pipeline at once (HetPipe's Nm); 0: as the plan needs      */
    uint32_t pipeline_count;   /* data-parallel pipelines (virtual workers); more than 1 under wsp and asp only */
    uint32_t clock_distance;   /* D, wsp                                                                        */
    bool is_exact;             /* wsp: nothing depends on timing                                                */
    bool is_bf16;              /* train.reduce, bsp; that of the exchange, too                                  */
    struct exchange *exchange; /* with the other nodes of a training, kept until close; NULL: there are none   */
    uint32_t input_count; /* 0: as the plan needs; else exactly these, of a feed that exists already: as many are in
                                flight as the plan wants and there are                                        */
    uint32_t worker_count_max; /* plans of up to so many workers may follow on the same feed: inputs for them too    */
    struct bell *feed_bell;    /* kept until close: what the feed rings (feed_bell_set), where it outlives the pipeline;
                                NULL: one of its own                                                          */
};

/* Opens devices, threads and memory. USAGE: the plan needs cores or devices that are not there, with the sum
 * and what to do; INVALID: plan, graph and sync do not fit together; MEMORY; SYSTEM. */
MUST_USE status pipeline_open(struct pipeline **pipeline, const struct pipeline_options *options);
void pipeline_close(struct pipeline *pipeline);
/* Before the feed that it has trained from is closed, and the pipeline is not: it trains no more. NULL is
 * ignored. Other feeds may be closed whenever no job of them runs. */
void pipeline_forget(struct pipeline *p);

/* What a pipeline leaves, between two jobs, to another that goes on with its feed: the inputs that it holds and
 * keeps. */
struct pipeline_rest {
    struct feed *feed; /* NULL: it has trained nothing */
    struct input *held, *kept;
};
/* `from` can then only be closed, which gives back its memory before another is opened. */
struct pipeline_rest pipeline_leave(struct pipeline *from);
/* The next job of `to`, which has trained nothing yet, takes that feed. Both are of the same graph, model and
 * sync, and `to` has as many inputs as the feed. The feed goes on ringing the bell that it has, so both were
 * opened with one feed_bell, which it rings. */
void pipeline_enter(struct pipeline *to, struct pipeline_rest rest);
/* Threads that parse for its feed. */
uint32_t pipeline_readers(const struct pipeline *pipeline);
/* Inputs that a feed for it needs. */
uint32_t pipeline_input_count(const struct pipeline *pipeline);
/* The bell that a feed for it rings (feed_bell_set). */
struct bell *pipeline_feed_bell(struct pipeline *pipeline);
/* A device on the CPU that is the pipeline's, for what the engine itself computes between jobs, and for names
 * in messages. */
const struct device *pipeline_device(const struct pipeline *pipeline);
/* The core of the feed's thread: of the service cores; where there are none and one gang has all others the
 * gang's last one, whose place in the gang it takes when it has no input to fill; or none if anywhere will do. */
const int *pipeline_feed_cores(const struct pipeline *pipeline, uint32_t *count);
/* The cores that further threads of reading may use: the service cores, or none if anywhere will do. */
const int *pipeline_service_cores(const struct pipeline *pipeline, uint32_t *count);

struct train_job {
    struct feed *feed; /* started */
    /* Steps below it are run; the others are left for the next job. On several nodes rank 0's counts for all, as does
     * anybody's tick: a job ends behind the same step everywhere. */
    uint64_t step_until;
    uint64_t epoch_until; /* likewise passes; 0: no bound                                              */
    /* Called by a worker when the last stage has run a slot's forward pass: what losses have written, and
     * inputs of theirs of at most two columns, are in its tensors. Several calls at a time; may not allocate or
     * wait. NULL: nobody asks. */
    void (*forward_done)(void *context, const struct slot *slot);
    /* Called by a worker after every step, one call at a time; may not allocate or wait. */
    void (*step_done)(void *context, const struct step_done *done);
    /* Called by the calling thread a few times a second; returns whether the job should stop after the current step. */
    bool (*tick)(void *context);
    void *context;
};
/* Runs steps until step_until or epoch_until, the end of the data, or a stop; the parameters are then those of
 * the last finished step, and all threads are idle. *is_end: the feed has ended, feed_result says how; the next
 * job of a pipeline takes the same feed. DIVERGED: a loss is not finite; the message names step and op. What a
 * device failed with. After a failure some stages may have updated for a step that others have not finished:
 * only closing is possible. */
MUST_USE status pipeline_train(struct pipeline *pipeline, const struct train_job *job, bool *is_end);
/* DIVERGED if the last micro-batch of the last step has no finite loss with the parameters as they are now: asked
 * before a save. Under wsp and asp no input is kept, and nothing is checked. Of several nodes all have to ask, and the
 * one that has that micro-batch is told. */
MUST_USE status pipeline_check(struct pipeline *pipeline);

/* For tests: every worker waits a random time, up to max_ns, before each task; 0: off. Between jobs. */
void pipeline_delay_set(struct pipeline *pipeline, uint64_t seed, uint32_t max_ns);

/* Called for every micro-batch in the order of the data, by a worker, one call at a time: what the graph's
 * heads have read and written (graph_head_next) is in the slot's tensors. */
typedef status forward_sink(void *context, const struct slot *slot);
/* Runs the forward pass over what a started look-up feed gives, to its end or to a stop (STOPPED if tick says so). */
MUST_USE status pipeline_forward(struct pipeline *pipeline, struct feed *feed, forward_sink *sink,
                                 bool (*tick)(void *context), void *context);

/* --- figures ---------------------------------------------------------------------------------- */

enum stage_work { WORK_FORWARD, WORK_BACKWARD, WORK_UPDATE, WORK_COUNT };
struct stage_figures {
    char name[64]; /* "e..x": its layers                                                          */
    const struct device_kind *kind;
    uint32_t worker_count; /* gangs that serve it: of its own, or all of a shared pool; streams of a card */
    uint32_t core_count;   /* cores of these; on sim the units that they imitate                          */
    uint32_t op_count;     /* that a micro-batch takes there, forward and backward                        */
    uint64_t task_count[WORK_COUNT];
    uint64_t busy_ns[WORK_COUNT]; /* summed over workers                                                   */
    uint64_t wait_ns;             /* its own workers' time without a task, summed; a shared pool's is told apart */
    /* the rings into it, forward and backward */
    uint32_t ring_cells;
    uint64_t forward_pushes, forward_depth_sum; /* slots that stood in the ring when another came, summed  */
    uint64_t backward_pushes, backward_depth_sum;
    /* moved across the cut behind it, both ways, by stages on cards and on sim (engine/device/sim/sim_device.h) */
    uint64_t cut_bytes;
    uint64_t other_bytes; /* moved by a card besides: columns of the data that no cut counts, losses, keys, cold rows */
    struct device_row_figures rows;
};
struct pipeline_figures {
    uint64_t wall_ns; /* of all training jobs                                                             */
    bool is_shared;
    bool rows_come_and_go; /* report.c: reading and stages wait for what rules of rows do at ends of steps  */
    uint32_t worker_count;
    uint64_t pool_wait_ns; /* of a shared pool's workers                                                   */
    uint32_t stage_count;  /* that are on this node */
    const struct stage_figures *stage;
    uint64_t starved_ns; /* the first stage had nothing to do because no input was ready                     */
    /* reading: the feed's thread */
    uint64_t read_ns, prepare_ns, read_wait_ns; /* parsing; rows; without a free input                      */
    struct sync_figures staleness;              /* without lanes */
    /* calls in steady state: engine/base/steady.h */
    uint64_t allocations, locks;
};
void pipeline_figures(const struct pipeline *pipeline, struct pipeline_figures *figures);
/* Of all workers, what they have done by now; a task under way is not in it. For the thread that runs the jobs, also
 * while one runs (struct train_job's tick). */
struct pipeline_times {
    uint64_t wall_ns;             /* of all training jobs */
    uint64_t busy_ns[WORK_COUNT]; /* summed over workers  */
    uint32_t worker_count;
};
void pipeline_times(const struct pipeline *pipeline, struct pipeline_times *times);

#endif
