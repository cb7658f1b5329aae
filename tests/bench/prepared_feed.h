/* A feed for benchmarks, which the linker takes instead of engine/pipe/feed.c. Its micro-batches are parsed,
 * and their rows found and numbered, beforehand; it plays them round and round. A call points a free slot to
 * the next micro-batch. No thread reads meanwhile, so none helps a team. */
#ifndef HETERPS_TESTS_PREPARED_FEED_H
#define HETERPS_TESTS_PREPARED_FEED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/pipe/feed.h"
#include "engine/data/gen_criteo.h"
#include "engine/model/model.h"
#include "engine/slot/step_rows.h"
#include "io/read/reader.h"
#include "io/store/store_rows.h"
#include "io/store/store_ticket.h"
#include "tests/engine/pipe/schema_fixture.h"

#define RAM_BYTES ((uint64_t)512 << 20)

static void must(status st)
{
    if (st == ST_OK) return;
    fprintf(stderr, "pipeline_bench: %s\n", status_message());
    exit(1);
}

/* A graph, a model of it, and the micro-batches of some whole steps, ready to run. */
struct data {
    struct graph graph;
    struct model model;
    struct arena arena;
    uint32_t step_count, micro_count;
    struct micro_batch *batch; /* [step_count * micro_count]                                       */
    struct ticket *ticket;
    struct step_rows *rows; /* [step_count, table_count]                                        */
    /* micro-batches played so far: step progress.step begins where this is a multiple of micro_count */
    uint64_t position;
};

struct feed {
    struct data *data;
    struct arena arena;
    struct input *inputs;
    uint32_t input_count;
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

/* What the reader must know of the graph; the graph and the reader are kept to the end. */
static struct reader_schema schema_of(const struct graph *g)
{
    struct test_schema *schema = calloc(1, sizeof *schema);
    CHECK(schema != NULL);
    must(test_schema_open(schema, g));
    return schema->schema.reader;
}

/* Memory for numbering the rows of a step, and for the rows of all steps. */
static void rows_layout(struct data *d, struct layout *l, struct row_numbers *numbers)
{
    const struct graph *g = &d->graph;
    const struct batch_shape shape = graph_batch(g);
    const uint32_t rows_max = shape.batch * graph_example(g).key_count_max;
    for (uint32_t t = 0; t < g->table_count; t++)
        row_numbers_layout(l->arena ? &numbers[t] : NULL, l, rows_max, d->micro_count);
    for (uint32_t i = 0; i < d->step_count * g->table_count; i++)
        step_rows_layout(l->arena ? &d->rows[i] : NULL, l, rows_max,
                         (struct step_rows_wants){.lanes = shape.lanes > 1});
}

/* Compiles the text and prepares step_count steps of it. */
static void data_open(struct data *d, const char *path, const char *text, const char *const *set, uint32_t set_count,
                      uint32_t step_count)
{
    *d = (struct data){.step_count = step_count};
    must(graph_compile(&d->graph, path, text, strlen(text), set, set_count, NULL));
    const struct graph *g = &d->graph;
    must(model_open(&d->model, g, &(struct model_budget){.ram_bytes = RAM_BYTES}));
    model_init(&d->model);
    struct batch_shape shape = graph_batch(g);
    struct example_shape example = graph_example(g);
    uint32_t spans[GRAPH_TABLES_MAX];
    struct row_numbers numbers[GRAPH_TABLES_MAX];
    d->micro_count = batch_micro_count(shape);
    uint32_t count = step_count * d->micro_count;
    size_t bytes = 0;
    struct layout rows_sum = {0}, rows_place = {.arena = &d->arena};
    for (uint32_t t = 0; t < g->table_count; t++) spans[t] = g->tables[t].span_floats;
    rows_layout(d, &rows_sum, numbers);
    bytes += arena_bytes(count * sizeof *d->batch) + arena_bytes(count * sizeof *d->ticket);
    bytes += count * (micro_batch_bytes(shape, example) + ticket_bytes(shape, example, g->table_count, spans, false));
    bytes += arena_bytes(step_count * (g->table_count + 1u) * sizeof *d->rows);
    bytes += rows_sum.bytes;
    must(arena_open(&d->arena, "prepared", bytes));
    d->batch = arena_take(&d->arena, count * sizeof *d->batch);
    d->ticket = arena_take(&d->arena, count * sizeof *d->ticket);
    d->rows = arena_take(&d->arena, step_count * (g->table_count + 1u) * sizeof *d->rows);
    rows_layout(d, &rows_place, numbers);
    struct reader *reader;
    must(reader_open(&reader,
                     &(struct reader_options){
                         .format = READER_CRITEO, .paths = clicks_path(), .schema = schema_of(g), .part = "reader"}));
    must(reader_start(reader, 0));
    for (uint32_t s = 0; s < step_count; s++) {
        struct step_rows *rows = &d->rows[s * g->table_count];
        for (uint32_t t = 0; t < g->table_count; t++) step_rows_begin(&numbers[t], &rows[t]);
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
                step_rows_add(&numbers[t], &rows[t], &d->ticket[at].table[t], batch_lane_of(shape, i));
        }
    }
    reader_close(reader);
}

static void data_close(struct data *d)
{
    arena_close(&d->arena);
    model_close(&d->model);
    graph_close(&d->graph);
}

static struct feed *player_open(struct data *d, uint32_t input_count)
{
    struct feed *feed = aligned_alloc(CACHE_LINE_BYTES, arena_bytes(sizeof *feed));
    CHECK(feed != NULL);
    memset(feed, 0, sizeof *feed);
    feed->data = d;
    feed->input_count = input_count;
    must(arena_open(&feed->arena, "inputs",
                    arena_bytes(input_count * sizeof *feed->inputs) + ring_bytes(input_count, RING_MANY)));
    feed->inputs = arena_take(&feed->arena, input_count * sizeof *feed->inputs);
    ring_place(&feed->free, &feed->arena, input_count, RING_MANY);
    for (uint32_t i = 0; i < input_count; i++) {
        feed->inputs[i].index = i;
        CHECK(ring_try_push(&feed->free, i));
    }
    return feed;
}

static void player_close(struct feed *feed)
{
    arena_close(&feed->arena);
    free(feed);
}

enum feed_state feed_try_next(struct feed *feed, struct input **out)
{
    struct data *d = feed->data;
    uint32_t index;
    if (!ring_try_pop(&feed->free, &index)) return FEED_EMPTY;
    uint64_t step = d->position / d->micro_count, at = d->position % (d->step_count * d->micro_count);
    struct input *input = &feed->inputs[index];
    input->batch = d->batch[at];
    input->batch.step = step;
    input->ticket = d->ticket[at];
    input->step_rows = &d->rows[step % d->step_count * d->graph.table_count];
    d->position++;
    *out = input;
    return FEED_INPUT;
}

void feed_release(struct feed *feed, struct input *input) { CHECK(ring_try_push(&feed->free, input->index)); }

uint32_t feed_input_count(const struct feed *feed) { return feed->input_count; }

void *feed_memory(const struct feed *feed, size_t *bytes)
{
    *bytes = feed->arena.size_bytes;
    return feed->arena.base;
}

status feed_result(const struct feed *feed)
{
    (void)feed;
    return ST_OK;
}

/* Rows stay. */
status feed_sweep(struct feed *feed, struct input *input, uint64_t *row_count)
{
    (void)feed;
    (void)input;
    (void)row_count;
    return ST_OK;
}

/* There is no thread that could help. */
void feed_team_set(struct feed *feed, struct team *team, bool spins)
{
    (void)feed;
    (void)team;
    (void)spins;
}

bool feed_has_step(const struct feed *feed, const struct input *input)
{
    (void)feed;
    (void)input;
    return true;
}

bool feed_is_cut(const struct feed *feed, const struct input *input)
{
    (void)feed;
    (void)input;
    return false;
}

struct feed_counts feed_counts(const struct feed *feed)
{
    (void)feed;
    return (struct feed_counts){0};
}

#endif
