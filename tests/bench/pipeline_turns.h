/* What pipeline_bench compares in turns: pipelines, the bare list of ops, and threads that share nothing; and
 * how it prints ratios between their turns. See the head of pipeline_bench.c. */
#ifndef HETERPS_TESTS_PIPELINE_TURNS_H
#define HETERPS_TESTS_PIPELINE_TURNS_H

#include <pthread.h>

#include "engine/base/clock.h"
#include "engine/base/trace.h"
#include "engine/device/cpu/cpu_device.h"
#include "engine/pipe/pipeline.h"
#include "engine/slot/step_update.h"
#include "tests/bench/prepared_feed.h"

#define ROUNDS_MAX   1000
#define VARIANTS_MAX 8
#define STAGES_MAX   8

static uint32_t rounds = 15, rest_ms, shorter = 1;
static struct cores cores; /* of the process; taken before any thread pins itself */

/* --- figures ---------------------------------------------------------------------------------- */

static int double_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct spread {
    double low, median, high, least; /* a quarter, half, three quarters of the rounds lie below; the best turns' */
};
static struct spread spread_of(const double *values)
{
    double sorted[ROUNDS_MAX];
    memcpy(sorted, values, rounds * sizeof *sorted);
    qsort(sorted, rounds, sizeof *sorted, double_compare);
    return (struct spread){sorted[rounds / 4], sorted[rounds / 2], sorted[rounds * 3 / 4], sorted[0]};
}

/* Ratios of turns `of` to turns `by`, round by round; least: of the best turns. */
static struct spread ratio_of(const double *of, const double *by)
{
    double ratio[ROUNDS_MAX];
    for (uint32_t r = 0; r < rounds; r++) ratio[r] = of[r] / by[r];
    struct spread spread = spread_of(ratio);
    spread.least = spread_of(of).least / spread_of(by).least;
    return spread;
}

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* --- what takes turns --------------------------------------------------------------------------- */

/* A pipeline of its own over the data, or the bare loop over another variant's feed,
 * or threads that share nothing. */
struct variant {
    const char *name;
    struct data *data;
    uint32_t steps;   /* a turn */
    struct slot slot; /* of the bare loop */
    struct feed *feed;
    struct pipeline *pipeline; /* NULL: the bare loop, or the busy threads          */
    struct plan plan;
    struct resource_type type;
    struct plan_stage stage[STAGES_MAX];
    bool is_traced;
    /* the bare loop */
    struct device *device;
    struct arena arena;
    struct gradients sums;
    float **scratch;
    /* busy threads: each does the rounds */
    uint32_t thread_count, busy_rounds;
    /* the turns */
    double wall_ns[ROUNDS_MAX], cpu_ns[ROUNDS_MAX]; /* a step */
};

struct stages {
    const char *cuts; /* the last layer of every stage but the last: "b1" or "e x h1"; NULL: one stage            */
    uint32_t k, replicas;
};

/* Steps of a turn: `steps`, or fewer if turns shall be shorter. */
static uint32_t turn_steps(uint32_t steps) { return steps > shorter ? steps / shorter : 1; }

static uint32_t layer_index(const struct graph *g, const char *name, size_t bytes)
{
    for (uint32_t layer = 0; layer < g->layer_count; layer++) {
        const char *of = graph_string(g, g->layers[layer].name);
        if (strlen(of) == bytes && memcmp(of, name, bytes) == 0) return layer;
    }
    fprintf(stderr, "pipeline_bench: no layer %.*s\n", (int)bytes, name);
    exit(1);
}

static void pipeline_variant(struct variant *v, const char *name, struct data *d, uint32_t steps, struct stages of,
                             uint32_t core_count, uint32_t sync)
{
    *v = (struct variant){.name = name, .data = d, .steps = turn_steps(steps)};
    v->type = (struct resource_type){.name = "cpu", .device = RESOURCE_CPU};
    v->plan = (struct plan){.types = &v->type, .stages = v->stage, .type_count = 1, .method = ""};
    uint32_t first = 0;
    for (const char *cut = of.cuts ? of.cuts : "";; cut += strspn(cut, " ")) {
        size_t bytes = strcspn(cut, " ");
        uint32_t last = bytes ? layer_index(&d->graph, cut, bytes) : d->graph.layer_count - 1;
        v->stage[v->plan.stage_count++] = (struct plan_stage){first, last, .k = of.k, .replicas = of.replicas};
        first = last + 1;
        cut += bytes;
        if (bytes == 0) break;
    }
    must(pipeline_open(&v->pipeline, &(struct pipeline_options){.graph = &d->graph,
                                                                .model = &d->model,
                                                                .plan = &v->plan,
                                                                .share = true,
                                                                .cores = &cores,
                                                                .core_count = core_count,
                                                                .training = true,
                                                                .sync = sync,
                                                                .pipeline_count = 1}));
    v->feed = player_open(d, pipeline_input_count(v->pipeline));
}

static void bare_layout(struct variant *v, struct layout *l)
{
    const struct graph *g = &v->data->graph;
    const struct batch_shape shape = graph_batch(g);
    slot_layout(l, l->arena ? &v->slot : NULL, g, true);
    gradients_layout(&v->sums, l, g, shape.lanes, shape.batch);
    LAYOUT_TAKE(l, v->scratch, gradients_scratch(g, shape.lanes));
}

/* The bare loop on a pipeline's slots, with a gang of core_count cores. */
static void bare_variant(struct variant *v, const char *name, struct data *d, uint32_t steps, struct feed *feed,
                         uint32_t core_count)
{
    const struct graph *g = &d->graph;
    *v = (struct variant){.name = name, .data = d, .steps = turn_steps(steps), .feed = feed};
    must(cpu_device_open(&v->device, g, core_count, cores.is_whole ? cores.processor : NULL, NULL));
    struct layout sum = {0}, place = {.arena = &v->arena};
    bare_layout(v, &sum);
    must(arena_open(&v->arena, "gradients", sum.bytes));
    bare_layout(v, &place);
}

/* Threads that share nothing, each busy for busy_rounds rounds. */
static void threads_variant(struct variant *v, const char *name, uint32_t thread_count, uint32_t busy_rounds)
{
    *v = (struct variant){.name = name, .steps = 1, .thread_count = thread_count, .busy_rounds = busy_rounds};
}

static void variant_close(struct variant *v)
{
    pipeline_close(v->pipeline);
    if (v->pipeline) player_close(v->feed);
    device_close(v->device);
    if (v->device) arena_close(&v->arena);
}

static void bare_update(struct variant *v, const struct input *last)
{
    const struct data *d = v->data;
    const struct graph *g = &d->graph;
    const struct updater updater = {.graph = g, .gradients = &v->sums, .device = v->device, .scratch = v->scratch};
    const struct update update = {.param = d->model.param,
                                  .state = d->model.state,
                                  .param_grad = v->sums.param,
                                  .lanes = g->header->lanes,
                                  .rows = last->step_rows,
                                  .example_count = last->batch.step_example_count,
                                  .t = last->batch.step + 1};
    for (uint32_t u = 0; u < g->update_count; u++) {
        const struct graph_update *of = &g->updates[u];
        const struct param_run run = {.update = u,
                                      .offset = of->param_offset,
                                      .count = of->param_count,
                                      .state_offset = d->model.state_offset[u],
                                      .state_stride = of->param_count};
        if (of->table == GRAPH_NONE) must(update_params(&updater, &update, &run, run.offset, run.offset + run.count));
    }
    for (uint32_t table = 0; table < g->table_count; table++)
        must(update_rows(&updater, &update, table, 0, last->step_rows[table].row_count));
}

static void bare_step(struct variant *v)
{
    const struct data *d = v->data;
    const struct graph *g = &d->graph;
    for (;;) {
        struct input *input = NULL;
        struct slot *slot = &v->slot;
        CHECK(feed_try_next(v->feed, &input) == FEED_INPUT);
        slot_bind(slot, input, g, &v->data->model);
        uint32_t lane = batch_lane_of(graph_batch(g), input->batch.micro_index);
        for (uint32_t tensor = 0; tensor < g->tensor_count; tensor++)
            if (g->tensors[tensor].kind == TENSOR_PARAM_GRAD)
                slot->tensor[tensor].data = v->sums.param[lane] + g->tensors[tensor].offset;
        struct op_context c = slot_context(slot, g, v->sums.table, true);
        must(device_submit(v->device, &c, g->nodes, g->forward_count));
        must(device_submit(v->device, &c, g->nodes + g->forward_count, g->node_count - g->forward_count));
        bool is_last = input->batch.is_last;
        if (is_last) bare_update(v, input);
        feed_release(v->feed, input);
        if (is_last) return;
    }
}

/* A thread that works on a core of its own for the time of a turn. */
struct turn {
    const struct variant *variant;
    pthread_t thread;
    uint32_t index;
    pthread_barrier_t *start;
    uint64_t wall_ns, cpu_ns;
};

static void *turn_main(void *argument)
{
    struct turn *turn = argument;
    struct variant *v = (struct variant *)turn->variant;
    if (cores.is_whole) cores_pin(&cores.processor[turn->index % cores.count], 1);
    if (turn->start) pthread_barrier_wait(turn->start);
    uint64_t begin_ns = clock_ns(), cpu_begin_ns = cpu_ns();
    for (uint32_t i = 0; i < v->steps && v->device; i++) bare_step(v);
    if (v->device == NULL) busy_spend(v->busy_rounds);
    turn->wall_ns = clock_ns() - begin_ns;
    turn->cpu_ns = cpu_ns() - cpu_begin_ns;
    return NULL;
}

static void threads_turn(struct variant *v, uint32_t round)
{
    struct turn turns[2] = {0};
    uint32_t count = v->thread_count ? v->thread_count : 1;
    pthread_barrier_t start;
    CHECK(count <= 2 && pthread_barrier_init(&start, NULL, count) == 0);
    for (uint32_t i = 0; i < count; i++) {
        turns[i] = (struct turn){.variant = v, .index = i, .start = &start};
        CHECK(pthread_create(&turns[i].thread, NULL, turn_main, &turns[i]) == 0);
    }
    for (uint32_t i = 0; i < count; i++) {
        pthread_join(turns[i].thread, NULL);
        double wall_ns = (double)turns[i].wall_ns / v->steps, took_ns = (double)turns[i].cpu_ns / v->steps;
        if (i == 0 || wall_ns > v->wall_ns[round]) v->wall_ns[round] = wall_ns;
        if (i == 0 || took_ns > v->cpu_ns[round]) v->cpu_ns[round] = took_ns;
    }
    pthread_barrier_destroy(&start);
    if (v->device) v->data->model.progress.step += v->steps;
}

static void step_done(void *context, const struct step_done *done)
{
    struct data *d = context;
    CHECK(done->step == d->model.progress.step);
    d->model.progress.step++;
}

static bool tick(void *context)
{
    (void)context;
    must(trace_drain());
    return false;
}

static void variant_turn(struct variant *v, uint32_t round)
{
    if (rest_ms) usleep(rest_ms * 1000);
    if (v->pipeline == NULL) {
        threads_turn(v, round);
        return;
    }
    struct train_job job = {.feed = v->feed,
                            .step_until = v->data->model.progress.step + v->steps,
                            .step_done = step_done,
                            .tick = v->is_traced ? tick : NULL,
                            .context = v->data};
    bool is_end;
    uint64_t begin_ns = clock_ns(), cpu_begin_ns = cpu_ns();
    must(pipeline_train(v->pipeline, &job, &is_end));
    v->wall_ns[round] = (double)(clock_ns() - begin_ns) / v->steps;
    v->cpu_ns[round] = (double)(cpu_ns() - cpu_begin_ns) / v->steps;
}

/* All take their turns, round after round; the first round only warms up. */
static void turns_take(struct variant *v, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) variant_turn(&v[i], 0);
    for (uint32_t r = 0; r < rounds; r++)
        for (uint32_t i = 0; i < count; i++) variant_turn(&v[r % 2 ? count - 1 - i : i], r);
}

/* --- printing ----------------------------------------------------------------------------------- */

static void time_print(const struct variant *v)
{
    struct spread t = spread_of(v->wall_ns);
    printf("           %-34s %10.1f us a step   (middle half %.1f to %.1f, best %.1f)\n", v->name, t.median * 1e-3,
           t.low * 1e-3, t.high * 1e-3, t.least * 1e-3);
}

/* How many times as fast as `one` v is; `limit`: the most that it can be. */
static void gain_print(const struct variant *v, const struct variant *one, double limit, const char *limit_text)
{
    struct spread gain = ratio_of(one->wall_ns, v->wall_ns);
    printf("           %-34s %6.2f x %-12s (middle half %.2f to %.2f, best turns %.2f)", v->name, gain.median,
           one->name, gain.low, gain.high, gain.least);
    if (limit > 0)
        printf("   %3.0f %% (best %3.0f %%) of %s, %.2f", 100 * gain.median / limit, 100 * gain.least / limit,
               limit_text, limit);
    printf("\n");
}

/* The time that v takes beyond `bare`. */
static void cost_print(const struct variant *v, const struct variant *bare, uint32_t tasks)
{
    double beyond[ROUNDS_MAX];
    struct spread wall = ratio_of(v->wall_ns, bare->wall_ns), cpu = ratio_of(v->cpu_ns, bare->cpu_ns);
    for (uint32_t r = 0; r < rounds; r++) beyond[r] = v->cpu_ns[r] - bare->cpu_ns[r];
    struct spread us = spread_of(beyond);
    printf("           %-34s wall %+6.2f %% (middle half %+.2f to %+.2f, best turns %+.2f)   "
           "cpu %+6.2f %% (%+.2f to %+.2f, best %+.2f)   %+.1f us cpu a step",
           v->name, 100 * (wall.median - 1), 100 * (wall.low - 1), 100 * (wall.high - 1), 100 * (wall.least - 1),
           100 * (cpu.median - 1), 100 * (cpu.low - 1), 100 * (cpu.high - 1), 100 * (cpu.least - 1), us.median * 1e-3);
    if (tasks) printf(", %+.2f us a task", us.median * 1e-3 / tasks);
    printf("\n");
}

#endif
