/* Gathers the results of several nodes in an evaluation or a prediction, as pieces of bytes.
 * Rank 0 takes pieces in by the order of steps, and within a step by the order of nodes and so
 * of lanes: the order of the data.
 *
 *     other node   pieces of its lanes ──▶ blocks of a step ═══▶ ┐
 *     rank 0       its own lanes of the step ───────────────────▶ what takes them, in order
 *
 * Blocks travel by engine/node/talk.h; some thousand pieces an evaluation.
 *
 * Where nodes have stages, the node with the last stage has all pieces. If rank 0 is another node,
 * it hears them on a thread beside its own part of the forward pass; a failure in the pass ends
 * the job, which tells the failure. Where workers have stages on several nodes, each worker's node of
 * the last stage has the pieces of its worker's steps; rank 0 is one of these nodes. */
#ifndef HETERPS_ENGINE_EVAL_GATHER_H
#define HETERPS_ENGINE_EVAL_GATHER_H

#include <pthread.h>

#include "engine/node/talk.h"

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
    /* where nodes have stages */
    bool by_stages;
    uint32_t teller;  /* the node that has the pieces                */
    pthread_t thread; /* of rank 0: hears them, if is_hearing        */
    bool is_hearing;
    _Atomic bool shared_stop;
    struct failure heard; /* of the thread: its failure */
};

/* Keeps its arguments. By all nodes; `take` is rank 0's. */
void gather_begin(struct gather *gather, struct reduce *reduce,
                  status (*take)(void *context, const void *piece, uint32_t bytes), void *context);

/* After gather_begin, before the pass: where nodes have stages, rank 0 may start the thread,
 * which then calls `take`. SYSTEM. */
MUST_USE status gather_start(struct gather *gather);
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
