/* The common code of the kernels of products: places of tiles and rows, and the end of sums. Kernels only. */
#ifndef HETERPS_GPU_PRODUCT_TILE_H
#define HETERPS_GPU_PRODUCT_TILE_H

#include "gpu/kernel.h"
#include "gpu/math.h"
#include "gpu/mma.h"
#include "gpu/product.h"

/* Bytes of a number of a prepared factor, which also tell its kind. */
#define BF16_BYTES 2u
#define TF32_BYTES 4u

/* The piece of the result that a block computes. Blocks that run at the same time take neighbouring rows and
 * columns, so that their reads come from the second-level cache. */
struct product_piece {
    uint32_t row, col;   /* its first */
    uint32_t rows, cols; /* of the whole result: the existing ones */
    uint32_t begin, end; /* terms */
    uint32_t part;
};
#define BAND 8u /* tiles of rows */
DEVICE uint32_t micro_rows_of(const struct product_args *a) { return a->now->example_count * a->groups; }
DEVICE struct product_piece piece_at(const struct product_args *a, const uint32_t pass, const uint32_t row_side,
                                     const uint32_t col_side, uint32_t micro_rows, uint32_t tile, uint32_t part)
{
    const uint32_t row_tiles = (a->rows + row_side - 1) / row_side, col_tiles = (a->cols + col_side - 1) / col_side,
                   band = tile / (BAND * col_tiles) * BAND, height = row_tiles - band < BAND ? row_tiles - band : BAND,
                   within = tile - band * col_tiles;
    struct product_piece p = {
        (band + within % height) * row_side, within / height * col_side, a->rows, a->cols, 0, a->terms, part};
    if (pass != PASS_OF_DWEIGHT) {
        p.rows = micro_rows;
    } else if (a->range) {
        const uint32_t *range = a->range + part / a->parts, each = (range[1] - range[0] + a->parts - 1) / a->parts;
        p.begin = range[0] + part % a->parts * each;
        p.end = p.begin + each < range[1] ? p.begin + each : range[1];
    } else {
        p.begin = part * a->part_terms;
        p.end = p.begin + a->part_terms < micro_rows ? p.begin + a->part_terms : micro_rows;
    }
    return p;
}
DEVICE struct product_piece piece_of(const struct product_args *a, const uint32_t pass, const uint32_t row_side,
                                     const uint32_t col_side)
{
    return piece_at(a, pass, row_side, col_side, micro_rows_of(a), blockIdx.x, blockIdx.y);
}

/* A block's way through its terms, `depth` of them a stage of shared memory, `stages` stages. Each
 * step begins the copies of one stage, while terms are left; from step stages - 1 on it multiplies
 * the stage with the oldest copies:
 *
 *     for (uint32_t step = 0, begin = p.begin; tile_is_left(&p, step, begin, depth, stages); step++,
 *         begin += depth) { tile_step_await(step, stages);
 *         if (begin < p.end) … copies of the terms from `begin` on into stage step % stages …
 *         tile_copies_close();
 *         if (step < stages - 1) continue;
 *         … stage (step + 1) % stages …
 *     }
 *
 * With a counted number of steps some kernels need 8 registers more (nvcc 13.0, sm_90). */
DEVICE bool tile_is_left(const struct product_piece *p, uint32_t step, uint32_t begin, const uint32_t depth,
                         const uint32_t stages)
{
    return step < stages - 1 || begin - (stages - 1) * depth < p->end;
}
/* Waits until all threads have the stage that the step multiplies, and all have multiplied
 * the stage into which it copies. */
DEVICE void tile_step_await(uint32_t step, const uint32_t stages)
{
    if (step < stages - 1) return;
    tile_copies_wait(stages - 2);
    __syncthreads();
}
/* Whether the rows of a factor are terms, or those of the tile. */
DEVICE bool left_is_terms(const uint32_t pass) { return pass == PASS_OF_DWEIGHT; }
DEVICE bool right_is_terms(const uint32_t pass) { return pass != PASS_OF_DIN; }

DEVICE size_t row_offset(uint32_t m, uint32_t stride, uint32_t width, uint32_t groups)
{
    return groups == 1 ? (size_t)m * stride : (size_t)(m / groups) * stride + m % groups * width;
}
DEVICE const float *factor_row(const struct product_factor *f, uint32_t m)
{
    return (const float *)f->data + row_offset(m, f->stride, f->width, f->groups);
}

/* Four neighbours, of which `there` exist; at once if all do. */
DEVICE void four_take(float x[4], const float *from, uint32_t there, uint32_t is_aligned)
{
    if (there == 4 && is_aligned) {
        const float4 four = *(const float4 *)from;
        x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
        return;
    }
    UNROLL for (uint32_t j = 0; j < 4; j++) x[j] = j < there ? from[j] : 0;
}
DEVICE void four_give(float *to, const float x[4], uint32_t there, uint32_t is_aligned)
{
    if (there == 4 && is_aligned) {
        *(float4 *)to = (float4){x[0], x[1], x[2], x[3]};
        return;
    }
    UNROLL for (uint32_t j = 0; j < 4; j++) if (j < there) to[j] = x[j];
}
/* The place of the sum of a row and column. */
DEVICE float *sums_to(const struct product_args *a, const struct product_piece *p, uint32_t row, uint32_t col)
{
    return a->result.data + (size_t)p->part * a->rows * a->cols +
           row_offset(row, a->result.stride, a->result.width, a->result.groups) + col;
}
/* Ends the sums of `count` (1, 2, 4) neighbouring columns. */
DEVICE void sums_end(const struct product_args *a, const uint32_t pass, const struct product_piece *p, uint32_t row,
                     uint32_t col, const uint32_t count, const float *sum)
{
    if (row >= p->rows || col >= p->cols) return;
    float *to = sums_to(a, p, row, col);
    const float *output = pass == PASS_OF_DIN && a->activation ? factor_row(&a->output, row) + col : (const float *)0;
    const uint32_t there = p->cols - col < count ? p->cols - col : count;
    float x[4] = {0};
    UNROLL for (uint32_t j = 0; j < count; j++)
    {
        if (j >= there) continue;
        x[j] = sum[j];
        if (pass == PASS_OF_FORWARD) {
            if (a->bias) x[j] += a->bias[col + j];
            x[j] = gpu_activation(a->activation, a->slope, x[j]);
        } else {
            if (pass == PASS_OF_DIN && output) x[j] *= gpu_slope(a->activation, a->slope, output[j]);
            if (a->adds) x[j] += to[j];
        }
    }
    if (count == 4 && there == 4 && a->result.is_aligned)
        *(float4 *)to = (float4){x[0], x[1], x[2], x[3]};
    else if (count == 2 && there == 2 && a->result.is_aligned)
        *(float2 *)to = (float2){x[0], x[1]};
    else
        UNROLL for (uint32_t j = 0; j < count; j++) if (j < there) to[j] = x[j];
}

#endif
