/* Simulates a plan: makes a graph and data for it, trains the pipeline,
 * reads the clock as micro-batches end. */
#include "engine/plan/simulate.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/stop.h"
#include "engine/pipe/feed.h"
#include "engine/pipe/pipeline.h"
#include "graph/cut.h"
#include "sched/cost.h"

/* The greatest output of a layer for a micro-batch: a pipeline of hundreds of slots stays small, and moving
 * an output takes a few microseconds. */
#define LAYER_BYTES_MAX 65536.0
/* Micro-batches a step and stage under bsp: filling and draining a pipeline of S stages
 * takes at most S - 1 more. */
#define STEP_MICRO_COUNT 20u

/* --- graphs ----------------------------------------------------------------------------------- */

/* The assignments of a run, as for --set, which override the model's settings. */
#define ASSIGNMENT_COUNT 5u
static void assignments_make(const struct simulate_shape *shape, char texts[ASSIGNMENT_COUNT][64])
{
    uint32_t micro_count = sync_by_lane(shape->sync) ? shape->micro_count : 1;
    snprintf(texts[0], sizeof texts[0], "train.sync=%s", cfg_syncs[shape->sync]);
    snprintf(texts[1], sizeof texts[1], "train.batch=%u", SIMULATE_MICRO * micro_count);
    snprintf(texts[2], sizeof texts[2], "train.micro=%u", SIMULATE_MICRO);
    snprintf(texts[3], sizeof texts[3], "train.lanes=1");
    snprintf(texts[4], sizeof texts[4], "train.pipelines=1");
}

status simulate_graph_open(struct graph *graph, const char *path, const char *const *set, uint32_t set_count,
                           const struct simulate_shape *shape)
{
    char texts[ASSIGNMENT_COUNT][64];
    const char **all = calloc(set_count + ASSIGNMENT_COUNT, sizeof *all);
    if (all == NULL) FAIL(MEMORY, "no memory to open %s", path);
    assignments_make(shape, texts);
    for (uint32_t i = 0; i < set_count; i++) all[i] = set[i];
    for (uint32_t i = 0; i < ASSIGNMENT_COUNT; i++) all[set_count + i] = texts[i];
    status st = graph_open_set(graph, path, all, set_count + ASSIGNMENT_COUNT);
    free(all);
    return st;
}

/* Columns of a layer's output, unscaled: as many bytes cross the cut after the layer forward as backward. */
static double layer_cols(const struct instance *instance, uint32_t layer)
{
    double cut_bytes = instance->layers[layer].cut_bytes;
    if (cut_bytes > 0) return cut_bytes / (2 * sizeof(float));
    return instance->layers[layer + 1].in_bytes / sizeof(float);
}

status simulate_graph_make(struct graph *graph, const struct instance *instance, const struct simulate_shape *shape,
                           double *factor)
{
    uint32_t L = instance->layer_count;
    char *text = NULL, texts[ASSIGNMENT_COUNT][64];
    const char *set[ASSIGNMENT_COUNT];
    size_t bytes;
    *factor = 1;
    for (uint32_t l = 0; l + 1 < L; l++) {
        double layer_bytes = layer_cols(instance, l) * sizeof(float) * SIMULATE_MICRO;
        if (layer_bytes > LAYER_BYTES_MAX * *factor) *factor = layer_bytes / LAYER_BYTES_MAX;
    }
    *factor = ceil(*factor);
    FILE *stream = open_memstream(&text, &bytes);
    if (stream == NULL) FAIL(MEMORY, "no memory for a model of %u layers", L);
    /* The first layer has parameters; else nothing would need a gradient. */
    fprintf(stream, "[data]\ndense = I1\n[store]\nram = 1MiB\n");
    for (uint32_t l = 0; l < L; l++) {
        double cols = l + 1 < L ? rint(layer_cols(instance, l) / *factor) : 1;
        if (l == 0)
            fprintf(stream, "[fc l0]\ninput = dense\nunits = %.0f\n", fmax(cols, 1));
        else
            fprintf(stream, "[busy l%u]\ninput = l%u\nrounds = 0\nunits = %.0f\n", l, l - 1, fmax(cols, 1));
    }
    fprintf(stream, "[loss end]\ninput = l%u\nlayer = l%u\n", L - 1, L - 1);
    bool is_whole = fclose(stream) == 0 && text != NULL;
    assignments_make(shape, texts);
    for (uint32_t i = 0; i < ASSIGNMENT_COUNT; i++) set[i] = texts[i];
    status st = is_whole ? graph_compile(graph, "the instance's graph", text, bytes, set, ASSIGNMENT_COUNT, NULL)
                         : status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for a model of %u layers", L);
    free(text);
    return st;
}

status simulate_names_make(struct graph *names, const struct instance *instance)
{
    uint32_t L = instance->layer_count;
    size_t string_bytes = 0;
    for (uint32_t l = 0; l < L; l++) string_bytes += strlen(instance->layers[l].name) + 1;
    struct graph_header *header = calloc(1, sizeof *header + L * sizeof(struct graph_layer) + string_bytes);
    if (header == NULL) FAIL(MEMORY, "no memory for the names of %u layers", L);
    struct graph_layer *layers = (struct graph_layer *)(header + 1);
    char *strings = (char *)(layers + L);
    header->model_hash = instance->graph_hash;
    size_t used = 0;
    for (uint32_t l = 0; l < L; l++) {
        size_t bytes = strlen(instance->layers[l].name) + 1;
        memcpy(strings + used, instance->layers[l].name, bytes);
        layers[l].name = (uint32_t)used;
        used += bytes;
    }
    *names = (struct graph){
        .header = header, .layers = layers, .layer_count = L, .strings = strings, .text = "", .owned = header};
    return ST_OK;
}

/* --- plans ------------------------------------------------------------------------------------ */

static void types_turn(struct plan *plan)
{
    for (uint32_t t = 0; t < plan->type_count; t++) plan->types[t].device = RESOURCE_SIM;
    for (uint32_t s = 0; s < plan->stage_count; s++) plan->stages[s].replicas = 1;
    plan->service_cores = 0;
    plan->time_scale = 1;
}

/* Fills in times that a plan does not give, by the cost model. Types are found in the instance by name. */
static status times_fill(struct plan *plan, const struct instance *instance)
{
    struct cost_model model;
    struct cost_stage stages[INSTANCE_LAYERS_MAX];
    status st = ST_OK;
    bool is_full = true;
    for (uint32_t s = 0; s < plan->stage_count; s++) is_full = is_full && plan->stages[s].et > 0;
    if (is_full) return ST_OK;
    TRY(cost_model_open(&model, instance));
    for (uint32_t s = 0; s < plan->stage_count && st == ST_OK; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        const char *name = plan->types[stage->type].name;
        uint32_t type = 0;
        while (type < instance->type_count && strcmp(instance->types[type].resource.name, name) != 0) type++;
        if (type == instance->type_count) {
            st = status_fail(ST_INVALID, __FILE__, __LINE__,
                             "stages[%u] of the plan is on \"%s\", of which %s has no times", s, name, instance->name);
            continue;
        }
        stages[s] = (struct cost_stage){.first = stage->first_layer,
                                        .last = stage->last_layer,
                                        .type = type,
                                        .time = cost_segment(&model, stage->first_layer, stage->last_layer, type)};
    }
    if (st == ST_OK) cost_links_add(&model, stages, plan->stage_count);
    for (uint32_t s = 0; s < plan->stage_count && st == ST_OK; s++)
        if (!(plan->stages[s].et > 0)) plan->stages[s].et = cost_et(&stages[s].time, plan->stages[s].k);
    cost_model_free(&model);
    return st;
}

status simulate_plan_turn(struct plan *plan, const struct graph *names, const struct instance *instance)
{
    char name[128];
    if (instance) TRY(times_fill(plan, instance));
    for (uint32_t s = 0; s < plan->stage_count; s++)
        if (!(plan->stages[s].et > 0))
            FAIL(INVALID, "stages[%u] of the plan (%s): expected et, the seconds that an example takes, found none", s,
                 plan_stage_name(plan, names, s, name, sizeof name));
    types_turn(plan);
    return ST_OK;
}

status simulate_plan_make(struct plan *plan, const struct solution *solution)
{
    const struct instance *instance = solution->instance;
    size_t types_bytes = instance->type_count * sizeof *plan->types;
    uint8_t *memory = calloc(1, types_bytes + solution->stage_count * sizeof *plan->stages);
    if (memory == NULL) FAIL(MEMORY, "no memory for a plan of %u stages", solution->stage_count);
    *plan = (struct plan){.types = (struct resource_type *)memory,
                          .stages = (struct plan_stage *)(memory + types_bytes),
                          .type_count = instance->type_count,
                          .stage_count = solution->stage_count,
                          .method = solution->method,
                          .memory = memory};
    for (uint32_t t = 0; t < plan->type_count; t++) plan->types[t] = instance->types[t].resource;
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        const struct cost_stage *of = &solution->stages[s];
        plan->stages[s] = (struct plan_stage){.first_layer = of->first,
                                              .last_layer = of->last,
                                              .type = of->type,
                                              .k = of->k,
                                              .replicas = 1,
                                              .et = of->et};
    }
    types_turn(plan);
    return ST_OK;
}

/* --- data ------------------------------------------------------------------------------------- */

/* Criteo lines in memory: a label, and nothing else to parse or store. */
struct lines {
    int fd;
    char path[64];
};

static status lines_make(struct lines *lines, uint64_t count)
{
    enum { COLUMNS = 13 + 26, LINE_BYTES = 1 + COLUMNS + 1 };
    lines->fd = memfd_create("examples", MFD_CLOEXEC);
    if (lines->fd < 0) FAIL(SYSTEM, "cannot keep examples in memory: %s", strerror(errno));
    snprintf(lines->path, sizeof lines->path, "/proc/self/fd/%d", lines->fd);
    char line[LINE_BYTES], block[64 * LINE_BYTES];
    memset(line, '\t', sizeof line);
    line[LINE_BYTES - 1] = '\n';
    for (uint32_t i = 0; i < 64; i++) {
        line[0] = (char)('0' + i % 2);
        memcpy(block + (size_t)i * LINE_BYTES, line, LINE_BYTES);
    }
    for (uint64_t at = 0; at < count; at += 64) {
        size_t bytes = (count - at < 64 ? (size_t)(count - at) : 64) * LINE_BYTES;
        for (size_t done = 0; done < bytes;) {
            ssize_t written = write(lines->fd, block + done, bytes - done);
            if (written < 0 && errno == EINTR) continue;
            if (written < 0) FAIL(SYSTEM, "cannot keep %" PRIu64 " examples in memory: %s", count, strerror(errno));
            done += (size_t)written;
        }
    }
    return ST_OK;
}

static void lines_free(struct lines *lines)
{
    if (lines->fd >= 0) close(lines->fd);
}

/* --- a run ------------------------------------------------------------------------------------ */

struct run {
    const struct simulate_options *options;
    struct ini ini;
    struct settings settings;
    struct model model;
    struct cores cores;
    struct pipeline *pipeline;
    struct feed *feed;
    struct lines lines;
    uint64_t *done_ns; /* [step_count]: when each step was done */
    uint64_t step_count;
};

static void step_done(void *context, const struct step_done *done)
{
    struct run *run = context;
    CHECK(done->step == run->model.progress.step && done->step < run->step_count);
    run->done_ns[done->step] = clock_ns();
    run->model.progress.step++;
    run->model.progress.examples += done->example_count;
}

static bool tick(void *context)
{
    (void)context;
    return stop_requested();
}

static status run_open(struct run *run, struct simulation *simulation)
{
    const struct simulate_options *o = run->options;
    const struct graph *g = o->graph;
    bool is_bsp = sync_by_lane(o->sync);
    struct batch_shape shape = graph_batch(g);
    simulation->step_micro_count = batch_micro_count(shape);
    /* About two for each stage: the slowest stage has work while a micro-batch goes
     * through the others and back. */
    simulation->in_flight = 2 * o->plan->stage_count + 2;
    if (is_bsp && simulation->in_flight > simulation->step_micro_count)
        simulation->in_flight = simulation->step_micro_count;
    run->step_count = is_bsp ? 1 + (o->batches + simulation->step_micro_count - 1) / simulation->step_micro_count
                             : o->batches + 2 * (uint64_t)simulation->in_flight;
    TRY(ini_parse(&run->ini, "the graph", g->text, g->text_bytes));
    TRY(settings_read(&run->ini, &run->settings));
    TRY(model_open(&run->model, g, &(struct model_budget){.ram_bytes = run->settings.store_ram}));
    model_init(&run->model);
    cores_allowed(&run->cores);
    struct pipeline_options pipeline = {.graph = g,
                                        .model = &run->model,
                                        .plan = o->plan,
                                        .cores = &run->cores,
                                        .core_count = run->cores.count,
                                        .training = true,
                                        .sync = o->sync,
                                        .in_flight = simulation->in_flight,
                                        .pipeline_count = 1};
    TRY(pipeline_open(&run->pipeline, &pipeline));
    /* Whole steps, so that no pass ends within a step. */
    uint64_t steps_a_pass = shape.batch >= 4096 ? 1 : 4096 / shape.batch;
    TRY(lines_make(&run->lines, steps_a_pass * shape.batch));
    struct feed_options feed = {
        .graph = g,
        .model = &run->model,
        .training = true,
        .input_count = pipeline_input_count(run->pipeline),
        .epochs = UINT64_MAX,
        .steps_max = run->step_count,
        .reader = {.format = READER_CRITEO, .paths = run->lines.path, .part = "reader", .notices = &log_notices}};
    TRY(feed_open(&run->feed, &feed));
    feed_bell_set(run->feed, pipeline_feed_bell(run->pipeline));
    run->done_ns = calloc(run->step_count, sizeof *run->done_ns);
    if (run->done_ns == NULL) FAIL(MEMORY, "no memory for the times of %" PRIu64 " steps", run->step_count);
    return ST_OK;
}

static void run_close(struct run *run)
{
    pipeline_forget(run->pipeline);
    feed_close(run->feed);
    pipeline_close(run->pipeline);
    model_close(&run->model);
    ini_free(&run->ini);
    lines_free(&run->lines);
    free(run->done_ns);
}

static status run_train(struct run *run)
{
    struct train_job job = {
        .feed = run->feed, .step_until = UINT64_MAX, .step_done = step_done, .tick = tick, .context = run};
    bool is_end;
    TRY(feed_start(run->feed, NULL));
    TRY(pipeline_train(run->pipeline, &job, &is_end));
    if (!is_end) FAIL(STOPPED, "stopped by a signal during the simulation");
    TRY(feed_result(run->feed));
    CHECK(run->model.progress.step == run->step_count);
    return ST_OK;
}

/* Measures between two steps outside the filling and draining of the whole run. */
static void throughput_measure(const struct run *run, struct simulation *simulation)
{
    uint32_t left_out = sync_by_lane(run->options->sync) ? 0 : simulation->in_flight;
    uint64_t first = left_out ? left_out - 1 : 0, last = run->step_count - 1 - left_out;
    double seconds = (double)(run->done_ns[last] - run->done_ns[first]) * 1e-9;
    simulation->micro_count = run->step_count * simulation->step_micro_count;
    simulation->measured_count = (last - first) * simulation->step_micro_count;
    simulation->measured =
        (double)(simulation->measured_count * SIMULATE_MICRO) / seconds * run->options->plan->time_scale;
}

static status stages_tell(const struct run *run, struct simulation *simulation)
{
    const struct simulate_options *o = run->options;
    struct pipeline_figures figures;
    pipeline_figures(run->pipeline, &figures);
    uint64_t examples = run->model.progress.examples;
    for (uint32_t s = 0; s < o->plan->stage_count; s++) {
        const struct plan_stage *of = &o->plan->stages[s];
        const struct stage_figures *f = &figures.stage[s];
        struct cut cut;
        TRY(graph_cut(o->graph, of->last_layer, &cut, NULL, NULL, NULL, NULL));
        uint64_t busy_ns = f->busy_ns[WORK_FORWARD] + f->busy_ns[WORK_BACKWARD];
        struct simulated_stage *stage = &simulation->stages[s];
        *stage =
            (struct simulated_stage){.type = o->plan->types[of->type].name,
                                     .units = of->k,
                                     .et = of->et,
                                     .et_measured = (double)busy_ns * 1e-9 / (double)examples / o->plan->time_scale,
                                     .predicted_bytes = (cut.forward_bytes + cut.backward_bytes) * examples +
                                                        cut.micro_bytes * simulation->micro_count,
                                     .moved_bytes = f->cut_bytes};
        (void)plan_stage_name(o->plan, o->names, s, stage->name, sizeof stage->name);
    }
    return ST_OK;
}

uint32_t simulate_step_micro_count(uint32_t stage_count) { return STEP_MICRO_COUNT * stage_count; }

static void time_scale_set(const struct simulate_options *o, double et_max)
{
    double micro_seconds = fmax(SIMULATE_MICRO_SECONDS, SIMULATE_STAGE_SECONDS * o->plan->stage_count);
    o->plan->time_scale = o->time_scale > 0 ? o->time_scale : micro_seconds / (et_max * SIMULATE_MICRO);
}

status simulate_run(struct simulation *simulation, const struct simulate_options *o)
{
    double et_max = 0;
    CHECK(o->graph->header->micro == SIMULATE_MICRO && o->batches > 0);
    for (uint32_t s = 0; s < o->plan->stage_count; s++) et_max = fmax(et_max, o->plan->stages[s].et);
    CHECK(et_max > 0);
    time_scale_set(o, et_max);
    *simulation = (struct simulation){
        .time_scale = o->plan->time_scale, .predicted = 1 / et_max, .stage_count = o->plan->stage_count};
    simulation->stages = calloc(simulation->stage_count, sizeof *simulation->stages);
    if (simulation->stages == NULL) FAIL(MEMORY, "no memory for the figures of %u stages", simulation->stage_count);
    struct run run = {.options = o, .lines.fd = -1};
    status st = run_open(&run, simulation);
    if (st == ST_OK) st = run_train(&run);
    if (st == ST_OK) {
        throughput_measure(&run, simulation);
        st = stages_tell(&run, simulation);
    }
    run_close(&run);
    if (st != ST_OK) simulation_free(simulation);
    return st;
}

void simulation_free(struct simulation *simulation)
{
    free(simulation->stages);
    *simulation = (struct simulation){0};
}
