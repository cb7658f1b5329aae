/* The data cache: examples that a reader has parsed once, as blocks of columns (io/cache/block.h), in the
 * order of the files and before anything random is drawn. Later passes, and later runs over the same files,
 * give the same examples without the text.
 *
 *     first pass    text ──parse──▶ example ──┬──▶ shuffle, candidates ──▶ micro_batch
 *                                             └─▶ block ──▶ RAM, as long as there is room ──▶ file (cache_file.h)
 *     later         RAM, else the file ──▶ block ──▶ the same, in the order of the files or of blocks (block_order.h)
 *
 * All memory is taken at open. One thread uses it. */
#ifndef HETERPS_IO_CACHE_DATA_CACHE_H
#define HETERPS_IO_CACHE_DATA_CACHE_H

#include "io/cache/block.h"
#include "io/cache/cache_budget.h"
#include "io/read/reader.h"
#include "io/read/shuffle.h"

struct data_cache_options {
    struct data_cache_budget budget;
    struct example_shape shape; /* as parsed                                                                   */
    const char *paths;          /* of the data, separated by commas                                            */
    bool is_stream;             /* the data can be read once: the file serves this run only                      */
    bool io_threads;            /* not io_uring, but threads read and write the file                             */
    uint64_t seed;              /* for orders of blocks                                                        */
    uint64_t schema;            /* hash of all that decides what a line becomes                                 */
    const char *isa;            /* a name of isa_io_names; NULL: the best */
    const struct notices *notices;
};

/* Takes all memory, as part "data cache", and looks for a file of an earlier run; tells if it is
 * of other data. Keeps nothing of the options. IO: the data cannot be read; INVALID: the file has
 * no name, or another file has it. */
MUST_USE status data_cache_open(struct data_cache **cache, const struct data_cache_options *options);
void data_cache_close(struct data_cache *cache);

enum data_cache_pass {
    /* the pass comes from the text; the data does not fit, or the file fails, or there is no cache */
    DATA_CACHE_RESTS,
    DATA_CACHE_READS,  /* it comes from the cache                                          */
    DATA_CACHE_WRITES, /* it comes from the text: add every example                            */
};
/* Begins a pass. Looks whether the files are unchanged. `by_blocks`: if the pass reads, its order is
 * that of blocks for the epoch (the budget's window is not 0), else that of the files. IO: the files
 * cannot be read. INVALID: nothing can be kept, and the data is a stream or orders of blocks are to
 * come (the file and what it lacks). */
MUST_USE status data_cache_start(struct data_cache *cache, uint64_t epoch, bool by_blocks, enum data_cache_pass *pass);

/* --- a pass that writes ---------------------------------------------------------------------- */

/* Adds the next example, before which the text had `counts`; text_bytes: of the text so far.
 * Data that does not fit ends the cache, with a warning; it is INVALID where the data is a
 * stream or orders of blocks are to come. */
MUST_USE status data_cache_add(struct data_cache *cache, const struct reader_example *example,
                               struct block_counts counts, uint64_t text_bytes);
/* Ends the pass; `counts` are the reader's counts behind its last example. Fails like data_cache_add. */
MUST_USE status data_cache_finish(struct data_cache *cache, struct block_counts counts, uint64_t text_bytes);

/* --- a pass that reads ----------------------------------------------------------------------- */

/* Appends examples to m until it has `limit`, or the pass is over (*over). CORRUPT: the block, its file and
 * byte, also where it cannot be read; the examples in m are right. */
MUST_USE status data_cache_fill(struct data_cache *cache, struct micro_batch *m, uint32_t limit, uint32_t dense_stride,
                                bool *over);
/* *example is the next one, valid until the next call, and read-only. */
MUST_USE status data_cache_next(struct data_cache *cache, struct reader_example *example, bool *over);
/* Skips up to `count` examples. */
MUST_USE status data_cache_skip(struct data_cache *cache, uint64_t count, bool *over);
/* Counts of the text where the pass has come by, since the last call. */
struct block_counts data_cache_counts(struct data_cache *cache);
/* Bytes of text for which the blocks read so far stand, since open. */
uint64_t data_cache_text_bytes(const struct data_cache *cache);
/* Examples that this pass has given or skipped. */
uint64_t data_cache_row(const struct data_cache *cache);
/* Empties the cache, and removes its file, which was damaged. */
void data_cache_drop(struct data_cache *cache);

#endif
