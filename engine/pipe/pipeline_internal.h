/* What pipeline.c and the synchronisations in sync/ share: stages, workers, the gate, a job.
 *
 * A task is found by looking: a worker goes through its stages from the most downstream to the most upstream and takes the first
 * thing that is ready. Every change that can make something ready is followed by a ring of the bell of those who may be waiting
 * for it. Nothing is decided by who is faster but the order of work; what is added to what in which order is fixed:
 *
 *   backward passes of a lane   go to one seat of a stage, in order of micro-batch, and one at a time
 *   updates                     are cut by element
 *   losses, step_done, sinks    are collected by number and told in order                                            */
#ifndef HETERPS_ENGINE_PIPE_PIPELINE_INTERNAL_H
#define HETERPS_ENGINE_PIPE_PIPELINE_INTERNAL_H

#include "engine/base/bell.h"
#include "engine/base/claim.h"
#include "engine/base/ring.h"
#include "engine/pipe/pipeline.h"
#include "engine/pipe/placement.h"

struct worker;
struct wsp;

/* A replica's place: lane l goes to seat l % seat_count. Its forward passes may be taken by any replica, several at a time, its backward
 * passes one at a time. */
struct seat {
    struct ring forward, backward;
    struct claim claim;
};

/* Work that is cut in parts: each worker that comes takes the next. */
struct parts {
    _Alignas(64) _Atomic uint32_t shared_next; /* >= the number of parts: none to take */
    _Atomic uint32_t shared_left;              /* that are not done                     */
    _Atomic uint64_t shared_taken;             /* of several cards: by which of them    */
};

/* A run of parameters that one dense update of the graph changes. */
struct param_run {
    uint32_t update;
    uint64_t offset, count; /* floats */
};

/* One stage of one pipeline. */
struct stage {
    /* set once */
    uint32_t index, pipeline_index;
    bool is_first, is_last;
    uint32_t forward_begin, forward_end, backward_begin, backward_end; /* nodes                               */
    char name[64];                                                     /* "e..x": its layers                  */
    struct stage *next, *before;       /* NULL at the ends                                                           */
    struct bell *bell;                 /* of the workers that serve it                                               */
    uint32_t worker_count, core_count; /* of these                                                             */
    struct seat *seats;
    uint32_t seat_count;
    struct param_run *runs; /* what its updates change: parameters and …                                       */
    uint32_t run_count;
    uint32_t *tables; /* … tables that no stage before it looks up                                             */
    uint32_t table_count;
    bool looks_up;
    const struct device_kind *kind;
    struct device_stage *devices; /* what its devices share, or NULL */
    uint32_t replica_count;
    const struct resource_slow *slow; /* on cpu and slowed, or NULL                                          */
    struct claim *turn; /* wsp, asp: one task at a time; pipelines share those of stages that look up          */
    uint32_t block_begin, block_count; /* of the pipeline's blocks: its own parameters                       */
    uint32_t part_count;               /* of sum and update                                                  */
    /* bsp: backward passes of the step that are still to come; then, if the norm is bounded, the sums of gradients; then the update */
    _Alignas(64) _Atomic uint32_t shared_backward_left;
    struct parts sum, update;
};

/* A worker's own counts, of one stage. */
struct stage_times {
    uint64_t task_count[WORK_COUNT], busy_ns[WORK_COUNT];
    uint64_t forward_pushes, forward_depth_sum, backward_pushes, backward_depth_sum; /* into this stage         */
};

enum task_kind { TASK_NONE, TASK_FORWARD, TASK_BACKWARD, TASK_SUM, TASK_UPDATE, TASK_QUIT };
struct task {
    enum task_kind kind;
    struct stage *stage;
    struct slot *slot; /* forward, backward                                                                     */
    struct seat *seat; /* backward                                                                              */
    uint32_t part;     /* sum, update                                                                           */
};

struct worker {
    /* set once */
    struct pipeline *pipeline;
    const struct placement_worker *place;
    uint32_t index;
    uint32_t seat;         /* where it looks first, modulo the stage's seats: lanes advance side by side            */
    struct stage **stages; /* that it serves, in the order in which it looks                                    */
    uint32_t stage_count;
    struct device *device;
    bool spins;       /* before it sleeps                                                                   */
    bool slow_varies; /* of a pool: its stages are not all as fast                                          */
    struct bell *bell;
    pthread_t thread;
    char name[48];
    /* its own */
    struct task task;
    uint32_t pipeline_next;    /* of a pool: whose tasks of a stage it looks at first, for pipelines take turns   */
    bool saw_starved;          /* at some look of this wait the gate could have let a slot in, and there was none */
    struct stage_times *times; /* [stage_count of the plan]                                                     */
    float **grad;              /* [lanes * uses]: scratch of an update                                          */
    uint64_t wait_begin_ns, wait_ns, starved_ns;
    uint64_t updated_ns;  /* of the running task: spent on an update after its backward pass */
    uint64_t delay_count; /* tasks delayed so far                                            */
    /* seen by the main thread */
    _Alignas(64) _Atomic bool shared_is_busy;
};

/* Collects what finishes in any order and hands it on in the order of admission. */
struct order {
    _Atomic uint32_t *shared_cells; /* [cell_count]: slot index + 1 of number n at n % cell_count; 0: not there  */
    uint32_t cell_count;
    struct claim claim;
    _Atomic uint64_t shared_next; /* moved under the claim                                                       */
};

enum job_kind { JOB_NONE, JOB_TRAIN, JOB_FORWARD };

/* The step that is open, bsp. */
struct open_step {
    uint64_t step, epoch;
    uint32_t example_count, micro_count;
    const struct step_rows *rows; /* [table_count]                                                              */
    struct slot *last;
};

/* Decides which slot goes in next. */
struct gate {
    struct claim claim;
    /* under the claim */
    struct slot *held;     /* taken from the feed, not yet admitted                                                 */
    bool is_ended;         /* the feed has                                                                          */
    bool is_between_steps; /* the last slot that was let in ended its step                                          */
    uint64_t step_next;    /* that the next slot belongs to                                                        */
    uint64_t *sequence;    /* [lanes]: slots let in by this job; only bsp training counts lanes apart */
    uint32_t pipeline_next;
};

struct pipeline {
    /* set once */
    const struct graph *graph;
    struct model *model;
    const struct plan *plan;
    struct placement placement;
    struct arena arena;
    bool training;
    uint32_t sync;
    uint32_t in_flight; /* Nm, a pipeline                                                                       */
    uint32_t clock_distance;
    uint32_t pipeline_count, stage_count, lanes, micro_count;
    uint32_t slot_count;
    struct stage *stages; /* [pipeline_count, stage_count]                                                      */
    struct worker *workers;
    uint32_t worker_count, started_count;
    bool spins;
    struct device
        *host; /* where a stage is not on cpu: what the engine itself computes by, one thread at a time; else NULL */
    pthread_mutex_t host_lock;
    struct team *helped; /* by the thread of the job's feed: the only worker's, where it has all cores; or NULL  */
    struct bell *bells;  /* one a stage of a pipeline: of those who serve only it                                */
    uint32_t bell_count;
    struct bell *gate_bell; /* of the pool and of all first stages: the first of these, or the options'        */
    /* sums of gradients, zero between updates. bsp: a lane each; wsp, asp: a pipeline each, tables shared */
    struct arena gradients;
    float **param_grad;  /* [lanes or pipelines] of [grad_floats]                                               */
    float **table_grad;  /* [lanes or 1, lookup_count] of [step rows, dim]                                      */
    float **update_grad; /* the same pointers, table by table: [lane, use]                                      */
    uint32_t *update_grad_begin; /* [table_count]                                                               */
    uint32_t *use_count;         /* [table_count]                                                               */
    /* bounding the norm of the dense gradients (graph/clip.h); NULL and nothing where it is not */
    const struct graph_optimizer *clipped;
    struct param_block *blocks;
    uint32_t block_count;
    double *squares;             /* [pipeline_count, block_count] */
    float clip_scale;            /* bsp: of the step whose updates run */
    struct graph_alias *aliases; /* of all parameters                                                           */
    uint32_t alias_count;
    /* the job */
    enum job_kind job;
    struct feed *feed;
    uint64_t step_until, epoch_until;
    const struct train_job *train;
    forward_sink *sink;
    void *sink_context;
    bool is_check; /* pipeline_check's                                                                          */
    bool stashes;  /* the job's slots read parameters from their stash                                           */
    struct gate gate;
    struct open_step open;
    uint32_t ticket;           /* likewise: the number of its last one                                              */
    uint64_t *row_count;       /* [table_count]: of the step that closes                                           */
    double *loss;              /* [micro_count] bsp, [slot_count] wsp: sums over examples                          */
    struct order order;        /* forward job: predictions */
    struct order *lane_order;  /* [lanes] bsp: from the last stage's forward passes into its backward passes */
    uint64_t *sequence;        /* [slot_count]: number of admission; in bsp training, in its lane */
    uint32_t *slot_pipeline;   /* [slot_count]                                                                    */
    struct feed *feed_trained; /* of the last training job                                                      */
    struct slot *train_held;   /* what the gate held at its end                                                 */
    struct slot
        *kept; /* bsp: the last slot of the last step, for pipeline_check; given back when the next step closes */
    struct wsp *wsp;
    uint64_t wall_ns, job_begin_ns;
    uint64_t delay_seed;
    uint32_t delay_ns_max;
    /* shared */
    _Alignas(64) _Atomic bool shared_runs; /* a job runs: tasks may be taken                                    */
    _Atomic bool shared_closed, shared_stop, shared_done;
    _Atomic uint32_t shared_failure; /* status; the first one wins …                                            */
    _Atomic bool shared_failed;      /* … and sets this when its message stands                                 */
    char message[4096];
    struct bell main_bell;
    _Alignas(64) _Atomic uint32_t shared_in_flight;   /* slots admitted and not given back                        */
    _Alignas(64) _Atomic uint64_t shared_open_step;   /* bsp: whose slots the gate admits                         */
    _Alignas(64) _Atomic uint32_t shared_stages_left; /* bsp: that have not yet updated                         */
    _Alignas(64) _Atomic uint32_t shared_sums_left;   /* bsp: stages that have not yet summed their gradients   */
    struct stage_figures *figures;
};

/* A worker's thread: takes tasks until the pipeline is closed. */
void *pipeline_worker(void *worker);
void stage_bell_ring(struct stage *stage);
void pipeline_bells_ring(struct pipeline *p);
/* Gives a slot back to the feed, and room to the gate. */
void slot_give(struct pipeline *p, struct slot *slot);
/* What an update of a stage works on; part `part` of `parts` of it. */
struct stage_update {
    float *param, *state;         /* whole arrays, as the model's                                                  */
    float *const *param_grad;     /* [lanes]: whole arrays                                                         */
    uint32_t lanes;               /* also of table_grad                                                            */
    const struct step_rows *rows; /* [table_count]                                                              */
    uint32_t example_count;       /* of the step                                                                   */
    uint64_t t;                   /* updates including this one                                                    */
    float clip_scale;             /* of updates whose norm is bounded: their sums are in the first lane            */
    uint32_t part, parts;
};
MUST_USE status stage_update_run(struct worker *w, const struct stage *stage, const struct stage_update *update);
/* Adds the lanes of part `part` of `parts` of the stage's blocks up into the first one, and fills their squares. */
MUST_USE status stage_sum_run(struct worker *w, const struct stage *stage, const struct stage_update *update);

/* --- engine/sync/bsp.c ------------------------------------------------------------------------ */

/* Opens the first step of a job. */
void bsp_begin(struct pipeline *p);
/* Whether the gate may let this slot in; if it may, everything is ready for it. */
bool bsp_admit(struct pipeline *p, struct slot *slot);
/* After a backward pass of the slot at the stage: opens the stage's update when it was the step's last one. */
void bsp_backward_done(struct pipeline *p, struct stage *stage, struct slot *slot);
/* Takes a part of what the stage has to sum or to update: fills the task. */
bool bsp_part_take(struct pipeline *p, struct stage *stage, uint32_t seat, struct task *task);
MUST_USE status bsp_sum_run(struct worker *w, struct stage *stage, uint32_t part);
MUST_USE status bsp_update_run(struct worker *w, struct stage *stage, uint32_t part);

/* --- engine/sync/wsp.c ------------------------------------------------------------------------ */

MUST_USE status wsp_open(struct pipeline *p);
void wsp_close(struct pipeline *p);
void wsp_begin(struct pipeline *p);
/* After a job: all pipelines' parameters become the model's. No thread is at work. */
void wsp_settle(struct pipeline *p);
/* As bsp_admit; chooses the pipeline. */
bool wsp_admit(struct pipeline *p, struct slot *slot);
/* Before a forward pass: takes in what other pipelines have sent, fills the stash, measures staleness. */
void wsp_forward_begin(struct pipeline *p, struct stage *stage, struct slot *slot);
/* After a backward pass: updates, and at the end of a wave sends. */
MUST_USE status wsp_backward_done(struct worker *w, struct stage *stage, struct slot *slot);
/* After the slot's last backward pass. */
void wsp_slot_done(struct worker *w, struct slot *slot);
void wsp_figures(const struct pipeline *p, struct pipeline_figures *figures);

#endif
