/* What the tests of the feed share: data, an opened feed, and its micro-batches as text. */
#ifndef HETERPS_TESTS_ENGINE_PIPE_FEED_FIXTURE_H
#define HETERPS_TESTS_ENGINE_PIPE_FEED_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/pipe/feed.h"
#include "tests/engine/pipe/schema_fixture.h"

#define MODEL                                                                                                          \
    "[data]\ntransform = none\ndense = I1\nsparse = C1, C2\n[table emb]\ndim = 4\n"                                    \
    "[embedding e]\ntable = emb\ninput = sparse\n[concat x]\ninput = e, dense\n"                                       \
    "[fc y]\ninput = x\nunits = 1\n[loss bce]\ninput = y\n[train]\nbatch = 8\nmicro = 4\nlanes = 2\n"

static char folder[] = "/tmp/test_feed.XXXXXX";

/* `count` rows: label i % 2, I1 = i, C1 = one of five values, C2 = a value of its own
 * every third row, else empty. */
static inline char *data_write(int count)
{
    char *path;
    assert_true(asprintf(&path, "%s/data%d.tsv", folder, count) > 0);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < count; i++) {
        fprintf(file, "%d\t%d", i % 2, i);
        for (int k = 0; k < 12; k++) fputc('\t', file);
        fprintf(file, "\tv%d\t", i % 5);
        if (i % 3 == 0) fprintf(file, "w%d", i);
        for (int k = 0; k < 24; k++) fputc('\t', file);
        fputc('\n', file);
    }
    assert_int_equal(fclose(file), 0);
    return path;
}

struct fixture {
    struct graph graph;
    struct model model;
    struct feed *feed;
    struct bell bell; /* the feed's for the consumer */
    /* of the last look */
    enum feed_state state;
    struct input *slot;
    struct test_schema schema;
};

/* Of every feed here: what it gives is the same. */
static uint32_t numberers;

static inline void open_options(struct fixture *f, const char *model, struct feed_options o)
{
    o.numberers = numberers;
    memset(&f->bell, 0, sizeof f->bell);
    assert_int_equal(graph_compile(&f->graph, "m.cfg", model, strlen(model), NULL, 0, NULL), ST_OK);
    assert_int_equal(model_open(&f->model, &f->graph, &(struct model_budget){.ram_bytes = 1 << 20}), ST_OK);
    assert_int_equal(test_schema_open(&f->schema, &f->graph), ST_OK);
    o.reader.schema = f->schema.schema.reader;
    o.graph = &f->graph;
    o.model = &f->model;
    o.input_count = 4;
    o.reader.seed = 7;
    o.reader.part = "reader";
    assert_int_equal(feed_open(&f->feed, &o), ST_OK);
    feed_bell_set(f->feed, &f->bell);
}

static inline bool next_look(void *context)
{
    struct fixture *f = context;
    f->state = feed_try_next(f->feed, &f->slot);
    return f->state != FEED_EMPTY;
}
/* Waits for the next slot; NULL at the end, with the feed's result. */
static inline status next_slot(struct fixture *f, struct input **slot)
{
    bell_await(&f->bell, false, next_look, f);
    *slot = f->state == FEED_INPUT ? f->slot : NULL;
    return f->state == FEED_INPUT ? ST_OK : feed_result(f->feed);
}

static inline void open_at(struct fixture *f, const char *path, uint64_t epochs, uint64_t steps_max, uint32_t shuffle,
                           struct progress from, bool training)
{
    open_options(f, MODEL,
                 (struct feed_options){.training = training,
                                       .epochs = epochs,
                                       .steps_max = steps_max,
                                       .reader = {.format = READER_CRITEO, .paths = path, .shuffle = shuffle}});
    assert_int_equal(feed_start(f->feed, &from), ST_OK);
}

static inline void close_all(struct fixture *f)
{
    feed_close(f->feed);
    model_close(&f->model);
    test_schema_close(&f->schema);
    graph_close(&f->graph);
}

/* What a micro-batch is, as text: step.micro:count[+ if last](dense values). */
static inline void trace_add(char *trace, size_t bytes, const struct input *slot)
{
    const struct micro_batch *m = &slot->batch;
    size_t used = strlen(trace);
    used += (size_t)snprintf(trace + used, bytes - used, "%d.%u:%u%s(", (int)m->step, m->micro_index, m->example_count,
                             m->is_last ? "+" : "");
    for (uint32_t b = 0; b < m->example_count; b++)
        used += (size_t)snprintf(trace + used, bytes - used, "%g ", (double)m->dense[b]);
    snprintf(trace + used, bytes - used, ")");
}

static inline char *run_trace(const char *path, uint64_t epochs, uint64_t steps_max, uint32_t shuffle,
                              struct progress from)
{
    struct fixture f;
    char *trace = calloc(1, 1 << 16);
    assert_non_null(trace);
    open_at(&f, path, epochs, steps_max, shuffle, from, true);
    for (struct input *slot;;) {
        assert_int_equal(next_slot(&f, &slot), ST_OK);
        if (slot == NULL) break;
        trace_add(trace, 1 << 16, slot);
        feed_release(f.feed, slot);
    }
    close_all(&f);
    return trace;
}

static inline void pause_ns(long ns)
{
    nanosleep(&(struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000}, NULL);
}
static inline uint64_t process_cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
/* A third of a second in which nothing happens costs less than a tenth of it. */
static inline void assert_idle(void)
{
    uint64_t begin_ns = process_cpu_ns();
    pause_ns(300000000);
    assert_true(process_cpu_ns() - begin_ns < 30000000);
}

#endif
