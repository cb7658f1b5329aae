/* What a worker does with a task: runs its list of nodes or its part of an update, keeps
 * losses, and hands the slot on. */
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>

#include "engine/base/clock.h"
#include "engine/base/trace.h"
#include "engine/pipe/pipeline_internal.h"
#include "engine/slot/fold.h"

/* --- order ------------------------------------------------------------------------------------ */

/* Marks the slot's number as finished. */
static void order_mark(struct pipeline *p, struct order *order, const struct slot *slot)
{
    /* Release pairs with order_take(). */
    atomic_store_explicit(&order->shared_cells[p->sequence[slot->index] % order->cell_count], slot->index + 1,
                          memory_order_release);
}

struct slot *order_take(struct pipeline *p, struct order *order)
{
    /* Relaxed: whoever takes has been handed this. */
    const uint64_t next = atomic_load_explicit(&order->shared_next, memory_order_relaxed);
    _Atomic uint32_t *cell = &order->shared_cells[next % order->cell_count];
    const uint32_t index = atomic_load_explicit(cell, memory_order_acquire);
    if (index == 0) return NULL;
    /* Relaxed, both: the cell is used again only by a slot that is let
     * in after this one is given back. */
    atomic_store_explicit(cell, 0, memory_order_relaxed);
    atomic_store_explicit(&order->shared_next, next + 1, memory_order_relaxed);
    return &p->slots[index - 1];
}

/* Marks the slot's number as finished and hands on what is next in order: deliver(w, slot), one at a time. */
static void order_put(struct worker *w, struct order *order, struct slot *slot,
                      void (*deliver)(struct worker *, struct slot *))
{
    struct pipeline *p = w->pipeline;
    order_mark(p, order, slot);
    do {
        if (!claim_try(&order->claim)) return; /* its holder sees that somebody came */
        for (struct slot *next; (next = order_take(p, order)) != NULL;) deliver(w, next);
    } while (claim_give(&order->claim));
}

void order_reset(struct order *order)
{
    /* Relaxed, both: no worker is at work. After a failure cells may be left over. */
    for (uint32_t i = 0; i < order->cell_count; i++)
        atomic_store_explicit(&order->shared_cells[i], 0, memory_order_relaxed);
    atomic_store_explicit(&order->shared_next, 0, memory_order_relaxed);
}

/* --- what a synchronisation asks for ---------------------------------------------------------- */

/* A slot that the gate has let in is out again. */
static void host_slot_out(struct sync_host *host)
{
    struct pipeline *p = (struct pipeline *)host;
    /* Release: a thread that sees no slot in flight sees what the slots have left behind. */
    atomic_fetch_sub_explicit(&p->shared_in_flight, 1, memory_order_release);
    pipeline_gate_ring(p);
}

/* The slot can be bound to another input. */
static void slot_free(struct pipeline *p, const struct slot *slot)
{
    CHECK(ring_try_push(&p->slots_free, slot->index));
}

static void host_slot_give(struct sync_host *host, struct slot *slot)
{
    struct pipeline *p = (struct pipeline *)host;
    feed_release(p->feed, slot->input);
    slot_free(p, slot);
    host_slot_out(host);
}

static void host_slot_keep(struct sync_host *host, struct slot *slot)
{
    struct pipeline *p = (struct pipeline *)host;
    if (p->kept) feed_release(p->feed, p->kept);
    p->kept = slot->input;
    slot_free(p, slot);
}

static status host_rows_sweep(struct sync_host *host, struct slot *slot, uint64_t *row_count)
{
    return feed_sweep(((struct pipeline *)host)->feed, slot->input, row_count);
}

static void host_step_done(struct sync_host *host, const struct step_done *done)
{
    const struct train_job *train = ((struct pipeline *)host)->train;
    train->step_done(train->context, done);
}

static void host_fail(struct sync_host *host, status failure) { pipeline_fail((struct pipeline *)host, failure); }

const struct sync_host pipeline_sync_host = {.slot_give = host_slot_give,
                                             .slot_keep = host_slot_keep,
                                             .slot_out = host_slot_out,
                                             .rows_sweep = host_rows_sweep,
                                             .step_done = host_step_done,
                                             .fail = host_fail};

/* --- lists of nodes --------------------------------------------------------------------------- */

static struct op_context context_of(const struct pipeline *p, struct slot *slot)
{
    const struct graph *g = p->graph;
    const bool training = p->job == JOB_TRAIN;
    return slot_context(slot, g, training ? p->sync->gradients.table : NULL, training);
}

/* Runs sums and updates that are ready, within a pass: others wait for them. */
static status parts_run(struct worker *w, const struct station *station)
{
    struct sync *sync = w->pipeline->sync;
    struct sync_part part;
    while (sync->vt->part_take(sync, &station->stage, w->seat, &part)) {
        const uint64_t begin_ns = clock_ns();
        TRY(sync->vt->part_run(sync, &w->updater, &station->stage, &part));
        const uint64_t end_ns = clock_ns();
        w->updated_ns += end_ns - begin_ns;
        trace_span(TRACE_UPDATE, station->stage.name, begin_ns, end_ns, part.step, part.index);
    }
    return ST_OK;
}

/* Runs the nodes [begin, end) of the stage: whole, or in the pieces that the synchronisation wants. */
static status list_run(struct worker *w, const struct station *station, struct slot *slot, const struct op_context *c,
                       uint32_t begin, uint32_t end)
{
    const struct graph *g = w->pipeline->graph;
    struct sync *sync = w->pipeline->sync;
    if (!c->training || sync->vt->piece_end == NULL) return device_submit(w->device, c, g->nodes + begin, end - begin);
    while (begin < end) {
        const uint32_t next = sync->vt->piece_end(sync, &station->stage, begin, end);
        if (sync->vt->piece_await) w->awaited_ns += sync->vt->piece_await(sync, &station->stage, begin);
        TRY(device_submit(w->device, c, g->nodes + begin, next - begin));
        sync->vt->piece_done(sync, &station->stage, slot, next);
        begin = next;
        if (begin < end) TRY(parts_run(w, station));
    }
    return ST_OK;
}

static bool is_finite_view(struct view v)
{
    for (uint32_t r = 0; r < v.rows; r++)
        for (uint32_t i = 0; i < v.cols; i++)
            if (!isfinite(v.data[(size_t)r * v.stride + i])) return false;
    return true;
}

/* The device that can run any node of the graph on what the host has: the worker's own, or, where the stage's
 * parameters are elsewhere, the pipeline's, locked. */
static status host_device_take(struct worker *w, const struct station *station, struct device **device)
{
    struct pipeline *p = w->pipeline;
    *device = w->device;
    if (!station->stage.kind->has_memory) return ST_OK;
    TRY(pipeline_devices_settle(p));
    pthread_mutex_lock(&p->device_lock);
    *device = p->device;
    return ST_OK;
}

/* Runs the forward list again, op by op, and describes the first whose output is not
 * finite. `station`: that of the loss. */
static status diverged(struct worker *w, const struct station *station, const struct op_context *c)
{
    const struct graph *g = c->graph;
    const struct extent *e = &station->stage.extent;
    const char *op = "loss", *kind = "";
    char where[64];
    struct device *device;
    status st = ST_OK;
    snprintf(where, sizeof where, "step %" PRIu64 ", example", c->batch->step);
    for (uint32_t i = graph_head_next(g, e->forward_begin); i < e->forward_end; i = graph_head_next(g, i + 1))
        TRY(op_labels_check(c, &g->nodes[i], where, c->example_begin));
    TRY(host_device_take(w, station, &device));
    /* Without lanes other stages' rows are being updated, and only this stage's nodes may run; on several
     * nodes only this stage is sure to be here. */
    for (uint32_t i = w->pipeline->by_lane && !w->pipeline->hops ? 0 : e->forward_begin;
         i < e->forward_end && st == ST_OK; i++) {
        st = device_submit(device, c, &g->nodes[i], 1);
        if (st != ST_OK || is_finite_view(op_out(c, &g->nodes[i]))) continue;
        op = graph_string(g, g->nodes[i].name);
        kind = op_table[g->nodes[i].op].section;
        break;
    }
    if (device != w->device) pthread_mutex_unlock(&w->pipeline->device_lock);
    TRY(st);
    FAIL(DIVERGED,
         "step %" PRIu64 ": the loss is not finite; the first such value is in the output of [%s %s]; "
         "a lower learning rate may help",
         c->batch->step, kind, op);
}

/* Adds up the losses among the forward nodes [begin, end), of the examples [from, to):
 * loss by loss, example by example. */
static double losses_sum(const struct graph *g, const struct slot *slot, uint32_t begin, uint32_t end, uint32_t from,
                         uint32_t to)
{
    double sum = 0;
    for (uint32_t i = graph_loss_next(g, begin); i < end; i = graph_loss_next(g, i + 1)) {
        const struct graph_node *n = &g->nodes[i];
        const struct view loss = slot->tensor[g->args[n->arg_begin + n->input_count + n->param_count]];
        for (uint32_t b = from; b < to; b++) sum += loss.data[(size_t)b * loss.stride];
    }
    return sum;
}

static double loss_sum(const struct graph *g, const struct slot *slot, uint32_t begin, uint32_t end)
{
    return losses_sum(g, slot, begin, end, 0, slot->input->batch.example_count);
}

/* Keeps all losses, lane by lane where the slot has several. */
static void losses_keep(struct sync *sync, const struct graph *g, const struct slot *slot)
{
    const uint32_t examples = slot->input->batch.example_count, each = graph_lane_micro(g);
    for (uint32_t part = 0, from = 0; part < graph_joined(g); part++) {
        const uint32_t to = examples - from < each ? examples : from + each;
        sync->vt->loss_keep(sync, slot, part, losses_sum(g, slot, 0, g->forward_count, from, to));
        from = to;
    }
}

/* DIVERGED if a loss of this stage is not finite, INVALID if that is a label's fault. At the last stage all
 * losses are kept. */
static status slot_loss(struct worker *w, const struct station *station, struct slot *slot)
{
    struct pipeline *p = w->pipeline;
    const struct graph *g = p->graph;
    const struct extent *e = &station->stage.extent;
    if (station->stage.is_last) {
        losses_keep(p->sync, g, slot);
        if (p->train->forward_done) p->train->forward_done(p->train->context, slot);
    }
    if (isfinite(loss_sum(g, slot, e->forward_begin, e->forward_end))) return ST_OK;
    struct op_context c = context_of(p, slot);
    return diverged(w, station, &c);
}

static status loss_check(const struct pipeline *p, const struct slot *slot)
{
    if (isfinite(loss_sum(p->graph, slot, 0, p->graph->forward_count))) return ST_OK;
    FAIL(DIVERGED, "step %" PRIu64 ": after its update the loss is not finite; a lower learning rate may help",
         slot->input->batch.step);
}

/* In a forward job, after its last stage that is here: the slot is out. */
static void slot_out(struct pipeline *p, struct slot *slot)
{
    if (!p->is_check) {
        p->host.slot_give(&p->host, slot);
        return;
    }
    slot_free(p, slot); /* and the input stays where it is */
    host_slot_out(&p->host);
}

/* The last stage is done with the slot; where stages lie on several nodes it makes its way back. */
static void slot_end(struct worker *w, struct slot *slot)
{
    struct pipeline *p = w->pipeline;
    if (p->hops)
        station_backward_give(w, &p->stations[p->stage_count - 1], slot);
    else
        slot_out(p, slot);
}

/* For pipeline_check. */
static void check_tell(struct worker *w, struct slot *slot)
{
    struct pipeline *p = w->pipeline;
    status st = loss_check(p, slot);
    if (st != ST_OK) pipeline_fail(p, st);
    slot_end(w, slot);
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
    if (slot->input->batch.example_count && !atomic_load_explicit(&p->shared_failed, memory_order_relaxed)) {
        status st = p->sink(p->sink_context, slot);
        if (st != ST_OK) pipeline_fail(p, st);
    }
    slot_end(w, slot);
}

/* The last stage is through with the slot in a forward job. */
static void prediction_put(struct worker *w, struct slot *slot)
{
    struct pipeline *p = w->pipeline;
    if (p->sink || p->is_check) {
        order_put(w, &p->order, slot, prediction_tell);
        return;
    }
    order_mark(p, &p->order, slot);
    bell_ring(&p->out_bell);
}

/* --- passes ----------------------------------------------------------------------------------- */

static status forward_task(struct worker *w, struct station *station, struct slot *slot)
{
    struct pipeline *p = w->pipeline;
    const struct extent *e = &station->stage.extent;
    const bool training = p->job == JOB_TRAIN;
    if (training && p->sync->vt->forward_begin) p->sync->vt->forward_begin(p->sync, &station->stage, slot);
    if (p->hops) TRY(hops_take(p->hops, station->stage.index, HOPS_FORWARD, slot));
    struct op_context c = context_of(p, slot);
    TRY(list_run(w, station, slot, &c, e->forward_begin, e->forward_end));
    return training ? slot_loss(w, station, slot) : ST_OK;
}

/* A slot begins its way back, in the order of its lane. */
static void way_back_begin(struct worker *w, struct slot *slot)
{
    struct pipeline *p = w->pipeline;
    station_backward_give(w, &p->stations[p->stage_count - 1], slot);
}

static void forward_done(struct worker *w, struct station *station, struct slot *slot)
{
    struct pipeline *p = w->pipeline;
    if (p->hops && hops_leaves(p->hops, station->stage.index, HOPS_FORWARD, slot))
        hops_send(p->hops, hops_pack(p->hops, station->stage.index, HOPS_FORWARD, slot, false));
    else if (!station->stage.is_last)
        station_forward_give(w, station->next, slot);
    else if (p->job == JOB_FORWARD)
        prediction_put(w, slot);
    else if (p->by_lane)
        order_put(w, &p->lane_order[pipeline_sequence_lane(p, &slot->input->batch)], slot, way_back_begin);
    else
        station_backward_give(w, station, slot); /* in order already: the stage does one task at a time */
}

static status backward_task(struct worker *w, struct station *station, struct slot *slot)
{
    struct pipeline *p = w->pipeline;
    const struct extent *e = &station->stage.extent;
    if (p->job == JOB_FORWARD) return ST_OK;
    if (p->hops) TRY(hops_take(p->hops, station->stage.index, HOPS_BACK, slot));
    struct op_context c = context_of(p, slot);
    TRY(list_run(w, station, slot, &c, e->backward_begin, e->backward_end));
    if (p->sync->vt->backward_end == NULL) return ST_OK;
    uint64_t begin_ns = clock_ns();
    TRY(p->sync->vt->backward_end(p->sync, &w->updater, &station->stage, slot));
    w->updated_ns += clock_ns() - begin_ns;
    return ST_OK;
}

static void backward_done(struct worker *w, struct station *station, struct slot *slot)
{
    struct pipeline *p = w->pipeline;
    struct hops_parcel parcel;
    const bool is_far = p->hops && hops_leaves(p->hops, station->stage.index, HOPS_BACK, slot),
               is_entry = pipeline_entry(p, &slot->input->batch) == station->stage.index,
               is_trained = p->job == JOB_TRAIN;
    if (is_far) parcel = hops_pack(p->hops, station->stage.index, HOPS_BACK, slot, !is_trained);
    /* First, while the slot is still ours. */
    if (is_trained) p->sync->vt->backward_done(p->sync, &station->stage, slot);
    if (!is_trained && is_entry) slot_out(p, slot);
    if (is_far)
        hops_send(p->hops, parcel);
    else if (!is_entry)
        station_backward_give(w, station->before, slot);
}

void station_turn_give(struct pipeline *p, struct station *station)
{
    if (station->turn == NULL || p->job != JOB_TRAIN || !claim_give(station->turn)) return;
    for (uint32_t pipeline = 0; pipeline < p->pipeline_count; pipeline++)
        bell_ring(p->stations[pipeline * p->stage_count + station->stage.index].stage.bell);
}

/* --- a task ----------------------------------------------------------------------------------- */

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

static status task_do(struct worker *w, const struct task *t)
{
    struct pipeline *p = w->pipeline;
    switch (t->kind) {
    case TASK_FORWARD: return forward_task(w, t->station, t->slot);
    case TASK_BACKWARD: return backward_task(w, t->station, t->slot);
    case TASK_PART: return p->sync->vt->part_run(p->sync, &w->updater, &t->station->stage, &t->part);
    default: CHECK(false); return ST_OK;
    }
}

/* What becomes of a task's slot. */
static void task_done(struct worker *w, const struct task *t)
{
    if (t->kind == TASK_FORWARD) forward_done(w, t->station, t->slot);
    if (t->kind == TASK_BACKWARD) {
        backward_done(w, t->station, t->slot);
        if (claim_give(&t->station->seat_claims[t->seat])) bell_ring(t->station->stage.bell);
    }
    if (t->slot) station_turn_give(w->pipeline, t->station);
}

/* Relaxed, both: the worker is the only writer, and the sums order nothing. */
static void busy_add(struct stage_times *times, enum stage_work work, uint64_t ns)
{
    _Atomic uint64_t *sum_ns = &times->shared_busy_ns[work];
    atomic_store_explicit(sum_ns, atomic_load_explicit(sum_ns, memory_order_relaxed) + ns, memory_order_relaxed);
}

static void task_count(struct worker *w, const struct task *t, enum stage_work work, uint64_t ns)
{
    struct stage_times *times = &w->times[t->station->stage.index];
    times->task_count[work]++;
    busy_add(times, work, ns - w->updated_ns - w->awaited_ns);
    w->wait_ns += w->awaited_ns;
    w->awaited_ns = 0;
    times->task_count[WORK_UPDATE] += w->updated_ns != 0;
    busy_add(times, WORK_UPDATE, w->updated_ns);
    w->updated_ns = 0;
}

void task_run(struct worker *w)
{
    static const struct {
        enum stage_work work;
        enum trace_kind trace;
    } kinds[] = {
        [TASK_FORWARD] = {WORK_FORWARD, TRACE_FORWARD},
        [TASK_BACKWARD] = {WORK_BACKWARD, TRACE_BACKWARD},
        [TASK_PART] = {WORK_UPDATE, TRACE_UPDATE},
    };
    struct pipeline *p = w->pipeline;
    const struct task t = w->task;
    const struct stage *stage = &t.station->stage;
    w->pipeline_next = stage->pipeline_index + 1;
    if (w->slow_varies) device_slow_set(stage->kind, w->device, t.station->slow);
    if (p->delay_ns_max) delay(w);
    const uint64_t step = t.slot ? t.slot->input->batch.step : t.part.step, begin_ns = clock_ns();
    const uint32_t micro = t.slot ? t.slot->input->batch.micro_index : t.part.index;
    const status st = task_do(w, &t);
    const uint64_t end_ns = clock_ns();
    if (p->job == JOB_TRAIN) task_count(w, &t, kinds[t.kind].work, end_ns - begin_ns);
    trace_span(kinds[t.kind].trace, stage->name, begin_ns, end_ns, step, micro);
    if (st == ST_OK)
        task_done(w, &t);
    else
        pipeline_fail(p, st); /* the job is over: nobody waits for this slot */
}
