/* What bsp asks of the other nodes of a training, and all that it knows of them.
 *
 * A node has consecutive lanes of every step, or none. It has a slice of what updates change, or none: whole
 * blocks, which this node alone updates, and whose optimizer's state it alone has. Between a step's backward
 * passes and the next step's forward passes nodes exchange in rounds, each node with each other:
 *
 *     lanes ──own runs added up──▶ pieces ═══SUMS═══▶ slice's owner ──joined──▶ squares ═══SQUARES═══▶ all (a)
 *                                                          └──updated──▶ parameters ═══VALUES═══▶ all
 *     (a) where the norm is bounded
 *
 * Sums and values travel in buckets, layers that follow one another. Sums of the last layers are sent while
 * the layers before them still compute gradients; their values come back while other sums are on their way.
 *
 *     backward  ──layers 5..6──┬──layers 3..4──┬──layers 0..2──┐
 *     bucket 2                 └═SUMS═▶ update ═VALUES═▶       │
 *     bucket 1                                 └═SUMS═▶ update ═VALUES═▶
 *     bucket 0, and rows                                       └═SUMS═▶ update ═VALUES═▶ the next step
 *
 * Sums go first. Values go when no sums are on their way: while there are sums to come, the last layers'
 * values first, then the first layers' first, in the order in which the next forward pass reads them. Without
 * tables this pass begins as soon as this node has updated its own slice, and waits for a bucket's values
 * where the bucket's layers begin.
 *
 * Lanes on a card add up there. A run's sum goes to the host, which exchanges and updates as it does with
 * lanes on cores; before the next step the new values go to the card:
 *
 *     card: lanes ──own runs added up──▶ host: pieces ═══SUMS═══▶ … ═══VALUES═══▶ parameters ──▶ card
 *
 * A round is over for a node when it has sent its own part and has the parts of all others. No node is more
 * than one round of a bucket ahead of another, so each message has one place, which is free when the
 * message comes. A node that has a bucket's sums from all knows that no node computes with the bucket's
 * parameters any more in this step.
 *
 * Where a plan says on which nodes each stage lies, a node has lanes of its own stages alone. Slots cross
 * from the node that has their lane in a stage to the node that has it in the next one (exchange_hops). A
 * stage on one node is whole: no other node has its parameters, and its node updates them without SUMS. The
 * parameters of a stage on several nodes travel in buckets of their own, between its nodes. The first bucket
 * is that of all nodes: its VALUES carry losses and numbers of rows, and say that all have updated.
 *
 * Under wsp nodes are workers, or have the stages of one, and workers have steps of their own. Waves take the
 * place of rounds (engine/sync/waves.h); hops, grants and the talk between jobs remain.
 *
 * A node without lanes reads no data: node 0 reads them, and tells it of each step. Such a node gets no
 * values, since nothing there reads them; others' slices stay there as they were at the start. */
#ifndef HETERPS_ENGINE_SYNC_EXCHANGE_H
#define HETERPS_ENGINE_SYNC_EXCHANGE_H

#include <stdatomic.h>

#include "engine/slot/asked.h"
#include "engine/slot/extent.h"
#include "engine/slot/fold.h"
#include "engine/slot/step_update.h"

/* Looks that may wait for their rows at once. */
#define EXCHANGE_LOOKS_MAX 64u
/* Most buckets of a graph. */
#define EXCHANGE_BUCKETS_MAX 16u
/* Jobs of which rank 0 may have granted steps, the one that runs included. */
#define EXCHANGE_JOBS 4u

/* ROWS begins by itself, and is over when the rows of the next step are here. STEP is all of a step. */
enum exchange_round { EXCHANGE_SUMS, EXCHANGE_SQUARES, EXCHANGE_VALUES, EXCHANGE_ROWS, EXCHANGE_STEP };

/* A piece of the own slice's sums: the sum of a run of some node's lanes. */
struct exchange_piece {
    struct fold_lanes run;
    uint32_t node;
    /* Another node's: [the slice's floats, bucket after bucket, run after run]. NULL:
     * this node's, where its lanes add. */
    float *sums;
    /* Rounded sums, as they travel: laid out as `sums` of another node, as the parameters of
     * this one. NULL: none is rounded. */
    uint16_t *wire;
};

/* Where this node has what travels; set before the first round. */
struct exchange_site {
    float *param;             /* [param_floats]                                                       */
    float *const *param_grad; /* [own.count]                                                          */
    double *squares;          /* of all blocks whose norm is bounded, in their order; NULL: none is   */
    double *loss;             /* [2, loss_count]: sums over examples, which travel with the gradients */
    uint32_t loss_count;      /* micro-batches of a step                                              */
    /* A round is over; on any thread. SUMS: once a bucket, from the last bucket to the first. VALUES: once a
     * bucket, in any order, when the values of all others are here. Any other round: once for all buckets
     * (bucket 0). A failure: that of another node, or of the way to it. */
    void (*over)(void *context, enum exchange_round round, uint32_t bucket, status st);
    void *context;
};

/* Which nodes have which lanes of each stage, where nodes have stages. */
struct exchange_stages {
    uint32_t count, node_count;
    uint32_t *first_layer; /* [count] */
    /* [count, node_count + 1]: node n has the stage's lanes from entry n on, up to entry n + 1. */
    uint32_t *lane_begin;
    /* Tables: of stages that are whole, each on the node whose stages look up. Else NULL; then all are
     * looked up by the lanes of stage `rows_stage`, whose nodes have the rows by shards. */
    uint8_t *node_of_table; /* [table_count] */
    uint32_t rows_stage;
    struct extent *extents; /* [count]: uncut */
    /* Under wsp: node n is of worker worker_of[n] of worker_count; the lanes above are those of this node's
     * worker, where each stage is whole; bit n of nodes_of[stage]: node n has the stage, for its worker.
     * Else 0 and NULL; as extents under wsp. */
    uint32_t worker_count;
    uint8_t *worker_of; /* [node_count] */
    uint64_t *nodes_of; /* [count]      */
};
static inline const uint32_t *exchange_stage_begin(const struct exchange_stages *stages, uint32_t stage)
{
    return stages->lane_begin + (size_t)stage * (stages->node_count + 1);
}
/* The node's lanes of the stage; count 0: it has none. */
static inline struct fold_lanes exchange_stage_lanes(const struct exchange_stages *stages, uint32_t stage,
                                                     uint32_t node)
{
    const uint32_t *begin = exchange_stage_begin(stages, stage);
    return (struct fold_lanes){begin[node], begin[node + 1] - begin[node]};
}
/* The node that has the lane of the stage. */
static inline uint32_t exchange_stage_node(const struct exchange_stages *stages, uint32_t stage, uint32_t lane)
{
    const uint32_t *begin = exchange_stage_begin(stages, stage);
    uint32_t node = 0;
    while (begin[node + 1] <= lane) node++;
    return node;
}
/* Whether one node has all lanes of the stage. */
static inline bool exchange_stage_is_whole(const struct exchange_stages *stages, uint32_t stage)
{
    const struct fold_lanes first = exchange_stage_lanes(stages, stage, exchange_stage_node(stages, stage, 0));
    return first.count == exchange_stage_begin(stages, stage)[stages->node_count];
}
/* Whether the same nodes have the same lanes of two stages. */
bool exchange_stages_are_alike(const struct exchange_stages *stages, uint32_t stage, uint32_t other);
/* How many runs of neighbouring stages on several nodes there are; a run's stages are alike. */
uint32_t exchange_stages_sections(const struct exchange_stages *stages);
/* The lanes that the node reads: from the first to the last one that it has of any stage. */
static inline struct fold_lanes exchange_stages_hull(const struct exchange_stages *stages, uint32_t node)
{
    uint32_t begin = UINT32_MAX, end = 0;
    for (uint32_t s = 0; s < stages->count; s++) {
        const struct fold_lanes lanes = exchange_stage_lanes(stages, s, node);
        if (lanes.count && lanes.begin < begin) begin = lanes.begin;
        if (lanes.count && lanes.begin + lanes.count > end) end = lanes.begin + lanes.count;
    }
    return end ? (struct fold_lanes){begin, end - begin} : (struct fold_lanes){0};
}
/* Who adds what of some buckets: the nodes that have lanes there, and the pieces of their sums. */
struct exchange_division {
    const uint32_t *lane_begin; /* [node_count + 1] */
    struct fold_lanes own;      /* this node's lanes; count 0: none */
    struct fold_lanes runs[FOLD_RUNS_MAX];
    uint32_t run_count;            /* of the own lanes */
    struct exchange_piece *pieces; /* [piece_count], in order of lanes */
    uint32_t piece_count;
    struct fold_join *joins; /* [piece_count - 1] */
};

/* Slots that cross between stages of several nodes, as messages. Both ends know what a tag means
 * (engine/pipe/hops.h). Memory that is sent keeps its contents until the slot has come back. */
struct exchange_send {
    uint64_t tag;
    const void *at;
    uint64_t bytes;
};
struct exchange_hops {
    /* By the exchange's thread: returns where another node's message belongs; NULL:
     * no such message is expected. */
    void *(*place)(struct exchange_hops *, uint32_t from, uint64_t tag, uint64_t bytes);
    /* The message is there. */
    void (*arrived)(struct exchange_hops *, uint32_t from, uint64_t tag, uint64_t bytes);
    struct exchange_send *sends; /* by number */
    struct ring *waiting;        /* [node_count]: numbers of the sends to a node, in order */
};

/* The rows of tables, where the graph has any. This node asks all owners, itself too, for the rows of a step
 * (engine/slot/asked.h), and may own rows itself. Set by the exchange, for the step that is open. Of workers
 * only the shape is set. */
struct exchange_rows {
    struct asked_shape shape;
    /* This node's lanes that look up. */
    struct fold_lanes lanes;
    float *values[2]; /* of rows of even and of odd steps, [asked_floats_max]                     */
    const struct asked_step *asked;
    float *pieces;                    /* of the sums of their gradients, [run_count asked_piece_floats_max] */
    float *const *own_pieces;         /* [table_count]: pieces of rows that this node owns lie here         */
    const struct step_rows *owned;    /* [table_count]: the rows that this node updates …                   */
    const struct gradients *of_owned; /* … by these sums                                                    */
    uint64_t *row_count;              /* [table_count]: of all nodes, after the step                        */
    /* Where nodes have stages, set before VALUES begins: own rows after the step
     * [table_count]; the last ticket's number. */
    uint64_t *own_row_count;
    uint32_t own_ticket;
    _Atomic uint64_t shared_step; /* steps below it have their rows                                    */
};

/* A look: the rows of a micro-batch as they are after the last step of all nodes, only to be read. A key
 * without a row has its initial values. */
struct exchange_look {
    struct asked_step asked; /* of that micro-batch alone; the step is the look's number */
    float *values;           /* where the rows arrive                                    */
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
    uint32_t example_count, is_failed; /* count 0: there is no such step: the data have ended, or reading has failed */
};
/* Steps that node 0 may be ahead with its news. */
#define EXCHANGE_NEWS 32u

struct exchange {
    const struct exchange_vt *vt;
    uint32_t rank, node_count;
    const struct exchange_stages *stages; /* NULL: nodes have lanes, … */
    struct exchange_waves *waves;         /* unless NULL: of workers, no lanes (engine/sync/waves.h)      */
    struct exchange_hops *hops;           /* the pipeline's, where nodes have stages */
    struct fold_lanes own;                /* this node's lanes; count 0: none. Of stages: exchange_stages_hull */
    /* [bucket_count], the bucket of the first layers first. Part p is node p's slice. */
    struct extent slices[EXCHANGE_BUCKETS_MAX];
    uint32_t bucket_count;
    /* [division_count], and of each bucket: its division. NULL: a bucket without SUMS, of stages that are
     * whole. Bit b of `absent`: this node has nothing to do with bucket b. */
    struct exchange_division divisions[EXCHANGE_BUCKETS_MAX];
    uint32_t division_count, absent;
    struct exchange_division *division_of[EXCHANGE_BUCKETS_MAX];
    bool is_bf16; /* sums of gradients are rounded (struct update), and travel so */
    /* Set by the pipeline: values are copied to cards before a step opens. */
    bool has_copies;
    bool asks_rows; /* of owners; else the own store has all that the own stages look up */
    struct exchange_rows rows;
    struct asked_shape look_shape; /* of a look; graph NULL: there are no tables */
    /* News of steps: on node 0 the news that it has told, on a node without lanes the news that has come. */
    struct exchange_news news[EXCHANGE_NEWS]; /* of step s at s % EXCHANGE_NEWS */
    _Atomic uint64_t shared_news;             /* steps below it are there       */
    struct bell *news_bell;                   /* rung when news come; or NULL   */
    /* The jobs of all nodes are the same, and rank 0 says step by step how far each goes. */
    _Atomic uint64_t shared_job;                  /* that runs, or has run last; counted from 1     */
    _Atomic uint64_t shared_grant[EXCHANGE_JOBS]; /* of job j at j % EXCHANGE_JOBS (exchange_grant) */
    /* Of workers (exchange_begins): the halted job, whose steps wait for its last word; below
     * which step own steps have begun. */
    _Atomic uint64_t shared_halted, shared_begun;
    struct exchange_site site;
};

struct exchange_vt {
    /* This node's part of a round of the open step is ready. Sums and values: once a bucket, in any order.
     * Squares: once (bucket 0), when sums are over. `over` follows. */
    void (*begin)(struct exchange *, enum exchange_round round, uint32_t bucket);
    /* By the thread that reads, step after step: a step's letters are written.
     * `asked` stays until the step is over. Not of workers. */
    void (*ask)(struct exchange *, const struct asked_step *asked);
    /* By the thread that reads on node 0, step after step: this step exists, or no further one does. */
    void (*tell)(struct exchange *, uint64_t step, struct exchange_news news);
    /* By any thread: hops or waves have more to send. */
    void (*carry)(struct exchange *);
    /* By one thread at a time: a look's letters are written. At most EXCHANGE_LOOKS_MAX looks wait for rows.
     * `over` tells of ROWS when they come. */
    void (*look)(struct exchange *, struct exchange_look *look);
    /* Returns when no look is under way, or nothing comes any more.
     * By the thread of the last look, or after it. */
    void (*look_end)(struct exchange *);
    /* By the main thread: the next job begins, at `step`. Rank 0's `until` counts for all nodes: steps below
     * it run, unless a node wants to stop. */
    void (*job_begin)(struct exchange *, uint64_t step, uint64_t until);
    /* By the main thread: the job is over here. */
    void (*job_end)(struct exchange *);
    /* By any thread, any number of times: the job should end soon, after the same step on all nodes. If it
     * has been granted to its bound, the next job ends. */
    void (*job_stop)(struct exchange *);
};

/* What rank 0 has said of a job: steps below `until` may run.
 * BOUND and STOPPED are its last word: no others will. */
enum exchange_word {
    EXCHANGE_GOES_ON,
    EXCHANGE_BOUND,   /* `until` is its bound                                                             */
    EXCHANGE_STOPPED, /* by a wish or a cut                                                               */
    EXCHANGE_HALT     /* only a message, to workers: each begins nothing more, and says what it has begun */
};
static inline uint64_t exchange_grant(uint64_t job, uint64_t until, enum exchange_word word)
{
    return job << 48 | until << 2 | word;
}
#define EXCHANGE_STEP_MAX (UINT64_MAX >> 18)
/* `until` of the job that runs, or has run last. 0: nothing yet. */
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

/* By a worker's gate: begins a granted step now, unless the job is halted and ends before
 * it. Returns whether it begins. */
static inline bool exchange_begins(struct exchange *x, uint64_t step)
{
    enum exchange_word word;
    /* Relaxed: nobody else writes it. */
    const uint64_t before = atomic_load_explicit(&x->shared_begun, memory_order_relaxed);
    /* Sequentially consistent, both, as in halt_take(): either that sees this step,
     * or the load here sees the halt. */
    atomic_store_explicit(&x->shared_begun, step + 1, memory_order_seq_cst);
    if (atomic_load_explicit(&x->shared_halted, memory_order_seq_cst) !=
        atomic_load_explicit(&x->shared_job, memory_order_relaxed))
        return true;
    const uint64_t until = exchange_granted(x, &word);
    if (word != EXCHANGE_GOES_ON && step < until) return true;
    atomic_store_explicit(&x->shared_begun, before, memory_order_seq_cst); /* a halt that saw more grants the step */
    return false;
}

/* [loss_count]: losses of the step. There is room for two: the next step's may come while
 * this one is being closed. */
static inline double *exchange_loss(const struct exchange_site *site, uint64_t step)
{
    return site->loss + step % 2 * site->loss_count;
}

/* The exchange of steps that all share; NULL: there is none. */
static inline struct exchange *exchange_of_steps(struct exchange *x) { return x && x->waves ? NULL : x; }
/* The exchange where this node asks owners for rows; NULL: its store has all that its stages look up. */
static inline struct exchange *exchange_of_rows(struct exchange *x) { return x && x->asks_rows ? x : NULL; }
/* The lanes that a feed reads whose rows are found here; count 0: all. */
static inline struct fold_lanes exchange_lanes(const struct exchange *x)
{
    return x && x->stages ? x->own : (struct fold_lanes){0};
}
/* Whether stages lie on nodes, and some of them on several. */
static inline bool exchange_shares_stages(const struct exchange *x)
{
    return x && x->stages && exchange_stages_sections(x->stages) > 0;
}
static inline bool exchange_has_lane(struct fold_lanes lanes, uint32_t lane)
{
    return lane - lanes.begin < lanes.count;
}
/* Whether this node has lanes, and so reads data; a node alone has all lanes. */
static inline bool exchange_computes(const struct exchange *x) { return x == NULL || x->own.count > 0; }

/* Whether a step opens while values of the one before it are on their way. */
static inline bool exchange_opens_early(const struct exchange *x, uint32_t table_count)
{
    return x->stages == NULL && x->bucket_count > 1 && x->own.count > 0 && table_count == 0 && !x->has_copies;
}

/* Whether the rows of the step have come. */
static inline bool exchange_has_rows(const struct exchange *x, uint64_t step)
{
    /* Acquire pairs with the release of whoever has got them. */
    return x->rows.shape.graph == NULL || step < atomic_load_explicit(&x->rows.shared_step, memory_order_acquire);
}

/* Lay out a look, and the numbers [table_count] by which a thread makes looks. Where there are tables. */
void exchange_look_layout(struct exchange_look *look, struct layout *l, const struct exchange *x);
void exchange_look_numbers_layout(struct key_numbers *numbers, struct layout *l, const struct exchange *x);
/* Numbers the micro-batch's keys, fills the ticket, whose spans are where the rows
 * arrive, and asks for the rows. */
void exchange_look_make(struct exchange *x, struct exchange_look *look, struct key_numbers *numbers,
                        const struct micro_batch *m, struct ticket *ticket);

/* A stage's work on its part of a bucket. Before SUMS: adds up the lanes of the own runs, and
 * writes rounded sums as they travel. */
MUST_USE status exchange_lanes_run(const struct exchange *x, const struct updater *w, uint32_t bucket,
                                   const struct extent *e, const struct update *u, uint32_t part);
/* After SUMS: joins the pieces of the bucket's own slice, and squares them (graph/clip.h: `blocks` and
 * `squares` of the whole graph; NULL: no norm is bounded). */
MUST_USE status exchange_sum_run(const struct exchange *x, const struct updater *w, uint32_t bucket,
                                 const struct extent *e, const struct update *u, const struct param_block *blocks,
                                 double *squares, uint32_t part);
/* After VALUES: copies the parameters of a stage to the card that is away. */
MUST_USE status exchange_values_copy(const struct updater *w, const struct extent *e);
/* Before VALUES: updates the bucket's own slice and the own rows of the extent's tables, in the
 * store, and clears what was sent. */
MUST_USE status exchange_update_run(const struct exchange *x, const struct updater *w, uint32_t bucket,
                                    const struct extent *e, const struct update *u, struct store *store, uint32_t part);

#endif
