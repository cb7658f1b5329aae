/* The format of one block of the data cache (io/cache/data_cache.h): a run of examples as columns,
 * written once and decoded directly into micro-batches. Little-endian; every part begins at a
 * multiple of 8 bytes of the block:
 *
 *     block     head | labels | numbers | [weight] | [group] | is_bad | bad | cut | unknown | field 0 | field 1 | …
 *     field     [lengths] | keys | [values]         lengths only if some example has several keys of the field
 *     column    count, entry count, … | entries (distinct values, in the order of first occurrence) | stream
 *
 * A column's stream has a code a value: 0 bytes if there is one entry, 1 up to 256, 2 up to 65,536. Where a
 * dictionary saves nothing, it has the values themselves, and there are no entries. Numbers are kept by their
 * bits. In a field whose examples have one key or none, entry 0 is nobody's key, and code 0 means no key. A
 * stream is compressed by LZ4 where this saves a good part of it. `bad`, `cut`, `unknown` have one value more
 * than there are examples: the text's counts before each example, and behind the last. The head's xxh3 is of
 * all bytes behind it, with a seed of the writer and the block's number: so a block that is garbled or stands
 * elsewhere is recognised by itself.
 *
 * Workload: 16,384 examples of Criteo, 1.3 MiB, decoded in micro-batches of 512. */
#ifndef HETERPS_IO_CACHE_BLOCK_H
#define HETERPS_IO_CACHE_BLOCK_H

#include "engine/base/batch.h"
#include "engine/base/status.h"

/* Of a text: malformed lines, lists that were cut, examples left out because their
 * target or label is no word. */
struct block_counts {
    uint32_t bad, cut, unknown;
};

/* The most rows and keys of a block, and their sizes, for an example's shape (but for dense_stride). */
struct block_shape {
    struct example_shape example;
    uint32_t row_count_max, key_count_max;
};
struct block_shape block_shape_of(struct example_shape example);
/* The most bytes of a block, whatever it holds. */
size_t block_bytes_max(struct block_shape shape);

/* A block's head has this many bytes; its length, 32 bits, stands among them. */
#define BLOCK_HEAD_BYTES 32u
#define BLOCK_BYTES_AT   12u

/* --- writing ---------------------------------------------------------------------------------- */

/* Examples on their way into a block: `rows` without key_home, filled by the caller while there is room. */
struct block_writer {
    struct block_shape shape;
    struct micro_batch rows;     /* dense_stride = dense_count                                   */
    struct block_counts *counts; /* [row_count_max + 1]: before row i                            */
    /* of one column at a time */
    uint64_t *value8;
    uint64_t *entry;
    uint8_t *stream, *has;
    uint16_t *code;
    uint32_t *table;
    void *lz4_state;
};
size_t block_writer_bytes(struct block_shape shape);
void block_writer_place(struct block_writer *writer, struct arena *arena, struct block_shape shape);
void block_writer_clear(struct block_writer *writer);
/* Whether another example of any length fits. */
bool block_writer_has_room(const struct block_writer *writer);
/* Encodes the rows into `out` (block_bytes_max) and returns the block's bytes, a multiple of 8. `text_bytes`:
 * bytes of text for which the block stands. */
size_t block_write(struct block_writer *writer, uint64_t seed, uint64_t text_bytes, uint8_t *out);

/* --- reading ---------------------------------------------------------------------------------- */

struct block_column {
    const void *entry; /* NULL: the stream is values                                                 */
    const void *stream;
    uint32_t count, entry_count;
    uint8_t code_bytes; /* 0, 1, 2; without entries the bytes of a value                             */
};

enum block_lengths { BLOCK_ONE, BLOCK_ONE_OR_NONE, BLOCK_LISTS };
struct block_field {
    enum block_lengths lengths;
    uint32_t at;     /* keys before the next row, where lists or values need this */
    uint32_t *begin; /* [BLOCK_PIECES]: the same before each piece              */
    struct block_column length, key, value;
};

/* A block's rows are cut into this many pieces. block_seek can go to the begin of each; the
 * last ones are shorter, or empty. */
#define BLOCK_PIECES 64u
uint32_t block_piece_rows(struct block_shape shape);

#define BLOCK_TILE      128u /* rows that are decoded at a time: their keys stay in the first-level cache  */
#define BLOCK_MASK_BITS 64u  /* most fields for the fast way                                            */

struct block_reader {
    /* set once */
    struct block_shape shape;
    const struct block_kernels *kernels;
    uint8_t *scratch; /* unpacked streams */
    uint64_t *tile;   /* [BLOCK_TILE, field_count] keys on their way, and slack */
    uint64_t *tile_mask;
    uint32_t *row_keys;          /* [row_count_max] while opening */
    struct block_column *number; /* labels, dense                                            */
    struct block_field *field;   /* [field_count] */
    uint32_t *begin;             /* [field_count, BLOCK_PIECES]: begin of the fields */
    /* of the block */
    struct block_column weight, group, is_bad, count[3];
    bool has_lists, has_absent, has_counts;
    uint32_t row_count, row; /* row: the next one */
    uint64_t text_bytes;
    /* of the rows given or skipped, and of the text behind the last row once it is; the caller may zero it */
    struct block_counts sum;
};
size_t block_reader_bytes(struct block_shape shape);
/* `isa`: a name of isa_io_names; NULL: the best. */
void block_reader_place(struct block_reader *reader, struct arena *arena, struct block_shape shape, const char *isa);
/* Checks the whole block, so that nothing can fail later, and goes to its first row. Keeps
 * `block` (aligned to 8 bytes) until the next call. CORRUPT: a sentence without place says what
 * is wrong. Any bytes may be given. */
MUST_USE status block_open(struct block_reader *reader, const uint8_t *block, size_t bytes, uint64_t seed);
/* Appends rows to m until it has `limit`, or the block is over. */
void block_take(struct block_reader *reader, struct micro_batch *m, uint32_t limit, uint32_t dense_stride);
/* Skips up to `count` rows; returns how many. */
uint32_t block_skip(struct block_reader *reader, uint64_t count);
/* Goes to the first row of a piece. */
void block_seek(struct block_reader *reader, uint32_t piece);

/* --- mixing ----------------------------------------------------------------------------------- */

/* Rows of several blocks, to be given in another order. Where no example can have several keys of a field,
 * keys lie as they are decoded, a place a field, and become dense when they are given. */
struct block_group {
    bool is_flat;
    uint32_t field_count;
    struct micro_batch rows; /* is_flat: all but keys */
    uint64_t *key;           /* [row_count_max, field_count], and slack: is_flat */
    uint64_t *mask;          /* [row_count_max]: bit f: the row has a key of field f */
};
void block_group_layout(struct block_group *group, struct layout *layout, struct block_shape shape,
                        uint32_t row_count_max);
void block_group_clear(struct block_group *group);
/* Appends the block's next `count` rows, which must exist. */
void block_group_take(struct block_group *group, struct block_reader *reader, uint32_t count);
/* Appends to m the rows row[0 .. count) of the group; `reader`: one of its readers. */
void block_group_give(const struct block_group *group, const struct block_reader *reader, struct micro_batch *m,
                      uint32_t dense_stride, const uint32_t *row, uint32_t count);

/* --- kernels, one text for every instruction set (io/isa/block_rows.c)
 * ------------------------------------- */

struct block_kernels {
    /* out[i * stride] = value from + i of the column. */
    void (*spread4)(uint32_t *out, size_t stride, const struct block_column *column, uint32_t from, uint32_t count);
    void (*spread8)(uint64_t *out, size_t stride, const struct block_column *column, uint32_t from, uint32_t count);
    /* Appends the keys of `count` rows from `from` on, whose fields have one key or none, to m;
     * field_count is at most BLOCK_MASK_BITS. */
    void (*keys)(struct block_reader *reader, struct micro_batch *m, uint32_t from, uint32_t count);
    /* The keys of the same rows, a place a field, and a mask of the fields that have a key. */
    void (*flat)(struct block_reader *reader, uint64_t *key, uint64_t *mask, uint32_t from, uint32_t count);
    /* Appends the keys of the group's rows row[0 .. count); is_flat. */
    void (*flat_keys)(const struct block_group *group, struct micro_batch *m, const uint32_t *row, uint32_t count);
};
extern const struct block_kernels block_kernels_base, block_kernels_avx2, block_kernels_avx512;

#endif
