/* The reader of files with a data cache: examples come out of the text, out of the cache, or out of the text on
 * the way into the cache. */
#ifndef HETERPS_IO_CACHE_CACHED_READER_H
#define HETERPS_IO_CACHE_CACHED_READER_H

#include "io/cache/cache_budget.h"
#include "io/read/reader.h"

/* As reader_open, and further passes, and runs, take examples from the cache, the same ones; of a budget of 0
 * bytes, or without files: as reader_open. `kept`: NULL, or where readers of the same options, one after
 * another, find the cache that the one before has left: reader_close leaves it there, and the last is the
 * caller's to close. Fails as reader_open and data_cache_open. */
MUST_USE status cached_reader_open(struct reader **reader, const struct reader_options *options,
                                   const struct data_cache_budget *budget, struct data_cache **kept);

#endif
