/* What the files of the exchange between nodes share: reduce.c, rounds; reduce_open.c, memory; rows.c,
 * letters of steps and their rows; look.c, rows that are only read; grant.c, how far jobs go; evict.c,
 * rows that are too many; news.c, steps for nodes without lanes; talk.c, talk; stream.c, data that
 * rank 0 alone can read; carry.c, slots between stages; waves_internal.h, waves. All is the node's thread's
 * unless a comment says otherwise. */
#ifndef HETERPS_ENGINE_NODE_REDUCE_INTERNAL_H
#define HETERPS_ENGINE_NODE_REDUCE_INTERNAL_H

#include "engine/base/bell.h"
#include "engine/base/ring.h"
#include "engine/node/owned.h"
#include "engine/node/reduce.h"
#include "engine/sync/waves.h"
#include "io/store/store_life.h"
#include "io/store/store_rows.h"

/* Below ROUNDS: rounds whose buckets come in one order. */
#define ROUNDS EXCHANGE_VALUES
enum {
    KIND_ROWS = EXCHANGE_ROWS,
    KIND_LETTER,
    KIND_EARLY,  /* rows of a letter that the step before lacks       */
    KIND_LOOK,   /* a request for rows as they are, by number         */
    KIND_LOOKED, /* the answer, likewise                              */
    KIND_BLOCK,  /* a block of talk (engine/node/talk.h), by number   */
    KIND_TAKEN,  /* a receipt: the block is taken, its place free     */
    KIND_GRANT,  /* steps below this one may be run                   */
    KIND_WISH,   /* a node wants this job to end                      */
    KIND_BINS,   /* rows, counted by a threshold's next digit         */
    KIND_NEWS,   /* a step that there is, for a node without lanes    */
    KIND_DATA,   /* a block of data (stream.c), by number             */
    KIND_HAD,    /* a receipt of data                                 */
    KIND_SLOT,   /* what crosses between stages (carry.c), by tag     */
    KIND_WAVE,   /* what a worker's wave has changed (waves.c)        */
    KIND_ROUND,  /* the changes of others' waves, added up            */
    KIND_ADDED,  /* rounds below this one are in the worker's weights */
    KIND_BEGUN,  /* a worker's steps below this are begun, no more    */
    KIND_ASK,    /* rows that a worker asks for (wave_asks.c)         */
    KIND_ANSWER, /* their values                                      */
    KIND_COUNT,
    KIND_VALUES = 64 /* values of bucket b: this + b */
};
/* Most steps by which a feed is ahead with its letters: as many as it has blocks of rows (feed.c)
 * where a step is one micro-batch. */
#define ASKED_MAX 8u

/* Most looks of a node that are under way. */
#define LOOKS_MAX 4u
/* Grants that may be on their way: a node that has not got the newest is at most GRANT_STEPS behind. */
#define GRANT_CELLS 16u
#define GRANT_STEPS 4u
/* Most blocks of talk between two nodes, each way, that are not taken yet. */
#define TALK_PLACES 2u

/* The looks of this node; a peer's looks are in struct peer. */
struct looks {
    struct exchange_look *waits[EXCHANGE_LOOKS_MAX]; /* from the thread that reads                        */
    struct ring ring;                                /* of indices in `waits`                             */
    uint32_t asked_count;                            /* by the thread that reads                          */
    struct exchange_look *flight[LOOKS_MAX];         /* of number n at n % LOOKS_MAX                      */
    uint32_t left[LOOKS_MAX];                        /* nodes that have not answered, likewise            */
    uint64_t begin, end;                             /* numbers of the oldest look in flight, of the next */
    _Atomic uint32_t shared_done;
};

/* Talk between rank 0 and another node. */
struct talk_way {
    uint8_t *out[TALK_PLACES], *in[TALK_PLACES]; /* [TALK_BYTES]; NULL: these two do not talk */
    uint32_t out_bytes[TALK_PLACES], in_bytes[TALK_PLACES];
    uint64_t sent, told;                         /* the node's thread's: blocks sent; receipts sent   */
    _Atomic uint64_t shared_given, shared_taken; /* this node's blocks: given; taken at the other end */
    _Atomic uint64_t shared_come, shared_heard;  /* the other node's: come; taken here                */
};

/* How far jobs go. */
struct grants {
    _Atomic uint64_t shared_from, shared_until; /* of the job that runs, on rank 0                       */
    _Atomic uint64_t shared_wish;               /* the last job that this node wants to end              */
    _Atomic uint64_t shared_cut, shared_is_cut; /* on rank 0: the last job to cut; the last that was cut */
    _Atomic bool shared_mark_wish;              /* on rank 0: the next grant marks a step                */
    _Atomic uint64_t shared_marked;             /* the last mark: this many steps are done               */
    /* the node's thread's */
    uint64_t job, until;
    enum exchange_word word;
    uint64_t wish;              /* the last job that a node wants to end: on rank 0 any node, on others this one */
    uint64_t stopped;           /* the last job that a wish has ended                                            */
    uint64_t halted;            /* of workers, bit n: node n begins nothing more; 0: the job is not halted       */
    uint64_t begun;             /* these nodes have begun only steps below this number                           */
    uint64_t body[GRANT_CELLS]; /* of messages under way                                                         */
    uint32_t body_count;
};

/* Removes rows that are too many, after the values of a step. */
struct evicting {
    bool is_bounded;   /* set once: a table has a greatest number of rows */
    bool is_on;        /* under way, since the values have come           */
    bool is_counted;   /* the own bins of this round are sent             */
    bool is_selecting; /* among the rows of `table`                       */
    uint32_t table;
    struct store_select select;
    uint64_t within;           /* of bins of the digit before: rows of the bin that was chosen     */
    uint64_t round;            /* of bins, of all evictions so far                                 */
    uint64_t *own[2], *sum[2]; /* [STORE_BINS], of even and of odd rounds: this node's; all nodes' */
    uint32_t come[2];          /* how many other nodes' are in `sum`                               */
};

/* A message of a round between two nodes, by its number within the turn. A round has a turn a bucket, the
 * last bucket's first; squares have one turn. */
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

/* The round of values, whose buckets have no order. Bit b: bucket b. */
struct values_round {
    uint32_t ready, sent, come, over; /* this node's; likewise; all others', and told; all nodes' */
    uint64_t begun_ns[EXCHANGE_BUCKETS_MAX];
};

/* Another node, as seen by the node's thread. */
struct peer {
    struct cursor next[ROUNDS];                         /* the next message of each round                     */
    uint64_t given, sent;                               /* messages to it: given to the post; sent            */
    uint64_t given_until[ROUNDS][EXCHANGE_BUCKETS_MAX]; /* `given` after a turn's last message                */
    uint32_t next_values[EXCHANGE_BUCKETS_MAX];         /* messages of values of the open step that have come */
    uint32_t early_values;                              /* of stages: the same, of the next step              */
    uint64_t given_values[EXCHANGE_BUCKETS_MAX];        /* as given_until                                     */
    uint64_t given_rounds;                              /* `given` after the last message of any round        */
    uint64_t next_letter, next_rows;                    /* steps of the next letter, of the next rows         */
    uint64_t rows_sent;                                 /* the step whose rows it gets next                   */
    struct reduce_message coming;                       /* the message that has got a place                   */
    float *values;                                      /* copies of rows that it asked for                   */
    uint64_t early_until;                               /* it has the early rows of letters below this step   */
    size_t early_floats;                                /* floats of the early rows of step rows_sent         */
    uint64_t *shared;                                   /* bits that come with its early rows, if any come    */
    size_t early_come;                                  /* floats of early rows that it has sent for `asked`  */
    uint64_t *row_count[2];                             /* [table_count]: of it, after an even, an odd step   */
    /* looks */
    uint8_t *look_letter[LOOKS_MAX]; /* of this peer: its letters, and their answers         */
    float *look_values[LOOKS_MAX];
    uint64_t look_next;  /* the least number that its next look may have */
    uint32_t look_count; /* looks that have come                         */
    uint64_t looked;     /* the own look that it answers next            */
    struct talk_way talk;
    uint64_t word; /* what comes in messages of one word */
    /* evictions: its bins, and the round of the next ones */
    uint64_t *bins, next_bins;
};

struct reduce {
    struct exchange exchange; /* first: a struct exchange * is a struct reduce * */
    /* set once */
    const struct graph *graph;
    struct model *model;
    struct post *post;
    struct arena arena, sums_arena; /* sums: other nodes' pieces of the own slice */
    const uint32_t *lane_begin;     /* [node_count + 1]: the options', where nodes have lanes */
    const uint32_t *rank_of;        /* the options'                               */
    uint8_t *owner_of;              /* [SHARD_COUNT]; NULL: there are no tables   */
    /* By enum share_what: the nodes' parts, of the last division; whether they are uneven, of any. */
    uint16_t parts[2][REDUCE_NODES_MAX];
    bool is_uneven[2];
    uint32_t micros_a_lane;
    bool is_bounded;            /* the norm is: there are squares                                          */
    struct owned *owned;        /* NULL: there are no tables                                               */
    struct asked_shape *shapes; /* [node_count]: of each node as asker                                     */
    struct fold_lanes *runs;    /* [piece_count]: of all nodes                                             */
    float **own_pieces;         /* [table_count]                                                           */
    float *late;                /* [asked_floats_max]: rows of others that come after early ones, if any   */
    uint64_t *row_count;        /* [table_count]: of all nodes                                             */
    uint64_t *own_rows;         /* [table_count]: of this one, after the last step that it has updated for */
    uint64_t apart;             /* the main thread's: nodes that do not share rank 0's directory (save.h)  */
    /* the node's thread's */
    struct peer *peers; /* [node_count] */
    bool is_started;
    uint64_t step; /* the open step, and its rounds */
    struct round round[ROUNDS];
    struct values_round values;
    bool is_valued;                                                      /* all values of the step are here */
    uint32_t turns;                                                      /* turns under way, of all rounds */
    uint64_t turns_ns;                                                   /* since when any turn is */
    uint32_t last;                                                       /* the node whose part has come last */
    _Atomic uint64_t shared_rounds_ns, shared_last_ns[REDUCE_NODES_MAX]; /* struct reduce_rounds */
    const struct asked_step *asked; /* the step whose letters are sent, not open yet; or NULL */
    uint64_t open_until;            /* steps below it are or were open: their rows are here   */
    uint64_t updated_until;         /* steps below it are updated here                        */
    uint64_t values_until;          /* steps below it have their values from all              */
    uint64_t news_until;            /* on node 0: news of steps below it are sent             */
    /* from the thread that reads */
    struct ring asked_ring; /* indices in asked_waits      */
    const struct asked_step *asked_waits[ASKED_MAX];
    uint32_t asked_count;
    struct looks looks;
    struct grants grants;
    struct evicting evicting;
    /* The main thread adds 1 when it wants the store, which makes shared_hold odd, and 1 when it lets go. Out
     * of the store, the node's thread copies an odd shared_hold to shared_held. */
    _Atomic uint32_t shared_hold, shared_held;
    /* NULL: the data are no stream. */
    _Atomic(struct stream *) shared_stream;
    struct bell talk_bell;  /* of threads that talk */
    struct failure failure; /* of reduce_fail; set before … */
    _Atomic bool shared_is_failed;
    /* shared */
    _Atomic uint32_t shared_begun[EXCHANGE_ROWS]; /* by begin(): bit b: bucket b */
    _Atomic uint64_t shared_sent_bytes, shared_asked_rows, shared_early_rows, shared_rows_bytes;
    _Atomic bool shared_runs; /* a job runs */
};

/* A kind of messages outside of rounds. */
struct message_kind {
    /* Fills in the message of this kind that the node may send: step, bytes, and where they go. `step` and
     * `bytes` are those of the message that comes. False: the node may send none. */
    bool (*expect)(struct reduce *r, uint32_t from, uint64_t step, uint64_t bytes, struct reduce_message *message);
    /* The message is there. */
    status (*arrived)(struct reduce *r, uint32_t from, const struct reduce_message *message);
    /* Before `expect`; optional. INVALID: the node's next message has no free place; ours would wait. */
    status (*may_come)(const struct reduce *r, uint32_t from);
};
extern const struct message_kind rows_kind, letter_kind, early_kind, look_kind, looked_kind, block_kind, taken_kind,
    grant_kind, wish_kind, bins_kind, news_kind, data_kind, had_kind, slot_kind, wave_kind, round_kind, added_kind,
    begun_kind, ask_kind, answer_kind;

/* Gives the post a message, whose parts stay until it is sent. */
MUST_USE status message_send(struct reduce *r, uint32_t to, const struct reduce_message *message);
/* A message of one part. */
MUST_USE status part_send(struct reduce *r, uint32_t to, uint16_t kind, uint64_t step, const void *at, uint64_t bytes);

/* Whether a node computes. */
static inline bool has_lanes(const struct reduce *r, uint32_t node)
{
    return r->exchange.stages || r->exchange.waves || r->lane_begin[node] < r->lane_begin[node + 1];
}
/* Whether a node has lanes of a division; NULL: none has. */
static inline bool division_has(const struct exchange_division *d, uint32_t node)
{
    return d && d->lane_begin[node] < d->lane_begin[node + 1];
}
/* Whether a node asks owners for rows, where there are tables; may own some. Not of workers. */
static inline bool asks_rows(const struct reduce *r, uint32_t node)
{
    return division_has(r->exchange.division_of[0], node);
}
static inline bool may_own_rows(const struct reduce *r, uint32_t node)
{
    return r->exchange.stages == NULL || asks_rows(r, node);
}
/* The owner of a row, where there are tables. */
static inline uint32_t row_owner(const struct reduce *r, uint32_t table, uint64_t key)
{
    return model_share_owner(&r->model->share, table, key);
}

/* How many floats of the node's slice are in the bucket's run; they begin at *begin. */
static inline uint64_t slice_floats(const struct exchange *x, uint32_t node, uint32_t bucket, uint32_t run,
                                    uint64_t *begin)
{
    uint64_t end;
    extent_part(&x->slices[bucket], node, run, begin, &end);
    return end - *begin;
}
/* How many are in all runs of the division's buckets below `end`. */
static inline uint64_t slices_floats(const struct exchange *x, uint32_t node, const struct exchange_division *d,
                                     uint32_t end)
{
    uint64_t floats = 0, begin;
    for (uint32_t bucket = 0; bucket < end; bucket++)
        for (uint32_t run = 0; run < x->slices[bucket].run_count && x->division_of[bucket] == d; run++)
            floats += slice_floats(x, node, bucket, run, &begin);
    return floats;
}

/* The gate may have another answer: rows have come, or steps are granted. */
static inline void gate_ring(struct reduce *r)
{
    const struct exchange_site *site = &r->exchange.site;
    if (site->over) site->over(site->context, EXCHANGE_ROWS, 0, ST_OK);
}

/* Relaxed: one thread alone adds to a figure. */
static inline void figure_add(_Atomic uint64_t *figure, uint64_t more)
{
    atomic_store_explicit(figure, atomic_load_explicit(figure, memory_order_relaxed) + more, memory_order_relaxed);
}

/* By the main thread, between jobs: keeps the node's thread out of the store until store_let_go. Fails as the
 * exchange. */
MUST_USE status store_hold(struct reduce *r);
void store_let_go(struct reduce *r);
/* Whether the node's thread must keep out of the store. */
bool store_is_held(struct reduce *r);

/* Each *_step does all that can be done. */
MUST_USE status rows_step(struct reduce *r);
/* Who owes rows of the next step, which only rows keep from opening: a bit a node. */
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
/* The least that this node sends while each worker has one wave. */
uint64_t waves_least_bytes(const struct reduce *r);
void waves_layout(struct reduce *r, struct layout *l);
/* Steps below this one are done by all. */
void waves_start(struct reduce *r, uint64_t step);
/* On rank 0: reading ends; all nodes hear so at the same byte. */
void stream_stop(struct reduce *r);
void stream_close(struct reduce *r);

/* A step's values are here, and row_count counts all nodes' rows: rows that are too
 * many go. *is_over: none are left. */
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
