/* Measures how fast whole models train with their micro-batches in memory (bench_train.h): the samples that
 * the program carries, or any graph or model text. Data are generated in the model's format and columns. The
 * limit is the peak of the products' arithmetic, multiply-adds or instructions of bfloat16 by
 * train.precision. A figure stays below it by products below their peak, embeddings, updates and waiting. */
#include "engine/bench/bench.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/bench/bench_train.h"
#include "engine/bench/samples.h"
#include "engine/data/compile_source.h"
#include "engine/data/gen_memory.h"

#define SETS_MAX 264u
/* Different examples, given in turn; but at least STEPS_MIN steps, and at most STEPS_MAX. */
#define EXAMPLES       262144u
#define EXAMPLES_QUICK 2048u
#define STEPS_MIN      4u
/* Most operations of these steps: the first pass over them takes time and is not measured. */
#define FLOPS_MAX 2e12
#define STEPS_MAX 64u
/* For samples, whose own batches are small, to train well on little data. */
#define SAMPLE_BATCH       "train.batch=2048"
#define SAMPLE_BATCH_QUICK "train.batch=512"
/* Ample bytes of a store for a row besides its span. */
#define STORE_BYTES_MORE 64u
#define SECONDS          1.0
#define SECONDS_QUICK    0.05

/* A model, as a graph file: the user's, or one in memory. */
struct model_file {
    const char *name; /* as given */
    bool is_sample;
    int fd; /* < 0: the file is the user's */
    char path[4096];
    struct gen_memory data;
    uint32_t steps, batch;
    uint64_t store_bytes; /* bytes for its tables, where the text gives them less; 0: the text's suffice */
};

/* The assignments of a run: the benchmark's, then the user's, which win. */
struct sets {
    const char *item[SETS_MAX];
    uint32_t count;
    char store[64], precision[32];
};

static void sets_make(struct sets *s, const struct bench *b, const struct model_file *m, const char *precision)
{
    s->count = 0;
    if (m->is_sample) s->item[s->count++] = b->o->quick ? SAMPLE_BATCH_QUICK : SAMPLE_BATCH;
    if (m->store_bytes > 0) {
        snprintf(s->store, sizeof s->store, "store.ram=%" PRIu64, m->store_bytes);
        s->item[s->count++] = s->store;
    }
    if (precision) {
        snprintf(s->precision, sizeof s->precision, "train.precision=%s", precision);
        s->item[s->count++] = s->precision;
    }
    for (uint32_t i = 0; i < b->o->set_count; i++) s->item[s->count++] = b->o->set[i];
}

/* --- the model and its data ---------------------------------------------------------------------- */

/* Compiles a text into a graph file in memory. */
static status text_compile(struct model_file *m, const char *text, size_t bytes)
{
    struct compile_source files = {.path = m->name, .text = text, .text_bytes = bytes};
    const struct graph_source source = compile_source(&files);
    struct graph graph;
    status st = graph_compile(&graph, m->name, text, bytes, NULL, 0, &source);
    compile_source_close(&files);
    TRY(st);
    m->fd = memfd_create("heterps-graph", MFD_CLOEXEC);
    snprintf(m->path, sizeof m->path, "/proc/self/fd/%d", m->fd);
    const uint8_t *image = (const uint8_t *)graph.header;
    for (size_t done = 0; st == ST_OK && done < graph.bytes;) {
        ssize_t wrote = m->fd < 0 ? -1 : write(m->fd, image + done, graph.bytes - done);
        if (wrote < 0 && (m->fd < 0 || errno != EINTR))
            st = status_fail(ST_SYSTEM, __FILE__, __LINE__, "no memory for a graph: %s", strerror(errno));
        if (wrote > 0) done += (size_t)wrote;
    }
    graph_close(&graph);
    return st;
}

static status model_file_open(struct model_file *m, const char *name)
{
    const char *text = sample_text(name);
    *m = (struct model_file){.name = name, .is_sample = text != NULL, .fd = -1};
    if (text) return text_compile(m, text, strlen(text));
    struct file_map map;
    TRY(file_map_read(&map, name));
    bool is_graph = map.bytes >= 8 && memcmp(map.data, GRAPH_MAGIC, 8) == 0;
    status st = ST_OK;
    if (is_graph)
        snprintf(m->path, sizeof m->path, "%s", name);
    else
        st = text_compile(m, (const char *)map.data, map.bytes);
    file_map_close(&map);
    return st;
}

static void model_file_close(struct model_file *m)
{
    gen_memory_close(&m->data);
    if (m->fd >= 0) close(m->fd);
}

/* Bytes for all rows that the data may bring, at most half of the free memory; 0 if `asked` suffices. */
static uint64_t store_bytes_of(const struct bench *b, const struct graph *g, uint64_t examples, uint64_t asked)
{
    uint64_t most = 0, half = memory_available_bytes() / 2;
    for (uint32_t table = 0; table < g->table_count; table++) {
        uint64_t values = (uint64_t)b->vocab * g->tables[table].field_count,
                 keys = examples * g->tables[table].key_count_max,
                 bytes = (values < keys ? values : keys) *
                         (g->tables[table].span_floats * sizeof(float) + STORE_BYTES_MORE);
        if (bytes > most) most = bytes;
    }
    most *= g->table_count;
    return most <= asked ? 0 : most < half ? most : half;
}

/* Generates data for the model. */
static status data_generate(struct model_file *m, const struct bench *b, const struct graph *graph)
{
    struct ini ini = {0};
    struct settings settings;
    struct schema schema = {0};
    uint32_t batch = graph->header->batch, steps = (b->o->quick ? EXAMPLES_QUICK : EXAMPLES) / batch;
    m->batch = batch;
    double most = FLOPS_MAX / (train_bench_flops(graph) * batch + 1);
    if (steps > most) steps = (uint32_t)most;
    m->steps = steps < STEPS_MIN ? STEPS_MIN : steps > STEPS_MAX ? STEPS_MAX : steps;
    status st = ini_parse(&ini, m->path, graph->text, graph->text_bytes);
    if (st == ST_OK) st = settings_read(&ini, &settings);
    if (st == ST_OK) st = schema_open(&schema, graph, &settings);
    if (st == ST_OK)
        st = gen_memory_open(&m->data, &(struct gen_memory_options){.format = (enum reader_format)settings.data_format,
                                                                    .schema = &schema.reader,
                                                                    .row_count = (uint64_t)m->steps * batch,
                                                                    .vocab = b->vocab});
    if (st == ST_OK) m->store_bytes = store_bytes_of(b, graph, (uint64_t)m->steps * batch, settings.store_ram);
    schema_close(&schema);
    ini_free(&ini);
    return st;
}

/* Opens the graph of a model file with the run's assignments. */
static status model_file_graph(const struct model_file *m, const struct bench *b, struct graph *graph)
{
    struct sets sets;
    sets_make(&sets, b, m, NULL);
    return graph_open_set(graph, m->path, sets.item, sets.count);
}

static status model_file_data(struct model_file *m, const struct bench *b)
{
    struct graph graph;
    TRY(model_file_graph(m, b, &graph));
    status st = data_generate(m, b, &graph);
    graph_close(&graph);
    return st;
}

/* --- a run -------------------------------------------------------------------------------------- */

/* Nanoseconds of all stages' work so far; of the time that all workers had; and of preparing rows, times the
 * workers. */
struct phases {
    double work[WORK_COUNT], wall, rows;
};

static struct phases phases_of(const struct train_bench *t)
{
    struct pipeline_figures figures;
    struct phases p = {0};
    uint32_t workers = 0;
    pipeline_figures(t->crew.pipeline, &figures);
    for (uint32_t stage = 0; stage < figures.stage_count; stage++) {
        workers += figures.stage[stage].worker_count;
        for (int w = 0; w < WORK_COUNT; w++) p.work[w] += (double)figures.stage[stage].busy_ns[w];
    }
    if (figures.is_shared) workers = figures.worker_count;
    p.wall = (double)figures.wall_ns * workers;
    p.rows = (double)figures.prepare_ns * workers;
    return p;
}

/* The results of one configuration. */
struct found {
    struct series samples, limit; /* examples a second; limit: with all operations at the peak */
    double flops, peak;           /* of an example; the latest, in GFLOP/s                */
    struct phases phases;         /* of the repeats, as shares of their time              */
    uint32_t threads, batch;
    const char *model;
    uint32_t precision;
    const char *peak_by; /* from bench_peak */
};

static status found_measure(struct found *f, const struct bench *b, struct train_bench *t)
{
    double seconds = b->o->quick ? SECONDS_QUICK : SECONDS, rate;
    f->flops = train_bench_flops(&t->setup.graph);
    TRY(train_bench_run(t, seconds, &rate)); /* the first run warms up */
    struct phases begin = phases_of(t);
    for (uint32_t i = 0; i < b->repeats; i++) {
        f->peak = bench_peak(b, f->precision, f->threads, true, &f->peak_by); /* as training, whose threads may wait */
        series_add(&f->limit, f->peak * 1e9 / f->flops);
        TRY(train_bench_run(t, seconds, &rate));
        series_add(&f->samples, rate);
    }
    struct phases end = phases_of(t);
    double wall = end.wall - begin.wall;
    for (int w = 0; w < WORK_COUNT; w++) f->phases.work[w] = (end.work[w] - begin.work[w]) / wall;
    f->phases.rows = (end.rows - begin.rows) / wall;
    return ST_OK;
}

static void found_tell(const struct found *f)
{
    char name[64];
    double forward = f->phases.work[WORK_FORWARD], backward = f->phases.work[WORK_BACKWARD],
           update = f->phases.work[WORK_UPDATE], wait = 1 - forward - backward - update,
           gflops = series_spread(&f->samples).median * f->flops * 1e-9;
    snprintf(name, sizeof name, "%.16s %s, batch %u", f->model, cfg_precisions[f->precision], f->batch);
    bench_tell(&(struct bench_figure){.subject = "train",
                                      .name = name,
                                      .unit = "samples/s",
                                      .precision = cfg_precisions[f->precision],
                                      .threads = f->threads,
                                      .ours = &f->samples,
                                      .limit = &f->limit,
                                      .limit_name = f->peak_by,
                                      .detail = {{"batch", f->batch},
                                                 {"kflop", f->flops * 1e-3},
                                                 {"gflops", gflops},
                                                 {"forward", forward},
                                                 {"backward", backward},
                                                 {"update", update},
                                                 {"wait", wait},
                                                 {"rows", f->phases.rows}}},
               true);
    bench_line("      %.0f of %.0f GFLOP/s; forward %.0f%%, backward %.0f%%, update %.0f%%, waiting %.0f%%; "
               "beside it rows found %.0f%%",
               gflops, f->peak, 100 * forward, 100 * backward, 100 * update, 100 * wait, 100 * f->phases.rows);
}

/* Measures one model on `threads` threads, in the given precision; NULL: in the settings'. */
static status config_measure(const struct bench *b, const struct model_file *m, uint32_t threads, const char *precision)
{
    struct sets sets;
    struct train_bench t;
    static struct found found;
    sets_make(&sets, b, m, precision);
    const struct train_bench_options options = {
        .setup = {.graph_path = m->path, .set = sets.item, .set_count = sets.count},
        .crew = {.threads = threads, .isa = b->isa_name},
        .data = m->data.path,
        .replay_steps = m->steps};
    found = (struct found){.threads = threads, .batch = m->batch, .model = m->name};
    status st = train_bench_open(&t, &options);
    if (st == ST_OK) {
        found.precision = t.setup.settings.train_precision;
        st = found_measure(&found, b, &t);
    }
    train_bench_close(&t);
    if (st == ST_OK) found_tell(&found);
    return st;
}

/* Whether the precision is left to the text and --set: without --precision for models that are no samples,
 * and for any model where --set gives it. */
static bool is_as_set(const struct bench *b, const struct model_file *m)
{
    static const char key[] = "train.precision=";
    bool is_set = !m->is_sample && b->o->precision == NULL;
    for (uint32_t i = 0; i < b->o->set_count; i++) is_set |= strncmp(b->o->set[i], key, sizeof key - 1) == 0;
    return is_set;
}

static status model_measure(const struct bench *b, const char *name)
{
    struct model_file m;
    status st = model_file_open(&m, name);
    if (st == ST_OK) st = model_file_data(&m, b);
    for (uint32_t i = 0; i < b->thread_count_count && st == ST_OK; i++) {
        if (is_as_set(b, &m)) st = config_measure(b, &m, b->thread_counts[i], NULL);
        for (uint32_t precision = 0; precision < PRECISION_CPU_COUNT && st == ST_OK && !is_as_set(b, &m); precision++)
            if (bench_has_precision(b, precision))
                st = config_measure(b, &m, b->thread_counts[i], cfg_precisions[precision]);
    }
    model_file_close(&m);
    if (st != ST_MEMORY) return st;
    log_warning("%s is left out: %s", name, status_message());
    bench_note("%s is left out: not enough memory", name);
    return ST_OK;
}

static const char *const samples[] = {"ctrdnn", "ctrdnn1", "ctrdnn2"};

/* Opens the model, compiled if need be, with the assignments of a run. */
status bench_train_check(const struct bench *b)
{
    struct model_file m;
    struct graph graph;
    status st = model_file_open(&m, b->o->what ? b->o->what : samples[0]);
    if (st == ST_OK) st = model_file_graph(&m, b, &graph);
    if (st == ST_OK) graph_close(&graph);
    model_file_close(&m);
    return st;
}

status bench_train(const struct bench *b)
{
    bench_heading("train");
    bench_columns();
    if (b->o->what) return model_measure(b, b->o->what);
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) TRY(model_measure(b, samples[i]));
    return ST_OK;
}
