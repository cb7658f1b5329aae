/* Opens the stations, workers and hops of a plan, and closes them. Once a run. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/thread.h"
#include "engine/base/trace.h"
#include "engine/device/cpu/cpu_device.h"
#include "engine/pipe/pipeline_internal.h"
#include "io/store/store.h"

/* Inputs beyond those in flight: three micro-batches that are read, parsed and have their rows ready before
 * their turn, and the last one of the last step, which is kept for pipeline_check. */
#define INPUTS_AHEAD 4u
/* Where rows may be on a disk, more inputs of small micro-batches, whose reads keep the disk busy. */
#define INPUTS_AHEAD_DISK 16u
#define KEYS_AHEAD        32768u

/* --- opening ---------------------------------------------------------------------------------- */

/* Whether stages lie on several nodes. */
static bool by_stages(const struct pipeline *p) { return p->exchange && p->exchange->stages; }

/* Micro-batches of a step, of all nodes. */
static uint32_t step_micros(const struct pipeline *p) { return batch_micro_count(graph_batch(p->graph)); }

/* Workers of the whole plan, wherever they are: the same on all nodes. */
static uint32_t plan_workers(const struct plan *plan)
{
    uint64_t count = 0;
    for (uint32_t s = 0; s < plan->stage_count; s++) count += placement_seats(plan, s);
    return count < PLACEMENT_WORKERS_MAX ? (uint32_t)count : PLACEMENT_WORKERS_MAX;
}

/* Micro-batches in flight that keep the workers of a pipeline busy. */
static uint32_t in_flight_default(const struct pipeline *p, uint32_t workers)
{
    const struct plan *plan = p->plan;
    /* Without lanes as few as there are stages, since each further one makes the weights of others staler. */
    if (!p->by_lane) return p->stage_count + (p->stage_count > 1);
    /* Nodes that share a stage have lanes far from each other in the order of the data. */
    for (uint32_t s = 0; s < p->stage_count && by_stages(p); s++)
        if (!exchange_stage_is_whole(p->exchange->stages, s)) return step_micros(p);
    if (workers <= 1) return 1;
    /* A stage of a chain of S has a forward and a backward pass to do while a slot goes up and down the
     * others: S slots keep all at work, twice as many make up for passes that take longer. */
    uint64_t count = 2 * (uint64_t)(workers > p->stage_count ? workers : p->stage_count);
    /* Backward passes of a stage run side by side only for different lanes, a lane's length apart. */
    uint32_t replicas = 1;
    for (uint32_t s = 0; s < plan->stage_count; s++)
        if (plan->stages[s].replicas > replicas) replicas = plan->stages[s].replicas;
    if (replicas > 1 && p->lanes > 1) {
        uint32_t abreast = replicas < p->lanes ? replicas : p->lanes;
        count += (uint64_t)(abreast - 1) * (batch_micro_count(graph_batch(p->graph)) / p->lanes);
    }
    const uint32_t most = by_stages(p) ? step_micros(p) : p->micro_count;
    return count < most ? (uint32_t)count : most;
}

/* In flight on a node, where stages lie on nodes: no more than it has of a step; without lanes, as on every
 * other. */
static uint32_t node_slots(const struct pipeline *p, uint32_t node)
{
    if (!p->by_lane) return p->plan_in_flight;
    const uint32_t micros = step_micros(p) / p->lanes * exchange_stages_hull(p->exchange->stages, node).count;
    return p->plan_in_flight < micros ? p->plan_in_flight : micros;
}

/* Whether a worker of the placement serves a stage of a pipeline. */
static bool serves(const struct pipeline *p, const struct placement_worker *place, uint32_t pipeline, uint32_t stage)
{
    if (stage < place->stage_begin || stage >= place->stage_end || p->plan->stages[stage].is_elsewhere) return false;
    return place->pipeline == PLACEMENT_ALL ? placement_has_cores(p->plan, stage) : place->pipeline == pipeline;
}

static void stage_fill(const struct pipeline *p, struct station *station, uint32_t pipeline, uint32_t index)
{
    const struct plan_stage *of = &p->plan->stages[index];
    struct stage *stage = &station->stage;
    *stage = (struct stage){.index = index,
                            .pipeline_index = pipeline,
                            .is_here = !of->is_elsewhere,
                            .is_last = index + 1 == p->stage_count && !of->is_elsewhere,
                            .is_shared = exchange_of_steps(p->exchange) && !by_stages(p),
                            .lanes = {0, p->lanes},
                            .kind = device_kind_of(p->plan, index),
                            .replica_count = of->replicas};
    if (by_stages(p)) {
        stage->lanes = exchange_stage_lanes(p->exchange->stages, index, p->exchange->rank);
        stage->is_shared = !exchange_stage_is_whole(p->exchange->stages, index);
    }
    uint32_t first = 0;
    while (p->plan->stages[first].is_elsewhere) first++;
    stage->is_first = index == first;
    extent_nodes_find(&stage->extent, p->graph, of->first_layer, of->last_layer);
    (void)plan_stage_name(p->plan, p->graph, index, stage->name, sizeof stage->name);
    if (stage->kind->has_cores && resource_is_slowed(&p->plan->types[of->type].slow))
        station->slow = &p->plan->types[of->type].slow;
    for (uint32_t i = 0; i < p->worker_count; i++) {
        const struct placement_worker *place = &p->placement.worker[i];
        if (!serves(p, place, pipeline, index)) continue;
        station->worker_count++;
        station->core_count += place->unit_count;
    }
}

/* The rings into a station, and who may take from them. */
static void hops_layout(const struct pipeline *p, struct station *station, struct layout *l)
{
    const struct plan *plan = p->plan;
    const struct stage *stage = &station->stage;
    /* One thread at each end, unless a stage has several workers: then any of them gives or takes.
     * Any worker gives into the first. */
    const bool is_one = !p->placement.is_shared && placement_seats(plan, stage->index) == 1 && stage->index > 0 &&
                        !by_stages(p) && placement_seats(plan, stage->index - 1) == 1;
    station->seat_count = p->by_lane ? placement_seats(plan, stage->index) : 1;
    hop_layout(&station->forward, l, station->seat_count, p->slot_count, is_one ? RING_ONE : RING_MANY);
    /* A seat's lanes come from any worker of the stage behind. */
    hop_layout(&station->backward, l, station->seat_count, p->slot_count, RING_MANY);
    LAYOUT_TAKE(l, station->seat_claims, station->seat_count);
    if (!p->by_lane) LAYOUT_TAKE(l, station->turn, 1);
}

static void stations_layout(struct pipeline *p, struct layout *l)
{
    const uint32_t count = p->pipeline_count * p->stage_count;
    p->bell_count = count;
    LAYOUT_TAKE(l, p->bells, count);
    if (p->gate_bell == NULL) p->gate_bell = p->bells;
    LAYOUT_TAKE(l, p->stations, count);
    LAYOUT_TAKE(l, p->stages, count);
    for (uint32_t i = 0; i < count; i++) {
        struct station station = {0}, *first = l->arena ? &p->stations[i % p->stage_count] : NULL;
        struct stage *stage = &station.stage;
        stage_fill(p, &station, i / p->stage_count, i % p->stage_count);
        hops_layout(p, &station, l);
        /* Replicas with memory of their own have a part each; without lanes a task updates all. */
        const uint32_t parts = stage->kind->has_memory ? stage->replica_count : station.worker_count;
        extent_layout(&stage->extent, l, p->graph, p->model, p->by_lane ? parts : 1);
        if (!l->arena) continue;
        /* All pipelines have one gate. */
        stage->bell =
            stage->is_first || (p->placement.is_shared && stage->kind->has_cores) ? p->gate_bell : &p->bells[i];
        station.forward.bell = station.backward.bell = stage->bell;
        if (stage->extent.looks_up && first->turn) station.turn = first->turn;
        station.next = stage->index + 1 == p->stage_count ? NULL : &p->stations[i + 1];
        station.before = stage->index == 0 ? NULL : &p->stations[i - 1];
        p->stations[i] = station;
        p->stages[i] = &p->stations[i].stage;
    }
}

/* The stations that a worker serves, the most downstream first. */
static void worker_stations_list(const struct pipeline *p, struct worker *w)
{
    for (uint32_t s = w->place->stage_end; s-- > w->place->stage_begin;)
        for (uint32_t v = 0; v < p->pipeline_count; v++) {
            struct station *station = &p->stations[v * p->stage_count + s];
            if (!serves(p, w->place, v, s)) continue;
            w->stations[w->station_count++] = station;
            w->slow_varies |= w->place->pipeline == PLACEMENT_ALL && station->slow != NULL;
        }
}

/* The worker's number among those of its first station. */
static uint32_t worker_number(const struct pipeline *p, uint32_t index)
{
    const struct placement_worker *own = &p->placement.worker[index];
    uint32_t number = 0;
    if (own->pipeline == PLACEMENT_ALL) return index;
    for (uint32_t i = 0; i < index; i++) {
        const struct placement_worker *place = &p->placement.worker[i];
        number += place->pipeline == own->pipeline && place->stage_begin == own->stage_begin;
    }
    return number;
}

static void workers_layout(struct pipeline *p, struct layout *l)
{
    const uint32_t scratch = gradients_scratch(p->graph, p->lanes);
    LAYOUT_TAKE(l, p->workers, p->worker_count);
    for (uint32_t i = 0; i < p->worker_count; i++) {
        const struct placement_worker *place = &p->placement.worker[i];
        const bool is_pool = place->pipeline == PLACEMENT_ALL;
        struct worker w = {.pipeline = p, .place = place, .index = i, .updater.graph = p->graph};
        LAYOUT_TAKE(l, w.stations, is_pool ? p->pipeline_count * p->stage_count : 1);
        LAYOUT_TAKE(l, w.times, p->stage_count);
        LAYOUT_TAKE(l, w.updater.scratch, scratch);
        if (!l->arena) continue;
        worker_stations_list(p, &w);
        w.spins = p->spins_idle && place->core_count > 0;
        w.bell = w.stations[0]->stage.bell;
        w.seat = worker_number(p, i);
        snprintf(w.name, sizeof w.name, is_pool ? "worker %u" : "worker %u: %.30s", i, w.stations[0]->stage.name);
        p->workers[i] = w;
    }
}

/* What hops, stations and workers keep. */
static void pipeline_layout(struct pipeline *p, struct layout *l)
{
    stations_layout(p, l);
    workers_layout(p, l);
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
    LAYOUT_TAKE(l, p->figures, p->stage_count);
    if (exchange_of_rows(p->exchange) == NULL || p->graph->table_count == 0) return;
    LAYOUT_TAKE(l, p->check_look, 1);
    LAYOUT_TAKE(l, p->check_numbers, p->graph->table_count);
    exchange_look_layout(l->arena ? p->check_look : NULL, l, p->exchange);
    exchange_look_numbers_layout(p->check_numbers, l, p->exchange);
}

static status worker_start(struct worker *w)
{
    const struct pipeline *p = w->pipeline;
    /* Busy until its first look: a job that ends before that waits for the worker, and then reads what the
     * thread writes at its start. Relaxed: starting a thread publishes it. */
    atomic_store_explicit(&w->shared_is_busy, true, memory_order_relaxed);
    int error = thread_start(&w->thread, pipeline_worker, w);
    if (error) FAIL(SYSTEM, "cannot start worker %u of %u: %s", w->index + 1, p->worker_count, strerror(error));
    memory_note("threads", THREAD_STACK_BYTES);
    return ST_OK;
}

/* Bytes of an example's rows, at most: by these, stages of one card divide its room for rows. */
static uint64_t row_bytes_most(const struct pipeline *p, const struct stage *stage)
{
    uint64_t floats = 0;
    for (uint32_t i = 0; i < stage->extent.table_count; i++) {
        const struct graph_table *table = &p->graph->tables[stage->extent.tables[i]];
        floats += (uint64_t)table->span_floats * table->key_count_max;
    }
    return floats * sizeof(float);
}

/* The part of a stage that is here of the room for rows that its card has. */
static uint64_t row_bytes_of(const struct pipeline *p, const struct stage *stage, uint64_t bytes)
{
    const struct resource_type *card = &p->plan->types[p->plan->stages[stage->index].type];
    const uint64_t own = row_bytes_most(p, stage);
    uint64_t all = 0;
    for (uint32_t i = 0; i < p->stage_count; i++) {
        const struct resource_type *type = &p->plan->types[p->plan->stages[i].type];
        if (p->stages[i]->is_here && type->device == card->device && type->device_index == card->device_index)
            all += row_bytes_most(p, p->stages[i]);
    }
    return own == all ? bytes : bytes / all * own;
}

static struct device_stage_options device_options(const struct pipeline *p, const struct stage *stage,
                                                  const struct pipeline_options *o)
{
    return (struct device_stage_options){.graph = p->graph,
                                         .model = p->model,
                                         .plan = p->plan,
                                         .stage = stage->index,
                                         .extent = &stage->extent,
                                         .slots = p->slots_arena.base,
                                         .slots_bytes = p->slots_arena.size_bytes,
                                         .slot_count = p->slot_count,
                                         .input_count = p->input_count,
                                         .lanes = p->exchange ? p->exchange->own : (struct fold_lanes){0, p->lanes},
                                         .is_shared = stage->is_shared,
                                         .row_bytes = row_bytes_of(p, stage, o->card_row_bytes),
                                         .isa = o->isa,
                                         .spins = p->spins,
                                         .training = o->training};
}

/* A pool's is opened for the first stage that it serves, since all are of one kind. */
static status worker_device_open(struct worker *w, const struct pipeline_options *o)
{
    const struct station *station = w->stations[0];
    const struct stage *stage = &station->stage;
    const struct device_stage_options options = device_options(w->pipeline, stage, o);
    const struct device_seat seat = {.replica = w->seat % stage->replica_count,
                                     .core_count = w->place->core_count,
                                     .processors = w->place->processors};
    TRY(stage->kind->open(&w->device, station->devices, &options, &seat));
    device_slow_set(stage->kind, w->device, station->slow);
    w->updater.device = w->device;
    if (!o->training || !stage_has_copies(stage)) return ST_OK;
    TRY(cpu_device_open(&w->host, w->pipeline->graph, 1, NULL, o->isa));
    w->updater.device = w->host;
    w->updater.away = w->device;
    return ST_OK;
}

static status devices_open(struct pipeline *p, const struct pipeline_options *o)
{
    const uint32_t pair_count = p->pipeline_count * p->stage_count;
    bool has_cores = true;
    for (uint32_t i = 0; i < pair_count; i++) {
        if (!p->stages[i]->is_here) continue;
        const struct device_stage_options options = device_options(p, p->stages[i], o);
        TRY(device_stage_open(p->stages[i]->kind, &p->stations[i].devices, &options));
    }
    for (uint32_t i = 0; i < p->worker_count; i++) TRY(worker_device_open(&p->workers[i], o));
    for (uint32_t i = 0; i < pair_count; i++) {
        if (!p->stages[i]->is_here) continue;
        if (o->training) TRY(device_stage_join(p->stages[i]->kind, p->stations[i].devices));
        has_cores &= p->stages[i]->kind->has_cores;
    }
    return has_cores ? ST_OK : cpu_device_open(&p->device, p->graph, 1, NULL, o->isa);
}

static uint32_t inputs_ahead(const struct pipeline_options *o)
{
    /* On several nodes the owners read disks. */
    if (!o->training || exchange_of_rows(o->exchange) || !store_has_home(o->model->store)) return INPUTS_AHEAD;
    const uint64_t keys = (uint64_t)graph_batch(o->graph).micro * graph_example(o->graph).key_count_max;
    const uint64_t slots = KEYS_AHEAD / (keys ? keys : 1);
    return slots < INPUTS_AHEAD ? INPUTS_AHEAD : slots < INPUTS_AHEAD_DISK ? (uint32_t)slots : INPUTS_AHEAD_DISK;
}

/* How many threads parse: as many as asked for, else one for each core that no stage has, but for one core,
 * which is left to rows. A rule, not a measurement. Parsing is a tenth of the reading thread's time where
 * finding rows is most of it: with stages on all cores another parser mostly displaces a stage, and with
 * cores of its own it costs nothing (two cores of a Xeon with AVX-512, Criteo from a file, samples a second
 * with one and with two parsers: ctrdnn1 768,000 and 704,000, lr 764,000 and 743,000). */
static uint32_t readers_of(uint32_t asked, uint32_t service_count)
{
    const uint32_t most = 8;
    if (asked) return asked;
    return service_count < 3 ? 1 : service_count - 1 < most ? service_count - 1 : most;
}

/* Sets in_flight, input_count and slot_count. */
static status inputs_count(struct pipeline *p, const struct pipeline_options *o)
{
    const bool by_lanes = exchange_of_rows(exchange_of_steps(o->exchange)) != NULL,
               by_step = (by_lanes && p->graph->table_count > 0) || exchange_shares_stages(o->exchange);
    const uint32_t workers = by_stages(p) ? plan_workers(p->plan)
                                          : (p->worker_count + p->pipeline_count - 1) / p->pipeline_count,
                   ahead = inputs_ahead(o) + (o->exchange ? 0 : feed_numberers(p->readers));
    p->in_flight = o->in_flight ? o->in_flight : in_flight_default(p, workers);
    p->plan_in_flight = p->in_flight;
    if (by_stages(p)) p->in_flight = node_slots(p, p->exchange->rank);
    /* Letters of steps that are read ahead wait for their turn: at most those of two steps of inputs. */
    if (by_lanes && p->in_flight > p->micro_count) p->in_flight = p->micro_count;
    /* The last micro-batch of a step that waits for others' values, and one of the next step. */
    if (o->in_flight == 0 && by_lanes && exchange_opens_early(o->exchange, p->graph->table_count)) p->in_flight++;
    if (o->input_count) {
        uint32_t room = o->input_count > ahead ? (o->input_count - ahead) / p->pipeline_count : 0;
        if (room < 1) room = 1;
        if (p->in_flight > room) p->in_flight = room;
        /* Inputs in flight, and the last one of the last step. */
        if (o->input_count < p->in_flight * p->pipeline_count + 1)
            FAIL(INVALID, "%u pipelines need %u inputs or more, found %u", p->pipeline_count, p->pipeline_count + 1,
                 o->input_count);
        p->input_count = o->input_count;
        return ST_OK;
    }
    uint64_t later = o->in_flight ? 0 : 2 * (uint64_t)o->worker_count_max;
    if (p->by_lane && later > p->micro_count) later = p->micro_count;
    /* A step begins when it is read, or all its rows have come; the next step is read and asked for
     * meanwhile. */
    if (by_step) later = 2 * (uint64_t)p->micro_count;
    uint64_t inputs = (later > p->in_flight ? later : p->in_flight) * p->pipeline_count + ahead;
    if (inputs > 1u << 16)
        FAIL(INVALID, "train.in_flight = %u in %u pipelines are %" PRIu64 " inputs; expected at most %u", p->in_flight,
             p->pipeline_count, inputs, 1u << 16);
    p->input_count = (uint32_t)inputs;
    return ST_OK;
}

static void line_log(void *context, const char *line)
{
    (void)context;
    log_detail("place    %s", line);
}

static void slots_layout(struct pipeline *p, struct layout *l, bool training)
{
    LAYOUT_TAKE(l, p->slots, p->slot_count);
    for (uint32_t s = 0; s < p->slot_count; s++) slot_layout(l, l->arena ? &p->slots[s] : NULL, p->graph, training);
    ring_layout(l->arena ? &p->slots_free : NULL, l, p->slot_count, RING_MANY);
}

static status slots_open(struct pipeline *p, const struct pipeline_options *o)
{
    struct layout sum = {0}, taken = {.arena = &p->slots_arena};
    slots_layout(p, &sum, o->training);
    TRY(arena_open(&p->slots_arena, "slots", sum.bytes));
    slots_layout(p, &taken, o->training);
    for (uint32_t s = 0; s < p->slot_count; s++) {
        p->slots[s].index = s;
        CHECK(ring_try_push(&p->slots_free, s));
    }
    return ST_OK;
}

static status sync_part_open(struct pipeline *p, const struct pipeline_options *o)
{
    const struct sync_site site = {.graph = p->graph,
                                   .model = p->model,
                                   .kind = o->sync,
                                   .in_flight = p->in_flight,
                                   .clock_distance = o->clock_distance,
                                   .is_exact = o->is_exact,
                                   .is_bf16 = o->is_bf16,
                                   .pipeline_count = p->pipeline_count,
                                   .stage_count = p->stage_count,
                                   .slot_count = p->slot_count,
                                   .stages = p->stages,
                                   .host = &p->host,
                                   .exchange = o->exchange};
    TRY(sync_open(&p->sync, &site));
    for (uint32_t i = 0; i < p->worker_count; i++) p->workers[i].updater.gradients = &p->sync->gradients;
    return ST_OK;
}

/* Refuses what nodes do not exchange yet. */
static status exchange_check(struct pipeline *p)
{
    if (!p->by_lane && p->exchange->waves == NULL)
        FAIL(INVALID, "training on several nodes needs train.sync = bsp, or wsp between nodes that have all layers");
    for (uint32_t t = 0; t < p->graph->table_count; t++) {
        const struct row_life *life = &p->graph->tables[t].life;
        const char *name = graph_string(p->graph, p->graph->tables[t].name);
        if (life->admit > 1 && life->admit_by == ADMIT_BLOOM)
            FAIL(INVALID,
                 "table \"%s\": on several nodes admit_by = bloom needs the filters by shards of rules 10, "
                 "found [model] rules = %u; set admit_by = exact, or compile the model with --set model.rules=10",
                 name, p->graph->header->version);
    }
    for (uint32_t s = 0; s < p->stage_count; s++) {
        const struct resource_type *type = &p->plan->types[p->plan->stages[s].type];
        if (by_stages(p) && exchange_stage_is_whole(p->exchange->stages, s)) continue;
        const struct device_kind *kind = device_kind_of(p->plan, s);
        p->exchange->has_copies |= kind->has_memory;
        if (kind->has_cores || kind->has_memory || type->device == RESOURCE_PACED) continue;
        FAIL(INVALID,
             "stage %u of %u is on type %s, which computes nothing, and several nodes share the stage: give it to "
             "cores, cards or paced units, or by a plan with nodes to one node",
             s + 1, p->stage_count, type->name);
    }
    return ST_OK;
}

static status hops_part_open(struct pipeline *p)
{
    uint32_t slot_counts[64];
    const struct hops_options options = {.graph = p->graph,
                                         .plan = p->plan,
                                         .exchange = p->exchange,
                                         .slot_counts = slot_counts,
                                         .micro_count = step_micros(p),
                                         .give = pipeline_hop_arrives,
                                         .context = p};
    for (uint32_t n = 0; n < p->exchange->node_count; n++) slot_counts[n] = node_slots(p, n);
    return hops_open(&p->hops, &options);
}

static status open_parts(struct pipeline *p, const struct pipeline_options *o)
{
    if (o->training) TRY(sync_check(o->sync, p->pipeline_count));
    if (o->exchange) TRY(exchange_check(p));
    TRY(placement_make(&p->placement, o->plan, o->graph, p->pipeline_count, o->cores, o->core_count, o->share));
    TRY(placement_tell(&p->placement, o->plan, o->graph, line_log, NULL));
    p->worker_count = p->placement.worker_count;
    uint32_t core_count = 0;
    for (uint32_t i = 0; i < p->worker_count; i++) core_count += p->placement.worker[i].core_count;
    p->spins = core_count <= o->cores->count;
    p->spins_idle = core_count + o->beside <= o->cores->count;
    p->readers = readers_of(o->readers, p->placement.service_count);
    TRY(inputs_count(p, o));
    p->slot_count = p->in_flight * p->pipeline_count;
    TRY(slots_open(p, o));
    if (by_stages(p)) TRY(hops_part_open(p));
    struct layout sum = {0}, taken = {.arena = &p->arena};
    pipeline_layout(p, &sum);
    TRY(arena_open(&p->arena, "pipeline", sum.bytes));
    pipeline_layout(p, &taken);
    if (o->training) TRY(sync_part_open(p, o));
    TRY(devices_open(p, o));
    /* One gang has every core, and none is left to the feed: the feed gets the last core, and helps the
     * gang when it has nothing to read. */
    if (p->worker_count == 1 && p->workers[0].place->core_count > 1 && core_count >= o->cores->count)
        p->helped = cpu_device_team(p->workers[0].device);
    /* The workers; feeds, of training and of evaluation; and the thread that speaks with other nodes. */
    TRY(trace_room(p->worker_count + 2 * (1 + feed_numberers(p->readers)) + (o->exchange != NULL)));
    for (; p->started_count < p->worker_count; p->started_count++) TRY(worker_start(&p->workers[p->started_count]));
    return ST_OK;
}

status pipeline_open(struct pipeline **out, const struct pipeline_options *o)
{
    *out = NULL;
    struct pipeline *p = aligned_alloc(CACHE_LINE_BYTES, arena_bytes(sizeof *p));
    if (p == NULL) FAIL(MEMORY, "no memory for a pipeline");
    memset(p, 0, sizeof *p);
    CHECK(pthread_mutex_init(&p->device_lock, NULL) == 0);
    struct batch_shape shape = graph_batch(o->graph);
    p->host = pipeline_sync_host;
    p->graph = o->graph;
    p->model = o->model;
    p->plan = o->plan;
    p->exchange = o->exchange;
    p->by_lane = !o->training || sync_by_lane(o->sync);
    p->gate_bell = o->feed_bell;
    p->pipeline_count = o->training ? o->pipeline_count : 1;
    p->stage_count = o->plan->stage_count;
    p->lanes = shape.lanes;
    p->micro_count = batch_micro_count(shape);
    if (o->exchange) p->micro_count = p->micro_count / shape.lanes * o->exchange->own.count;
    if (p->micro_count == 0) p->micro_count = 1; /* an empty one */
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
    for (uint32_t i = 0; p->workers && i < p->worker_count; i++) {
        device_close(p->workers[i].host);
        device_close(p->workers[i].device);
    }
    for (uint32_t i = 0; p->stations && i < p->pipeline_count * p->stage_count; i++)
        device_stage_close(p->stations[i].stage.kind, p->stations[i].devices);
    device_close(p->device);
    sync_close(p->sync);
    hops_close(p->hops);
    arena_close(&p->slots_arena);
    arena_close(&p->arena);
    placement_free(&p->placement);
    pthread_mutex_destroy(&p->device_lock);
    free(p);
}

void pipeline_delay_set(struct pipeline *p, uint64_t seed, uint32_t max_ns)
{
    p->delay_seed = seed;
    p->delay_ns_max = max_ns;
}

uint32_t pipeline_readers(const struct pipeline *p) { return p->readers; }

uint32_t pipeline_input_count(const struct pipeline *p) { return p->input_count; }

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

struct bell *pipeline_feed_bell(struct pipeline *p) { return p->gate_bell; }

const struct device *pipeline_device(const struct pipeline *p) { return p->device ? p->device : p->workers[0].device; }
