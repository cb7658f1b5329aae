/* The file format of rows on disk. A segment is a file that is written once, front to back, and never
 * changed:
 *
 *     | block 0 | block 1 | … | block n-1 | trailer |         a block is what one read brings: rows, and the xxh3 of
 *                                                             all of it, with the segment's number and the block's
 *                                                             index for a seed
 *     block:   hash, row count | key, span | key, span | …
 *
 * So a block that is garbled, or belongs elsewhere, is recognised by itself. Rows do not cross blocks.
 * Little-endian. */
#ifndef HETERPS_IO_STORE_SEGMENT_H
#define HETERPS_IO_STORE_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

/* The alignment of addresses, offsets and sizes for O_DIRECT, and a device's smallest efficient read. */
#define SEGMENT_ALIGN_BYTES 4096u

struct segment_shape {
    uint32_t span_floats; /* of a row                                           */
    uint32_t block_bytes; /* a multiple of SEGMENT_ALIGN_BYTES                  */
    uint32_t block_rows;  /* of a full block                                    */
    uint32_t block_count; /* of a full segment                                  */
};

/* The shape for rows of this span, in segments of about segment_bytes. */
struct segment_shape segment_shape_of(uint32_t span_floats, uint64_t segment_bytes);
/* The shape of a file of `block_count` blocks of this length, to read a stretch of it.
 * False: there are no such blocks. */
bool segment_shape_of_blocks(struct segment_shape *shape, uint32_t span_floats, uint32_t block_bytes,
                             uint32_t block_count);
static inline uint32_t segment_rows(const struct segment_shape *s) { return s->block_rows * s->block_count; }
/* Bytes of a full segment's file. */
static inline uint64_t segment_bytes(const struct segment_shape *s)
{
    return (uint64_t)s->block_bytes * s->block_count + SEGMENT_ALIGN_BYTES;
}

/* Row `i` of a block. */
uint64_t segment_key(const struct segment_shape *s, const uint8_t *block, uint32_t i);
const float *segment_span(const struct segment_shape *s, const uint8_t *block, uint32_t i);
/* Appends a row to a block, which has room. */
void segment_row_put(const struct segment_shape *s, uint8_t *block, uint64_t key, const float *span);
uint32_t segment_block_rows(const uint8_t *block);
/* Zeroes a block, for rows to be put into it. */
void segment_block_begin(const struct segment_shape *s, uint8_t *block);
/* Puts the hash of a block that gets no more rows. */
void segment_block_seal(const struct segment_shape *s, uint8_t *block, uint64_t number, uint32_t block_index);
/* The hash of consecutive sealed blocks, from the hash of the blocks before (0 at first) and one more block.
 * Reads the hash in the block's head, not the block: once this hash is checked, it is as good. */
uint64_t segment_hash_add(uint64_t before, const uint8_t *block);
/* CORRUPT: file, byte, expected and found hash. */
MUST_USE status segment_block_check(const struct segment_shape *s, const uint8_t *block, uint64_t number,
                                    uint32_t block_index, const char *path);

/* Fills the last SEGMENT_ALIGN_BYTES of a segment's file. */
void segment_trailer_seal(const struct segment_shape *s, uint8_t *out, uint64_t number, uint32_t block_count,
                          uint32_t row_count);

#endif
