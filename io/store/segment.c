#include "io/store/segment.h"

#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

#define MAGIC UINT64_C(0x3153474553535048) /* "HPSSEGS1" */
/* Written for people, never read: a block of another layout needs another version
 * of manifests (io/README.md). */
#define VERSION 1u
/* The part of a block that may stay unused; else a longer block is taken. */
#define WASTE_PART       16u
#define BLOCK_ALIGNS_MAX 16u

struct block_head {
    uint64_t hash; /* of the block's other bytes */
    uint32_t row_count, zero;
};

struct trailer {
    uint64_t magic;
    uint32_t version, span_floats, block_bytes, block_count, row_count, zero;
    uint64_t number;
    uint64_t hash; /* of the bytes before it */
};

static size_t row_bytes(uint32_t span_floats) { return sizeof(uint64_t) + span_floats * sizeof(float); }

static size_t row_at(const struct segment_shape *s, uint32_t i)
{
    return sizeof(struct block_head) + i * row_bytes(s->span_floats);
}

struct segment_shape segment_shape_of(uint32_t span_floats, uint64_t segment_bytes)
{
    struct segment_shape shape = {.span_floats = span_floats};
    size_t one = row_bytes(span_floats), best_waste = SIZE_MAX;
    for (uint32_t n = 1; n <= BLOCK_ALIGNS_MAX || best_waste == SIZE_MAX; n++) {
        size_t block_bytes = (size_t)n * SEGMENT_ALIGN_BYTES, room = block_bytes - sizeof(struct block_head);
        if (room < one) continue;
        size_t waste = room % one * 1024 / block_bytes;
        if (waste >= best_waste) continue;
        best_waste = waste;
        shape.block_bytes = (uint32_t)block_bytes;
        shape.block_rows = (uint32_t)(room / one);
        if (waste <= 1024 / WASTE_PART) break;
    }
    uint64_t count = segment_bytes / shape.block_bytes;
    shape.block_count = count > 1 ? (uint32_t)count : 1;
    return shape;
}

bool segment_shape_of_blocks(struct segment_shape *shape, uint32_t span_floats, uint32_t block_bytes,
                             uint32_t block_count)
{
    *shape = (struct segment_shape){.span_floats = span_floats, .block_bytes = block_bytes, .block_count = block_count};
    if (block_bytes % SEGMENT_ALIGN_BYTES != 0 || block_bytes < sizeof(struct block_head) + row_bytes(span_floats))
        return false;
    shape->block_rows = (uint32_t)((block_bytes - sizeof(struct block_head)) / row_bytes(span_floats));
    return true;
}

uint64_t segment_key(const struct segment_shape *s, const uint8_t *block, uint32_t i)
{
    uint64_t key;
    memcpy(&key, block + row_at(s, i), sizeof key);
    return key;
}

const float *segment_span(const struct segment_shape *s, const uint8_t *block, uint32_t i)
{
    return (const float *)(const void *)(block + row_at(s, i) + sizeof(uint64_t));
}

uint32_t segment_block_rows(const uint8_t *block)
{
    return ((const struct block_head *)(const void *)block)->row_count;
}

void segment_block_begin(const struct segment_shape *s, uint8_t *block) { memset(block, 0, s->block_bytes); }

void segment_row_put(const struct segment_shape *s, uint8_t *block, uint64_t key, const float *span)
{
    struct block_head *head = (struct block_head *)(void *)block;
    CHECK(head->row_count < s->block_rows);
    uint8_t *row = block + row_at(s, head->row_count);
    memcpy(row, &key, sizeof key);
    memcpy(row + sizeof key, span, s->span_floats * sizeof *span);
    head->row_count++;
}

static uint64_t block_hash(const struct segment_shape *s, const uint8_t *block, uint64_t number, uint32_t block_index)
{
    const size_t from = sizeof(uint64_t);
    return XXH3_64bits_withSeed(block + from, s->block_bytes - from, number << 32 ^ block_index);
}

void segment_block_seal(const struct segment_shape *s, uint8_t *block, uint64_t number, uint32_t block_index)
{
    ((struct block_head *)(void *)block)->hash = block_hash(s, block, number, block_index);
}

uint64_t segment_hash_add(uint64_t before, const uint8_t *block)
{
    return XXH3_64bits_withSeed(block, sizeof(uint64_t), before);
}

status segment_block_check(const struct segment_shape *s, const uint8_t *block, uint64_t number, uint32_t block_index,
                           const char *path)
{
    const struct block_head *head = (const struct block_head *)(const void *)block;
    uint64_t hash = block_hash(s, block, number, block_index);
    if (hash != head->hash || head->row_count > s->block_rows)
        FAIL(CORRUPT,
             "%s: the %" PRIu32 " bytes at byte %" PRIu64 " are not what was written: their xxh3 is %016" PRIx64
             ", expected %016" PRIx64 "; go on from the last save, on another disk",
             path, s->block_bytes, (uint64_t)block_index * s->block_bytes, hash, head->hash);
    return ST_OK;
}

void segment_trailer_seal(const struct segment_shape *s, uint8_t *out, uint64_t number, uint32_t block_count,
                          uint32_t row_count)
{
    struct trailer trailer = {.magic = MAGIC,
                              .version = VERSION,
                              .span_floats = s->span_floats,
                              .block_bytes = s->block_bytes,
                              .block_count = block_count,
                              .row_count = row_count,
                              .number = number};
    trailer.hash = XXH3_64bits(&trailer, offsetof(struct trailer, hash));
    memset(out, 0, SEGMENT_ALIGN_BYTES);
    memcpy(out, &trailer, sizeof trailer);
}
