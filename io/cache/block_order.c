/* The order of a pass over blocks. */
#include "io/cache/block_order.h"

/* The level of a permutation: for the draws, the block of their counters. */
enum level { BLOCKS, PIECES, ROWS };

/* The draws of one permutation: place i's draw is word i % 4 of item (item, i / 4). */
struct draws {
    struct random_stream stream;
    enum level level;
    uint64_t item;
    uint32_t word[4 * RANDOM_LANES];
};

static uint32_t place_draw(struct draws *d, uint32_t i, bool is_first)
{
    uint32_t word = i % (4 * RANDOM_LANES);
    if (is_first || word == 4 * RANDOM_LANES - 1)
        random_blocks(d->stream, d->item << 32 | (i - word) / 4, d->level, d->word);
    return (uint32_t)((uint64_t)d->word[word] * (i + 1) >> 32);
}

static void numbers_permute(uint32_t *number, uint32_t count, struct draws d)
{
    for (uint32_t i = 0; i < count; i++) number[i] = i;
    for (uint32_t i = count; i-- > 1;) {
        uint32_t j = place_draw(&d, i, i + 1 == count), kept = number[i];
        number[i] = number[j];
        number[j] = kept;
    }
}

static void pieces_permute(struct block_piece *piece, uint32_t count, struct draws d)
{
    for (uint32_t i = count; i-- > 1;) {
        uint32_t j = place_draw(&d, i, i + 1 == count);
        struct block_piece kept = piece[i];
        piece[i] = piece[j];
        piece[j] = kept;
    }
}

void block_order_layout(struct block_order *o, struct layout *l, struct block_shape shape, uint32_t window,
                        uint64_t block_count_max)
{
    *o = (struct block_order){.window = window, .piece_rows = block_piece_rows(shape)};
    LAYOUT_TAKE(l, o->block, block_count_max);
    LAYOUT_TAKE(l, o->piece, (size_t)window * BLOCK_PIECES);
    LAYOUT_TAKE(l, o->row, (size_t)BLOCK_GROUP_PIECES * o->piece_rows);
}

void block_order_start(struct block_order *o, uint64_t seed, uint64_t epoch, uint64_t block_count)
{
    o->stream = random_stream(seed, RANDOM_BLOCKS, epoch);
    o->block_count = block_count;
    o->begin = 0;
    o->slot_count = o->piece_count = o->taken = 0;
    numbers_permute(o->block, (uint32_t)block_count, (struct draws){.stream = o->stream, .level = BLOCKS});
}

bool block_order_window(struct block_order *o, uint32_t (*block_rows)(const void *context, uint32_t block),
                        const void *context)
{
    o->begin += o->slot_count;
    uint64_t left = o->block_count - o->begin;
    o->slot_count = left < o->window ? (uint32_t)left : o->window;
    o->piece_count = o->taken = 0;
    for (uint32_t slot = 0; slot < o->slot_count; slot++) {
        uint32_t rows = block_rows(context, o->block[o->begin + slot]);
        for (uint32_t piece = 0; rows; piece++) {
            uint32_t count = rows < o->piece_rows ? rows : o->piece_rows;
            o->piece[o->piece_count++] = (struct block_piece){.slot = slot, .piece = piece, .row_count = count};
            rows -= count;
        }
    }
    pieces_permute(o->piece, o->piece_count,
                   (struct draws){.stream = o->stream, .level = PIECES, .item = o->begin / o->window});
    return o->slot_count != 0;
}

const struct block_piece *block_order_group(struct block_order *o, uint32_t *count, uint32_t *row_count)
{
    const struct block_piece *piece = o->piece + o->taken;
    uint32_t left = o->piece_count - o->taken, groups = o->window * BLOCK_PIECES / BLOCK_GROUP_PIECES;
    *count = left < BLOCK_GROUP_PIECES ? left : BLOCK_GROUP_PIECES;
    *row_count = 0;
    for (uint32_t i = 0; i < *count; i++) *row_count += piece[i].row_count;
    uint64_t group = o->begin / o->window * groups + o->taken / BLOCK_GROUP_PIECES;
    numbers_permute(o->row, *row_count, (struct draws){.stream = o->stream, .level = ROWS, .item = group});
    o->taken += *count;
    return piece;
}
