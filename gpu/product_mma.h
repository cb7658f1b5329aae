/* Products of prepared factors (factor_prepare) on a card's matrix units, which know two kinds: bfloat16,
 * of 2 bytes (product_bf16.cu), and TensorFloat-32, of 4 (product_tf32.cu). A block of 8 warps computes a
 * tile of ROWS x COLS sums, a warp HEIGHT x WIDTH of them. The factors pass through shared memory 64 bytes
 * of terms at a time, 32 or 16 numbers, STAGES deep: while one stage is multiplied, copies of the next
 * ones are under way. Kernels only.
 *
 *     tile         warps    a warp     stages    shared memory, of a block    what it is for
 *     256 x 128    4 x 2    64 x 64    4         96 KiB                       most products for a byte that comes from
 *                                                                             the second-level cache
 *     128 x 128    2 x 4    64 x 32    3         48 KiB                       fewer rows or columns: two blocks on a
 *                                                                             multiprocessor
 *     64 x 64      2 x 4    32 x 16    3         24 KiB                       narrow ones
 *
 * Shared memory is chunks of 16 bytes: 8 numbers, or 4. Where a factor's rows are those of the tile: [row][4
 * chunks of terms], chunk c of row i at place c ^ (i / 2 % 4). Where they are terms: [term][chunks of the
 * tile's rows], chunk c of term t at place c ^ (t % 4 * 2 + t / 4 % 2). So chunks used at one time never
 * share banks: the eight chunks of a matrix; the chunks that a quarter of a warp copies; the chunks that it
 * loads of TF32 whose rows are terms, two of each of 4 terms. (Only matrices of 16-bit numbers can be loaded
 * transposed; a lane of TF32 takes a chunk, so its rows are four neighbours, not every eighth row.)
 *
 * In any tile each sum adds its terms in order, 32 bytes of terms at a time; the card orders the terms of one
 * mma. */
#ifndef HETERPS_GPU_PRODUCT_MMA_H
#define HETERPS_GPU_PRODUCT_MMA_H

#include "gpu/product_tile.h"

#define CHUNK_BYTES                 16u
#define CHUNK_WORDS                 4u
#define ROW_CHUNKS                  4u /* of terms, in a stage */

#define CHUNK_NUMBERS(bytes)        (CHUNK_BYTES / (bytes))
#define DEPTH(bytes)                (ROW_CHUNKS * CHUNK_NUMBERS(bytes)) /* terms of a stage */
#define MMA_TERMS(bytes)            (2 * CHUNK_NUMBERS(bytes))
#define STAGES_WORDS(stages, sides) ((stages)*ROW_CHUNKS * CHUNK_WORDS * (sides))

/* The begin of a chunk, in words. */
DEVICE uint32_t row_chunk(uint32_t i, uint32_t c) { return (i * ROW_CHUNKS + (c ^ (i / 2 % 4))) * CHUNK_WORDS; }
DEVICE uint32_t term_chunk(const uint32_t chunks, uint32_t t, uint32_t c)
{
    return (t * chunks + (c ^ (t % 4 * 2 + t / 4 % 2))) * CHUNK_WORDS;
}

/* Copies rows [first, first + side) of the tile, terms [begin, begin + DEPTH): a chunk has neighbouring
 * terms, or neighbouring rows where the factor's rows are terms; absent numbers become 0. */
DEVICE void side_copy(uint32_t *to, const struct product_factor *f, const uint32_t bytes, const bool rows_are_terms,
                      const uint32_t side, uint32_t first, uint32_t count, uint32_t begin, uint32_t end)
{
    const uint32_t numbers = CHUNK_NUMBERS(bytes), row_chunks = rows_are_terms ? side / numbers : ROW_CHUNKS;
    UNROLL for (uint32_t j = 0; j < side * ROW_CHUNKS / PRODUCT_THREADS; j++)
    {
        const uint32_t e = threadIdx.x + j * PRODUCT_THREADS, m = e / row_chunks, c = e % row_chunks,
                       i = first + (rows_are_terms ? c * numbers : m), t = begin + (rows_are_terms ? m : c * numbers);
        const bool is_inside = i < count && t < end;
        const size_t at = rows_are_terms ? (size_t)t * f->stride + i : (size_t)i * f->stride + t;
        tile_copy(&to[rows_are_terms ? term_chunk(row_chunks, m, c) : row_chunk(m, c)],
                  (const uint8_t *)f->data + (is_inside ? at * bytes : 0), CHUNK_BYTES, is_inside ? CHUNK_BYTES : 0);
    }
}

/* The row of its tile that a warp's lane takes for row r of group g of 8 rows: row after row, or,
 * where lanes load `each` neighbours (2, 4) of a term at a time, each lane's neighbours for as many
 * groups. Results use the same rows. */
DEVICE uint32_t row_of(uint32_t g, uint32_t r, const uint32_t each)
{
    return g / each * 8 * each + r * each + g % each;
}
DEVICE uint32_t each_of(const uint32_t bytes, const bool rows_are_terms, const uint32_t rows)
{
    return bytes == TF32_BYTES && rows_are_terms ? (rows < 32 ? rows / 8 : 4) : 1;
}

/* Loads `rows` rows from `first` on, and 8 terms from `begin` on, of TF32 whose rows are terms:
 * to[half of the terms][group of rows]. */
DEVICE void words_load(uint32_t to[2][8], const uint32_t *from, const uint32_t side, const uint32_t rows,
                       uint32_t first, uint32_t begin)
{
    const uint32_t lane = threadIdx.x % WARP_LANES, each = each_of(TF32_BYTES, true, rows);
    UNROLL for (uint32_t half = 0; half < 2; half++) UNROLL for (uint32_t g = 0; g < rows / 8; g += each)
    {
        const uint32_t i = first + row_of(g, lane / 4, each);
        const uint32_t *at =
            &from[term_chunk(side / CHUNK_NUMBERS(TF32_BYTES), begin + lane % 4 + 4 * half, i / 4) + i % 4];
        if (each == 4) {
            const uint4 four = *(const uint4 *)at;
            to[half][g] = four.x, to[half][g + 1] = four.y, to[half][g + 2] = four.z, to[half][g + 3] = four.w;
        } else {
            const uint2 two = *(const uint2 *)at;
            to[half][g] = two.x, to[half][g + 1] = two.y;
        }
    }
}
/* Loads fragments (gpu/mma.h) of `rows` rows from `first` on and MMA_TERMS terms from `begin` on: of the left
 * factor, 16 rows each; of the right one, two of 8. */
DEVICE void left_load(uint32_t x[4][4], const uint32_t *left, const uint32_t bytes, const uint32_t side,
                      const bool rows_are_terms, const uint32_t rows, uint32_t first, uint32_t begin)
{
    const uint32_t lane = threadIdx.x % WARP_LANES, numbers = CHUNK_NUMBERS(bytes);
    uint32_t word[2][8];
    if (rows_are_terms && bytes == TF32_BYTES) words_load(word, left, side, rows, first, begin);
    UNROLL for (uint32_t i = 0; i < rows / 16; i++)
    {
        const uint32_t row = first + 16 * i;
        if (!rows_are_terms)
            matrix_load(x[i], &left[row_chunk(row + lane % 16, begin / numbers + lane / 16)]);
        else if (bytes == BF16_BYTES)
            matrix_load_transposed(
                x[i],
                &left[term_chunk(side / numbers, begin + lane % 8 + lane / 16 * 8, row / numbers + lane / 8 % 2)]);
        else
            UNROLL for (uint32_t j = 0; j < 4; j++) x[i][j] = word[j / 2][2 * i + j % 2];
    }
}
DEVICE void right_load(uint32_t y[4][4], const uint32_t *right, const uint32_t bytes, const uint32_t side,
                       const bool rows_are_terms, const uint32_t rows, uint32_t first, uint32_t begin)
{
    const uint32_t lane = threadIdx.x % WARP_LANES, numbers = CHUNK_NUMBERS(bytes);
    uint32_t word[2][8];
    if (rows_are_terms && bytes == TF32_BYTES) words_load(word, right, side, rows, first, begin);
    UNROLL for (uint32_t i = 0; i < rows / 16; i++)
    {
        const uint32_t row = first + 16 * i;
        if (!rows_are_terms)
            matrix_load(y[i], &right[row_chunk(row + lane % 8 + lane / 16 * 8, begin / numbers + lane / 8 % 2)]);
        else if (bytes == BF16_BYTES)
            matrix_load_transposed(y[i],
                                   &right[term_chunk(side / numbers, begin + lane % 16, row / numbers + lane / 16)]);
        else
            UNROLL for (uint32_t j = 0; j < 4; j++) y[i][j] = word[j % 2][2 * i + j / 2];
    }
}

/* shared: [STAGES_WORDS(STAGES, ROWS + COLS)] */
DEVICE void mma_product(const struct product_args *a, const uint32_t pass, const uint32_t bytes, const uint32_t ROWS,
                        const uint32_t COLS, const uint32_t HEIGHT, const uint32_t WIDTH, const uint32_t STAGES,
                        uint32_t *shared)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    __trap(); /* kind_of (gpu/product.c) chooses other kernels there: nothing to compile */
#else
    uint32_t *left = shared, *right = shared + STAGES_WORDS(STAGES, ROWS);
    const struct product_piece p = piece_of(a, pass, ROWS, COLS);
    if (p.row >= p.rows) return;
    const uint32_t warp = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES,
                   row = warp / (COLS / WIDTH) * HEIGHT, col = warp % (COLS / WIDTH) * WIDTH;
    float sum[4][8][4];
    UNROLL for (uint32_t i = 0; i < HEIGHT / 16; i++) UNROLL for (uint32_t j = 0; j < WIDTH / 8; j++)
        UNROLL for (uint32_t k = 0; k < 4; k++) sum[i][j][k] = 0;

    for (uint32_t step = 0, begin = p.begin; tile_is_left(&p, step, begin, DEPTH(bytes), STAGES);
         step++, begin += DEPTH(bytes)) {
        tile_step_await(step, STAGES);
        if (begin < p.end) {
            side_copy(left + STAGES_WORDS(step % STAGES, ROWS), &a->left, bytes, left_is_terms(pass), ROWS, p.row,
                      p.rows, begin, p.end);
            side_copy(right + STAGES_WORDS(step % STAGES, COLS), &a->right, bytes, right_is_terms(pass), COLS, p.col,
                      p.cols, begin, p.end);
        }
        tile_copies_close();
        if (step < STAGES - 1) continue;
        const uint32_t stage = (step + 1) % STAGES;
        const uint32_t *l = left + STAGES_WORDS(stage, ROWS), *r = right + STAGES_WORDS(stage, COLS);
        UNROLL for (uint32_t k = 0; k < DEPTH(bytes); k += MMA_TERMS(bytes))
        {
            uint32_t x[4][4], y[4][4];
            left_load(x, l, bytes, ROWS, left_is_terms(pass), HEIGHT, row, k);
            right_load(y, r, bytes, COLS, right_is_terms(pass), WIDTH, col, k);
            UNROLL for (uint32_t i = 0; i < HEIGHT / 16; i++) UNROLL for (uint32_t j = 0; j < WIDTH / 8; j++)
            {
                if (bytes == BF16_BYTES)
                    matrix_multiply_bf16(sum[i][j], x[i], &y[j / 2][j % 2 * 2]);
                else
                    matrix_multiply_tf32(sum[i][j], x[i], &y[j / 2][j % 2 * 2]);
            }
        }
    }
    const uint32_t row_each = each_of(bytes, left_is_terms(pass), HEIGHT),
                   col_each = each_of(bytes, right_is_terms(pass), WIDTH);
    UNROLL for (uint32_t i = 0; i < HEIGHT / 16; i++) UNROLL for (uint32_t h = 0; h < 2; h++)
        UNROLL for (uint32_t j = 0; j < WIDTH / 8; j += col_each)
    {
        const uint32_t m = p.row + row + row_of(2 * i + h, lane / 4, row_each), n = p.col + col;
        if (col_each == 1)
            sums_end(a, pass, &p, m, n + row_of(j, lane % 4 * 2, 1), 2, &sum[i][j][2 * h]);
        else
            UNROLL for (uint32_t e = 0; e < 2; e++)
            {
                float all[4];
                UNROLL for (uint32_t g = 0; g < col_each; g++) all[g] = sum[i][j + g][2 * h + e];
                sums_end(a, pass, &p, m, n + row_of(j, lane % 4 * 2 + e, col_each), col_each, all);
            }
    }
#endif
}

#define MMA_PRODUCT(name, pass, bytes, ROWS, COLS, HEIGHT, WIDTH)                                                      \
    KERNEL_BOUND(name, PRODUCT_THREADS)                                                                                \
    {                                                                                                                  \
        SHARED(uint32_t, shared, STAGES_WORDS(3, ROWS + COLS));                                                        \
        mma_product(&a, pass, bytes, ROWS, COLS, HEIGHT, WIDTH, 3, shared);                                            \
    }
#define MMA_PRODUCT_LARGE(name, pass, bytes)                                                                           \
    KERNEL_BOUND(name, PRODUCT_THREADS)                                                                                \
    {                                                                                                                  \
        SHARED_LARGE(uint32_t, shared, PRODUCT_LARGE_BYTES / sizeof(uint32_t));                                        \
        mma_product(&a, pass, bytes, 256, 128, 64, 64, 4, shared);                                                     \
    }

#endif
