/* The feed: how examples become steps and micro-batches, how rows are numbered, that going on in the middle
 * gives the same micro-batches as running through; and how it lives with others: any thread gives slots back,
 * in any order, nobody waits with a busy core, and whoever wants it to end sees it end. Also run under
 * ThreadSanitizer. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "engine/pipe/feed.h"
#include "engine/base/cores.h"
#include "engine/device/cpu/team.h"
#include "engine/slot/replay.h"
#include "io/store/store_rows.h"
#include "tests/engine/pipe/schema_fixture.h"

#define MODEL                                                                                                          \
    "[data]\ntransform = none\ndense = I1\nsparse = C1, C2\n[table emb]\ndim = 4\n[embedding e]\ntable = emb\ninput "  \
    "= sparse\n[concat "                                                                                               \
    "x]\ninput = e, dense\n"                                                                                           \
    "[fc y]\ninput = x\nunits = 1\n[loss bce]\ninput = y\n[train]\nbatch = 8\nmicro = 4\nlanes = 2\n"

static char folder[] = "/tmp/test_feed.XXXXXX";

/* `count` rows: label i % 2, I1 = i, C1 = one of five values, C2 = a value of its own every third row, else empty. */
static char *data_write(int count)
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

static void open_options(struct fixture *f, const char *model, struct feed_options o)
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

static bool next_look(void *context)
{
    struct fixture *f = context;
    f->state = feed_try_next(f->feed, &f->slot);
    return f->state != FEED_EMPTY;
}
/* Waits for the next slot; NULL at the end, with the feed's result. */
static status next_slot(struct fixture *f, struct input **slot)
{
    bell_await(&f->bell, false, next_look, f);
    *slot = f->state == FEED_INPUT ? f->slot : NULL;
    return f->state == FEED_INPUT ? ST_OK : feed_result(f->feed);
}

static void open_at(struct fixture *f, const char *path, uint64_t epochs, uint64_t steps_max, uint32_t shuffle,
                    struct progress from, bool training)
{
    open_options(f, MODEL,
                 (struct feed_options){.training = training,
                                       .epochs = epochs,
                                       .steps_max = steps_max,
                                       .reader = {.format = READER_CRITEO, .paths = path, .shuffle = shuffle}});
    assert_int_equal(feed_start(f->feed, &from), ST_OK);
}

static void close_all(struct fixture *f)
{
    feed_close(f->feed);
    model_close(&f->model);
    test_schema_close(&f->schema);
    graph_close(&f->graph);
}

/* What a micro-batch is, as text: step.micro:count[+ if last](dense values). */
static void trace_add(char *trace, size_t bytes, const struct input *slot)
{
    const struct micro_batch *m = &slot->batch;
    size_t used = strlen(trace);
    used += (size_t)snprintf(trace + used, bytes - used, "%d.%u:%u%s(", (int)m->step, m->micro_index, m->example_count,
                             m->is_last ? "+" : "");
    for (uint32_t b = 0; b < m->example_count; b++)
        used += (size_t)snprintf(trace + used, bytes - used, "%g ", (double)m->dense[b]);
    snprintf(trace + used, bytes - used, ")");
}

static char *run_trace(const char *path, uint64_t epochs, uint64_t steps_max, uint32_t shuffle, struct progress from)
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

static void feed__examples__are_divided_into_steps_and_micro_batches(void **state)
{
    (void)state;
    char *path = data_write(13);
    char *trace = run_trace(path, 1, 0, 0, (struct progress){0});
    assert_string_equal(trace, "0.0:4(0 1 2 3 )0.1:4+(4 5 6 7 )1.0:4(8 9 10 11 )1.1:1+(12 )");
    free(trace);
    free(path);
}

static void feed__replay__gives_its_steps_in_turn(void **state)
{
    (void)state;
    struct fixture f;
    struct graph graph;
    struct test_schema schema;
    struct replay replay;
    char *path = data_write(21), trace[1024] = "";
    assert_int_equal(graph_compile(&graph, "m.cfg", MODEL, strlen(MODEL), NULL, 0, NULL), ST_OK);
    assert_int_equal(test_schema_open(&schema, &graph), ST_OK);
    const struct reader_options options = {
        .format = READER_CRITEO, .paths = path, .schema = schema.schema.reader, .part = "reader"};
    assert_int_equal(replay_open(&replay, &graph, &options, 7), ST_OK);
    assert_int_equal(replay.step_count, 2);
    open_options(&f, MODEL,
                 (struct feed_options){.training = true, .epochs = 1, .steps_max = 3, .source = &replay.reader});
    assert_string_equal(feed_paths(f.feed), "memory");
    assert_false(feed_is_stream(f.feed));
    assert_int_equal(feed_start(f.feed, NULL), ST_OK);
    for (uint32_t i = 0;; i++) {
        struct input *slot;
        assert_int_equal(next_slot(&f, &slot), ST_OK);
        if (slot == NULL) break;
        assert_ptr_equal(slot->batch.key, replay.micro[i % 4].key);
        trace_add(trace, sizeof trace, slot);
        feed_release(f.feed, slot);
    }
    assert_string_equal(trace, "0.0:4(0 1 2 3 )0.1:4+(4 5 6 7 )1.0:4(8 9 10 11 )1.1:4+(12 13 14 15 )"
                               "2.0:4(0 1 2 3 )2.1:4+(4 5 6 7 )");
    assert_int_equal(feed_counts(f.feed).byte_count, 0);
    close_all(&f);
    replay_close(&replay);
    test_schema_close(&schema);
    graph_close(&graph);
    free(path);
}

static void feed__data_ends_with_a_micro_batch__step_is_ended_by_an_empty_one(void **state)
{
    (void)state;
    char *path = data_write(12);
    char *trace = run_trace(path, 2, 0, 0, (struct progress){0});
    assert_string_equal(trace, "0.0:4(0 1 2 3 )0.1:4+(4 5 6 7 )1.0:4(8 9 10 11 )1.1:0+()"
                               "2.0:4(0 1 2 3 )2.1:4+(4 5 6 7 )3.0:4(8 9 10 11 )3.1:0+()");
    free(trace);
    free(path);
}

static void feed__data_ends_with_a_step__next_pass_begins_a_new_one(void **state)
{
    (void)state;
    char *path = data_write(8);
    char *trace = run_trace(path, 3, 0, 0, (struct progress){0});
    assert_string_equal(
        trace, "0.0:4(0 1 2 3 )0.1:4+(4 5 6 7 )1.0:4(0 1 2 3 )1.1:4+(4 5 6 7 )2.0:4(0 1 2 3 )2.1:4+(4 5 6 7 )");
    free(trace);
    free(path);
}

static void feed__steps_max__ends_there(void **state)
{
    (void)state;
    char *path = data_write(100);
    char *trace = run_trace(path, 5, 1, 0, (struct progress){0});
    assert_string_equal(trace, "0.0:4(0 1 2 3 )0.1:4+(4 5 6 7 )");
    free(trace);
    free(path);
}

/* At any step of a run with shuffling and a partial last step, going on gives the rest. */
static void feed__resumed_at_any_step__goes_on_with_the_same_micro_batches(void **state)
{
    (void)state;
    char *path = data_write(45);
    char *whole = run_trace(path, 2, 0, 10, (struct progress){0});
    for (uint64_t step = 1; step < 12; step++) {
        uint64_t epoch = step / 6, in_epoch = step % 6 * 8;
        struct progress from = {.step = step, .epoch = epoch, .epoch_examples = in_epoch};
        if (step == 6) from = (struct progress){.step = 6, .epoch = 0, .epoch_examples = 45};
        char begin[16];
        snprintf(begin, sizeof begin, "%d.0:", (int)step);
        char *rest = run_trace(path, 2, 0, 10, from);
        const char *expected = step == 1 ? strstr(whole, ")1.0:") + 1 : NULL;
        for (const char *at = whole; !expected && (at = strstr(at, begin)); at++)
            if (at == whole || at[-1] == ')') expected = at;
        assert_non_null(expected);
        assert_string_equal(rest, expected);
        free(rest);
    }
    free(whole);
    free(path);
}

static void feed__rows_of_a_step__are_numbered_once_each(void **state)
{
    (void)state;
    char *path = data_write(64);
    struct fixture f;
    open_at(&f, path, 1, 0, 0, (struct progress){0}, true);
    for (struct input *slot;;) {
        assert_int_equal(next_slot(&f, &slot), ST_OK);
        if (slot == NULL) break;
        const struct ticket_table *t = &slot->ticket.table[0];
        for (uint32_t u = 0; u < t->unique_count; u++) {
            if (!slot->batch.is_last) continue; /* until then the feed adds to the step's rows */
            assert_true(t->step_row[u] < slot->step_rows[0].row_count);
            assert_ptr_equal(slot->step_rows[0].span[t->step_row[u]], t->span[u]);
        }
        if (slot->batch.is_last) { /* 5 values of C1, and a third of 8 rows has one of C2 */
            assert_in_range(slot->step_rows[0].row_count, 5 + 2, 5 + 3);
            for (uint32_t i = 0; i < slot->step_rows[0].row_count; i++)
                for (uint32_t k = 0; k < i; k++)
                    assert_ptr_not_equal(slot->step_rows[0].span[i], slot->step_rows[0].span[k]);
        }
        feed_release(f.feed, slot);
    }
    assert_int_equal(store_row_count(f.model.store, 0), 5 + 22);
    close_all(&f);
    free(path);
}

static void feed__evaluation__makes_no_rows(void **state)
{
    (void)state;
    char *path = data_write(20);
    struct fixture f;
    open_at(&f, path, 1, 0, 0, (struct progress){0}, false);
    uint32_t examples = 0;
    for (struct input *slot;;) {
        assert_int_equal(next_slot(&f, &slot), ST_OK);
        if (slot == NULL) break;
        examples += slot->batch.example_count;
        for (uint32_t u = 0; u < slot->ticket.table[0].unique_count; u++) {
            float expected[8] = {0};
            model_row_init(&f.model, 0,
                           slot->batch.key[slot->ticket.table[0].occurrence[slot->ticket.table[0].occurrence_begin[u]]],
                           expected);
            assert_memory_equal(slot->ticket.table[0].span[u], expected, 4 * sizeof(float));
            assert_int_equal(slot->ticket.table[0].row[u], ROW_NONE);
        }
        feed_release(f.feed, slot);
    }
    assert_int_equal(examples, 20);
    assert_int_equal(store_row_count(f.model.store, 0), 0);
    close_all(&f);
    free(path);
}

static void feed__bad_line__fails_with_its_place(void **state)
{
    (void)state;
    char *path = data_write(10);
    FILE *file = fopen(path, "a");
    assert_non_null(file);
    fputs("nonsense\n", file);
    fclose(file);
    struct fixture f;
    open_at(&f, path, 1, 0, 0, (struct progress){0}, true);
    status st;
    struct input *slot;
    while ((st = next_slot(&f, &slot)) == ST_OK && slot) feed_release(f.feed, slot);
    assert_int_equal(st, ST_INVALID);
    assert_non_null(strstr(status_message(), ":11"));
    close_all(&f);
    free(path);
}

static void feed__closed_early__stops(void **state)
{
    (void)state;
    char *path = data_write(1000);
    struct fixture f;
    open_at(&f, path, 1000, 0, 0, (struct progress){0}, true);
    struct input *slot;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(next_slot(&f, &slot), ST_OK);
        feed_release(f.feed, slot);
    }
    close_all(&f);
    free(path);
}

/* --- slots ---------------------------------------------------------------------------------------- */

static void pause_ns(long ns)
{
    nanosleep(&(struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000}, NULL);
}
static uint64_t process_cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
/* A third of a second in which nothing happens costs less than a tenth of it. */
static void assert_idle(void)
{
    uint64_t begin_ns = process_cpu_ns();
    pause_ns(300000000);
    assert_true(process_cpu_ns() - begin_ns < 30000000);
}

static void feed_try_next__all_slots_held__is_empty_until_one_is_released(void **state)
{
    (void)state;
    char *path = data_write(100);
    struct fixture f;
    struct input *held[4], *slot = NULL;
    open_at(&f, path, 1, 0, 0, (struct progress){0}, true);
    assert_int_equal(feed_input_count(f.feed), 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(next_slot(&f, &held[i]), ST_OK);
        assert_non_null(held[i]);
        assert_int_equal(held[i]->index < feed_input_count(f.feed), true);
        for (int k = 0; k < i; k++) assert_ptr_not_equal(held[i], held[k]);
    }
    assert_int_equal(feed_try_next(f.feed, &slot), FEED_EMPTY);
    assert_null(slot);
    assert_idle(); /* the thread waits for a slot, asleep */
    assert_int_equal(feed_try_next(f.feed, &slot), FEED_EMPTY);
    for (int i = 0; i < 3; i++) assert_false(feed_wake(f.feed)); /* that is not being stuck */
    feed_release(f.feed, held[2]);
    assert_int_equal(next_slot(&f, &slot), ST_OK);
    assert_ptr_equal(slot, held[2]);
    assert_int_equal(slot->batch.step, 2);
    struct feed_counts counts = feed_counts(f.feed);
    assert_true(counts.wait_ns >= 250000000 && counts.read_ns > 0 && counts.prepare_ns > 0);
    close_all(&f);
    free(path);
}

static void feed_try_next__after_the_end__says_so_again(void **state)
{
    (void)state;
    char *path = data_write(3);
    struct fixture f;
    struct input *slot;
    open_at(&f, path, 1, 0, 0, (struct progress){0}, false);
    assert_int_equal(next_slot(&f, &slot), ST_OK);
    assert_int_equal(slot->batch.example_count, 3);
    assert_int_equal(next_slot(&f, &slot), ST_OK);
    assert_null(slot);
    for (int i = 0; i < 3; i++) assert_int_equal(feed_try_next(f.feed, &slot), FEED_END);
    close_all(&f);
    free(path);
}

#define MODEL_WAVES                                                                                                    \
    "[data]\ntransform = none\ndense = I1\nsparse = C1, C2\n[table emb]\ndim = 4\n[embedding e]\ntable = emb\ninput "  \
    "= sparse\n[concat "                                                                                               \
    "x]\ninput = e, dense\n"                                                                                           \
    "[fc y]\ninput = x\nunits = 1\n[loss bce]\ninput = y\n[train]\nbatch = 4\nmicro = 4\n"

/* Steps of one micro-batch overtake each other: three slots are held while the fourth goes round and round. */
static void feed_release__steps_overtake_each_other__rows_of_held_ones_stay(void **state)
{
    (void)state;
    char *path = data_write(400);
    struct fixture f;
    struct input *held[3], *slot;
    open_options(
        &f, MODEL_WAVES,
        (struct feed_options){.training = true, .epochs = 1, .reader = {.format = READER_CRITEO, .paths = path}});
    assert_int_equal(feed_start(f.feed, NULL), ST_OK);
    for (int i = 0; i < 3; i++) assert_int_equal(next_slot(&f, &held[i]), ST_OK);
    uint32_t steps = 3;
    for (;; steps++) {
        assert_int_equal(next_slot(&f, &slot), ST_OK);
        if (slot == NULL) break;
        assert_int_equal(slot->batch.step, steps);
        for (int i = 0; i < 4; i++) {
            const struct input *checked = i < 3 ? held[i] : slot;
            const struct ticket_table *t = &checked->ticket.table[0];
            assert_int_equal(checked->step_rows[0].row_count, t->unique_count);
            for (uint32_t u = 0; u < t->unique_count; u++)
                assert_ptr_equal(checked->step_rows[0].span[t->step_row[u]], t->span[u]);
        }
        feed_release(f.feed, slot);
    }
    assert_int_equal(steps, 100);
    close_all(&f);
    free(path);
}

/* Steps of two micro-batches whose last ones are all held, as long as their updates would take: what is free is filled
 * with the next step. */
static void feed_release__last_inputs_of_steps_are_held__the_next_step_comes(void **state)
{
    (void)state;
    char *path = data_write(100);
    struct fixture f;
    struct input *slot = NULL;
    open_at(&f, path, 1, 0, 0, (struct progress){0}, true);
    assert_int_equal(feed_input_count(f.feed), 4);
    for (uint32_t step = 0; step < 4; step++)
        for (uint32_t micro = 0; micro < 2; micro++) {
            enum feed_state what = FEED_EMPTY;
            for (uint32_t look = 0; look < 3000 && what == FEED_EMPTY; look++) {
                what = feed_try_next(f.feed, &slot);
                if (what == FEED_EMPTY) pause_ns(5000000);
            }
            if (what != FEED_INPUT)
                fail_msg("there is a free input, and step %u, micro-batch %u does not come", step, micro);
            assert_int_equal(slot->batch.step, step);
            assert_int_equal(slot->batch.micro_index, micro);
            assert_int_equal(slot->batch.is_last, micro == 1);
            if (micro == 0) feed_release(f.feed, slot);
        }
    close_all(&f);
    free(path);
}

/* Three threads take turns at the feed through a claim, keep a slot each for a random time, and give it back
 * themselves. */
struct workers {
    struct fixture f;
    _Atomic uint32_t shared_claim, shared_is_over;
    uint32_t step_seen, micro_seen, examples; /* under the claim */
    uint32_t wrong;
    double dense_sum;
};
struct worker {
    struct workers *all;
    struct input *slot;
};
static bool worker_look(void *context)
{
    struct worker *w = context;
    struct workers *all = w->all;
    uint32_t is_free = 0;
    w->slot = NULL;
    if (all->shared_is_over) return true;
    if (!atomic_compare_exchange_strong_explicit(&all->shared_claim, &is_free, 1, memory_order_acquire,
                                                 memory_order_relaxed))
        return false;
    enum feed_state what = feed_try_next(all->f.feed, &w->slot);
    if (what == FEED_END) all->shared_is_over = 1;
    if (what == FEED_INPUT) {
        const struct micro_batch *m = &w->slot->batch;
        uint32_t step = m->step, micro = m->micro_index;
        all->wrong += !(step == all->step_seen && micro == all->micro_seen);
        all->step_seen = step + m->is_last;
        all->micro_seen = m->is_last ? 0 : micro + 1;
        all->examples += m->example_count;
        for (uint32_t b = 0; b < m->example_count; b++) all->dense_sum += (double)m->dense[b];
    }
    atomic_store_explicit(&all->shared_claim, 0, memory_order_release);
    bell_ring(&all->f.bell); /* the claim is free: there may be another slot */
    return what != FEED_EMPTY;
}
static void *worker_main(void *argument)
{
    struct worker w = {.all = argument};
    for (uint32_t seed = (uint32_t)(uintptr_t)&w;;) {
        bell_await(&w.all->f.bell, false, worker_look, &w);
        if (w.slot == NULL) return NULL;
        seed = seed * 1664525u + 1013904223u;
        if (seed >> 28 == 0) pause_ns(50000);
        feed_release(w.all->f.feed, w.slot);
    }
}
static void feed__three_threads_take_turns__every_micro_batch_once_in_order(void **state)
{
    (void)state;
    enum { ROWS = 5000, PASSES = 2 };
    char *path = data_write(ROWS);
    static struct workers all;
    pthread_t thread[3];
    memset(&all, 0, sizeof all);
    open_at(&all.f, path, PASSES, 0, 0, (struct progress){0}, true);
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&thread[i], NULL, worker_main, &all), 0);
    for (int i = 0; i < 3; i++) pthread_join(thread[i], NULL);
    assert_int_equal(feed_result(all.f.feed), ST_OK);
    assert_int_equal(all.wrong, 0);
    assert_int_equal(all.examples, PASSES * ROWS);
    assert_true(all.dense_sum == (double)PASSES * ROWS * (ROWS - 1) / 2);
    close_all(&all.f);
    free(path);
}

/* --- slow and silent input ------------------------------------------------------------------------ */

/* A pipe that the test writes to, always the same good line. */
struct pipe_file {
    char path[80];
    int fd;
};
static void pipe_open(struct pipe_file *pipe, const char *name)
{
    snprintf(pipe->path, sizeof pipe->path, "%s/%s", folder, name);
    assert_int_equal(mkfifo(pipe->path, 0600), 0);
    assert_true((pipe->fd = open(pipe->path, O_RDWR | O_CLOEXEC)) >= 0); /* both ends: opening for writing would wait */
}
static void pipe_write(const struct pipe_file *pipe, int count)
{
    static const char line[] = "1\t5\t\t\t\t\t\t\t\t\t\t\t\t\tv\tw\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\n";
    for (int i = 0; i < count; i++) assert_int_equal(write(pipe->fd, line, sizeof line - 1), sizeof line - 1);
}
static void pipe_close(struct pipe_file *pipe)
{
    close(pipe->fd);
    unlink(pipe->path);
}
static void open_pipe(struct fixture *f, struct pipe_file *pipe, const char *name)
{
    pipe_open(pipe, name);
    pipe_write(pipe, 4); /* the first block is read when the feed opens */
    open_at(f, pipe->path, 1, 0, 0, (struct progress){0}, true);
    struct input *slot;
    assert_int_equal(next_slot(f, &slot), ST_OK);
    assert_int_equal(slot->batch.example_count, 4);
    feed_release(f->feed, slot);
}

static void *pipe_later_main(void *argument)
{
    uint64_t begin_ns = process_cpu_ns();
    pause_ns(300000000);
    uint64_t *used_ns = calloc(1, sizeof *used_ns);
    *used_ns = process_cpu_ns() - begin_ns;
    pipe_write(argument, 4);
    return used_ns;
}
static void feed__pipe_is_silent__consumer_and_thread_use_no_processor(void **state)
{
    (void)state;
    struct fixture f;
    struct pipe_file pipe;
    struct input *slot;
    pthread_t writer;
    void *used_ns;
    open_pipe(&f, &pipe, "silent");
    assert_int_equal(pthread_create(&writer, NULL, pipe_later_main, &pipe), 0);
    assert_int_equal(next_slot(&f, &slot), ST_OK); /* asleep until the lines come */
    pthread_join(writer, &used_ns);
    assert_int_equal(slot->batch.example_count, 4);
    assert_true(*(uint64_t *)used_ns < 30000000);
    free(used_ns);
    feed_release(f.feed, slot);
    pipe_close(&pipe);
    close_all(&f);
}

static void feed_wake__pipe_is_silent_between_two_calls__interrupts(void **state)
{
    (void)state;
    struct fixture f;
    struct pipe_file pipe;
    struct input *slot;
    open_pipe(&f, &pipe, "stuck");
    pause_ns(20000000);
    for (int i = 0; i < 3; i++) assert_false(feed_wake(f.feed)); /* nobody has asked in vain */
    assert_int_equal(feed_try_next(f.feed, &slot), FEED_EMPTY);
    pipe_write(&pipe, 4);
    assert_int_equal(next_slot(&f, &slot), ST_OK);
    feed_release(f.feed, slot);
    pause_ns(20000000);
    assert_int_equal(feed_try_next(f.feed, &slot), FEED_EMPTY);
    assert_false(feed_wake(f.feed)); /* it has moved since the last call */
    bool is_woken = false; /* at the second call, or later if the machine is so busy that the thread still moves */
    for (int i = 0; i < 100 && !is_woken; i++) {
        pause_ns(20000000);
        assert_int_equal(feed_try_next(f.feed, &slot), FEED_EMPTY);
        is_woken = feed_wake(f.feed);
    }
    assert_true(is_woken);
    assert_int_equal(feed_try_next(f.feed, &slot), FEED_END);
    assert_int_equal(feed_result(f.feed), ST_OK);
    pipe_write(&pipe, 4); /* the thread comes back, and ends */
    pipe_close(&pipe);
    close_all(&f);
}

static void *interrupt_main(void *feed)
{
    pause_ns(30000000);
    feed_interrupt(feed);
    return NULL;
}
static void feed_interrupt__consumer_sleeps__wakes_it_with_the_end(void **state)
{
    (void)state;
    struct fixture f;
    struct pipe_file pipe;
    struct input *slot;
    pthread_t thread;
    open_pipe(&f, &pipe, "interrupted");
    assert_int_equal(pthread_create(&thread, NULL, interrupt_main, f.feed), 0);
    assert_int_equal(next_slot(&f, &slot), ST_OK);
    assert_null(slot);
    pthread_join(thread, NULL);
    pipe_write(&pipe, 4);
    pipe_close(&pipe);
    close_all(&f);
}

static uint32_t thread_count(void)
{
    DIR *tasks = opendir("/proc/self/task");
    uint32_t count = 0;
    assert_non_null(tasks);
    for (struct dirent *entry; (entry = readdir(tasks)) != NULL;) count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}
/* Keeps the memory of feeds that were left behind reachable, for the sanitizer that looks for lost blocks. */
static struct feed *left_behind[2];

static void feed_close__pipe_is_silent__leaves_the_thread_which_then_touches_nothing(void **state)
{
    (void)state;
    static struct fixture f;
    struct pipe_file pipe;
    uint32_t threads = thread_count();
    open_pipe(&f, &pipe, "left");
    left_behind[numberers > 0] = f.feed;
    pause_ns(200000000);
    uint64_t begin_ns = clock_ns();
    close_all(&f); /* the store that the thread would prepare rows in is gone with it */
    uint64_t took_ns = clock_ns() - begin_ns;
    assert_true(took_ns > 900000000 && took_ns < UINT64_C(5000000000));
    assert_int_equal(thread_count(), threads + 1);
    memset(&f.bell, 0xff, sizeof f.bell); /* and so is the bell: a ring would move it */
    struct bell gone = f.bell;
    pipe_write(&pipe, 4);
    for (int i = 0; i < 500 && thread_count() > threads; i++) pause_ns(10000000);
    assert_int_equal(thread_count(), threads);
    assert_memory_equal(&f.bell, &gone, sizeof gone);
    pipe_close(&pipe);
}

/* --- the thread ----------------------------------------------------------------------------------- */

static void feed_start__processors__thread_is_pinned(void **state)
{
    (void)state;
    char *path = data_write(100);
    struct fixture f;
    struct cores cores;
    struct input *slot;
    cores_allowed(&cores);
    if (cores.count < 2) skip();
    for (uint32_t i = 0; i < 2; i++) {
        open_options(&f, MODEL,
                     (struct feed_options){.training = true,
                                           .epochs = 1,
                                           .processors = &cores.processor[i],
                                           .processor_count = 1,
                                           .reader = {.format = READER_CRITEO, .paths = path}});
        assert_int_equal(feed_start(f.feed, NULL), ST_OK);
        assert_int_equal(next_slot(&f, &slot), ST_OK); /* now it runs, and has been pinned */
        uint32_t pinned = 0;
        DIR *tasks = opendir("/proc/self/task");
        assert_non_null(tasks);
        for (struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
            cpu_set_t mask;
            if (entry->d_name[0] == '.' || sched_getaffinity(atoi(entry->d_name), sizeof mask, &mask) != 0) continue;
            if (CPU_COUNT(&mask) == 1 && CPU_ISSET(cores.processor[i], &mask)) pinned++;
        }
        closedir(tasks);
        assert_int_equal(pinned, 1);
        close_all(&f);
    }
    free(path);
}

#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
/* Every way to the allocator and to a mutex passes through here; what others than the main thread do is counted. */
static _Thread_local bool is_main_thread;
static _Atomic uint32_t calls_elsewhere;
static void call_count(void)
{
    if (!is_main_thread) calls_elsewhere++;
}
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t),
    *__libc_memalign(size_t, size_t);
void *malloc(size_t bytes) { return call_count(), __libc_malloc(bytes); }
void *calloc(size_t count, size_t bytes) { return call_count(), __libc_calloc(count, bytes); }
void *realloc(void *block, size_t bytes) { return call_count(), __libc_realloc(block, bytes); }
void *aligned_alloc(size_t alignment, size_t bytes) { return call_count(), __libc_memalign(alignment, bytes); }
static int (*mutex_lock)(pthread_mutex_t *);
int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    call_count();
    if (mutex_lock == NULL) mutex_lock = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
    return mutex_lock(mutex);
}
static void *counted_main(void *argument)
{
    (void)argument;
    free(malloc(10));
    return NULL;
}

/* Several files, one of them packed, several passes, shuffling: nothing is taken that was not there before. */
static void feed__files_and_passes_change__thread_allocates_and_locks_nothing(void **state)
{
    (void)state;
    char *plain = data_write(50), *other = data_write(77), *packed, *paths, buffer[4096];
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, counted_main, NULL), 0);
    pthread_join(thread, NULL);
    assert_true(calls_elsewhere >= 1); /* the count counts */
    assert_true(asprintf(&packed, "%s/packed.gz", folder) > 0);
    assert_true(asprintf(&paths, "%s,%s,%s,%s", plain, packed, other, packed) > 0);
    FILE *file = fopen(other, "r");
    gzFile gz = gzopen(packed, "w");
    assert_true(file && gz);
    for (size_t got; (got = fread(buffer, 1, sizeof buffer, file)) > 0;)
        assert_int_equal(gzwrite(gz, buffer, (unsigned)got), got);
    fclose(file);
    assert_int_equal(gzclose(gz), Z_OK);
    struct fixture f;
    struct input *slot;
    uint32_t examples = 0;
    calls_elsewhere = 0;
    open_at(&f, paths, 3, 0, 20, (struct progress){0}, true);
    for (;;) {
        assert_int_equal(next_slot(&f, &slot), ST_OK);
        if (slot == NULL) break;
        examples += slot->batch.example_count;
        feed_release(f.feed, slot);
    }
    assert_int_equal(examples, 3 * (50 + 3 * 77));
    assert_int_equal(calls_elsewhere, 0);
    close_all(&f);
    free(plain), free(other), free(packed), free(paths);
}
#endif

/* Pieces of the runs of a team of two, by who has done them. */
struct helped {
    pthread_t caller, member;
    bool has_member; /* else whoever is not the caller */
    _Atomic uint32_t shared_by_two, shared_by_others;
};
static void helped_piece(void *context, uint32_t piece, void *scratch)
{
    struct helped *h = context;
    pthread_t self = pthread_self();
    (void)piece, (void)scratch;
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    bool is_member = h->has_member && pthread_equal(self, h->member);
    if (!h->has_member && !pthread_equal(self, h->caller)) h->member = self;
    atomic_fetch_add(is_member || pthread_equal(self, h->caller) ? &h->shared_by_two : &h->shared_by_others, 1);
}

/* Runs pieces until `others` of them are done by others than the caller, and the member once it is known. */
static void until_done(struct helped *h, struct team *team, uint32_t others)
{
    uint32_t runs = 0;
    h->shared_by_two = h->shared_by_others = 0;
    for (; runs < 10000 && h->shared_by_others < others; runs++) team_run(team, helped_piece, h, 8);
    assert_true(h->shared_by_others >= others);
    assert_int_equal(h->shared_by_two + h->shared_by_others, runs * 8);
}

static void helped_open(struct helped *h, struct team **team)
{
    *h = (struct helped){.caller = pthread_self()};
    assert_int_equal(team_open(team, 2, 64, NULL), ST_OK);
    until_done(h, *team, 1);
    h->has_member = true;
}

static void feed_team_set__slots_are_full__thread_helps_and_goes_on(void **state)
{
    (void)state;
    char *path = data_write(100), *plain = run_trace(path, 2, 0, 0, (struct progress){0}), *trace = calloc(1, 1 << 16);
    struct fixture f;
    struct helped helped;
    struct team *team;
    assert_non_null(trace);
    helped_open(&helped, &team);
    open_at(&f, path, 2, 0, 0, (struct progress){0}, true);
    struct input *held[4], *slot;
    for (int turn = 0;; turn++) {
        feed_team_set(f.feed, team, turn % 2);
        uint32_t count = 0;
        for (; count < 4; count++) {
            assert_int_equal(next_slot(&f, &held[count]), ST_OK);
            if (held[count] == NULL) break;
            trace_add(trace, 1 << 16, held[count]);
        }
        until_done(&helped, team, turn % 3 ? 3 : 40); /* it has no slot, or has come to the end of the data */
        feed_team_set(f.feed, NULL, false);
        for (uint32_t i = 0; i < count; i++) feed_release(f.feed, held[i]);
        if (count < 4) break;
    }
    assert_int_equal(next_slot(&f, &slot), ST_OK);
    assert_null(slot);
    assert_string_equal(trace, plain);
    close_all(&f);
    team_close(team);
    free(trace);
    free(plain);
    free(path);
}

/* A feed that is closed while it helps, as it is when a run ends. */
static void feed_close__while_it_helps__ends(void **state)
{
    (void)state;
    char *path = data_write(40);
    for (int i = 0; i < 20; i++) {
        struct fixture f;
        struct helped helped;
        struct team *team;
        helped_open(&helped, &team);
        open_at(&f, path, 1, 0, 0, (struct progress){0}, i % 2);
        feed_team_set(f.feed, team, i % 4 < 2);
        until_done(&helped, team, 1);
        if (i % 3) feed_team_set(f.feed, NULL, false);
        close_all(&f);
        team_close(team);
    }
    free(path);
}

int main(void)
{
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
    is_main_thread = true;
#endif
    if (!mkdtemp(folder)) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(feed__examples__are_divided_into_steps_and_micro_batches),
        cmocka_unit_test(feed__replay__gives_its_steps_in_turn),
        cmocka_unit_test(feed__data_ends_with_a_micro_batch__step_is_ended_by_an_empty_one),
        cmocka_unit_test(feed__data_ends_with_a_step__next_pass_begins_a_new_one),
        cmocka_unit_test(feed__steps_max__ends_there),
        cmocka_unit_test(feed__resumed_at_any_step__goes_on_with_the_same_micro_batches),
        cmocka_unit_test(feed__rows_of_a_step__are_numbered_once_each),
        cmocka_unit_test(feed__evaluation__makes_no_rows),
        cmocka_unit_test(feed_team_set__slots_are_full__thread_helps_and_goes_on),
        cmocka_unit_test(feed_close__while_it_helps__ends),
        cmocka_unit_test(feed__bad_line__fails_with_its_place),
        cmocka_unit_test(feed__closed_early__stops),
        cmocka_unit_test(feed_try_next__all_slots_held__is_empty_until_one_is_released),
        cmocka_unit_test(feed_try_next__after_the_end__says_so_again),
        cmocka_unit_test(feed_release__steps_overtake_each_other__rows_of_held_ones_stay),
        cmocka_unit_test(feed_release__last_inputs_of_steps_are_held__the_next_step_comes),
        cmocka_unit_test(feed__three_threads_take_turns__every_micro_batch_once_in_order),
        cmocka_unit_test(feed__pipe_is_silent__consumer_and_thread_use_no_processor),
        cmocka_unit_test(feed_wake__pipe_is_silent_between_two_calls__interrupts),
        cmocka_unit_test(feed_interrupt__consumer_sleeps__wakes_it_with_the_end),
        cmocka_unit_test(feed_close__pipe_is_silent__leaves_the_thread_which_then_touches_nothing),
        cmocka_unit_test(feed_start__processors__thread_is_pinned),
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
        cmocka_unit_test(feed__files_and_passes_change__thread_allocates_and_locks_nothing),
#endif
    };
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    numberers = 3;
    failures += cmocka_run_group_tests_name("with numberers", tests, NULL, NULL);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) != 0 || failures ? 1 : 0;
}
