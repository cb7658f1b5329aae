/* The home of rows on disk (io/store/home.h): in segments (io/store/segment.h), found by an index in RAM
 * (io/store/cold_index.h).
 *
 *     put ──▶ block ──▶ chunk of blocks ──write──▶ segment … segment   oldest, emptiest: cleaned, rows put once more
 *     find ──▶ batch, sorted by place ──reads, many in flight──▶ the row's span in RAM, and its record is garbage
 *
 * A row that comes costs one read, of one block; rows in one block, or in neighbouring blocks, share it. Rows
 * that are not written yet are taken from memory. Workload: some ten thousand rows a batch, as many puts,
 * tens to hundreds of thousand a second.
 *
 * Opening removes segments that a dead process left in the directory; closing removes its own. SYSTEM:
 * another process has the directory, or this one may not open as many files. After the first failure of
 * reading or writing every call fails with it. */
#ifndef HETERPS_IO_STORE_COLD_H
#define HETERPS_IO_STORE_COLD_H

#include "io/store/home.h"

extern const struct home_kind cold_home;

/* Rows that a table with spans of this length can have on a disk of this budget; 0: it is too small. */
uint64_t cold_row_max(uint32_t span_floats, uint64_t disk_bytes);

/* A batch may wait for an earlier batch to arrive. Enough batches may be under way to bring some
 * COLD_ROWS_AHEAD rows: from COLD_BATCHES_MIN to COLD_BATCHES_MAX. */
#define COLD_ROWS_AHEAD  32768u
#define COLD_BATCHES_MIN 4u
#define COLD_BATCHES_MAX 16u

#endif
