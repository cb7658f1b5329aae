/* All rows of all tables on a node, behind tickets: a slot's keys are prepared ahead of time, and a stage
 * runs only when the ticket is ready. Rows live in RAM, within a fixed byte budget. If there is a budget for
 * a disk, the rows that are used least live there (io/store/cold.h), or in another home (io/store/home.h).
 *
 *   index (buckets, sized from the budget, never rehashed)               rows (one reserved range a table)
 *   key ──hash──▶ [ key | row number ] … ─────────────────────────────▶ [ vector | state | counters ] …
 *         [ bucket of row n ] …
 *
 * This header opens and closes. The others, by who reads them:
 *
 *     store_ticket.h    micro-batches: prepare, ready, release         store_save.h      saves, while training goes on
 *     store_rows.h      rows by key or number, and all of them         store_figures.h   what it has done
 *     store_life.h      rows that come and go                          store_touch.h     memory that is resident
 *
 * Threads: one thread prepares with STORE_CREATE (the training feed), and one other may prepare with
 * STORE_LOOKUP meanwhile, because an entry is published with release order after its row is complete; the
 * modes write nothing else that is shared. Any other caller of store_prepare must take turns. Where
 * store_takes_turns, one thread at a time uses the store at all.
 *
 * A row keeps its number and its place in memory. In RAM alone: until the store is closed. Where rows come
 * and go: until a sweep (store_life.h), which removes some rows and moves others. With a disk: until every
 * ticket that names it is released.
 *
 * Workload: a create-or-find a key of a micro-batch (hundred thousand a millisecond), a fifth of them new
 * at first and almost none later. */
#ifndef HETERPS_IO_STORE_STORE_H
#define HETERPS_IO_STORE_STORE_H

#include "engine/base/batch.h"
#include "engine/base/row_life.h"
#include "engine/base/status.h"

struct home_kind;
struct uring_faults;
struct store;

struct store_table_options {
    const char *name;
    uint32_t span_floats;           /* floats a row: vector, optimizer state, counters                      */
    const uint8_t *serves;          /* [field_count]: 1 if the table looks up keys of the field             */
    uint32_t share;                 /* of the rows for which the budgets have room, relative to other tables */
    uint64_t ram_bytes, disk_bytes; /* not 0: of the budgets, for this table alone; tables share the rest */
    uint64_t rows;                  /* for a home that asks for it: how many rows the table will have    */
    struct row_life life;           /* all zero: every key has a row, for ever                              */
    /* Fills a zeroed span for a row never seen; depends on (seed, table, key) alone. */
    void (*row_init)(void *context, uint32_t table, uint64_t key, float *span);
    void *context;
    bool unseen_is_zeros; /* STORE_LOOKUP gives zeros for a key without a row; else what row_init fills in   */
};

struct store_options {
    uint64_t ram_bytes;  /* all tables, index included; the scratch memory of store_prepare comes on top */
    uint64_t disk_bytes; /* all tables; 0: rows live in RAM only                                         */
    uint32_t ticket_max; /* tickets that create, prepared and not released, of a store that takes turns  */
    /* with disk_bytes */
    const struct home_kind *home; /* takes the rows for which RAM has no room; NULL: a disk (io/store/cold.h) */
    const char *path;             /* the directory for its files, kept until close */
    bool looks_up;                /* nothing is created: RAM need have no room for the rows of a step */
    bool io_threads;              /* not io_uring                                  */
    uint32_t tag_bits;            /* 0; else for tests (io/store/cold.h)                 */
    struct uring_faults *faults;  /* NULL, but in tests                  */
    const char *isa;              /* NULL: the best that runs here; all give the same (isa_io_names) */
    uint32_t table_count;
    const struct store_table_options *table;
    struct batch_shape batch;
    struct example_shape example;
};

/* MEMORY: a table's share of the budget cannot hold one micro-batch's keys. Of the options it keeps only the
 * callbacks and the tables' names. */
MUST_USE status store_open(struct store **store, const struct store_options *options);
void store_close(struct store *store);
/* Whether rows may lie elsewhere than in RAM. */
bool store_has_home(const struct store *store);
struct home;
/* Where rows lie that are not in RAM; NULL: all rows are in RAM. */
struct home *store_home(const struct store *store);
/* Whether only one thread at a time may use the store: it has a disk, or rows that come and go. */
bool store_takes_turns(const struct store *store);

#endif
