/* What the files of waves share: waves.c, waves and rounds; wave_asks.c, rows that workers ask
 * for. All is the node's thread's. */
#ifndef HETERPS_ENGINE_NODE_WAVES_INTERNAL_H
#define HETERPS_ENGINE_NODE_WAVES_INTERNAL_H

#include "engine/node/reduce_internal.h"
#include "engine/sync/waves.h"

/* Not known yet. */
#define NOT_YET UINT64_MAX

/* How far a worker is in a job: waves below `heard` have come; from `last` on there are none. */
struct wave_worker {
    uint64_t heard, last;
};

/* A worker asks this owner for rows. */
struct ask {
    uint8_t *bytes; /* of another node's letter: [asked_letter_bytes_max] */
    struct asked_letter letter;
    uint64_t round; /* rounds below it are wanted */
    bool is_here;
};

/* How many rows owners have: [tables] of each node. */
struct row_counts {
    uint64_t *out;   /* for node u at u * WAVES_SENDS + r % WAVES_SENDS */
    uint64_t *come;  /* as a node sends them                            */
    uint64_t *known; /* as of the last round that has come              */
};

struct waves {
    struct exchange_waves of_exchange; /* first: a struct exchange_waves * is a struct waves * */
    struct wave_worker now[REDUCE_NODES_MAX], next[REDUCE_NODES_MAX]; /* in the job that runs, and in the next */
    uint64_t end;                                       /* the round of values of the job that runs, or NOT_YET */
    uint64_t round;                                     /* rounds below it are here                             */
    uint64_t sent_until[WAVES_SENDS][REDUCE_NODES_MAX]; /* messages to each that were given up to the own wave  */
    bool sent_wave[WAVES_SENDS];                        /* it was given to the post                             */
    /* Rounds below these have come from an owner, or are added up here; were given to the post for a worker;
     * messages to the worker up to each of the last ones. */
    uint64_t come[REDUCE_NODES_MAX], given[REDUCE_NODES_MAX], given_until[REDUCE_NODES_MAX][WAVES_SENDS];
    /* Rounds below `added` are in a worker's weights, as the worker has said. Rounds below `told` are in this
     * worker's weights, as the other worker was told, by messages up to `told_until`. */
    uint64_t added[REDUCE_NODES_MAX], told[REDUCE_NODES_MAX], told_until[REDUCE_NODES_MAX];
    struct row_counts rows;
    /* wave_asks.c: */
    struct ask ask[REDUCE_NODES_MAX]; /* of each worker, this one, too       */
    uint64_t asked, owes;             /* own ones so far; bit n: owner n has not answered the last of them */
};

static inline struct waves *waves_of(const struct reduce *r) { return (struct waves *)r->exchange.waves; }
/* Waves below it of all workers are here. */
static inline uint64_t waves_here(const struct waves *waves)
{
    uint64_t least = NOT_YET;
    if (waves->end != NOT_YET) return waves->end + 1;
    for (uint32_t v = 0; v < waves->of_exchange.worker_count; v++)
        if (waves->now[v].heard < least) least = waves->now[v].heard;
    return least;
}

/* Memory for letters and answers; after waves_layout. */
void asks_layout(struct reduce *r, struct layout *l);
/* Asks for this worker's rows, and answers others. */
MUST_USE status asks_step(struct reduce *r);

#endif
