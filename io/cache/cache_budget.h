/* What a user asks for of the data cache, for those who only pass it on to io/cache/cached_reader.h. */
#ifndef HETERPS_IO_CACHE_CACHE_BUDGET_H
#define HETERPS_IO_CACHE_CACHE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

struct data_cache;

/* Both bytes 0: there is no cache. */
struct data_cache_budget {
    uint64_t ram_bytes, ssd_bytes;
    const char *path;   /* of the file; NULL or "": the first path of the data and ".cache"              */
    const char *suffix; /* of either, before that ".cache", where several caches are of the same data; NULL: none */
    /* Passes but epoch 0 are in an order of blocks, windows of so many (io/cache/block_order.h), in place of
     * `shuffle`; the data has to fit then. 0: in the order that they have without a cache. */
    uint32_t window;
    bool is_bounded; /* the first pass may be the last: what it cannot keep is no failure before another begins */
};

#endif
