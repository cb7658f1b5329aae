#include "io/store/store_rows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "io/store/filed.h"
#include "io/store/store_internal.h"
#include "io/store/store_life.h"

/* --- rows by number --------------------------------------------------------------------------- */

uint64_t store_row_count(const struct store *store, uint32_t table)
{
    CHECK(table < store->table_count);
    return filed_is(store->home) ? filed_row_count(store->home, table) : row_count_of(&store->table[table]);
}

uint64_t store_row_max(const struct store *store, uint32_t table)
{
    CHECK(table < store->table_count);
    return store->table[table].row_max + home_counts(store->home, table).row_max;
}

uint64_t store_key(const struct store *store, uint32_t table, uint64_t row)
{
    const struct store_table *t = &store->table[table];
    CHECK(table < store->table_count && row < t->row_max && !t->is_tiered);
    return row_key(t, row);
}

bool store_has(const struct store *store, uint32_t table, uint64_t key)
{
    struct store_cell *place;
    CHECK(store->home == NULL);
    return index_find(&store->table[table], key, &place) != NULL;
}

float *store_span(struct store *store, uint32_t table, uint64_t row)
{
    CHECK(table < store->table_count && row < store->table[table].row_max);
    return span_of(&store->table[table], row);
}

/* --- rows by key ------------------------------------------------------------------------------ */

/* A row of RAM for a key that has none there: with its values from the home, or new and zeroed. */
static status row_put_home(struct store *store, uint32_t table_index, uint64_t key, struct store_cell *place,
                           uint32_t *row, bool *was_there)
{
    struct store_table *table = &store->table[table_index];
    if (rows_free(table) == 0) {
        TRY(rows_move_out(store, table_index, 1));
        (void)index_find(table, key, &place);
    }
    const uint64_t row_count = row_count_of(table);
    uint64_t batch;
    TRY(home_ask(store->home));
    TRY(row_bring(store, table_index, key, place, row));
    TRY(home_bring(store->home, &batch));
    while (!home_has_arrived(store->home, batch)) TRY(home_poll(store->home, true));
    *was_there = row_count_of(table) == row_count;
    table->created_begin = table->created_end; /* they are no ticket's */
    if (!*was_there) memset(span_of(table, *row), 0, table->span_floats * sizeof(float));
    return ST_OK;
}

/* In RAM alone: a row whose number was never used, so its span is zero. */
static status row_put_new(const struct store *store, struct store_table *table, uint64_t key, struct store_cell *place,
                          uint32_t *row)
{
    TRY(row_take(store, table, row));
    row_publish(table, *row, key, place);
    row_count_add(table);
    return ST_OK;
}

/* A model is loaded row by row. The fewer instructions lie between two look-ups in the index, the more
 * of its misses are under way at a time. The number of a new row does not come out of the index, or the
 * work on the row would wait for it. */
static status row_put(struct store *store, uint32_t table_index, uint64_t key, float **span, bool *was_there)
{
    CHECK(table_index < store->table_count);
    struct store_table *table = &store->table[table_index];
    struct store_cell *place = NULL, *cell = index_find(table, key, &place);
    uint32_t row = ROW_NONE;
    *was_there = cell != NULL;
    if (life_has_admission(table)) TRY(admission_grant(&table->admission, key));
    if (cell != NULL)
        row = cell_row(cell);
    else if (table->is_tiered)
        TRY(row_put_home(store, table_index, key, place, &row, was_there));
    else
        TRY(row_put_new(store, table, key, place, &row));
    *span = span_of(table, row);
    if (!*was_there) marks_row_come(store, table_index, row, true);
    return ST_OK;
}

status store_insert(struct store *store, uint32_t table, uint64_t key, float **span)
{
    bool was_there;
    TRY(row_put(store, table, key, span, &was_there));
    if (was_there) FAIL(INVALID, "table \"%s\" has key %016" PRIx64 " already", store->table[table].name, key);
    return ST_OK;
}

status store_put(struct store *store, uint32_t table, uint64_t key, float **span)
{
    bool was_there;
    TRY(row_put(store, table, key, span, &was_there));
    if (was_there) memset(*span, 0, store->table[table].span_floats * sizeof **span);
    return ST_OK;
}

status store_copy(struct store *store, uint32_t table_index, const uint64_t *key, uint32_t count, float *spans)
{
    struct store_table *table = &store->table[table_index];
    for (uint32_t begin = 0, end; begin < count; begin = end) {
        end = count - begin < store->key_count_max ? count : begin + (uint32_t)store->key_count_max;
        TRY(home_ask(store->home));
        for (uint32_t i = begin; i < end; i++) {
            struct store_cell *place, *cell = index_find(table, key[i], &place);
            float *span = spans + (size_t)i * table->span_floats;
            CHECK(cell != NULL || table->is_tiered);
            if (cell != NULL)
                memcpy(span, span_of(table, cell_row(cell)), table->span_floats * sizeof *span);
            else
                row_copy(store, table_index, key[i], span);
        }
        uint64_t batch;
        TRY(home_bring(store->home, &batch));
        TRY(home_settle(store->home));
    }
    return ST_OK;
}

/* --- all rows --------------------------------------------------------------------------------- */

status store_walk_open(struct store_walk *walk, struct store *store, uint32_t table_index, uint64_t row_count,
                       uint32_t ticket)
{
    CHECK(table_index < store->table_count);
    struct store_table *table = &store->table[table_index];
    *walk = (struct store_walk){.store = store, .table = table_index, .row_count = row_count};
    if (!table->is_tiered) return ST_OK;
    TRY(store_purge(store));
    walk->row_count = store_row_count_at(store, table_index, row_count, ticket);
    walk->is_left_out = created_after(table, ticket);
    if (walk->is_left_out == NULL) FAIL(MEMORY, "no memory to walk the rows of table \"%s\"", table->name);
    walk->home = store->home;
    home_walk_begin(walk->home, table_index);
    return ST_OK;
}

void store_walk_close(struct store_walk *walk)
{
    free(walk->is_left_out);
    home_walk_end(walk->home);
    *walk = (struct store_walk){0};
}

status store_walk_next(struct store_walk *walk, uint64_t *key, const float **span)
{
    struct store *store = walk->store;
    const struct store_table *table = &store->table[walk->table];
    *span = NULL;
    if (!table->is_tiered) {
        if (walk->next == walk->row_count) return ST_OK;
        *key = store_key(store, walk->table, walk->next);
        *span = span_of(table, walk->next++);
        return ST_OK;
    }
    while (walk->next < table->bucket_count * BUCKET_CELLS) {
        const struct store_cell *cell = &table->bucket[walk->next / BUCKET_CELLS].cell[walk->next % BUCKET_CELLS];
        const uint32_t row = cell_row(cell);
        walk->next++;
        if (row == ROW_NONE || walk->is_left_out[row / 8] >> row % 8 & 1) continue;
        *key = atomic_load_explicit(&cell->shared_key, memory_order_relaxed);
        *span = span_of(table, row);
        return ST_OK;
    }
    return home_walk_next(walk->home, key, span);
}

/* --- keys in order ---------------------------------------------------------------------------- */

#define RADIX_BITS    8u
#define RADIX_SIZE    (1u << RADIX_BITS)
#define INSERTION_MAX 48u

static void insertion_sort(uint64_t *key, uint64_t count)
{
    for (uint64_t i = 1; i < count; i++) {
        const uint64_t k = key[i];
        uint64_t at = i;
        for (; at > 0 && key[at - 1] > k; at--) key[at] = key[at - 1];
        key[at] = k;
    }
}

/* Sorts by the `shift + RADIX_BITS` low bits; the bits above are equal. Depth of recursion: 8. */
static void flag_sort(uint64_t *key, uint64_t count, int shift)
{
    if (count <= INSERTION_MAX) {
        insertion_sort(key, count);
        return;
    }
    uint64_t next[RADIX_SIZE] = {0}, end[RADIX_SIZE], begin = 0;
    for (uint64_t i = 0; i < count; i++) next[key[i] >> shift & (RADIX_SIZE - 1)]++;
    for (uint32_t digit = 0; digit < RADIX_SIZE; digit++) {
        const uint64_t digit_count = next[digit];
        next[digit] = begin;
        end[digit] = begin += digit_count;
    }
    /* Each lifted key goes to the next place of its own pile, and the key there is lifted. */
    for (uint32_t digit = 0; digit < RADIX_SIZE; digit++)
        while (next[digit] < end[digit]) {
            uint64_t lifted = key[next[digit]];
            for (uint32_t d; (d = lifted >> shift & (RADIX_SIZE - 1)) != digit;) {
                const uint64_t there = key[next[d]];
                key[next[d]++] = lifted;
                lifted = there;
            }
            key[next[digit]++] = lifted;
        }
    if (shift == 0) return;
    begin = 0;
    for (uint32_t digit = 0; digit < RADIX_SIZE; digit++) {
        flag_sort(key + begin, end[digit] - begin, shift - (int)RADIX_BITS);
        begin = end[digit];
    }
}

void store_keys_sort(uint64_t *key, uint64_t count) { flag_sort(key, count, 64 - (int)RADIX_BITS); }

status store_keys(struct store *store, uint32_t table, uint64_t *key)
{
    const uint64_t count = store_row_count(store, table);
    struct store_walk walk;
    const float *span;
    status st = store_walk_open(&walk, store, table, count, 0);
    for (uint64_t i = 0; i < count && st == ST_OK; i++) st = store_walk_next(&walk, &key[i], &span);
    store_walk_close(&walk);
    if (st == ST_OK) store_keys_sort(key, count);
    return st;
}
