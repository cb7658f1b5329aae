/* A user's wishes for the data cache, for code that only passes them on to io/cache/cached_reader.h. */
#ifndef HETERPS_IO_CACHE_CACHE_BUDGET_H
#define HETERPS_IO_CACHE_CACHE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

struct data_cache;

/* Both bytes 0: there is no cache. */
struct data_cache_budget {
    uint64_t ram_bytes, ssd_bytes;
    const char *path; /* of the file; NULL or "": the first path of the data and ".cache"              */
    /* comes before ".cache", or behind `path`, where several caches are of the same data; NULL: none */
    const char *suffix;
    /* Passes but epoch 0 are in an order of blocks, with windows of this many blocks
     * (io/cache/block_order.h), in place of `shuffle`; the data must then fit. 0: the
     * same order as without a cache. */
    uint32_t window;
    /* the first pass may be the last: data that does not fit is no failure before another pass begins */
    bool is_bounded;
};

#endif
