/* Products of factors in bfloat16, prepared (factor_prepare), on a card's matrix units. A block of 8 warps computes a tile of
 * ROWS x COLS sums, a warp HEIGHT x WIDTH of them; the factors pass through shared memory DEPTH terms at a time, STAGES deep: while one stage is
 * multiplied, the copies of those behind it are under way.
 *
 *     tile         warps    a warp     stages    shared memory, of a block    what it is for
 *     256 x 128    4 x 2    64 x 64    4         96 KiB                       most products for a byte that comes from the second-level cache
 *     128 x 128    2 x 4    64 x 32    3         48 KiB                       fewer rows or columns: two blocks on a multiprocessor
 *     64 x 64      2 x 4    32 x 16    3         24 KiB                       narrow ones
 *
 * Shared memory is chunks of 8 numbers, 16 bytes. Where a factor's rows are those of the tile: [row][4 chunks of terms], chunk c of row i at
 * place c ^ (i / 2 % 4); where they are terms: [term][chunks of the tile's rows], chunk c of term t at place c ^ (t % 8). So the eight chunks
 * that a matrix is loaded from, and those that a quarter of a warp copies, lie in eight different groups of banks.
 *
 * Each sum adds its terms sixteen after sixteen, in order, whatever the tile; the sixteen as the card's mma does. */
#include "gpu/product_tile.h"

#define DEPTH 32u
#define CHUNK 8u

DEVICE uint32_t row_chunk(uint32_t i, uint32_t c) { return (i * (DEPTH / CHUNK) + (c ^ (i / 2 % 4))) * CHUNK; }
DEVICE uint32_t term_chunk(const uint32_t side, uint32_t t, uint32_t c)
{
    return (t * (side / CHUNK) + (c ^ (t % 8))) * CHUNK;
}

/* Rows [first, first + side) of the tile, terms [begin, begin + DEPTH), a chunk each of neighbouring terms, or of neighbouring rows where the
 * factor's rows are terms; what is not there becomes 0. */
DEVICE void side_copy(uint16_t *to, const struct product_factor *f, const bool rows_are_terms, const uint32_t side,
                      uint32_t first, uint32_t count, uint32_t begin, uint32_t end)
{
    const uint32_t row_chunks = (rows_are_terms ? side : DEPTH) / CHUNK;
    UNROLL for (uint32_t j = 0; j < side * DEPTH / CHUNK / PRODUCT_THREADS; j++)
    {
        const uint32_t e = threadIdx.x + j * PRODUCT_THREADS, m = e / row_chunks, c = e % row_chunks,
                       i = first + (rows_are_terms ? c * CHUNK : m), t = begin + (rows_are_terms ? m : c * CHUNK);
        const bool is_inside = i < count && t < end;
        const size_t at = rows_are_terms ? (size_t)t * f->stride + i : (size_t)i * f->stride + t;
        tile_copy(&to[rows_are_terms ? term_chunk(side, m, c) : row_chunk(m, c)],
                  (const uint16_t *)f->data + (is_inside ? at : 0), 16, is_inside ? 16 : 0);
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

/* shared: [STAGES][DEPTH * (ROWS + COLS)] */
DEVICE void bf16_product(const struct product_args *a, const uint32_t pass, const uint32_t ROWS, const uint32_t COLS,
                         const uint32_t HEIGHT, const uint32_t WIDTH, const uint32_t STAGES, uint16_t *shared)
{
    uint16_t *left = shared, *right = shared + STAGES * DEPTH * ROWS;
    const struct product_piece p = piece_of(a, pass, ROWS, COLS);
    if (p.row >= p.rows) return;
    const uint32_t warp = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES,
                   row = warp / (COLS / WIDTH) * HEIGHT, col = warp % (COLS / WIDTH) * WIDTH;
    float sum[4][8][4];
    UNROLL for (uint32_t i = 0; i < HEIGHT / 16; i++) UNROLL for (uint32_t j = 0; j < WIDTH / 8; j++)
        UNROLL for (uint32_t k = 0; k < 4; k++) sum[i][j][k] = 0;

    for (uint32_t step = 0, begin = p.begin; tile_is_left(&p, step, begin, DEPTH, STAGES); step++, begin += DEPTH) {
        tile_step_await(step, STAGES);
        if (begin < p.end) {
            side_copy(left + step % STAGES * DEPTH * ROWS, &a->left, left_is_terms(pass), ROWS, p.row, p.rows, begin,
                      p.end);
            side_copy(right + step % STAGES * DEPTH * COLS, &a->right, right_is_terms(pass), COLS, p.col, p.cols, begin,
                      p.end);
        }
        tile_copies_close();
        if (step < STAGES - 1) continue;
        const uint32_t stage = (step + 1) % STAGES;
        const uint16_t *l = left + stage * DEPTH * ROWS, *r = right + stage * DEPTH * COLS;
        UNROLL for (uint32_t k = 0; k < DEPTH; k += 16)
        {
            uint32_t x[4][4], y[4][4];
            UNROLL for (uint32_t i = 0; i < HEIGHT / 16; i++)
                left_load(x[i], l, ROWS, left_is_terms(pass), row + 16 * i, k);
            UNROLL for (uint32_t j = 0; j < WIDTH / 16; j++)
                right_load(y[j], r, COLS, right_is_terms(pass), col + 16 * j, k);
            UNROLL for (uint32_t i = 0; i < HEIGHT / 16; i++) UNROLL for (uint32_t j = 0; j < WIDTH / 8; j++)
                matrix_multiply(sum[i][j], x[i], &y[j / 2][j % 2 * 2]);
        }
    }
    UNROLL for (uint32_t i = 0; i < HEIGHT / 16; i++) UNROLL for (uint32_t j = 0; j < WIDTH / 8; j++)
        UNROLL for (uint32_t h = 0; h < 2; h++) sums_end(a, pass, &p, p.row + row + 16 * i + lane / 4 + 8 * h,
                                                         p.col + col + 8 * j + lane % 4 * 2, 2, &sum[i][j][2 * h]);
}

#define BF16_PRODUCT(name, pass, ROWS, COLS, HEIGHT, WIDTH)                                                            \
    KERNEL_BOUND(name, PRODUCT_THREADS)                                                                                \
    {                                                                                                                  \
        SHARED(uint16_t, shared, 3 * DEPTH * (ROWS + COLS));                                                           \
        bf16_product(&a, pass, ROWS, COLS, HEIGHT, WIDTH, 3, shared);                                                  \
    }
#define BF16_PRODUCT_LARGE(name, pass)                                                                                 \
    KERNEL_BOUND(name, PRODUCT_THREADS)                                                                                \
    {                                                                                                                  \
        SHARED_LARGE(uint16_t, shared, PRODUCT_LARGE_BYTES / sizeof(uint16_t));                                        \
        bf16_product(&a, pass, 256, 128, 64, 64, 4, shared);                                                           \
    }
#define bf16_forward_256x128_args product_args
#define bf16_forward_128x128_args product_args
#define bf16_forward_64x64_args   product_args
#define bf16_din_256x128_args     product_args
#define bf16_din_128x128_args     product_args
#define bf16_din_64x64_args       product_args
#define bf16_dweight_256x128_args product_args
#define bf16_dweight_128x128_args product_args
#define bf16_dweight_64x64_args   product_args
BF16_PRODUCT_LARGE(bf16_forward_256x128, PASS_OF_FORWARD)
BF16_PRODUCT(bf16_forward_128x128, PASS_OF_FORWARD, 128, 128, 64, 32)
BF16_PRODUCT(bf16_forward_64x64, PASS_OF_FORWARD, 64, 64, 32, 16)
BF16_PRODUCT_LARGE(bf16_din_256x128, PASS_OF_DIN)
BF16_PRODUCT(bf16_din_128x128, PASS_OF_DIN, 128, 128, 64, 32)
BF16_PRODUCT(bf16_din_64x64, PASS_OF_DIN, 64, 64, 32, 16)
BF16_PRODUCT_LARGE(bf16_dweight_256x128, PASS_OF_DWEIGHT)
BF16_PRODUCT(bf16_dweight_128x128, PASS_OF_DWEIGHT, 128, 128, 64, 32)
BF16_PRODUCT(bf16_dweight_64x64, PASS_OF_DWEIGHT, 64, 64, 32, 16)
