/* The run of a profile: the caller's thread opens everything; another thread, pinned to the first core, takes
 * all turns, so that the caller keeps its processors. */
#include "engine/profile/profile_run_internal.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/fit.h"
#include "engine/base/paths.h"
#include "engine/base/stop.h"
#include "engine/base/thread.h"
#include "engine/device/card/card.h"
#include "io/store/store_ticket.h"

/* Rounds into which the time is divided; more, up to ROUNDS_MAX, where turns cannot be
 * long enough to use the time up. */
#define ROUNDS_WANTED 24u
/* A gang's turn is disturbed if one of its threads has waited for cores for more than this share of it. */
#define WAITED_SHARE 0.05
/* Share of the time for measuring transfers. */
#define MOVE_SHARE 0.06

/* --- clocks ----------------------------------------------------------------------------------- */

static double seconds_since(uint64_t begin_ns) { return (double)(clock_ns() - begin_ns) * 1e-9; }

/* Times the work of a gang. One core's time is the thread's processor time, if that is less than the time
 * passed: the core was then taken away meanwhile. */
struct watch {
    uint32_t cores;
    double worked; /* this thread's processor seconds so far */
    uint64_t begin_ns;
};
static struct watch watch_begin(uint32_t cores)
{
    struct watch watch = {.cores = cores};
    if (cores == 1) watch.worked = (double)clock_thread_ns() * 1e-9;
    watch.begin_ns = clock_ns();
    return watch;
}
static double watch_end(const struct watch *watch)
{
    double passed = seconds_since(watch->begin_ns);
    if (watch->cores > 1) return passed;
    double worked = (double)clock_thread_ns() * 1e-9 -
                    watch->worked; /* the readings of `worked` lie outside those of `passed`: it may be greater */
    return worked < passed ? worked : passed;
}

/* --- data ------------------------------------------------------------------------------------- */

/* Fills m up to `examples`; begins again at the end of the data. */
static status batch_read(struct run *r, struct micro_batch *m, uint32_t examples)
{
    char shown[PATHS_SHOWN_BYTES];
    micro_batch_clear(m);
    for (;;) {
        bool is_end;
        uint32_t before = m->example_count;
        TRY(reader_fill(r->reader, m, examples, &is_end));
        r->pass_examples += m->example_count - before;
        if (m->example_count == examples) return ST_OK;
        if (r->pass_examples == 0)
            FAIL(INVALID, "%s: no examples", r->o->data ? paths_shown(shown, r->o->data) : "the generated data");
        TRY(reader_start(r->reader, ++r->epoch));
        r->pass_examples = 0;
    }
}

static void step_begin(struct run *r)
{
    store_release(r->model.store, r->ticket); /* rows of the last step may leave RAM */
    for (uint32_t t = 0; t < r->graph->table_count; t++) step_rows_begin(&r->numbers[t], &r->rows[t]);
}

static uint32_t lane_of(const struct run *r, uint32_t index)
{
    return (uint32_t)((uint64_t)index * r->shape.lanes / r->micros);
}

/* Fills the slot as micro-batch `index` of the step. Making room and waiting for rows on disk are not timed:
 * beside other micro-batches they take no core. */
static status slot_fill(struct run *r, struct slot *slot, uint32_t index, uint32_t examples)
{
    const struct graph *g = r->graph;
    struct store *store = r->model.store;
    bool has_room;
    TRY(store_make_room(store, &has_room));
    CHECK(has_room); /* store_open has made sure of room for a step's rows */
    struct watch watch = watch_begin(1);
    if (r->pass_examples >= PROFILE_EXAMPLES) {
        TRY(reader_start(r->reader, ++r->epoch));
        r->pass_examples = 0;
    }
    TRY(batch_read(r, &slot->input->batch, examples));
    TRY(store_prepare(store, &slot->input->batch, STORE_CREATE, &slot->input->ticket));
    r->ticket = slot->input->ticket.number;
    for (uint32_t t = 0; t < g->table_count; t++) {
        step_rows_add(&r->numbers[t], &r->rows[t], &slot->input->ticket.table[t], lane_of(r, index));
        step_rows_keys(&r->rows[t], &slot->input->ticket.table[t], slot->input->batch.key);
    }
    slot_bind(slot, slot->input, g, &r->model);
    slot->input->batch.step = r->step;
    slot->input->batch.micro_index = index;
    /* Few examples cost more each, because of the fixed cost of a micro-batch. */
    if (examples == r->shape.micro && r->reading_count < PASSES_MAX)
        r->reading[r->reading_count++] = watch_end(&watch) / examples;
    while (!store_ready(store, &slot->input->ticket)) TRY(store_poll(store, true));
    return ST_OK;
}

/* --- turns ------------------------------------------------------------------------------------ */

/* Sets sample `index` of every layer to 0. */
static void sample_begin(const struct run *r, double *samples, uint32_t index)
{
    CHECK(index < PASSES_MAX);
    size_t count = (size_t)r->o->kind_count * r->graph->layer_count;
    for (size_t i = 0; i < count; i++) samples[i * PASSES_MAX + index] = 0;
}

/* Adds the time of a layer's op: for each kind of device times its factor. */
static void sample_add(const struct run *r, double *samples, uint32_t index, uint32_t layer, uint32_t op,
                       double seconds)
{
    for (uint32_t k = 0; k < r->o->kind_count; k++) {
        const struct resource_slow *slow = r->o->kinds[k];
        samples[((size_t)k * r->graph->layer_count + layer) * PASSES_MAX + index] +=
            seconds * (slow ? (double)slow->op[op] : 1);
    }
}

static struct op_context context_of(const struct run *r, const struct slot *slot)
{
    return slot_context(slot, r->graph, r->gradients.table, true);
}

/* Runs the passes, forward and backward. */
static status pass_run(struct run *r, uint32_t config, struct slot *slot)
{
    const struct graph *g = r->graph;
    uint32_t lane = lane_of(r, slot->input->batch.micro_index), cores = r->o->configs[config].cores;
    for (uint32_t t = 0; t < g->tensor_count; t++)
        if (g->tensors[t].kind == TENSOR_PARAM_GRAD)
            slot->tensor[t].data = r->gradients.param[lane] + g->tensors[t].offset;
    const struct op_context c = context_of(r, slot);
    sample_begin(r, r->pass, r->pass_count);
    for (uint32_t s = 0; s < r->segment_count; s++) {
        const struct segment *of = &r->segments[s];
        struct watch watch = watch_begin(cores);
        TRY(device_submit(r->devices[config], &c, g->nodes + of->begin, of->count));
        sample_add(r, r->pass, r->pass_count, of->layer, g->nodes[of->begin].op, watch_end(&watch));
    }
    r->pass_count++;
    return ST_OK;
}

/* The update of a step of `examples` examples. */
static struct update update_of(const struct run *r, uint32_t examples)
{
    return (struct update){.param = r->model.param,
                           .state = r->model.state,
                           .param_grad = r->gradients.param,
                           .lanes = r->shape.lanes,
                           .rows = r->rows,
                           .example_count = examples,
                           .t = r->step + 1,
                           .clip_scale = 1.0f / (float)examples};
}

/* Updates a layer's parameters of one update of the graph, or a table that the layer looks up first. */
static status layer_update_run(struct run *r, struct device *device, const struct layer_update *u,
                               const struct update *update)
{
    const struct updater w = {.graph = r->graph, .gradients = &r->gradients, .device = device, .scratch = r->scratch};
    if (u->update == GRAPH_NONE) return update_rows(&w, update, u->table, 0, update->rows[u->table].row_count);
    /* The sum over all layers belongs to no layer, and costs nothing. */
    if (r->graph->optimizers[r->graph->updates[u->update].optimizer].clip_norm > 0)
        TRY(update_sum(&w, update, r->blocks + u->block_begin, u->block_count, r->squares));
    return update_params(&w, update, &u->run, u->run.offset, u->run.offset + u->run.count);
}

static status updates_run(struct run *r, uint32_t config)
{
    uint32_t cores = r->o->configs[config].cores;
    const struct update update = update_of(r, r->micros * r->o->configs[config].examples);
    sample_begin(r, r->param, r->step_count);
    sample_begin(r, r->row, r->step_count);
    for (uint32_t i = 0; i < r->update_count; i++) {
        const struct layer_update *u = &r->updates[i];
        bool is_table = u->update == GRAPH_NONE;
        struct device *device = r->devices[config];
        struct watch watch = watch_begin(cores);
        TRY(layer_update_run(r, device, u, &update));
        double seconds = watch_end(&watch);
        sample_add(r, is_table ? r->row : r->param, r->step_count, u->layer,
                   is_table ? RESOURCE_SLOW_ROWS : RESOURCE_SLOW_PARAMS, seconds);
    }
    r->step_count++;
    r->step++;
    return ST_OK;
}

/* One step of r->micros micro-batches, in bursts of SLOT_COUNT;
 * CONFIG_NONE only reads. STOPPED by a signal. */
#define CONFIG_NONE UINT32_MAX
static status step_run(struct run *r, uint32_t config)
{
    uint32_t examples = config == CONFIG_NONE ? r->shape.micro : r->o->configs[config].examples;
    if (stop_requested()) FAIL(STOPPED, "stopped by a signal while the graph was measured; nothing of it is kept");
    step_begin(r);
    for (uint32_t first = 0; first < r->micros; first += SLOT_COUNT) {
        uint32_t count = r->micros - first < SLOT_COUNT ? r->micros - first : SLOT_COUNT;
        for (uint32_t i = 0; i < count; i++) TRY(slot_fill(r, &r->slots[i], first + i, examples));
        for (uint32_t i = 0; i < count && config != CONFIG_NONE; i++) TRY(pass_run(r, config, &r->slots[i]));
    }
    return config == CONFIG_NONE ? ST_OK : updates_run(r, config);
}

static void turn_begin(struct run *r) { r->pass_count = r->step_count = r->reading_count = 0; }

static void reading_keep(struct run *r)
{
    if (r->reading_count == 0 || r->round_reading_count == ROUNDS_MAX + READING_TURNS) return;
    r->round_reading[r->round_reading_count++] = fit_quantile(r->reading, r->reading_count, 0.5);
}

/* Medians of the turn's samples become the round's. */
static void turn_keep(struct run *r, uint32_t config, uint32_t round)
{
    uint32_t layer_count = r->graph->layer_count;
    double rows_scale = (double)batch_micro_count(r->shape) / r->micros, total = 0;
    for (uint32_t k = 0; k < r->o->kind_count; k++) {
        for (uint32_t l = 0; l < layer_count; l++) {
            size_t at = (((size_t)k * r->o->config_count + config) * layer_count + l) * ROUNDS_MAX + round;
            size_t samples = ((size_t)k * layer_count + l) * PASSES_MAX;
            r->round_pass[at] = fit_quantile(r->pass + samples, r->pass_count, 0.5);
            r->round_update[at] = fit_quantile(r->param + samples, r->step_count, 0.5) +
                                  fit_quantile(r->row + samples, r->step_count, 0.5) * rows_scale;
            if (k == 0) total += r->round_pass[at];
        }
    }
    r->round_total[config * ROUNDS_MAX + round] = total;
    reading_keep(r);
}

static status turn_run(struct run *r, uint32_t config, uint32_t round)
{
    bool is_gang = r->o->configs[config].cores > 1;
    if (is_gang) waits_begin(&r->waits);
    turn_begin(r);
    for (uint32_t s = 0; s < r->steps[config]; s++) TRY(step_run(r, config));
    r->is_disturbed[config * ROUNDS_MAX + round] = is_gang && waits_share(&r->waits) > WAITED_SHARE;
    turn_keep(r, config, round);
    return ST_OK;
}

/* Touches all memory, and finds how many micro-batches and steps a turn has time for. */
static status turns_size(struct run *r)
{
    uint32_t config_count = r->o->config_count;
    double left = r->o->seconds - seconds_since(r->begin_ns), turn_seconds;
    double *micro_seconds = r->round_total; /* [config_count]: of a micro-batch */
    r->micros = 1;
    turn_seconds = left / (config_count * ROUNDS_WANTED);
    for (uint32_t config = 0; config < config_count; config++) {
        for (uint32_t i = 0; i < 2; i++) {
            uint64_t begin_ns = clock_ns();
            turn_begin(r);
            TRY(step_run(r, config));
            micro_seconds[config] = seconds_since(begin_ns);
        }
    }
    double fitting = turn_seconds / micro_seconds[0];
    r->micros = fitting > r->micros_max ? r->micros_max : fitting > 1 ? (uint32_t)fitting : 1;
    for (uint32_t config = 0; config < config_count; config++) {
        double steps = turn_seconds / (r->micros * micro_seconds[config]), most = PASSES_MAX / r->micros;
        r->steps[config] = steps > most ? (uint32_t)most : steps > 1 ? (uint32_t)steps : 1;
    }
    return ST_OK;
}

/* Reads a whole step, or as much as the sums have room for, and counts its distinct rows. */
static status rows_count(struct run *r)
{
    const uint32_t micros = r->micros;
    r->micros = r->micros_max;
    turn_begin(r);
    TRY(step_run(r, CONFIG_NONE));
    for (uint32_t t = 0; t < r->graph->table_count; t++)
        r->result->rows[t] = (double)r->rows[t].row_count / ((double)r->micros * r->shape.micro);
    r->micros = micros;
    return ST_OK;
}

static status rounds_run(struct run *r)
{
    uint32_t config_count = r->o->config_count, round = 0;
    TRY(turns_size(r));
    for (double longest = 0; round < ROUNDS_MAX; round++) {
        uint64_t begin_ns = clock_ns();
        if (round > 0 && seconds_since(r->begin_ns) + longest > r->o->seconds) break;
        for (uint32_t i = 0; i < config_count; i++) TRY(turn_run(r, round % 2 ? config_count - 1 - i : i, round));
        if (seconds_since(begin_ns) > longest) longest = seconds_since(begin_ns);
    }
    r->result->rounds = round;
    return ST_OK;
}

/* Measures reading only. */
static status reading_run(struct run *r)
{
    r->micros = r->micros_max < SLOT_COUNT ? r->micros_max : SLOT_COUNT;
    for (uint32_t turn = 0; turn < READING_TURNS; turn++) {
        turn_begin(r);
        TRY(step_run(r, CONFIG_NONE));
        reading_keep(r);
        if (seconds_since(r->begin_ns) > r->o->seconds) break;
    }
    return ST_OK;
}

static status card_rows_updated(void *context, struct device *device, uint32_t table)
{
    struct run *r = context;
    const struct layer_update rows = {.update = GRAPH_NONE, .table = table};
    const struct update update = update_of(r, r->micros * r->shape.micro);
    return layer_update_run(r, device, &rows, &update);
}

/* Measures cards, on micro-batches that the first config has run. */
static status cards_run(struct run *r)
{
    struct op_context contexts[CARD_STREAMS];
    r->micros = r->micros_max < CARD_STREAMS ? r->micros_max : CARD_STREAMS;
    step_begin(r);
    turn_begin(r);
    for (uint32_t i = 0; i < r->micros; i++) {
        TRY(slot_fill(r, &r->slots[i], i, r->shape.micro));
        TRY(pass_run(r, 0, &r->slots[i]));
        contexts[i] = context_of(r, &r->slots[i]);
    }
    for (uint32_t i = 0; i < r->o->card_count; i++) {
        const struct card_measure_options options = {.graph = r->graph,
                                                     .model = &r->model,
                                                     .type = r->o->cards[i],
                                                     .slots = r->slots,
                                                     .contexts = contexts,
                                                     .slot_count = r->micros,
                                                     .memory = r->arena.base,
                                                     .memory_bytes = r->arena.size_bytes,
                                                     .step_share = (double)batch_micro_count(r->shape) / r->micros,
                                                     .sizes = r->o->card_sizes,
                                                     .size_count = r->o->card_size_count,
                                                     .move_bytes = r->o->move_bytes,
                                                     .move_count = r->o->move_count,
                                                     .row_bytes = r->o->settings->store_gpu,
                                                     .rows_update = card_rows_updated,
                                                     .rows_context = r,
                                                     .seconds = r->o->seconds / r->o->card_count};
        TRY(card_measure(&r->result->cards[i], &options));
    }
    return ST_OK;
}

static status all_run(struct run *r)
{
    const struct cores *cores = r->o->cores;
    if (cores->is_whole) cores_pin(cores->processor, 1);
    TRY(profile_move(r->o->move_bytes, r->result->move_seconds, r->o->move_count, cores->count,
                     cores->is_whole && cores->count > 1 ? cores->processor[1] : -1, r->o->seconds * MOVE_SHARE));
    TRY(r->o->config_count > 0 ? rounds_run(r) : reading_run(r));
    TRY(rows_count(r));
    return r->o->card_count > 0 ? cards_run(r) : ST_OK;
}

static void *run_main(void *argument)
{
    struct run *r = argument;
    failure_keep(&r->end, all_run(r));
    return NULL;
}

/* --- results ---------------------------------------------------------------------------------- */

/* Moves the undisturbed rounds' times to the front; returns their count. If all are disturbed, all count. */
static uint32_t undisturbed_keep(const struct run *r, uint32_t config, double *rounds)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->result->rounds; i++)
        if (!r->is_disturbed[config * ROUNDS_MAX + i]) rounds[count++] = rounds[i];
    return count ? count : r->result->rounds;
}

/* Medians of the rounds. */
static void result_make(struct run *r)
{
    struct profile_run_result *result = r->result;
    uint32_t layer_count = r->graph->layer_count, config_count = r->o->config_count;
    for (uint32_t config = 0; config < config_count; config++) {
        result->is_disturbed[config] = true;
        for (uint32_t i = 0; i < result->rounds; i++)
            result->is_disturbed[config] &= r->is_disturbed[config * ROUNDS_MAX + i];
    }
    for (size_t i = 0; i < (size_t)r->o->kind_count * config_count * layer_count; i++) {
        uint32_t config = (uint32_t)(i / layer_count % config_count);
        double *pass = r->round_pass + i * ROUNDS_MAX, *update = r->round_update + i * ROUNDS_MAX;
        result->layers[i].pass = fit_quantile(pass, undisturbed_keep(r, config, pass), 0.5);
        result->layers[i].update = fit_quantile(update, undisturbed_keep(r, config, update), 0.5);
    }
    result->reading_seconds = fit_quantile(r->round_reading, r->round_reading_count, 0.5);
    double *spreads = r->round_pass; /* [config_count]: round_pass is no longer needed */
    for (uint32_t config = 0; config < config_count; config++) {
        double *total = r->round_total + config * ROUNDS_MAX;
        uint32_t rounds = undisturbed_keep(r, config, total);
        double median = fit_quantile(total, rounds, 0.5);
        spreads[config] = (fit_quantile(total, rounds, 0.75) - fit_quantile(total, rounds, 0.25)) / median;
    }
    if (config_count > 0) result->spread = fit_quantile(spreads, config_count, 0.5);
    result->seconds = seconds_since(r->begin_ns);
}

static status run_thread(struct run *r)
{
    pthread_t thread;
    int error = thread_start(&thread, run_main, r);
    if (error) FAIL(SYSTEM, "cannot start a thread to measure: %s", strerror(error));
    pthread_join(thread, NULL);
    TRY(failure_adopt(&r->end));
    result_make(r);
    return ST_OK;
}

status profile_run(const struct profile_run_options *options, struct profile_run_result *result)
{
    *result = (struct profile_run_result){0};
    struct run *r = calloc(1, sizeof *r);
    if (r == NULL) FAIL(MEMORY, "no memory for a profile");
    *r = (struct run){.o = options,
                      .graph = options->graph,
                      .result = result,
                      .shape = graph_batch(options->graph),
                      .begin_ns = clock_ns()};
    status st = profile_open(r);
    if (st == ST_OK) st = run_thread(r);
    profile_close(r);
    free(r);
    if (st != ST_OK) profile_run_free(result);
    return st;
}

void profile_run_free(struct profile_run_result *result)
{
    free(result->layers);
    free(result->move_seconds);
    free(result->is_disturbed);
    free(result->rows);
    for (uint32_t i = 0; i < result->card_count; i++) card_times_free(&result->cards[i]);
    free(result->cards);
    *result = (struct profile_run_result){0};
}
