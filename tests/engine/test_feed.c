/* The feed: how examples become steps and micro-batches, how rows are numbered, and that going on in the middle
 * gives the same micro-batches as running through. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/session.h"

#define MODEL                                                                                                          \
    "[data]\ndense = I1\nsparse = C1, C2\n[table emb]\ndim = 4\n[embedding e]\ntable = emb\ninput = sparse\n[concat "  \
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
};

static void open_at(struct fixture *f, const char *path, uint64_t epochs, uint64_t steps_max, uint32_t shuffle,
                    struct progress from, bool training)
{
    assert_int_equal(graph_compile(&f->graph, "m.cfg", MODEL, strlen(MODEL), NULL, 0), ST_OK);
    assert_int_equal(model_open(&f->model, &f->graph, 1 << 20), ST_OK);
    struct feed_options o = {
        .graph = &f->graph,
        .model = &f->model,
        .training = training,
        .slot_count = 4,
        .epochs = epochs,
        .steps_max = steps_max,
        .reader = {.format = READER_CRITEO, .paths = path, .shuffle = shuffle, .seed = 7, .part = "reader"}};
    assert_int_equal(feed_open(&f->feed, &o), ST_OK);
    assert_int_equal(feed_start(f->feed, &from), ST_OK);
}

static void close_all(struct fixture *f)
{
    feed_close(f->feed);
    model_close(&f->model);
    graph_close(&f->graph);
}

/* What a micro-batch is, as text: step.micro:count[+ if last](dense values). */
static void trace_add(char *trace, size_t bytes, const struct slot *slot)
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
    for (struct slot *slot;;) {
        assert_int_equal(feed_next(f.feed, &slot), ST_OK);
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
    for (struct slot *slot;;) {
        assert_int_equal(feed_next(f.feed, &slot), ST_OK);
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
    for (struct slot *slot;;) {
        assert_int_equal(feed_next(f.feed, &slot), ST_OK);
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
    struct slot *slot;
    while ((st = feed_next(f.feed, &slot)) == ST_OK && slot) feed_release(f.feed, slot);
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
    struct slot *slot;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(feed_next(f.feed, &slot), ST_OK);
        feed_release(f.feed, slot);
    }
    close_all(&f);
    free(path);
}

int main(void)
{
    if (!mkdtemp(folder)) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(feed__examples__are_divided_into_steps_and_micro_batches),
        cmocka_unit_test(feed__data_ends_with_a_micro_batch__step_is_ended_by_an_empty_one),
        cmocka_unit_test(feed__data_ends_with_a_step__next_pass_begins_a_new_one),
        cmocka_unit_test(feed__steps_max__ends_there),
        cmocka_unit_test(feed__resumed_at_any_step__goes_on_with_the_same_micro_batches),
        cmocka_unit_test(feed__rows_of_a_step__are_numbered_once_each),
        cmocka_unit_test(feed__evaluation__makes_no_rows),
        cmocka_unit_test(feed__bad_line__fails_with_its_place),
        cmocka_unit_test(feed__closed_early__stops),
    };
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) != 0 || failures ? 1 : 0;
}
