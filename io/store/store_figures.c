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

struct store_life_counts store_life_counts(const struct store *store, uint32_t table)
{
    CHECK(table < store->table_count);
    return store->table[table].lives;
}
