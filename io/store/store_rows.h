/* Rows by key, by number, and all of them: for loading, saving, exporting. */
#ifndef HETERPS_IO_STORE_STORE_ROWS_H
#define HETERPS_IO_STORE_STORE_ROWS_H

#include "io/store/store.h"

struct home;

/* Rows of a table. */
uint64_t store_row_count(const struct store *store, uint32_t table);
uint64_t store_row_max(const struct store *store, uint32_t table);
/* In RAM alone, where rows are numbered in order of creation: the key of a row. */
uint64_t store_key(const struct store *store, uint32_t table, uint64_t row);
float *store_span(struct store *store, uint32_t table, uint64_t row);
/* Whether the key has a row; in RAM alone. */
bool store_has(const struct store *store, uint32_t table, uint64_t key);
/* Adds a row (loading a model); *span is its zeroed span. FULL as store_prepare; INVALID: the key has a row.
 * Nobody else may use the store meanwhile. */
MUST_USE status store_insert(struct store *store, uint32_t table, uint64_t key, float **span);
/* The same for a key that may have a row: its span is then zeroed and given. */
MUST_USE status store_put(struct store *store, uint32_t table, uint64_t key, float **span);

/* Rows of a table that exist once the ticket of this number is done; in RAM alone this is
 * row_count. While the store is settled. */
uint64_t store_row_count_at(const struct store *store, uint32_t table, uint64_t row_count, uint32_t ticket);
/* Goes through all rows of a table that live once the ticket of this number is done. In RAM alone: the first
 * row_count rows, in order of creation, while others may create more. With a disk: in any order, while the
 * store is settled and nobody uses it. */
struct store_walk {
    struct store *store;
    uint32_t table;
    uint64_t row_count; /* of them all */
    uint64_t next;
    uint8_t *is_left_out; /* a bit for each row of RAM: it was created for a later ticket */
    struct home *home;    /* NULL: there is no home, or the walk has not come to it yet */
};
MUST_USE status store_walk_open(struct store_walk *walk, struct store *store, uint32_t table, uint64_t row_count,
                                uint32_t ticket);
/* The next row; *span NULL: there is none. The span stays until the next call. */
MUST_USE status store_walk_next(struct store_walk *walk, uint64_t *key, const float **span);
void store_walk_close(struct store_walk *walk);
/* The keys of all rows, ascending, into key [store_row_count]; where nobody else uses the store. */
MUST_USE status store_keys(struct store *store, uint32_t table, uint64_t *key);
/* Sorts keys, ascending, in place. */
void store_keys_sort(uint64_t *key, uint64_t count);
/* Copies the spans of existing rows, by key, to spans [count, span_floats], wherever the rows are.
 * Nobody else may use the store. */
MUST_USE status store_copy(struct store *store, uint32_t table, const uint64_t *key, uint32_t count, float *spans);

#endif
