/* What several nodes have of the steps of an evaluation or a prediction, in pieces of bytes, which rank 0 takes
 * in by the order of steps, and in a step by that of nodes, which is that of lanes: the order of the data.
 *
 *     other node   pieces of its lanes ──▶ blocks of a step ═══▶ ┐
 *     rank 0       its own lanes of the step ───────────────────▶ what takes them, in order
 *
 * Blocks travel by engine/node/talk.h; some thousand pieces an evaluation.
 *
 * Where nodes have stages the one with the last stage has the pieces of all, which rank 0, if it is another,
 * hears on a thread beside its own part of the forward pass; what fails there ends the job, and is told by
 * that. */
#ifndef HETERPS_ENGINE_EVAL_GATHER_H
#define HETERPS_ENGINE_EVAL_GATHER_H

#include <pthread.h>

#include "engine/node/talk.h"

/* The most that a piece has, of one that begins a block. */
#define GATHER_PIECE_BYTES (TALK_BYTES - 16u)

struct gather {
    struct reduce *reduce;
    /* On rank 0: takes in a piece, which is 8-byte aligned. INVALID with a word on what is wrong: it is none. */
    status (*take)(void *context, const void *piece, uint32_t bytes);
    void *context;
    uint64_t ended; /* of rank 0: a bit a node whose last piece has come */
    uint64_t step;  /* of another node: of the block; of rank 0: all before it have been taken in */
    /* of another node: the block that is being filled, and a piece that has been begun */
    uint8_t *block;
    uint32_t used;
    /* where nodes have stages */
    bool by_stages;
    uint32_t teller;  /* who has the pieces                          */
    pthread_t thread; /* of rank 0, which hears them, if is_hearing  */
    bool is_hearing;
    _Atomic bool shared_stop;
    struct failure heard; /* of the thread */
};

/* Keeps them. By all nodes; `take` is rank 0's. */
void gather_begin(struct gather *gather, struct reduce *reduce,
                  status (*take)(void *context, const void *piece, uint32_t bytes), void *context);

/* Behind that, before the pass: where it has to, rank 0 begins to hear, and `take` is called by another thread.
 * SYSTEM. */
MUST_USE status gather_start(struct gather *gather);
/* Another node's: where a piece of the step goes, with *room bytes, `least` or more; what was of a step before
 * is on its way then. At most GATHER_PIECE_BYTES. */
MUST_USE status gather_place(struct gather *gather, uint64_t step, uint32_t least, uint8_t **at, uint32_t *room);
/* So many bytes are there. */
void gather_put(struct gather *gather, uint32_t bytes);
/* The node has no more of the step. */
void gather_step_end(struct gather *gather, uint64_t step);

/* Rank 0's: takes in all that others have of the steps before this one; where nodes have stages nothing. */
MUST_USE status gather_until(struct gather *gather, uint64_t step);

/* By all nodes, in any case, behind the last step: `st` is what the node has failed with, or ST_OK. On rank 0 it
 * returns that, or the failure of the first other node, or of taking in; elsewhere what the exchange has failed
 * with. */
MUST_USE status gather_end(struct gather *gather, status st);

#endif
