/* What bsp asks of the other nodes of a training, and all that it knows of them.
 *
 * A node has consecutive lanes of every step, and a slice of what updates change: whole blocks of it, which it alone updates, and whose optimizer
 * state it alone has. Between a step's backward passes and the next step's forward passes there are rounds, in each of which every node has
 * something for every other:
 *
 *     lanes ──own runs added up──▶ pieces ═══SUMS═══▶ slice's owner ──joined──▶ squares ═══SQUARES═══▶ all      where the norm is bounded
 *                                                          └──updated──▶ parameters ═══VALUES═══▶ all
 *
 * A round of a node is over when it has sent all that is its own and has all that is the others'. Nobody is more than one round ahead of anybody,
 * so each thing that comes has one place, which is free when it comes. */
#ifndef HETERPS_ENGINE_SYNC_EXCHANGE_H
#define HETERPS_ENGINE_SYNC_EXCHANGE_H

#include "engine/slot/extent.h"
#include "engine/slot/fold.h"
#include "engine/slot/update.h"

enum exchange_round { EXCHANGE_SUMS, EXCHANGE_SQUARES, EXCHANGE_VALUES, EXCHANGE_ROUNDS };

/* A piece of the sums of the own slice: a run of some node's lanes. */
struct exchange_piece {
    struct fold_lanes run;
    uint32_t node;
    float *
        sums; /* of another node: the slice's floats, run after run of its extent; of this one NULL: where its lanes are added */
};

/* Where what travels lies on this node; set before the first round. */
struct exchange_site {
    float *param; /* [param_floats]                                                                        */
    float *const
        *param_grad;     /* [own.count]                                                                           */
    double *squares;     /* of all blocks whose norm is bounded, in their order; NULL: none is                    */
    double *loss;        /* [2, loss_count]: sums over examples, which travel with the sums of gradients          */
    uint32_t loss_count; /* micro-batches of a step                                                               */
    /* A round is over, on whatever thread, once a round that has begun. A failure: what another node or the way to it failed with. */
    void (*over)(void *context, enum exchange_round round, status st);
    void *context;
};

struct exchange {
    const struct exchange_vt *vt;
    uint32_t rank, node_count;
    struct fold_lanes own; /* lanes */
    struct fold_lanes runs[FOLD_RUNS_MAX];
    uint32_t run_count;            /* of the own lanes */
    struct extent slices;          /* of the whole graph: part p is node p's */
    struct exchange_piece *pieces; /* [piece_count], in order of lanes */
    uint32_t piece_count;
    struct fold_join *joins; /* [piece_count - 1] */
    struct exchange_site site;
};

struct exchange_vt {
    /* This node has all that is its own of the round; `over` follows. One round at a time. */
    void (*begin)(struct exchange *, enum exchange_round round, uint64_t step);
};

/* [loss_count]: losses of the step. Two steps', for those of the next may come while this one is being closed. */
static inline double *exchange_loss(const struct exchange_site *site, uint64_t step)
{
    return site->loss + step % 2 * site->loss_count;
}

/* What a stage does of its part between two steps, beside rounds: adds the lanes of the own runs up … */
MUST_USE status exchange_lanes_run(const struct exchange *x, const struct updater *w, const struct extent *e,
                                   const struct update *u, uint32_t part);
/* … after SUMS joins the pieces of the own slice, and squares them (graph/clip.h: `blocks`, `squares` of all of the graph; NULL: nothing is
 * bounded) … */
MUST_USE status exchange_sum_run(const struct exchange *x, const struct updater *w, const struct extent *e,
                                 const struct update *u, const struct param_block *blocks, double *squares,
                                 uint32_t part);
/* … and updates the own slice, and clears what it has sent. */
MUST_USE status exchange_update_run(const struct exchange *x, const struct updater *w, const struct extent *e,
                                    const struct update *u, uint32_t part);

#endif
