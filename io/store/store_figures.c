#include "io/store/store_figures.h"

#include "io/store/store_internal.h"

uint64_t store_used_bytes(const struct store *store)
{
    uint64_t sum_bytes = 0;
    for (uint32_t t = 0; t < store->table_count; t++)
        sum_bytes += rows_resident(&store->table[t]) * row_bytes_of(&store->table[t]);
    return sum_bytes;
}

uint64_t store_disk_files(const struct store *store) { return home_files(store->home); }

const char *store_disk_name(const struct store *store) { return home_words(store->home); }

struct store_counts store_counts(const struct store *store, uint32_t table)
{
    CHECK(table < store->table_count);
    struct store_counts counts = {.ram_rows = rows_resident(&store->table[table]),
                                  .touched = store->table[table].touched_count,
                                  .disk = home_counts(store->home, table)};
    counts.disk_rows = counts.disk.row_count;
    return counts;
}

void store_counts_tell(struct store *store)
{
    for (uint32_t t = 0; store->home != NULL && t < store->table_count; t++) {
        const struct store_counts c = store_counts(store, t);
        const uint64_t told[STORE_TOLD_COUNT] = {
            [TOLD_RAM_ROWS] = c.ram_rows,
            [TOLD_DISK_ROWS] = c.disk_rows,
            [TOLD_FOUND] = c.touched - c.disk.fetched,
            [TOLD_FETCHED] = c.disk.fetched,
            [TOLD_READS] = c.disk.read_count,
            [TOLD_READ_BYTES] = c.disk.read_bytes,
            [TOLD_WRITE_BYTES] = c.disk.write_bytes,
        };
        /* Relaxed, here and below: figures, ordered with nothing. */
        for (int i = 0; i < STORE_TOLD_COUNT; i++)
            atomic_store_explicit(&store->table[t].shared_told[i], told[i], memory_order_relaxed);
    }
}

struct store_counts store_counts_told(const struct store *store, uint32_t table)
{
    uint64_t told[STORE_TOLD_COUNT];
    CHECK(table < store->table_count);
    for (int i = 0; i < STORE_TOLD_COUNT; i++)
        told[i] = atomic_load_explicit(&store->table[table].shared_told[i], memory_order_relaxed);
    return (struct store_counts){.ram_rows = told[TOLD_RAM_ROWS],
                                 .disk_rows = told[TOLD_DISK_ROWS],
                                 .touched = told[TOLD_FOUND] + told[TOLD_FETCHED],
                                 .disk = {.row_count = told[TOLD_DISK_ROWS],
                                          .fetched = told[TOLD_FETCHED],
                                          .read_count = told[TOLD_READS],
                                          .read_bytes = told[TOLD_READ_BYTES],
                                          .write_bytes = told[TOLD_WRITE_BYTES]}};
}

struct store_life_counts store_life_counts(const struct store *store, uint32_t table)
{
    CHECK(table < store->table_count);
    return store->table[table].lives;
}
