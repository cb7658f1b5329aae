/* The pipeline runs a graph as its plan says. Every stage of the plan is a set of workers (a worker is a
 * thread that leads a gang of cores and owns a device); slots travel between them on rings, and nothing in
 * the pipeline waits for a lock.
 *
 *            gate          stage 0                    stage 1                     stage 2
 *   feed ──▶ admits ──▶ ( forward ) ──ring──▶ ( forward ) ──ring──▶ ( forward, loss ) ─┐
 *            a slot  ◀─ ( backward ) ◀──ring── ( backward ) ◀──ring── ( backward ) ◀───┘
 *            again         update                     update                      update
 *
 * A worker takes the most downstream task that is ready, backward before forward, oldest slot first; so each
 * stage settles into one forward, one backward. The synchronisation (engine/sync/sync.h) says what a task may
 * start on, and what follows a backward pass.
 *
 * One thread, the main thread, opens, runs jobs one after another and closes. While a job runs it sleeps, and
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
    uint32_t core_count; /* of these, how many the stages may use */
    /* Other threads that answer on the cores, too. Where they would have no cores of their own, a
     * worker without a task does not spin. */
    uint32_t beside;
    uint32_t readers;        /* threads that parse for the feed; 0: as the service cores allow                   */
    const char *isa;         /* as cpu_device_open's                                                             */
    uint64_t card_row_bytes; /* rows that stay on a card, of all its stages (engine/device/card/card_rows.h) */
    /* training only */
    bool training;
    uint32_t sync;             /* train.sync of cfg/settings.h                                                */
    uint32_t in_flight;        /* micro-batches in a pipeline at once (HetPipe's Nm); 0: as the plan needs      */
    uint32_t pipeline_count;   /* data-parallel pipelines (virtual workers); more than 1 under wsp and asp only */
    uint32_t clock_distance;   /* D, wsp                                                                        */
    bool is_exact;             /* wsp: nothing depends on timing                                                */
    bool is_bf16;              /* train.reduce, bsp; the exchange has the same                                  */
    struct exchange *exchange; /* with the other nodes of a training, kept until close; NULL: there are none  */
    /* 0: as the plan needs; else the inputs of a feed that exists already: as many are in flight as the plan
     * wants and the feed has */
    uint32_t input_count;
    uint32_t worker_count_max; /* inputs suffice for later plans on the same feed, of up to this many workers */
    /* kept until close: what the feed rings (feed_bell_set), where the feed outlives the pipeline; NULL: the
     * pipeline has a bell of its own */
    struct bell *feed_bell;
};

/* Opens devices, threads and memory. USAGE: the plan needs cores or devices that do not exist; says the sum
 * and what to do. INVALID: plan, graph and sync do not fit together. MEMORY; SYSTEM. */
MUST_USE status pipeline_open(struct pipeline **pipeline, const struct pipeline_options *options);
void pipeline_close(struct pipeline *pipeline);
/* Call before closing the feed of a pipeline that has trained from it and stays open: it trains no more. NULL
 * is ignored. Other feeds may be closed whenever no job runs on them. */
void pipeline_forget(struct pipeline *p);

/* What a pipeline leaves, between two jobs, to another pipeline that goes on with its
 * feed: the inputs that it holds. */
struct pipeline_rest {
    struct feed *feed; /* NULL: it has trained nothing */
    struct input *held, *kept;
};
/* Afterwards `from` can only be closed, which gives its memory back before another pipeline is opened. */
struct pipeline_rest pipeline_leave(struct pipeline *from);
/* The next job of `to`, which has trained nothing yet, takes this feed. Both pipelines have the same graph,
 * model and sync, and `to` has as many inputs as the feed. The feed goes on ringing its bell, so both must
 * have been opened with one feed_bell, the one that the feed rings. */
void pipeline_enter(struct pipeline *to, struct pipeline_rest rest);
/* Threads that parse for the pipeline's feed. */
uint32_t pipeline_readers(const struct pipeline *pipeline);
/* Inputs that a feed for this pipeline needs. */
uint32_t pipeline_input_count(const struct pipeline *pipeline);
/* The bell that a feed for this pipeline rings (feed_bell_set). */
struct bell *pipeline_feed_bell(struct pipeline *pipeline);
/* A CPU device of the pipeline, for what the engine computes between jobs, and for names in messages. */
const struct device *pipeline_device(const struct pipeline *pipeline);
/* The core of the feed's thread: a service core. Without service cores, if one gang has all cores, the
 * last core of the gang: the thread takes its place in the gang when it has no input to fill. Else
 * none: the thread runs anywhere. */
const int *pipeline_feed_cores(const struct pipeline *pipeline, uint32_t *count);
/* The cores that more threads of reading may use: the service cores; none: they run anywhere. */
const int *pipeline_service_cores(const struct pipeline *pipeline, uint32_t *count);

struct train_job {
    struct feed *feed; /* started */
    /* Steps below it are run; the others are left for the next job. On several nodes rank 0's value counts
     * for all, and so does any node's tick: a job ends after the same step everywhere. */
    uint64_t step_until;
    uint64_t epoch_until; /* likewise passes; 0: no bound                                              */
    /* Called by a worker when the last stage has run a slot's forward pass. The slot's tensors then hold
     * what losses have written, and their inputs of at most two columns. Several calls at a time; may not
     * allocate or wait. NULL: nobody asks. */
    void (*forward_done)(void *context, const struct slot *slot);
    /* Called by a worker after every step, one call at a time; may not allocate or wait. */
    void (*step_done)(void *context, const struct step_done *done);
    /* Called by the calling thread a few times a second; returns whether the job should
     * stop after the current step. */
    bool (*tick)(void *context);
    void *context;
};
/* Runs steps until step_until or epoch_until, the end of the data, or a stop. The parameters are then those
 * of the last finished step, and all threads are idle. *is_end: the feed has ended, and feed_result says how.
 * The pipeline's next job takes the same feed. DIVERGED: a loss is not finite; names step and op. Also fails
 * as devices fail. After a failure some stages may have updated for a step that others have not finished: the
 * pipeline can then only be closed. */
MUST_USE status pipeline_train(struct pipeline *pipeline, const struct train_job *job, bool *is_end);
/* DIVERGED: with the present parameters the last micro-batch of the last step has no finite loss. Called
 * before a save. Under wsp and asp no input is kept, and nothing is checked. All nodes must call it; only the
 * node that has this micro-batch fails. */
MUST_USE status pipeline_check(struct pipeline *pipeline);

/* For tests: every worker waits a random time, up to max_ns, before each task; 0: off. Between jobs. */
void pipeline_delay_set(struct pipeline *pipeline, uint64_t seed, uint32_t max_ns);

/* Called for every micro-batch in the order of the data, by a worker, one call at a time. The slot's tensors
 * hold what the graph's heads have read and written (graph_head_next). */
typedef status forward_sink(void *context, const struct slot *slot);
/* Runs the forward pass over all inputs of a started look-up feed,
 * to its end or to a stop (STOPPED: tick says so). `sink` NULL, where stages lie on nodes: a thread beside it
 * takes what comes out, and may wait for other nodes, which workers may not: they compute what other nodes
 * wait for. */
MUST_USE status pipeline_forward(struct pipeline *pipeline, struct feed *feed, forward_sink *sink,
                                 bool (*tick)(void *context), void *context);
/* By that thread: waits for the next micro-batch, in the order of the data, that the last stage here is
 * through with. NULL: *is_over is set; whoever sets it then calls pipeline_out_ring. */
const struct slot *pipeline_out_await(struct pipeline *pipeline, const _Atomic bool *is_over);
void pipeline_out_ring(struct pipeline *pipeline);
/* By that thread: the slot is taken, and makes its way back. */
void pipeline_out_give(struct pipeline *pipeline, const struct slot *slot);
/* By that thread, and by workers: ends the job with a failure of the calling thread, and its message. */
void pipeline_fail(struct pipeline *pipeline, status failure);

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
    /* moved across the cut after it, both ways, by stages on cards and on sim
     * (engine/device/sim/sim_device.h) */
    uint64_t cut_bytes;
    uint64_t other_bytes; /* moved by a card besides: columns of the data that no cut counts, losses, keys, cold rows */
    struct device_row_figures rows;
};
struct pipeline_figures {
    uint64_t wall_ns; /* of all training jobs                                                             */
    bool is_shared;
    bool rows_come_and_go; /* reading and stages wait at ends of steps for the rules of rows (report.c)     */
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
/* What all workers have done so far, without tasks under way. For the thread that runs the jobs, also during
 * a job (struct train_job's tick). */
struct pipeline_times {
    uint64_t wall_ns;             /* of all training jobs */
    uint64_t busy_ns[WORK_COUNT]; /* summed over workers  */
    uint32_t worker_count;
};
void pipeline_times(const struct pipeline *pipeline, struct pipeline_times *times);

#endif
