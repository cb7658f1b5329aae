/* Bulk synchronous parallel: a step's micro-batches read the same parameters, their gradients are summed, one
 * update follows.
 *
 *     a stage's last backward pass ──▶ phase: sum ──all stages──▶ phase: update ──all stages──▶ the step is over, and
 *                                                                                               the next one
 *                                                                                               opens
 *
 * A phase is cut in parts, which workers of the stage take; the next phase opens when all stages are through
 * it. There is a phase of sums where the norm of the dense gradients is bounded (graph/clip.h), since an
 * update then needs the squares of all; else the update itself adds up lanes. A stage's first phase begins
 * when its last backward pass of the step is done, while stages before it still work. No stage loses by
 * waiting for all: the next step enters at the first stage, which is the last to begin its update.
 *
 * On several nodes (engine/sync/exchange.h) there are rounds between phases, and a phase after each round:
 *
 *     phase: lanes ──SUMS──▶ phase: sum ──SQUARES, where the norm is bounded──▶ phase: update ──VALUES──▶ phase: close
 *
 * There each bucket of layers goes through the phases by itself, but for squares, which need all. Its first
 * phase begins when the stage's last backward pass is through the bucket's layers, and runs within this pass.
 * A share is what a stage has of a bucket. On one node there is one bucket.
 *
 * Where nodes have stages (struct exchange_stages) a node does with the stages that it has whole, between
 * rounds, what one node does. They have a share of the first bucket alone:
 *
 *     phase: sum ──SQUARES, where the norm is bounded──▶ phase: update ──VALUES──▶ phase: close
 *
 * A stage on a card, shared by nodes, gives its lanes' sums to the host in the phase of lanes, and
 * gets all values in the phase of the close.
 *
 * Without tables the next step opens when this node has updated its own slice. The step's forward
 * passes wait for others' values of a bucket where the bucket's layers begin; its sums are sent only
 * when the step before is closed. */
#include <stddef.h>

#include "engine/base/clock.h"
#include "engine/base/doing.h"
#include "engine/base/trace.h"
#include "engine/slot/fold.h"
#include "engine/sync/sync.h"

/* No part to take. Far below the greatest number, since a worker that is late adds one. */
#define PARTS_NONE (UINT32_MAX / 2)

enum phase { PHASE_LANES, PHASE_SUM, PHASE_UPDATE, PHASE_CLOSE, PHASE_COUNT };

/* Work that is cut in parts: each worker that comes takes the next. */
struct parts {
    _Alignas(64) _Atomic uint32_t shared_next; /* >= the number of parts: none to take               */
    _Atomic uint32_t shared_left;              /* that are not done                                  */
    _Atomic uint64_t shared_taken;             /* where replicas have parts of their own: a bit each */
};

/* What a stage has of a bucket. The first bucket's share has all its tables. */
struct share {
    /* Backward passes of the step that are still to come, and 1 for its last micro-batch's admission. */
    _Alignas(64) _Atomic uint32_t shared_backward_left;
    struct parts parts[PHASE_COUNT];
    struct extent extent; /* set once; of a stage that is whole, the stage's */
    bool is_empty;        /* nobody waits for the share                      */
};

/* The step that is open. */
struct open_step {
    uint64_t step, epoch, pass;
    uint32_t example_count;
    const struct step_rows *rows; /* [table_count] */
    struct slot *last;
    uint32_t ticket; /* the number of its last ticket */
};

/* Sums wait until the step before is closed. This bit: that step is closed. */
#define HELD_CLOSED (UINT32_C(1) << EXCHANGE_BUCKETS_MAX)

struct bsp {
    struct sync sync; /* first: a struct sync * is a struct bsp * */
    /* set once */
    uint32_t lanes;            /* this node's in a step: all if it is alone, perhaps none */
    struct exchange *exchange; /* with other nodes; NULL: there are none                  */
    uint32_t stage_first;      /* the first stage that is here                            */
    uint32_t bucket_count;
    bool opens_early;     /* the next step opens while others' values are on their way */
    struct share *shares; /* [stage_count, bucket_count] */
    struct arena arena;
    /* written when the step's last slot is admitted, read when the step ends */
    struct open_step open;
    struct open_step closing;  /* set at the end of its last update */
    uint64_t *row_count;       /* [table_count]: of the step that closes */
    struct exchange_site site; /* where losses are, and what the exchange works on */
    float clip_scale;          /* of the step whose updates run */
    uint32_t lane_next;        /* where lanes are folded: the lane that ends next */
    /* shared */
    _Alignas(64) _Atomic uint64_t shared_open_step; /* whose slots are admitted */
    /* Stages that are not through with a bucket's phase;
     * buckets that are not through with the phase of sums. */
    _Alignas(64) _Atomic uint32_t shared_left[EXCHANGE_BUCKETS_MAX][PHASE_COUNT], shared_sums_left;
    _Atomic uint32_t shared_updates_left;                 /* buckets that are not through with updates               */
    _Atomic uint32_t shared_held;                         /* bit b: sums of bucket b wait for the close; HELD_CLOSED */
    _Atomic uint64_t shared_valued[EXCHANGE_BUCKETS_MAX]; /* steps below have the bucket's values from all           */
    _Atomic bool shared_failed;                           /* no values will come any more                            */
};

static struct share *share_of(const struct bsp *b, uint32_t stage, uint32_t bucket)
{
    return &b->shares[stage * b->bucket_count + bucket];
}

/* Whether the stage's backward passes are cut in pieces that end with buckets; a card's are not. */
static bool is_cut(const struct bsp *b, const struct stage *stage)
{
    return b->bucket_count > 1 && b->lanes > 0 && !stage->kind->has_memory;
}

/* Whether nodes share the parameters or rows of the bucket, and add them up in a round. */
static bool is_summed(const struct bsp *b, uint32_t bucket) { return b->exchange && b->exchange->division_of[bucket]; }

/* Whether the stage closes steps: the first one here ends them, others copy values. */
static bool closes(const struct bsp *b, const struct stage *stage)
{
    return stage->index == b->stage_first || stage_has_copies(stage);
}

/* The stage's micro-batches on this node, of the first `count` of a step. */
static uint32_t micros_of(const struct bsp *b, const struct stage *stage, uint32_t count)
{
    const struct batch_shape shape = graph_batch(b->sync.site.graph);
    const struct fold_lanes *own = &b->sync.lanes;
    const uint32_t a_lane = batch_micro_count(shape) / shape.lanes;
    const struct fold_lanes lanes = own->count < stage->lanes.count ? *own : stage->lanes;
    const uint32_t begin = a_lane * lanes.begin, end = begin + a_lane * lanes.count;
    return count <= begin ? 0 : (count < end ? count : end) - begin;
}

/* --- a step ----------------------------------------------------------------------------------- */

/* Makes the stages ready for a step of a full batch. */
static void step_open(struct bsp *b, uint64_t step)
{
    const uint32_t stage_count = b->sync.site.stage_count;
    uint32_t bucket_count = 0, closing = 0;
    for (uint32_t stage = 0; stage < stage_count; stage++) closing += closes(b, b->sync.site.stages[stage]);
    for (uint32_t bucket = 0; bucket < b->bucket_count; bucket++) {
        uint32_t left = 0;
        for (uint32_t stage = 0; stage < stage_count; stage++) {
            struct share *share = share_of(b, stage, bucket);
            left += !share->is_empty;
            /* Relaxed, all: published with the step below. */
            atomic_store_explicit(&share->shared_backward_left,
                                  micros_of(b, b->sync.site.stages[stage], UINT32_MAX) + 1, memory_order_relaxed);
            for (int phase = 0; phase < PHASE_COUNT; phase++)
                atomic_store_explicit(&share->parts[phase].shared_next, PARTS_NONE, memory_order_relaxed);
        }
        for (int phase = 0; phase < PHASE_COUNT; phase++)
            atomic_store_explicit(&b->shared_left[bucket][phase], phase == PHASE_CLOSE ? closing : left,
                                  memory_order_relaxed);
        bucket_count += left > 0;
    }
    atomic_store_explicit(&b->shared_sums_left, bucket_count, memory_order_relaxed);
    atomic_store_explicit(&b->shared_updates_left, bucket_count, memory_order_relaxed);
    b->open = (struct open_step){.step = step};
    /* Release pairs with the acquire in bsp_admit(): parameters, counts and the
     * cleared gradients of the closed step. */
    atomic_store_explicit(&b->shared_open_step, step, memory_order_release);
}

static void bsp_begin(struct sync *s)
{
    struct bsp *b = (struct bsp *)s;
    b->lane_next = 0;
    const uint64_t step = s->site.model->progress.step;
    /* Relaxed, all: no worker is at work, and nothing comes before the first sums are sent. */
    for (uint32_t bucket = 0; bucket < b->bucket_count; bucket++)
        atomic_store_explicit(&b->shared_valued[bucket], step, memory_order_relaxed);
    atomic_store_explicit(&b->shared_held, HELD_CLOSED, memory_order_relaxed);
    step_open(b, step);
}

static bool bsp_admit(struct sync *s, const struct input *input, uint32_t *pipeline)
{
    const struct exchange *x = s->site.exchange;
    enum exchange_word word;
    *pipeline = 0;
    /* Acquire pairs with step_open(). */
    return input->batch.step == atomic_load_explicit(&((struct bsp *)s)->shared_open_step, memory_order_acquire) &&
           (x == NULL || (input->batch.step < exchange_granted(x, &word) && exchange_has_rows(x, input->batch.step)));
}

static void bsp_loss_keep(struct sync *s, const struct slot *slot, uint32_t part, double sum)
{
    const struct micro_batch *m = &slot->input->batch;
    exchange_loss(&((struct bsp *)s)->site, m->step)[m->micro_index * graph_joined(s->site.graph) + part] = sum;
}

/* --- phases ----------------------------------------------------------------------------------- */

/* Closing a step is one part; where a stage has copies, one for each card. */
static uint32_t part_count_of(const struct stage *stage, enum phase phase)
{
    return phase == PHASE_CLOSE && !stage_has_copies(stage) ? 1 : stage->extent.part_count;
}

/* Lets workers take the parts of a phase of a bucket. */
static void parts_open(struct bsp *b, const struct stage *stage, uint32_t bucket, enum phase phase)
{
    struct parts *parts = &share_of(b, stage->index, bucket)->parts[phase];
    /* Relaxed: published by the release of shared_next. */
    atomic_store_explicit(&parts->shared_left, part_count_of(stage, phase), memory_order_relaxed);
    atomic_store_explicit(&parts->shared_taken, 0, memory_order_relaxed);
    atomic_store_explicit(&parts->shared_next, 0, memory_order_release);
}

static bool part_take(struct parts *parts, uint32_t count, uint32_t *part)
{
    /* Acquire pairs with the release above: gradients and the open step are visible. */
    if (atomic_load_explicit(&parts->shared_next, memory_order_acquire) >= count) return false;
    *part = atomic_fetch_add_explicit(&parts->shared_next, 1, memory_order_acquire);
    return *part < count;
}

/* Takes the replica's own part, whose state is in its memory. */
static bool part_take_own(struct parts *parts, uint32_t count, uint32_t own, uint32_t *part)
{
    /* Acquire, as in part_take(); the bit decides who takes the part. */
    if (own >= count || atomic_load_explicit(&parts->shared_next, memory_order_acquire) >= count) return false;
    const uint64_t bit = UINT64_C(1) << own;
    *part = own;
    return (atomic_fetch_or_explicit(&parts->shared_taken, bit, memory_order_acq_rel) & bit) == 0;
}

/* Of what the share waits for, this much is done: backward passes are through the layers of the bucket.
 * Returns whether that was all. */
static bool bucket_done(struct bsp *b, const struct stage *stage, uint32_t bucket, uint32_t count)
{
    struct share *share = share_of(b, stage->index, bucket);
    if (share->is_empty) return false;
    /* Acquire and release: the last pass sees the gradients of all. */
    if (atomic_fetch_sub_explicit(&share->shared_backward_left, count, memory_order_acq_rel) != count) return false;
    parts_open(b, stage, bucket, is_summed(b, bucket) ? PHASE_LANES : b->sync.clipped ? PHASE_SUM : PHASE_UPDATE);
    if (stage->extent.part_count > 1 || (stage->kind->has_memory && b->bucket_count > 1)) bell_ring(stage->bell);
    return true;
}

static void bsp_bind(struct sync *s, struct slot *slot, uint32_t pipeline)
{
    struct bsp *b = (struct bsp *)s;
    const struct graph *g = s->site.graph;
    const struct input *input = slot->input;
    const struct micro_batch *m = &input->batch;
    (void)pipeline;
    uint32_t lane = batch_lane_of(graph_batch(g), m->micro_index);
    const uint32_t set = s->folds ? fold_place(lane >> s->fold_shift) : lane - s->lanes.begin;
    for (uint32_t t = 0; t < g->tensor_count && b->lanes > 0; t++)
        if (g->tensors[t].kind == TENSOR_PARAM_GRAD)
            slot->tensor[t].data = s->gradients.param[set] + g->tensors[t].offset;
    if (!m->is_last) return;
    b->open = (struct open_step){.step = m->step,
                                 .epoch = m->epoch,
                                 .pass = m->pass,
                                 .example_count = m->step_example_count,
                                 .rows = input->step_rows,
                                 .last = slot,
                                 .ticket = input->ticket.number};
    for (uint32_t t = 0; t < g->table_count; t++) b->row_count[t] = input->ticket.table[t].row_count;
    /* Takes off this admission, and of a short step the passes that will not come. Whoever brings a count to
     * zero (acquire) sees all of the above (release). */
    const uint32_t micro = g->header->micro;
    /* On several nodes micro-batches without examples have no passes. */
    const uint32_t count = b->exchange ? (m->step_example_count + micro - 1) / micro : m->micro_index + 1;
    for (uint32_t stage = b->stage_first; stage < s->site.stage_count; stage++)
        for (uint32_t bucket = b->bucket_count; bucket-- > 0;) {
            const struct stage *of = s->site.stages[stage];
            /* True: the stage has no pass of the step that is still to come, whose worker would look. */
            if (bucket_done(b, of, bucket, micros_of(b, of, UINT32_MAX) - micros_of(b, of, count) + 1))
                bell_ring(of->bell);
        }
}

/* Whether the open step has the bucket's values. */
static bool is_valued(const struct bsp *b, uint32_t bucket)
{
    /* Relaxed: a pass of the step runs. Acquire pairs with round_over(). */
    return atomic_load_explicit(&b->shared_valued[bucket], memory_order_acquire) >=
           atomic_load_explicit(&b->shared_open_step, memory_order_relaxed);
}

/* The extent, and *bucket, of the stage's forward node, where values may be awaited; else NULL. */
static const struct extent *awaited(const struct bsp *b, const struct stage *stage, uint32_t node, uint32_t *bucket)
{
    for (uint32_t i = 0; i < b->bucket_count && b->opens_early; i++) {
        const struct extent *e = &share_of(b, stage->index, i)->extent;
        *bucket = i;
        if (e->forward_begin <= node && node < e->forward_end) return e;
    }
    return NULL;
}

/* A piece of a backward pass ends with its bucket; the first bucket is what is left. Likewise a piece of a
 * forward pass, while values of any bucket are awaited. */
static uint32_t bsp_piece_end(const struct sync *s, const struct stage *stage, uint32_t begin, uint32_t end)
{
    const struct bsp *b = (const struct bsp *)s;
    uint32_t bucket;
    for (uint32_t i = b->bucket_count; --i > 0 && is_cut(b, stage);) {
        const struct extent *e = &share_of(b, stage->index, i)->extent;
        if (e->backward_begin <= begin && begin < e->backward_end) return e->backward_end;
    }
    const struct extent *e = awaited(b, stage, begin, &bucket);
    for (uint32_t i = 0; i < b->bucket_count && e; i++)
        if (!is_valued(b, i)) return e->forward_end;
    return end;
}

struct values_wait {
    const struct bsp *b;
    uint32_t bucket;
};
static bool values_are_here(void *context)
{
    const struct values_wait *wait = context;
    /* Relaxed: when a job is over, it does not matter what is computed. */
    return is_valued(wait->b, wait->bucket) || atomic_load_explicit(&wait->b->shared_failed, memory_order_relaxed);
}

static uint64_t bsp_piece_await(struct sync *s, const struct stage *stage, uint32_t begin)
{
    struct values_wait wait = {.b = (const struct bsp *)s};
    if (!awaited(wait.b, stage, begin, &wait.bucket) || is_valued(wait.b, wait.bucket)) return 0;
    const uint64_t step = atomic_load_explicit(&wait.b->shared_open_step, memory_order_relaxed), begin_ns = clock_ns();
    bell_await(stage->bell, false, values_are_here, &wait);
    const uint64_t end_ns = clock_ns();
    trace_span(TRACE_WAIT, "values", begin_ns, end_ns, step, wait.bucket);
    return end_ns - begin_ns;
}

static void bsp_piece_done(struct sync *s, const struct stage *stage, struct slot *slot, uint32_t node)
{
    struct bsp *b = (struct bsp *)s;
    (void)slot;
    for (uint32_t i = b->bucket_count; --i > 0 && is_cut(b, stage);)
        if (share_of(b, stage->index, i)->extent.backward_end == node) (void)bucket_done(b, stage, i, 1);
}

/* After a lane's last backward pass the lane's sums join the sums that wait for them. */
static status bsp_backward_end(struct sync *s, const struct updater *w, const struct stage *stage, struct slot *slot)
{
    struct bsp *b = (struct bsp *)s;
    const struct batch_shape shape = graph_batch(s->site.graph);
    const struct micro_batch *m = &slot->input->batch;
    const uint32_t lane = batch_lane_of(shape, m->micro_index);
    if (!s->folds || (!m->is_last && batch_lane_of(shape, m->micro_index + 1) == lane)) return ST_OK;
    CHECK(lane == b->lane_next);
    b->lane_next = m->is_last ? 0 : lane + 1;
    const uint32_t place = lane >> s->fold_shift;
    const bool is_whole = m->is_last || (lane + 1) >> s->fold_shift > place;
    float **top = s->gradients.param + fold_place(place);
    for (uint32_t left = is_whole ? fold_join_count(place, m->is_last) : 0; left > 0; left--, top--)
        for (uint32_t r = 0; r < stage->extent.run_count; r++) {
            const struct param_run *run = &stage->extent.runs[r];
            const struct update update = {.is_bf16 = s->site.is_bf16};
            TRY(update_join(w, top[-1], top[0], run->offset, run->offset + run->count, m->step + 1,
                            update_is_bf16(&update, s->site.graph, run->update)));
        }
    return ST_OK;
}

static void bsp_backward_done(struct sync *s, const struct stage *stage, struct slot *slot)
{
    struct bsp *b = (struct bsp *)s;
    /* Both are found before the step can close and the slot be given back. */
    const bool is_last = slot->input->batch.is_last, is_entry = sync_is_entry(s, stage, slot);
    for (uint32_t i = is_cut(b, stage) ? 1 : b->bucket_count; i-- > 0;) (void)bucket_done(b, stage, i, 1);
    if (is_entry && !is_last) s->site.host->slot_give(s->site.host, slot);
}

static bool bsp_part_take(struct sync *s, const struct stage *stage, uint32_t seat, struct sync_part *part)
{
    struct bsp *b = (struct bsp *)s;
    const uint32_t own = fold_seat_replica(seat, stage->replica_count);
    for (uint32_t i = 0; i < PHASE_COUNT * b->bucket_count; i++) {
        const uint32_t phase = PHASE_COUNT - 1 - i / b->bucket_count;
        const uint32_t bucket = b->bucket_count - 1 - i % b->bucket_count;
        struct parts *parts = &share_of(b, stage->index, bucket)->parts[phase];
        const uint32_t count = part_count_of(stage, phase);
        part->phase = phase;
        part->bucket = bucket;
        if (stage->kind->has_memory ? part_take_own(parts, count, own, &part->index)
                                    : part_take(parts, count, &part->index)) {
            part->step = phase == PHASE_CLOSE ? b->closing.step : b->open.step;
            return true;
        }
    }
    return false;
}

/* Whether this node finds the rows of its stages by itself. */
static bool finds_rows(const struct bsp *b) { return exchange_of_rows(b->exchange) == NULL; }

/* A bucket's sums are ready, or the step before is closed. */
static void sums_begin(struct bsp *b, uint32_t ready)
{
    /* Acquire and release: whoever comes last sees sums and the closed step. */
    const uint32_t before = atomic_fetch_or_explicit(&b->shared_held, ready, memory_order_acq_rel);
    const uint32_t sums = ready == HELD_CLOSED ? before : before & HELD_CLOSED ? ready : 0;
    for (uint32_t bucket = b->bucket_count; bucket-- > 0;)
        if (sums >> bucket & 1) b->exchange->vt->begin(b->exchange, EXCHANGE_SUMS, bucket);
}

/* All have updated: tells the step, and opens the next one unless it is open. */
static status step_close(struct bsp *b)
{
    struct sync_host *host = b->sync.site.host;
    struct open_step closed = b->closing;
    const uint32_t micro = graph_lane_micro(b->sync.site.graph);
    double loss = 0;
    if (closed.last->input->is_sweep && b->exchange == NULL) TRY(host->rows_sweep(host, closed.last, b->row_count));
    for (uint32_t i = 0; i * micro < closed.example_count; i++) loss += exchange_loss(&b->site, closed.step)[i];
    for (uint32_t t = 0; b->exchange && t < b->sync.site.graph->table_count; t++)
        b->row_count[t] = b->exchange->rows.row_count[t];
    struct step_done done = {closed.step, closed.epoch, closed.example_count, loss, b->row_count, closed.ticket};
    host->step_done(host, &done);
    host->slot_keep(host, closed.last);
    if (b->opens_early)
        sums_begin(b, HELD_CLOSED);
    else
        step_open(b, closed.step + 1);
    host->slot_out(host);
    return ST_OK;
}

/* All stages that have a share of the bucket, or close, go on to the phase. */
static void phase_open(struct bsp *b, uint32_t bucket, enum phase phase)
{
    struct stage *const *stages = b->sync.site.stages;
    for (uint32_t i = b->stage_first; i < b->sync.site.stage_count; i++) {
        if (phase == PHASE_CLOSE ? !closes(b, stages[i]) : share_of(b, i, bucket)->is_empty) continue;
        parts_open(b, stages[i], bucket, phase);
        bell_ring(stages[i]->bell);
    }
}

static void bells_ring(struct bsp *b)
{
    for (uint32_t i = 0; i < b->sync.site.stage_count; i++)
        if (b->sync.site.stages[i]->is_here) bell_ring(b->sync.site.stages[i]->bell);
}

/* All squares are there. */
static void updates_open(struct bsp *b)
{
    struct sync *s = &b->sync;
    const float scale = 1.0f / (float)b->open.example_count;
    if (s->clipped) b->clip_scale = clip_scale(s->clipped, scale, s->squares, s->block_count);
    for (uint32_t bucket = b->bucket_count; bucket-- > 0;) phase_open(b, bucket, PHASE_UPDATE);
}

static void round_over(void *context, enum exchange_round round, uint32_t bucket, status st)
{
    struct bsp *b = context;
    if (st != ST_OK) {
        b->sync.site.host->fail(b->sync.site.host, st);
        atomic_store_explicit(&b->shared_failed, true, memory_order_relaxed);
        bells_ring(b);
    } else if (round == EXCHANGE_SUMS) {
        phase_open(b, bucket, PHASE_SUM);
    } else if (round == EXCHANGE_SQUARES) {
        updates_open(b);
    } else if (round == EXCHANGE_VALUES) {
        /* Release pairs with is_valued(): the bucket's parameters. */
        atomic_fetch_add_explicit(&b->shared_valued[bucket], 1, memory_order_release);
        if (b->opens_early) bells_ring(b);
    } else if (round == EXCHANGE_STEP) {
        phase_open(b, 0, PHASE_CLOSE);
    } else {
        bell_ring(b->sync.site.stages[b->stage_first]->bell); /* of the gate */
    }
}

static status lanes_over(struct bsp *b, uint32_t bucket)
{
    sums_begin(b, UINT32_C(1) << bucket);
    return ST_OK;
}

static status sums_over(struct bsp *b, uint32_t bucket)
{
    if (b->exchange == NULL) {
        updates_open(b);
    } else if (b->sync.clipped == NULL) {
        phase_open(b, bucket, PHASE_UPDATE);
    } else if (atomic_fetch_sub_explicit(&b->shared_sums_left, 1, memory_order_acq_rel) == 1) {
        /* Acquire and release: the last one sees the squares of all. */
        b->exchange->vt->begin(b->exchange, EXCHANGE_SQUARES, 0);
    }
    return ST_OK;
}

/* Own rows that are due go; the rest are counted for all nodes. */
static status rows_end(struct bsp *b)
{
    struct sync_host *host = b->sync.site.host;
    struct exchange_rows *rows = &b->exchange->rows;
    if (b->open.last->input->is_sweep) TRY(host->rows_sweep(host, b->open.last, b->row_count));
    for (uint32_t t = 0; t < b->sync.site.graph->table_count; t++) rows->own_row_count[t] = b->row_count[t];
    rows->own_ticket = b->open.ticket;
    return ST_OK;
}

static status updates_over(struct bsp *b, uint32_t bucket)
{
    /* Acquire and release: the last one sees the updates of all. */
    const bool is_last = atomic_fetch_sub_explicit(&b->shared_updates_left, 1, memory_order_acq_rel) == 1;
    if (is_last) b->closing = b->open;
    if (b->exchange == NULL) return step_close(b);
    if (finds_rows(b) && bucket == 0) TRY(rows_end(b));
    /* Before the last values are sent, after which the step is closed. */
    if (is_last && b->opens_early) {
        /* Relaxed: sums of the next step come after step_open(). */
        atomic_store_explicit(&b->shared_held, 0, memory_order_relaxed);
        step_open(b, b->closing.step + 1);
        bell_ring(b->sync.site.stages[b->stage_first]->bell); /* of the gate */
    }
    b->exchange->vt->begin(b->exchange, EXCHANGE_VALUES, bucket);
    return ST_OK;
}

static status close_over(struct bsp *b, uint32_t bucket)
{
    (void)bucket;
    return step_close(b);
}

static status lanes_run(struct bsp *b, const struct updater *w, const struct stage *stage, const struct update *u,
                        const struct sync_part *part)
{
    if (!stage->is_shared) return ST_OK;
    return exchange_lanes_run(b->exchange, w, part->bucket, &share_of(b, stage->index, part->bucket)->extent, u,
                              part->index);
}

static status sum_run(struct bsp *b, const struct updater *w, const struct stage *stage, const struct update *u,
                      const struct sync_part *part)
{
    struct sync *s = &b->sync;
    if (!stage->is_shared) return s->clipped ? sync_sum_run(s, w, stage, u, part->index) : ST_OK;
    if (!is_summed(b, part->bucket)) return ST_OK;
    return exchange_sum_run(b->exchange, w, part->bucket, &share_of(b, stage->index, part->bucket)->extent, u,
                            s->blocks, s->squares, part->index);
}

static status update_run(struct bsp *b, const struct updater *w, const struct stage *stage, const struct update *u,
                         const struct sync_part *part)
{
    status st = ST_OK;
    doing_begin(DOING_update);
    if (!stage->is_shared)
        st = sync_update_run(&b->sync, w, stage, u, part->index);
    else if (is_summed(b, part->bucket))
        st = exchange_update_run(b->exchange, w, part->bucket, &share_of(b, stage->index, part->bucket)->extent, u,
                                 b->sync.site.model->store, part->index);
    doing_end(DOING_update);
    return st;
}

/* All values are here. */
static status close_run(struct bsp *b, const struct updater *w, const struct stage *stage, const struct update *u,
                        const struct sync_part *part)
{
    (void)b, (void)u, (void)part;
    return stage_has_copies(stage) ? exchange_values_copy(w, &stage->extent) : ST_OK;
}

static const struct {
    status (*run)(struct bsp *, const struct updater *, const struct stage *, const struct update *,
                  const struct sync_part *);
    status (*over)(struct bsp *, uint32_t bucket); /* at the end of the last stage's last part */
} phases[PHASE_COUNT] = {
    [PHASE_LANES] = {lanes_run, lanes_over},
    [PHASE_SUM] = {sum_run, sums_over},
    [PHASE_UPDATE] = {update_run, updates_over},
    [PHASE_CLOSE] = {close_run, close_over},
};

static status bsp_part_run(struct sync *s, const struct updater *w, const struct stage *stage,
                           const struct sync_part *part)
{
    struct bsp *b = (struct bsp *)s;
    const struct open_step *of = part->phase == PHASE_CLOSE ? &b->closing : &b->open;
    const struct update update = {.param = s->site.model->param,
                                  .state = s->site.model->state,
                                  .param_grad = s->gradients.param,
                                  .lanes = b->lanes,
                                  .sets = s->folds ? 1 : 0,
                                  .rows = of->rows,
                                  .example_count = of->example_count,
                                  .t = of->step + 1,
                                  .pass = of->pass,
                                  .clip_scale = b->clip_scale,
                                  .is_joined = stage->is_shared && part->phase != PHASE_LANES,
                                  .is_bf16 = s->site.is_bf16};
    TRY(phases[part->phase].run(b, w, stage, &update, part));
    /* Acquire and release, both: the last part sees all parts, the last stage all stages. */
    struct parts *parts = &share_of(b, stage->index, part->bucket)->parts[part->phase];
    _Atomic uint32_t *stages_left = &b->shared_left[part->bucket][part->phase];
    if (atomic_fetch_sub_explicit(&parts->shared_left, 1, memory_order_acq_rel) != 1) return ST_OK;
    if (atomic_fetch_sub_explicit(stages_left, 1, memory_order_acq_rel) != 1) return ST_OK;
    return phases[part->phase].over(b, part->bucket);
}

/* --- opening ---------------------------------------------------------------------------------- */

/* Clamps [*of_begin, *of_end) to the nodes [begin, end). */
static void nodes_clamp(uint32_t *of_begin, uint32_t *of_end, uint32_t begin, uint32_t end)
{
    if (*of_begin < begin) *of_begin = begin;
    if (*of_end > end) *of_end = end;
    if (*of_end < *of_begin) *of_end = *of_begin;
}

/* The stage's share of a bucket, on several nodes. */
static void share_layout(struct bsp *b, struct layout *l, const struct stage *stage, uint32_t bucket)
{
    struct extent e = stage->extent;
    const struct extent *of = &b->exchange->slices[bucket];
    nodes_clamp(&e.forward_begin, &e.forward_end, of->forward_begin, of->forward_end);
    nodes_clamp(&e.backward_begin, &e.backward_end, of->backward_begin, of->backward_end);
    extent_layout(&e, l, b->sync.site.graph, b->sync.site.model, stage->extent.part_count);
    if (!l->arena) return;
    e.tables = stage->extent.tables;
    e.table_count = bucket ? 0 : stage->extent.table_count;
    struct share *share = share_of(b, stage->index, bucket);
    share->extent = e;
    share->is_empty = bucket > 0 && e.run_count == 0;
}

/* The share of a stage whose parameters no other node has. */
static void share_whole(struct bsp *b, const struct layout *l, const struct stage *stage, uint32_t bucket)
{
    if (!l->arena) return;
    struct share *share = share_of(b, stage->index, bucket);
    if (bucket == 0) share->extent = stage->extent;
    share->is_empty = bucket > 0 || !stage->is_here;
}

static void bsp_layout(struct bsp *b, struct layout *l)
{
    const uint32_t stage_count = b->sync.site.stage_count;
    LAYOUT_TAKE(l, b->shares, stage_count * b->bucket_count);
    for (uint32_t index = 0; index < stage_count; index++) {
        const struct stage *stage = b->sync.site.stages[index];
        for (uint32_t bucket = 0; bucket < b->bucket_count; bucket++)
            if (!stage->is_shared || !stage->is_here)
                share_whole(b, l, stage, bucket);
            else
                share_layout(b, l, stage, bucket);
    }
    LAYOUT_TAKE(l, b->row_count, b->sync.site.graph->table_count);
    LAYOUT_TAKE(l, b->site.loss, 2 * b->site.loss_count);
}

static status bsp_open(struct sync *s)
{
    struct bsp *b = (struct bsp *)s;
    struct layout sum = {0}, taken = {.arena = &b->arena};
    const struct batch_shape shape = graph_batch(s->site.graph);
    b->lanes = s->lanes.count;
    b->exchange = s->site.exchange;
    b->bucket_count = b->exchange ? b->exchange->bucket_count : 1;
    while (!s->site.stages[b->stage_first]->is_here) b->stage_first++;
    b->opens_early = b->exchange && exchange_opens_early(b->exchange, s->site.graph->table_count);
    b->site = (struct exchange_site){.param = s->site.model->param,
                                     .param_grad = s->gradients.param,
                                     .squares = s->squares,
                                     .loss_count = batch_micro_count(shape) * graph_joined(s->site.graph),
                                     .over = round_over,
                                     .context = b};
    bsp_layout(b, &sum);
    TRY(arena_open(&b->arena, "pipeline", sum.bytes));
    bsp_layout(b, &taken);
    if (b->exchange) b->exchange->site = b->site;
    return ST_OK;
}

static void bsp_close(struct sync *s) { arena_close(&((struct bsp *)s)->arena); }

const struct sync_vt sync_bsp = {
    .by_lane = true,
    .bytes = sizeof(struct bsp),
    .open = bsp_open,
    .close = bsp_close,
    .begin = bsp_begin,
    .admit = bsp_admit,
    .bind = bsp_bind,
    .loss_keep = bsp_loss_keep,
    .piece_end = bsp_piece_end,
    .piece_await = bsp_piece_await,
    .piece_done = bsp_piece_done,
    .backward_end = bsp_backward_end,
    .backward_done = bsp_backward_done,
    .part_take = bsp_part_take,
    .part_run = bsp_part_run,
};
