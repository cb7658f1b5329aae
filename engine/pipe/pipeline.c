/* Runs jobs on the stages of a plan: how a worker finds its next task, what the gate lets in, what follows a task. What is special to
 * a synchronisation is in sync/, opening and figures in pipeline_open.c. */
#include "engine/pipe/pipeline.h"

#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "graph/alias.h"
#include "engine/base/clock.h"
#include "engine/base/steady.h"
#include "engine/device/cpu/device.h"
#include "engine/base/parts.h"
#include "engine/pipe/pipeline_internal.h"
#include "engine/base/trace.h"
#include "io/store/store_save.h"

/* How often the main thread looks up while a job runs. */
#define TICK_NS UINT64_C(100000000)

/* --- failing ---------------------------------------------------------------------------------- */

/* Ends the job with a failure of the calling thread: st and its message. */
static void pipeline_fail(struct pipeline *p, status failure)
{
    uint32_t none = ST_OK;
    /* Relaxed: only who is first matters; the message is published below. */
    if (!atomic_compare_exchange_strong_explicit(&p->shared_failure, &none, (uint32_t)failure, memory_order_relaxed,
                                                 memory_order_relaxed))
        return;
    snprintf(p->message, sizeof p->message, "%s", status_message());
    /* Release pairs with the acquires in job_run() and look(). */
    atomic_store_explicit(&p->shared_failed, true, memory_order_release);
    bell_ring(&p->main_bell);
}

/* --- rings, bells, slots ---------------------------------------------------------------------- */

void stage_bell_ring(struct stage *stage) { bell_ring(stage->bell); }

void pipeline_bells_ring(struct pipeline *p)
{
    bell_ring(p->gate_bell);
    for (uint32_t b = 0; b < p->bell_count; b++) bell_ring(&p->bells[b]);
}

static struct seat *seat_of(const struct pipeline *p, const struct stage *stage, const struct slot *slot)
{
    return &stage->seats[batch_lane_of(graph_batch(p->graph), slot->batch.micro_index) % stage->seat_count];
}

/* Puts a slot into a stage's ring; counts what stood there. */
static void forward_push(struct worker *w, struct stage *stage, struct slot *slot)
{
    struct ring *ring = &seat_of(w->pipeline, stage, slot)->forward;
    struct stage_times *times = &w->times[stage->index];
    times->forward_pushes++;
    times->forward_depth_sum += ring_depth(ring);
    CHECK(ring_try_push(ring, slot->index)); /* a ring has a cell for every slot */
    stage_bell_ring(stage);
}

static void backward_push(struct worker *w, struct stage *stage, struct slot *slot)
{
    struct ring *ring = &seat_of(w->pipeline, stage, slot)->backward;
    struct stage_times *times = &w->times[stage->index];
    times->backward_pushes++;
    times->backward_depth_sum += ring_depth(ring);
    CHECK(ring_try_push(ring, slot->index));
    stage_bell_ring(stage);
}

/* For the gate: the first stages of all pipelines have one bell. */
static void first_bell_ring(struct pipeline *p) { stage_bell_ring(&p->stages[0]); }

void slot_give(struct pipeline *p, struct slot *slot)
{
    feed_release(p->feed, slot);
    /* Release: who sees that nobody is in flight sees what the slots have left behind. */
    atomic_fetch_sub_explicit(&p->shared_in_flight, 1, memory_order_release);
    first_bell_ring(p);
}

/* Marks the slot's number as finished and hands on what is next in order: deliver(w, slot), one at a time. */
static void order_put(struct worker *w, struct order *order, struct slot *slot,
                      void (*deliver)(struct worker *, struct slot *))
{
    struct pipeline *p = w->pipeline;
    /* Release pairs with the acquire below. */
    atomic_store_explicit(&order->shared_cells[p->sequence[slot->index] % order->cell_count], slot->index + 1,
                          memory_order_release);
    do {
        if (!claim_try(&order->claim)) return; /* its holder sees that somebody came */
        for (;;) {
            /* Relaxed: handed over with the claim. */
            uint64_t next = atomic_load_explicit(&order->shared_next, memory_order_relaxed);
            _Atomic uint32_t *cell = &order->shared_cells[next % order->cell_count];
            uint32_t index = atomic_load_explicit(cell, memory_order_acquire);
            if (index == 0) break;
            /* Relaxed, both: the cell is used again only by a slot that is let in after this one is given back. */
            atomic_store_explicit(cell, 0, memory_order_relaxed);
            atomic_store_explicit(&order->shared_next, next + 1, memory_order_relaxed);
            deliver(w, feed_slot(p->feed, index - 1));
        }
    } while (claim_give(&order->claim));
}

static void order_reset(struct order *order)
{
    /* Relaxed, both: no worker is at work. After a failure cells may be left over. */
    for (uint32_t i = 0; i < order->cell_count; i++)
        atomic_store_explicit(&order->shared_cells[i], 0, memory_order_relaxed);
    atomic_store_explicit(&order->shared_next, 0, memory_order_relaxed);
}

/* Which of the gate's counters numbers the slot. */
static uint32_t sequence_lane(const struct pipeline *p, const struct slot *slot)
{
    if (p->job != JOB_TRAIN || p->sync != SYNC_BSP) return 0;
    return batch_lane_of(graph_batch(p->graph), slot->batch.micro_index);
}

/* --- devices with memory of their own --------------------------------------------------------- */

/* Devices with memory of their own get the parameters. */
static status devices_begin(struct pipeline *p)
{
    size_t bytes;
    void *slots = feed_memory(p->feed, &bytes);
    for (uint32_t i = 0; i < p->worker_count; i++) {
        struct device *d = p->workers[i].device;
        TRY(device_begin(d, slots, bytes));
    }
    return ST_OK;
}
/* And give them back, also when the job has failed: what the host has is then as of the last update, or the failure is one that says
 * that it is not. */
static status devices_settle(struct pipeline *p)
{
    for (uint32_t i = 0; i < p->worker_count; i++) {
        struct device *d = p->workers[i].device;
        TRY(device_settle(d));
    }
    return ST_OK;
}

/* The slots of the feed are about to be given back. */
static void devices_leave(struct pipeline *p, const struct feed *feed)
{
    size_t bytes;
    void *slots = feed_memory(feed, &bytes);
    for (uint32_t i = 0; i < p->worker_count; i++) {
        struct device *d = p->workers[i].device;
        device_leave(d, slots, bytes);
    }
}

/* --- tasks ------------------------------------------------------------------------------------ */

static struct op_context slot_context(const struct pipeline *p, struct slot *slot)
{
    const struct graph *g = p->graph;
    uint32_t lane = p->sync == SYNC_BSP ? batch_lane_of(graph_batch(g), slot->batch.micro_index) : 0;
    bool training = p->job == JOB_TRAIN;
    return (struct op_context){.graph = g,
                               .tensor = slot->tensor,
                               .batch = &slot->batch,
                               .ticket = &slot->ticket,
                               .table_grad = training ? p->table_grad + (size_t)lane * g->lookup_count : NULL,
                               .seed = g->header->seed,
                               .example_begin = slot->batch.micro_index * g->header->micro,
                               .training = training};
}

static bool is_finite_view(struct view v)
{
    for (uint32_t r = 0; r < v.rows; r++)
        for (uint32_t i = 0; i < v.cols; i++)
            if (!isfinite(v.data[(size_t)r * v.stride + i])) return false;
    return true;
}

/* Runs the forward list again, op by op, and describes the first whose output is not finite. `stage`: that of the loss. */
static status diverged(struct worker *w, const struct stage *stage, const struct op_context *c)
{
    const struct graph *g = c->graph;
    const char *op = "loss", *kind = "";
    char where[64];
    snprintf(where, sizeof where, "step %" PRIu64 ", example", c->batch->step);
    for (uint32_t i = graph_head_next(g, stage->forward_begin); i < stage->forward_end; i = graph_head_next(g, i + 1))
        TRY(op_labels_check(c, &g->nodes[i], where, c->example_begin));
    /* Under wsp and asp other stages' rows are being updated, and only this stage's nodes may run. */
    uint32_t begin = w->pipeline->sync == SYNC_BSP ? 0 : stage->forward_begin;
    status st = ST_OK;
    struct device *device = w->device;
    /* Then the host has neither its parameters nor what its nodes have written. */
    const bool is_elsewhere = stage->kind->has_memory;
    if (is_elsewhere) {
        TRY(devices_settle(w->pipeline));
        pthread_mutex_lock(&w->pipeline->host_lock);
        device = w->pipeline->host;
    }
    for (uint32_t i = begin; i < stage->forward_end && st == ST_OK; i++) {
        st = device_submit(device, c, &g->nodes[i], 1);
        if (st != ST_OK || is_finite_view(op_out(c, &g->nodes[i]))) continue;
        op = graph_string(g, g->nodes[i].name);
        kind = op_table[g->nodes[i].op].section;
        break;
    }
    if (is_elsewhere) pthread_mutex_unlock(&w->pipeline->host_lock);
    TRY(st);
    FAIL(DIVERGED,
         "step %" PRIu64 ": the loss is not finite; the first such value is in the output of [%s %s]; a lower learning "
         "rate may help",
         c->batch->step, kind, op);
}

/* Of the losses among the forward nodes [begin, end): loss by loss, example by example. */
static double loss_sum(const struct graph *g, const struct slot *slot, uint32_t begin, uint32_t end)
{
    double sum = 0;
    for (uint32_t i = graph_loss_next(g, begin); i < end; i = graph_loss_next(g, i + 1)) {
        const struct graph_node *n = &g->nodes[i];
        const struct view loss = slot->tensor[g->args[n->arg_begin + n->input_count + n->param_count]];
        for (uint32_t b = 0; b < slot->batch.example_count; b++) sum += loss.data[(size_t)b * loss.stride];
    }
    return sum;
}

/* DIVERGED if a loss of this stage is not finite, INVALID if that is a label's fault. At the last stage *sum is the sum of all losses. */
static status slot_loss(struct worker *w, const struct stage *stage, struct slot *slot, double *sum)
{
    const struct graph *g = w->pipeline->graph;
    double own = loss_sum(g, slot, stage->forward_begin, stage->forward_end);
    if (stage->is_last) *sum = loss_sum(g, slot, 0, g->forward_count);
    if (isfinite(own)) return ST_OK;
    struct op_context c = slot_context(w->pipeline, slot);
    return diverged(w, stage, &c);
}

status stage_sum_run(struct worker *w, const struct stage *stage, const struct stage_update *u)
{
    struct pipeline *p = w->pipeline;
    uint64_t begin, end;
    part_of(stage->block_count, u->part, u->parts, 1, &begin, &end);
    if (begin == end) return ST_OK;
    uint64_t first = stage->block_begin + begin;
    const struct param_block *last = &p->blocks[stage->block_begin + end - 1];
    aliases_fold(p->aliases, p->alias_count, u->param_grad, u->lanes, p->blocks[first].offset,
                 last->offset + last->count);
    struct param_sums sums = {.grad = u->param_grad,
                              .lanes = u->lanes,
                              .block_count = (uint32_t)(end - begin),
                              .block = p->blocks + first,
                              .squares = p->squares + (uint64_t)stage->pipeline_index * p->block_count + first,
                              .t = u->t};
    return device_sum_params(w->device, &sums);
}

status stage_update_run(struct worker *w, const struct stage *stage, const struct stage_update *u)
{
    struct pipeline *p = w->pipeline;
    const struct graph *g = p->graph;
    float scale = 1.0f / (float)u->example_count;
    for (uint32_t r = 0; r < stage->run_count; r++) {
        const struct param_run *run = &stage->runs[r];
        const struct graph_update *of = &g->updates[run->update];
        uint64_t begin, end;
        part_of(run->count, u->part, u->parts, PART_FLOATS, &begin, &end);
        if (begin == end) continue;
        uint64_t at = run->offset + begin;
        bool is_clipped = g->optimizers[of->optimizer].clip_norm > 0; /* then the first lane has the sums */
        if (!is_clipped) aliases_fold(p->aliases, p->alias_count, u->param_grad, u->lanes, at, run->offset + end);
        uint32_t lanes = is_clipped ? 1 : u->lanes;
        for (uint32_t lane = 0; lane < lanes; lane++) w->grad[lane] = u->param_grad[lane] + at;
        struct param_update update = {.optimizer = &g->optimizers[of->optimizer],
                                      .weight = u->param + at,
                                      .state = u->state + p->model->state_offset[run->update] + (at - of->param_offset),
                                      .state_stride = of->param_count,
                                      .grad = w->grad,
                                      .lanes = lanes,
                                      .count = end - begin,
                                      .scale = is_clipped ? u->clip_scale : scale,
                                      .rate = optimizer_rate(g, &g->optimizers[of->optimizer], u->t),
                                      .t = u->t};
        TRY(device_update_params(w->device, &update));
    }
    for (uint32_t i = 0; i < stage->table_count; i++) {
        uint32_t t = stage->tables[i], grad_count = u->lanes * p->use_count[t];
        uint64_t begin, end;
        part_of(u->rows[t].row_count, u->part, u->parts, 1, &begin, &end);
        if (begin == end) continue;
        for (uint32_t k = 0; k < grad_count; k++)
            w->grad[k] = p->update_grad[p->update_grad_begin[t] + k] + begin * g->tables[t].dim;
        struct table_update update = {.table = &g->tables[t],
                                      .optimizer = &g->optimizers[g->tables[t].optimizer],
                                      .row_count = (uint32_t)(end - begin),
                                      .span = u->rows[t].span + begin,
                                      .grad = w->grad,
                                      .lanes = u->lanes,
                                      .use_count = p->use_count[t],
                                      .scale = scale,
                                      .rate = optimizer_rate(g, &g->optimizers[g->tables[t].optimizer], u->t),
                                      .t = u->t};
        if (u->rows[t].occurrence_count) update.occurrence_count = u->rows[t].occurrence_count + begin;
        if (u->rows[t].nobody) {
            update.lives = true;
            update.nobody = u->rows[t].nobody;
            update.period = model_period(g, u->t - 1);
            update.init = random_stream(g->header->seed, RANDOM_ROW, t);
            if (u->rows[t].click_count) update.click_count = u->rows[t].click_count + begin;
            if (u->rows[t].key) update.key = u->rows[t].key + begin;
        }
        store_rows_change(p->model->store, t, update.span, update.row_count);
        TRY(device_update_rows(w->device, &update));
    }
    return ST_OK;
}

static status loss_check(const struct pipeline *p, const struct slot *slot)
{
    if (isfinite(loss_sum(p->graph, slot, 0, p->graph->forward_count))) return ST_OK;
    FAIL(DIVERGED, "step %" PRIu64 ": after its update the loss is not finite; a lower learning rate may help",
         slot->batch.step);
}

/* For pipeline_check: the slot stays where it is. */
static void check_tell(struct worker *w, struct slot *slot)
{
    struct pipeline *p = w->pipeline;
    status st = loss_check(p, slot);
    if (st != ST_OK) pipeline_fail(p, st);
    /* Release, as in slot_give(). */
    atomic_fetch_sub_explicit(&p->shared_in_flight, 1, memory_order_release);
    first_bell_ring(p);
}

/* Hands a prediction on, in the order of the data. */
static void prediction_tell(struct worker *w, struct slot *slot)
{
    struct pipeline *p = w->pipeline;
    if (p->is_check) {
        check_tell(w, slot);
        return;
    }
    /* Relaxed: after a failure it does not matter how much is still told. */
    if (slot->batch.example_count && !atomic_load_explicit(&p->shared_failed, memory_order_relaxed)) {
        status st = p->sink(p->sink_context, slot);
        if (st != ST_OK) pipeline_fail(p, st);
    }
    slot_give(p, slot);
}

static status forward_task(struct worker *w, struct stage *stage, struct slot *slot)
{
    struct pipeline *p = w->pipeline;
    const struct graph *g = p->graph;
    if (p->stashes) wsp_forward_begin(p, stage, slot);
    struct op_context c = slot_context(p, slot);
    TRY(device_submit(w->device, &c, g->nodes + stage->forward_begin, stage->forward_end - stage->forward_begin));
    if (p->job == JOB_TRAIN)
        TRY(slot_loss(w, stage, slot, &p->loss[p->sync == SYNC_BSP ? slot->batch.micro_index : slot->index]));
    return ST_OK;
}

/* A slot begins its way back, in the order of its lane. */
static void way_back_begin(struct worker *w, struct slot *slot)
{
    struct pipeline *p = w->pipeline;
    backward_push(w, &p->stages[p->stage_count - 1], slot);
}

static void forward_done(struct worker *w, struct stage *stage, struct slot *slot)
{
    struct pipeline *p = w->pipeline;
    if (!stage->is_last)
        forward_push(w, stage->next, slot);
    else if (p->job == JOB_FORWARD)
        order_put(w, &p->order, slot, prediction_tell);
    else if (p->sync == SYNC_BSP)
        order_put(w, &p->lane_order[sequence_lane(p, slot)], slot, way_back_begin);
    else
        backward_push(w, stage, slot); /* in order already: the stage does one task at a time */
}

static status backward_task(struct worker *w, struct stage *stage, struct slot *slot)
{
    struct pipeline *p = w->pipeline;
    struct op_context c = slot_context(p, slot);
    TRY(device_submit(w->device, &c, p->graph->nodes + stage->backward_begin,
                      stage->backward_end - stage->backward_begin));
    if (p->sync == SYNC_BSP) return ST_OK;
    uint64_t begin_ns = clock_ns();
    TRY(wsp_backward_done(w, stage, slot));
    w->updated_ns = clock_ns() - begin_ns;
    return ST_OK;
}

static void backward_done(struct worker *w, struct stage *stage, struct slot *slot)
{
    struct pipeline *p = w->pipeline;
    /* First the stage's account, while the slot is still ours. */
    if (p->sync == SYNC_BSP)
        bsp_backward_done(p, stage, slot);
    else if (stage->is_first)
        wsp_slot_done(w, slot);
    if (!stage->is_first) backward_push(w, stage->before, slot);
}

static void turn_give(struct pipeline *p, struct stage *stage)
{
    if (stage->turn == NULL || p->job != JOB_TRAIN || !claim_give(stage->turn)) return;
    for (uint32_t v = 0; v < p->pipeline_count; v++) stage_bell_ring(&p->stages[v * p->stage_count + stage->index]);
}

/* For tests: waits a random time, on the core or off it. */
static void delay(struct worker *w)
{
    const struct pipeline *p = w->pipeline;
    uint64_t draw = (p->delay_seed + w->index) * UINT64_C(0x9e3779b97f4a7c15) + w->delay_count++;
    draw = (draw ^ draw >> 31) * UINT64_C(0xbf58476d1ce4e5b9);
    draw ^= draw >> 29;
    uint64_t end_ns = clock_ns() + draw % p->delay_ns_max;
    while (clock_ns() < end_ns)
        if (draw >> 63) sched_yield();
}

static void task_run(struct worker *w)
{
    static const struct {
        enum stage_work work;
        enum trace_kind trace;
    } kinds[] = {
        [TASK_FORWARD] = {WORK_FORWARD, TRACE_FORWARD},
        [TASK_BACKWARD] = {WORK_BACKWARD, TRACE_BACKWARD},
        [TASK_SUM] = {WORK_UPDATE, TRACE_UPDATE},
        [TASK_UPDATE] = {WORK_UPDATE, TRACE_UPDATE},
    };
    struct pipeline *p = w->pipeline;
    const struct task t = w->task;
    w->pipeline_next = t.stage->pipeline_index + 1;
    if (w->slow_varies) device_slow_set(t.stage->kind, w->device, t.stage->slow);
    if (p->delay_ns_max) delay(w);
    uint64_t step = t.slot ? t.slot->batch.step : p->open.step, begin_ns = clock_ns();
    uint32_t micro = t.slot ? t.slot->batch.micro_index : t.part;
    status st = ST_OK;
    switch (t.kind) {
    case TASK_FORWARD: st = forward_task(w, t.stage, t.slot); break;
    case TASK_BACKWARD: st = backward_task(w, t.stage, t.slot); break;
    case TASK_SUM: st = bsp_sum_run(w, t.stage, t.part); break;
    case TASK_UPDATE: st = bsp_update_run(w, t.stage, t.part); break;
    default: CHECK(false);
    }
    uint64_t end_ns = clock_ns();
    if (p->job == JOB_TRAIN) {
        struct stage_times *times = &w->times[t.stage->index];
        times->task_count[kinds[t.kind].work]++;
        times->busy_ns[kinds[t.kind].work] += end_ns - begin_ns - w->updated_ns;
        times->task_count[WORK_UPDATE] += w->updated_ns != 0;
        times->busy_ns[WORK_UPDATE] += w->updated_ns;
        w->updated_ns = 0;
    }
    trace_span(kinds[t.kind].trace, t.stage->name, begin_ns, end_ns, step, micro);
    if (st != ST_OK) {
        pipeline_fail(p, st);
        return; /* the job is over: nobody waits for this slot */
    }
    if (t.kind == TASK_FORWARD) forward_done(w, t.stage, t.slot);
    if (t.kind == TASK_BACKWARD) backward_done(w, t.stage, t.slot);
    if (t.seat && claim_give(&t.seat->claim)) stage_bell_ring(t.stage);
    if (t.slot) turn_give(p, t.stage);
}

/* --- the gate --------------------------------------------------------------------------------- */

/* Whether the slot that the gate holds may go in now; if it may, it is numbered and bound to what it needs. */
static bool gate_prepare(struct pipeline *p, struct slot *slot)
{
    /* Acquire pairs with slot_give(). */
    if (atomic_load_explicit(&p->shared_in_flight, memory_order_acquire) >= p->in_flight * p->pipeline_count)
        return false;
    p->sequence[slot->index] = p->gate.sequence[sequence_lane(p, slot)];
    p->slot_pipeline[slot->index] = p->job == JOB_FORWARD ? p->sequence[slot->index] % p->pipeline_count : 0;
    if (p->job == JOB_FORWARD) return true;
    return p->sync == SYNC_BSP ? bsp_admit(p, slot) : wsp_admit(p, slot);
}

/* Whether nothing more is let in by this job, whatever the feed has: a step that is begun is always finished. */
static bool gate_is_closed(const struct pipeline *p)
{
    /* Relaxed: a stop may be seen a step later. */
    bool is_stop = atomic_load_explicit(&p->shared_stop, memory_order_relaxed);
    if (p->job == JOB_FORWARD) return is_stop;
    const struct slot *held = p->gate.held;
    bool is_pass_over = held && p->epoch_until && held->batch.epoch >= p->epoch_until;
    return p->gate.is_between_steps && (is_stop || is_pass_over || p->gate.step_next >= p->step_until);
}

/* Lets in what may go in, and ends the job when nothing more will. */
static void gate_run(struct worker *w)
{
    struct pipeline *p = w->pipeline;
    struct gate *gate = &p->gate;
    if (!claim_try(&gate->claim)) return;
    bool is_closed;
    while (!(is_closed = gate_is_closed(p))) {
        if (gate->held == NULL && !gate->is_ended) {
            gate->is_ended = feed_try_next(p->feed, &gate->held) == FEED_END;
            if ((is_closed = gate_is_closed(p))) break;
        }
        if (gate->held == NULL || !gate_prepare(p, gate->held)) break;
        struct slot *slot = gate->held;
        gate->held = NULL;
        gate->sequence[sequence_lane(p, slot)]++;
        gate->is_between_steps = slot->batch.is_last;
        gate->step_next = slot->batch.step + slot->batch.is_last;
        /* Relaxed: only the gate adds, and what it adds it pushes. */
        atomic_fetch_add_explicit(&p->shared_in_flight, 1, memory_order_relaxed);
        forward_push(w, &p->stages[p->slot_pipeline[slot->index] * p->stage_count], slot);
    }
    bool is_out = gate->held == NULL && gate->is_ended;
    w->saw_starved |= gate->held == NULL && !gate->is_ended && !is_closed;
    /* Acquire pairs with slot_give() and the like in bsp.c. */
    bool is_over = (is_closed || is_out) && atomic_load_explicit(&p->shared_in_flight, memory_order_acquire) == 0;
    if (is_over && !atomic_exchange_explicit(&p->shared_done, true, memory_order_release)) bell_ring(&p->main_bell);
    if (claim_give(&gate->claim)) first_bell_ring(p);
}

/* --- workers ---------------------------------------------------------------------------------- */

/* Takes a slot out of a ring of the stage, under the turn where there is one. */
static bool slot_take(struct worker *w, struct stage *stage, struct ring *ring, struct slot **slot)
{
    struct pipeline *p = w->pipeline;
    struct claim *turn = p->job == JOB_TRAIN ? stage->turn : NULL;
    if (ring_depth(ring) == 0 || (turn && !claim_try(turn))) return false;
    uint32_t index;
    if (ring_try_pop(ring, &index)) {
        *slot = feed_slot(p->feed, index);
        return true;
    }
    turn_give(p, stage);
    return false;
}

/* Whether the worker may take from the s-th seat from its own on: replicas with memory of their own have the micro-batches of their own seats. */
static bool is_seat_of(const struct worker *w, const struct stage *stage, uint32_t s)
{
    return !stage->kind->has_memory ||
           (w->seat + s) % stage->seat_count % stage->replica_count == w->seat % stage->replica_count;
}

static bool backward_take(struct worker *w, struct stage *stage)
{
    for (uint32_t s = 0; s < stage->seat_count; s++) {
        struct seat *seat = &stage->seats[(w->seat + s) % stage->seat_count];
        if (!is_seat_of(w, stage, s)) continue;
        if (ring_depth(&seat->backward) == 0 || !claim_try(&seat->claim)) continue;
        struct task task = {.kind = TASK_BACKWARD, .stage = stage, .seat = seat};
        if (slot_take(w, stage, &seat->backward, &task.slot)) {
            w->task = task;
            return true;
        }
        if (claim_give(&seat->claim)) stage_bell_ring(stage);
    }
    return false;
}

/* Of the own lanes first: a worker for whom a lane's backward passes wait begins another lane, so that all end together. With 8
 * micro-batches in 2 lanes two replicas reach 1.95 times the speed of one (tests/bench/pipeline_bench.c); oldest first, 1.77. */
static bool forward_take(struct worker *w, struct stage *stage)
{
    for (uint32_t s = 0; s < stage->seat_count; s++) {
        struct task task = {.kind = TASK_FORWARD, .stage = stage};
        if (!is_seat_of(w, stage, s)) continue;
        if (!slot_take(w, stage, &stage->seats[(w->seat + s) % stage->seat_count].forward, &task.slot)) continue;
        w->task = task;
        return true;
    }
    return false;
}

/* The i-th stage to look at. In a pool that is a stage of all pipelines, then the next upstream of all: the one after the pipeline of
 * the last task first, or the others would stand still behind the first. */
static struct stage *stage_at(const struct worker *w, uint32_t i)
{
    uint32_t count = w->pipeline->pipeline_count;
    if (w->stage_count < count) return w->stages[i]; /* its own stage */
    return w->stages[i - i % count + (i + w->pipeline_next) % count];
}

/* The most downstream task that is ready: sum or update, then backward, then forward. */
static bool task_take(struct worker *w)
{
    struct pipeline *p = w->pipeline;
    for (uint32_t i = 0; i < w->stage_count; i++) {
        struct stage *stage = stage_at(w, i);
        if (p->job == JOB_TRAIN) {
            struct task part;
            if (p->sync == SYNC_BSP && bsp_part_take(p, stage, w->seat, &part)) {
                w->task = part;
                return true;
            }
            if (backward_take(w, stage)) return true;
        }
        if (stage->is_first) gate_run(w);
        if (forward_take(w, stage)) return true;
    }
    return false;
}

/* For bell_await: finds the next task. Leaves shared_is_busy set as long as there is one. */
static bool look(void *context)
{
    struct worker *w = context;
    struct pipeline *p = w->pipeline;
    /* Sequentially consistent, both, with job_run(): of "I am at work, does the job run?" and "the job runs no more, is anyone at
     * work?" at least one sees the other. */
    atomic_store_explicit(&w->shared_is_busy, true, memory_order_seq_cst);
    bool runs = atomic_load_explicit(&p->shared_runs, memory_order_seq_cst);
    w->task.kind = TASK_NONE;
    if (atomic_load_explicit(&p->shared_closed, memory_order_acquire))
        w->task.kind = TASK_QUIT;
    else if (runs && !atomic_load_explicit(&p->shared_failed, memory_order_acquire) && task_take(w))
        return true;
    /* Sequentially consistent, both, and in this order: if job_run() has found us at work, we find here that it waits for us. */
    atomic_store_explicit(&w->shared_is_busy, false, memory_order_seq_cst);
    if (!atomic_load_explicit(&p->shared_runs, memory_order_seq_cst)) bell_ring(&p->main_bell);
    return w->task.kind == TASK_QUIT;
}

/* Adds up a wait that ends now, or with the job. Waiting between jobs is not counted: it is no stage's fault. */
static void wait_account(struct worker *w, uint64_t end_ns)
{
    const struct pipeline *p = w->pipeline;
    uint64_t begin_ns = w->wait_begin_ns < p->job_begin_ns ? p->job_begin_ns : w->wait_begin_ns;
    if (p->job != JOB_TRAIN) return;
    w->wait_ns += end_ns - begin_ns;
    if (w->saw_starved) w->starved_ns += end_ns - begin_ns;
}

void *pipeline_worker(void *argument)
{
    struct worker *w = argument;
    if (w->place->processors) cores_pin(w->place->processors, 1);
    trace_thread(w->name);
    for (;;) {
        w->wait_begin_ns = clock_ns();
        w->saw_starved = false;
        bell_await(w->bell, w->spins, look, w);
        uint64_t end_ns = clock_ns();
        trace_span(TRACE_WAIT, "wait", w->wait_begin_ns, end_ns, 0, 0);
        if (w->task.kind == TASK_QUIT) return NULL;
        wait_account(w, end_ns);
        task_run(w);
    }
}

/* --- jobs ------------------------------------------------------------------------------------- */

static bool job_is_over(void *context)
{
    struct pipeline *p = context;
    /* Acquire pairs with gate_run() and pipeline_fail(). */
    return atomic_load_explicit(&p->shared_done, memory_order_acquire) ||
           atomic_load_explicit(&p->shared_failed, memory_order_acquire);
}

static bool all_are_idle(void *context)
{
    struct pipeline *p = context;
    for (uint32_t i = 0; i < p->worker_count; i++) /* Sequentially consistent: see look(). */
        if (atomic_load_explicit(&p->workers[i].shared_is_busy, memory_order_seq_cst)) return false;
    return true;
}

/* Runs the job that is set up, and returns when all workers are idle. */
static status job_run(struct pipeline *p, bool (*tick)(void *context), void *context)
{
    TRY(devices_begin(p));
    memset(p->gate.sequence, 0, p->lanes * sizeof *p->gate.sequence);
    order_reset(&p->order);
    for (uint32_t lane = 0; lane < p->lanes; lane++) order_reset(&p->lane_order[lane]);
    p->job_begin_ns = clock_ns();
    if (p->helped) feed_team_set(p->feed, p->helped, p->spins);
    /* Relaxed, all: no worker is at work, and shared_runs publishes them. */
    atomic_store_explicit(&p->shared_done, false, memory_order_relaxed);
    atomic_store_explicit(&p->shared_stop, false, memory_order_relaxed);
    atomic_store_explicit(&p->shared_in_flight, 0, memory_order_relaxed);
    atomic_store_explicit(&p->shared_runs, true, memory_order_seq_cst);
    pipeline_bells_ring(p);
    while (!bell_await_until(&p->main_bell, false, clock_ns() + TICK_NS, job_is_over, p)) {
        if (tick == NULL || !tick(context)) continue;
        atomic_store_explicit(&p->shared_stop, true, memory_order_relaxed);
        first_bell_ring(p);
    }
    atomic_store_explicit(&p->shared_runs, false, memory_order_seq_cst);
    bell_await(&p->main_bell, false, all_are_idle, p);
    if (p->helped) feed_team_set(p->feed, NULL, false);
    uint64_t end_ns = clock_ns();
    for (uint32_t i = 0; i < p->worker_count; i++) wait_account(&p->workers[i], end_ns); /* what no task has ended */
    if (p->job == JOB_TRAIN) TRY(devices_settle(p));
    if (!atomic_load_explicit(&p->shared_failed, memory_order_acquire)) return ST_OK;
    return status_adopt((status)atomic_load_explicit(&p->shared_failure, memory_order_relaxed), p->message);
}

status pipeline_train(struct pipeline *p, const struct train_job *job, bool *is_end)
{
    p->job = JOB_TRAIN;
    p->train = job;
    CHECK(p->feed_trained == NULL || p->feed_trained == job->feed); /* slots of it are held and kept */
    p->feed = p->feed_trained = job->feed;
    p->step_until = job->step_until;
    p->epoch_until = job->epoch_until;
    p->gate.held = p->train_held;
    p->gate.is_ended = false;
    p->gate.is_between_steps = true;
    p->gate.step_next = p->model->progress.step;
    p->stashes = p->sync != SYNC_BSP;
    if (p->sync == SYNC_BSP)
        bsp_begin(p);
    else
        wsp_begin(p);
    steady_begin();
    status st = job_run(p, job->tick, job->context);
    steady_end();
    p->wall_ns += clock_ns() - p->job_begin_ns;
    p->train_held = p->gate.held;
    *is_end = p->gate.is_ended && p->gate.held == NULL;
    if (p->sync != SYNC_BSP && st == ST_OK) wsp_settle(p);
    return st;
}

void pipeline_forget(struct pipeline *p)
{
    if (p != NULL && p->feed_trained != NULL) devices_leave(p, p->feed_trained);
}

struct pipeline_rest pipeline_leave(struct pipeline *from)
{
    struct pipeline_rest rest = {from->feed_trained, from->train_held, from->kept};
    from->feed_trained = NULL;
    from->train_held = from->kept = NULL;
    return rest;
}

void pipeline_enter(struct pipeline *to, struct pipeline_rest rest)
{
    CHECK(to->training && to->feed_trained == NULL);
    CHECK(rest.feed == NULL || to->slot_count == feed_slot_count(rest.feed));
    to->feed_trained = rest.feed;
    to->train_held = rest.held;
    to->kept = rest.kept;
}

static status forward_job(struct pipeline *p, struct feed *feed, bool (*tick)(void *context), void *context)
{
    p->job = JOB_FORWARD;
    p->feed = feed;
    p->stashes = false;
    const status st = job_run(p, tick, context);
    if (feed != p->feed_trained) devices_leave(p, feed);
    return st;
}

status pipeline_check(struct pipeline *p)
{
    if (p->kept == NULL || p->kept->batch.example_count == 0) return ST_OK;
    p->is_check = true;
    p->gate.held = p->kept;
    p->gate.is_ended = true;
    status st = forward_job(p, p->feed_trained, NULL, NULL);
    p->is_check = false;
    return st;
}

status pipeline_forward(struct pipeline *p, struct feed *feed, forward_sink *sink, bool (*tick)(void *context),
                        void *context)
{
    p->gate.held = NULL;
    p->gate.is_ended = false;
    p->sink = sink;
    p->sink_context = context;
    TRY(forward_job(p, feed, tick, context));
    if (!p->gate.is_ended) FAIL(STOPPED, "stopped by a signal before the end of the data");
    return feed_result(feed);
}
