/* What a store has done, for reports. */
#ifndef HETERPS_IO_STORE_STORE_FIGURES_H
#define HETERPS_IO_STORE_STORE_FIGURES_H

#include "io/store/home.h"
#include "io/store/store.h"

/* Bytes of the budget that rows use now, each with its key and its part of the index. */
uint64_t store_used_bytes(const struct store *store);
/* Open files that the store may come to need for the disk. */
uint64_t store_disk_files(const struct store *store);
/* How the disk is read, in words: "io_uring", "threads, by the page cache". */
const char *store_disk_name(const struct store *store);

/* What a table with a disk has done since open. */
struct store_counts {
    uint64_t ram_rows, disk_rows; /* now                                                                          */
    uint64_t touched;             /* rows of tickets that create, once a ticket                                   */
    struct home_counts disk;
};
struct store_counts store_counts(const struct store *store, uint32_t table);
/* The same as of the last ticket, or the last settling, of a store with a disk; else zeros. Any
 * thread, while others use the store. */
struct store_counts store_counts_told(const struct store *store, uint32_t table);

/* The fate of rows since open, complete once store_purge has found the dead ones. */
struct store_life_counts {
    uint64_t admitted, refused; /* rows made; occurrences of keys that were not admitted */
    uint64_t died[ROW_FATE_COUNT];
    uint64_t evicted, evictions, eviction_ns;
};
struct store_life_counts store_life_counts(const struct store *store, uint32_t table);

#endif
