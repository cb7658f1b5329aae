/* Opens the stages, workers and rings of a plan, and runs jobs on them: how a worker finds its next task, what the gate lets in, what
 * follows a task. What is special to a synchronisation is in sync/. */
#include "engine/pipeline.h"

#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/steady.h"
#include "engine/cpu/device.h"
#include "engine/pipe/thread.h"
#include "engine/pipeline_internal.h"
#include "engine/trace.h"

/* Slots beyond those in flight: micro-batches that are read, parsed and have their rows ready before their turn. */
#define SLOTS_AHEAD 3u
/* How often the main thread looks up while a job runs. */
#define TICK_NS UINT64_C(100000000)

/* --- failing ---------------------------------------------------------------------------------- */

void pipeline_fail(struct pipeline *p, status failure)
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

void forward_push(struct worker *w, struct stage *stage, struct slot *slot)
{
    struct stage_times *times = &w->times[stage->index];
    times->forward_pushes++;
    times->forward_depth_sum += ring_depth(&stage->forward);
    CHECK(ring_try_push(&stage->forward, slot->index)); /* a ring has a cell for every slot */
    stage_bell_ring(stage);
}

void backward_push(struct worker *w, struct stage *stage, struct slot *slot)
{
    const struct pipeline *p = w->pipeline;
    uint32_t lane = batch_lane_of(graph_batch(p->graph), slot->batch.micro_index);
    struct ring *ring = &stage->seats[lane % stage->seat_count].backward;
    struct stage_times *times = &w->times[stage->index];
    times->backward_pushes++;
    times->backward_depth_sum += ring_depth(ring);
    CHECK(ring_try_push(ring, slot->index));
    stage_bell_ring(stage);
}

static void first_bells_ring(struct pipeline *p)
{
    for (uint32_t v = 0; v < p->pipeline_count; v++) stage_bell_ring(&p->stages[v * p->stage_count]);
}

void slot_give(struct pipeline *p, struct slot *slot)
{
    feed_release(p->feed, slot);
    /* Release: who sees that nobody is in flight sees what the slots have left behind. */
    atomic_fetch_sub_explicit(&p->shared_in_flight, 1, memory_order_release);
    first_bells_ring(p);
}

void order_put(struct worker *w, struct order *order, struct slot *slot,
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

/* Runs the forward list again, op by op, and describes the first whose output is not finite. */
static status diverged(struct worker *w, const struct op_context *c)
{
    const struct graph *g = c->graph;
    const char *op = "loss", *kind = "";
    for (uint32_t i = 0; i < g->forward_count; i++) {
        TRY(device_submit(w->device, c, &g->nodes[i], 1));
        if (is_finite_view(op_out(c, &g->nodes[i]))) continue;
        op = graph_string(g, g->nodes[i].name);
        kind = op_table[g->nodes[i].op].section;
        break;
    }
    FAIL(DIVERGED,
         "step %" PRIu64 ": the loss is not finite; the first such value is in the output of [%s %s]; a lower learning "
         "rate may help",
         c->batch->step, kind, op);
}

static double loss_sum(const struct pipeline *p, const struct slot *slot)
{
    const struct view loss = slot->tensor[p->graph->header->loss_tensor];
    double sum = 0;
    for (uint32_t b = 0; b < slot->batch.example_count; b++) sum += loss.data[(size_t)b * loss.stride];
    return sum;
}

/* The sum of the examples' losses; DIVERGED if it is not finite. */
static status slot_loss(struct worker *w, struct slot *slot, double *sum)
{
    *sum = loss_sum(w->pipeline, slot);
    if (isfinite(*sum)) return ST_OK;
    struct op_context c = slot_context(w->pipeline, slot);
    return diverged(w, &c);
}

/* Part `part` of `parts` of `count`, cut at multiples of `unit`. */
static void part_of(uint64_t count, uint32_t part, uint32_t parts, uint64_t unit, uint64_t *begin, uint64_t *end)
{
    uint64_t units = (count + unit - 1) / unit;
    *begin = units * part / parts * unit;
    *end = units * (part + 1) / parts * unit;
    if (*begin > count) *begin = count;
    if (*end > count) *end = count;
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
        part_of(run->count, u->part, u->parts, 16, &begin, &end); /* 16 floats: a cache line */
        if (begin == end) continue;
        uint64_t at = run->offset + begin;
        for (uint32_t lane = 0; lane < u->lanes; lane++) w->grad[lane] = u->param_grad[lane] + at;
        struct param_update update = {.optimizer = &g->optimizers[of->optimizer],
                                      .weight = u->param + at,
                                      .state = u->state + p->model->state_offset[run->update] + (at - of->param_offset),
                                      .state_stride = of->param_count,
                                      .grad = w->grad,
                                      .lanes = u->lanes,
                                      .count = end - begin,
                                      .scale = scale,
                                      .t = u->t};
        TRY(w->device->vt->update_params(w->device, &update));
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
                                      .t = u->t};
        TRY(w->device->vt->update_rows(w->device, &update));
    }
    return ST_OK;
}

/* For pipeline_check: the slot stays where it is. */
static void check_tell(struct worker *w, struct slot *slot)
{
    struct pipeline *p = w->pipeline;
    if (!isfinite(loss_sum(p, slot)))
        pipeline_fail(p, status_fail(ST_DIVERGED, __FILE__, __LINE__,
                                     "step %" PRIu64
                                     ": after its update the loss is not finite; a lower learning rate may help",
                                     slot->batch.step));
    atomic_fetch_sub_explicit(&p->shared_in_flight, 1, memory_order_release);
    first_bells_ring(p);
}

/* Hands a prediction on, in the order of the data. */
static void prediction_tell(struct worker *w, struct slot *slot)
{
    struct pipeline *p = w->pipeline;
    if (p->is_check) {
        check_tell(w, slot);
        return;
    }
    struct view logit = slot->tensor[p->graph->header->logit_tensor];
    /* Relaxed: after a failure it does not matter how much is still told. */
    if (slot->batch.example_count && !atomic_load_explicit(&p->shared_failed, memory_order_relaxed)) {
        status st = p->sink(p->sink_context, &slot->batch, logit.data, logit.stride);
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
    if (p->job == JOB_TRAIN && stage->is_last)
        TRY(slot_loss(w, slot, &p->loss[p->sync == SYNC_BSP ? slot->batch.micro_index : slot->index]));
    return ST_OK;
}

/* A slot begins its way back, in the order of its lane. */
static void turn_round(struct worker *w, struct slot *slot)
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
        order_put(w, &p->turning[sequence_lane(p, slot)], slot, turn_round);
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
    static const enum stage_work work_of[] = {
        [TASK_FORWARD] = WORK_FORWARD, [TASK_BACKWARD] = WORK_BACKWARD, [TASK_UPDATE] = WORK_UPDATE};
    static const enum trace_kind kind_of[] = {
        [TASK_FORWARD] = TRACE_FORWARD, [TASK_BACKWARD] = TRACE_BACKWARD, [TASK_UPDATE] = TRACE_UPDATE};
    struct pipeline *p = w->pipeline;
    const struct task t = w->task;
    if (p->delay_ns_max) delay(w);
    uint64_t step = t.slot ? t.slot->batch.step : p->open.step, begin_ns = clock_ns();
    uint32_t micro = t.slot ? t.slot->batch.micro_index : t.part;
    status st = ST_OK;
    switch (t.kind) {
    case TASK_FORWARD: st = forward_task(w, t.stage, t.slot); break;
    case TASK_BACKWARD: st = backward_task(w, t.stage, t.slot); break;
    case TASK_UPDATE: st = bsp_update_run(w, t.stage, t.part); break;
    default: CHECK(false);
    }
    uint64_t end_ns = clock_ns();
    if (p->job == JOB_TRAIN) {
        struct stage_times *times = &w->times[t.stage->index];
        times->task_count[work_of[t.kind]]++;
        times->busy_ns[work_of[t.kind]] += end_ns - begin_ns - w->updated_ns;
        times->task_count[WORK_UPDATE] += w->updated_ns != 0;
        times->busy_ns[WORK_UPDATE] += w->updated_ns;
        w->updated_ns = 0;
    }
    trace_span(kind_of[t.kind], t.stage->name, begin_ns, end_ns, step, micro);
    if (st != ST_OK) {
        pipeline_fail(p, st);
        return; /* the job is over: nobody waits for this slot */
    }
    if (t.kind == TASK_FORWARD) forward_done(w, t.stage, t.slot);
    if (t.kind == TASK_BACKWARD) backward_done(w, t.stage, t.slot);
    if (t.seat && claim_give(&t.seat->claim)) stage_bell_ring(t.stage);
    if (t.kind != TASK_UPDATE) turn_give(p, t.stage);
}

/* --- the gate --------------------------------------------------------------------------------- */

/* Whether the slot that the gate holds may go in now. */
static bool gate_admits(struct pipeline *p, struct slot *slot)
{
    /* Acquire pairs with slot_give(). */
    if (atomic_load_explicit(&p->shared_in_flight, memory_order_acquire) >= p->in_flight * p->pipeline_count)
        return false;
    p->sequence[slot->index] = p->gate.sequence[sequence_lane(p, slot)];
    p->slot_pipeline[slot->index] = 0;
    if (p->job == JOB_FORWARD) return true;
    return p->sync == SYNC_BSP ? bsp_admit(p, slot) : wsp_admit(p, slot);
}

/* Whether nothing more is let in by this job, whatever the feed has: a step that is begun is always finished. */
static bool gate_is_full(const struct pipeline *p)
{
    /* Relaxed: a stop may be seen a step later. */
    bool is_stop = atomic_load_explicit(&p->shared_stop, memory_order_relaxed);
    if (p->job == JOB_FORWARD) return is_stop;
    return p->gate.is_between && (is_stop || p->gate.step_next >= p->step_until);
}

/* Lets in what may go in, and ends the job when nothing more will. */
static void gate_run(struct worker *w)
{
    struct pipeline *p = w->pipeline;
    struct gate *gate = &p->gate;
    if (!claim_try(&gate->claim)) return;
    bool is_full;
    while (!(is_full = gate_is_full(p))) {
        if (gate->held == NULL && !gate->is_ended) gate->is_ended = feed_try_next(p->feed, &gate->held) == FEED_END;
        if (gate->held == NULL || !gate_admits(p, gate->held)) break;
        struct slot *slot = gate->held;
        gate->held = NULL;
        gate->sequence[sequence_lane(p, slot)]++;
        gate->is_between = slot->batch.is_last;
        gate->step_next = slot->batch.step + slot->batch.is_last;
        /* Relaxed: only the gate adds, and what it adds it pushes. */
        atomic_fetch_add_explicit(&p->shared_in_flight, 1, memory_order_relaxed);
        forward_push(w, &p->stages[p->slot_pipeline[slot->index] * p->stage_count], slot);
    }
    bool is_out = gate->held == NULL && gate->is_ended;
    w->saw_starved |= gate->held == NULL && !gate->is_ended && !is_full;
    /* Acquire pairs with slot_give() and the like in bsp.c. */
    bool is_over = (is_full || is_out) && atomic_load_explicit(&p->shared_in_flight, memory_order_acquire) == 0;
    if (is_over && !atomic_exchange_explicit(&p->shared_done, true, memory_order_release)) bell_ring(&p->main_bell);
    if (claim_give(&gate->claim)) first_bells_ring(p);
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

static bool backward_take(struct worker *w, struct stage *stage)
{
    for (uint32_t s = 0; s < stage->seat_count; s++) {
        struct seat *seat = &stage->seats[s];
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

/* The most downstream task that is ready: update, then backward, then forward. */
static bool task_take(struct worker *w)
{
    struct pipeline *p = w->pipeline;
    for (uint32_t i = 0; i < w->stage_count; i++) {
        struct stage *stage = w->stages[i];
        struct task task = {.kind = TASK_FORWARD, .stage = stage};
        if (p->job == JOB_TRAIN) {
            if (p->sync == SYNC_BSP && bsp_update_take(stage, &task.part)) {
                task.kind = TASK_UPDATE;
                w->task = task;
                return true;
            }
            if (backward_take(w, stage)) return true;
        }
        if (stage->is_first) gate_run(w);
        if (slot_take(w, stage, &stage->forward, &task.slot)) {
            w->task = task;
            return true;
        }
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

/* Waiting between jobs is not counted: it is no stage's fault. */
static void wait_account(struct worker *w, uint64_t begin_ns, uint64_t end_ns)
{
    const struct pipeline *p = w->pipeline;
    if (begin_ns < p->job_begin_ns) begin_ns = p->job_begin_ns;
    trace_span(TRACE_WAIT, "wait", begin_ns, end_ns, 0, 0);
    if (p->job != JOB_TRAIN) return;
    w->wait_ns += end_ns - begin_ns;
    if (w->saw_starved) w->starved_ns += end_ns - begin_ns;
}

static void *worker_main(void *argument)
{
    struct worker *w = argument;
    if (w->place->processors) cores_pin(w->place->processors, 1);
    trace_thread(w->name);
    for (;;) {
        uint64_t begin_ns = clock_ns();
        w->saw_starved = false;
        bell_await(w->bell, w->pipeline->spins, look, w);
        if (w->task.kind == TASK_QUIT) return NULL;
        wait_account(w, begin_ns, clock_ns());
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
    memset(p->gate.sequence, 0, p->lanes * sizeof *p->gate.sequence);
    order_reset(&p->order);
    for (uint32_t lane = 0; lane < p->lanes; lane++) order_reset(&p->turning[lane]);
    p->job_begin_ns = clock_ns();
    /* Relaxed, all: no worker is at work, and shared_runs publishes them. */
    atomic_store_explicit(&p->shared_done, false, memory_order_relaxed);
    atomic_store_explicit(&p->shared_stop, false, memory_order_relaxed);
    atomic_store_explicit(&p->shared_in_flight, 0, memory_order_relaxed);
    atomic_store_explicit(&p->shared_runs, true, memory_order_seq_cst);
    for (uint32_t b = 0; b < p->bell_count; b++) bell_ring(&p->bells[b]);
    while (!bell_await_until(&p->main_bell, false, clock_ns() + TICK_NS, job_is_over, p)) {
        if (tick == NULL || !tick(context)) continue;
        atomic_store_explicit(&p->shared_stop, true, memory_order_relaxed);
        first_bells_ring(p);
    }
    atomic_store_explicit(&p->shared_runs, false, memory_order_seq_cst);
    bell_await(&p->main_bell, false, all_are_idle, p);
    if (!atomic_load_explicit(&p->shared_failed, memory_order_acquire)) return ST_OK;
    return status_adopt((status)atomic_load_explicit(&p->shared_failure, memory_order_relaxed), p->message);
}

status pipeline_train(struct pipeline *p, const struct train_job *job, bool *is_end)
{
    p->job = JOB_TRAIN;
    p->train = job;
    p->feed = p->feed_trained = job->feed;
    p->step_until = job->step_until;
    p->gate.held = p->train_held;
    p->gate.is_ended = false;
    p->gate.is_between = true;
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
    TRY(st);
    return *is_end ? feed_result(job->feed) : ST_OK;
}

static status forward_job(struct pipeline *p, struct feed *feed, bool (*tick)(void *context), void *context)
{
    p->job = JOB_FORWARD;
    p->feed = feed;
    p->stashes = false;
    return job_run(p, tick, context);
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
    if (!p->gate.is_ended) FAIL(STOPPED, "stopped by a signal during evaluation");
    return feed_result(feed);
}

/* --- opening ---------------------------------------------------------------------------------- */

/* Micro-batches in flight that keep the workers of a pipeline busy. */
static uint32_t in_flight_default(const struct pipeline *p, uint32_t workers)
{
    const struct plan *plan = p->plan;
    /* wsp, asp: as few as there are stages, for each further one makes what is computed with older. */
    if (p->sync != SYNC_BSP) return p->stage_count + (p->stage_count > 1);
    if (workers <= 1) return 1;
    /* A stage of a chain of S has a forward and a backward pass to do while a slot goes up and down the others: S slots keep all
     * at it, twice as many bridge that some take longer. */
    uint64_t count = 2 * (uint64_t)(workers > p->stage_count ? workers : p->stage_count);
    /* Backward passes of a stage run side by side only for different lanes, which lie a lane's length apart. */
    uint32_t replicas = 1;
    for (uint32_t s = 0; s < plan->stage_count; s++)
        if (plan->stages[s].replicas > replicas) replicas = plan->stages[s].replicas;
    if (replicas > 1 && p->lanes > 1) {
        uint32_t abreast = replicas < p->lanes ? replicas : p->lanes;
        count += (uint64_t)(abreast - 1) * (p->micro_count / p->lanes);
    }
    return count < p->micro_count ? (uint32_t)count : p->micro_count;
}

/* Whether a stage's nodes include the first one that looks the table up. */
static bool owns_table(const struct graph *g, const struct stage *s, uint32_t table)
{
    uint32_t node = graph_table_first_node(g, table);
    return s->forward_begin <= node && node < s->forward_end;
}

/* The nodes of a stage's layers. */
static void stage_nodes(const struct graph *g, const struct plan_stage *plan, struct stage *s)
{
    s->forward_begin = s->backward_begin = UINT32_MAX;
    for (uint32_t n = 0; n < g->node_count; n++) {
        if (g->nodes[n].layer < plan->first_layer || g->nodes[n].layer > plan->last_layer) continue;
        bool is_forward = n < g->forward_count;
        uint32_t *begin = is_forward ? &s->forward_begin : &s->backward_begin,
                 *end = is_forward ? &s->forward_end : &s->backward_end;
        if (*begin == UINT32_MAX) *begin = n;
        *end = n + 1;
        s->looks_up |= is_forward && (op_table[g->nodes[n].op].traits & OP_LOOKS_UP) != 0;
    }
    if (s->forward_begin == UINT32_MAX) s->forward_begin = s->forward_end = 0;
    if (s->backward_begin == UINT32_MAX) s->backward_begin = s->backward_end = g->node_count;
}

static uint32_t dense_runs(const struct graph *g, const struct stage *s, struct param_run *runs)
{
    uint32_t count = 0;
    for (uint32_t u = 0; u < g->update_count; u++) {
        struct param_run run = {.update = u};
        if (g->updates[u].table != GRAPH_NONE) continue;
        graph_params_of_nodes(g, s->forward_begin, s->forward_end, u, &run.offset, &run.count);
        if (run.count == 0) continue;
        if (runs) runs[count] = run;
        count++;
    }
    return count;
}

/* Sums up (arena NULL), or hands out, what rings, stages and workers keep: one list, so that the sum cannot differ from what is
 * taken. */
static size_t pipeline_layout(struct pipeline *p, struct arena *arena)
{
    const struct graph *g = p->graph;
    const struct plan *plan = p->plan;
    size_t bytes = 0;
#define TAKE(pointer, count)                                                                                           \
    do {                                                                                                               \
        size_t take_bytes = (size_t)(count) * sizeof *(pointer);                                                       \
        bytes += arena_bytes(take_bytes);                                                                              \
        (pointer) = arena ? arena_take(arena, take_bytes) : NULL;                                                      \
    } while (0)
#define RING(ring, kind)                                                                                               \
    do {                                                                                                               \
        bytes += ring_bytes(p->slot_count, kind);                                                                      \
        if (arena) ring_place(ring, arena, p->slot_count, kind);                                                       \
    } while (0)
    uint32_t pair_count = p->pipeline_count * p->stage_count;
    p->bell_count = p->placement.is_shared ? 1 : pair_count;
    TAKE(p->bells, p->bell_count);
    TAKE(p->stages, pair_count);
    for (uint32_t i = 0; i < pair_count; i++) {
        struct stage s = {.index = i % p->stage_count, .pipeline_index = i / p->stage_count};
        const struct plan_stage *of = &plan->stages[s.index];
        const struct plan_stage *beside = &plan->stages[s.index ? s.index - 1 : 0];
        s.is_first = s.index == 0;
        s.is_last = s.index + 1 == p->stage_count;
        stage_nodes(g, of, &s);
        (void)plan_stage_name(plan, g, s.index, s.name, sizeof s.name);
        /* One thread at each end, unless a stage has several workers: then any of them pushes or takes. */
        bool is_one = !p->placement.is_shared && of->replicas == 1 && (s.is_first || beside->replicas == 1);
        enum ring_kind kind = is_one && !s.is_first ? RING_ONE : RING_MANY; /* into the first, any gate pushes */
        RING(&s.forward, kind);
        s.seat_count = p->sync == SYNC_BSP ? of->replicas : 1;
        TAKE(s.seats, s.seat_count);
        for (uint32_t k = 0; k < s.seat_count; k++)
            RING(&s.seats[k].backward, RING_MANY); /* a seat's lanes come from any worker of the stage behind */
        s.run_count = dense_runs(g, &s, NULL);
        TAKE(s.runs, s.run_count);
        TAKE(s.tables, g->table_count);
        if (p->sync != SYNC_BSP) TAKE(s.turn, 1);
        if (!arena) continue;
        dense_runs(g, &s, s.runs);
        for (uint32_t t = 0; t < g->table_count; t++)
            if (owns_table(g, &s, t)) s.tables[s.table_count++] = t;
        s.bell = &p->bells[p->placement.is_shared ? 0 : i];
        if (s.looks_up && s.turn) s.turn = p->stages[s.index].turn ? p->stages[s.index].turn : s.turn;
        p->stages[i] = s;
    }
    TAKE(p->workers, p->worker_count);
    uint32_t grad_max = p->lanes;
    for (uint32_t t = 0; t < g->table_count; t++) {
        uint32_t count = graph_table_lookups(g, t, NULL);
        if (p->lanes * count > grad_max) grad_max = p->lanes * count;
    }
    for (uint32_t i = 0; i < p->worker_count; i++) {
        const struct placement_worker *place = &p->placement.worker[i];
        bool is_pool = place->pipeline == PLACEMENT_ALL;
        struct worker w = {.pipeline = p, .place = place, .index = i};
        uint32_t stages = is_pool ? pair_count : 1;
        TAKE(w.stages, stages);
        TAKE(w.times, p->stage_count);
        TAKE(w.grad, grad_max);
        if (!arena) continue;
        for (uint32_t s = place->stage_end; s-- > place->stage_begin;)
            for (uint32_t v = 0; v < p->pipeline_count; v++)
                if (is_pool || v == place->pipeline) w.stages[w.stage_count++] = &p->stages[v * p->stage_count + s];
        w.bell = w.stages[0]->bell;
        for (uint32_t k = 0; k < w.stage_count; k++) {
            w.stages[k]->worker_count++;
            w.stages[k]->core_count += place->core_count;
        }
        snprintf(w.name, sizeof w.name, is_pool ? "worker %u" : "worker %u: %.30s", i, w.stages[0]->name);
        p->workers[i] = w;
    }
    for (uint32_t i = 0; i < pair_count && arena; i++) {
        struct stage *s = &p->stages[i];
        s->update_parts = s->worker_count;
        s->next = s->is_last ? NULL : s + 1;
        s->before = s->is_first ? NULL : s - 1;
    }
    TAKE(p->order.shared_cells, p->slot_count);
    p->order.cell_count = p->slot_count;
    TAKE(p->turning, p->lanes);
    for (uint32_t lane = 0; lane < p->lanes; lane++) {
        struct order turning = {.cell_count = p->slot_count};
        TAKE(turning.shared_cells, p->slot_count);
        if (arena) p->turning[lane] = turning;
    }
    TAKE(p->gate.sequence, p->lanes);
    TAKE(p->sequence, p->slot_count);
    TAKE(p->slot_pipeline, p->slot_count);
    TAKE(p->loss, p->slot_count > p->micro_count ? p->slot_count : p->micro_count);
    TAKE(p->row_count, g->table_count);
    TAKE(p->figures, p->stage_count);
#undef TAKE
#undef RING
    return bytes;
}

/* Sums of gradients: of parameters a lane each (a pipeline each under wsp and asp), of rows a lane and look-up each. */
static status gradients_take(struct pipeline *p)
{
    const struct graph *g = p->graph;
    uint32_t dense_count = p->sync == SYNC_BSP ? p->lanes : p->pipeline_count,
             sparse_count = p->sync == SYNC_BSP ? p->lanes : 1, lookup_count = g->lookup_count;
    size_t param_bytes = arena_bytes(g->header->param_floats * sizeof(float)), bytes = 0;
    bytes += arena_bytes(dense_count * sizeof *p->param_grad) + dense_count * param_bytes;
    bytes += 2 * arena_bytes((size_t)sparse_count * lookup_count * sizeof *p->table_grad);
    bytes += 2 * arena_bytes(g->table_count * sizeof(uint32_t)) + arena_bytes(lookup_count * sizeof(uint32_t));
    for (uint32_t t = 0; t < g->table_count; t++) {
        uint32_t uses = graph_table_lookups(g, t, NULL);
        size_t rows = (size_t)g->header->batch * g->tables[t].key_count_max;
        size_t table_bytes = (size_t)sparse_count * uses * arena_bytes(rows * g->tables[t].dim * sizeof(float));
        if (__builtin_add_overflow(bytes, table_bytes, &bytes) || table_bytes > (size_t)1 << 60)
            FAIL(MEMORY,
                 "the gradients of %u lanes need more bytes than any machine has; lower train.batch or train.lanes",
                 p->lanes);
    }
    TRY(arena_open(&p->gradients, "gradients", bytes));
    struct arena *a = &p->gradients;
    p->param_grad = arena_take(a, dense_count * sizeof *p->param_grad);
    p->table_grad = arena_take(a, (size_t)sparse_count * lookup_count * sizeof *p->table_grad);
    p->update_grad = arena_take(a, (size_t)sparse_count * lookup_count * sizeof *p->update_grad);
    p->update_grad_begin = arena_take(a, g->table_count * sizeof *p->update_grad_begin);
    p->use_count = arena_take(a, g->table_count * sizeof *p->use_count);
    for (uint32_t i = 0; i < dense_count; i++) p->param_grad[i] = arena_take(a, param_bytes);
    uint32_t at = 0, *lookups = arena_take(a, lookup_count * sizeof *lookups);
    for (uint32_t t = 0; t < g->table_count; t++) {
        p->use_count[t] = graph_table_lookups(g, t, lookups);
        size_t rows = (size_t)g->header->batch * g->tables[t].key_count_max;
        p->update_grad_begin[t] = at;
        for (uint32_t lane = 0; lane < sparse_count; lane++) {
            for (uint32_t use = 0; use < p->use_count[t]; use++) {
                float *grad = arena_take(a, rows * g->tables[t].dim * sizeof(float));
                p->table_grad[(size_t)lane * lookup_count + lookups[use]] = p->update_grad[at++] = grad;
            }
        }
    }
    return ST_OK;
}

static status worker_start(struct worker *w)
{
    const struct pipeline *p = w->pipeline;
    int error = thread_start(&w->thread, worker_main, w);
    if (error) FAIL(SYSTEM, "cannot start worker %u of %u: %s", w->index + 1, p->worker_count, strerror(error));
    memory_note("threads", THREAD_STACK_BYTES);
    return ST_OK;
}

static void line_log(void *context, const char *line)
{
    (void)context;
    log_detail("place    %s", line);
}

static status open_parts(struct pipeline *p, const struct pipeline_options *o)
{
    TRY(placement_make(&p->placement, o->plan, o->graph, p->pipeline_count, o->cores, o->core_count, o->share));
    placement_tell(&p->placement, o->plan, o->graph, line_log, NULL);
    p->worker_count = p->placement.worker_count;
    uint32_t core_count = 0;
    for (uint32_t i = 0; i < p->worker_count; i++) core_count += p->placement.worker[i].core_count;
    p->spins = core_count <= o->cores->count;
    uint32_t workers = (p->worker_count + p->pipeline_count - 1) / p->pipeline_count;
    p->in_flight = o->in_flight ? o->in_flight : in_flight_default(p, workers);
    uint64_t slots = (uint64_t)p->in_flight * p->pipeline_count + SLOTS_AHEAD;
    if (slots > 1u << 16)
        FAIL(INVALID, "train.in_flight = %u in %u pipelines are %" PRIu64 " slots; expected at most %u", p->in_flight,
             p->pipeline_count, slots, 1u << 16);
    p->slot_count = (uint32_t)slots;
    TRY(arena_open(&p->arena, "pipeline", pipeline_layout(p, NULL)));
    (void)pipeline_layout(p, &p->arena);
    if (p->training) TRY(gradients_take(p));
    if (p->training && p->sync != SYNC_BSP) TRY(wsp_open(p));
    for (uint32_t i = 0; i < p->worker_count; i++) {
        const struct placement_worker *place = p->workers[i].place;
        TRY(cpu_device_open(&p->workers[i].device, p->graph, place->core_count, place->processors, o->isa));
    }
    for (; p->started_count < p->worker_count; p->started_count++) TRY(worker_start(&p->workers[p->started_count]));
    return ST_OK;
}

status pipeline_open(struct pipeline **out, const struct pipeline_options *o)
{
    *out = NULL;
    struct pipeline *p = aligned_alloc(CACHE_LINE_BYTES, arena_bytes(sizeof *p));
    if (p == NULL) FAIL(MEMORY, "no memory for a pipeline");
    memset(p, 0, sizeof *p);
    struct batch_shape shape = graph_batch(o->graph);
    p->graph = o->graph;
    p->model = o->model;
    p->plan = o->plan;
    p->training = o->training;
    p->sync = o->training ? o->sync : SYNC_BSP;
    p->clock_distance = o->clock_distance;
    p->pipeline_count = o->training ? o->pipeline_count : 1;
    p->stage_count = o->plan->stage_count;
    p->lanes = shape.lanes;
    p->micro_count = batch_micro_count(shape);
    status st = ST_OK;
    if (p->sync == SYNC_BSP && p->pipeline_count > 1)
        st = status_fail(ST_INVALID, __FILE__, __LINE__,
                         "train.pipelines = %u needs train.sync = wsp or asp; under bsp give a stage replicas, and "
                         "train.lanes",
                         p->pipeline_count);
    CHECK(p->sync == SYNC_BSP || p->micro_count == 1);
    if (st == ST_OK) st = open_parts(p, o);
    if (st != ST_OK) {
        pipeline_close(p);
        return st;
    }
    *out = p;
    return ST_OK;
}

void pipeline_close(struct pipeline *p)
{
    if (p == NULL) return;
    /* Release pairs with the acquire in look(). */
    atomic_store_explicit(&p->shared_closed, true, memory_order_release);
    for (uint32_t b = 0; p->bells && b < p->bell_count; b++) bell_ring(&p->bells[b]);
    for (uint32_t i = 0; i < p->started_count; i++) pthread_join(p->workers[i].thread, NULL);
    for (uint32_t i = 0; p->workers && i < p->worker_count; i++)
        if (p->workers[i].device) p->workers[i].device->vt->close(p->workers[i].device);
    wsp_close(p);
    arena_close(&p->gradients);
    arena_close(&p->arena);
    placement_free(&p->placement);
    free(p);
}

void pipeline_delay_set(struct pipeline *p, uint64_t seed, uint32_t max_ns)
{
    p->delay_seed = seed;
    p->delay_ns_max = max_ns;
}

uint32_t pipeline_slot_count(const struct pipeline *p) { return p->slot_count; }

const int *pipeline_service_cores(const struct pipeline *p, uint32_t *count)
{
    *count = p->placement.service ? p->placement.service_count : 0;
    return p->placement.service;
}

struct bell *pipeline_feed_bell(struct pipeline *p) { return p->stages[0].bell; }

const struct device *pipeline_device(const struct pipeline *p) { return p->workers[0].device; }

/* --- figures ---------------------------------------------------------------------------------- */

void pipeline_figures(const struct pipeline *p, struct pipeline_figures *f)
{
    struct steady_counts counts = steady_counts();
    *f = (struct pipeline_figures){.wall_ns = p->wall_ns,
                                   .is_shared = p->placement.is_shared,
                                   .worker_count = p->worker_count,
                                   .stage_count = p->stage_count,
                                   .stage = p->figures,
                                   .allocations = counts.allocations,
                                   .locks = counts.locks};
    memset(p->figures, 0, p->stage_count * sizeof *p->figures);
    for (uint32_t i = 0; i < p->worker_count; i++) {
        const struct worker *w = &p->workers[i];
        f->starved_ns += w->starved_ns;
        if (f->is_shared) f->pool_wait_ns += w->wait_ns;
        for (uint32_t s = 0; s < p->stage_count; s++) {
            struct stage_figures *of = &p->figures[s];
            const struct stage_times *t = &w->times[s];
            for (int k = 0; k < WORK_COUNT; k++) {
                of->task_count[k] += t->task_count[k];
                of->busy_ns[k] += t->busy_ns[k];
            }
            of->forward_pushes += t->forward_pushes;
            of->forward_depth_sum += t->forward_depth_sum;
            of->backward_pushes += t->backward_pushes;
            of->backward_depth_sum += t->backward_depth_sum;
            if (w->stages[0]->index == s && !f->is_shared) of->wait_ns += w->wait_ns;
        }
    }
    for (uint32_t i = 0; i < p->pipeline_count * p->stage_count; i++) {
        struct stage_figures *of = &p->figures[i % p->stage_count];
        snprintf(of->name, sizeof of->name, "%s", p->stages[i].name);
        bool is_counted = f->is_shared && i >= p->stage_count; /* the same pool serves every pipeline */
        if (!is_counted) of->worker_count += p->stages[i].worker_count;
        if (!is_counted) of->core_count += p->stages[i].core_count;
        of->ring_cells = p->slot_count;
    }
    if (p->feed_trained) {
        struct feed_counts feed = feed_counts(p->feed_trained);
        f->read_ns = feed.read_ns;
        f->prepare_ns = feed.prepare_ns;
        f->read_wait_ns = feed.wait_ns;
    }
    if (p->wsp) wsp_figures(p, f);
}
