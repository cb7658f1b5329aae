/* Saving rows while threads change them: what a save writes, laid over what the saves before it have written,
 * is every row as it was when the save began, whoever was faster, and however small the buffer. */
#include "tests/io/io_test.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "engine/base/memory.h"
#include "io/store/store_rows.h"
#include "io/store/store_save.h"

#define TABLES   2u
#define FIELDS   2u
#define ROWS     3000u
#define UPDATERS 2u
#define SAVES    40u

static const struct batch_shape batch = {.batch = 64, .micro = 64, .lanes = 1};
static const struct example_shape shape = {.field_count = FIELDS, .key_count_max = FIELDS};
static const uint8_t serves[FIELDS] = {1, 1};
static const uint32_t spans[TABLES] = {22, 3};

static struct store *store;
static float *span_at[TABLES][ROWS], begun[TABLES][ROWS][22], written[TABLES][ROWS][22];
static uint32_t times_written[TABLES][ROWS], row_count;

static uint64_t key_of(uint32_t row) { return (row + 1) * UINT64_C(0x9e3779b97f4a7c15); }
static uint32_t row_of(uint64_t key) { return (uint32_t)(key * UINT64_C(0xf1de83e19937733d)) - 1; }

static void row_init(void *context, uint32_t table, uint64_t key, float *span)
{
    (void)context, (void)table, (void)key, (void)span;
}

/* Another row, as training creates one: it has no mark before its first update. */
static void rows_add(uint32_t count)
{
    for (; count > 0 && row_count < ROWS; count--, row_count++)
        for (uint32_t t = 0; t < TABLES; t++) {
            assert_ok(store_insert(store, t, key_of(row_count), &span_at[t][row_count]));
            for (uint32_t i = 0; i < spans[t]; i++) span_at[t][row_count][i] = (float)(row_count + i);
        }
}

static void saves_open(uint64_t buffer_bytes)
{
    struct store_table_options tables[TABLES];
    for (uint32_t t = 0; t < TABLES; t++)
        tables[t] = (struct store_table_options){.name = t == 0 ? "emb" : "wide",
                                                 .span_floats = spans[t],
                                                 .serves = serves,
                                                 .share = 1,
                                                 .row_init = row_init,
                                                 .life.admit = 1};
    const struct store_options options = {
        .ram_bytes = 2 << 20, .table_count = TABLES, .table = tables, .batch = batch, .example = shape};
    assert_ok(store_open(&store, &options));
    assert_ok(store_save_open(store, buffer_bytes));
    row_count = 0;
    memset(written, 0, sizeof written);
}

struct updater {
    uint32_t index;
    uint64_t random;
};

/* Steps of rows of its own: those whose number is its index, modulo the number of updaters. */
static void *updater_main(void *argument)
{
    struct updater *u = argument;
    for (uint32_t step = 0; step < 60; step++) {
        const uint32_t t = step % TABLES;
        float *changed[40];
        uint32_t count = 0, row = (uint32_t)(test_random(&u->random) % row_count);
        for (; count < 40 && row < row_count; row += 1 + (uint32_t)(test_random(&u->random) % 9))
            if (row % UPDATERS == u->index) changed[count++] = span_at[t][row];
        store_rows_change(store, t, changed, count);
        for (uint32_t i = 0; i < count; i++)
            for (uint32_t k = 0; k < spans[t]; k++) changed[i][k] += 1.0f + (float)k;
    }
    return NULL;
}

static void row_written(uint32_t table, uint64_t key, const float *span)
{
    const uint32_t row = row_of(key);
    assert_true(row < row_count);
    assert_int_equal(times_written[table][row]++, 0);
    memcpy(written[table][row], span, spans[table] * sizeof *span);
    assert_memory_equal(span, begun[table][row], spans[table] * sizeof *span);
}

/* What the saver's thread does; returns the number of rows. */
static uint64_t rows_save(const uint64_t *expected)
{
    uint64_t cursor[TABLES] = {0}, left = expected[0] + expected[1], count = left, idle = 0;
    float span[22];
    struct saved_row row;
    for (uint32_t t = 0; left > 0; t = (t + 1) % TABLES) {
        bool is_any = false;
        for (; store_save_peek(store, &row); left--, is_any = true) {
            row_written(row.table, row.key, row.span);
            store_save_drop(store);
        }
        for (uint32_t i = 0; i < 20; i++, left--, is_any = true) {
            uint64_t key;
            if (!store_save_take(store, t, &cursor[t], &key, span)) break;
            row_written(t, key, span);
        }
        if (is_any) continue;
        if (++idle == 3000000) fail_msg("%" PRIu64 " rows are neither pending nor in the buffer", left);
        sched_yield();
    }
    return count;
}

static void save_once(bool is_full, uint64_t *random)
{
    pthread_t thread[UPDATERS];
    struct updater updater[UPDATERS];
    uint64_t expected[TABLES], changed[TABLES];
    for (uint32_t t = 0; t < TABLES; t++)
        for (uint32_t r = 0; r < row_count; r++) memcpy(begun[t][r], span_at[t][r], spans[t] * sizeof(float));
    memset(times_written, 0, sizeof times_written);
    for (uint32_t t = 0; t < TABLES; t++) changed[t] = store_save_changed(store, t);
    store_save_begin(store, is_full, expected);
    for (uint32_t t = 0; t < TABLES; t++) assert_int_equal(expected[t], is_full ? row_count : changed[t]);
    for (uint32_t i = 0; i < UPDATERS; i++) {
        updater[i] = (struct updater){.index = i, .random = test_random(random)};
        assert_int_equal(pthread_create(&thread[i], NULL, updater_main, &updater[i]), 0);
    }
    rows_save(expected);
    store_save_end(store, false);
    for (uint32_t i = 0; i < UPDATERS; i++) pthread_join(thread[i], NULL);
    struct saved_row none;
    assert_false(store_save_peek(store, &none));
    for (uint32_t t = 0; t < TABLES; t++)
        for (uint32_t r = 0; r < row_count; r++)
            assert_memory_equal(written[t][r], begun[t][r], spans[t] * sizeof(float));
}

static void saves_run(uint64_t buffer_bytes)
{
    uint64_t random = buffer_bytes;
    saves_open(buffer_bytes);
    rows_add(500);
    for (uint32_t s = 0; s < SAVES; s++) {
        save_once(s == 0 || s % 7 == 3, &random);
        /* A row that is loaded is as saved as the others were: so it is changed first. */
        const uint32_t before = row_count;
        rows_add(60);
        for (uint32_t r = before; r < row_count; r++)
            for (uint32_t t = 0; t < TABLES; t++) {
                store_rows_change(store, t, &span_at[t][r], 1);
                span_at[t][r][0] += 1;
            }
    }
    store_close(store);
}

static void store_save__rows_change_meanwhile__is_of_its_beginning_race(void **state)
{
    (void)state;
    saves_run(1 << 20);
}

static void store_save__buffer_of_two_rows__the_same_race(void **state)
{
    (void)state;
    saves_run(300);
}

/* The saver has failed: who changes rows does not wait for it. */
static void store_save_end__given_up__nobody_waits(void **state)
{
    (void)state;
    uint64_t expected[TABLES];
    struct updater updater = {.index = 0, .random = 7};
    saves_open(300);
    rows_add(500);
    store_save_begin(store, true, expected);
    store_save_end(store, true);
    updater_main(&updater);
    store_close(store);
}

static void store_save_open__too_small__says_so(void **state)
{
    (void)state;
    const size_t planned = memory_planned_bytes();
    saves_open(1 << 16);
    store_close(store);
    assert_int_equal(memory_planned_bytes(), planned); /* marks and buffer are given back */
    struct store_table_options table = {
        .name = "emb", .span_floats = 22, .serves = serves, .share = 1, .row_init = row_init, .life.admit = 1};
    const struct store_options options = {
        .ram_bytes = 2 << 20, .table_count = 1, .table = &table, .batch = batch, .example = shape};
    assert_ok(store_open(&store, &options));
    assert_fails(INVALID, "checkpoint.buffer = 100 bytes", store_save_open(store, 100));
    store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(store_save__rows_change_meanwhile__is_of_its_beginning_race),
        cmocka_unit_test(store_save__buffer_of_two_rows__the_same_race),
        cmocka_unit_test(store_save_end__given_up__nobody_waits),
        cmocka_unit_test(store_save_open__too_small__says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
