/* A synchronisation says when a micro-batch may start, which parameters it reads, where its gradients are
 * added and what follows a backward pass. Two contracts join it to the pipeline:
 *
 *     pipeline ──sync_vt──▶ synchronisation    admit a slot; before a forward pass; within and after a backward pass;
 *                                              parts of what is summed and updated
 *     pipeline ◀─sync_host─ synchronisation    a slot is done; a step is done; rows go
 *
 *   bsp        all examples of a step read the same parameters; a lane's gradients are added in order of
 *              micro-batches; the next step is admitted when every stage has updated. One result, whatever plan,
 *              threads, slots and timing.
 *   wsp, asp   engine/sync/wsp.h: each minibatch updates the parameters that the next finds; staleness is bounded
 *              (wsp) and measured.
 *
 * To add one: its word, its line in engine/sync/syncs.def, its file. */
#ifndef HETERPS_ENGINE_SYNC_SYNC_H
#define HETERPS_ENGINE_SYNC_SYNC_H

#include "engine/base/bell.h"
#include "engine/device/kind.h"
#include "engine/slot/slot.h"
#include "engine/slot/step_update.h"
#include "engine/sync/exchange.h"
#include "graph/clip.h"

/* What everybody may know of a stage of a pipeline. Set once. */
struct stage {
    uint32_t index, pipeline_index;
    /* A plan's stages may lie on several nodes. is_first: the first stage that is here; is_last:
     * the graph's last layers are here. */
    bool is_here, is_first, is_last;
    /* Other nodes have other lanes, or slices of its parameters: sums and values travel. Where stages lie
     * on nodes, this node's lanes; else all. */
    bool is_shared;
    struct fold_lanes lanes;
    char name[64]; /* "e..x": its layers */
    struct extent extent;
    const struct device_kind *kind;
    uint32_t replica_count;
    struct bell *bell; /* of its workers */
};

/* A finished step, told in order. Under wsp and asp a minibatch. */
struct step_done {
    uint64_t step, epoch;
    uint32_t example_count;
    double loss_sum;
    const uint64_t *row_count; /* [table_count]: rows of the tables as of this step */
    uint32_t ticket;           /* number of its last ticket                         */
};

struct sync_figures {
    /* how many minibatches' updates the weights of a minibatch missed:
     * of its pipeline (local), of others (global) */
    bool has_staleness;
    uint64_t local_max, local_bound, global_max, global_bound; /* global_bound UINT64_MAX: none (asp) */
    double local_mean, global_mean;
};

/* What a synchronisation asks of the pipeline. Called by workers, in tasks or after them. */
struct sync_host {
    /* Nobody has the slot any more. */
    void (*slot_give)(struct sync_host *, struct slot *);
    /* slot_keep, in place of slot_give: the slot's input is kept until the next call (pipeline_check).
     * slot_out, when the next step is open: there is room for another slot. */
    void (*slot_keep)(struct sync_host *, struct slot *);
    void (*slot_out)(struct sync_host *);
    /* A step has ended, whose last slot this is: rows that are due go (feed_sweep);
     * row_count [table_count] are left. */
    status (*rows_sweep)(struct sync_host *, struct slot *, uint64_t *row_count);
    void (*step_done)(struct sync_host *, const struct step_done *);
    /* The job is over, by a failure outside of tasks. On the thread that has its message. */
    void (*fail)(struct sync_host *, status failure);
};

/* Where a synchronisation works. Kept until close. */
struct sync_site {
    const struct graph *graph;
    struct model *model;
    uint32_t kind;      /* enum of cfg/settings.h */
    uint32_t in_flight; /* Nm: micro-batches in a pipeline at once */
    uint32_t clock_distance;
    bool is_exact; /* wsp: the weights that minibatches read do not depend on timing */
    bool is_bf16;  /* bsp: sums of gradients are rounded (struct update) */
    uint32_t pipeline_count, stage_count, slot_count;
    struct stage *const *stages; /* [pipeline_count, stage_count] */
    struct sync_host *host;
    struct exchange *exchange; /* with other nodes; NULL: there are none */
};

/* A part of what a stage has to do between two steps. */
struct sync_part {
    uint32_t phase, bucket, index;
    uint64_t step;
};

/* What all synchronisations have. */
struct sync {
    const struct sync_vt *vt;
    struct sync_site site;
    struct fold_lanes lanes; /* that are added here */
    bool folds;              /* one worker adds them in order: their sums join as lanes end (engine/slot/fold.h) */
    /* 1: two neighbouring lanes share an entry, as each adds once to every float of it (graph_lanes_join):
     * the first to zeros, the second to the first's sum, as joining them would. Else 0. */
    uint32_t fold_shift;
    struct gradients gradients;
    /* bounding the norm of the dense gradients (graph/clip.h); NULL and 0 where no norm is bounded */
    const struct graph_optimizer *clipped;
    struct param_block *blocks; /* [block_count] */
    uint32_t block_count;
    double *squares; /* [pipeline_count, block_count] */
    struct arena arena;
};

struct sync_vt {
    /* Steps have lanes: gradients are added lane by lane, one seat runs a lane's backward passes in the order
     * of its micro-batches, and all passes read the same parameters. Else a stage does one task at a time,
     * and each minibatch in flight makes the weights of the next one staler. */
    bool by_lane;
    size_t bytes; /* of its struct, which begins with struct sync */
    /* INVALID: plan or graph do not allow it; MEMORY. */
    status (*open)(struct sync *);
    void (*close)(struct sync *);
    /* A job begins; no worker is at work. */
    void (*begin)(struct sync *);
    /* The job has ended well: the parameters of all become the model's; optional.
     * Fails as other nodes have failed. */
    status (*settle)(struct sync *);
    /* Whether the input may go in. If so it goes in, to *pipeline. Under the gate's claim, as is bind. */
    bool (*admit)(struct sync *, const struct input *, uint32_t *pipeline);
    /* Gives the slot, which has its input, what else it needs. */
    void (*bind)(struct sync *, struct slot *, uint32_t pipeline);
    /* Before a forward pass, under the stage's turn; optional. */
    void (*forward_begin)(struct sync *, const struct stage *, struct slot *);
    /* Keeps the sum of the losses of the slot's examples;
     * of several lanes (graph_lanes_join), of the `part`-th. */
    void (*loss_keep)(struct sync *, const struct slot *, uint32_t part, double sum);
    /* Where the first piece of the stage's list of nodes [begin, end) ends. Optional: without it lists are
     * not cut, and the next two functions are not called. */
    uint32_t (*piece_end)(const struct sync *, const struct stage *, uint32_t begin, uint32_t end);
    /* Before each piece of a list in training: waits until what its nodes read is there, or never will be;
     * returns nanoseconds; optional. */
    uint64_t (*piece_await)(struct sync *, const struct stage *, uint32_t begin);
    /* After each piece: the nodes before `node` are done. Parts that this makes ready
     * are taken before the next piece. */
    void (*piece_done)(struct sync *, const struct stage *, struct slot *, uint32_t node);
    /* Ends the task of a backward pass with what is updated at once; optional. */
    status (*backward_end)(struct sync *, const struct updater *, const struct stage *, struct slot *);
    /* After this task, when nobody in this stage looks at the slot any more. */
    void (*backward_done)(struct sync *, const struct stage *, struct slot *);
    /* Takes a part of what the stage has to sum or to update for the worker at that seat; optional. */
    bool (*part_take)(struct sync *, const struct stage *, uint32_t seat, struct sync_part *);
    status (*part_run)(struct sync *, const struct updater *, const struct stage *, const struct sync_part *);
    void (*figures)(const struct sync *, struct sync_figures *); /* optional */
};

/* Whether steps of the kind have lanes (sync_vt.by_lane). */
bool sync_by_lane(uint32_t kind);
/* INVALID: the kind has no use for several pipelines. */
MUST_USE status sync_check(uint32_t kind, uint32_t pipeline_count);
/* Opens the kind with sums of gradients. INVALID, MEMORY: with what to change. */
MUST_USE status sync_open(struct sync **sync, const struct sync_site *site);
/* NULL is ignored. */
void sync_close(struct sync *sync);

static inline struct stage *sync_stage(const struct sync *s, uint32_t pipeline, uint32_t stage)
{
    return s->site.stages[pipeline * s->site.stage_count + stage];
}
/* Whether the stage is the first one here that the slot's micro-batch comes to. */
static inline bool sync_is_entry(const struct sync *s, const struct stage *stage, const struct slot *slot)
{
    const uint32_t lane = batch_lane_of(graph_batch(s->site.graph), slot->input->batch.micro_index);
    for (uint32_t i = 0; i < stage->index; i++)
        if (exchange_has_lane(sync_stage(s, stage->pipeline_index, i)->lanes, lane)) return false;
    return true;
}
/* Whether the stage's devices have copies of parameters that the host updates. */
static inline bool stage_has_copies(const struct stage *stage)
{
    return stage->is_here && stage->is_shared && stage->kind->has_memory;
}
static inline uint32_t sync_stage_number(const struct sync *s, const struct stage *stage)
{
    return stage->pipeline_index * s->site.stage_count + stage->index;
}
/* Run a part of the stage's extent: this adds up and squares what has a bounded norm, … */
MUST_USE status sync_sum_run(struct sync *s, const struct updater *w, const struct stage *stage, const struct update *u,
                             uint32_t part);
/* … this updates its parameters and the step's rows. */
MUST_USE status sync_update_run(struct sync *s, const struct updater *w, const struct stage *stage,
                                const struct update *u, uint32_t part);

#endif
