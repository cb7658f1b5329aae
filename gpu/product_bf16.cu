/* Products of factors in bfloat16, prepared (factor_prepare), on a card's matrix units. A block of 8 warps, 2 x 4, computes a tile of
 * ROWS x COLS sums; the factors pass through shared memory DEPTH terms at a time, STAGES deep: while one stage is multiplied, the copies of
 * two are under way.
 *
 * Shared memory is chunks of 8 numbers, 16 bytes. Where a factor's rows are those of the tile: [row][4 chunks of terms], chunk c of row i at
 * place c ^ (i / 2 % 4); where they are terms: [term][chunks of the tile's rows], chunk c of term t at place c ^ (t % 8). So the eight chunks
 * that a matrix is loaded from, and those that a quarter of a warp copies, lie in eight different groups of banks.
 *
 * Each sum adds its terms sixteen after sixteen, in order, whatever the tile; the sixteen as the card's mma does. */
#include "gpu/product_tile.h"

#define DEPTH           32u
#define STAGES          3u
#define CHUNK           8u
#define SIDE_HALF(side) (STAGES * DEPTH * (side))
#define WARP_ROWS       2u
#define WARP_COLS       4u

DEVICE uint32_t row_chunk(uint32_t i, uint32_t c) { return (i * (DEPTH / CHUNK) + (c ^ (i / 2 % 4))) * CHUNK; }
DEVICE uint32_t term_chunk(const uint32_t side, uint32_t t, uint32_t c)
{
    return (t * (side / CHUNK) + (c ^ (t % 8))) * CHUNK;
}

/* Rows [first, first + side) of the factor, terms [begin, begin + DEPTH); what is not there becomes 0. */
DEVICE void rows_copy(uint16_t *to, const struct product_factor *f, const uint32_t side, uint32_t first, uint32_t count,
                      uint32_t begin, uint32_t end)
{
    UNROLL for (uint32_t j = 0; j < side * DEPTH / CHUNK / PRODUCT_THREADS; j++)
    {
        const uint32_t e = threadIdx.x + j * PRODUCT_THREADS, i = e / (DEPTH / CHUNK), c = e % (DEPTH / CHUNK),
                       t = begin + c * CHUNK;
        const bool is_inside = first + i < count && t < end;
        const uint16_t *from = (const uint16_t *)f->data + (is_inside ? (size_t)(first + i) * f->stride + t : 0);
        tile_copy(&to[row_chunk(i, c)], from, 16, is_inside ? 16 : 0);
    }
}
/* The factor's rows [begin, begin + DEPTH) are terms, its columns [first, first + side) the tile's rows. */
DEVICE void terms_copy(uint16_t *to, const struct product_factor *f, const uint32_t side, uint32_t first,
                       uint32_t count, uint32_t begin, uint32_t end)
{
    UNROLL for (uint32_t j = 0; j < side * DEPTH / CHUNK / PRODUCT_THREADS; j++)
    {
        const uint32_t e = threadIdx.x + j * PRODUCT_THREADS, t = e / (side / CHUNK), c = e % (side / CHUNK),
                       i = first + c * CHUNK;
        const bool is_inside = begin + t < end && i < count;
        const uint16_t *from = (const uint16_t *)f->data + (is_inside ? (size_t)(begin + t) * f->stride + i : 0);
        tile_copy(&to[term_chunk(side, t, c)], from, 16, is_inside ? 16 : 0);
    }
}

/* Fragments (gpu/mma.h) of 16 rows from `first` on and 16 terms from `begin` on: for the left factor, and two of 8 for the right one. */
DEVICE void left_load(uint32_t x[4], const uint16_t *left, const uint32_t side, const bool rows_are_terms,
                      uint32_t first, uint32_t begin)
{
    const uint32_t lane = threadIdx.x % WARP_LANES;
    if (rows_are_terms)
        matrix_load_transposed(x,
                               &left[term_chunk(side, begin + lane % 8 + lane / 16 * 8, first / CHUNK + lane / 8 % 2)]);
    else
        matrix_load(x, &left[row_chunk(first + lane % 16, begin / CHUNK + lane / 16)]);
}
DEVICE void right_load(uint32_t y[4], const uint16_t *right, const uint32_t side, const bool rows_are_terms,
                       uint32_t first, uint32_t begin)
{
    const uint32_t lane = threadIdx.x % WARP_LANES;
    if (rows_are_terms)
        matrix_load_transposed(y, &right[term_chunk(side, begin + lane % 16, first / CHUNK + lane / 16)]);
    else
        matrix_load(y, &right[row_chunk(first + lane % 8 + lane / 16 * 8, begin / CHUNK + lane / 8 % 2)]);
}

DEVICE void bf16_product(const struct product_args *a, const uint32_t pass, const uint32_t ROWS, const uint32_t COLS,
                         uint16_t *left, uint16_t *right)
{
    const struct product_piece p = piece_of(a, pass, ROWS, COLS);
    if (p.row >= p.rows) return;
    const uint32_t warp = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES, height = ROWS / WARP_ROWS,
                   width = COLS / WARP_COLS, row = warp / WARP_COLS * height, col = warp % WARP_COLS * width;
    float sum[4][4][4];
    UNROLL for (uint32_t i = 0; i < height / 16; i++) UNROLL for (uint32_t j = 0; j < width / 8; j++)
        UNROLL for (uint32_t k = 0; k < 4; k++) sum[i][j][k] = 0;

    uint32_t copied = p.begin; /* terms */
    for (uint32_t step = 0, t = p.begin; t < p.end || step < STAGES - 1; step++) {
        if (step >= STAGES - 1) {
            tile_copies_wait(STAGES - 2);
            __syncthreads();
        }
        if (copied < p.end) {
            uint16_t *l = left + step % STAGES * DEPTH * ROWS, *r = right + step % STAGES * DEPTH * COLS;
            if (pass == PASS_OF_DWEIGHT)
                terms_copy(l, &a->left, ROWS, p.row, p.rows, copied, p.end);
            else
                rows_copy(l, &a->left, ROWS, p.row, p.rows, copied, p.end);
            if (pass == PASS_OF_DIN)
                rows_copy(r, &a->right, COLS, p.col, p.cols, copied, p.end);
            else
                terms_copy(r, &a->right, COLS, p.col, p.cols, copied, p.end);
            copied += DEPTH;
        }
        tile_copies_close();
        if (step < STAGES - 1) continue;
        const uint32_t stage = (step + 1) % STAGES;
        const uint16_t *l = left + stage * DEPTH * ROWS, *r = right + stage * DEPTH * COLS;
        UNROLL for (uint32_t k = 0; k < DEPTH; k += 16)
        {
            uint32_t x[4][4], y[2][4];
            UNROLL for (uint32_t i = 0; i < height / 16; i++)
                left_load(x[i], l, ROWS, pass == PASS_OF_DWEIGHT, row + 16 * i, k);
            UNROLL for (uint32_t j = 0; j < width / 16; j++)
                right_load(y[j], r, COLS, pass != PASS_OF_DIN, col + 16 * j, k);
            UNROLL for (uint32_t i = 0; i < height / 16; i++) UNROLL for (uint32_t j = 0; j < width / 8; j++)
                matrix_multiply(sum[i][j], x[i], &y[j / 2][j % 2 * 2]);
        }
        t += DEPTH;
    }
    UNROLL for (uint32_t i = 0; i < height / 16; i++) UNROLL for (uint32_t j = 0; j < width / 8; j++)
        UNROLL for (uint32_t h = 0; h < 2; h++) sums_end(a, pass, &p, p.row + row + 16 * i + lane / 4 + 8 * h,
                                                         p.col + col + 8 * j + lane % 4 * 2, 2, &sum[i][j][2 * h]);
}

#define BF16_PRODUCT(name, pass, ROWS, COLS)                                                                           \
    KERNEL_BOUND(name, PRODUCT_THREADS)                                                                                \
    {                                                                                                                  \
        SHARED(uint16_t, left, SIDE_HALF(ROWS));                                                                       \
        SHARED(uint16_t, right, SIDE_HALF(COLS));                                                                      \
        bf16_product(&a, pass, ROWS, COLS, left, right);                                                               \
    }
#define bf16_forward_128x128_args product_args
#define bf16_forward_64x64_args   product_args
#define bf16_din_128x128_args     product_args
#define bf16_din_64x64_args       product_args
#define bf16_dweight_128x128_args product_args
#define bf16_dweight_64x64_args   product_args
BF16_PRODUCT(bf16_forward_128x128, PASS_OF_FORWARD, 128, 128)
BF16_PRODUCT(bf16_forward_64x64, PASS_OF_FORWARD, 64, 64)
BF16_PRODUCT(bf16_din_128x128, PASS_OF_DIN, 128, 128)
BF16_PRODUCT(bf16_din_64x64, PASS_OF_DIN, 64, 64)
BF16_PRODUCT(bf16_dweight_128x128, PASS_OF_DWEIGHT, 128, 128)
BF16_PRODUCT(bf16_dweight_64x64, PASS_OF_DWEIGHT, 64, 64)
