/* Bulk synchronous parallel: a step's micro-batches read the same parameters, their gradients are summed, one update follows.
 *
 *     a stage's last backward pass ──▶ phase: sum ──all stages──▶ phase: update ──all stages──▶ the step is over, and the next one opens
 *
 * A phase is cut in parts, which workers of the stage take; the next one opens when all stages are through it. The phase of sums is there where
 * the norm of the dense gradients is bounded (graph/clip.h), for an update then needs the squares of all; else lanes are added up by the update
 * itself. A stage's first phase begins when its last backward pass of the step is done, while stages before it still work. No stage loses by
 * waiting for all: the next step enters at the first stage, which is the last to begin its update.
 *
 * On one of several nodes (engine/sync/exchange.h) there are rounds between phases, and a phase for what comes of each:
 *
 *     phase: lanes ──SUMS──▶ phase: sum ──SQUARES, where the norm is bounded──▶ phase: update ──VALUES──▶ phase: close */
#include <stddef.h>

#include "engine/slot/fold.h"
#include "engine/sync/sync.h"

/* No part to take. Far below the greatest number: a worker that is late adds one to it. */
#define PARTS_NONE (UINT32_MAX / 2)

enum phase { PHASE_LANES, PHASE_SUM, PHASE_UPDATE, PHASE_CLOSE, PHASE_COUNT };

/* Work that is cut in parts: each worker that comes takes the next. */
struct parts {
    _Alignas(64) _Atomic uint32_t shared_next; /* >= the number of parts: none to take               */
    _Atomic uint32_t shared_left;              /* that are not done                                  */
    _Atomic uint64_t shared_taken;             /* where replicas have parts of their own: by which   */
};

struct bsp_stage {
    _Alignas(64) _Atomic uint32_t shared_backward_left; /* backward passes of the step that are still to come */
    struct parts parts[PHASE_COUNT];
};

/* The step that is open. */
struct open_step {
    uint64_t step, epoch;
    uint32_t example_count;
    const struct step_rows *rows; /* [table_count] */
    struct slot *last;
    uint32_t ticket; /* the number of its last one */
};

struct bsp {
    struct sync sync; /* first: a struct sync * is a struct bsp * */
    /* set once */
    uint32_t lanes, micro_first, micro_count; /* this node's, of a step: all, unless there are others; perhaps none */
    struct exchange *exchange;                /* with other nodes; NULL: there are none                */
    struct bsp_stage *stages;                 /* [stage_count] */
    struct arena arena;
    /* written by who admits the step's last slot, read by who ends it */
    struct open_step open;
    uint64_t *row_count;       /* [table_count]: of the step that closes */
    struct exchange_site site; /* where losses are, and what else other nodes have to do with */
    float clip_scale;          /* of the step whose updates run          */
    /* shared */
    _Alignas(64) _Atomic uint64_t shared_open_step;         /* whose slots are admitted                  */
    _Alignas(64) _Atomic uint32_t shared_left[PHASE_COUNT]; /* stages that are not through with the phase */
};

/* --- a step ----------------------------------------------------------------------------------- */

/* Makes the stages ready for a step of a full batch. */
static void step_open(struct bsp *b, uint64_t step)
{
    for (uint32_t s = 0; s < b->sync.site.stage_count; s++) {
        struct bsp_stage *stage = &b->stages[s];
        /* Relaxed, all: published with the step below. */
        atomic_store_explicit(&stage->shared_backward_left, b->micro_count, memory_order_relaxed);
        for (int phase = 0; phase < PHASE_COUNT; phase++)
            atomic_store_explicit(&stage->parts[phase].shared_next, PARTS_NONE, memory_order_relaxed);
    }
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        atomic_store_explicit(&b->shared_left[phase], phase == PHASE_CLOSE ? 1 : b->sync.site.stage_count,
                              memory_order_relaxed);
    b->open = (struct open_step){.step = step};
    /* Release pairs with the acquire in bsp_admit(): parameters, counts and the cleared gradients of the closed step. */
    atomic_store_explicit(&b->shared_open_step, step, memory_order_release);
}

static void bsp_begin(struct sync *s)
{
    struct bsp *b = (struct bsp *)s;
    step_open(b, s->site.model->progress.step);
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

static void bsp_bind(struct sync *s, struct slot *slot, uint32_t pipeline)
{
    struct bsp *b = (struct bsp *)s;
    const struct graph *g = s->site.graph;
    const struct input *input = slot->input;
    const struct micro_batch *m = &input->batch;
    (void)pipeline;
    uint32_t lane = batch_lane_of(graph_batch(g), m->micro_index);
    for (uint32_t t = 0; t < g->tensor_count && b->lanes > 0; t++)
        if (g->tensors[t].kind == TENSOR_PARAM_GRAD)
            slot->tensor[t].data = s->gradients.param[lane - s->lanes.begin] + g->tensors[t].offset;
    if (!m->is_last) return;
    b->open = (struct open_step){.step = m->step,
                                 .epoch = m->epoch,
                                 .example_count = m->step_example_count,
                                 .rows = input->step_rows,
                                 .last = slot,
                                 .ticket = input->ticket.number};
    for (uint32_t t = 0; t < g->table_count; t++) b->row_count[t] = input->ticket.table[t].row_count;
    /* A short step: the passes that will not come are taken off. This slot's own is still to come, so nobody meets zero here;
     * whoever does (acquire) has seen all of the above (release). */
    for (uint32_t i = 0; i < s->site.stage_count; i++)
        atomic_fetch_sub_explicit(&b->stages[i].shared_backward_left,
                                  b->micro_count - (m->micro_index - b->micro_first) - 1, memory_order_acq_rel);
}

static void bsp_loss_keep(struct sync *s, const struct slot *slot, double sum)
{
    const struct micro_batch *m = &slot->input->batch;
    exchange_loss(&((struct bsp *)s)->site, m->step)[m->micro_index] = sum;
}

/* --- phases ----------------------------------------------------------------------------------- */

/* Closing a step is one part, of the first stage. */
static uint32_t part_count_of(const struct stage *stage, enum phase phase)
{
    return phase == PHASE_CLOSE ? 1 : stage->extent.part_count;
}

/* Lets workers take the parts of a phase. */
static void parts_open(struct bsp *b, const struct stage *stage, enum phase phase)
{
    struct parts *parts = &b->stages[stage->index].parts[phase];
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

/* The part that is the replica's own: its state is there. */
static bool part_take_own(struct parts *parts, uint32_t count, uint32_t own, uint32_t *part)
{
    /* Acquire, as above; who takes it is decided by the bit. */
    if (atomic_load_explicit(&parts->shared_next, memory_order_acquire) >= count) return false;
    const uint64_t bit = UINT64_C(1) << own;
    *part = own;
    return (atomic_fetch_or_explicit(&parts->shared_taken, bit, memory_order_acq_rel) & bit) == 0;
}

static void bsp_backward_done(struct sync *s, const struct stage *stage, struct slot *slot)
{
    struct bsp *b = (struct bsp *)s;
    bool is_last = slot->input->batch.is_last; /* read before the step can close and the slot be given back */
    /* Acquire and release: the last one sees the gradients of all. */
    uint32_t left =
        atomic_fetch_sub_explicit(&b->stages[stage->index].shared_backward_left, 1, memory_order_acq_rel) - 1;
    if (left == 0) {
        parts_open(b, stage, b->exchange ? PHASE_LANES : s->clipped ? PHASE_SUM : PHASE_UPDATE);
        if (stage->extent.part_count > 1) bell_ring(stage->bell);
    }
    if (stage->is_first && !is_last) s->site.host->slot_give(s->site.host, slot);
}

static bool bsp_part_take(struct sync *s, const struct stage *stage, uint32_t seat, struct sync_part *part)
{
    struct bsp *b = (struct bsp *)s;
    const uint32_t own = fold_seat_owner(seat, stage->replica_count);
    for (uint32_t phase = PHASE_COUNT; phase-- > 0;) {
        struct parts *parts = &b->stages[stage->index].parts[phase];
        const uint32_t count = part_count_of(stage, phase);
        part->phase = phase;
        if (stage->kind->has_memory ? part_take_own(parts, count, own, &part->index)
                                    : part_take(parts, count, &part->index)) {
            part->step = b->open.step;
            return true;
        }
    }
    return false;
}

/* All have updated: tells the step, and opens the next one. */
static status step_close(struct bsp *b)
{
    struct sync_host *host = b->sync.site.host;
    struct open_step closed = b->open;
    const uint32_t micro = graph_batch(b->sync.site.graph).micro;
    double loss = 0;
    if (closed.last->input->is_sweep) TRY(host->rows_sweep(host, closed.last, b->row_count));
    for (uint32_t m = 0; m * micro < closed.example_count; m++) loss += exchange_loss(&b->site, closed.step)[m];
    for (uint32_t t = 0; b->exchange && t < b->sync.site.graph->table_count; t++)
        b->row_count[t] = b->exchange->rows.row_count[t];
    struct step_done done = {closed.step, closed.epoch, closed.example_count, loss, b->row_count, closed.ticket};
    host->step_done(host, &done);
    host->slot_keep(host, closed.last);
    step_open(b, closed.step + 1);
    host->slot_out(host);
    return ST_OK;
}

/* All stages go on to the phase. */
static void phase_open(struct bsp *b, enum phase phase)
{
    struct sync *s = &b->sync;
    const uint32_t stage_count = phase == PHASE_CLOSE ? 1 : s->site.stage_count;
    for (uint32_t i = 0; i < stage_count; i++) parts_open(b, s->site.stages[i], phase);
    for (uint32_t i = 0; i < stage_count; i++) bell_ring(s->site.stages[i]->bell);
}

/* All squares are there. */
static void updates_open(struct bsp *b)
{
    struct sync *s = &b->sync;
    const float scale = 1.0f / (float)b->open.example_count;
    if (s->clipped) b->clip_scale = clip_scale(s->clipped, scale, s->squares, s->block_count);
    phase_open(b, PHASE_UPDATE);
}

static void round_begin(struct bsp *b, enum exchange_round round)
{
    b->exchange->vt->begin(b->exchange, round, b->open.step);
}

static void round_over(void *context, enum exchange_round round, status st)
{
    struct bsp *b = context;
    if (st != ST_OK)
        b->sync.site.host->fail(b->sync.site.host, st);
    else if (round == EXCHANGE_SUMS)
        phase_open(b, PHASE_SUM);
    else if (round == EXCHANGE_SQUARES)
        updates_open(b);
    else if (round == EXCHANGE_VALUES)
        phase_open(b, PHASE_CLOSE);
    else
        bell_ring(b->sync.site.stages[0]->bell); /* of the gate */
}

static status lanes_over(struct bsp *b)
{
    round_begin(b, EXCHANGE_SUMS);
    return ST_OK;
}

static status sums_over(struct bsp *b)
{
    if (b->exchange && b->sync.clipped)
        round_begin(b, EXCHANGE_SQUARES);
    else
        updates_open(b);
    return ST_OK;
}

static status updates_over(struct bsp *b)
{
    if (b->exchange == NULL) return step_close(b);
    round_begin(b, EXCHANGE_VALUES);
    return ST_OK;
}

static status lanes_run(struct sync *s, const struct updater *w, const struct stage *stage, const struct update *u,
                        uint32_t part)
{
    return exchange_lanes_run(s->site.exchange, w, &stage->extent, u, part);
}

static status sum_run(struct sync *s, const struct updater *w, const struct stage *stage, const struct update *u,
                      uint32_t part)
{
    if (s->site.exchange == NULL) return sync_sum_run(s, w, stage, u, part);
    return exchange_sum_run(s->site.exchange, w, &stage->extent, u, s->blocks, s->squares, part);
}

static status update_run(struct sync *s, const struct updater *w, const struct stage *stage, const struct update *u,
                         uint32_t part)
{
    if (s->site.exchange == NULL) return sync_update_run(s, w, stage, u, part);
    return exchange_update_run(s->site.exchange, w, &stage->extent, u, s->site.model->store, part);
}

static const struct {
    status (*run)(struct sync *, const struct updater *, const struct stage *, const struct update *, uint32_t part);
    status (*over)(struct bsp *); /* by who ends the last part of the last stage */
} phases[PHASE_COUNT] = {
    [PHASE_LANES] = {lanes_run, lanes_over},
    [PHASE_SUM] = {sum_run, sums_over},
    [PHASE_UPDATE] = {update_run, updates_over},
    [PHASE_CLOSE] = {NULL, step_close},
};

static status bsp_part_run(struct sync *s, const struct updater *w, const struct stage *stage,
                           const struct sync_part *part)
{
    struct bsp *b = (struct bsp *)s;
    const struct update update = {.param = s->site.model->param,
                                  .state = s->site.model->state,
                                  .param_grad = s->gradients.param,
                                  .lanes = b->lanes,
                                  .rows = b->open.rows,
                                  .example_count = b->open.example_count,
                                  .t = b->open.step + 1,
                                  .clip_scale = b->clip_scale,
                                  .is_joined = b->exchange && part->phase != PHASE_LANES};
    if (phases[part->phase].run) TRY(phases[part->phase].run(s, w, stage, &update, part->index));
    /* Acquire and release, both: the last part sees all parts, the last stage all stages. */
    struct parts *parts = &b->stages[stage->index].parts[part->phase];
    if (atomic_fetch_sub_explicit(&parts->shared_left, 1, memory_order_acq_rel) != 1) return ST_OK;
    if (atomic_fetch_sub_explicit(&b->shared_left[part->phase], 1, memory_order_acq_rel) != 1) return ST_OK;
    return phases[part->phase].over(b);
}

/* --- opening ---------------------------------------------------------------------------------- */

static void bsp_layout(struct bsp *b, struct layout *l)
{
    LAYOUT_TAKE(l, b->stages, b->sync.site.stage_count);
    LAYOUT_TAKE(l, b->row_count, b->sync.site.graph->table_count);
    LAYOUT_TAKE(l, b->site.loss, 2 * b->site.loss_count);
}

static status bsp_open(struct sync *s)
{
    struct bsp *b = (struct bsp *)s;
    struct layout sum = {0}, taken = {.arena = &b->arena};
    const struct batch_shape shape = graph_batch(s->site.graph);
    const uint32_t a_lane = batch_micro_count(shape) / shape.lanes;
    b->lanes = s->lanes.count;
    b->micro_count = s->lanes.count ? a_lane * s->lanes.count : 1; /* an empty one */
    b->micro_first = s->lanes.count ? a_lane * s->lanes.begin : 0;
    b->exchange = s->site.exchange;
    b->site = (struct exchange_site){.param = s->site.model->param,
                                     .param_grad = s->gradients.param,
                                     .squares = s->squares,
                                     .loss_count = batch_micro_count(shape),
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
    .backward_done = bsp_backward_done,
    .part_take = bsp_part_take,
    .part_run = bsp_part_run,
};
