/* Rows in RAM: for every table an array of spans, an index, and for each row the bucket
 * of the index that has its key.
 *
 *     bucket of the index, a cache line:   | key  row + 1  mark | key  row + 1  mark | … | key  row + 1  mark |   four
 *
 * A key lies in the bucket that its hash chooses or, if that is full, in the next bucket with room; cells are
 * filled from the front, and row + 1 is 0 in an empty one. A table with room for R rows has R / 3 buckets, so
 * at most three quarters of the cells are used: a look-up is one cache miss, and for a tenth of the keys of a
 * full table two lines side by side. Where rows leave for a home, a table has R 4 / 13 buckets, and nothing
 * else for a row: nobody asks there for the key of a row by its number.
 *
 * The mark is for tickets (store_ticket.c).
 *
 * Memory is reserved whole and becomes resident as rows are created.
 *
 * In RAM alone rows are numbered in order of creation, and other threads may look them up meanwhile. Where
 * rows leave for a home and come back, one row after another has the same number. */
#include <inttypes.h>
#include <string.h>

#include "io/store/store_internal.h"

uint64_t row_bytes_of(const struct store_table *table)
{
    return table->stride_floats * sizeof(float) +
           (table->is_tiered ? TIERED_CELL_BYTES : ROW_CELL_BYTES + sizeof(uint32_t));
}

/* --- the index -------------------------------------------------------------------------------- */

struct store_cell *index_find(const struct store_table *table, uint64_t key, struct store_cell **place)
{
    for (struct bucket *bucket = first_bucket(table, key);; bucket = bucket_next(table, bucket)) {
        struct store_cell *cell = bucket_find(bucket, key);
        if (cell != NULL) return cell;
        for (uint32_t i = 0; i < BUCKET_CELLS; i++)
            if (cell_row(&bucket->cell[i]) == ROW_NONE) {
                *place = &bucket->cell[i];
                return NULL;
            }
    }
}

static uint64_t bucket_index(const struct store_table *table, const struct bucket *bucket)
{
    return (uint64_t)(bucket - table->bucket);
}

/* Steps from one bucket on to the other. */
static uint64_t bucket_steps(const struct store_table *table, uint64_t from, uint64_t to)
{
    return to >= from ? to - from : to + table->bucket_count - from;
}

static void cell_move(struct store_table *table, struct store_cell *to, struct bucket *to_bucket,
                      struct store_cell *from)
{
    /* Relaxed, all: where rows leave or go, one thread at a time uses the store. */
    uint32_t row = atomic_load_explicit(&from->shared_row, memory_order_relaxed);
    atomic_store_explicit(&to->shared_key, atomic_load_explicit(&from->shared_key, memory_order_relaxed),
                          memory_order_relaxed);
    atomic_store_explicit(&to->shared_row, row, memory_order_relaxed);
    to->mark = from->mark;
    if (table->bucket_of) table->bucket_of[row - 1] = (uint32_t)bucket_index(table, to_bucket);
}

/* Empties a cell. A key behind a full bucket must still be found from its first bucket on: so a key
 * that had to pass the hole moves into it, as long as there is such a key. In the end the hole
 * moves to the end of its bucket. */
static void cell_remove(struct store_table *table, struct bucket *bucket, struct store_cell *hole)
{
    struct bucket *at = bucket;
    while (bucket_is_full(at)) {
        struct store_cell *found = NULL;
        at = bucket_next(table, at);
        for (uint32_t i = 0; i < BUCKET_CELLS && found == NULL; i++) {
            struct store_cell *cell = &at->cell[i];
            if (cell_row(cell) == ROW_NONE) break;
            uint64_t first =
                bucket_index(table, first_bucket(table, atomic_load_explicit(&cell->shared_key, memory_order_relaxed)));
            uint64_t here = bucket_index(table, at);
            if (bucket_steps(table, first, here) >= bucket_steps(table, bucket_index(table, bucket), here))
                found = cell;
        }
        if (found == NULL) continue;
        cell_move(table, hole, bucket, found);
        hole = found;
        bucket = at;
    }
    struct store_cell *last = &bucket->cell[BUCKET_CELLS - 1];
    while (cell_row(last) == ROW_NONE) last--;
    if (last != hole) cell_move(table, hole, bucket, last);
    atomic_store_explicit(&last->shared_row, 0, memory_order_relaxed);
    atomic_store_explicit(&last->shared_key, 0, memory_order_relaxed);
    last->mark = 0;
}

/* --- rows ------------------------------------------------------------------------------------- */

status row_take(const struct store *store, struct store_table *table, uint32_t *row)
{
    if (table->free_count > 0) {
        *row = table->free_row;
        memcpy(&table->free_row, span_of(table, *row), sizeof table->free_row);
        table->free_count--;
        return ST_OK;
    }
    const uint64_t next = rows_end(table);
    if (next == table->row_max)
        FAIL(FULL,
             "table \"%s\" is full: %" PRIu64 " rows of %" PRIu64 " bytes fill its %" PRIu64
             " bytes of the budget; raise store.ram (now %" PRIu64 " bytes) or the table's own ram, or give it a disk "
             "(store.ssd)",
             table->name, next, row_bytes_of(table), table->budget_bytes, store->ram_bytes);
    *row = (uint32_t)next;
    table->used_count += table->is_tiered; /* in RAM alone, row_count_add publishes the count */
    return ST_OK;
}

void row_init(const struct store_table *table, uint32_t table_index, uint64_t key, float *span)
{
    memset(span, 0, table->span_floats * sizeof *span);
    table->row_init(table->context, table_index, key, span);
}

void row_count_subtract(struct store_table *table, uint64_t removed)
{
    /* As in row_count_add(). */
    uint64_t count = atomic_load_explicit(&table->shared_row_count, memory_order_relaxed);
    CHECK(removed <= count);
    atomic_store_explicit(&table->shared_row_count, count - removed, memory_order_release);
}

static void row_give(struct store_table *table, uint32_t row)
{
    memcpy(span_of(table, row), &table->free_row, sizeof table->free_row);
    table->free_row = row;
    table->free_count++;
}

void row_remove(struct store_table *table, struct bucket *bucket, struct store_cell *cell)
{
    const uint32_t row = cell_row(cell);
    cell_remove(table, bucket, cell);
    row_give(table, row);
}

/* In RAM alone. */
static struct store_cell *cell_of(const struct store_table *table, uint64_t row)
{
    struct store_cell *cell = table->bucket[table->bucket_of[row]].cell;
    while (cell_row(cell) != row) cell++;
    return cell;
}

uint64_t row_key(const struct store_table *table, uint64_t row)
{
    /* Relaxed: ordered by cell_row(). */
    return atomic_load_explicit(&cell_of(table, row)->shared_key, memory_order_relaxed);
}

/* --- all rows --------------------------------------------------------------------------------- */

/* Where rows leave for a home: by buckets. The cell that fills a hole is looked at, too: its row was looked
 * at before, or comes from a bucket ahead. */
static void buckets_walk(struct store_table *table, row_look *look, void *context)
{
    for (uint64_t b = 0; b < table->bucket_count; b++) {
        struct bucket *bucket = &table->bucket[b];
        uint32_t i = 0;
        while (i < BUCKET_CELLS && cell_row(&bucket->cell[i]) != ROW_NONE) {
            struct store_cell *cell = &bucket->cell[i];
            const uint64_t key = atomic_load_explicit(&cell->shared_key, memory_order_relaxed);
            if (look(context, key, span_of(table, cell_row(cell))))
                row_remove(table, bucket, cell);
            else
                i++;
        }
    }
}

/* In RAM alone rows are numbered in order of creation: the rows that stay move down, and the spans behind
 * them are zeroed, like those of rows that were never used. */
static void numbers_walk(struct store_table *table, row_look *look, void *context)
{
    const uint64_t count = row_count_of(table);
    uint64_t to = 0;
    for (uint64_t row = 0; row < count; row++) {
        struct store_cell *cell = cell_of(table, row);
        const uint64_t key = atomic_load_explicit(&cell->shared_key, memory_order_relaxed);
        if (look(context, key, span_of(table, row))) {
            cell_remove(table, &table->bucket[table->bucket_of[row]], cell);
            continue;
        }
        if (to != row) {
            memcpy(span_of(table, to), span_of(table, row), table->stride_floats * sizeof(float));
            table->bucket_of[to] = table->bucket_of[row];
            atomic_store_explicit(&cell->shared_row, (uint32_t)to + 1, memory_order_relaxed);
        }
        to++;
    }
    if (to < count) memset(span_of(table, to), 0, (count - to) * table->stride_floats * sizeof(float));
}

void ram_walk(struct store_table *table, row_look *look, void *context)
{
    if (table->is_tiered)
        buckets_walk(table, look, context);
    else
        numbers_walk(table, look, context);
}
