/* The three products of a fully connected layer (graph/op_fc.c) on a card. Tensors [B, G *
 * width] are taken as [B * G, width].
 *
 *     factor_prepare    rounds a factor to bfloat16 or TF32, or multiplies dout by its slope, into scratch memory;
 *                       sums of columns on the way: dbias
 *     f32_PASS_SIDES    float32: fused multiply-adds                                  (product.cu)
 *     runs_PASS_SIDES   the same of rows in runs, each with a weight of its own; not dweight
 *     bf16_PASS_SIDES   prepared factors, on matrix units, from compute capability 8.0 on (product_mma.h)
 *     tf32_PASS_SIDES   the same
 *     factor_pack       the same as factor_prepare, of several factors, for
 *     bf16_packed_SIDES, tf32_packed_SIDES
 *                       packed factors, on matrix units as compute capability 9.0 has them, of any pass
 *                       (product_packed.h)
 *
 * A pass is forward, din or dweight. All kernels of a pass compute the same; a block computes a
 * tile of SIDES rows and columns. */
#ifndef HETERPS_GPU_PRODUCT_H
#define HETERPS_GPU_PRODUCT_H

#include "gpu/now.h"

#define PRODUCT_THREADS           256u
#define PRODUCT_MMA_CAPABILITY    80u                     /* from this one on cards have matrix units for both */
#define PRODUCT_PACKED_CAPABILITY 90u                     /* its own matrix units take packed factors */
#define PRODUCT_LARGE_BYTES       (4u * 64 * (256 + 128)) /* of shared memory: …_256x128 */
/* packed_SIDES: two groups of four warps that multiply, and a warp that copies; where there are many sums, a
 * third group in its place, which leaves its registers to the others. */
#define PACKED_THREADS(cols) ((cols) == 256 ? 384u : 288u)
#define PACKED_ROWS          128u
#define PACKED_BLOCK_ROWS    64u
#define PACKED_BLOCK_BYTES   (PACKED_BLOCK_ROWS * 128)
#define PACKED_END_COLS      32u /* of sums on their way out, for a warp's 16 rows */
#define PACKED_BARRIERS      16u /* 8 bytes each */
#define PACKED_STAGES_256    4u
#define PACKED_STAGES_128    3u
#define PACKED_STAGES_64     4u
#define PACKED_BYTES(cols, stages)                                                                                     \
    ((stages) * (PACKED_ROWS + (cols)) * 128u + PACKED_ROWS * PACKED_END_COLS * 4 + PACKED_BARRIERS * 8)
/* Most blocks that prepare a factor; most parts, where the sums of its columns are wanted. */
#define PREPARE_BLOCKS 1056u
#define PREPARE_PARTS  64u
/* A gradient of weights is summed in parts until there are this many blocks, two for each multiprocessor of
 * an H200; no part has fewer rows than PART_ROWS. */
#define PART_BLOCKS 264u
#define PART_ROWS   256u

/* The results of factor_prepare. */
enum factor_kind {
    FACTOR_F32,
    FACTOR_F32_ROUNDED, /* float32 that are bfloat16: for cards without such matrix units */
    FACTOR_BF16,
    FACTOR_TF32, /* float32 whose lower 13 bits are zeros */
    FACTOR_KINDS
};
enum product_pass { PASS_OF_FORWARD, PASS_OF_DIN, PASS_OF_DWEIGHT };

/* Row m of a matrix lies at data + m / groups * stride + m % groups * width elements. Aligned: 16 bytes can
 * be taken at a time, from every fourth (float32, TF32) or eighth (bfloat16) column on. */
struct product_factor {
    const void *data; /* as its kind says */
    uint32_t stride, width, groups, is_aligned;
};
struct product_result {
    float *data;
    uint32_t stride, width, groups, is_aligned;
};

/* Rows of `cols` float32 numbers, `stride` apart; without gaps. */
static inline struct product_factor product_factor_of(const float *data, uint32_t cols, uint32_t stride)
{
    return (struct product_factor){data, stride, cols, 1, (uintptr_t)data % 16 == 0 && stride % 4 == 0};
}
static inline struct product_result product_result_of(float *data, uint32_t cols)
{
    return (struct product_result){data, cols, cols, 1, (uintptr_t)data % 16 == 0 && cols % 4 == 0};
}

/* result = end(left right):
 *
 *                 rows            cols   terms            left     right      end of a sum s
 *     forward     of micro-batch  N      K                in       weight     activation(s + bias)
 *     din         of micro-batch  K      N                dz       weight^T   = or += s * slope of output
 *     dweight     K               N      of micro-batch   in^T     dz         =, or (adds) +=, to part z of the terms
 *
 * Float32 alone: forward, too, sums part z of the terms, if part_terms are given.
 *
 * Factors are given as they lie in memory. The stride of packed factors is their number of rows, a multiple
 * of 64; so is part_terms. The micro-batch has example_count * groups rows. */
struct product_args {
    const struct gpu_now *now;
    struct product_factor left, right;
    struct product_result result; /* dweight, and in parts: [part][rows, cols], contiguous */
    struct product_factor output; /* of the layer before; din, with activation */
    const float *bias;            /* [cols] or NULL; forward */
    /* dweight: the terms of part z are rows range[r], …, range[r + 1] - 1, r = z / parts; NULL: the
     * micro-batch's */
    const uint32_t *range;
    uint32_t rows, cols, terms; /* of the one that depends on the micro-batch: its greatest value */
    uint32_t groups, activation, adds, part_terms;
    float slope;
    /* for kernels of packed factors, whose blocks go through all tiles of all parts; parts: also of each
     * range, which they cut evenly */
    uint32_t pass, parts;
};

/* Forward and din of rows in runs: rows begin[r], …, begin[r + 1] - 1 are multiplied by matrix r of `count`,
 * which lie one below the other on the right; bias: [count, cols]. A block takes a tile of one run. */
struct product_runs_args {
    struct product_args of;
    const uint32_t *begin; /* [count + 1]: in the card's memory */
    uint32_t count;
};

struct factor_prepare_args {
    const struct gpu_now *now;
    /* float32; out: `from` is multiplied by the slope of its activation; data NULL: not */
    struct product_factor from, out;
    void *to;    /* [rows, to_stride], zeros behind the columns and rows of `from`; NULL: only sums */
    float *sums; /* [part][cols] of columns, before rounding; or NULL */
    uint32_t rows, cols, to_stride, part_rows;
    uint32_t groups; /* of a micro-batch, which has example_count * groups rows; 0: there are `rows` */
    uint32_t kind, activation;
    float slope;
};

/* Rounds factors and packs them for the matrix units of compute capability 9.0, with neighbouring terms:
 * [block of 128 bytes of terms][block of 64 rows][64 rows x 128 bytes], 16-byte chunk c of row r at place
 * c ^ (r % 8). A block has zeros behind its last terms and rows. Blocks of rows of `from` behind those of
 * the micro-batch are left alone. */
struct pack_factor {
    struct product_factor from, out; /* as in factor_prepare */
    /* rows_to: rows of `from` as rows, its columns as terms; terms_to: its columns as rows, its rows as
     * terms; either may be NULL */
    void *rows_to, *terms_to;
    float *sums; /* [part][cols] of columns, before rounding; or NULL */
    /* strides: rows of the packed factor, a multiple of 64 */
    uint32_t rows, cols, rows_stride, terms_stride;
    uint32_t part_rows; /* a multiple of 64 */
    uint32_t groups;    /* of a micro-batch, as in factor_prepare */
    uint32_t blocks;    /* of the grid: its parts times its columns over 64 */
};
#define PACK_FACTORS 3u
struct factor_pack_args {
    const struct gpu_now *now;
    struct pack_factor factor[PACK_FACTORS]; /* absent factors have no blocks */
    uint32_t kind, activation;               /* kind: FACTOR_BF16 or FACTOR_TF32 */
    float slope;
};

/* to[range][col] += sum over rows begin[range], …, begin[range + 1] - 1 of column col. A block for some
 * columns of a range, with RANGES_ROWS threads along the rows of each, whose sums are added in order. */
#define RANGES_COLS 32u
#define RANGES_ROWS 16u
struct ranges_sum_args {
    const uint32_t *begin;
    const float *from;
    float *to; /* [ranges, cols] */
    uint32_t stride, cols;
};

/* to[i] += sum over parts, in order */
struct parts_add_args {
    const struct gpu_now *now;
    const float *parts; /* [part_count, count] */
    float *to;
    uint32_t count, part_count;
};

#endif
