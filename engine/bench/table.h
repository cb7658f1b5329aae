/* A table of random rows far beyond the caches, in huge pages where the machine gives them: what gather and update work on. */
#ifndef HETERPS_ENGINE_BENCH_TABLE_H
#define HETERPS_ENGINE_BENCH_TABLE_H

#include "engine/bench/bench.h"

struct bench_table {
    float *data;
    uint64_t bytes;
};

/* How many bytes to take, unless --bytes says: half of what is free, at most BENCH_BYTES_MAX; under --quick 64 MiB. */
uint64_t bench_table_bytes(const struct bench *b);
/* Takes and fills it, by all processors. Where there is not so much memory it says so and takes half as much, and so on; MEMORY: not even
 * 64 MiB. */
MUST_USE status bench_table_open(struct bench_table *table, const struct bench *b);
void bench_table_close(struct bench_table *table);

#endif
