/* What the pipeline costs, and what it gains, as ratios between turns of one run.
 *
 *     pipeline_bench [--rounds N] [--shorter N] [--rest MS] [SECTION]...
 *
 * in the root of the source; without sections: all.
 *
 *     stages     stages of equal and of unequal cost on two cores, against one core on the same work
 *     overhead   samples/ctrdnn.cfg in one stage, against the bare list of ops in a loop
 *     tiny       samples/ctrdnn1.cfg with micro-batches of 8 examples and a stage for every layer: what a task costs besides its ops
 *     trace      samples/ctrdnn1.cfg with and without a trace
 *     plans      samples/ctrdnn.cfg with batches of 2048: one gang, two replicas, two stages
 *
 * Reading is in none of this. The feed here, which the linker takes instead of engine/feed.c, has its micro-batches parsed and their
 * rows found and numbered beforehand, and plays them round and round: a call of it points a free slot to the next one. The pipeline
 * and what it is compared with use the same feed, the same slots in the same order, the same parameters and rows.
 *
 *     bare       feed_try_next, forward list, backward list, feed_release for every micro-batch; at the step's end the updates. A
 *                thread of its own on the first core, with a device like the pipeline's. No loss is summed or looked at.
 *     pipeline   pipeline_train, from the call to its return
 *
 * All that is compared takes turns of a fraction of a second, in an order that is reversed with every round. A ratio is taken between
 * turns of one round; printed are the median of all rounds, the middle half of them, and the ratio of the best turns, which on a
 * machine that others use too comes nearest to what a quiet one would show. `cpu` compares the processor time of the whole process:
 * what else the machine runs costs it caches but no time; where threads wait for each other it counts their spinning.
 *
 * On a crowded machine many short turns, each after a rest, find some that nobody interrupts: --shorter 8 --rest 10 --rounds 100 makes
 * turns an eighth as long, and sleeps 10 ms before each. What a job costs to begin and to end then weighs more. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/cpu/device.h"
#include "engine/gen_criteo.h"
#include "engine/pipeline.h"
#include "engine/trace.h"
#include "io/reader.h"
#include "tests/engine/schema_fixture.h"

#define ROUNDS_MAX   1000
#define VARIANTS_MAX 8
#define STAGES_MAX   8
#define RAM_BYTES    ((uint64_t)512 << 20)

static uint32_t rounds = 15, rest_ms, shorter = 1;
static struct cores cores; /* of the process; taken before any thread pins itself */

static void must(status st)
{
    if (st == ST_OK) return;
    fprintf(stderr, "pipeline_bench: %s\n", status_message());
    exit(1);
}

/* --- figures ---------------------------------------------------------------------------------- */

static int double_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct spread {
    double low, median, high, least; /* quarter, half, three quarters of the rounds lie below; the least of all */
};
static struct spread spread_of(const double *values)
{
    double sorted[ROUNDS_MAX];
    memcpy(sorted, values, rounds * sizeof *sorted);
    qsort(sorted, rounds, sizeof *sorted, double_compare);
    return (struct spread){sorted[rounds / 4], sorted[rounds / 2], sorted[rounds * 3 / 4], sorted[0]};
}

/* Of turns `of` over turns `by`, round by round; least: of the best turns. */
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

static void machine_print(void)
{
    char line[256], name[256] = "an unknown processor";
    double load = 0;
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "model name : %255[^\n]", name) == 1) break;
    if (file) fclose(file);
    if (getloadavg(&load, 1) != 1) load = -1;
    printf("machine    %u cores of %s, %s; load average %.1f; %u rounds\n", cores.count, name, isa_names[isa_best()],
           load, rounds);
}

/* --- a feed of prepared micro-batches ----------------------------------------------------------- */

/* A graph, a model of it, and the micro-batches of some whole steps, ready to run. */
struct data {
    struct graph graph;
    struct model model;
    struct arena arena;
    uint32_t step_count, micro_count;
    struct micro_batch *batch; /* [step_count * micro_count]                                       */
    struct ticket *ticket;
    struct step_rows *rows; /* [step_count, table_count]                                        */
    uint64_t
        position; /* micro-batches played so far: step progress.step begins where this is a multiple of micro_count */
};

struct feed {
    struct data *data;
    struct arena arena;
    struct slot *slots;
    uint32_t slot_count;
    struct ring free;
};

/* Writes click data into a temporary file and returns its path. */
static const char *clicks_path(void)
{
    static char path[4096];
    if (*path) return path;
    const char *directory = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/pipeline_bench.XXXXXX", directory && *directory ? directory : "/tmp");
    int fd = mkstemp(path);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    struct gen_criteo *gen;
    must(gen_criteo_open(&gen, &(struct gen_criteo_options){.seed = 1, .vocab = 38461, .zipf = 1.1}));
    char line[GEN_CRITEO_LINE_BYTES_MAX];
    struct gen_criteo_truth truth;
    for (uint64_t row = 0; row < 32768; row++)
        if (fwrite(line, gen_criteo_row(gen, row, line, &truth), 1, file) != 1) exit(1);
    gen_criteo_close(gen);
    fclose(file);
    return path;
}

/* What the reader must know of the graph; kept to the end, as is the reader. */
static struct reader_schema schema_of(const struct graph *g)
{
    struct test_schema *schema = calloc(1, sizeof *schema);
    CHECK(schema != NULL);
    must(test_schema_open(schema, g));
    return schema->schema.reader;
}

/* Numbers the rows of a micro-batch within its step: seen[row] is the step's stamp << 32 | number. */
static void rows_number(struct ticket_table *table, struct step_rows *rows, uint64_t *seen, uint32_t stamp)
{
    for (uint32_t u = 0; u < table->unique_count; u++) {
        uint64_t *of = &seen[table->row[u]];
        if (*of >> 32 != stamp) {
            *of = (uint64_t)stamp << 32 | rows->row_count;
            rows->span[rows->row_count++] = table->span[u];
        }
        table->step_row[u] = (uint32_t)*of;
    }
}

/* Compiles the text and prepares step_count steps of it. */
static void data_open(struct data *d, const char *path, const char *text, const char *const *set, uint32_t set_count,
                      uint32_t step_count)
{
    *d = (struct data){.step_count = step_count};
    must(graph_compile(&d->graph, path, text, strlen(text), set, set_count, NULL));
    const struct graph *g = &d->graph;
    must(model_open(&d->model, g, RAM_BYTES));
    model_init(&d->model);
    struct batch_shape shape = graph_batch(g);
    struct example_shape example = graph_example(g);
    uint32_t spans[GRAPH_TABLES_MAX];
    uint64_t *seen[GRAPH_TABLES_MAX];
    d->micro_count = batch_micro_count(shape);
    uint32_t count = step_count * d->micro_count;
    size_t rows_max = (size_t)shape.batch * example.key_count_max, bytes = 0;
    for (uint32_t t = 0; t < g->table_count; t++) {
        spans[t] = g->tables[t].span_floats;
        seen[t] = calloc(store_row_max(d->model.store, t), sizeof *seen[t]);
        CHECK(seen[t] != NULL);
    }
    bytes += arena_bytes(count * sizeof *d->batch) + arena_bytes(count * sizeof *d->ticket);
    bytes += count * (micro_batch_bytes(shape, example) + ticket_bytes(shape, example, g->table_count, spans, false));
    bytes += arena_bytes(step_count * (g->table_count + 1u) * sizeof *d->rows);
    bytes += step_count * g->table_count * arena_bytes(rows_max * sizeof(float *));
    must(arena_open(&d->arena, "prepared", bytes));
    d->batch = arena_take(&d->arena, count * sizeof *d->batch);
    d->ticket = arena_take(&d->arena, count * sizeof *d->ticket);
    d->rows = arena_take(&d->arena, step_count * (g->table_count + 1u) * sizeof *d->rows);
    struct reader *reader;
    must(reader_open(&reader,
                     &(struct reader_options){
                         .format = READER_CRITEO, .paths = clicks_path(), .schema = schema_of(g), .part = "reader"}));
    must(reader_start(reader, 0));
    for (uint32_t s = 0; s < step_count; s++) {
        struct step_rows *rows = &d->rows[s * g->table_count];
        for (uint32_t t = 0; t < g->table_count; t++)
            rows[t].span = arena_take(&d->arena, rows_max * sizeof *rows[t].span);
        for (uint32_t i = 0; i < d->micro_count; i++) {
            uint32_t at = s * d->micro_count + i;
            struct micro_batch *m = &d->batch[at];
            bool is_end;
            micro_batch_place(m, &d->arena, shape, example);
            must(reader_fill(reader, m, shape.micro, &is_end));
            CHECK(m->example_count == shape.micro); /* else the file is too short for step_count */
            m->micro_index = i;
            m->is_last = i + 1 == d->micro_count;
            m->step_example_count = (i + 1) * shape.micro;
            ticket_place(&d->ticket[at], &d->arena, shape, example, g->table_count, spans, false);
            must(store_prepare(d->model.store, m, STORE_CREATE, &d->ticket[at]));
            for (uint32_t t = 0; t < g->table_count; t++)
                rows_number(&d->ticket[at].table[t], &rows[t], seen[t], s + 1);
        }
    }
    reader_close(reader);
    for (uint32_t t = 0; t < g->table_count; t++) free(seen[t]);
}

static void data_close(struct data *d)
{
    arena_close(&d->arena);
    model_close(&d->model);
    graph_close(&d->graph);
}

static struct feed *player_open(struct data *d, uint32_t slot_count)
{
    const struct graph *g = &d->graph;
    struct feed *feed = aligned_alloc(CACHE_LINE_BYTES, arena_bytes(sizeof *feed));
    CHECK(feed != NULL);
    memset(feed, 0, sizeof *feed);
    feed->data = d;
    feed->slot_count = slot_count;
    size_t bytes = arena_bytes(slot_count * sizeof *feed->slots) + ring_bytes(slot_count, RING_MANY);
    bytes += slot_count * (arena_bytes(g->tensor_count * sizeof(struct view)) + arena_bytes(g->header->slot_bytes));
    must(arena_open(&feed->arena, "slots", bytes));
    feed->slots = arena_take(&feed->arena, slot_count * sizeof *feed->slots);
    ring_place(&feed->free, &feed->arena, slot_count, RING_MANY);
    for (uint32_t s = 0; s < slot_count; s++) {
        struct slot *slot = &feed->slots[s];
        slot->index = s;
        slot->tensor = arena_take(&feed->arena, g->tensor_count * sizeof *slot->tensor);
        uint8_t *activations = arena_take(&feed->arena, g->header->slot_bytes);
        for (uint32_t t = 0; t < g->tensor_count; t++) {
            const struct graph_tensor *tensor = &g->tensors[t];
            uint32_t row_count = tensor->rows ? tensor->rows : g->header->micro; /* every micro-batch is full */
            slot->tensor[t] = (struct view){.rows = row_count, .cols = tensor->cols, .stride = tensor->stride};
            if (tensor->kind == TENSOR_ACTIVATION) slot->tensor[t].data = (float *)(activations + tensor->offset);
            if (tensor->kind == TENSOR_PARAM) slot->tensor[t].data = d->model.param + tensor->offset;
        }
        CHECK(ring_try_push(&feed->free, s));
    }
    return feed;
}

static void player_close(struct feed *feed)
{
    arena_close(&feed->arena);
    free(feed);
}

enum feed_state feed_try_next(struct feed *feed, struct slot **out)
{
    struct data *d = feed->data;
    uint32_t index;
    if (!ring_try_pop(&feed->free, &index)) return FEED_EMPTY;
    uint64_t step = d->position / d->micro_count, at = d->position % (d->step_count * d->micro_count);
    struct slot *slot = &feed->slots[index];
    slot->batch = d->batch[at];
    slot->batch.step = step;
    slot->ticket = d->ticket[at];
    slot->step_rows = &d->rows[step % d->step_count * d->graph.table_count];
    for (uint32_t t = 0; t < d->graph.tensor_count; t++) {
        if (d->graph.tensors[t].kind == TENSOR_DENSE)
            slot->tensor[t].data = graph_column_data(&d->graph.tensors[t], &slot->batch);
        if (d->graph.tensors[t].kind == TENSOR_LABEL)
            slot->tensor[t].data = graph_column_data(&d->graph.tensors[t], &slot->batch);
    }
    d->position++;
    *out = slot;
    return FEED_SLOT;
}

void feed_release(struct feed *feed, struct slot *slot)
{
    store_release(feed->data->model.store, &slot->ticket);
    CHECK(ring_try_push(&feed->free, slot->index));
}

struct slot *feed_slot(struct feed *feed, uint32_t index) { return &feed->slots[index]; }

uint32_t feed_slot_count(const struct feed *feed) { return feed->slot_count; }

status feed_result(const struct feed *feed)
{
    (void)feed;
    return ST_OK;
}

struct feed_counts feed_counts(const struct feed *feed)
{
    (void)feed;
    return (struct feed_counts){0};
}

/* --- what takes turns --------------------------------------------------------------------------- */

/* A pipeline of its own over the data, or the bare loop over another one's feed, or threads that share nothing. */
struct variant {
    const char *name;
    struct data *data;
    uint32_t steps; /* a turn */
    struct feed *feed;
    struct pipeline *pipeline; /* NULL: the bare loop, or the busy threads          */
    struct plan plan;
    struct resource_type type;
    struct plan_stage stage[STAGES_MAX];
    bool is_traced;
    /* the bare loop */
    struct device *device;
    struct arena gradients;
    float **param_grad; /* [lanes]                                                          */
    float **table_grad; /* [lanes, lookup_count]                                            */
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
    for (uint32_t l = 0; l < g->layer_count; l++) {
        const char *of = graph_string(g, g->layers[l].name);
        if (strlen(of) == bytes && memcmp(of, name, bytes) == 0) return l;
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
    v->feed = player_open(d, pipeline_slot_count(v->pipeline));
}

/* The bare loop on the slots of a pipeline, with a gang of core_count. */
static void bare_variant(struct variant *v, const char *name, struct data *d, uint32_t steps, struct feed *feed,
                         uint32_t core_count)
{
    const struct graph *g = &d->graph;
    uint32_t lanes = g->header->lanes, grad_count = lanes * (g->lookup_count + 1u);
    *v = (struct variant){.name = name, .data = d, .steps = turn_steps(steps), .feed = feed};
    must(cpu_device_open(&v->device, g, core_count, cores.is_whole ? cores.processor : NULL, NULL));
    size_t param_bytes = arena_bytes(g->header->grad_floats * sizeof(float)), bytes = lanes * param_bytes;
    bytes += 3 * arena_bytes(grad_count * sizeof(float *));
    for (uint32_t t = 0; t < g->table_count; t++) {
        size_t rows = (size_t)g->header->batch * g->tables[t].key_count_max;
        bytes += lanes * graph_table_lookups(g, t, NULL) * arena_bytes(rows * g->tables[t].dim * sizeof(float));
    }
    must(arena_open(&v->gradients, "gradients", bytes));
    v->param_grad = arena_take(&v->gradients, grad_count * sizeof(float *));
    v->table_grad = arena_take(&v->gradients, grad_count * sizeof(float *));
    v->scratch = arena_take(&v->gradients, grad_count * sizeof(float *));
    for (uint32_t lane = 0; lane < lanes; lane++) v->param_grad[lane] = arena_take(&v->gradients, param_bytes);
    uint32_t lookups[64];
    CHECK(g->lookup_count <= 64);
    for (uint32_t t = 0; t < g->table_count; t++) {
        size_t rows = (size_t)g->header->batch * g->tables[t].key_count_max;
        uint32_t uses = graph_table_lookups(g, t, lookups);
        for (uint32_t lane = 0; lane < lanes; lane++)
            for (uint32_t use = 0; use < uses; use++)
                v->table_grad[lane * g->lookup_count + lookups[use]] =
                    arena_take(&v->gradients, rows * g->tables[t].dim * sizeof(float));
    }
}

/* Threads that share nothing, each busy for as many rounds. */
static void threads_variant(struct variant *v, const char *name, uint32_t thread_count, uint32_t busy_rounds)
{
    *v = (struct variant){.name = name, .steps = 1, .thread_count = thread_count, .busy_rounds = busy_rounds};
}

static void variant_close(struct variant *v)
{
    pipeline_close(v->pipeline);
    if (v->pipeline) player_close(v->feed);
    if (v->device) v->device->vt->close(v->device);
    if (v->device) arena_close(&v->gradients);
}

static void bare_update(struct variant *v, const struct slot *last)
{
    const struct data *d = v->data;
    const struct graph *g = &d->graph;
    uint32_t lanes = g->header->lanes;
    float scale = 1.0f / (float)last->batch.step_example_count;
    for (uint32_t u = 0; u < g->update_count; u++) {
        const struct graph_update *of = &g->updates[u];
        if (of->table != GRAPH_NONE) continue;
        for (uint32_t lane = 0; lane < lanes; lane++) v->scratch[lane] = v->param_grad[lane] + of->param_offset;
        struct param_update update = {.optimizer = &g->optimizers[of->optimizer],
                                      .weight = d->model.param + of->param_offset,
                                      .state = d->model.state + d->model.state_offset[u],
                                      .state_stride = of->param_count,
                                      .grad = v->scratch,
                                      .lanes = lanes,
                                      .count = of->param_count,
                                      .scale = scale,
                                      .rate = optimizer_rate(g, &g->optimizers[of->optimizer], last->batch.step + 1),
                                      .t = last->batch.step + 1};
        must(v->device->vt->update_params(v->device, &update));
    }
    for (uint32_t t = 0; t < g->table_count; t++) {
        uint32_t lookups[64], uses = graph_table_lookups(g, t, lookups);
        for (uint32_t lane = 0; lane < lanes; lane++)
            for (uint32_t use = 0; use < uses; use++)
                v->scratch[lane * uses + use] = v->table_grad[lane * g->lookup_count + lookups[use]];
        struct table_update update = {
            .table = &g->tables[t],
            .optimizer = &g->optimizers[g->tables[t].optimizer],
            .row_count = last->step_rows[t].row_count,
            .span = last->step_rows[t].span,
            .grad = v->scratch,
            .lanes = lanes,
            .use_count = uses,
            .occurrence_count = last->step_rows[t].occurrence_count,
            .scale = scale,
            .rate = optimizer_rate(g, &g->optimizers[g->tables[t].optimizer], last->batch.step + 1),
            .t = last->batch.step + 1};
        must(v->device->vt->update_rows(v->device, &update));
    }
}

static void bare_step(struct variant *v)
{
    const struct data *d = v->data;
    const struct graph *g = &d->graph;
    for (;;) {
        struct slot *slot = NULL;
        CHECK(feed_try_next(v->feed, &slot) == FEED_SLOT);
        uint32_t lane = batch_lane_of(graph_batch(g), slot->batch.micro_index);
        for (uint32_t t = 0; t < g->tensor_count; t++)
            if (g->tensors[t].kind == TENSOR_PARAM_GRAD)
                slot->tensor[t].data = v->param_grad[lane] + g->tensors[t].offset;
        struct op_context c = {.graph = g,
                               .tensor = slot->tensor,
                               .batch = &slot->batch,
                               .ticket = &slot->ticket,
                               .table_grad = v->table_grad + lane * g->lookup_count,
                               .seed = g->header->seed,
                               .example_begin = slot->batch.micro_index * g->header->micro,
                               .training = true};
        must(device_submit(v->device, &c, g->nodes, g->forward_count));
        must(device_submit(v->device, &c, g->nodes + g->forward_count, g->node_count - g->forward_count));
        bool is_last = slot->batch.is_last;
        if (is_last) bare_update(v, slot);
        feed_release(v->feed, slot);
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

/* How many times as fast as `one`; `limit`: what it can be at most. */
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

/* What v takes beyond `bare`. */
static void cost_print(const struct variant *v, const struct variant *bare, uint32_t tasks)
{
    double beyond[ROUNDS_MAX];
    struct spread wall = ratio_of(v->wall_ns, bare->wall_ns), cpu = ratio_of(v->cpu_ns, bare->cpu_ns);
    for (uint32_t r = 0; r < rounds; r++) beyond[r] = v->cpu_ns[r] - bare->cpu_ns[r];
    struct spread us = spread_of(beyond);
    printf("           %-34s wall %+6.2f %% (middle half %+.2f to %+.2f, best turns %+.2f)   cpu %+6.2f %% (%+.2f to "
           "%+.2f, best "
           "%+.2f)   %+.1f us cpu a step",
           v->name, 100 * (wall.median - 1), 100 * (wall.low - 1), 100 * (wall.high - 1), 100 * (wall.least - 1),
           100 * (cpu.median - 1), 100 * (cpu.low - 1), 100 * (cpu.high - 1), 100 * (cpu.least - 1), us.median * 1e-3);
    if (tasks) printf(", %+.2f us a task", us.median * 1e-3 / tasks);
    printf("\n");
}

static char *text_read(const char *path)
{
    struct file_map map;
    must(file_map_open(&map, path));
    char *text = strndup((const char *)map.data, map.bytes);
    CHECK(text != NULL);
    file_map_close(&map);
    return text;
}

/* --- stages ------------------------------------------------------------------------------------- */

/* A pass of a micro-batch of 8 through a stage of cost 1 takes about half a millisecond. */
#define COST_ROUNDS 20000u
#define MICRO       8u
#define MICROS      32u

static void busy_text(char *text, size_t bytes, const uint32_t *cost, uint32_t count)
{
    /* The gradient of `in` passes through all that follows: without it there would be no backward passes. */
    static const char head[] = "[model]\nname = busy\n[data]\ndense = I1..I4\n[fc in]\ninput = dense\nunits = 4\n";
    size_t at = (size_t)snprintf(text, bytes, "%s", head);
    for (uint32_t i = 0; i < count; i++) {
        at += (size_t)snprintf(text + at, bytes - at, "[busy b%u]\ninput = ", i + 1);
        at += (size_t)(i ? snprintf(text + at, bytes - at, "b%u", i) : snprintf(text + at, bytes - at, "in"));
        at += (size_t)snprintf(text + at, bytes - at, "\nrounds = %u\n", cost[i] * (COST_ROUNDS / shorter));
    }
    snprintf(text + at, bytes - at,
             "[fc y]\ninput = b%u\nunits = 1\n[loss bce]\ninput = y\nlabel = label\n[train]\noptimizer = sgd 0.01\n",
             count);
}

/* One shape of pipeline, under bsp with MICROS micro-batches a step and under wsp without steps to drain. */
static void stages_measure(const char *shape, const uint32_t *cost, uint32_t count, const char *cuts)
{
    uint32_t total = 0, slowest = 0, before = 0, longest = 0, micro_rounds;
    for (uint32_t i = 0; i < count; i++) {
        /* A stage begins when the stages before it have passed the first micro-batch, and they end after it. */
        if (MICROS * cost[i] + before > longest) longest = MICROS * cost[i] + before;
        if (cost[i] > slowest) slowest = cost[i];
        before += cost[i];
        total += cost[i];
    }
    micro_rounds = 2 * MICRO * total * (COST_ROUNDS / shorter); /* forward and backward */
    char text[2048];
    busy_text(text, sizeof text, cost, count);
    static const char *const bsp_set[] = {"train.batch=256", "train.micro=8"};
    static const char *const wsp_set[] = {"train.batch=8", "train.micro=8", "train.sync=wsp"};
    static struct data bsp, wsp;
    static struct variant v[VARIANTS_MAX];
    data_open(&bsp, "busy.cfg", text, bsp_set, 2, 4);
    data_open(&wsp, "busy.cfg", text, wsp_set, 3, 64);
    struct stages chain = {cuts, 1, 1}, whole = {NULL, 1, 1};
    uint32_t two = cores.count < 2 ? cores.count : 2, n = 0;
    threads_variant(&v[n++], "a thread", 1, MICROS * micro_rounds);
    threads_variant(&v[n++], "two threads, twice the work", 2, MICROS * micro_rounds);
    pipeline_variant(&v[n++], "one core", &bsp, 1, whole, 1, SYNC_BSP);
    pipeline_variant(&v[n++], "two cores, bsp", &bsp, 1, chain, two, SYNC_BSP);
    pipeline_variant(&v[n++], "one core, wsp", &wsp, MICROS * shorter, whole, 1, SYNC_WSP);
    pipeline_variant(&v[n++], "two cores, wsp", &wsp, MICROS * shorter, chain, two, SYNC_WSP);
    bool has_dedicated = count > 2 && cores.count >= count;
    if (has_dedicated) {
        pipeline_variant(&v[n++], "a core a stage, bsp", &bsp, 1, chain, count, SYNC_BSP);
        pipeline_variant(&v[n++], "a core a stage, wsp", &wsp, MICROS * shorter, chain, count, SYNC_WSP);
    }
    turns_take(v, n);
    /* On fewer cores than stages the cores bound it too. */
    double cores_allow = (double)total / two, allowed = total / (slowest > cores_allow ? slowest : cores_allow);
    double drained = (double)total * MICROS / longest;
    printf("stages     cost %s, %u micro-batches a step, %s\n", shape, MICROS,
           count > two ? "a pool of two cores" : "a core each");
    time_print(&v[0]);
    time_print(&v[2]);
    struct spread scaling = ratio_of(v[0].wall_ns, v[1].wall_ns);
    printf("           %-34s %6.2f x the work of one in the same time (middle half %.2f to %.2f, best turns %.2f)\n",
           "the machine: two threads do", 2 * scaling.median, 2 * scaling.low, 2 * scaling.high, 2 * scaling.least);
    gain_print(&v[3], &v[2], allowed, "what the slowest stage allows");
    if (count <= two) gain_print(&v[3], &v[2], drained, "that with the drain of the step");
    gain_print(&v[5], &v[4], allowed, "what the slowest stage allows");
    if (has_dedicated) {
        gain_print(&v[6], &v[2], (double)total / slowest, "what the slowest stage allows");
        gain_print(&v[6], &v[2], drained, "that with the drain of the step");
        gain_print(&v[7], &v[4], (double)total / slowest, "what the slowest stage allows");
    }
    for (uint32_t i = 0; i < n; i++) variant_close(&v[i]);
    data_close(&bsp);
    data_close(&wsp);
}

/* One stage as two replicas of a core, each with a lane of its own; few micro-batches a step, so that it shows how both lanes end
 * together. */
static void replicas_measure(void)
{
    char text[2048];
    busy_text(text, sizeof text, (const uint32_t[]){4}, 1);
    static const char *const set[] = {"train.batch=64", "train.micro=8", "train.lanes=2"};
    static struct data d;
    static struct variant v[2];
    if (cores.count < 2) return;
    data_open(&d, "busy.cfg", text, set, 3, 16);
    pipeline_variant(&v[0], "one core", &d, 4, (struct stages){NULL, 1, 1}, 1, SYNC_BSP);
    pipeline_variant(&v[1], "two replicas, bsp", &d, 4, (struct stages){NULL, 2, 2}, 2, SYNC_BSP);
    turns_take(v, 2);
    printf("stages     one stage, two replicas of a core, %u micro-batches a step in 2 lanes\n", d.micro_count);
    gain_print(&v[1], &v[0], 2, "what two cores allow");
    variant_close(&v[0]);
    variant_close(&v[1]);
    data_close(&d);
}

static void stages(void)
{
    stages_measure("1:1", (const uint32_t[]){2, 2}, 2, "b1");
    stages_measure("1:2:1", (const uint32_t[]){1, 2, 1}, 3, "b1 b2");
    replicas_measure();
}

/* --- overhead ----------------------------------------------------------------------------------- */

static void overhead_measure(const char *text, uint32_t threads, const char *batch, uint32_t step_count, uint32_t steps)
{
    static struct data d;
    static struct variant v[2];
    data_open(&d, "samples/ctrdnn.cfg", text, &batch, 1, step_count);
    pipeline_variant(&v[1], "pipeline", &d, steps, (struct stages){NULL, threads, 1}, threads, SYNC_BSP);
    bare_variant(&v[0], "bare list of ops", &d, steps, v[1].feed, threads);
    turns_take(v, 2);
    printf("overhead   samples/ctrdnn.cfg, %s in micro-batches of %u, %u thread%s\n", batch, d.graph.header->micro,
           threads, threads > 1 ? "s" : "");
    time_print(&v[0]);
    time_print(&v[1]);
    cost_print(&v[1], &v[0], 0);
    variant_close(&v[0]);
    variant_close(&v[1]);
    data_close(&d);
}

static void overhead(void)
{
    char *text = text_read("samples/ctrdnn.cfg");
    for (uint32_t threads = 1; threads <= cores.count && threads <= 2; threads++) {
        overhead_measure(text, threads, "train.batch=128", 128, 20);
        overhead_measure(text, threads, "train.batch=2048", 8, 3);
    }
    free(text);
}

/* --- tiny --------------------------------------------------------------------------------------- */

static void tiny(void)
{
    static const char *const set[] = {"train.batch=128", "train.micro=8"};
    static struct data d;
    static struct variant v[4];
    char *text = text_read("samples/ctrdnn1.cfg");
    data_open(&d, "samples/ctrdnn1.cfg", text, set, 2, 64);
    struct stages all = {"e x h1 h2 y", 1, 1}, whole = {NULL, 1, 1};
    uint32_t two = cores.count < 2 ? cores.count : 2;
    pipeline_variant(&v[1], "one stage, one core", &d, 200, whole, 1, SYNC_BSP);
    pipeline_variant(&v[2], "6 stages, one core", &d, 200, all, 1, SYNC_BSP);
    pipeline_variant(&v[3], "6 stages, two cores", &d, 200, all, two, SYNC_BSP);
    bare_variant(&v[0], "bare list of ops", &d, 200, v[1].feed, 1);
    turns_take(v, 4);
    printf("tiny       samples/ctrdnn1.cfg, 16 micro-batches of 8\n");
    for (int i = 0; i < 4; i++) time_print(&v[i]);
    cost_print(&v[1], &v[0], 16 * 2 + 1);
    cost_print(&v[2], &v[0], 6 * (16 * 2 + 1));
    cost_print(&v[3], &v[0], 6 * (16 * 2 + 2));
    for (int i = 0; i < 4; i++) variant_close(&v[i]);
    data_close(&d);
    free(text);
}

/* --- trace -------------------------------------------------------------------------------------- */

static void trace_measure(const char *text, uint32_t threads)
{
    static struct data d;
    static struct variant v[2];
    char path[4096 + 8];
    data_open(&d, "samples/ctrdnn1.cfg", text, NULL, 0, 128);
    struct stages whole = {NULL, threads, 1};
    pipeline_variant(&v[0], "without a trace", &d, 1, whole, threads, SYNC_BSP);
    snprintf(path, sizeof path, "%s.json", clicks_path());
    must(trace_open(path, 8));
    /* Threads that start now get their rings. */
    pipeline_variant(&v[1], "with a trace", &d, 1, whole, threads, SYNC_BSP);
    /* Some tenths of a second, however short the turns shall be, for the rings are drained ten times a second. */
    v[0].steps = v[1].steps = 1000 * threads;
    v[1].is_traced = true;
    turns_take(v, 2);
    printf("trace      samples/ctrdnn1.cfg, %u thread%s\n", threads, threads > 1 ? "s" : "");
    time_print(&v[0]);
    time_print(&v[1]);
    cost_print(&v[1], &v[0], 0);
    must(trace_drain()); /* while the stage whose name is in it is there */
    variant_close(&v[0]);
    variant_close(&v[1]);
    must(trace_close());
    unlink(path);
    data_close(&d);
}

static void trace(void)
{
    char *text = text_read("samples/ctrdnn1.cfg");
    for (uint32_t threads = 1; threads <= cores.count && threads <= 2; threads++) trace_measure(text, threads);
    free(text);
}

/* --- plans -------------------------------------------------------------------------------------- */

static void plans(void)
{
    static const char *const set[] = {"train.batch=2048", "train.lanes=2"};
    static struct data one, two;
    static struct variant v[7];
    if (cores.count < 2) {
        printf("plans      skipped: needs two cores\n");
        return;
    }
    char *text = text_read("samples/ctrdnn.cfg");
    data_open(&one, "samples/ctrdnn.cfg", text, set, 1, 8);
    data_open(&two, "samples/ctrdnn.cfg", text, set, 2, 8);
    pipeline_variant(&v[0], "one gang of two cores", &one, 3, (struct stages){NULL, 2, 1}, 2, SYNC_BSP);
    pipeline_variant(&v[1], "one core", &one, 3, (struct stages){NULL, 1, 1}, 1, SYNC_BSP);
    pipeline_variant(&v[2], "stages e..x | h1..bce", &one, 3, (struct stages){"x", 1, 1}, 2, SYNC_BSP);
    pipeline_variant(&v[3], "stages e..h1 | h2..bce", &one, 3, (struct stages){"h1", 1, 1}, 2, SYNC_BSP);
    pipeline_variant(&v[4], "pool, e..x | h1 | h2..bce", &one, 3, (struct stages){"x h1", 1, 1}, 2, SYNC_BSP);
    pipeline_variant(&v[5], "lanes = 2, one gang", &two, 3, (struct stages){NULL, 2, 1}, 2, SYNC_BSP);
    pipeline_variant(&v[6], "lanes = 2, two replicas", &two, 3, (struct stages){NULL, 2, 2}, 2, SYNC_BSP);
    turns_take(v, 7);
    printf("plans      samples/ctrdnn.cfg, train.batch=2048 in micro-batches of %u\n", one.graph.header->micro);
    for (int i = 0; i < 7; i++) time_print(&v[i]);
    for (int i = 1; i < 7; i++) gain_print(&v[i], &v[0], 0, "");
    gain_print(&v[6], &v[5], 0, "");
    for (int i = 0; i < 7; i++) variant_close(&v[i]);
    data_close(&one);
    data_close(&two);
    free(text);
}

/* ------------------------------------------------------------------------------------------------ */

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } sections[] = {{"stages", stages}, {"overhead", overhead}, {"tiny", tiny}, {"trace", trace}, {"plans", plans}};
    enum { SECTION_COUNT_ = sizeof sections / sizeof sections[0] };
    bool is_wanted[SECTION_COUNT_] = {0}, has_wish = false;
    for (int i = 1; i < argc; i++) {
        bool is_known = false;
        for (int s = 0; s < SECTION_COUNT_; s++)
            if (strcmp(argv[i], sections[s].name) == 0) is_known = is_wanted[s] = has_wish = true;
        if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc) {
            rounds = (uint32_t)strtoul(argv[++i], NULL, 10);
            is_known = rounds >= 1 && rounds <= ROUNDS_MAX;
        }
        if (strcmp(argv[i], "--rest") == 0 && i + 1 < argc)
            rest_ms = (uint32_t)strtoul(argv[++i], NULL, 10), is_known = true;
        if (strcmp(argv[i], "--shorter") == 0 && i + 1 < argc) {
            shorter = (uint32_t)strtoul(argv[++i], NULL, 10);
            is_known = shorter >= 1 && shorter <= 100;
        }
        if (is_known) continue;
        fprintf(stderr,
                "usage: pipeline_bench [--rounds 1..%d] [--shorter 1..100] [--rest MS] [stages] [overhead] [tiny] "
                "[trace] [plans]\n",
                ROUNDS_MAX);
        return 2;
    }
    cores_allowed(&cores);
    machine_print();
    for (int s = 0; s < SECTION_COUNT_; s++)
        if (is_wanted[s] || !has_wish) sections[s].run();
    unlink(clicks_path());
    return 0;
}
