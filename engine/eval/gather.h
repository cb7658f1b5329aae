/* Gathers the results of several nodes in an evaluation or a prediction, as pieces of bytes.
 * Rank 0 takes pieces in by the order of steps, and within a step by the order of nodes and so
 * of lanes: the order of the data.
 *
 *     other node   pieces of its lanes ──▶ blocks of a step ═══▶ ┐
 *     rank 0       its own lanes of the step ───────────────────▶ what takes them, in order
 *
 * Blocks travel by engine/node/talk.h; some thousand pieces an evaluation.
 *
 * Where nodes have stages, the nodes that have lanes of the last stage have the pieces of these lanes. On
 * such a node, and on rank 0, a thread beside the forward pass sends them, or takes them in and hears the
 * others', in turn:
 *
 *     rank 0       the last stage's own lanes of step 0 ─▶ others' lanes ─▶ own lanes of step 1 ─▶ …
 *
 * The pass itself never waits for its turn: a node that waits there computes nothing, not even what those
 * need for whom it waits. What has been computed keeps its slot until it is taken, and so bounds how far the
 * pass runs ahead. A failure in the pass ends the job, which tells the failure.
 *
 * Where workers have stages on several nodes, each worker's node of the last stage has the pieces of its
 * worker's steps; rank 0 is one of these nodes. */
#ifndef HETERPS_ENGINE_EVAL_GATHER_H
#define HETERPS_ENGINE_EVAL_GATHER_H

#include <pthread.h>

#include "engine/node/talk.h"
#include "engine/pipe/pipeline.h"

/* The most bytes of a piece: of a piece that fills a block. */
#define GATHER_PIECE_BYTES (TALK_BYTES - 16u)

struct gather {
    struct reduce *reduce;
    /* On rank 0: takes in a piece, which is 8-byte aligned. INVALID: the bytes are no such piece. */
    status (*take)(void *context, const void *piece, uint32_t bytes);
    void *context;
    uint64_t tellers; /* a bit for each node that may have pieces */
    uint64_t ended;   /* of rank 0: a bit for each node whose last piece has come */
    uint64_t step;    /* of another node: the block's; of rank 0: all steps before it have been taken in */
    /* of another node: the block that is being filled */
    uint8_t *block;
    uint32_t used;
    /* where nodes have stages: of the thread, if is_running */
    bool by_stages;
    struct pipeline *pipeline;
    status (*own)(void *context, const struct slot *slot);
    uint32_t own_micros; /* that the node has of a whole step in the last stage */
    bool own_is_over;    /* it has taken all                                    */
    pthread_t thread;
    bool is_running;
    _Atomic bool shared_over, shared_stop; /* the pass is over; or has failed, and the thread ends */
    struct failure failure;                /* the thread's                                          */
};

/* Keeps its arguments. By all nodes; `take` is rank 0's. */
void gather_begin(struct gather *gather, struct reduce *reduce,
                  status (*take)(void *context, const void *piece, uint32_t bytes), void *context);

/* The lanes of which the node has pieces where nodes have stages; count 0: none. */
struct fold_lanes gather_lanes(const struct gather *gather);
/* After gather_begin, before the pass: where nodes have stages, may start the thread. It takes the `micros`
 * micro-batches of a lane out of the pipeline (pipeline_out_await) and calls `own` for each, in the order of
 * the data and in turn with `take`. SYSTEM. */
MUST_USE status gather_start(struct gather *gather, struct pipeline *pipeline, uint32_t micros,
                             status (*own)(void *context, const struct slot *slot));
/* Another node's: the place for a piece of the step, with *room bytes, at least `least`; a block of an
 * earlier step is sent first. At most GATHER_PIECE_BYTES. */
MUST_USE status gather_place(struct gather *gather, uint64_t step, uint32_t least, uint8_t **at, uint32_t *room);
/* Says that `bytes` bytes are at that place. */
void gather_put(struct gather *gather, uint32_t bytes);
/* Says that the node has no more pieces of the step. */
void gather_step_end(struct gather *gather, uint64_t step);

/* Rank 0's: takes in all other nodes' pieces of the steps before `step`;
 * where nodes have stages, does nothing. */
MUST_USE status gather_until(struct gather *gather, uint64_t step);

/* By all nodes, in any case, after the last step: `st` is the node's failure, or ST_OK. Rank 0 returns `st`,
 * or the first other node's failure, or that of taking in; other nodes return a failure of the exchange. */
MUST_USE status gather_end(struct gather *gather, status st);

#endif
