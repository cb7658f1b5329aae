/* Between the files of the exchange between nodes: reduce.c, rounds; reduce_open.c, memory; rows.c, letters of steps
 * and their rows; look.c, rows for who only reads; grant.c, how far jobs go; evict.c, rows that are too many; talk.c,
 * what else rank 0 and the others have to say; stream.c, data that rank 0 alone can read; carry.c, slots between
 * stages. Everything here is the node's thread's but what says otherwise. */
#ifndef HETERPS_ENGINE_NODE_REDUCE_INTERNAL_H
#define HETERPS_ENGINE_NODE_REDUCE_INTERNAL_H

#include "engine/base/bell.h"
#include "engine/base/ring.h"
#include "engine/node/owned.h"
#include "engine/node/reduce.h"
#include "engine/sync/waves.h"
#include "io/store/store_life.h"
#include "io/store/store_rows.h"

/* Rounds whose buckets come in one order; what else comes. */
#define ROUNDS EXCHANGE_VALUES
enum {
    KIND_ROWS = EXCHANGE_ROWS,
    KIND_LETTER,
    KIND_LOOK,   /* a request for rows as they are, of this number    */
    KIND_LOOKED, /* its answer                                         */
    KIND_BLOCK,  /* a block of talk (engine/node/talk.h), likewise     */
    KIND_TAKEN,  /* it is taken, and there is room for one more        */
    KIND_GRANT,  /* steps below this one may be run                    */
    KIND_WISH,   /* this job should end                                */
    KIND_BINS,   /* how many rows have the next digit of a threshold   */
    KIND_NEWS,   /* a step that there is, for a node without lanes     */
    KIND_DATA,   /* a block of data (stream.c), by number              */
    KIND_HAD,    /* it is taken                                        */
    KIND_SLOT,   /* what crosses between stages (carry.c); its tag     */
    KIND_WAVE,   /* what a worker's wave has changed (waves.c)         */
    KIND_ROUND,  /* what those of others have, added up; likewise      */
    KIND_ADDED,  /* rounds below this one are in the worker's weights  */
    KIND_BEGUN,  /* its steps below this one are begun, and no others  */
    KIND_COUNT,
    KIND_VALUES = 64 /* of bucket b this and b */
};
/* Steps that a feed can be ahead with its letters: blocks of rows that two steps of inputs and some make, one
 * micro-batch a step (feed.c). */
#define ASKED_MAX 8u

/* Looks of a node that are under way at once. */
#define LOOKS_MAX 4u
/* Grants that may be on their way: a node that has not got the newest is at most GRANT_STEPS behind. */
#define GRANT_CELLS 16u
#define GRANT_STEPS 4u
/* Blocks of talk between two nodes that have not been taken, each way. */
#define TALK_PLACES 2u

/* Looks, as asker; what a peer asks is with the peer. */
struct looks {
    struct exchange_look *waits[EXCHANGE_LOOKS_MAX]; /* from the thread that reads */
    struct ring ring;                                /* of numbers modulo that      */
    uint32_t asked_count;                            /* by the thread that reads    */
    struct exchange_look *flight[LOOKS_MAX];         /* of number n at n % LOOKS_MAX                          */
    uint32_t left[LOOKS_MAX];                        /* nodes that have not answered, likewise                 */
    uint64_t begin, end;                             /* numbers whose values have not all come, and were asked */
    _Atomic uint32_t shared_done;
};

/* Between rank 0 and another node. */
struct talk_way {
    uint8_t *out[TALK_PLACES], *in[TALK_PLACES]; /* [TALK_BYTES]; NULL: these two do not talk */
    uint32_t out_bytes[TALK_PLACES], in_bytes[TALK_PLACES];
    uint64_t sent, told;                         /* the node's thread's: blocks sent; told to be taken      */
    _Atomic uint64_t shared_given, shared_taken; /* blocks of this node's: put there; taken at the other end */
    _Atomic uint64_t shared_come, shared_heard;  /* the other's: come; taken here                            */
};

/* How far jobs go. */
struct grants {
    _Atomic uint64_t shared_from, shared_until; /* of the job that runs, on rank 0 */
    _Atomic uint64_t shared_wish;               /* the last job that this node wants to end      */
    _Atomic uint64_t shared_cut, shared_is_cut; /* of rank 0: the last job to cut; that a cut has ended */
    _Atomic bool shared_mark_wish;              /* of rank 0: the next grant is to mark a step   */
    _Atomic uint64_t shared_marked;             /* steps that are done when the last mark counts */
    /* the node's thread's */
    uint64_t job, until;
    enum exchange_word word;
    uint64_t wish;              /* the last job that any node wants to end, or, of others, that rank 0 was told of */
    uint64_t stopped;           /* the last job that a wish has ended */
    uint64_t halted;            /* of workers, bit n: node n begins nothing more, and has begun steps below … */
    uint64_t begun;             /* … the greatest of these; 0 nodes: the job is not halted                    */
    uint64_t body[GRANT_CELLS]; /* of messages under way */
    uint32_t body_count;
};

/* Rows that are too many, behind the values of a step. */
struct evicting {
    bool is_bounded;   /* set once: some table's number of rows is */
    bool is_on;        /* since the values have come               */
    bool is_counted;   /* the own bins of this round are sent      */
    bool is_selecting; /* among the rows of … */
    uint32_t table;
    struct store_select select;
    uint64_t round;            /* of bins, of all evictions so far                       */
    uint64_t *own[2], *sum[2]; /* [STORE_BINS], of even and of odd rounds: own; of all … */
    uint32_t come[2];          /* … of which so many others' have come                  */
};

/* A message of a round between two nodes: its number within the turn. A round has a turn a bucket, the last bucket's
 * first; that of squares has one. */
struct cursor {
    uint64_t step;
    uint32_t turn, message;
};

/* A round of the step that is open: which turns this node has ready, has sent, and which are over. */
struct round {
    uint32_t ready;      /* bit b: bucket b */
    uint32_t sent, over; /* turns below it  */
    uint64_t begun_ns[EXCHANGE_BUCKETS_MAX];
};

/* That of values, whose buckets have no order: bit b: bucket b. */
struct values_round {
    uint32_t ready, sent, come, over; /* this node's; this node's; all others', and it is told; of all nodes */
    uint64_t begun_ns[EXCHANGE_BUCKETS_MAX];
};

/* Another node, as seen by the node's thread. */
struct peer {
    struct cursor next[ROUNDS];                         /* of each round what comes next                        */
    uint64_t given, sent;                               /* messages to it: that the post got; that are sent     */
    uint64_t given_until[ROUNDS][EXCHANGE_BUCKETS_MAX]; /* how many were given behind a turn's last one         */
    uint32_t next_values[EXCHANGE_BUCKETS_MAX];         /* messages of values of the open step that have come   */
    uint32_t early_values;                              /* of stages: the same, of the step behind it           */
    uint64_t given_values[EXCHANGE_BUCKETS_MAX];        /* as given_until                                       */
    uint64_t given_rounds;                              /* as given_until, of all that was given of any round   */
    uint64_t next_letter, next_rows;                    /* steps of what else comes next                        */
    uint64_t rows_sent;                                 /* the step whose rows it gets next                     */
    struct reduce_message coming;                       /* what reduce_place has given a place                  */
    float *values;                                      /* copies of rows that it asked for                     */
    uint64_t *row_count;                                /* [table_count]: that it had after its last step       */
    /* looks */
    uint8_t *look_letter[LOOKS_MAX]; /* of this peer: its letters, and what it is answered   */
    float *look_values[LOOKS_MAX];
    uint64_t look_next;  /* the least number that its next one may have */
    uint32_t look_count; /* that have come                              */
    uint64_t looked;     /* of the own looks: whose answer comes next   */
    struct talk_way talk;
    uint64_t word; /* what comes in messages of one word */
    /* evictions: its bins, and the round that they are of next */
    uint64_t *bins, next_bins;
};

struct reduce {
    struct exchange exchange; /* first: a struct exchange * is a struct reduce * */
    /* set once */
    const struct graph *graph;
    struct model *model;
    struct post *post;
    struct arena arena, sums_arena; /* sums: other nodes' pieces of the own slice */
    const uint32_t *lane_begin;     /* [node_count + 1]: the options'             */
    const uint32_t *rank_of;        /* the options'                               */
    uint8_t *owner_of;              /* [SHARD_COUNT]; NULL: there are no tables   */
    uint32_t micros_a_lane;
    bool is_bounded;            /* the norm is: there are squares             */
    struct owned *owned;        /* NULL: there are no tables                  */
    struct asked_shape *shapes; /* [node_count]: of all as askers             */
    struct fold_lanes *runs;    /* [piece_count]: of all nodes                */
    float **own_pieces;         /* [table_count]                              */
    uint64_t *row_count;        /* [table_count]: of all nodes                */
    uint64_t *own_rows;         /* [table_count]: of this one, after the last step that it has updated for */
    uint64_t apart;             /* the main thread's: nodes that do not share rank 0's directory (save.h) */
    /* the node's thread's */
    struct peer *peers; /* [node_count] */
    bool is_started;
    uint64_t step; /* that is open: its rounds are … */
    struct round round[ROUNDS];
    struct values_round values;
    bool is_valued;                                                      /* all values of the step are here */
    uint32_t turns;                                                      /* that are under way, of all rounds … */
    uint64_t turns_ns;                                                   /* … since when any is */
    uint32_t last;                                                       /* whose part of them has come last */
    _Atomic uint64_t shared_rounds_ns, shared_last_ns[REDUCE_NODES_MAX]; /* struct reduce_rounds */
    const struct asked_step *asked; /* whose letters are sent, and which is not open; or NULL       */
    uint64_t open_until;            /* steps below it are or were open: their rows are here         */
    uint64_t updated_until;         /* steps below it are updated here                              */
    uint64_t values_until;          /* steps below it have their values from all                    */
    uint64_t news_until;            /* of node 0: news of steps below it are sent                   */
    /* from the thread that reads */
    struct ring asked_ring; /* numbers modulo ASKED_MAX    */
    const struct asked_step *asked_waits[ASKED_MAX];
    uint32_t asked_count;
    struct looks looks;
    struct grants grants;
    struct evicting evicting;
    /* The main thread adds 1 when it wants the store, which makes it odd, and when it lets go; the node's thread says
     * which of these it has seen while it was out. */
    _Atomic uint32_t shared_hold, shared_held;
    /* Data that are a stream; NULL: they are none. */
    _Atomic(struct stream *) shared_stream;
    struct bell talk_bell;  /* of who talks */
    struct failure failure; /* what reduce_fail was told, before … */
    _Atomic bool shared_is_failed;
    /* shared */
    _Atomic uint32_t shared_begun[EXCHANGE_ROWS]; /* by begin(): bit b: bucket b */
    _Atomic uint64_t shared_sent_bytes, shared_asked_rows, shared_rows_bytes;
    _Atomic bool shared_runs; /* a job does */
};

/* A kind of messages that are no round's. */
struct message_kind {
    /* Fills in what the node may send of that kind, which is said to be of `step` and to have `bytes`: kind, step,
     * bytes and a part where they go. False: nothing. */
    bool (*expect)(struct reduce *r, uint32_t from, uint64_t step, uint64_t bytes, struct reduce_message *message);
    /* It is there. */
    status (*arrived)(struct reduce *r, uint32_t from, const struct reduce_message *message);
    /* Before `expect`: whether the place of the next one is free, which a node keeps to that is one of ours. INVALID;
     * optional. */
    status (*may_come)(const struct reduce *r, uint32_t from);
};
extern const struct message_kind rows_kind, letter_kind, look_kind, looked_kind, block_kind, taken_kind, grant_kind,
    wish_kind, bins_kind, news_kind, data_kind, had_kind, slot_kind, wave_kind, round_kind, added_kind, begun_kind;

/* Gives the post a message, whose parts stay until it is sent. */
MUST_USE status message_send(struct reduce *r, uint32_t to, const struct reduce_message *message);
/* A message of one part. */
MUST_USE status part_send(struct reduce *r, uint32_t to, uint16_t kind, uint64_t step, const void *at, uint64_t bytes);

/* Whether a node computes. */
static inline bool has_lanes(const struct reduce *r, uint32_t node)
{
    return r->exchange.stages || r->exchange.waves || r->lane_begin[node] < r->lane_begin[node + 1];
}
/* Whose a row is, where there are tables. */
static inline uint32_t row_owner(const struct reduce *r, uint32_t table, uint64_t key)
{
    return model_share_owner(&r->model->share, table, key);
}

/* Floats of the node's slice in the run of the bucket, which begin at *begin. */
static inline uint64_t slice_floats(const struct exchange *x, uint32_t node, uint32_t bucket, uint32_t run,
                                    uint64_t *begin)
{
    uint64_t end;
    extent_part(&x->slices[bucket], node, run, begin, &end);
    return end - *begin;
}
/* In all runs of the buckets [bucket, end). */
static inline uint64_t slices_floats(const struct exchange *x, uint32_t node, uint32_t bucket, uint32_t end)
{
    uint64_t floats = 0, begin;
    for (; bucket < end; bucket++)
        for (uint32_t run = 0; run < x->slices[bucket].run_count; run++)
            floats += slice_floats(x, node, bucket, run, &begin);
    return floats;
}

/* The gate may have another answer: rows have come, or steps are granted. */
static inline void gate_ring(struct reduce *r)
{
    const struct exchange_site *site = &r->exchange.site;
    if (site->over) site->over(site->context, EXCHANGE_ROWS, 0, ST_OK);
}

/* Relaxed: figures, of which one thread alone makes more. */
static inline void figure_add(_Atomic uint64_t *figure, uint64_t more)
{
    atomic_store_explicit(figure, atomic_load_explicit(figure, memory_order_relaxed) + more, memory_order_relaxed);
}

/* By the main thread, between jobs: keeps the node's thread out of the store, until store_let_go. What the exchange has
 * failed with. */
MUST_USE status store_hold(struct reduce *r);
void store_let_go(struct reduce *r);
/* Whether the node's thread keeps out of it. */
bool store_is_held(struct reduce *r);

/* Each does all that can be done. */
MUST_USE status rows_step(struct reduce *r);
/* Who owes rows of the step that is asked for and could be open. */
uint64_t rows_waits(const struct reduce *r);
MUST_USE status looks_step(struct reduce *r);
MUST_USE status grants_step(struct reduce *r);
MUST_USE status news_step(struct reduce *r);
MUST_USE status talk_step(struct reduce *r);
MUST_USE status stream_step(struct reduce *r);
MUST_USE status hops_step(struct reduce *r);
MUST_USE status waves_step(struct reduce *r);
/* For whose waves this worker waits, a bit a node. */
uint64_t waves_waits(const struct reduce *r);
/* The least that a node sends while each worker has a wave. */
uint64_t waves_least_bytes(const struct reduce *r);
void waves_layout(struct reduce *r, struct layout *l);
/* Steps below this one are done by all. */
void waves_start(struct reduce *r, uint64_t step);
void waves_close(struct reduce *r);
/* Of rank 0: it reads no further, which all hear at the same byte. */
void stream_stop(struct reduce *r);
void stream_close(struct reduce *r);

/* The values of a step are here, and row_count is of all nodes: rows that are too many go. *is_over: now they have
 * gone, or were not. */
void evict_begin(struct reduce *r);
MUST_USE status evict_step(struct reduce *r, bool *is_over);
void evict_layout(struct reduce *r, struct layout *l);
void looks_layout(struct reduce *r, struct layout *l, uint32_t node, struct peer *peer);
void talk_layout(const struct reduce *r, struct layout *l, uint32_t node, struct peer *peer);

/* Of struct exchange_vt. */
void round_begin(struct exchange *x, enum exchange_round round, uint32_t bucket);
void step_ask(struct exchange *x, const struct asked_step *asked);
void step_tell(struct exchange *x, uint64_t step, struct exchange_news news);
void look_ask(struct exchange *x, struct exchange_look *look);
void look_end(struct exchange *x);
void hops_carry(struct exchange *x);
void job_begin(struct exchange *x, uint64_t step, uint64_t until);
void job_end(struct exchange *x);
void job_stop(struct exchange *x);

#endif
