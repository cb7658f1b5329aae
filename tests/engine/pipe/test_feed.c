/* The feed: how examples become steps and micro-batches, and how rows are numbered; a feed that goes on in
 * the middle gives the same micro-batches as one that runs through; any thread gives slots back, in any
 * order. Also run under ThreadSanitizer. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <zlib.h>

#include "engine/pipe/feed.h"
#include "engine/slot/replay.h"
#include "io/store/store_rows.h"
#include "tests/engine/pipe/feed_fixture.h"

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

/* Passes over this training's data: those of the data before are of the epoch alone. */
static void feed__model_that_goes_on_with_other_data__counts_its_passes_from_0(void **state)
{
    (void)state;
    char *path = data_write(16);
    struct fixture f;
    open_at(&f, path, 2, 0, 0, (struct progress){.step = 9, .epoch = 5, .first_epoch = 5, .first_step = 9}, true);
    uint32_t count = 0;
    for (struct input *slot;; count++) {
        assert_int_equal(next_slot(&f, &slot), ST_OK);
        if (slot == NULL) break;
        assert_int_equal(slot->batch.pass, count / 4);
        assert_int_equal(slot->batch.epoch, 5 + count / 4);
        feed_release(f.feed, slot);
    }
    assert_int_equal(count, 8);
    close_all(&f);
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
    "[data]\ntransform = none\ndense = I1\nsparse = C1, C2\n[table emb]\ndim = 4\n"                                    \
    "[embedding e]\ntable = emb\ninput = sparse\n[concat x]\ninput = e, dense\n"                                       \
    "[fc y]\ninput = x\nunits = 1\n[loss bce]\ninput = y\n[train]\nbatch = 4\nmicro = 4\n"

/* Steps of one micro-batch overtake each other: three slots are held while the fourth goes round. */
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

/* Steps of two micro-batches whose last ones are all held, as long as their updates would take: what is
 * free is filled with the next step. */
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

int main(void)
{
    if (!mkdtemp(folder)) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(feed__examples__are_divided_into_steps_and_micro_batches),
        cmocka_unit_test(feed__replay__gives_its_steps_in_turn),
        cmocka_unit_test(feed__data_ends_with_a_micro_batch__step_is_ended_by_an_empty_one),
        cmocka_unit_test(feed__data_ends_with_a_step__next_pass_begins_a_new_one),
        cmocka_unit_test(feed__steps_max__ends_there),
        cmocka_unit_test(feed__resumed_at_any_step__goes_on_with_the_same_micro_batches),
        cmocka_unit_test(feed__model_that_goes_on_with_other_data__counts_its_passes_from_0),
        cmocka_unit_test(feed__rows_of_a_step__are_numbered_once_each),
        cmocka_unit_test(feed__evaluation__makes_no_rows),
        cmocka_unit_test(feed__bad_line__fails_with_its_place),
        cmocka_unit_test(feed__closed_early__stops),
        cmocka_unit_test(feed_try_next__all_slots_held__is_empty_until_one_is_released),
        cmocka_unit_test(feed_try_next__after_the_end__says_so_again),
        cmocka_unit_test(feed_release__steps_overtake_each_other__rows_of_held_ones_stay),
        cmocka_unit_test(feed_release__last_inputs_of_steps_are_held__the_next_step_comes),
        cmocka_unit_test(feed__three_threads_take_turns__every_micro_batch_once_in_order),
    };
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    numberers = 3;
    failures += cmocka_run_group_tests_name("with numberers", tests, NULL, NULL);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) != 0 || failures ? 1 : 0;
}
