/* Measures how fast text becomes inputs of a training: it is read, parsed and hashed, rows are found and
 * numbered; the consumer gives inputs back at once and computes nothing. The text is generated, in memory,
 * with columns and table of the sample ctrdnn1. The limit is one thread's rate times the gain of several
 * independent threads on this machine, measured by multiply-adds. */
#include "engine/bench/bench.h"

#include <stdlib.h>
#include <string.h>

#include "cfg/settings.h"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/stop.h"
#include "engine/bench/samples.h"
#include "engine/data/gen_memory.h"
#include "engine/pipe/feed.h"

#define SAMPLE     "ctrdnn1"
#define ROWS       UINT64_C(400000)
#define ROWS_QUICK UINT64_C(20000)
#define INPUTS     12u

struct feed_bench {
    struct graph graph;
    struct ini ini;
    struct settings settings;
    struct schema schema;
    struct gen_memory data;
    uint64_t rows;
    struct model model;
    struct bell bell;
};

static status feed_bench_open(struct feed_bench *f, const struct bench *b)
{
    static const char *const set[] = {"train.batch=2048", "store.ram=1GiB"};
    const char *text = sample_text(SAMPLE);
    TRY(graph_compile(&f->graph, SAMPLE, text, strlen(text), set, sizeof set / sizeof *set, NULL));
    TRY(ini_parse(&f->ini, SAMPLE, f->graph.text, f->graph.text_bytes));
    TRY(settings_read(&f->ini, &f->settings));
    TRY(schema_open(&f->schema, &f->graph, &f->settings));
    f->rows = b->o->quick ? ROWS_QUICK : ROWS;
    TRY(gen_memory_open(
        &f->data, &(struct gen_memory_options){.format = READER_CRITEO, .row_count = f->rows, .vocab = b->vocab}));
    TRY(model_open(&f->model, &f->graph, &(struct model_budget){.ram_bytes = f->settings.store_ram, .lives = true}));
    model_init(&f->model);
    return ST_OK;
}

static void feed_bench_close(struct feed_bench *f)
{
    model_close(&f->model);
    gen_memory_close(&f->data);
    schema_close(&f->schema);
    ini_free(&f->ini);
    graph_close(&f->graph);
}

struct next {
    struct feed *feed;
    struct input *input;
    enum feed_state state;
};
static bool next_look(void *context)
{
    struct next *next = context;
    next->state = feed_try_next(next->feed, &next->input);
    return next->state != FEED_EMPTY;
}

/* Takes all inputs of the feed and gives them back at once. */
static status inputs_take(struct feed_bench *f, struct feed *feed, uint64_t *examples)
{
    struct next next = {.feed = feed};
    for (*examples = 0; !stop_requested();) {
        bell_await(&f->bell, false, next_look, &next);
        if (next.state == FEED_END) return feed_result(feed);
        *examples += next.input->batch.example_count;
        feed_release(feed, next.input);
    }
    FAIL(STOPPED, "stopped by a signal");
}

/* One pass with `threads` threads that parse, one of which also finds rows,
 * and half as many that number keys. */
static status pass_run(struct feed_bench *f, const struct bench *b, uint32_t threads, double *examples_per_s)
{
    struct feed *feed;
    uint64_t examples = 0;
    const struct feed_options options = {.graph = &f->graph,
                                         .model = &f->model,
                                         .training = true,
                                         .input_count = INPUTS,
                                         .epochs = 1,
                                         .processors = bench_processors(b, threads),
                                         .processor_count = bench_processors(b, threads) ? 1 : 0,
                                         .numberers = feed_numberers(threads),
                                         .reader = {.format = READER_CRITEO,
                                                    .paths = f->data.path,
                                                    .schema = f->schema.reader,
                                                    .readers = threads,
                                                    .part = "reader",
                                                    .notices = &log_notices}};
    TRY(feed_open(&feed, &options));
    feed_bell_set(feed, &f->bell);
    const uint64_t begin_ns = clock_ns();
    status st = feed_start(feed, NULL);
    if (st == ST_OK) st = inputs_take(f, feed, &examples);
    *examples_per_s = (double)f->rows * 1e9 / (double)(clock_ns() - begin_ns);
    feed_close(feed);
    CHECK(st != ST_OK || examples == f->rows);
    return st;
}

static void threads_tell(uint32_t threads, const struct series *ours, const struct series *limit)
{
    const struct bench_figure figure = {.subject = "feed",
                                        .name = SAMPLE ", examples",
                                        .unit = "M/s",
                                        .threads = threads,
                                        .ours = ours,
                                        .limit = threads > 1 ? limit : NULL,
                                        .limit_name = "one thread's, times what multiply-adds gain"};
    bench_tell(&figure, true);
}

static status measure(struct feed_bench *f, const struct bench *b)
{
    struct series ours[2] = {0}, limit = {0};
    double rate;
    TRY(pass_run(f, b, 1, &rate)); /* makes the rows */
    for (uint32_t i = 0; i < b->repeats; i++) {
        double one = 0;
        for (uint32_t k = 0; k < b->thread_count_count; k++) {
            const uint32_t threads = b->thread_counts[k];
            const double alone = limit_fma(b->isa, 1, bench_processors(b, 1), true),
                         all = limit_fma(b->isa, threads, bench_processors(b, threads), true);
            TRY(pass_run(f, b, threads, &rate));
            if (threads == 1) one = rate;
            series_add(&ours[k], rate * 1e-6);
            if (threads == 1) continue;
            if (one == 0) TRY(pass_run(f, b, 1, &one));
            series_add(&limit, one * all / alone * 1e-6);
        }
    }
    for (uint32_t k = 0; k < b->thread_count_count; k++) threads_tell(b->thread_counts[k], &ours[k], &limit);
    return ST_OK;
}

status bench_feed(const struct bench *b)
{
    struct feed_bench f = {0};
    bench_heading("feed");
    bench_columns();
    status st = feed_bench_open(&f, b);
    if (st == ST_OK) st = measure(&f, b);
    feed_bench_close(&f);
    return st;
}
