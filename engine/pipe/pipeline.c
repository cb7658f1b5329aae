/* Runs jobs on the stations of a plan: how a worker finds its next task, and what the gate lets in.
 * What a task does is in task.c, what follows a backward pass is the synchronisation's, opening and
 * figures are in pipeline_open.c. */
#include "engine/pipe/pipeline.h"

#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/steady.h"
#include "engine/base/trace.h"
#include "engine/pipe/pipeline_internal.h"
#include "engine/slot/fold.h"

/* How often the main thread looks up while a job runs. */
#define TICK_NS UINT64_C(100000000)

/* --- failing ---------------------------------------------------------------------------------- */

void pipeline_fail(struct pipeline *p, status failure)
{
    uint32_t none = ST_OK;
    /* Relaxed: only the first failure matters; the message is published below. */
    if (!atomic_compare_exchange_strong_explicit(&p->shared_failure, &none, (uint32_t)failure, memory_order_relaxed,
                                                 memory_order_relaxed))
        return;
    failure_keep(&p->failure, failure);
    /* Release pairs with the acquires in job_run() and look(). */
    atomic_store_explicit(&p->shared_failed, true, memory_order_release);
    bell_ring(&p->main_bell);
}

/* --- bells, hops, slots ----------------------------------------------------------------------- */

void pipeline_bells_ring(struct pipeline *p)
{
    bell_ring(p->gate_bell);
    for (uint32_t b = 0; b < p->bell_count; b++) bell_ring(&p->bells[b]);
}

/* The seat of a station that has the slot's lane. */
static uint32_t seat_of(const struct pipeline *p, const struct station *station, const struct slot *slot)
{
    return fold_lane_seat(batch_lane_of(graph_batch(p->graph), slot->input->batch.micro_index), station->seat_count);
}

void station_forward_give(struct worker *w, struct station *station, struct slot *slot)
{
    struct stage_times *times = &w->times[station->stage.index];
    times->forward_pushes++;
    times->forward_depth_sum += hop_give(&station->forward, seat_of(w->pipeline, station, slot), slot->index);
}

void station_backward_give(struct worker *w, struct station *station, struct slot *slot)
{
    struct stage_times *times = &w->times[station->stage.index];
    times->backward_pushes++;
    times->backward_depth_sum += hop_give(&station->backward, seat_of(w->pipeline, station, slot), slot->index);
}

void pipeline_hop_arrives(void *context, uint32_t stage, enum hops_way way, uint32_t slot)
{
    struct pipeline *p = context;
    struct station *station = &p->stations[stage];
    (void)hop_give(way == HOPS_FORWARD ? &station->forward : &station->backward, seat_of(p, station, &p->slots[slot]),
                   slot);
}

uint32_t pipeline_sequence_lane(const struct pipeline *p, const struct micro_batch *m)
{
    if (p->job != JOB_TRAIN || !p->by_lane) return 0;
    return batch_lane_of(graph_batch(p->graph), m->micro_index);
}

uint32_t pipeline_entry(const struct pipeline *p, const struct micro_batch *m)
{
    const uint32_t lane = batch_lane_of(graph_batch(p->graph), m->micro_index);
    uint32_t stage = m->example_count || exchange_of_steps(p->exchange) == NULL ? 0 : p->stage_count;
    while (stage < p->stage_count && !exchange_has_lane(p->stages[stage]->lanes, lane)) stage++;
    return stage;
}

/* --- devices with memory of their own --------------------------------------------------------- */

/* Devices with memory of their own get the parameters. */
static status devices_begin(struct pipeline *p)
{
    size_t bytes;
    void *inputs = feed_memory(p->feed, &bytes);
    for (uint32_t i = 0; i < p->worker_count; i++) TRY(device_begin(p->workers[i].device, inputs, bytes));
    return ST_OK;
}

status pipeline_devices_settle(struct pipeline *p)
{
    for (uint32_t i = 0; i < p->worker_count; i++) TRY(device_settle(p->workers[i].device));
    return ST_OK;
}

/* The inputs of the feed are about to be given back. */
static void devices_leave(struct pipeline *p, const struct feed *feed)
{
    size_t bytes;
    void *inputs = feed_memory(feed, &bytes);
    for (uint32_t i = 0; i < p->worker_count; i++) device_leave(p->workers[i].device, inputs, bytes);
}

/* --- the gate --------------------------------------------------------------------------------- */

/* Whether the input that the gate holds may go in now, and into which pipeline. */
static bool gate_admits(struct pipeline *p, const struct input *input, uint32_t *pipeline)
{
    /* Acquire pairs with host_slot_out(). */
    if (atomic_load_explicit(&p->shared_in_flight, memory_order_acquire) >= p->slot_count) return false;
    if (p->job == JOB_TRAIN) return feed_has_step(p->feed, input) && p->sync->vt->admit(p->sync, input, pipeline);
    if (input->look && !exchange_look_is_done(input->look)) return false;
    *pipeline = p->gate.sequence[0] % p->pipeline_count;
    return true;
}

/* Whether this node has the last stage of the micro-batch's lane. */
static bool ends_here(const struct pipeline *p, const struct micro_batch *m)
{
    return exchange_has_lane(p->stages[p->stage_count - 1]->lanes,
                             batch_lane_of(graph_batch(p->graph), m->micro_index));
}

/* Numbers the input, binds it to a slot and to what it needs, and lets it in at a stage; stage_count: there
 * is nothing to compute here, and the slot only ends its step. */
static void gate_let_in(struct worker *w, struct input *input, uint32_t pipeline, uint32_t entry)
{
    struct pipeline *p = w->pipeline;
    uint32_t index;
    CHECK(ring_try_pop(&p->slots_free, &index)); /* there are as many as may be in flight */
    struct slot *slot = &p->slots[index];
    slot_bind(slot, input, p->graph, p->model);
    if (entry < p->stage_count && ends_here(p, &input->batch))
        p->sequence[index] = p->gate.sequence[pipeline_sequence_lane(p, &input->batch)]++;
    /* Relaxed: only the gate adds, and what it adds it pushes. */
    atomic_fetch_add_explicit(&p->shared_in_flight, 1, memory_order_relaxed);
    if (p->job == JOB_TRAIN) p->sync->vt->bind(p->sync, slot, pipeline);
    if (entry == p->stage_count) return;
    if (p->hops) hops_admit(p->hops, slot);
    if (entry == 0) station_forward_give(w, &p->stations[pipeline * p->stage_count], slot);
}

/* The first step from this one on that is this node's: workers have steps in turn. */
static uint64_t step_next_of(const struct pipeline *p, uint64_t step)
{
    const struct exchange_waves *waves = p->exchange ? p->exchange->waves : NULL;
    if (waves == NULL) return step;
    return step + (waves->turn + waves->turn_count - step % waves->turn_count) % waves->turn_count;
}

/* On several nodes: whether the job goes no further than to here. */
static bool is_granted_over(const struct pipeline *p)
{
    enum exchange_word word;
    return p->exchange && p->gate.step_next >= exchange_granted(p->exchange, &word) && word != EXCHANGE_GOES_ON;
}

/* Whether nothing more is let in by this job, whatever the feed has:
 * a step that is begun is always finished. */
static bool gate_is_closed(const struct pipeline *p)
{
    /* Relaxed: a stop may be seen a step later. */
    bool is_stop = atomic_load_explicit(&p->shared_stop, memory_order_relaxed);
    if (p->job == JOB_FORWARD) return is_stop;
    const struct input *held = p->gate.held;
    bool is_pass_over = held && p->epoch_until && held->batch.epoch >= p->epoch_until;
    return p->gate.is_between_steps &&
           (is_stop || is_pass_over || p->gate.step_next >= p->step_until || is_granted_over(p));
}

/* Whether nothing is to be done with the input: its data cannot be read, or it is others'. In training the
 * last one of a step always goes in. */
static bool gate_drops(const struct pipeline *p, const struct input *input)
{
    if (p->job == JOB_TRAIN && feed_is_cut(p->feed, input)) return true;
    return pipeline_entry(p, &input->batch) == p->stage_count && (p->job != JOB_TRAIN || !input->batch.is_last);
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
        if (gate->held && gate_drops(p, gate->held)) {
            feed_release(p->feed, gate->held);
            gate->held = NULL;
            continue;
        }
        uint32_t pipeline;
        if (gate->held == NULL || !gate_admits(p, gate->held, &pipeline)) break;
        struct input *input = gate->held;
        const struct micro_batch *m = &input->batch;
        gate->is_between_steps = m->is_last;
        gate->step_next = step_next_of(p, m->step + m->is_last);
        gate->held = NULL;
        gate_let_in(w, input, pipeline, pipeline_entry(p, m));
    }
    bool is_out = gate->held == NULL && gate->is_ended;
    w->saw_starved |= gate->held == NULL && !gate->is_ended && !is_closed;
    /* Acquire pairs with host_slot_out(). */
    bool is_over = (is_closed || is_out) && atomic_load_explicit(&p->shared_in_flight, memory_order_acquire) == 0;
    if (is_over && !atomic_exchange_explicit(&p->shared_done, true, memory_order_release)) bell_ring(&p->main_bell);
    if (claim_give(&gate->claim)) pipeline_gate_ring(p);
}

/* --- workers ---------------------------------------------------------------------------------- */

/* Takes a slot out of a hop of the station, under the turn where there is one. */
static bool slot_take(struct worker *w, struct station *station, struct hop *hop, uint32_t seat, struct slot **slot)
{
    struct pipeline *p = w->pipeline;
    struct claim *turn = p->job == JOB_TRAIN ? station->turn : NULL;
    if (hop_depth(hop, seat) == 0 || (turn && !claim_try(turn))) return false;
    uint32_t index;
    if (hop_take(hop, seat, &index)) {
        *slot = &p->slots[index];
        return true;
    }
    station_turn_give(p, station);
    return false;
}

/* Whether the worker may take from the seat: replicas with memory of their own have the
 * micro-batches of their own seats. */
static bool is_seat_of(const struct worker *w, const struct station *station, uint32_t seat)
{
    const uint32_t owners = station->stage.replica_count;
    return !station->stage.kind->has_memory || fold_seat_replica(seat, owners) == fold_seat_replica(w->seat, owners);
}

static bool backward_take(struct worker *w, struct station *station)
{
    for (uint32_t s = 0; s < station->seat_count; s++) {
        const uint32_t seat = (w->seat + s) % station->seat_count;
        if (!is_seat_of(w, station, seat)) continue;
        if (hop_depth(&station->backward, seat) == 0 || !claim_try(&station->seat_claims[seat])) continue;
        struct task task = {.kind = TASK_BACKWARD, .station = station, .seat = seat};
        if (slot_take(w, station, &station->backward, seat, &task.slot)) {
            w->task = task;
            return true;
        }
        if (claim_give(&station->seat_claims[seat])) bell_ring(station->stage.bell);
    }
    return false;
}

/* From the own lanes first: a worker for which a lane's backward passes wait begins another lane, so that all
 * end together. With 8 micro-batches in 2 lanes two replicas reach 1.95 times the speed of one
 * (tests/bench/pipeline_bench.c); oldest first, 1.77. */
static bool forward_take(struct worker *w, struct station *station)
{
    for (uint32_t s = 0; s < station->seat_count; s++) {
        const uint32_t seat = (w->seat + s) % station->seat_count;
        struct task task = {.kind = TASK_FORWARD, .station = station};
        if (!is_seat_of(w, station, seat)) continue;
        if (!slot_take(w, station, &station->forward, seat, &task.slot)) continue;
        w->task = task;
        return true;
    }
    return false;
}

static bool part_take(struct worker *w, struct station *station)
{
    const struct sync_vt *vt = w->pipeline->sync->vt;
    struct task task = {.kind = TASK_PART, .station = station};
    if (vt->part_take == NULL || !vt->part_take(w->pipeline->sync, &station->stage, w->seat, &task.part)) return false;
    w->task = task;
    return true;
}

/* The i-th station to look at. A pool looks at a stage of all pipelines, then at the next
 * upstream stage of all. It begins with the pipeline after that of the last task, or the others
 * would stand still behind the first. */
static struct station *station_at(const struct worker *w, uint32_t i)
{
    uint32_t count = w->pipeline->pipeline_count;
    if (w->station_count < count) return w->stations[i]; /* its own */
    return w->stations[i - i % count + (i + w->pipeline_next) % count];
}

/* The most downstream task that is ready: sum or update, then backward, then forward. */
static bool task_take(struct worker *w)
{
    struct pipeline *p = w->pipeline;
    for (uint32_t i = 0; i < w->station_count; i++) {
        struct station *station = station_at(w, i);
        if (p->job == JOB_TRAIN && part_take(w, station)) return true;
        if ((p->job == JOB_TRAIN || p->hops) && backward_take(w, station)) return true;
        if (station->stage.is_first) gate_run(w);
        if (forward_take(w, station)) return true;
    }
    return false;
}

/* For bell_await: finds the next task. Leaves shared_is_busy set as long as there is one. */
static bool look(void *context)
{
    struct worker *w = context;
    struct pipeline *p = w->pipeline;
    /* Sequentially consistent, both, with job_run(): of "I am at work, does the job run?" and "the job runs
     * no more, is anyone at work?" at least one sees the other. */
    atomic_store_explicit(&w->shared_is_busy, true, memory_order_seq_cst);
    bool runs = atomic_load_explicit(&p->shared_runs, memory_order_seq_cst);
    w->task.kind = TASK_NONE;
    if (atomic_load_explicit(&p->shared_closed, memory_order_acquire))
        w->task.kind = TASK_QUIT;
    else if (runs && !atomic_load_explicit(&p->shared_failed, memory_order_acquire) && task_take(w))
        return true;
    /* Sequentially consistent, both, and in this order: if job_run() has found us at work, we
     * find here that it waits for us. */
    atomic_store_explicit(&w->shared_is_busy, false, memory_order_seq_cst);
    if (!atomic_load_explicit(&p->shared_runs, memory_order_seq_cst)) bell_ring(&p->main_bell);
    return w->task.kind == TASK_QUIT;
}

/* Adds up a wait that ends now, or with the job.
 * Waiting between jobs is not counted: it is no stage's fault. */
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

/* On several nodes all end the job after the same step. */
static void job_stop(struct pipeline *p)
{
    if (p->exchange && p->job == JOB_TRAIN) {
        p->exchange->vt->job_stop(p->exchange);
        return;
    }
    atomic_store_explicit(&p->shared_stop, true, memory_order_relaxed);
    pipeline_gate_ring(p);
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
    while (!bell_await_until(&p->main_bell, false, clock_ns() + TICK_NS, job_is_over, p))
        if (tick && tick(context)) job_stop(p);
    atomic_store_explicit(&p->shared_runs, false, memory_order_seq_cst);
    bell_await(&p->main_bell, false, all_are_idle, p);
    if (p->helped) feed_team_set(p->feed, NULL, false);
    uint64_t end_ns = clock_ns();
    for (uint32_t i = 0; i < p->worker_count; i++) wait_account(&p->workers[i], end_ns); /* what no task has ended */
    if (p->job == JOB_TRAIN) TRY(pipeline_devices_settle(p));
    if (!atomic_load_explicit(&p->shared_failed, memory_order_acquire)) return ST_OK;
    return failure_adopt(&p->failure);
}

status pipeline_train(struct pipeline *p, const struct train_job *job, bool *is_end)
{
    p->job = JOB_TRAIN;
    p->train = job;
    CHECK(p->feed_trained == NULL || p->feed_trained == job->feed); /* inputs of it are held and kept */
    p->feed = p->feed_trained = job->feed;
    p->step_until = job->step_until;
    p->epoch_until = job->epoch_until;
    p->gate.held = p->train_held;
    p->gate.is_ended = false;
    p->gate.is_between_steps = true;
    p->gate.step_next = step_next_of(p, p->model->progress.step);
    p->sync->vt->begin(p->sync);
    if (p->exchange) p->exchange->vt->job_begin(p->exchange, p->model->progress.step, job->step_until);
    if (p->exchange && job->tick && job->tick(job->context)) job_stop(p); /* the job may be too short for a tick */
    steady_begin();
    status st = job_run(p, job->tick, job->context);
    steady_end();
    if (p->exchange) p->exchange->vt->job_end(p->exchange);
    p->wall_ns += clock_ns() - p->job_begin_ns;
    p->train_held = p->gate.held;
    *is_end = p->gate.is_ended && p->gate.held == NULL;
    return st == ST_OK && p->sync->vt->settle ? p->sync->vt->settle(p->sync) : st;
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
    CHECK(to->sync && to->feed_trained == NULL);
    CHECK(rest.feed == NULL || to->input_count == feed_input_count(rest.feed));
    to->feed_trained = rest.feed;
    to->train_held = rest.held;
    to->kept = rest.kept;
}

static status forward_job(struct pipeline *p, struct feed *feed, bool (*tick)(void *context), void *context)
{
    p->job = JOB_FORWARD;
    p->feed = feed;
    const status st = job_run(p, tick, context);
    if (feed != p->feed_trained) devices_leave(p, feed);
    return st;
}

status pipeline_check(struct pipeline *p)
{
    if (p->kept == NULL || p->kept->batch.example_count == 0) return ST_OK;
    if (pipeline_entry(p, &p->kept->batch) == p->stage_count) return ST_OK;
    const struct micro_batch *m = &p->kept->batch;
    const uint32_t lane = batch_lane_of(graph_batch(p->graph), m->micro_index);
    const bool looks_up = p->check_look && exchange_has_lane(p->exchange->rows.lanes, lane);
    const uint32_t end = m->micro_index * p->graph->header->micro + m->example_count;
    if (p->exchange && end < m->step_example_count) return ST_OK; /* another node has the last */
    /* Data that end behind a whole micro-batch end for some nodes with an empty one, which is then their
     * last: no node checks. */
    const uint32_t examples = m->step_example_count, batch = p->graph->header->batch;
    if (p->hops && examples < batch && examples % p->graph->header->micro == 0) return ST_OK;
    if (looks_up) exchange_look_make(p->exchange, p->check_look, p->check_numbers, m, &p->kept->ticket);
    p->kept->look = looks_up ? p->check_look : NULL;
    p->is_check = true;
    p->gate.held = p->kept;
    p->gate.is_ended = true;
    status st = forward_job(p, p->feed_trained, NULL, NULL);
    p->is_check = false;
    p->kept->look = NULL;
    if (looks_up) p->exchange->vt->look_end(p->exchange);
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

/* --- what comes out of a forward job ---------------------------------------------------------- */

struct out_wait {
    struct pipeline *p;
    const _Atomic bool *is_over;
    struct slot *slot;
};
static bool out_look(void *context)
{
    struct out_wait *wait = context;
    wait->slot = order_take(wait->p, &wait->p->order);
    /* Acquire pairs with whoever sets it. */
    return wait->slot != NULL || atomic_load_explicit(wait->is_over, memory_order_acquire);
}

const struct slot *pipeline_out_await(struct pipeline *p, const _Atomic bool *is_over)
{
    struct out_wait wait = {.p = p, .is_over = is_over};
    bell_await(&p->out_bell, false, out_look, &wait);
    return wait.slot;
}

void pipeline_out_ring(struct pipeline *p) { bell_ring(&p->out_bell); }

void pipeline_out_give(struct pipeline *p, const struct slot *slot)
{
    pipeline_hop_arrives(p, p->stage_count - 1, HOPS_BACK, slot->index);
}
