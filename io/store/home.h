/* The place of rows for which RAM has no room, as a table of functions. The store does not know whether it is
 * a disk (io/store/cold.h), the files of a save (io/store/filed.h) or, in tests, something far away. A row
 * lies in RAM or in its home; in both only while it is read (`is_copy`). To add a home: io/README.md. Rows of
 * other nodes: engine/node/owned.h.
 *
 *     ask ── find, find, … ── bring ──▶ the batch is under way ──▶ `arrived` for each row
 *                                                              ──▶ home->arrived reaches the batch
 *     put ◀── a row leaves RAM               poll looks after it all
 *
 * One thread uses a home, and calls come back soon; transfers go on meanwhile. The thread calls home_poll
 * often, which finishes them. These calls, but not home_find, call `arrived` and `is_dead`. Only home_change
 * is for threads that update rows.
 *
 * A store whose rows all lie in RAM has no home: NULL. The store calls the functions below. Without a home,
 * or without an optional function, they find nothing, have nothing under way and write nothing. */
#ifndef HETERPS_IO_STORE_HOME_H
#define HETERPS_IO_STORE_HOME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

struct uring_faults;

/* A row that is asked for. */
struct home_row {
    uint64_t key;
    float *span;
    uint32_t table;
    uint32_t ticket; /* the caller's */
    bool is_copy;    /* the row stays in its home, too: the caller only reads it */
    bool is_saved;   /* set when it has arrived: it lay in a stretch from home_stretch_next */
};

/* What the home has done for a table since open. */
struct home_counts {
    uint64_t row_count, row_max;  /* here now, and at most                                     */
    uint64_t fetched, read_count; /* rows; reads for them                                      */
    uint64_t read_bytes;          /* for fetches                                               */
    uint64_t put, cleaned;        /* rows; rows that cleaning has moved                        */
    uint64_t write_bytes;         /* all; over put * a row's bytes: write amplification        */
    uint64_t false_count;         /* reads that found another row                              */
};

/* Blocks of a file that are written and will not change. The descriptor is the home's, valid until the
 * next call of another function. */
struct home_stretch {
    char path[4096];
    int fd;
    uint64_t number, xxh3; /* of the file; of the blocks, by segment_hash_add */
    uint32_t block_bytes, block_begin, block_end;
};

struct home {
    const struct home_vt *vt;
    uint64_t arrived; /* all batches up to this one have arrived */
};

struct home_vt {
    /* required */
    void (*close)(struct home *);
    status (*ask)(struct home *);
    bool (*find)(struct home *, const struct home_row *row);
    status (*bring)(struct home *, uint64_t *batch);
    status (*put)(struct home *, uint32_t table, uint64_t key, const float *span);
    status (*poll)(struct home *, bool wait);
    status (*settle)(struct home *);
    void (*walk_begin)(struct home *, uint32_t table);
    status (*walk_next)(struct home *, uint64_t *key, const float **span);
    void (*walk_end)(struct home *);
    struct home_counts (*counts)(const struct home *, uint32_t table);
    const char *(*words)(const struct home *);
    /* optional: NULL means nothing to do, and nothing to give */
    void (*walk_remove)(struct home *); /* needed where walk_next gives rows */
    void (*prefetch)(const struct home *, uint32_t table, uint64_t key);
    void (*change)(struct home *, uint32_t table, float *const *span, uint32_t count);
    status (*write_out)(struct home *);
    bool (*stretch_next)(struct home *, uint32_t table, bool is_all, uint64_t number, struct home_stretch *stretch);
    uint64_t (*stretch_bytes)(const struct home *, uint32_t table);
    uint64_t (*files)(const struct home *);
};

/* --- opening ---------------------------------------------------------------------------------- */

struct home_table_options {
    const char *name;     /* for messages and the files' names        */
    uint32_t span_floats; /* of a row                                 */
    uint64_t bytes;       /* the table's part of the budget           */
    uint64_t rows;        /* rows that the table will have, where this is known (io/store/filed.h) */
};

struct home_options {
    uint32_t table_count;
    const struct home_table_options *table; /* [table_count] */
    uint32_t fetch_max;                     /* most rows of a batch */
    /* the store's */
    void *context;
    /* Whether the row is in RAM, or on its way there. */
    bool (*is_resident)(void *context, uint32_t table, uint64_t key);
    /* The row has been copied to its span; or, not found: the home did not have it after all, and the span is
     * unchanged. */
    void (*arrived)(void *context, const struct home_row *row, bool is_found);
    /* Whether the row with this span may be dropped, because nobody will want it again; NULL: no row may. */
    bool (*is_dead)(void *context, uint32_t table, const float *span);
    /* a disk's */
    const char *path;            /* a directory, made if it is missing; one store at a time has it */
    bool io_threads;             /* not io_uring                                     */
    struct uring_faults *faults; /* faults of reads and writes: NULL, but in tests   */
    uint32_t tag_bits;           /* of the index; 0: 32. Fewer are for tests         */
};

/* A kind of home. */
struct home_kind {
    /* RAM of the budget that the home takes for itself. */
    uint64_t (*ram_bytes)(const struct home_options *options);
    /* About how many bytes a row takes of a table's part of the home's budget. */
    uint64_t (*row_bytes)(uint32_t span_floats);
    uint64_t table_bytes_least; /* and the least bytes of a table                          */
    /* Keeps names, path and the store's part of the options. MEMORY, IO; INVALID: a
     * table's bytes are too few; SYSTEM. */
    status (*open)(struct home **home, const struct home_options *options);
};

static inline void home_close(struct home *home)
{
    if (home != NULL) home->vt->close(home);
}

/* --- rows ------------------------------------------------------------------------------------- */

/* Opens a batch of rows; may wait until an earlier batch has arrived. IO, CORRUPT, as home_poll. */
MUST_USE static inline status home_ask(struct home *home) { return home != NULL ? home->vt->ask(home) : ST_OK; }

/* A look-up of the key will follow soon. */
static inline void home_prefetch(const struct home *home, uint32_t table, uint64_t key)
{
    if (home != NULL && home->vt->prefetch != NULL) home->vt->prefetch(home, table, key);
}

/* Whether the home may have the row. If so, the row is on its way to the span, and `arrived`
 * will say whether it was there. */
static inline bool home_find(struct home *home, const struct home_row *row)
{
    return home != NULL && home->vt->find(home, row);
}

/* Ends the batch, and sends for its rows; gives its number, from 1 on, or 0 without a home. */
MUST_USE static inline status home_bring(struct home *home, uint64_t *batch)
{
    *batch = 0;
    return home != NULL ? home->vt->bring(home, batch) : ST_OK;
}

static inline bool home_has_arrived(const struct home *home, uint64_t batch)
{
    return home == NULL || home->arrived >= batch;
}

/* Takes a row that leaves RAM; the home must not have its key, and no batch may be open. Only where there is
 * a home. FULL: the table, its budget, and the setting to raise. */
MUST_USE static inline status home_put(struct home *home, uint32_t table, uint64_t key, const float *span)
{
    return home->vt->put(home, table, key, span);
}

/* The values of these rows of RAM are about to change; meanwhile each row is one thread's. */
static inline void home_change(struct home *home, uint32_t table, float *const *span, uint32_t count)
{
    if (home != NULL && home->vt->change != NULL) home->vt->change(home, table, span, count);
}

/* Finishes the transfers that are done; with `wait` waits until one is, or none is under way.
 * IO: file, byte, reason. CORRUPT: a row came back with other bytes than were put. After a
 * failure every call fails likewise. */
MUST_USE static inline status home_poll(struct home *home, bool wait)
{
    return home != NULL ? home->vt->poll(home, wait) : ST_OK;
}

/* Waits until every batch has arrived, and every row that was put is where it belongs. */
MUST_USE static inline status home_settle(struct home *home) { return home != NULL ? home->vt->settle(home) : ST_OK; }

/* --- all rows --------------------------------------------------------------------------------- */

/* Goes through the rows of a table, while the home is settled: one walk at a time, and no
 * batch until the walk has ended. */
static inline void home_walk_begin(struct home *home, uint32_t table)
{
    if (home != NULL) home->vt->walk_begin(home, table);
}

/* The next row; *span NULL: there is no further row. The span stays until the next call.
 * IO, CORRUPT as home_poll. */
MUST_USE static inline status home_walk_next(struct home *home, uint64_t *key, const float **span)
{
    *span = NULL;
    return home != NULL ? home->vt->walk_next(home, key, span) : ST_OK;
}

/* Forgets the row that home_walk_next has just given. */
static inline void home_walk_remove(struct home *home) { home->vt->walk_remove(home); }

static inline void home_walk_end(struct home *home)
{
    if (home != NULL) home->vt->walk_end(home);
}

/* --- saves: files that the home has already ----------------------------------------------------- */

/* Writes out the rows that were put and are still in memory, and waits for them. IO, CORRUPT as home_poll. */
MUST_USE static inline status home_write_out(struct home *home)
{
    return home != NULL && home->vt->write_out != NULL ? home->vt->write_out(home) : ST_OK;
}

/* The table's next stretch behind file `number` (0: the first), ascending: all blocks of a file, or those
 * that no stretch has given; only of files with living rows. False: there is no further stretch. */
static inline bool home_stretch_next(struct home *home, uint32_t table, bool is_all, uint64_t number,
                                     struct home_stretch *stretch)
{
    return home != NULL && home->vt->stretch_next != NULL &&
           home->vt->stretch_next(home, table, is_all, number, stretch);
}

/* Bytes of all blocks that home_stretch_next would give. */
static inline uint64_t home_stretch_bytes(const struct home *home, uint32_t table)
{
    return home != NULL && home->vt->stretch_bytes != NULL ? home->vt->stretch_bytes(home, table) : 0;
}

/* --- figures ---------------------------------------------------------------------------------- */

static inline struct home_counts home_counts(const struct home *home, uint32_t table)
{
    return home != NULL ? home->vt->counts(home, table) : (struct home_counts){0};
}

/* How the home reads and writes: "io_uring", "threads, by the page cache". Only where there is a home. */
static inline const char *home_words(const struct home *home) { return home->vt->words(home); }

/* Open files that the home may come to need. */
static inline uint64_t home_files(const struct home *home)
{
    return home != NULL && home->vt->files != NULL ? home->vt->files(home) : 0;
}

#endif
