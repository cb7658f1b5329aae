/* Readers turn files into examples. A reader is a line of reader_table (reader.c) and one file (criteo.c, …): the shared
 * part opens sources one after another, cuts lines out of bounded buffers, and applies the rules for bad lines.
 *
 *     path, path.gz, -  ──source.c: bytes──▶ line ──criteo.c: parse──▶ one example ──shuffle.c──▶ micro_batch
 *
 * One thread uses a reader. All memory is taken at open. */
#ifndef HETERPS_IO_READER_H
#define HETERPS_IO_READER_H

#include "engine/base/batch.h"

struct reader;

/* Without its line end; a longer line is malformed, whatever is in it. */
#define READER_LINE_BYTES_MAX ((size_t)1 << 20)

enum reader_format { READER_CRITEO, READER_FORMAT_COUNT }; /* the order of cfg's data.format */

/* What an example is; from the graph. */
struct reader_schema {
    struct example_shape example;
    const uint32_t *dense_column; /* [dense_count]: which of the format's numeric columns, from 0; NULL: 0, 1, 2, …  */
    const uint32_t *field_column; /* [field_count]: which of its categorical columns, from 0; NULL: 0, 1, 2, …       */
    const uint32_t *ids_max;      /* [field_count]                                                            */
    bool ids_over_is_error;       /* a longer list: an error, or cut and counted                              */
    bool log1p;                   /* numeric columns: sign(x) log(1 + |x|), rounded from double                */
    bool missing_is_key;          /* an empty field gets the key of the empty text, else no key                */
    float missing_value;          /* an empty numeric column, after the transform                             */
};

struct reader_options {
    enum reader_format format;
    /* Separated by commas; "-" is standard input; a file that starts with the gzip magic is unpacked. */
    const char *paths;
    struct reader_schema schema;
    bool label_optional; /* predict: a line may lack the label column, or leave it empty               */
    bool bad_skip;       /* skip and count malformed lines, else they are INVALID                      */
    bool bad_keep;       /* with bad_skip: a bad line gives an empty example with is_bad set           */
    uint32_t shuffle;    /* window; 0 or 1: file order                                                 */
    uint64_t seed;
    const char *part; /* memory part to count under, e.g. "reader"                                  */
};

struct reader_counts {
    uint64_t line_count, bad_count, cut_count; /* lines read, malformed, lists cut; since open             */
    uint64_t byte_count;                       /* of the files as stored, since open                       */
};

/* Opens and reads the first bytes of the first path, so that a wrong path or format shows at once. Every path must
 * be readable (checked here). Keeps nothing of options. *reader is yours: reader_close. */
MUST_USE status reader_open(struct reader **reader, const struct reader_options *options);
void reader_close(struct reader *reader);

/* Starts pass `epoch` over all paths from the front (the first pass, 0, must be started too). INVALID if a path is a
 * stream (reader_is_stream) and epoch > 0 or a pass was started before. The order of a shuffled pass is a function of
 * (seed, epoch, window, data). */
MUST_USE status reader_start(struct reader *reader, uint64_t epoch);

/* Appends examples to m until it holds `limit` examples (then *end is false: whether another follows is not looked at)
 * or the pass is over (then *end, also on every later call). Only example_count, key_count and arrays of m change.
 * INVALID: "FILE:LINE: column N (NAME): expected …, found …"; the examples before the bad line are in m, and a further
 * call goes on behind it. A line longer than READER_LINE_BYTES_MAX is a bad line. */
MUST_USE status reader_fill(struct reader *reader, struct micro_batch *m, uint32_t limit, bool *end);

/* Drops the next `count` examples of the pass (those that a resumed run has seen). */
MUST_USE status reader_skip(struct reader *reader, uint64_t count, bool *end);

struct reader_counts reader_counts(const struct reader *reader);
/* Sum of the sizes of all paths in bytes, or 0 if one is not a regular file. For progress and estimates. */
uint64_t reader_size_bytes(const struct reader *reader);
/* About how many examples a pass has, by the lines of the first block; 0 if a path is a stream. For plans of memory. */
uint64_t reader_example_estimate(const struct reader *reader);
/* Some path is standard input or a pipe: only one pass can be read. */
bool reader_is_stream(const struct reader *reader);

/* xxh3-64 of the feature's bytes with the seed `column`, the field's column in the format (field_column), so that a
 * graph that uses fewer fields has the same keys: the key of every reader. */
uint64_t reader_key(uint32_t column, const char *text, size_t bytes);

#endif
