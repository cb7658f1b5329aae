/* Waves between nodes, each of which is a worker: what a synchronisation (wsp_nodes.c) and the node's thread
 * (engine/node/waves.c) have in common. Source: HetPipe (Park et al., USENIX ATC 2020), sections 3 and 5.
 *
 * All that minibatches change of the dense part is one array of floats, parameters and behind them the optimizer's
 * state; each node owns a slice of it. At the end of its wave a worker gives what the wave has changed:
 *
 *     worker v   wave w ──its letter, and of the changes the slice of u──▶ node u, for all u
 *     owner u    wave w of all but v, added up in order of workers ──round w, of the slice of u──▶ worker v, for all v
 *
 * Round w is here when the sums of all slices are, and the letters of all others. A letter says how far its worker is,
 * which minibatches these were, and what they have changed of rows of tables: those every worker has itself.
 *
 * A job ends with a wave of what is left, perhaps nothing, its worker's last; and when all have had their last, with a
 * round of the values themselves, each slice as its owner has it. Waves and rounds of all jobs are numbered on:
 *
 *     base … base + waves of who has most - 1, base + that: values; base of the next job
 *
 * Nobody begins a wave before it has rounds of all but its last D + 1 waves (sched/workers/wave.h): so a wave's place
 * is free when what came to it before has been used, with WAVES_PLACES(D) of them. Rounds have WAVES_ROUNDS places: an
 * owner, which has the waves anyway, gives a worker no more than the worker says that it has added. */
#ifndef HETERPS_ENGINE_SYNC_WAVES_H
#define HETERPS_ENGINE_SYNC_WAVES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

#define WAVES_WORKERS_MAX 64u
/* Of what comes of another worker. Who has given all waves below g has rounds below g - D - 1 in its weights and rows,
 * at the least; another has then given waves up to g + D, and one more at a job's end, which waits for nobody. These
 * are 2 D + 3, and as many are unused when there are others with yet other waves. */
#define WAVES_PLACES(D) (2 * (uint64_t)(D) + 3)
/* Of sums: the round that a stage adds, and the one behind it. */
#define WAVES_ROUNDS 2u
/* Of the own waves, and of the sums for another node, that are on their way. */
#define WAVES_SENDS 2u

/* A letter: this, its records, and of each table a number of rows, their keys, and what their spans have changed by. */
struct wave_head {
    uint64_t wave;
    uint64_t minibatches; /* of this worker, of the job, up to here                   */
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

/* How far a stage of this worker is. */
struct waves_added {
    _Atomic uint64_t shared_sums;    /* rounds below it are in its weights … */
    _Atomic uint64_t shared_letters; /* … and these in its rows, too         */
};

struct exchange_waves {
    /* set once, by the exchange */
    uint32_t worker, worker_count;
    /* set once, by the synchronisation, before the first message */
    uint32_t in_flight; /* minibatches of a wave */
    uint32_t place_count, stage_count;
    struct waves_added *added;           /* [stage_count]                                                 */
    uint64_t cut[WAVES_WORKERS_MAX + 1]; /* node u owns the floats [cut[u], cut[u + 1])                    */
    size_t letter_max;
    uint64_t ahead_steps;         /* that may be granted beyond those that all have done                          */
    uint8_t *letter[WAVES_SENDS]; /* the own wave w's at w % WAVES_SENDS: [letter_max] …                    */
    size_t letter_bytes[WAVES_SENDS];
    bool has_change[WAVES_SENDS]; /* false: nothing of the dense part                                     */
    float *change[WAVES_SENDS];   /* [floats]                                                               */
    uint8_t **come_letter;        /* of worker v's wave w at v * place_count + w % place_count: likewise, … */
    size_t *come_bytes;           /* … (this worker's by itself) …                                           */
    float **come_change;          /* … of the own slice, and …                                              */
    bool *come_has_change;        /* … likewise; of this worker, too                                        */
    float **sums;                 /* of round r at r % WAVES_ROUNDS: [floats]                                     */
    float **out;                  /* for node u at u * WAVES_SENDS + r % WAVES_SENDS: [the own slice's floats]   */
    /* By the node's thread: a worker's letter has come, of this wave. INVALID: it is none. */
    status (*come)(void *context, uint32_t worker, uint64_t wave, const uint8_t *letter, size_t bytes);
    void *context;
    /* Rows are found by the feed's thread, and by who adds what others have changed. */
    pthread_mutex_t store_lock;
    _Atomic uint64_t shared_given;  /* own waves below it may go                                                */
    _Atomic uint32_t shared_busy;   /* bit i: what is at i of the own waves is on its way                        */
    _Atomic uint64_t shared_rounds; /* rounds below it are here                                                */
    _Atomic uint64_t shared_values; /* the round of values whose own slice is in `sums`, + 1                   */
    _Atomic uint64_t shared_end; /* the last round of values that is known, + 1: that of the job that runs, or before */
    _Atomic uint64_t shared_told;      /* steps below it are done by all                                          */
    _Atomic uint64_t shared_needed;    /* rounds that this worker waits for                                       */
    _Atomic uint64_t shared_waited_ns; /* how long it has, with a minibatch that was ready                     */
};

/* Rounds whose sums, or letters, all stages have used are below it. */
static inline uint64_t waves_sums_added(const struct exchange_waves *x)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < x->stage_count; i++) {
        /* Acquire pairs with the release of who has added them: what comes next overwrites them. */
        const uint64_t added = atomic_load_explicit(&x->added[i].shared_sums, memory_order_acquire);
        least = added < least ? added : least;
    }
    return least;
}
static inline uint64_t waves_letters_added(const struct exchange_waves *x)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < x->stage_count; i++) {
        /* Acquire: as above. */
        const uint64_t added = atomic_load_explicit(&x->added[i].shared_letters, memory_order_acquire);
        least = added < least ? added : least;
    }
    return least;
}

#endif
