/* What bsp asks of the other nodes of a training, and all that it knows of them.
 *
 * A node has consecutive lanes of every step, or none, and a slice of what updates change, or none: whole
 * blocks of it, which it alone updates, and whose optimizer state it alone has. Between a step's backward
 * passes and the next step's forward passes there are rounds, in each of which every node has something for
 * every other:
 *
 *     lanes ──own runs added up──▶ pieces ═══SUMS═══▶ slice's owner ──joined──▶ squares ═══SQUARES═══▶ all (a)
 *                                                          └──updated──▶ parameters ═══VALUES═══▶ all
 *     (a) where the norm is bounded
 *
 * Sums and values travel in buckets, layers that follow one another: those of the last layers are sent while
 * the layers before them still compute their gradients, and come back while others are on the way.
 *
 *     backward  ──layers 5..6──┬──layers 3..4──┬──layers 0..2──┐
 *     bucket 2                 └═SUMS═▶ update ═VALUES═▶       │
 *     bucket 1                                 └═SUMS═▶ update ═VALUES═▶
 *     bucket 0, and rows                                       └═SUMS═▶ update ═VALUES═▶ the next step
 *
 * Sums go first. Values go when no sums are on their way, those of the last layers while there are sums to come, then
 * those of the first layers first: the next step's forward pass reads them in this order, and without tables it begins
 * as soon as this node has updated all that is its own, and waits for each bucket's values where its layers begin.
 *
 * A round of a node is over when it has sent all that is its own and has all that is the others'. Nobody is more
 * than one round of a bucket ahead of anybody, so each thing that comes has one place, which is free when it comes:
 * who has the sums of a bucket from all knows that nobody computes with its parameters any more in this step.
 *
 * Where a plan says on which node each stage lies, nodes have stages in place of lanes: each has all lanes of its own
 * stages, whose parameters and rows nobody else has, and slots cross from node to node (exchange_hops). Of a step's
 * rounds SQUARES is left, and VALUES, which carries losses and numbers of rows and says that all have updated.
 *
 * Under wsp nodes are workers, whose minibatches are steps of their own, and there are waves in place of rounds
 * (engine/sync/waves.h); of the exchange, grants and what is said between jobs are left.
 *
 * A node without lanes reads no data: node 0, which does, tells it of each step that there is. It gets no values, for
 * nothing there reads them, and what it has of other slices is what it began with. */
#ifndef HETERPS_ENGINE_SYNC_EXCHANGE_H
#define HETERPS_ENGINE_SYNC_EXCHANGE_H

#include <stdatomic.h>

#include "engine/slot/asked.h"
#include "engine/slot/extent.h"
#include "engine/slot/fold.h"
#include "engine/slot/update.h"

/* Looks that may wait for their rows at once. */
#define EXCHANGE_LOOKS_MAX 64u
/* Most buckets of a graph. */
#define EXCHANGE_BUCKETS_MAX 16u
/* Jobs whose steps rank 0 may have granted, from the one that runs. */
#define EXCHANGE_JOBS 4u

/* ROWS begins by itself, and is over when the rows of the next step are here. STEP is all of a step. */
enum exchange_round { EXCHANGE_SUMS, EXCHANGE_SQUARES, EXCHANGE_VALUES, EXCHANGE_ROWS, EXCHANGE_STEP };

/* A piece of the sums of the own slice: a run of some node's lanes. */
struct exchange_piece {
    struct fold_lanes run;
    uint32_t node;
    /* Of another node: [the slice's floats, bucket after bucket, run after run]; of this one NULL: they are where lanes
     * add. */
    float *sums;
    /* Sums that are rounded, as they travel: of another node's piece as `sums`, of this one's as the parameters. NULL:
     * none is. */
    uint16_t *wire;
};

/* Where what travels lies on this node; set before the first round. */
struct exchange_site {
    float *param;             /* [param_floats]                                                       */
    float *const *param_grad; /* [own.count]                                                          */
    double *squares;          /* of all blocks whose norm is bounded, in their order; NULL: none is   */
    double *loss;             /* [2, loss_count]: sums over examples, which travel with the gradients */
    uint32_t loss_count;      /* micro-batches of a step                                              */
    /* A round is over, on whatever thread: that of sums once a bucket, from the last one to the first; of values once
     * a bucket, in any order, when those of all others are here; the others once for all buckets (bucket 0). A failure:
     * what another node or the way to it failed with. */
    void (*over)(void *context, enum exchange_round round, uint32_t bucket, status st);
    void *context;
};

/* On which node stages lie, where that is so. */
struct exchange_stages {
    uint32_t count;
    uint32_t *node_of, *first_layer; /* [count]                                                          */
    uint8_t *node_of_table;          /* [table_count]: that of the stages that look up, which has its rows */
    struct extent *extents;          /* [count]: uncut                                                     */
};

/* Slots that cross between stages of several nodes, as messages. What a tag means both ends know (engine/pipe/hops.h);
 * memory that is sent stays as it is until something has come back for it. */
struct exchange_send {
    uint64_t tag;
    const void *at;
    uint64_t bytes;
};
struct exchange_hops {
    /* By the exchange's thread: where a message of another node belongs; NULL: there is no such message. */
    void *(*place)(struct exchange_hops *, uint32_t from, uint64_t tag, uint64_t bytes);
    /* It is there. */
    void (*arrived)(struct exchange_hops *, uint64_t tag, uint64_t bytes);
    struct exchange_send *sends; /* by number */
    struct ring *waiting;        /* [node_count]: numbers of what goes to each, in order */
};

/* The rows of tables, where the graph has any: this node asks all that own rows, itself too, for those of a step
 * (engine/slot/asked.h), and owns some for all. Set by the exchange: of the step that is open. */
struct exchange_rows {
    struct asked_shape shape;
    float *values[2]; /* of rows of even and of odd steps, [asked_floats_max]                     */
    const struct asked_step *asked;
    float *pieces;                    /* of the sums of their gradients, [run_count asked_piece_floats_max]  */
    float *const *own_pieces;         /* [table_count]: those that this node itself owns lie here instead  */
    const struct step_rows *owned;    /* [table_count]: that this node updates …                            */
    const struct gradients *of_owned; /* … by these sums                                                   */
    uint64_t *row_count;              /* [table_count]: of all nodes, after the step                        */
    /* Where nodes have stages, of this one after the step, by who begins VALUES: how many; the number of its last
     * ticket. */
    uint64_t *own_row_count;
    uint32_t own_ticket;
    _Atomic uint64_t shared_step; /* steps below it have their rows                                    */
};

/* The rows of a micro-batch as they are after the last step of all nodes, for who only reads them: a key that has none
 * has its initial values. */
struct exchange_look {
    struct asked_step asked; /* of that micro-batch alone; the step is the look's number */
    float *values;           /* where they come to                                        */
    _Atomic bool shared_is_done;
};
static inline bool exchange_look_is_done(const struct exchange_look *look)
{
    /* Acquire pairs with the release of whoever has got the values. */
    return atomic_load_explicit(&look->shared_is_done, memory_order_acquire);
}

/* What a node without lanes is told of a step. */
struct exchange_news {
    uint64_t epoch;
    uint32_t example_count, is_failed; /* count 0: there is none, for the data have ended, or reading them has failed */
};
/* Steps that node 0 may be ahead with them. */
#define EXCHANGE_NEWS 32u

struct exchange {
    const struct exchange_vt *vt;
    uint32_t rank, node_count;
    const struct exchange_stages *stages; /* NULL: nodes have lanes … */
    struct exchange_waves *waves;         /* … or, unless NULL, are workers that exchange waves (engine/sync/waves.h) */
    struct exchange_hops *hops;           /* the pipeline's, where they have stages */
    struct fold_lanes own;                /* lanes; count 0: it is without */
    struct fold_lanes runs[FOLD_RUNS_MAX];
    uint32_t run_count; /* of the own lanes */
    /* [bucket_count], that of the first layers first: part p is node p's. */
    struct extent slices[EXCHANGE_BUCKETS_MAX];
    uint32_t bucket_count;
    bool is_bf16;                  /* sums of gradients are rounded (struct update), and travel so */
    struct exchange_piece *pieces; /* [piece_count], in order of lanes */
    uint32_t piece_count;
    struct fold_join *joins; /* [piece_count - 1] */
    struct exchange_rows rows;
    struct asked_shape look_shape; /* of a look; graph NULL: there are no tables */
    /* News of steps: node 0's, as it has them, or a node's without lanes, as they have come. */
    struct exchange_news news[EXCHANGE_NEWS]; /* of step s at s % EXCHANGE_NEWS */
    _Atomic uint64_t shared_news;             /* steps below it are there       */
    struct bell *news_bell;                   /* of who waits for them; or NULL */
    /* The jobs of all nodes are the same, and rank 0 says step by step how far each goes. */
    _Atomic uint64_t shared_job;                  /* that runs, or has run last; they count from 1     */
    _Atomic uint64_t shared_grant[EXCHANGE_JOBS]; /* of job j at j % EXCHANGE_JOBS (exchange_grant)    */
    /* Of workers (exchange_begins): the job of which nothing more is begun before its last word; own steps below it
     * are begun. */
    _Atomic uint64_t shared_halted, shared_begun;
    struct exchange_site site;
};

struct exchange_vt {
    /* This node has all that is its own of a round of the step that is open: of sums and values, of a bucket, each
     * bucket once, in any order; of squares (bucket 0) once, when sums are over. `over` follows. */
    void (*begin)(struct exchange *, enum exchange_round round, uint32_t bucket);
    /* By the thread that reads, step after step: a step's letters are written. It stays until the step is over. */
    void (*ask)(struct exchange *, const struct asked_step *asked);
    /* By the thread that reads, of node 0, step after step: there is this one, or no further. */
    void (*tell)(struct exchange *, uint64_t step, struct exchange_news news);
    /* By any thread: there is more in waiting rings of hops, or of waves. */
    void (*carry)(struct exchange *);
    /* By one thread at a time: a look's letters are written, and at most EXCHANGE_LOOKS_MAX have not come back. The
     * bell of rows rings when they have. */
    void (*look)(struct exchange *, struct exchange_look *look);
    /* Returns when no look is under way, or nothing comes any more. By the thread that gave the last one, or behind
     * it. */
    void (*look_end)(struct exchange *);
    /* By the main thread: the next job begins, which is at `step`. What rank 0 says counts for all: steps below
     * `until`, as far as nobody wants to stop. */
    void (*job_begin)(struct exchange *, uint64_t step, uint64_t until);
    /* By the main thread: it is over here. */
    void (*job_end)(struct exchange *);
    /* By any thread, any number of times: it should end soon, behind the same step on all nodes; or, if it has been
     * granted to its bound, the next. */
    void (*job_stop)(struct exchange *);
};

/* What rank 0 has said of a job: steps below `until` may be run; if it is the last word no others, because … */
enum exchange_word { EXCHANGE_GOES_ON, EXCHANGE_BOUND /* that is the job's bound */, EXCHANGE_STOPPED /* of a wish */,
    /* only a message, to workers: nothing more is begun, and each says what it has begun */
    EXCHANGE_HALT };
static inline uint64_t exchange_grant(uint64_t job, uint64_t until, enum exchange_word word)
{
    return job << 48 | until << 2 | word;
}
#define EXCHANGE_STEP_MAX (UINT64_MAX >> 18)
/* Of the job that runs, or has run last. 0: nothing yet. */
static inline uint64_t exchange_granted(const struct exchange *x, enum exchange_word *word)
{
    /* Relaxed: set before the job's threads begin. */
    const uint64_t job = atomic_load_explicit(&x->shared_job, memory_order_relaxed);
    /* Acquire pairs with the release of whoever has heard it. */
    const uint64_t grant = atomic_load_explicit(&x->shared_grant[job % EXCHANGE_JOBS], memory_order_acquire);
    const bool is_here = grant >> 48 == (job & UINT16_MAX);
    *word = is_here ? (enum exchange_word)(grant & 3) : EXCHANGE_GOES_ON;
    return is_here ? grant >> 2 & EXCHANGE_STEP_MAX : 0;
}

/* By the gate of a worker, of a step that is granted: it begins now, unless the job is halted and ends before it. */
static inline bool exchange_begins(struct exchange *x, uint64_t step)
{
    enum exchange_word word;
    /* Relaxed: nobody else writes it. */
    const uint64_t before = atomic_load_explicit(&x->shared_begun, memory_order_relaxed);
    /* Sequentially consistent, both, as in halt_take(): either that sees this step, or this sees that. */
    atomic_store_explicit(&x->shared_begun, step + 1, memory_order_seq_cst);
    if (atomic_load_explicit(&x->shared_halted, memory_order_seq_cst) !=
        atomic_load_explicit(&x->shared_job, memory_order_relaxed))
        return true;
    const uint64_t until = exchange_granted(x, &word);
    if (word != EXCHANGE_GOES_ON && step < until) return true;
    atomic_store_explicit(&x->shared_begun, before, memory_order_seq_cst); /* a halt may have seen more, and waits */
    return false;
}

/* [loss_count]: losses of the step. Two steps', for those of the next may come while this one is being closed. */
static inline double *exchange_loss(const struct exchange_site *site, uint64_t step)
{
    return site->loss + step % 2 * site->loss_count;
}

/* What of it divides lanes and slices; NULL: this node has all that its own stages need. */
static inline struct exchange *exchange_of_lanes(struct exchange *x) { return x && (x->stages || x->waves) ? NULL : x; }
/* Whether this node has lanes, and so reads data; alone it has all. */
static inline bool exchange_computes(const struct exchange *x) { return x == NULL || x->own.count > 0; }

/* Whether a step opens while values of the one before it are on their way. */
static inline bool exchange_opens_early(const struct exchange *x, uint32_t table_count)
{
    return x->bucket_count > 1 && x->own.count > 0 && table_count == 0;
}

/* Whether the rows of the step have come. */
static inline bool exchange_has_rows(const struct exchange *x, uint64_t step)
{
    /* Acquire pairs with the release of whoever has got them. */
    return x->rows.shape.graph == NULL || step < atomic_load_explicit(&x->rows.shared_step, memory_order_acquire);
}

/* A look's memory, and that of the numbers by which a thread makes looks [table_count]. Where there are tables. */
void exchange_look_layout(struct exchange_look *look, struct layout *l, const struct exchange *x);
void exchange_look_numbers_layout(struct key_numbers *numbers, struct layout *l, const struct exchange *x);
/* Numbers the micro-batch's keys, fills the ticket, whose spans are where the rows come to, and sends for them. */
void exchange_look_make(struct exchange *x, struct exchange_look *look, struct key_numbers *numbers,
                        const struct micro_batch *m, struct ticket *ticket);

/* What a stage does of its part between two steps, beside rounds: adds the lanes of the own runs up, and writes as it
 * travels what is rounded … */
MUST_USE status exchange_lanes_run(const struct exchange *x, const struct updater *w, uint32_t bucket,
                                   const struct extent *e, const struct update *u, uint32_t part);
/* … after SUMS joins the pieces of the own slice of a bucket, and squares them (graph/clip.h: `blocks`, `squares` of
 * all of the graph; NULL: nothing is bounded) … */
MUST_USE status exchange_sum_run(const struct exchange *x, const struct updater *w, uint32_t bucket,
                                 const struct extent *e, const struct update *u, const struct param_block *blocks,
                                 double *squares, uint32_t part);
/* … and updates the own slice of the bucket and the own rows of the extent's tables, which are in the store, and clears
 * what it has sent. */
MUST_USE status exchange_update_run(const struct exchange *x, const struct updater *w, uint32_t bucket,
                                    const struct extent *e, const struct update *u, struct store *store, uint32_t part);

#endif
