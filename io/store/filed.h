/* The home of rows that lie in a save's files, which never change. Rows are only looked up, and stay
 * where they are. The home has an index of them in RAM (io/store/cold_index.h), and keeps copies of
 * the rows that were wanted last.
 *
 *     filed_row: key ──▶ index: tag, place          find ──▶ bring: kept? ──▶ the span
 *                                                                └── else a read, many in flight ──▶ the span, and kept
 *
 * A row's place is its number among the rows of all files of the table. A table's bytes of the budget are
 * RAM: its index, and the copies that it keeps. Workload: rows are added once, at a start, some million a
 * second; then some ten thousand a batch are looked up. */
#ifndef HETERPS_IO_STORE_FILED_H
#define HETERPS_IO_STORE_FILED_H

#include "io/store/home.h"

extern const struct home_kind filed_home;

/* Bytes of RAM besides the tables' bytes. */
uint64_t filed_fixed_bytes(const struct home_options *options);
/* Bytes of a table: the least, and as many as would keep all its rows. */
uint64_t filed_table_least(uint64_t rows);
uint64_t filed_table_most(uint64_t rows, uint32_t span_floats);

/* Whether a home is of this kind. */
bool filed_is(const struct home *home);

/* Rows of a table; any thread, once all are there. */
uint64_t filed_row_count(const struct home *home, uint32_t table);

/* A file's rows, and where they lie. A row is its key (8 bytes), its span, and perhaps
 * more; group_rows rows are a group. */
struct filed_part {
    const char *path;                   /* for messages */
    int fd;                             /* of the file, whatever has become of its name */
    uint64_t offset_bytes, group_bytes; /* of the first group's first row; from group to group */
    uint32_t group_rows, row_bytes;
    uint64_t row_count; /* places, in groups that are full */
};
/* Adds a file of a table's for the rows that follow; takes the descriptor in any case. MEMORY; FULL: more
 * rows than places. */
MUST_USE status filed_part_add(struct home *home, uint32_t table, const struct filed_part *part);
/* Says that row `row` of the part that was added last has this key; of several rows of a key the last one
 * counts. Before anything is looked up. INVALID: there are more keys than the table was opened for; IO. */
MUST_USE status filed_row(struct home *home, uint32_t table, uint64_t row, uint64_t key);

#endif
