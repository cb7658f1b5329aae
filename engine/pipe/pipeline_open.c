/* Opens the stages, workers and rings of a plan, and closes them; adds up what the workers have counted. Once a run. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/steady.h"
#include "graph/clip.h"
#include "engine/device/cpu/device.h"
#include "engine/base/thread.h"
#include "engine/pipe/pipeline_internal.h"

/* Slots beyond those in flight: three micro-batches that are read, parsed and have their rows ready before their turn, and the
 * last one of the last step, which is kept for pipeline_check. */
#define SLOTS_AHEAD 4u
/* Where rows may be on a disk, more of small micro-batches: with some hundred reads under way each it is kept busy. */
#define SLOTS_AHEAD_DISK 16u
#define KEYS_AHEAD       32768u

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
        if (*begin == UINT32_MAX) *begin = *end = n;
        CHECK(*end == n); /* the compiler keeps the nodes of neighbouring layers together */
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

/* What rings, stages and workers keep. */
static void pipeline_layout(struct pipeline *p, struct layout *l)
{
    const struct graph *g = p->graph;
    const struct plan *plan = p->plan;
    uint32_t pair_count = p->pipeline_count * p->stage_count;
    p->bell_count = pair_count;
    LAYOUT_TAKE(l, p->bells, p->bell_count);
    if (p->gate_bell == NULL) p->gate_bell = p->bells;
    LAYOUT_TAKE(l, p->stages, pair_count);
    for (uint32_t i = 0; i < pair_count; i++) {
        struct stage s = {.index = i % p->stage_count, .pipeline_index = i / p->stage_count};
        const struct plan_stage *of = &plan->stages[s.index];
        s.is_first = s.index == 0;
        s.is_last = s.index + 1 == p->stage_count;
        s.kind = device_kind_of(plan, s.index);
        s.replica_count = of->replicas;
        if (s.kind->has_cores && resource_is_slowed(&plan->types[of->type].slow)) s.slow = &plan->types[of->type].slow;
        stage_nodes(g, of, &s);
        (void)plan_stage_name(plan, g, s.index, s.name, sizeof s.name);
        /* One thread at each end, unless a stage has several workers: then any of them pushes or takes. */
        bool is_one = !p->placement.is_shared && placement_seats(plan, s.index) == 1 &&
                      (s.is_first || placement_seats(plan, s.index - 1) == 1);
        enum ring_kind kind = is_one && !s.is_first ? RING_ONE : RING_MANY; /* into the first, any gate pushes */
        s.seat_count = p->sync == SYNC_BSP ? placement_seats(plan, s.index) : 1;
        LAYOUT_TAKE(l, s.seats, s.seat_count);
        for (uint32_t k = 0; k < s.seat_count; k++) {
            struct seat *seat = l->arena ? &s.seats[k] : NULL;
            ring_layout(seat ? &seat->forward : NULL, l, p->slot_count, kind);
            ring_layout(seat ? &seat->backward : NULL, l, p->slot_count,
                        RING_MANY); /* a seat's lanes come from any worker of the stage behind */
        }
        s.run_count = dense_runs(g, &s, NULL);
        LAYOUT_TAKE(l, s.runs, s.run_count);
        LAYOUT_TAKE(l, s.tables, g->table_count);
        if (p->sync != SYNC_BSP) LAYOUT_TAKE(l, s.turn, 1);
        if (!l->arena) continue;
        dense_runs(g, &s, s.runs);
        s.block_begin = clip_blocks_list(g, 0, s.forward_begin, NULL);
        s.block_count = clip_blocks_list(g, s.forward_begin, s.forward_end, NULL);
        for (uint32_t t = 0; t < g->table_count; t++)
            if (owns_table(g, &s, t)) s.tables[s.table_count++] = t;
        /* The gate is one for all pipelines. */
        s.bell = s.is_first || (p->placement.is_shared && s.kind->has_cores) ? p->gate_bell : &p->bells[i];
        if (s.looks_up && s.turn) s.turn = p->stages[s.index].turn ? p->stages[s.index].turn : s.turn;
        p->stages[i] = s;
    }
    if (p->training && p->clipped) {
        p->block_count = clip_blocks_list(g, 0, g->forward_count, NULL);
        LAYOUT_TAKE(l, p->blocks, p->block_count);
        LAYOUT_TAKE(l, p->squares, (size_t)p->pipeline_count * p->block_count);
        if (l->arena) (void)clip_blocks_list(g, 0, g->forward_count, p->blocks);
    }
    LAYOUT_TAKE(l, p->workers, p->worker_count);
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
        LAYOUT_TAKE(l, w.stages, stages);
        LAYOUT_TAKE(l, w.times, p->stage_count);
        LAYOUT_TAKE(l, w.grad, grad_max);
        if (!l->arena) continue;
        for (uint32_t s = place->stage_end; s-- > place->stage_begin;)
            for (uint32_t v = 0; v < p->pipeline_count; v++) {
                struct stage *stage = &p->stages[v * p->stage_count + s];
                if (is_pool ? !stage->kind->has_cores : v != place->pipeline) continue;
                w.stages[w.stage_count++] = stage;
                w.slow_varies |= is_pool && stage->slow != NULL;
            }
        w.spins = p->spins && place->core_count > 0;
        w.bell = w.stages[0]->bell;
        w.seat = is_pool ? i : w.stages[0]->worker_count; /* counted below: its number among those of its stage */
        for (uint32_t k = 0; k < w.stage_count; k++) {
            w.stages[k]->worker_count++;
            w.stages[k]->core_count += place->unit_count;
        }
        snprintf(w.name, sizeof w.name, is_pool ? "worker %u" : "worker %u: %.30s", i, w.stages[0]->name);
        p->workers[i] = w;
    }
    for (uint32_t i = 0; i < pair_count && l->arena; i++) {
        struct stage *s = &p->stages[i];
        s->part_count = s->kind->has_memory ? s->replica_count : s->worker_count;
        s->next = s->is_last ? NULL : s + 1;
        s->before = s->is_first ? NULL : s - 1;
    }
    LAYOUT_TAKE(l, p->order.shared_cells, p->slot_count);
    p->order.cell_count = p->slot_count;
    LAYOUT_TAKE(l, p->lane_order, p->lanes);
    for (uint32_t lane = 0; lane < p->lanes; lane++) {
        struct order lane_order = {.cell_count = p->slot_count};
        LAYOUT_TAKE(l, lane_order.shared_cells, p->slot_count);
        if (l->arena) p->lane_order[lane] = lane_order;
    }
    LAYOUT_TAKE(l, p->gate.sequence, p->lanes);
    LAYOUT_TAKE(l, p->sequence, p->slot_count);
    LAYOUT_TAKE(l, p->slot_pipeline, p->slot_count);
    LAYOUT_TAKE(l, p->loss, p->slot_count > p->micro_count ? p->slot_count : p->micro_count);
    LAYOUT_TAKE(l, p->row_count, g->table_count);
    LAYOUT_TAKE(l, p->figures, p->stage_count);
}

/* Sums of gradients: of parameters a lane each (a pipeline each under wsp and asp), of rows a lane and look-up each. */
static void gradients_layout(struct pipeline *p, struct layout *l)
{
    const struct graph *g = p->graph;
    uint32_t dense_count = p->sync == SYNC_BSP ? p->lanes : p->pipeline_count,
             sparse_count = p->sync == SYNC_BSP ? p->lanes : 1, at = 0;
    LAYOUT_TAKE(l, p->param_grad, dense_count);
    LAYOUT_TAKE(l, p->table_grad, (size_t)sparse_count * g->lookup_count);
    LAYOUT_TAKE(l, p->update_grad, (size_t)sparse_count * g->lookup_count);
    LAYOUT_TAKE(l, p->update_grad_begin, g->table_count);
    LAYOUT_TAKE(l, p->use_count, g->table_count);
    p->alias_count = graph_aliases(g, 0, g->header->param_floats, NULL);
    LAYOUT_TAKE(l, p->aliases, p->alias_count);
    if (l->arena) (void)graph_aliases(g, 0, g->header->param_floats, p->aliases);
    uint32_t *lookups;
    LAYOUT_TAKE(l, lookups, g->lookup_count);
    for (uint32_t i = 0; i < dense_count; i++) {
        float *grad;
        LAYOUT_TAKE(l, grad, g->header->grad_floats);
        if (l->arena) p->param_grad[i] = grad;
    }
    for (uint32_t t = 0; t < g->table_count; t++) {
        size_t rows = (size_t)g->header->batch * g->tables[t].key_count_max;
        uint32_t uses = graph_table_lookups(g, t, lookups);
        if (l->arena) p->use_count[t] = uses;
        if (l->arena) p->update_grad_begin[t] = at;
        for (uint32_t lane = 0; lane < sparse_count; lane++) {
            for (uint32_t use = 0; use < uses; use++, at++) {
                float *grad;
                LAYOUT_TAKE(l, grad, rows * g->tables[t].dim); /* under 2^47 */
                if (l->arena) p->table_grad[(size_t)lane * g->lookup_count + lookups[use]] = p->update_grad[at] = grad;
            }
        }
    }
}

static status gradients_take(struct pipeline *p)
{
    struct layout sum = {0}, taken = {.arena = &p->gradients};
    gradients_layout(p, &sum);
    if (sum.bytes == SIZE_MAX)
        FAIL(MEMORY, "the gradients of %u lanes need more bytes than any machine has; lower train.batch or train.lanes",
             p->lanes);
    TRY(arena_open(&p->gradients, "gradients", sum.bytes));
    gradients_layout(p, &taken);
    return ST_OK;
}

static status worker_start(struct worker *w)
{
    const struct pipeline *p = w->pipeline;
    /* Busy until its first look: a job that ends before that waits for it, and then reads what the thread writes at its start. Relaxed:
     * starting a thread publishes it. */
    atomic_store_explicit(&w->shared_is_busy, true, memory_order_relaxed);
    int error = thread_start(&w->thread, pipeline_worker, w);
    if (error) FAIL(SYSTEM, "cannot start worker %u of %u: %s", w->index + 1, p->worker_count, strerror(error));
    memory_note("threads", THREAD_STACK_BYTES);
    return ST_OK;
}

static struct device_stage_options device_options(const struct pipeline *p, const struct stage *stage,
                                                  const struct pipeline_options *o)
{
    return (struct device_stage_options){.graph = p->graph,
                                         .model = p->model,
                                         .plan = p->plan,
                                         .stage = stage->index,
                                         .node_begin = stage->forward_begin,
                                         .node_end = stage->forward_end,
                                         .slot_count = p->slot_count,
                                         .lanes = p->lanes,
                                         .row_bytes = o->card_row_bytes,
                                         .isa = o->isa,
                                         .spins = p->spins,
                                         .training = p->training};
}

/* Of a pool: for the first stage that it serves, all of which are of one kind. */
static status worker_device_open(struct worker *w, const struct pipeline_options *o)
{
    const struct stage *stage = w->stages[0];
    const struct device_stage_options options = device_options(w->pipeline, stage, o);
    const struct device_seat seat = {.replica = w->seat % stage->replica_count,
                                     .core_count = w->place->core_count,
                                     .processors = w->place->processors};
    TRY(stage->kind->open(&w->device, stage->devices, &options, &seat));
    device_slow_set(stage->kind, w->device, stage->slow);
    return ST_OK;
}

static status devices_open(struct pipeline *p, const struct pipeline_options *o)
{
    const uint32_t pair_count = p->pipeline_count * p->stage_count;
    bool has_cores = true;
    for (uint32_t i = 0; i < pair_count; i++) {
        const struct device_stage_options options = device_options(p, &p->stages[i], o);
        TRY(device_stage_open(p->stages[i].kind, &p->stages[i].devices, &options));
    }
    for (uint32_t i = 0; i < p->worker_count; i++) TRY(worker_device_open(&p->workers[i], o));
    for (uint32_t i = 0; i < pair_count; i++) {
        if (p->training) TRY(device_stage_join(p->stages[i].kind, p->stages[i].devices));
        has_cores &= p->stages[i].kind->has_cores;
    }
    return has_cores ? ST_OK : cpu_device_open(&p->host, p->graph, 1, NULL, o->isa);
}

static uint32_t slots_ahead(const struct pipeline_options *o)
{
    if (!o->training || !store_has_disk(o->model->store)) return SLOTS_AHEAD;
    const uint64_t keys = (uint64_t)graph_batch(o->graph).micro * graph_example(o->graph).key_count_max;
    const uint64_t slots = KEYS_AHEAD / (keys ? keys : 1);
    return slots < SLOTS_AHEAD ? SLOTS_AHEAD : slots < SLOTS_AHEAD_DISK ? (uint32_t)slots : SLOTS_AHEAD_DISK;
}

/* Sets in_flight and slot_count. */
static status slots_count(struct pipeline *p, const struct pipeline_options *o)
{
    const uint32_t workers = (p->worker_count + p->pipeline_count - 1) / p->pipeline_count, ahead = slots_ahead(o);
    p->in_flight = o->in_flight ? o->in_flight : in_flight_default(p, workers);
    if (o->slot_count) {
        uint32_t room = o->slot_count > ahead ? (o->slot_count - ahead) / p->pipeline_count : 0;
        if (room < 1) room = 1;
        if (p->in_flight > room) p->in_flight = room;
        /* Those in flight, and the last one of the last step. */
        if (o->slot_count < p->in_flight * p->pipeline_count + 1)
            FAIL(INVALID, "%u pipelines need %u slots or more, found %u", p->pipeline_count, p->pipeline_count + 1,
                 o->slot_count);
        p->slot_count = o->slot_count;
        return ST_OK;
    }
    uint64_t later = o->in_flight ? 0 : 2 * (uint64_t)o->worker_count_max;
    if (p->sync == SYNC_BSP && later > p->micro_count) later = p->micro_count;
    uint64_t slots = (later > p->in_flight ? later : p->in_flight) * p->pipeline_count + ahead;
    if (slots > 1u << 16)
        FAIL(INVALID, "train.in_flight = %u in %u pipelines are %" PRIu64 " slots; expected at most %u", p->in_flight,
             p->pipeline_count, slots, 1u << 16);
    p->slot_count = (uint32_t)slots;
    return ST_OK;
}

static void line_log(void *context, const char *line)
{
    (void)context;
    log_detail("place    %s", line);
}

static status open_parts(struct pipeline *p, const struct pipeline_options *o)
{
    if (p->sync == SYNC_BSP && p->pipeline_count > 1)
        FAIL(INVALID,
             "train.pipelines = %u needs train.sync = wsp or asp; under bsp give a stage replicas, and train.lanes",
             p->pipeline_count);
    TRY(placement_make(&p->placement, o->plan, o->graph, p->pipeline_count, o->cores, o->core_count, o->share));
    placement_tell(&p->placement, o->plan, o->graph, line_log, NULL);
    p->worker_count = p->placement.worker_count;
    uint32_t core_count = 0;
    for (uint32_t i = 0; i < p->worker_count; i++) core_count += p->placement.worker[i].core_count;
    p->spins = core_count <= o->cores->count;
    TRY(slots_count(p, o));
    struct layout sum = {0}, taken = {.arena = &p->arena};
    pipeline_layout(p, &sum);
    TRY(arena_open(&p->arena, "pipeline", sum.bytes));
    pipeline_layout(p, &taken);
    if (p->training) TRY(gradients_take(p));
    if (p->training && p->sync != SYNC_BSP) TRY(wsp_open(p));
    for (uint32_t s = 0; s < p->stage_count && p->sync != SYNC_BSP; s++)
        if (p->stages[s].kind->has_memory)
            FAIL(INVALID, "stage %u (%s) is on a %s, which needs train.sync = bsp", s, p->stages[s].name,
                 p->stages[s].kind->unit);
    TRY(devices_open(p, o));
    /* One gang has every core, and none is left to the feed: it gets the last one, and helps the gang when it has nothing to read. */
    if (p->worker_count == 1 && p->workers[0].place->core_count > 1 && core_count >= o->cores->count)
        p->helped = cpu_device_team(p->workers[0].device);
    for (; p->started_count < p->worker_count; p->started_count++) TRY(worker_start(&p->workers[p->started_count]));
    return ST_OK;
}

status pipeline_open(struct pipeline **out, const struct pipeline_options *o)
{
    *out = NULL;
    struct pipeline *p = aligned_alloc(CACHE_LINE_BYTES, arena_bytes(sizeof *p));
    if (p == NULL) FAIL(MEMORY, "no memory for a pipeline");
    memset(p, 0, sizeof *p);
    CHECK(pthread_mutex_init(&p->host_lock, NULL) == 0);
    struct batch_shape shape = graph_batch(o->graph);
    p->graph = o->graph;
    p->model = o->model;
    p->plan = o->plan;
    p->training = o->training;
    p->clipped = clip_optimizer(o->graph);
    p->sync = o->training ? o->sync : SYNC_BSP;
    p->clock_distance = o->clock_distance;
    p->gate_bell = o->feed_bell;
    p->pipeline_count = o->training ? o->pipeline_count : 1;
    p->stage_count = o->plan->stage_count;
    p->lanes = shape.lanes;
    p->micro_count = batch_micro_count(shape);
    CHECK(p->sync == SYNC_BSP || p->micro_count == 1);
    status st = open_parts(p, o);
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
    if (p->started_count > 0) pipeline_bells_ring(p);
    for (uint32_t i = 0; i < p->started_count; i++) pthread_join(p->workers[i].thread, NULL);
    memory_note("threads", -(size_t)p->started_count * THREAD_STACK_BYTES); /* taken back, modulo 2^64 */
    for (uint32_t i = 0; p->workers && i < p->worker_count; i++) device_close(p->workers[i].device);
    for (uint32_t i = 0; p->stages && i < p->pipeline_count * p->stage_count; i++)
        device_stage_close(p->stages[i].kind, p->stages[i].devices);
    device_close(p->host);
    wsp_close(p);
    arena_close(&p->gradients);
    arena_close(&p->arena);
    placement_free(&p->placement);
    pthread_mutex_destroy(&p->host_lock);
    free(p);
}

void pipeline_delay_set(struct pipeline *p, uint64_t seed, uint32_t max_ns)
{
    p->delay_seed = seed;
    p->delay_ns_max = max_ns;
}

uint32_t pipeline_slot_count(const struct pipeline *p) { return p->slot_count; }

const int *pipeline_feed_cores(const struct pipeline *p, uint32_t *count)
{
    const struct placement_worker *place = p->workers[0].place;
    if (p->helped == NULL) return pipeline_service_cores(p, count);
    *count = place->processors ? 1 : 0;
    return place->processors ? place->processors + place->core_count - 1 : NULL;
}

const int *pipeline_service_cores(const struct pipeline *p, uint32_t *count)
{
    *count = p->placement.service ? p->placement.service_count : 0;
    return p->placement.service;
}

struct bell *pipeline_feed_bell(struct pipeline *p) { return p->stages[0].bell; }

const struct device *pipeline_device(const struct pipeline *p) { return p->host ? p->host : p->workers[0].device; }

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
        bool is_pool = w->place->pipeline == PLACEMENT_ALL;
        if (is_pool) f->pool_wait_ns += w->wait_ns;
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
            if (w->stages[0]->index == s && !is_pool) of->wait_ns += w->wait_ns;
        }
    }
    for (uint32_t i = 0; i < p->pipeline_count * p->stage_count; i++) {
        const struct stage *s = &p->stages[i];
        struct stage_figures *of = &p->figures[s->index];
        const struct device_figures moved = device_stage_figures(s->kind, s->devices);
        /* Between two stages with memory of their own all goes by way of the host: what the first gives, the second takes. */
        const bool is_counted_behind = s->kind->has_memory && !s->is_last && s[1].kind->has_memory;
        if (!s->is_first) of[-1].cut_bytes += moved.front_bytes;
        if (!is_counted_behind) of->cut_bytes += moved.behind_bytes;
        of->other_bytes += moved.other_bytes;
        of->rows.resident += moved.rows.resident;
        of->rows.cold += moved.rows.cold;
        of->rows.moved_in += moved.rows.moved_in;
        of->rows.moved_home += moved.rows.moved_home;
    }
    for (uint32_t i = 0; i < p->pipeline_count * p->stage_count; i++) {
        struct stage_figures *of = &p->figures[i % p->stage_count];
        snprintf(of->name, sizeof of->name, "%s", p->stages[i].name);
        of->kind = p->stages[i].kind;
        /* The same pool serves every pipeline. */
        bool is_counted = f->is_shared && i >= p->stage_count && p->stages[i].kind->has_cores;
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
