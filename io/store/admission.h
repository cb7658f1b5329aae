/* Which keys may have a row: those that have occurred often enough. Counts occurrences of keys in
 * the order of the data, up to admit - 1, and forgets none. So admission is a function of the
 * data so far, and of nothing else.
 *
 *   exact   open addressing: a key and its count, 12 bytes a key of admit_keys. Full: an error; the saved counts can go
 *           on with a greater admit_keys, or as bloom.
 *   bloom   a counting Bloom filter in blocks of a cache line (Putze, Sanders, Singler, "Cache-, Hash- and
 *           Space-Efficient Bloom Filters", WEA 2007), four counters a key. Only a key's least counters are raised
 *           (conservative update: Estan, Varghese, SIGCOMM 2002), so counts are never too low. Once it holds admit_keys
 *           keys, it takes about one in a hundred other keys for one that has occurred. Counters have 1, 2, 4 or 8
 *           bits, twelve of them a key: 1.5 bytes a key for admit = 2.
 *   bloom by shards   the same, with separate lines for each shard of the keys (io/store/shard.h), at least 256 KiB in
 *           all: a key's count depends on keys of its shard alone, so owners of shards need no others'
 *           counts.
 *
 * Steps are counted when they have been prepared, and saved when they are done. The counts before each
 * addition are kept until its ticket is released, so that a save can go back to the end of any step since
 * then, and forward again. One thread uses it. */
#ifndef HETERPS_IO_STORE_ADMISSION_H
#define HETERPS_IO_STORE_ADMISSION_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/base/file.h"
#include "engine/base/memory.h"
#include "engine/base/row_life.h"

/* The first bytes of a file of admissions. */
#define ADMISSION_MAGIC "HPSADMT1"

struct admission_options {
    const char *table;     /* its name, for messages and the file; kept                        */
    struct row_life life;  /* admit > 1, admit_by, admit_keys                                  */
    uint64_t addition_max; /* additions of tickets that are not released                        */
    uint32_t ticket_max;   /* tickets that are not released                                    */
};

struct admission {
    const char *table;
    uint32_t admit, admit_by;
    uint64_t key_max;
    /* exact: cell c has key[c] and count[c], 0: empty; bloom: count has lines */
    uint64_t *key;
    uint8_t *count;
    uint64_t cell_count;  /* exact: cells; bloom: lines     */
    uint64_t used_count;  /* exact: cells that are not empty */
    uint32_t bits;        /* bloom: of a counter            */
    uint64_t shard_lines; /* bloom by shards: of a shard    */
    /* Old counts of the last additions, oldest first; entry n at n % addition_max. */
    struct addition {
        uint64_t key;
        uint8_t other[4]; /* counters before the addition; while the admission is turned back, counters after it */
    } * addition;
    uint64_t addition_begin, addition_end, addition_max;
    uint64_t turned; /* additions, the last ones, that are undone now */
    struct admission_step {
        uint32_t ticket;
        uint64_t end; /* of its additions */
    } * step;
    uint64_t step_begin, step_end;
    uint32_t step_max;
    struct arena arena;
};

/* Takes its memory as the part "store admission". MEMORY. */
MUST_USE status admission_open(struct admission *admission, const struct admission_options *options);
/* An admission that is all zero is ignored. */
void admission_close(struct admission *admission);

/* Whether the key may have a row: admit - 1 of its occurrences are counted. */
bool admission_has(const struct admission *admission, uint64_t key);
/* Counts one occurrence of the key. FULL: the table, its admit_keys, what to do. */
MUST_USE status admission_add(struct admission *admission, uint64_t key);
/* The additions since the last call belong to tickets up to this one. */
void admission_step_end(struct admission *admission, uint32_t ticket);
/* The steps of tickets up to this one are done and will not be undone. */
void admission_release(struct admission *admission, uint32_t ticket);
/* For a key whose row was loaded, and not earned by occurrences: admits the key. All additions must be
 * released, and this one is never turned back. FULL. */
MUST_USE status admission_grant(struct admission *admission, uint64_t key);

/* Whether the order in which occurrences of a step are counted matters: where keys share counters of more
 * than one bit. By shards it is ascending, else that of the data. */
bool admission_has_order(const struct admission *admission);

/* Counts by shards, where several owners share the shards of a table's keys: the lines of shards [begin,
 * end), *bytes of them. While the admission is turned back, the counts of that time. */
uint8_t *admission_lines(const struct admission *admission, uint32_t begin, uint32_t end, size_t *bytes);
/* Whether lines that come from elsewhere have no counter above admit - 1. */
bool admission_lines_check(const struct admission *admission, uint8_t *lines, size_t bytes);
/* The same for exact counts: the next key with a count, from *at = 0 on; false at the end … */
bool admission_next(const struct admission *admission, uint64_t *at, uint64_t *key, uint32_t *count);
/* … and counts such a key, which has not been counted here, `count` times. As admission_grant. */
MUST_USE status admission_merge(struct admission *admission, uint64_t key, uint32_t count);

/* For a save: takes back the additions of steps after the ticket, which are not released;
 * admission_turn_forth adds them again. */
void admission_turn_back(struct admission *admission, uint32_t ticket);
void admission_turn_forth(struct admission *admission);

/* As a file, little-endian:
 *
 *   offset  bytes          meaning
 *   0       8              magic "HPSADMT1"
 *   8       4              version: 1
 *   12      4              admit
 *   16      4              0 exact, 1 bloom, 2 bloom by shards
 *   20      4              zero
 *   24      8              admit_keys
 *   32      8              exact: keys; bloom: lines of 64 bytes
 *   40      8              xxh3-64 of the table's name
 *   48      8              bytes of the file
 *   56      8              zero
 *   64                     exact: a key each, by cell, 16 bytes: the key; its count, 1 byte; the number of its
 *                          cell, 7 bytes. bloom: the lines
 *   last    8              xxh3-64 of all bytes before */
/* Writes into a writer that has just been opened; the caller commits. IO. */
MUST_USE status admission_put(const struct admission *admission, struct file_writer *writer);
/* Reads a file of admission_put into an empty admission. With another admit, admitted keys stay so, and the
 * others keep their counts; bloom counters must have as many bits. Exact counts may have another admit_keys,
 * if their keys fit, and may go on as bloom. CORRUPT, INVALID name the file; MISMATCH: other settings. */
MUST_USE status admission_read(struct admission *admission, const char *path, const uint8_t *data, size_t bytes);
/* Checks the file alone, whatever the settings. */
MUST_USE status admission_file_check(const char *path, const uint8_t *data, size_t bytes);

#endif
