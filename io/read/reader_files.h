/* The examples of a reader's files, in the order of a pass before anything is mixed or drawn: out of the text, out of the data cache, or out of the
 * text on the way into the cache. */
#ifndef HETERPS_IO_READ_READER_FILES_H
#define HETERPS_IO_READ_READER_FILES_H

#include "io/cache/data_cache.h"
#include "io/read/reader_text.h"

struct reader_files {
    struct reader_text text;
    struct data_cache *cache;       /* NULL: none */
    struct data_cache **cache_kept; /* where it goes then, or NULL */
    bool has_window;                /* passes but epoch 0 are in an order of blocks */
    uint64_t text_bytes_before;     /* data_cache_text_bytes at open */
    const struct notices *notices;
    struct reader_example spare;
    bool is_started; /* some pass was */
    /* of the pass */
    enum data_cache_pass pass;
    struct reader_example drawn; /* that the cache has given last */
    struct reader_counts told;   /* what the cache has been told of: counts before the last example */
    uint64_t number;             /* how many examples the pass has given or passed over */
    uint64_t epoch;
    bool by_blocks;   /* the pass is in an order of blocks */
    bool was_rebuilt; /* the cache was made anew in the middle of it */
};

/* What reader_files_open takes from the arena; the cache has its own. */
size_t reader_files_bytes(const struct reader_options *options, struct example_shape shape);
/* As reader_text_open; keeps `spare`, where an example has room. */
MUST_USE status reader_files_open(struct reader_files *files, struct arena *arena, const struct reader_options *options,
                                  struct example_shape shape, const struct reader_example *spare);
void reader_files_close(struct reader_files *files);

/* Begins the pass `epoch`. */
MUST_USE status reader_files_start(struct reader_files *files, uint64_t epoch);
/* The next example. *found is `place`, filled in, or lies elsewhere until the next call. */
MUST_USE status reader_files_next(struct reader_files *files, struct reader_example *place,
                                  const struct reader_example **found, bool *over);

/* Whether whole runs of examples can be taken and passed over, out of the cache; it may end at any call. */
static inline bool reader_files_has_runs(const struct reader_files *files) { return files->pass == DATA_CACHE_READS; }
/* Appends examples to m, up to `limit`; may leave off before. *over: of the pass. */
MUST_USE status reader_files_fill(struct reader_files *files, struct micro_batch *m, uint32_t limit,
                                  uint32_t dense_stride, bool *over);
/* Passes over up to `count` examples; may leave off before. */
MUST_USE status reader_files_skip(struct reader_files *files, uint64_t count, bool *over);

/* Whether the pass is mixed already. */
static inline bool reader_files_is_mixed(const struct reader_files *files) { return files->by_blocks; }

struct reader_counts reader_files_counts(const struct reader_files *files);

#endif
