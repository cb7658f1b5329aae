/* The rows that RAM has no room for: on disk, in segments (io/store/segment.h), found by an index in RAM (io/store/cold_index.h). A row lives in RAM or
 * here, never in both.
 *
 *     put ──▶ block ──▶ chunk of blocks ──write──▶ segment … segment     oldest, emptiest: cleaned, its rows put once more
 *     fetch ──▶ batch, sorted by place ──reads, many in flight──▶ the row's span in RAM, and its record is garbage
 *
 * One thread uses it, and calls come back soon: what is in flight goes on meanwhile, and is looked after by cold_poll, which the thread
 * calls often. A fetch costs one read, of one block; rows that lie in a block, or in blocks side by side, share it; what has not been
 * written yet is taken from memory. Workload: some ten thousand fetches a batch, as many puts, tens to hundreds of thousand a second. */
#ifndef HETERPS_IO_STORE_COLD_H
#define HETERPS_IO_STORE_COLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

struct cold;
struct uring_faults;

struct cold_table_options {
    const char *name;     /* for messages and the files' names        */
    uint32_t span_floats; /* of a row                                 */
    uint64_t disk_bytes;  /* the table's part of the budget           */
};

/* A row that is fetched. */
struct cold_row {
    uint64_t key;
    float *span;
    uint32_t table;
    uint32_t ticket; /* the caller's */
    bool is_copy;    /* it stays here, too: for who only reads it */
    bool is_saved;   /* once it has arrived: it lay in a block that cold_stretch_next has given */
};

struct cold_options {
    const char *path; /* a directory, made if it is not there; one store at a time has it */
    uint32_t table_count;
    const struct cold_table_options *table; /* [table_count] */
    uint32_t fetch_max;                     /* most rows of a batch                             */
    bool io_threads;                        /* not io_uring                                     */
    struct uring_faults *faults;            /* that reads and writes meet: NULL, but in tests   */
    uint32_t tag_bits;                      /* of the index; 0: 32. Fewer are for tests         */
    void *context;
    /* Whether the row is in RAM, or on its way there. */
    bool (*is_resident)(void *context, uint32_t table, uint64_t key);
    /* The row has been copied to its span; or, not found: there was none after all, and the span is as it was. */
    void (*arrived)(void *context, const struct cold_row *row, bool is_found);
    /* Whether cleaning drops the row with this span, which nobody will want again; NULL: it drops none. */
    bool (*is_dead)(void *context, uint32_t table, const float *span);
};

/* Of the RAM budget: index and buffers. */
uint64_t cold_ram_bytes(const struct cold_options *options);
/* Rows that a table of this span can have on so much disk; 0: it is too little. */
uint64_t cold_row_max(uint32_t span_floats, uint64_t disk_bytes);

/* Keeps nothing of options but names, path and callbacks. Segments that a dead process left in the directory are removed. MEMORY, IO;
 * INVALID: a table's disk_bytes are too few; SYSTEM: another process has the directory. */
MUST_USE status cold_open(struct cold **cold, const struct cold_options *options);
/* Removes the segments. NULL is ignored. */
void cold_close(struct cold *cold);

/* Fetching: rows of a batch, then its end. A batch may wait here for an earlier one: so many may be under way that they bring some
 * COLD_ROWS_AHEAD rows, but not fewer nor more than this. */
#define COLD_ROWS_AHEAD  32768u
#define COLD_BATCHES_MIN 4u
#define COLD_BATCHES_MAX 16u
MUST_USE status cold_fetch_begin(struct cold *cold);
void cold_fetch_prefetch(const struct cold *cold, uint32_t table, uint64_t key);
/* Whether the key's row may be here. Then it is on its way to the span, and `arrived` will say. */
bool cold_fetch(struct cold *cold, const struct cold_row *row);
/* Returns the batch's number, from 1 on. */
MUST_USE status cold_fetch_end(struct cold *cold, uint64_t *batch);
/* All batches up to this one have arrived. */
uint64_t cold_arrived(const struct cold *cold);

/* Takes a row that leaves RAM; its key must not be here, and no batch be open. FULL: the table, its budget, and the setting to raise. */
MUST_USE status cold_put(struct cold *cold, uint32_t table, uint64_t key, const float *span);

/* Looks after what is done; if `wait`, until something is, or nothing is in flight. IO: file, byte, reason. CORRUPT: a block that is not what
 * was written. After a failure every call fails likewise. */
MUST_USE status cold_poll(struct cold *cold, bool wait);
/* Waits until every batch has arrived, and every write is done. */
MUST_USE status cold_settle(struct cold *cold);

/* Goes through the rows of a table, segment by segment, while nothing is in flight for anybody (cold_settle): its blocks come into the memory of
 * fetches, so that there is one walk at a time, and no fetch until it is closed. */
struct cold_walk {
    struct cold *cold;
    uint32_t table, segment, row;
    uint32_t block_begin, block_end; /* of the segment: those in memory */
};
void cold_walk_open(struct cold_walk *walk, struct cold *cold, uint32_t table);
/* The next row; *span NULL: there is none. The span stays until the next call. IO, CORRUPT as cold_poll. */
MUST_USE status cold_walk_next(struct cold_walk *walk, uint64_t *key, const float **span);
/* Forgets the row that cold_walk_next has just given. */
void cold_walk_remove(const struct cold_walk *walk);
/* One that was never opened, all zero, is ignored. */
void cold_walk_close(struct cold_walk *walk);

/* Writes out what has been put, a block that is not full, too, and waits for it. IO, CORRUPT as cold_poll. */
MUST_USE status cold_write_out(struct cold *cold);
/* Blocks of a segment, written and not to be changed any more; path and descriptor are good until the next call of another kind. */
struct cold_stretch {
    const char *path;
    int fd;
    uint64_t number, xxh3; /* of its blocks, by segment_hash_add */
    uint32_t block_bytes, block_begin, block_end;
};
/* The table's next stretch behind segment `number`, of all its blocks or of those that have not been given, where any row is live. False: there
 * is none. */
bool cold_stretch_next(struct cold *cold, uint32_t table, bool is_all, uint64_t number, struct cold_stretch *stretch);

/* Bytes of the blocks that cold_stretch_next would give, all of them. */
uint64_t cold_stretch_bytes(const struct cold *cold, uint32_t table);

struct cold_counts {
    uint64_t row_count, row_max;  /* here now, and at most                                     */
    uint64_t fetched, read_count; /* rows; reads for them                                      */
    uint64_t read_bytes;          /* for fetches                                               */
    uint64_t put, cleaned;        /* rows; rows that cleaning has moved                        */
    uint64_t write_bytes;         /* all; over put * a row's bytes: write amplification        */
    uint64_t false_count;         /* reads for a row that was another's                        */
};
struct cold_counts cold_counts(const struct cold *cold, uint32_t table);
/* Open files that it may come to need: cold_open refuses more than this process may have. */
uint64_t cold_files(const struct cold *cold);
/* "io_uring", "threads"; whether reads pass the page cache by. */
const char *cold_io_name(const struct cold *cold);
bool cold_is_direct(const struct cold *cold);

#endif
