/* What the files of a pipeline share: stations, workers, the gate, a job.
 *
 * A task is found by looking: a worker goes through its stations from the most downstream to the most
 * upstream one and takes the first task that is ready. After every change that can make a task ready, the
 * bell of the workers that may wait for it is rung. Which thread is faster decides the order of work, and
 * nothing else; the order of every addition is fixed:
 *
 *   backward passes of a lane   go to one seat of a stage, in order of micro-batch, and one at a time (order_put of
 *                               task.c, backward_take of pipeline.c)
 *   updates                     are cut by element
 *   losses, step_done, sinks    are collected by number and told in order */
#ifndef HETERPS_ENGINE_PIPE_PIPELINE_INTERNAL_H
#define HETERPS_ENGINE_PIPE_PIPELINE_INTERNAL_H

#include "engine/base/claim.h"
#include "engine/pipe/hop.h"
#include "engine/pipe/hops.h"
#include "engine/pipe/pipeline.h"
#include "engine/pipe/placement.h"

struct worker;

/* Where the workers of one stage of one pipeline work. A seat is a replica's: lane l goes to seat l %
 * seat_count. Any replica may take a seat's forward passes, several at a time; its backward passes are taken
 * one at a time, under its claim. */
struct station {
    /* set once */
    struct stage stage;
    struct station *next, *before; /* NULL at the ends; may be on another node */
    struct hop forward, backward;  /* into it                                */
    struct claim *seat_claims;     /* [seat_count]: of backward passes       */
    uint32_t seat_count;
    uint32_t worker_count, core_count;
    struct device_stage *devices;     /* what its devices share, or NULL                                              */
    const struct resource_slow *slow; /* slowed, or NULL                                                              */
    /* where steps have no lanes: one task at a time; stages of several pipelines that look up share one */
    struct claim *turn;
};

/* A worker's own counts, of one stage. */
struct stage_times {
    uint64_t task_count[WORK_COUNT];
    _Atomic uint64_t shared_busy_ns[WORK_COUNT];                                     /* read while it works */
    uint64_t forward_pushes, forward_depth_sum, backward_pushes, backward_depth_sum; /* into this stage */
};

enum task_kind { TASK_NONE, TASK_FORWARD, TASK_BACKWARD, TASK_PART, TASK_QUIT };
struct task {
    enum task_kind kind;
    struct station *station;
    struct slot *slot;     /* forward, backward                     */
    uint32_t seat;         /* backward: whose claim is held         */
    struct sync_part part; /* of what is summed or updated          */
};

struct worker {
    /* set once */
    struct pipeline *pipeline;
    const struct placement_worker *place;
    uint32_t index;
    uint32_t seat;             /* where it looks first, modulo the stage's seats: lanes advance side by side */
    struct station **stations; /* which it serves, in the order in which it looks                             */
    uint32_t station_count;
    struct device *device;
    struct device *host;    /* updates in its place, where the stage has copies (stage_has_copies); or NULL */
    struct updater updater; /* by one of these                                 */
    bool spins;             /* before it sleeps                                */
    bool slow_varies;       /* of a pool: its stages are not all as fast       */
    struct bell *bell;
    pthread_t thread;
    char name[48];
    /* its own */
    struct task task;
    uint32_t pipeline_next;    /* of a pool: the pipeline whose tasks of a stage it looks at first: they take turns */
    bool saw_starved;          /* at a look of this wait the gate could have let a slot in, and had none           */
    struct stage_times *times; /* [stage_count of the plan]                                                       */
    uint64_t wait_begin_ns, wait_ns, starved_ns;
    uint64_t updated_ns;  /* of the running task: spent on an update after its backward pass */
    uint64_t awaited_ns;  /* likewise: on waiting for what it reads                          */
    uint64_t delay_count; /* tasks delayed so far                                            */
    /* seen by the main thread */
    _Alignas(64) _Atomic bool shared_is_busy;
};

/* Collects what finishes in any order and hands it on in the order of admission. */
struct order {
    _Atomic uint32_t *shared_cells; /* [cell_count]: slot index + 1 of number n at n % cell_count; 0: not there  */
    uint32_t cell_count;
    struct claim claim;
    _Atomic uint64_t shared_next; /* moved under the claim */
};

enum job_kind { JOB_NONE, JOB_TRAIN, JOB_FORWARD };

/* Decides which slot goes in next. */
struct gate {
    struct claim claim;
    /* under the claim */
    struct input *held;    /* taken from the feed, not yet admitted                             */
    bool is_ended;         /* the feed has                                                      */
    bool is_between_steps; /* the last slot that was let in ended its step                      */
    uint64_t step_next;    /* that the next slot belongs to                                     */
    /* [lanes]: slots let in by this job that end in the last stage here; only training by lane counts lanes
     * apart */
    uint64_t *sequence;
};

struct pipeline {
    /* set once */
    struct sync_host host; /* first: a struct sync_host * is a struct pipeline * */
    const struct graph *graph;
    struct model *model;
    const struct plan *plan;
    struct placement placement;
    struct arena arena;
    struct sync *sync;         /* training; else NULL */
    struct exchange *exchange; /* with other nodes, or NULL */
    struct hops *hops;         /* where stages lie on several nodes, or NULL */
    bool by_lane;              /* sync_vt's; true where nothing is trained */
    bool spins;
    bool spins_idle; /* also a worker that has no task */
    /* Nm, a pipeline; before it is bounded by what this node has of a step */
    uint32_t in_flight, plan_in_flight;
    uint32_t pipeline_count, stage_count, lanes, micro_count;
    uint32_t readers, input_count; /* of a feed for it               */
    uint32_t slot_count;           /* as many as there are in flight */
    struct slot *slots;
    struct ring slots_free;
    struct arena slots_arena;
    struct station *stations; /* [pipeline_count, stage_count] */
    struct stage **stages;    /* likewise: theirs              */
    struct worker *workers;
    uint32_t worker_count, started_count;
    /* where a stage has no cores: the engine's own device, one thread at a time; else NULL */
    struct device *device;
    pthread_mutex_t device_lock;
    struct team *helped; /* by the thread of the job's feed: the only worker's team, where it has all cores; or NULL */
    struct bell *bells;  /* one a station: of workers that serve it alone                                            */
    uint32_t bell_count;
    struct bell *gate_bell; /* of the pool and of all first stages: the first of these, or the options'          */
    struct stage_figures *figures;
    /* the job */
    enum job_kind job;
    struct feed *feed;
    uint64_t step_until, epoch_until;
    const struct train_job *train;
    forward_sink *sink; /* NULL: another thread takes what comes out (pipeline_out_await) */
    void *sink_context;
    /* pipeline_check's */
    bool is_check;
    struct exchange_look *check_look; /* with other nodes' tables: the present rows of `kept`; else NULL */
    struct key_numbers *check_numbers;
    struct gate gate;
    struct order order;        /* forward job: predictions                                                         */
    struct order *lane_order;  /* [lanes] by lane: from the last stage's forward passes into its backward passes   */
    uint64_t *sequence;        /* [slot_count]: number by gate.sequence                                            */
    struct feed *feed_trained; /* of the last training job                                                         */
    struct input *train_held;  /* what the gate held at its end                                                    */
    /* of the last slot of the last step, for pipeline_check; given back when the next step ends */
    struct input *kept;
    uint64_t wall_ns, job_begin_ns;
    uint64_t delay_seed;
    uint32_t delay_ns_max;
    /* shared */
    _Alignas(64) _Atomic bool shared_runs; /* a job runs: tasks may be taken                                    */
    _Atomic bool shared_closed, shared_stop, shared_done;
    _Atomic uint32_t shared_failure; /* status; the first one wins …                                            */
    _Atomic bool shared_failed;      /* … and sets this when its message stands                                 */
    struct failure failure;
    struct bell main_bell, out_bell;
    _Alignas(64) _Atomic uint32_t shared_in_flight; /* slots admitted and not given back                        */
};

/* --- pipeline.c ------------------------------------------------------------------------------- */

/* A worker's thread: takes tasks until the pipeline is closed. */
void *pipeline_worker(void *worker);
void pipeline_bells_ring(struct pipeline *p);
/* For the gate: the first stages of all pipelines have one bell. */
static inline void pipeline_gate_ring(struct pipeline *p) { bell_ring(p->gate_bell); }
/* After a job, also a failed one: what devices with memory of their own have goes back to the host. The host
 * then has it as of the last update, or this fails and says that the host does not. */
MUST_USE status pipeline_devices_settle(struct pipeline *p);
/* The first stage here that a micro-batch comes to; stage_count: none. Where nodes share
 * steps one without examples comes to none. */
uint32_t pipeline_entry(const struct pipeline *p, const struct micro_batch *m);
/* Gives a slot to a stage, for its forward pass. */
void station_forward_give(struct worker *w, struct station *station, struct slot *slot);
void station_backward_give(struct worker *w, struct station *station, struct slot *slot);
/* struct hops_options' give. */
void pipeline_hop_arrives(void *pipeline, uint32_t stage, enum hops_way way, uint32_t slot);
/* Which of the gate's counters numbers this micro-batch. */
uint32_t pipeline_sequence_lane(const struct pipeline *p, const struct micro_batch *m);

/* --- task.c ----------------------------------------------------------------------------------- */

/* Runs the worker's task, and hands its slot on. */
void task_run(struct worker *w);
/* Tells another of the station's pipelines that it may have a task. */
void station_turn_give(struct pipeline *p, struct station *station);
void order_reset(struct order *order);
/* The next slot in the order, or NULL; by one thread at a time. */
struct slot *order_take(struct pipeline *p, struct order *order);
/* What a synchronisation calls. */
extern const struct sync_host pipeline_sync_host;

#endif
