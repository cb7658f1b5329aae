/* What the files of wsp share: wsp.c, of pipelines; wsp_nodes.c, of several nodes. */
#ifndef HETERPS_ENGINE_SYNC_WSP_INTERNAL_H
#define HETERPS_ENGINE_SYNC_WSP_INTERNAL_H

#include "engine/base/claim.h"
#include "engine/base/ring.h"
#include "engine/sync/sync.h"
#include "engine/sync/wsp.h"

/* A run of floats that updates change, of a pipeline's parameters or of its optimizer state. */
struct run {
    bool is_state;
    uint64_t offset, count;
};

struct message {
    float *change;        /* the stage's runs, one after another */
    uint64_t minibatches; /* the sender's, up to this wave       */
    _Atomic uint32_t shared_unread;
};

struct wsp_stage {
    /* set once */
    struct run *runs;
    uint32_t run_count, message_count;
    struct message *messages;
    float *sums;        /* exact: a round's, of the stage's runs */
    struct ring *inbox; /* [pipeline_count]: numbers of that pipeline's messages; its own stays empty */
    /* under the stage's turn */
    uint64_t applied;   /* own minibatches of this job whose update is in the weights */
    uint64_t *included; /* [worker_count]: likewise minibatches of the others         */
    uint64_t rounds;    /* rounds below it are in the weights (nodes, exact)          */
    uint64_t forward_count, local_max, local_sum, global_max, global_sum;
};

struct wsp_pipeline {
    /* set once */
    float *param, *state;           /* of pipeline 0: the model's            */
    float *base_param, *base_state; /* NULL with one pipeline on one node    */
    uint64_t started;               /* minibatches; under the gate's claim   */
    _Atomic uint64_t shared_done;   /* minibatches                           */
    _Atomic uint64_t shared_waves;  /* sent by the first stage, so by all    */
};

/* A finished minibatch that waits until the minibatches before it are told. Its slot is free already, so a
 * pipeline that stands still does not keep the slots of others. */
struct record {
    struct step_done done;
    uint64_t *row_count; /* [table_count] */
    _Atomic bool shared_is_there;
};
/* What a slot has that has been let in. */
struct in_flight {
    uint64_t sequence, number; /* of its minibatch in the job, and in its pipeline */
    uint32_t pipeline;
    double loss;
};

struct wsp {
    struct sync sync; /* first: a struct sync * is a struct wsp * */
    struct arena arena;
    uint32_t wave;         /* minibatches: Nm, or 1 under asp */
    uint32_t worker_count; /* pipelines of this node, or nodes, which have one each */
    float **stash;         /* [pipeline_count * in_flight] of [param_floats] */
    struct wsp_pipeline *pipelines;
    struct wsp_stage *stages; /* [pipeline_count, stage_count] */
    struct in_flight *slots;  /* [slot_count] */
    /* under the gate's claim */
    uint64_t admitted; /* by this job */
    uint32_t pipeline_next;
    /* at n % record_count: of minibatch n of the job; on several nodes, of step n */
    struct record *records;
    uint32_t record_count;
    struct claim tell_claim;
    _Atomic uint64_t *shared_told; /* moved under the claim: records below it are told */
    _Atomic uint64_t own_told;     /* shared_told, on one node                         */
    struct wsp_nodes *nodes;       /* NULL: there is one node                          */
};

static inline struct wsp_stage *wsp_stage_of(const struct wsp *wsp, const struct stage *stage)
{
    return &wsp->stages[sync_stage_number(&wsp->sync, stage)];
}
static inline float *wsp_run_floats(const struct wsp_pipeline *own, const struct run *run, bool of_base)
{
    if (of_base) return (run->is_state ? own->base_state : own->base_param) + run->offset;
    return (run->is_state ? own->state : own->param) + run->offset;
}
/* Where a worker's slice begins in the dense part, the parameters and the state behind them; of
 * worker_count: where the last slice ends. */
static inline uint64_t wsp_slice_begin(const struct wsp *wsp, uint32_t worker)
{
    const struct graph_header *h = wsp->sync.site.graph->header;
    const uint64_t least = (uint64_t)16 * wsp->worker_count, all = h->param_floats + h->state_floats,
                   floats = all < least ? least : all;
    return worker == wsp->worker_count ? floats : floats * worker / wsp->worker_count & ~UINT64_C(15);
}
/* Tells what has finished, in the order of the data. */
void wsp_records_tell(struct wsp *wsp);

/* --- wsp_nodes.c: NULL of wsp->nodes is one node, and nothing ------------------------------------- */

/* Sets wsp->nodes, where there are other nodes. INVALID, MEMORY. */
MUST_USE status wsp_nodes_find(struct wsp *wsp);
/* All that nodes keep, behind the stages. */
void wsp_nodes_layout(struct wsp *wsp, struct layout *l);
/* After the second layout: gives the exchange what it works on. */
void wsp_nodes_open(struct wsp *wsp);
void wsp_nodes_begin(struct wsp *wsp);
/* Whether the next minibatch, of this input, may start. Before, it asks for its rows, once;
 * then the job does not end without it. */
bool wsp_nodes_admit(struct wsp *wsp, const struct input *input);
/* Before the minibatch's forward pass at a stage: adds what others' waves have changed. */
void wsp_nodes_forward(struct wsp *wsp, const struct stage *stage, uint64_t number);
/* Before a forward pass or an update reads the rows of the stage's tables: sets them to their owners' values
 * and all that own waves have changed. */
void wsp_nodes_rows_read(struct wsp *wsp, const struct stage *stage, const struct input *input);
/* The stage has updated these rows. */
void wsp_nodes_rows_keep(struct wsp *wsp, const struct stage *stage, const struct input *input);
/* The stage has ended a wave of the own minibatches. */
void wsp_nodes_wave_end(struct wsp *wsp, const struct stage *stage);
/* Minibatch `number` is done at all stages. With a wave's last minibatch the wave goes. */
void wsp_nodes_done(struct wsp *wsp, uint64_t number, const struct step_done *done);
MUST_USE status wsp_nodes_settle(struct wsp *wsp);
/* Gives a record that is told the numbers of rows so far, and the ticket of the last own minibatch. Under
 * tell_claim. */
void wsp_nodes_record_fill(struct wsp *wsp, struct step_done *done);
/* Whether a record is there to be told. */
bool wsp_nodes_tells(const struct wsp *wsp);

#endif
