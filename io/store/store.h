/* The home of all rows of all tables on a node, behind tickets: a slot's keys are prepared ahead of time, and
 * a stage runs only when the ticket is ready. Rows live in RAM, within a fixed byte budget, and, if there is a budget for a disk, those that
 * are used least there (io/store/cold.h).
 *
 *   index (buckets, sized from the budget, never rehashed)               rows (one reserved range a table)
 *   key ──hash──▶ [ key | row number ] … ─────────────────────────────▶ [ vector | state | counters ] …
 *         [ bucket of row n ] …
 *
 * Threads: one thread prepares with STORE_CREATE (the training feed), and one other may prepare with STORE_LOOKUP
 * meanwhile, because an entry is published with release order after its row is complete; what else the modes write is not
 * shared. Whoever else calls store_prepare must take turns. Rows never move and are never removed. With a disk, or rows that come and go
 * (store_takes_turns), one thread at a time uses the store at all.
 *
 * Rows come and go by the rules of engine/base/row_life.h: a key that is not admitted yet has no row, and a ticket gives its initial values;
 * store_sweep, at the end of a step, removes rows in RAM that are dead, and all that are too many. Rows on disk that are dead are found when
 * somebody needs them, and never given to anybody.
 * Workload: a create-or-find a key of a micro-batch (hundred thousand a millisecond), a fifth of them new at first and
 * almost none later. */
#ifndef HETERPS_IO_STORE_STORE_H
#define HETERPS_IO_STORE_STORE_H

#include "engine/base/batch.h"
#include "engine/base/row_life.h"
#include "io/store/cold.h"

struct store;

struct store_table_options {
    const char *name;
    uint32_t span_floats;           /* floats a row: vector, optimizer state, counters                      */
    const uint8_t *serves;          /* [field_count]: 1 if the table looks up keys of the field             */
    uint32_t share;                 /* part of the budgets, relative to the other tables'                   */
    uint64_t ram_bytes, disk_bytes; /* not 0: of the budgets for this table alone; the rest is shared    */
    struct row_life life;           /* all zero: every key has a row, for ever                              */
    /* Fills a zeroed span for a row never seen: a function of (seed, table, key) and nothing else. */
    void (*row_init)(void *context, uint32_t table, uint64_t key, float *span);
    void *context;
};

struct store_options {
    uint64_t ram_bytes;  /* all tables, index included; the scratch memory of store_prepare comes on top */
    uint64_t disk_bytes; /* all tables; 0: rows live in RAM only                                         */
    uint32_t ticket_max; /* tickets that create, prepared and not released, of a store that takes turns  */
    /* with a disk */
    const char *path;            /* the directory for its files, kept until close */
    bool io_threads;             /* not io_uring                                  */
    uint32_t tag_bits;           /* 0; else for tests (io/store/cold.h)                 */
    struct uring_faults *faults; /* NULL, but in tests                  */
    const char *isa;             /* NULL: the best that runs here; all give the same (isa_io_names) */
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
bool store_has_disk(const struct store *store);
/* One thread at a time may use it: it has a disk, or rows that come and go. */
bool store_takes_turns(const struct store *store);
/* Open files that it may come to need for the disk. */
uint64_t store_disk_files(const struct store *store);
/* How the disk is read, in words: "io_uring", "threads, by the page cache". */
const char *store_disk_name(const struct store *store);

/* Has room in RAM made for whatever rows one more ticket may need, before each store_prepare that creates. Not *has_room: too many are pinned;
 * release tickets. Always true in RAM alone. IO, CORRUPT: the disk failed; FULL: its budget is used up: raise store.ssd. */
MUST_USE status store_make_room(struct store *store, bool *has_room);
/* Deduplicates the batch's keys for every table and fills the ticket (all but step_row): uniques in order of first
 * occurrence, rows, spans, occurrences; creates rows in that order. A key that is not admitted has ROW_NONE and its initial values in the
 * ticket's scratch, also with STORE_CREATE; its occurrences count from the next step on, when m->is_last. FULL: names the table, its rows, the budget and
 * the setting to raise (store.ram); rows that were created before stay. The ticket's arrays are the caller's
 * (ticket_place; with_scratch for STORE_LOOKUP). Spans of rows are 16-byte aligned; those in scratch lie span_floats
 * apart. With a disk, a row's values may be on their way, until the ticket is ready. */
MUST_USE status store_prepare(struct store *store, const struct micro_batch *m, enum store_mode mode,
                              struct ticket *ticket);
/* Whether the ticket's rows are resident: tickets become ready in the order in which they were prepared. */
bool store_ready(const struct store *store, const struct ticket *ticket);
/* Looks after reads and writes under way: to be called while a ticket is not ready; if `wait`, until one of them is done. IO, CORRUPT as
 * store_make_room. */
MUST_USE status store_poll(struct store *store, bool wait);
/* Waits until every ticket is ready. */
MUST_USE status store_settle(struct store *store);
/* Unpins the rows of the ticket of this number (ticket.number) and of all before it. */
void store_release(struct store *store, uint32_t ticket);

uint64_t store_row_count(const struct store *store, uint32_t table);
uint64_t store_row_max(const struct store *store, uint32_t table);
/* By its number in a ticket, of a row in RAM; of its key only in RAM alone, where rows have numbers in order of creation. */
uint64_t store_key(const struct store *store, uint32_t table, uint64_t row);
float *store_span(struct store *store, uint32_t table, uint64_t row);
/* Adds a row (loading a model): returns its zeroed span in *span. FULL as above; INVALID if the key is there. Nobody
 * else may use the store meanwhile. */
MUST_USE status store_insert(struct store *store, uint32_t table, uint64_t key, float **span);
/* The same of a key that may be there: its row's span, zeroed, is given then. */
MUST_USE status store_put(struct store *store, uint32_t table, uint64_t key, float **span);
/* Bytes of the budget that rows use now, each with its key and its part of the index. */
uint64_t store_used_bytes(const struct store *store);

/* --- rows that come and go ----------------------------------------------------------------------- */

/* The period of the steps that follow, once a model has been loaded, among whose rows may be dead ones. */
void store_period_set(struct store *store, uint64_t period);
/* Whether a sweep is due at the end of the step whose last ticket has just been prepared and is ready, though no period ends. For this the
 * store may wait for the disk. */
MUST_USE status store_is_crowded(struct store *store, bool *is_crowded);
/* At the end of a step, when no ticket behind it is prepared: `period` is that of the next step. Removes the rows that have died, and of a
 * table with too many those of the least scores. Spans of tickets are no longer valid (store_find_again). Nobody else may use the store.
 * IO, CORRUPT as store_make_room. */
MUST_USE status store_sweep(struct store *store, uint64_t period);
/* Points the ticket, of the step that has just ended, to where its rows are now: to zeros if they are gone. */
void store_find_again(struct store *store, const struct micro_batch *m, struct ticket *ticket);
/* Finds and removes the dead rows on disk, so that counts of rows are exact; while the store is settled and nobody uses it. */
MUST_USE status store_purge(struct store *store);
/* Whether the table's rows come and go. */
bool store_lives(const struct store *store, uint32_t table);
/* Counts keys that have no row yet; NULL: the table admits every key. To be saved, and read before rows are inserted. */
struct admission *store_admission(struct store *store, uint32_t table);
/* What has become of rows since open, once store_purge has found them all. */
struct store_life_counts {
    uint64_t admitted, refused; /* rows made; occurrences of keys that were not admitted */
    uint64_t died[ROW_FATE_COUNT];
    uint64_t evicted, evictions, eviction_ns;
};
struct store_life_counts store_life_counts(const struct store *store, uint32_t table);

/* --- figures ----------------------------------------------------------------------------------- */

/* What a table with a disk has done since open. */
struct store_counts {
    uint64_t ram_rows, disk_rows; /* now                                                                          */
    uint64_t touched;             /* rows of tickets that create, once a ticket                                   */
    struct cold_counts disk;
};
struct store_counts store_counts(const struct store *store, uint32_t table);

/* How many rows of a table exist once the ticket of this number is done: row_count, in RAM alone. While the store is settled. */
uint64_t store_row_count_at(const struct store *store, uint32_t table, uint64_t row_count, uint32_t ticket);
/* Goes through all rows of a table that live once the ticket of this number is done: in RAM alone the first row_count, in order of creation,
 * while others may create more; with a disk in any order, while the store is settled and nobody uses it. */
struct store_walk {
    struct store *store;
    uint32_t table;
    uint64_t row_count; /* of them all */
    uint64_t next;
    uint8_t *is_left_out; /* a bit a row of RAM: created for later tickets */
    struct cold_walk cold;
};
MUST_USE status store_walk_open(struct store_walk *walk, struct store *store, uint32_t table, uint64_t row_count,
                                uint32_t ticket);
/* The next row; *span NULL: there is none. The span stays until the next call. */
MUST_USE status store_walk_next(struct store_walk *walk, uint64_t *key, const float **span);
void store_walk_close(struct store_walk *walk);
/* Copies the spans of rows that exist, by key, to spans [count, span_floats], wherever they are. Nobody else may use the store. */
MUST_USE status store_copy(struct store *store, uint32_t table, const uint64_t *key, uint32_t count, float *spans);

#endif
