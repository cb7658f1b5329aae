/* The home of all rows of all tables on a node, behind tickets: a slot's keys are prepared ahead of time, and
 * a stage runs only when the ticket is ready. This store keeps everything in RAM, within a fixed byte budget.
 *
 *   index (buckets, sized from the budget, never rehashed)               rows (one reserved range a table)
 *   key ──hash──▶ [ key | row number ] … ─────────────────────────────▶ [ vector | state | counters ] …
 *         [ bucket of row n ] …
 *
 * Threads: one thread prepares with STORE_CREATE (the training feed), and one other may prepare with STORE_LOOKUP
 * meanwhile, because an entry is published with release order after its row is complete; what else the modes write is not
 * shared. Whoever else calls store_prepare must take turns. Rows never move and are never removed.
 * Workload: a create-or-find a key of a micro-batch (hundred thousand a millisecond), a fifth of them new at first and
 * almost none later. */
#ifndef HETERPS_IO_STORE_H
#define HETERPS_IO_STORE_H

#include "engine/base/batch.h"

struct store;

struct store_table_options {
    const char *name;
    uint32_t span_floats;  /* floats a row: vector, optimizer state, counters                      */
    const uint8_t *serves; /* [field_count]: 1 if the table looks up keys of the field             */
    uint32_t share;        /* part of the budget, relative to the other tables'                    */
    /* Fills a zeroed span for a row never seen: a function of (seed, table, key) and nothing else. */
    void (*row_init)(void *context, uint32_t table, uint64_t key, float *span);
    void *context;
};

struct store_options {
    uint64_t ram_bytes; /* all tables, index included; the scratch memory of store_prepare comes on top */
    uint32_t table_count;
    const struct store_table_options *table;
    struct batch_shape batch;
    struct example_shape example;
};

enum store_mode {
    STORE_CREATE, /* a key never seen gets a row                                                      */
    STORE_LOOKUP, /* a key never seen gets ROW_NONE and its initial values in the ticket's scratch     */
};

/* MEMORY if a table's share of the budget cannot hold one micro-batch's keys. Keeps nothing of options but the
 * callbacks and the tables' names. */
MUST_USE status store_open(struct store **store, const struct store_options *options);
void store_close(struct store *store);

/* Deduplicates the batch's keys for every table and fills the ticket (all but step_row): uniques in order of first
 * occurrence, rows, spans, occurrences; creates rows in that order. FULL: names the table, its rows, the budget and
 * the setting to raise (store.ram); rows that were created before stay. The ticket's arrays are the caller's
 * (ticket_place; with_scratch for STORE_LOOKUP). Spans of rows are 16-byte aligned; those in scratch lie span_floats
 * apart. */
MUST_USE status store_prepare(struct store *store, const struct micro_batch *m, enum store_mode mode,
                              struct ticket *ticket);
/* Whether the ticket's rows are resident. Always true in RAM. */
bool store_ready(struct store *store, const struct ticket *ticket);
/* Unpins the ticket's rows. */
void store_release(struct store *store, struct ticket *ticket);

uint64_t store_row_count(const struct store *store, uint32_t table);
uint64_t store_row_max(const struct store *store, uint32_t table);
uint64_t store_key(const struct store *store, uint32_t table, uint64_t row);
float *store_span(struct store *store, uint32_t table, uint64_t row);
/* Adds a row (loading a model): returns its zeroed span in *span. FULL as above; INVALID if the key is there. Nobody
 * else may use the store meanwhile. */
MUST_USE status store_insert(struct store *store, uint32_t table, uint64_t key, float **span);
/* Bytes of the budget that rows use now, each with its key and its part of the index. */
uint64_t store_used_bytes(const struct store *store);

#endif
