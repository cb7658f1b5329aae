/* How fast Criteo's text becomes micro-batches, on one core, beside reading the same file and dropping it. The text is generated, as skewed
 * as click logs are, and lies in memory; the columns are those of the sample ctrdnn. */
#include "engine/bench/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/bench/samples.h"
#include "engine/gen_memory.h"

#define ROWS       UINT64_C(400000)
#define ROWS_QUICK UINT64_C(20000)
#define READ_BYTES ((size_t)256 << 10)

struct text {
    struct graph graph;
    struct ini ini;
    struct settings settings;
    struct schema schema;
    struct gen_memory data;
    uint64_t bytes, rows;
    struct arena arena;
    struct micro_batch batch;
};

/* What all threads of the process have spent on processors: a reader that has threads of its own is measured whole. */
static double process_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static status text_open(struct text *t, const struct bench *b)
{
    const char *text = sample_text("ctrdnn");
    struct stat file;
    TRY(graph_compile(&t->graph, "ctrdnn", text, strlen(text), NULL, 0, NULL));
    TRY(ini_parse(&t->ini, "ctrdnn", t->graph.text, t->graph.text_bytes));
    TRY(settings_read(&t->ini, &t->settings));
    TRY(schema_open(&t->schema, &t->graph, &t->settings));
    t->rows = b->o->quick ? ROWS_QUICK : ROWS;
    TRY(gen_memory_open(
        &t->data, &(struct gen_memory_options){
                      .format = READER_CRITEO, .schema = &t->schema.reader, .row_count = t->rows, .vocab = b->vocab}));
    if (fstat(t->data.fd, &file) != 0) FAIL(IO, "generated data: %s", strerror(errno));
    t->bytes = (uint64_t)file.st_size;
    struct batch_shape shape = graph_batch(&t->graph);
    TRY(arena_open(&t->arena, "bench batch", micro_batch_bytes(shape, graph_example(&t->graph))));
    micro_batch_place(&t->batch, &t->arena, shape, graph_example(&t->graph));
    return ST_OK;
}

static void text_close(struct text *t)
{
    arena_close(&t->arena);
    gen_memory_close(&t->data);
    schema_close(&t->schema);
    ini_free(&t->ini);
    graph_close(&t->graph);
}

static status text_read(const struct text *t, double *gigabytes)
{
    static char block[READ_BYTES];
    double begin = process_seconds();
    uint64_t sum = 0;
    int fd = open(t->data.path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) FAIL(IO, "%s: %s", t->data.path, strerror(errno));
    for (ssize_t got; (got = read(fd, block, sizeof block)) > 0;) sum += (uint64_t)got;
    close(fd);
    if (sum != t->bytes) FAIL(IO, "%s: expected %" PRIu64 " bytes, found %" PRIu64, t->data.path, t->bytes, sum);
    *gigabytes = (double)sum * 1e-9 / (process_seconds() - begin);
    return ST_OK;
}

static status text_parse(struct text *t, double *gigabytes)
{
    struct reader *reader;
    uint64_t rows = 0;
    bool is_end = false;
    TRY(reader_open(&reader,
                    &(struct reader_options){
                        .format = READER_CRITEO, .paths = t->data.path, .schema = t->schema.reader, .part = "reader"}));
    double begin = process_seconds();
    status st = reader_start(reader, 0);
    while (st == ST_OK && !is_end) {
        micro_batch_clear(&t->batch);
        st = reader_fill(reader, &t->batch, t->graph.header->micro, &is_end);
        rows += t->batch.example_count;
    }
    *gigabytes = (double)t->bytes * 1e-9 / (process_seconds() - begin);
    reader_close(reader);
    if (st == ST_OK && rows != t->rows) FAIL(INVALID, "expected %" PRIu64 " examples, found %" PRIu64, t->rows, rows);
    return st;
}

status bench_parse(const struct bench *b)
{
    struct text text = {0};
    struct series ours = {0}, limit = {0}, lines = {0};
    bench_heading("parse");
    bench_columns();
    status st = text_open(&text, b);
    for (uint32_t i = 0; i <= b->repeats && st == ST_OK; i++) { /* the first time only warms up */
        double top = 0, rate = 0;
        st = text_read(&text, &top);
        if (st == ST_OK) st = text_parse(&text, &rate);
        if (i == 0 || st != ST_OK) continue;
        series_add(&ours, rate);
        series_add(&limit, top);
        series_add(&lines, rate * 1e9 / (double)text.bytes * (double)text.rows * 1e-6);
    }
    if (st == ST_OK) {
        struct bench_figure figure = {.subject = "parse",
                                      .name = "criteo",
                                      .unit = "GB/s",
                                      .threads = 1,
                                      .ours = &ours,
                                      .limit = &limit,
                                      .limit_name = "read",
                                      .detail = {{"bytes", (double)text.bytes}, {"rows", (double)text.rows}}};
        bench_tell(&figure, true);
        figure = (struct bench_figure){
            .subject = "parse", .name = "criteo, examples", .unit = "M/s", .threads = 1, .ours = &lines};
        bench_tell(&figure, true);
    }
    text_close(&text);
    return st;
}
