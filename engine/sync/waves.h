/* Waves between nodes that are workers: what the synchronisation (wsp_nodes.c) and the node's thread
 * (engine/node/waves.c) share. Source: HetPipe (Park et al., USENIX ATC 2020), sections 3 and 5.
 *
 * What minibatches change of the dense part is one array of floats, the parameters and behind
 * them the optimizer's state; each node owns a slice of it. At the end of a wave a worker
 * gives what the wave has changed:
 *
 *     worker v   wave w ──a letter with the rows of u, and of the changes the slice of u──▶ node u, for all u
 *     owner u    wave w of all but v, added up in order of workers ──round w, of the slice of u──▶ worker v, for all v
 *
 * Round w is here when the sums of all slices and the letters of all others are. A letter says how
 * far its worker is, which minibatches the wave has, and what they have changed of the rows that
 * its receiver owns (wave_rows.h).
 *
 * A worker may have its stages on several nodes (engine/node/stages.h). Each of them then gives a part of the
 * worker's waves, of the stages that it has, and keeps the clock by itself; below and in the files of waves
 * such a node counts as a worker. The nodes of a worker have the same minibatches, which come from stage to
 * stage by hops, and so need the same rounds. An owner's slice is of stages that it has. Changes and sums
 * travel between nodes that have a stage in common (`sharers`); letters and rounds of all others say only how
 * far they are.
 *
 * Each row lies at its owner alone. When a minibatch is let in, its worker asks the owners for its rows, one
 * minibatch at a time:
 *
 *     worker v   keys, and the round r that the minibatch needs ──▶ owners
 *     owner      after the rounds below r: whole spans, and which rounds they have ──▶ worker v
 *
 * To these values the worker adds what its own waves have changed since (wsp_rows.h).
 *
 * At a job's end each worker gives a last wave of what is left, perhaps nothing. After all last waves a round
 * of values follows, each slice as its owner has it. The numbers of waves and rounds go on from job to job:
 *
 *     base … base + n - 1: n waves, of the worker with most; base + n: values; base + n + 1: base of the next
 *     job
 *
 * A worker begins a wave only when it has the rounds of all but its last D + 1 waves (sched/workers/wave.h).
 * So with WAVES_PLACES(D) places a wave's place is free when the wave comes. Rounds have WAVES_ROUNDS places:
 * an owner, which has the waves anyway, is no further ahead of the rounds that a worker says it has added. */
#ifndef HETERPS_ENGINE_SYNC_WAVES_H
#define HETERPS_ENGINE_SYNC_WAVES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "engine/slot/asked.h"
#include "engine/sync/wave_rows.h"

#define WAVES_WORKERS_MAX 64u
/* Places for another worker's waves. A worker that has given all waves below g has at least the rounds below
 * g - D - 1 in its weights, and owners have these rounds in their rows when all workers have given waves
 * below g. Another has then given waves up to g + D, and one more at a job's end, which waits for nobody.
 * These are 2 D + 3; all of them may be unused where there are further workers. */
#define WAVES_PLACES(D) (2 * (uint64_t)(D) + 3)
/* Places for sums: the round that a stage adds, and the next one. */
#define WAVES_ROUNDS 2u
/* Places for own waves, and for sums to another node, that are on their way. */
#define WAVES_SENDS 2u

/* A letter: this, in_flight records, and for each table the number of changed rows that
 * its receiver owns, their keys, and changes of spans. */
struct wave_head {
    uint64_t wave;
    uint64_t minibatches; /* of this worker in the job, this wave's included          */
    uint32_t in_flight, clock_distance;
    uint32_t record_count;
    uint32_t is_last; /* of the job                                                                    */
    uint32_t is_exact, unused;
};
/* A minibatch that the wave has completed. */
struct wave_record {
    uint64_t step, epoch;
    double loss;
    uint64_t example_count;
};

struct exchange_waves {
    /* set once, by the exchange */
    uint32_t worker, worker_count;
    /* This node has the steps that leave `turn` when divided by turn_count; node n those of turn_of[n]. */
    uint32_t turn, turn_count;
    uint8_t turn_of[WAVES_WORKERS_MAX];
    uint64_t tellers; /* bit n: node n has the last stage, and tells the minibatches of its turn */
    uint64_t sharers; /* bit n: node n, or this one, has a stage that this one has               */
    /* set once, by the synchronisation, before the first message */
    uint32_t in_flight; /* minibatches of a wave */
    uint32_t place_count, stage_count;
    bool is_exact;
    uint32_t clock_distance;
    _Atomic uint64_t *shared_added; /* [stage_count]: rounds below it are in the stage's weights     */
    /* node u owns the floats [cut[u], cut[u + 1]), of stages that it has; 16 at least */
    uint64_t cut[WAVES_WORKERS_MAX + 1];
    size_t letter_max, own_letter_max; /* of a letter; of the own wave's letters to all          */
    uint64_t ahead_steps;              /* that may be granted beyond steps that all have done    */
    uint8_t *letter[WAVES_SENDS];      /* of the own wave w at w % WAVES_SENDS: [own_letter_max] */
    /* [worker_count + 1]: bytes of it before the rows of each owner; what is before all rows goes to all */
    uint64_t *rows_begin[WAVES_SENDS];
    bool has_change[WAVES_SENDS]; /* false: none of the dense part                                             */
    float *change[WAVES_SENDS];   /* [floats]                                                                  */
    uint8_t **come_letter;        /* of worker v's wave w at v * place_count + w % place_count: [letter_max]   */
    size_t *come_bytes;           /* likewise                                                                  */
    float **come_change;          /* likewise, of the own slice                                                */
    bool *come_has_change;        /* likewise; of this worker, too                                             */
    float **sums;                 /* of round r at r % WAVES_ROUNDS: [floats]                                  */
    float **out;                  /* for node u at u * WAVES_SENDS + r % WAVES_SENDS: [the own slice's floats] */
    struct wave_rows rows;        /* of this owner; the node's thread's                                        */
    const uint8_t *owner_of;      /* [SHARD_COUNT]: by the exchange; NULL: there are no tables                 */
    /* By the node's thread: a worker's letter of this wave has come. INVALID: it is no such letter. */
    status (*come)(void *context, uint32_t worker, uint64_t wave, const uint8_t *letter, size_t bytes);
    void *context;
    /* What this worker asks for: written before … */
    struct asked_step *asked;
    _Atomic uint64_t shared_asked;     /* … it has asked so many times …          */
    _Atomic uint64_t shared_answered;  /* … and had all answers                   */
    _Atomic uint64_t *shared_rows;     /* [table_count]: rows of all nodes, as owners have told with rounds */
    _Atomic uint64_t shared_given;     /* own waves below it may go                             */
    _Atomic uint32_t shared_busy;      /* bit i: the own wave at i is on its way                */
    _Atomic uint64_t shared_rounds;    /* rounds below it are here                              */
    _Atomic uint64_t shared_values;    /* the round of values whose own slice is in `sums`, + 1 */
    _Atomic uint64_t shared_end;       /* the last known round of values + 1, of the job that runs or of one before */
    _Atomic uint64_t shared_told;      /* steps below it are done by all          */
    _Atomic uint64_t shared_needed;    /* rounds that this worker waits for       */
    _Atomic uint64_t shared_waited_ns; /* how long it has, with a minibatch ready */
};

/* All stages have used the sums and the letters of rounds below it. */
static inline uint64_t waves_added(const struct exchange_waves *x)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < x->stage_count; i++) {
        /* Acquire pairs with added_tell(): what comes next overwrites them. */
        const uint64_t added = atomic_load_explicit(&x->shared_added[i], memory_order_acquire);
        least = added < least ? added : least;
    }
    return least;
}

#endif
