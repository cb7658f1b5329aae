/* The reader of files with a data cache: examples come from the text, from the cache, or from the
 * text on its way into the cache. */
#ifndef HETERPS_IO_CACHE_CACHED_READER_H
#define HETERPS_IO_CACHE_CACHED_READER_H

#include "io/cache/cache_budget.h"
#include "io/read/reader.h"

/* As reader_open; later passes, and runs, take the same examples from the cache. Without a budget, or
 * without files: as reader_open. `kept`: NULL, or where readers of the same options, one after another,
 * keep the cache: reader_close leaves it there, and the caller closes the last one. Fails as
 * reader_open and data_cache_open. */
MUST_USE status cached_reader_open(struct reader **reader, const struct reader_options *options,
                                   const struct data_cache_budget *budget, struct data_cache **kept);

#endif
