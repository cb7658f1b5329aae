/* Any bytes as a block of the data cache, by the first byte's shape and under a hash that fits: an error, or
 * rows that keep to their shape. */
#define FUZZ_NAME "block"
#include "tests/fuzz/driver.h"

#include <xxhash.h>

#include "io/cache/block.h"

#define MICRO 100u

static const struct example_shape shapes[] = {
    {.dense_count = 2, .dense_stride = 2, .field_count = 5, .key_count_max = 5, .label_count = 1},
    {.dense_count = 1,
     .dense_stride = 2,
     .field_count = 2,
     .key_count_max = 9,
     .label_count = 1,
     .has_weight = true,
     .has_group = true,
     .has_value = true},
};
#define SHAPES (sizeof shapes / sizeof *shapes)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct block_reader readers[SHAPES];
    static struct micro_batch batches[SHAPES];
    static struct arena arenas[SHAPES];
    if (bytes < 8) return 0;
    uint32_t s = data[0] % SHAPES;
    struct example_shape e = shapes[s];
    struct block_reader *r = &readers[s];
    struct micro_batch *m = &batches[s];
    if (!arenas[s].base) {
        struct batch_shape batch = {.batch = MICRO, .micro = MICRO, .lanes = 1};
        struct block_shape shape = block_shape_of(e);
        CHECK(arena_open(&arenas[s], "fuzz", block_reader_bytes(shape) + micro_batch_bytes(batch, e)) == ST_OK);
        block_reader_place(r, &arenas[s], shape, s ? "base" : NULL);
        micro_batch_place(m, &arenas[s], batch, e);
    }
    size_t block_bytes = bytes - 8;
    uint8_t *block = aligned_alloc(8, block_bytes ? (block_bytes + 7) & ~(size_t)7 : 8);
    CHECK(block);
    memcpy(block, data + 8, block_bytes);
    if (block_bytes >= 16) {
        uint64_t hash = XXH3_64bits_withSeed(block + 8, block_bytes - 8, 0);
        memcpy(block, &hash, sizeof hash);
    }
    status st = block_open(r, block, block_bytes, 0);
    CHECK(st == ST_OK || st == ST_CORRUPT);
    for (uint32_t rows = 0; st == ST_OK && rows < r->row_count; rows += m->example_count) {
        micro_batch_clear(m);
        block_take(r, m, MICRO, e.dense_stride);
        CHECK(m->example_count && m->key_count <= MICRO * e.key_count_max);
        for (uint32_t h = 0; h < m->example_count * e.field_count; h++)
            for (uint32_t k = m->key_begin[h]; k < m->key_begin[h + 1]; k++) CHECK(m->key_home[k] == h);
        if (rows % 7 == 6) rows += block_skip(r, 3);
    }
    free(block);
    return 0;
}
