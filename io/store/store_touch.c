/* The thread that touches: the index, then rows, piece by piece.
 * Between pieces it looks whether the store closes. */
#include "io/store/store_touch.h"

#include <string.h>

#include "engine/base/thread.h"
#include "io/store/store_internal.h"

#define PIECE_BYTES HUGE_PAGE_BYTES
/* At first a table grows by a row for nearly every key, 250 MB a second. */
#define TOUCH_AHEAD_BYTES (8 * PIECE_BYTES)
/* Keys for each page of the index: with as many, hardly one page in a hundred stays untouched. */
#define KEYS_A_PAGE 5u

/* Bytes of rows that the data may need: a row for each key that its examples can have. */
static uint64_t bytes_needed(const struct store_table *table, uint64_t row_estimate)
{
    uint64_t row_bytes = table->stride_floats * sizeof(float);
    return (row_estimate < table->row_max ? row_estimate : table->row_max) * row_bytes;
}

/* The end of the bytes to touch now of the table's rows. */
static uint64_t bytes_wanted(const struct store_touch *touch, uint32_t t)
{
    const struct store_table *table = &touch->table[t];
    uint64_t used = row_count_of(table) * table->stride_floats * sizeof(float);
    uint64_t ahead = used / PIECE_BYTES * PIECE_BYTES + TOUCH_AHEAD_BYTES;
    uint64_t needed = bytes_needed(table, table->row_estimate);
    return ahead < needed ? ahead : needed;
}

static bool is_closing(const struct store_touch *touch)
{
    /* Acquire pairs with the release in store_touch_end(). */
    return atomic_load_explicit(&touch->shared_is_closing, memory_order_acquire);
}

/* Touches the next piece of [*touched, end); false: memory_touch could not. */
static bool piece_touch(void *begin, uint64_t *touched, uint64_t end)
{
    uint64_t left = end - *touched, bytes = left < PIECE_BYTES ? left : PIECE_BYTES;
    bool is_done = memory_touch((char *)begin + *touched, bytes);
    *touched += bytes;
    return is_done;
}

static bool index_touch(const struct store_touch *touch, const struct store_table *table)
{
    uint64_t touched = 0, end = table->bucket_count * sizeof(struct bucket);
    if (!touch->knows_examples || table->row_estimate < end / PIECE_BYTES * KEYS_A_PAGE) return true;
    while (touched < end && !is_closing(touch))
        if (!piece_touch(table->bucket, &touched, end)) return false;
    return true;
}

/* Touches the next piece of each table whose rows have come near; *has_more: some table
 * lacks bytes that the data may need. */
static bool rows_touch(struct store_touch *touch, bool *has_more)
{
    *has_more = false;
    for (uint32_t t = 0; t < touch->table_count && !is_closing(touch); t++) {
        struct store_table *table = &touch->table[t];
        uint64_t wanted = bytes_wanted(touch, t);
        if (table->touched_bytes < wanted && !piece_touch(table->span, &table->touched_bytes, wanted)) return false;
        *has_more |= table->touched_bytes < bytes_needed(table, table->row_estimate);
    }
    return true;
}

static bool wanted_look(void *context)
{
    const struct store_touch *touch = context;
    bool is_wanted = is_closing(touch);
    for (uint32_t t = 0; t < touch->table_count; t++)
        is_wanted |= touch->table[t].touched_bytes < bytes_wanted(touch, t);
    return is_wanted;
}

static void *touch_main(void *argument)
{
    struct store_touch *touch = argument;
    bool has_more = true;
    for (uint32_t t = 0; t < touch->table_count; t++)
        if (!index_touch(touch, &touch->table[t])) return NULL;
    while (has_more && !is_closing(touch)) {
        if (!rows_touch(touch, &has_more)) return NULL;
        if (has_more) bell_await(&touch->bell, false, wanted_look, touch);
    }
    return NULL;
}

/* Keys that an example can have for the table, times examples. */
static uint64_t row_estimate_of(const struct store_table *table, uint64_t example_estimate)
{
    uint64_t rows;
    if (example_estimate == 0) return table->row_max;
    return __builtin_mul_overflow(example_estimate, table->example_keys_max, &rows) ? table->row_max : rows;
}

status store_touch_start(struct store *store, uint64_t example_estimate)
{
    struct store_touch *touch = &store->touch;
    CHECK(!touch->is_started);
    touch->table = store->table;
    touch->table_count = store->table_count;
    touch->knows_examples = example_estimate > 0;
    for (uint32_t t = 0; t < store->table_count; t++) {
        struct store_table *table = &store->table[t];
        table->row_estimate = row_estimate_of(table, example_estimate);
        table->touched_bytes = row_count_of(table) * table->stride_floats * sizeof(float) / PIECE_BYTES * PIECE_BYTES;
    }
    int error = thread_start(&touch->thread, touch_main, touch);
    if (error) FAIL(SYSTEM, "cannot start a thread that touches memory: %s", strerror(error));
    touch->is_started = true;
    return ST_OK;
}

void store_touch_end(struct store *store)
{
    struct store_touch *touch = &store->touch;
    if (!touch->is_started) return;
    /* Release pairs with the acquire in is_closing(). */
    atomic_store_explicit(&touch->shared_is_closing, true, memory_order_release);
    bell_ring(&touch->bell);
    pthread_join(touch->thread, NULL);
    touch->is_started = false;
}
