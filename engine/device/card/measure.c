/* Measures each layer as a stage of its own: many passes in a row, timed together. Then measures all layers
 * as one stage, driven by as many threads as a pipeline has for it. */
#include "engine/device/card/measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/fit.h"
#include "engine/base/stop.h"
#include "engine/base/thread.h"
#include "engine/device/card/stage.h"

#define SAMPLES        7u
#define SAMPLE_SECONDS 2e-3 /* at least: many times what a launch and the clock cost */
#define REPEATS_MAX    256u
/* Most micro-batches that a stream has in one go where several streams work; else its share of a step. */
#define STREAM_MICROS 10.0
/* Least share of its time alone that a layer with rows keeps. */
#define ROWS_SHARE_MIN 0.05
/* Share of the time that transfers may take. */
#define MOVE_SHARE 0.1

uint32_t cards_here(const struct resource_type *type)
{
    const char *why;
    const uint32_t count = gpu_count(&why), first = type->device_index;
    return resource_is_card(type->device) && first < count ? count - first : 0;
}

/* Layers that a card has in one stage. */
struct run_of_layers {
    uint32_t first, last;
};

struct measure {
    const struct card_measure_options *o;
    const struct graph *graph;
    struct card_times *times;
    struct plan plan; /* a run's stage has the number of its first layer */
    struct plan_stage *stages;
    struct run_of_layers *runs; /* [layer_count]: the layers that each is tied to */
    struct extent extent;       /* of the run that is measured, in the arena */
    struct arena extent_arena;
    struct card_stage *stage;
    struct device *device; /* the first of its streams */
    bool *has_rows;        /* [layer_count]: at a run's first layer, whether it looks rows up */
    double sample_limit;   /* seconds that all samples of one figure may take */
};

static double seconds_since(uint64_t begin_ns) { return (double)(clock_ns() - begin_ns) * 1e-9; }

static bool has_layer(const struct run_of_layers *of, uint32_t layer)
{
    return layer >= of->first && layer <= of->last;
}

/* The nodes of layers in a pass: graph nodes [*begin, *begin + count). */
static uint32_t layer_nodes(const struct graph *g, const struct run_of_layers *of, bool is_forward, uint32_t *begin)
{
    uint32_t first = is_forward ? 0 : g->forward_count, end = is_forward ? g->forward_count : g->node_count;
    while (first < end && !has_layer(of, g->nodes[first].layer)) first++;
    *begin = first;
    while (first < end && has_layer(of, g->nodes[first].layer)) first++;
    return first - *begin;
}

/* Runs what is timed, `times` times. */
typedef status timed(struct measure *m, const void *what, uint32_t times);
struct timed_pass {
    const struct op_context *context;
    struct run_of_layers layers;
};

/* Both passes as in training, with the copies that a micro-batch's rows need:
 * no pass over rows works without them. */
static status rows_pass_run(struct measure *m, const void *what, uint32_t times)
{
    const struct timed_pass *p = what;
    for (uint32_t i = 0; i < times; i++)
        for (int way = 0; way < 2; way++) {
            uint32_t begin, count = layer_nodes(m->graph, &p->layers, way == 0, &begin);
            TRY(device_submit(m->device, p->context, m->graph->nodes + begin, count));
        }
    return ST_OK;
}

static status pass_run(struct measure *m, const void *what, uint32_t times)
{
    const struct timed_pass *p = what;
    for (int way = 0; way < 2; way++) {
        uint32_t begin, count = layer_nodes(m->graph, &p->layers, way == 0, &begin);
        TRY(card_device_repeat(m->device, p->context, m->graph->nodes + begin, count, times));
    }
    return ST_OK;
}

static status update_run(struct measure *m, const void *what, uint32_t times)
{
    const struct graph *g = m->graph;
    (void)what;
    for (uint32_t i = 0; i < times; i++)
        for (uint32_t r = 0; r < m->extent.run_count; r++) {
            const struct param_run *run = &m->extent.runs[r];
            const struct graph_optimizer *optimizer = &g->optimizers[g->updates[run->update].optimizer];
            const struct param_update update = {.optimizer = optimizer,
                                                .weight = m->o->model->param + run->offset,
                                                .state = m->o->model->state + run->state_offset,
                                                .state_stride = run->state_stride,
                                                .lanes = g->header->lanes,
                                                .count = run->count,
                                                .scale = 1,
                                                .rate = optimizer_rate(g, optimizer, 1, 0),
                                                .t = 1};
            TRY(device_update_params(m->device, &update));
        }
    return ST_OK;
}

/* Seconds of one run: the median of samples, each of as many runs as a sample should have. */
static status figure_take(struct measure *m, timed *run, const void *what, double *seconds)
{
    double samples[SAMPLES];
    uint32_t taken = 0, times = 1;
    uint64_t begin_ns = clock_ns(), sample_ns = begin_ns;
    if (stop_requested()) FAIL(STOPPED, "stopped by a signal while a card was measured; nothing of it is kept");
    TRY(run(m, what, 1)); /* warms up */
    const double once = seconds_since(sample_ns);
    if (once < SAMPLE_SECONDS) times = (uint32_t)(SAMPLE_SECONDS / (once + 1e-9)) + 1;
    if (times > REPEATS_MAX) times = REPEATS_MAX;
    do {
        sample_ns = clock_ns();
        TRY(run(m, what, times));
        samples[taken++] = seconds_since(sample_ns) / times;
    } while (taken < SAMPLES && seconds_since(begin_ns) < m->sample_limit);
    *seconds = fit_quantile(samples, taken, 0.5);
    return ST_OK;
}

static status extent_open(struct measure *m, const struct run_of_layers *of)
{
    struct layout sum = {0}, taken = {.arena = &m->extent_arena};
    m->extent = (struct extent){0};
    extent_nodes_find(&m->extent, m->graph, of->first, of->last);
    extent_layout(&m->extent, &sum, m->graph, m->o->model, 1);
    TRY(arena_open(&m->extent_arena, "cards", sum.bytes));
    extent_layout(&m->extent, &taken, m->graph, m->o->model, 1);
    return ST_OK;
}

static status stage_open(struct measure *m, const struct run_of_layers *of)
{
    const struct card_measure_options *o = m->o;
    TRY(extent_open(m, of));
    m->stages[of->first] = (struct plan_stage){.first_layer = of->first, .last_layer = of->last, .k = 1, .replicas = 1};
    const struct device_stage_options options = {.graph = m->graph,
                                                 .model = o->model,
                                                 .plan = &m->plan,
                                                 .stage = of->first,
                                                 .extent = &m->extent,
                                                 .slots = o->memory,
                                                 .slots_bytes = o->memory_bytes,
                                                 .slot_count = o->slot_count,
                                                 .input_count = o->slot_count,
                                                 .lanes = {.count = m->graph->header->lanes},
                                                 .row_bytes = o->row_bytes,
                                                 .training = true};
    TRY(card_stage_open(&m->stage, &(struct card_stage_options){.of = &options, .replica_count = 1}));
    TRY(card_device_open(&m->device, m->stage));
    return device_begin(m->device, o->memory, o->memory_bytes);
}

static void stage_close(struct measure *m)
{
    device_close(m->device);
    card_stage_close(m->stage);
    arena_close(&m->extent_arena);
    m->device = NULL;
    m->stage = NULL;
}

/* Divides a run's seconds over its layers. Layers of shorter runs within it keep their times; the others get
 * equal shares of the rest. As a card has all of the run or none, only the sum counts. */
static void seconds_give(const struct measure *m, const struct run_of_layers *of, double seconds, double *layers)
{
    uint32_t count = 0;
    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t l = of->first; l <= of->last; l++) {
            const bool is_own = m->runs[l].first == of->first && m->runs[l].last == of->last;
            if (pass == 0 && is_own) count++;
            if (pass == 0 && !is_own) seconds -= layers[l];
            if (pass == 1 && is_own) layers[l] = seconds > 0 ? seconds / count : 0;
        }
}

/* A slot's context on the stage. */
static struct op_context slot_context_of(const struct measure *m, uint32_t slot)
{
    struct op_context context = m->o->contexts[slot];
    context.slot = context.input = slot;
    return context;
}

/* Both passes of a slot, as in training. */
static status slot_pass(const struct measure *m, const struct run_of_layers *of, uint32_t slot)
{
    const struct op_context context = slot_context_of(m, slot);
    return rows_pass_run((struct measure *)(uintptr_t)m, &(struct timed_pass){&context, *of}, 1);
}

/* Runs three steps of all slots. Rows move in at the end of the second step that has them, so the third step
 * is like all later ones. *rows_seconds: of the third step's update of rows, scaled to a whole step. */
static status rows_settle(struct measure *m, const struct run_of_layers *of, double *rows_seconds)
{
    *rows_seconds = 0;
    for (uint32_t step = 0; m->stage->rows.table_count > 0 && step < 3; step++) {
        for (uint32_t slot = 0; slot < m->o->slot_count; slot++) TRY(slot_pass(m, of, slot));
        const uint64_t begin_ns = clock_ns();
        for (uint32_t i = 0; i < m->stage->rows.table_count; i++)
            TRY(m->o->rows_update(m->o->rows_context, m->device, m->stage->rows.tables[i].table));
        *rows_seconds = seconds_since(begin_ns) * m->o->step_share;
    }
    return ST_OK;
}

/* The figures of a run of layers; INFINITY where it cannot be opened as a stage. */
static status run_measure(struct measure *m, const struct run_of_layers *of)
{
    const struct card_measure_options *o = m->o;
    struct op_context context = o->contexts[0];
    struct input input = *o->slots[0].input; /* a copy, whose micro-batch may get fewer examples */
    const double examples = input.batch.example_count;
    const uint32_t layer_count = m->graph->layer_count;
    const status st = stage_open(m, of);
    if (st == ST_INVALID) {
        for (uint32_t size = 0; size < o->size_count; size++)
            for (uint32_t l = of->first; l <= of->last; l++)
                if (m->runs[l].first == of->first && m->runs[l].last == of->last)
                    m->times->pass[size * layer_count + l] = INFINITY;
        return ST_OK;
    }
    TRY(st);
    context.batch = &input.batch;
    context.slot = context.input = 0;
    const struct timed_pass pass = {&context, *of};
    double rows_seconds, update_seconds = 0;
    TRY(slot_pass(m, of, 0)); /* copies to the card what the layers read */
    TRY(rows_settle(m, of, &rows_seconds));
    m->has_rows[of->first] = m->stage->rows.table_count > 0;
    for (uint32_t size = 0; size < o->size_count; size++) {
        timed *run = m->has_rows[of->first] ? rows_pass_run : pass_run;
        /* A pass over rows has the whole micro-batch: fewer examples take their share of its time. */
        input.batch.example_count = run == pass_run ? (uint32_t)o->sizes[size] : (uint32_t)examples;
        double seconds = 0;
        TRY(figure_take(m, run, &pass, &seconds));
        if (run == rows_pass_run) seconds *= o->sizes[size] / examples;
        seconds_give(m, of, seconds, &m->times->pass[size * layer_count]);
    }
    if (m->extent.run_count > 0) TRY(figure_take(m, update_run, NULL, &update_seconds));
    seconds_give(m, of, update_seconds + rows_seconds, m->times->update);
    return ST_OK;
}

/* --- all layers, several streams ---------------------------------------------------------------- */

/* A stream of the stage and its slot, as a worker of the pipeline drives them: backward
 * passes of one lane one at a time. */
struct stream {
    const struct measure *m;
    struct device *device;
    struct op_context context;
    pthread_mutex_t *lane; /* of its micro-batch */
    uint32_t times;
    struct failure end;
    pthread_t thread;
};
struct streams {
    struct stream stream[CARD_STREAMS];
    pthread_mutex_t lane[CARD_STREAMS];
    uint32_t count;
};

static status stream_run(const struct stream *s)
{
    const struct graph *g = s->m->graph;
    for (uint32_t i = 0; i < s->times; i++) {
        TRY(device_submit(s->device, &s->context, g->nodes, g->forward_count));
        pthread_mutex_lock(s->lane);
        const status st =
            device_submit(s->device, &s->context, g->nodes + g->forward_count, g->node_count - g->forward_count);
        pthread_mutex_unlock(s->lane);
        TRY(st);
    }
    return ST_OK;
}
static void *stream_main(void *argument)
{
    struct stream *s = argument;
    failure_keep(&s->end, stream_run(s));
    return NULL;
}

/* Micro-batches of a stream. */
static uint32_t stream_micros(const struct measure *m) { return (uint32_t)fmin(m->o->step_share, STREAM_MICROS); }

/* Runs `times` times as many micro-batches on each stream; the caller drives the first. */
static status streams_run(struct measure *m, const void *what, uint32_t times)
{
    struct streams *all = (struct streams *)(uintptr_t)what;
    uint32_t started = 1;
    int error = 0;
    for (uint32_t i = 0; i < all->count; i++) all->stream[i].times = stream_micros(m) * times;
    for (; started < all->count && error == 0; started += error == 0)
        error = thread_start(&all->stream[started].thread, stream_main, &all->stream[started]);
    stream_main(&all->stream[0]);
    for (uint32_t i = 1; i < started; i++) pthread_join(all->stream[i].thread, NULL);
    if (error) FAIL(SYSTEM, "cannot start a thread to measure a card: %s", strerror(error));
    for (uint32_t i = 0; i < started; i++) TRY(failure_adopt(&all->stream[i].end));
    return ST_OK;
}

/* Seconds of a micro-batch while each stream has one under way. The stage is open. */
static status streams_measure(struct measure *m, const struct run_of_layers *of, double *seconds)
{
    struct streams all = {.count = m->o->slot_count};
    double rows_seconds;
    status st = ST_OK;
    TRY(rows_settle(m, of, &rows_seconds));
    CHECK(all.count >= 1 && all.count <= CARD_STREAMS && m->o->step_share >= 1);
    for (uint32_t i = 0; i < all.count; i++) {
        const uint32_t lane = batch_lane_of(graph_batch(m->graph), m->o->contexts[i].batch->micro_index);
        CHECK(pthread_mutex_init(&all.lane[i], NULL) == 0);
        all.stream[i] = (struct stream){.m = m,
                                        .device = i == 0 ? m->device : NULL,
                                        .context = slot_context_of(m, i),
                                        .lane = &all.lane[lane % all.count]};
    }
    for (uint32_t i = 1; i < all.count && st == ST_OK; i++) st = card_device_open(&all.stream[i].device, m->stage);
    if (st == ST_OK) st = figure_take(m, streams_run, &all, seconds);
    *seconds /= stream_micros(m) * all.count;
    for (uint32_t i = 0; i < all.count; i++) {
        if (i > 0 && all.stream[i].device) device_close(all.stream[i].device);
        pthread_mutex_destroy(&all.lane[i]);
    }
    return st;
}

/* Corrects the times of layers that look rows up.
 * If the card cannot have all layers, their times alone stand. */
static status rows_correct(struct measure *m)
{
    const uint32_t layer_count = m->graph->layer_count;
    const struct run_of_layers whole = {0, layer_count - 1};
    double *pass = m->times->pass, rows = 0, others = 0, seconds = 0;
    for (uint32_t l = 0; l < layer_count; l++) *(m->has_rows[m->runs[l].first] ? &rows : &others) += pass[l];
    if (rows == 0 || m->o->size_count == 0 || isinf(rows + others)) return ST_OK;
    status st = stage_open(m, &whole);
    if (st == ST_INVALID || st == ST_MEMORY) return ST_OK;
    if (st == ST_OK) st = streams_measure(m, &whole, &seconds);
    TRY(st);
    double share = (seconds - others) / rows;
    if (share > 1) return ST_OK;
    if (share < ROWS_SHARE_MIN) share = ROWS_SHARE_MIN;
    for (uint32_t i = 0; i < m->o->size_count * layer_count; i++)
        if (m->has_rows[m->runs[i % layer_count].first]) pass[i] *= share;
    return ST_OK;
}

/* --- moves -------------------------------------------------------------------------------------- */

static status move_samples(struct measure *m, struct gpu *gpu, struct gpu_stream *stream, struct gpu_event *event,
                           void *card, void *host)
{
    for (uint32_t i = 0; i < m->o->move_count; i++) {
        double samples[SAMPLES];
        for (uint32_t k = 0; k < SAMPLES; k++) {
            const uint64_t begin_ns = clock_ns();
            for (int way = 0; way < 2; way++) {
                TRY(gpu_copy(gpu, stream, way ? host : card, way ? card : host, (size_t)m->o->move_bytes[i]));
                TRY(gpu_record(gpu, stream, event));
                TRY(gpu_wait(gpu, event));
            }
            samples[k] = seconds_since(begin_ns) / 2;
        }
        m->times->move[i] = fit_quantile(samples, SAMPLES, 0.5);
        if (m->times->move[i] < 1e-9) m->times->move[i] = 1e-9;
    }
    return ST_OK;
}

static status moves_measure(struct measure *m, struct gpu *gpu)
{
    struct gpu_stream *stream = NULL;
    struct gpu_event *event = NULL;
    void *card = NULL, *host = NULL;
    double most = 1;
    status st;
    for (uint32_t i = 0; i < m->o->move_count; i++)
        if (m->o->move_bytes[i] > most) most = m->o->move_bytes[i];
    TRY_GOTO(gpu_stream_open(gpu, &stream), done);
    TRY_GOTO(gpu_event_open(gpu, &event), done);
    TRY_GOTO(gpu_take(gpu, (size_t)most, "measuring transfers", &card), done);
    TRY_GOTO(gpu_host_take(gpu, (size_t)most, "measuring transfers", &host), done);
    st = move_samples(m, gpu, stream, event, card, host);
done:
    gpu_stream_close(gpu, stream); /* waits for what a failure has left under way */
    if (event) gpu_event_close(gpu, event);
    gpu_host_give(gpu, host);
    gpu_give(gpu, card);
    return st;
}

/* --- all ------------------------------------------------------------------------------------------ */

static status all_measure(struct measure *m)
{
    const struct card_measure_options *o = m->o;
    const uint32_t layer_count = m->graph->layer_count;
    struct card_times *times = m->times;
    times->pass = calloc((size_t)o->size_count * layer_count + 1, sizeof *times->pass);
    times->update = calloc(layer_count + 1, sizeof *times->update);
    times->move = calloc(o->move_count + 1, sizeof *times->move);
    m->stages = calloc(layer_count, sizeof *m->stages);
    m->runs = calloc(layer_count, sizeof *m->runs);
    m->has_rows = calloc(layer_count, sizeof *m->has_rows);
    if (times->pass == NULL || times->update == NULL || times->move == NULL || m->stages == NULL || m->runs == NULL ||
        m->has_rows == NULL)
        FAIL(MEMORY, "no memory for the times of a card");
    uint32_t *ends = calloc(2 * (size_t)layer_count, sizeof *ends);
    if (ends == NULL) FAIL(MEMORY, "no memory for the ties of layers");
    graph_ties(m->graph, ends, ends + layer_count);
    for (uint32_t l = 0; l < layer_count; l++) m->runs[l] = (struct run_of_layers){ends[l], ends[layer_count + l]};
    free(ends);
    m->plan = (struct plan){.types = (struct resource_type *)(uintptr_t)o->type,
                            .type_count = 1,
                            .stages = m->stages,
                            .stage_count = layer_count,
                            .method = ""};
    m->sample_limit = o->seconds * (1 - MOVE_SHARE) / (layer_count * (o->size_count + 1) + 1);
    /* Keeps the card open: else each stage would open and close it, which takes a good part of a second. */
    struct gpu *gpu;
    TRY(gpu_open(o->type->device_index, &gpu));
    status st = moves_measure(m, gpu);
    /* Short runs first: a long run divides what its short runs leave. */
    for (uint32_t count = 1; count <= layer_count; count++)
        for (uint32_t l = 0; l < layer_count && st == ST_OK; l++) {
            const struct run_of_layers *of = &m->runs[l];
            bool is_first = of->last - of->first + 1 == count;
            for (uint32_t k = of->first; k < l && is_first; k++)
                is_first = m->runs[k].first != of->first || m->runs[k].last != of->last;
            if (!is_first) continue;
            st = run_measure(m, of);
            stage_close(m);
        }
    if (st == ST_OK) {
        st = rows_correct(m);
        stage_close(m);
    }
    gpu_close(gpu);
    return st;
}

status card_measure(struct card_times *times, const struct card_measure_options *o)
{
    struct measure m = {.o = o, .graph = o->graph, .times = times};
    *times = (struct card_times){0};
    const status st = all_measure(&m);
    free(m.stages);
    free(m.runs);
    free(m.has_rows);
    if (st != ST_OK) card_times_free(times);
    return st;
}

void card_times_free(struct card_times *times)
{
    free(times->pass);
    free(times->update);
    free(times->move);
    *times = (struct card_times){0};
}
