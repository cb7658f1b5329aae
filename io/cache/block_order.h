/* The order of a pass over the blocks of the data cache when cache.shuffle = blocks; a function of (seed,
 * epoch, window, the blocks' rows).
 *
 *     blocks     permuted
 *     windows    `window` blocks each in that order, the last perhaps fewer
 *     pieces     of a window's blocks (io/cache/block.h): permuted
 *     groups     GROUP_PIECES pieces each in that order, the last of a window perhaps fewer; their rows: permuted
 *
 * Every permutation is by Fisher and Yates, from the last place down: place i changes with place floor(random
 * * (i + 1) / 2^32); random numbers come from the stream RANDOM_BLOCKS of (seed, epoch). An example can come
 * to any place of its window. Rows of a piece, some hundred neighbours in the text, stay within one group. So
 * decoding meets few columns at a time, and a group stays in the second-level cache. */
#ifndef HETERPS_IO_CACHE_BLOCK_ORDER_H
#define HETERPS_IO_CACHE_BLOCK_ORDER_H

#include "engine/base/memory.h"
#include "engine/base/random.h"
#include "io/cache/block.h"

#define BLOCK_GROUP_PIECES 8u

struct block_piece {
    uint32_t slot; /* index of its block in the window, in the order of the pass */
    uint32_t piece, row_count;
};

struct block_order {
    /* set once */
    uint32_t window, piece_rows;
    /* of the pass */
    struct random_stream stream;
    uint64_t block_count;
    uint32_t *block; /* [block_count_max]: the pass's blocks, in its order */
    /* of the window */
    uint64_t begin;            /* place of its first block; block_count: there is no window */
    uint32_t slot_count;       /* its blocks */
    struct block_piece *piece; /* [window * BLOCK_PIECES] */
    uint32_t piece_count, taken;
    /* of the group */
    /* [BLOCK_GROUP_PIECES * piece_rows]: the order of the group's rows, counted piece after piece */
    uint32_t *row;
};

void block_order_layout(struct block_order *order, struct layout *layout, struct block_shape shape, uint32_t window,
                        uint64_t block_count_max);
/* Begins a pass. */
void block_order_start(struct block_order *order, uint64_t seed, uint64_t epoch, uint64_t block_count);
/* Goes to the next window, or the first; false: the pass is over. Its blocks are block[begin .. begin +
 * slot_count); block_rows tells the rows of a block by its number. */
bool block_order_window(struct block_order *order, uint32_t (*block_rows)(const void *context, uint32_t block),
                        const void *context);
/* The next group of the window: its pieces, and in `row` the order of its rows.
 * *count = 0: the window is over. */
const struct block_piece *block_order_group(struct block_order *order, uint32_t *count, uint32_t *row_count);

#endif
