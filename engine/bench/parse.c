/* Measures how fast text becomes micro-batches, on one core, beside reading and dropping the same
 * file. The text is generated, as skewed as click logs, in memory; all formats hold the same values,
 * with the columns of the sample ctrdnn. */
#include "engine/bench/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/bench/samples.h"
#include "engine/data/gen_memory.h"
#include "io/cache/cached_reader.h"

#define ROWS       UINT64_C(400000)
#define ROWS_QUICK UINT64_C(20000)
#define READ_BYTES ((size_t)256 << 10)
#define WINDOW     10000u /* of shuffling */
/* With a data cache: the measured pass, after one that writes the cache and one
 * that first touches its memory. */
#define CACHED_PASS 2u
#define BLOCKS      8u /* blocks of the data cache that are mixed */

/* --- formats ----------------------------------------------------------------------------------- */

/* A walk through a line of Criteo's, value by value. */
struct criteo_line {
    const char *at, *end;
    uint32_t column; /* the value's: 0 the label, then I1 .. I13, C1 .. C26 */
    const char *value;
    size_t bytes;
};
static bool criteo_next(struct criteo_line *l)
{
    if (l->at > l->end) return false;
    if (l->value) l->column++;
    l->value = l->at;
    const char *tab = memchr(l->at, '\t', (size_t)(l->end - l->at));
    l->bytes = (size_t)((tab ? tab : l->end) - l->value);
    l->at = l->value + l->bytes + 1;
    return true;
}
static bool is_dense(uint32_t column) { return column >= 1 && column <= GEN_CRITEO_DENSE; }

/* Writes values between commas, and, if is_quoted, texts in quotation marks. */
static size_t csv_put(const char *line, size_t bytes, char *out, bool is_quoted)
{
    char *at = out;
    for (struct criteo_line l = {.at = line, .end = line + bytes - 1}; criteo_next(&l);) {
        bool has_quotes = is_quoted && l.column > GEN_CRITEO_DENSE;
        if (l.column) *at++ = ',';
        if (has_quotes) *at++ = '"';
        at = mempcpy(at, l.value, l.bytes);
        if (has_quotes) *at++ = '"';
    }
    *at++ = '\n';
    return (size_t)(at - out);
}
static size_t csv_rewrite(const char *line, size_t bytes, char *out) { return csv_put(line, bytes, out, false); }
static size_t csv_quoted_rewrite(const char *line, size_t bytes, char *out) { return csv_put(line, bytes, out, true); }

/* Writes a number as the value of its column's feature, a text as a feature's number;
 * leaves out absent values. */
static size_t features_put(const char *line, size_t bytes, char *out, bool has_field)
{
    char *at = out;
    for (struct criteo_line l = {.at = line, .end = line + bytes - 1}; criteo_next(&l);) {
        if (l.column == 0) at = mempcpy(at, l.value, l.bytes);
        if (l.column == 0 || l.bytes == 0) continue;
        *at++ = ' ';
        if (has_field) at += sprintf(at, "%u:", l.column - 1);
        if (is_dense(l.column))
            at += sprintf(at, "%u:%.4f", l.column, atof(l.value) / 10);
        else
            at += sprintf(at, "%lu:1", strtoul(l.value, NULL, 16) % 10000000);
    }
    *at++ = '\n';
    return (size_t)(at - out);
}
static size_t libsvm_rewrite(const char *line, size_t bytes, char *out)
{
    return features_put(line, bytes, out, false);
}
static size_t libffm_rewrite(const char *line, size_t bytes, char *out) { return features_put(line, bytes, out, true); }

#define CSV_SET "data.format=csv", "data.header=no", "data.columns=label, I1..I13, C1..C26"
static const struct text_format {
    const char *name;
    enum reader_format format;
    const char *set[5]; /* assignments to ctrdnn, with a final NULL */
    size_t (*rewrite)(const char *line, size_t bytes, char *out);
    uint32_t window; /* of lines shuffled together; 0: the order of the file */
    bool is_cached;  /* passes after the first read the data cache in RAM */
    uint32_t blocks; /* of the data cache mixed with each other; 0: the order of the file */
} formats[] = {
    {"criteo", READER_CRITEO, {NULL}, NULL, 0, false, 0},
    {"criteo-shuffled", READER_CRITEO, {NULL}, NULL, WINDOW, false, 0},
    {"criteo-cached", READER_CRITEO, {NULL}, NULL, 0, true, 0},
    {"criteo-blocks", READER_CRITEO, {NULL}, NULL, 0, true, BLOCKS},
    {"csv", READER_CSV, {CSV_SET}, csv_rewrite, 0, false, 0},
    {"csv-quoted", READER_CSV, {CSV_SET}, csv_quoted_rewrite, 0, false, 0},
    {"libsvm",
     READER_LIBSVM,
     {"data.format=libsvm", "data.dense=", "data.sparse=features", "data.ids_max=39", "x.input=e"},
     libsvm_rewrite,
     0,
     false,
     0},
    {"libffm",
     READER_LIBFFM,
     {"data.format=libffm", "data.dense=", "data.sparse=F0..F38", "x.input=e"},
     libffm_rewrite,
     0,
     false,
     0},
};
#define FORMAT_COUNT (sizeof formats / sizeof *formats)

status bench_parse_check(const struct bench *b)
{
    for (size_t i = 0; i < FORMAT_COUNT; i++)
        if (b->o->what == NULL || strcmp(b->o->what, formats[i].name) == 0) return ST_OK;
    FAIL(USAGE,
         "bench parse: expected criteo, criteo-shuffled, criteo-cached, criteo-blocks, csv, csv-quoted, "
         "libsvm or libffm, found \"%s\"",
         b->o->what);
}

/* --- measuring --------------------------------------------------------------------------------- */

struct text {
    const struct text_format *format;
    struct graph graph;
    struct ini ini;
    struct settings settings;
    struct schema schema;
    struct gen_memory data;
    uint64_t bytes, rows;
    struct arena arena;
    struct micro_batch batch;
};

/* Processor time of all threads of the process, so that a reader's own threads count. */
static double process_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static status text_open(struct text *t, const struct bench *b, const struct text_format *format)
{
    const char *text = sample_text("ctrdnn");
    struct stat file;
    uint32_t set_count = 0;
    t->format = format;
    while (set_count < sizeof format->set / sizeof *format->set && format->set[set_count]) set_count++;
    TRY(graph_compile(&t->graph, "ctrdnn", text, strlen(text), format->set, set_count, NULL));
    TRY(ini_parse(&t->ini, "ctrdnn", t->graph.text, t->graph.text_bytes));
    TRY(settings_read(&t->ini, &t->settings));
    TRY(schema_open(&t->schema, &t->graph, &t->settings));
    t->rows = b->o->quick ? ROWS_QUICK : ROWS;
    TRY(gen_memory_open(
        &t->data, &(struct gen_memory_options){
                      .format = READER_CRITEO, .row_count = t->rows, .vocab = b->vocab, .rewrite = format->rewrite}));
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

/* Reads one pass, and checks that all its examples came. */
static status pass_read(struct text *t, struct reader *reader, uint64_t epoch)
{
    uint64_t rows = 0;
    bool is_end = false;
    TRY(reader_start(reader, epoch));
    while (!is_end) {
        micro_batch_clear(&t->batch);
        TRY(reader_fill(reader, &t->batch, t->graph.header->micro, &is_end));
        rows += t->batch.example_count;
    }
    if (rows != t->rows) FAIL(INVALID, "expected %" PRIu64 " examples, found %" PRIu64, t->rows, rows);
    return ST_OK;
}

static status text_parse(struct text *t, double *gigabytes)
{
    struct reader *reader;
    const struct reader_options options = {.format = t->format->format,
                                           .paths = t->data.path,
                                           .schema = t->schema.reader,
                                           .shuffle = t->format->window,
                                           .part = "reader",
                                           .notices = &log_notices};
    const struct data_cache_budget cache = {.ram_bytes = t->format->is_cached ? t->bytes : 0,
                                            .window = t->format->blocks};
    TRY(cached_reader_open(&reader, &options, &cache, NULL));
    uint64_t epoch = t->format->is_cached ? CACHED_PASS : 0;
    status st = ST_OK;
    for (uint64_t i = 0; i < epoch && st == ST_OK; i++) st = pass_read(t, reader, i);
    double begin = process_seconds();
    if (st == ST_OK) st = pass_read(t, reader, epoch);
    *gigabytes = (double)t->bytes * 1e-9 / (process_seconds() - begin);
    reader_close(reader);
    return st;
}

static status format_measure(const struct bench *b, const struct text_format *format)
{
    struct text text = {0};
    struct series ours = {0}, limit = {0}, lines = {0};
    status st = text_open(&text, b, format);
    for (uint32_t i = 0; i <= b->repeats && st == ST_OK; i++) { /* the first repeat warms up */
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
                                      .name = format->name,
                                      .unit = "GB/s",
                                      .threads = 1,
                                      .ours = &ours,
                                      .limit = &limit,
                                      .limit_name = "read",
                                      .detail = {{"bytes", (double)text.bytes}, {"rows", (double)text.rows}}};
        bench_tell(&figure, true);
        char name[32];
        snprintf(name, sizeof name, "%s, examples", format->name);
        figure = (struct bench_figure){.subject = "parse", .name = name, .unit = "M/s", .threads = 1, .ours = &lines};
        bench_tell(&figure, true);
    }
    text_close(&text);
    return st;
}

status bench_parse(const struct bench *b)
{
    bench_heading("parse");
    bench_columns();
    for (size_t i = 0; i < FORMAT_COUNT; i++)
        if (b->o->what == NULL || strcmp(b->o->what, formats[i].name) == 0) TRY(format_measure(b, &formats[i]));
    return ST_OK;
}
