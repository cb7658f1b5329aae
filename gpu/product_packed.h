/* Products of packed factors (factor_pack) on cards of compute capability 9.0: tiles of 128 x COLS sums, of which each of two groups of four warps
 * computes 64 rows; a ninth warp copies the factors into a ring of STAGES stages, 128 bytes of terms each, as far ahead of them as there is room, into
 * the next tile as well. Kernels only.
 *
 *     stage     left   two blocks of 64 rows           full    the stage's bytes are there                       (gpu/wgmma.h)
 *               right  COLS / 64 blocks of 64 columns  empty   all eight warps have multiplied what was in it
 *
 * A block of the grid goes through the tiles that are its own, in steps of the grid. At the end of a tile each warp hands its sums from registers
 * through shared memory, so that neighbouring lanes store neighbouring columns.
 *
 * Each sum adds its terms 32 bytes of them after another, in order, whatever the tile; those of one wgmma as the card does. */
#ifndef HETERPS_GPU_PRODUCT_PACKED_H
#define HETERPS_GPU_PRODUCT_PACKED_H

#include "gpu/product_tile.h"
#include "gpu/wgmma.h"

#define STAGE_TERMS(bytes) (128 / (bytes))
#define STAGE_BYTES(COLS)  ((PACKED_ROWS + (COLS)) * 128)
#define PACKED_WARPS       8u /* that multiply */
#define PACKED_LEFT_BYTES  (PACKED_ROWS * 128)
#define PACKED_COLS_MOST   256

/* Where a block is in its ring. */
struct ring {
    uint32_t stage, parity;
};
DEVICE void ring_step(struct ring *r, const uint32_t stages)
{
    r->stage++;
    if (r->stage == stages) r->stage = 0, r->parity ^= 1;
}
DEVICE uint32_t piece_steps(const struct product_piece *p, const uint32_t bytes)
{
    return p->begin < p->end ? (p->end - p->begin + STAGE_TERMS(bytes) - 1) / STAGE_TERMS(bytes) : 0;
}
/* How many bytes of a factor's block of terms a tile has that begins at row `first`: blocks of rows that there are. */
DEVICE uint32_t side_bytes(uint32_t first, uint32_t count, const uint32_t side)
{
    const uint32_t blocks = (count - first + PACKED_BLOCK_ROWS - 1) / PACKED_BLOCK_ROWS;
    return min(blocks, side / PACKED_BLOCK_ROWS) * PACKED_BLOCK_BYTES;
}
DEVICE const uint8_t *side_at(const struct product_factor *f, uint32_t row, uint32_t block)
{
    return (const uint8_t *)f->data +
           ((size_t)block * (f->stride / PACKED_BLOCK_ROWS) + row / PACKED_BLOCK_ROWS) * PACKED_BLOCK_BYTES;
}

/* One thread: all copies of the block's tiles. */
DEVICE void packed_copy(const struct product_args *a, const uint32_t bytes, const uint32_t COLS, const uint32_t STAGES,
                        uint8_t *stages, uint64_t *full, uint64_t *empty, uint32_t tiles)
{
    struct ring at = {0, 1}; /* of a ring that was never filled all stages are empty */
    for (uint32_t tile = blockIdx.x; tile < tiles * a->parts; tile += gridDim.x) {
        const struct product_piece p = piece_at(a, a->pass, PACKED_ROWS, COLS, tile % tiles, tile / tiles);
        if (p.row >= p.rows) continue;
        const uint32_t left = side_bytes(p.row, p.rows, PACKED_ROWS), right = side_bytes(p.col, p.cols, COLS),
                       steps = piece_steps(&p, bytes), first = p.begin / STAGE_TERMS(bytes);
        for (uint32_t step = 0; step < steps; step++) {
            uint8_t *to = stages + at.stage * STAGE_BYTES(COLS);
            barrier_wait(&empty[at.stage], at.parity);
            barrier_expect(&full[at.stage], left + right);
            bulk_copy(to, side_at(&a->left, p.row, first + step), left, &full[at.stage]);
            bulk_copy(to + PACKED_LEFT_BYTES, side_at(&a->right, p.col, first + step), right, &full[at.stage]);
            ring_step(&at, STAGES);
        }
    }
}

/* Where a warp's sums lie on their way out: [16 rows][PACKED_END_COLS], eight columns at a time placed by row, so that what is written or read at a
 * time lies in banks of its own. */
DEVICE uint32_t end_at(uint32_t row, uint32_t col) { return row * PACKED_END_COLS + (col ^ row % 4 * 8); }

/* The end of four columns of a lane's four rows, every fourth of a warp's 16: what sums_end does, four at a time. */
DEVICE void fours_forward(const struct product_args *a, const struct product_piece *p, const float *own,
                          uint32_t first_row, uint32_t first_col)
{
    const uint32_t lane = threadIdx.x % WARP_LANES, col = first_col + lane % 8 * 4;
    float bias[4] = {0};
    UNROLL for (uint32_t j = 0; j < 4; j++) if (a->bias) bias[j] = a->bias[col + j];
    ROLL for (uint32_t i = lane / 8; i < 16 && first_row + i < p->rows; i += 4)
    {
        float4 x = *(const float4 *)&own[end_at(i, lane % 8 * 4)];
        if (a->bias) x.x += bias[0], x.y += bias[1], x.z += bias[2], x.w += bias[3];
        x.x = gpu_activation(a->activation, a->slope, x.x);
        x.y = gpu_activation(a->activation, a->slope, x.y);
        x.z = gpu_activation(a->activation, a->slope, x.z);
        x.w = gpu_activation(a->activation, a->slope, x.w);
        *(float4 *)sums_to(a, p, first_row + i, col) = x;
    }
}
DEVICE void fours_backward(const struct product_args *a, const struct product_piece *p, const float *own,
                           uint32_t first_row, uint32_t first_col)
{
    const uint32_t lane = threadIdx.x % WARP_LANES, row = first_row + lane / 8, col = first_col + lane % 8 * 4;
    const bool has_slope = a->pass == PASS_OF_DIN && a->activation;
    float4 out[4], old[4]; /* all are asked for before the first is needed */
    UNROLL for (uint32_t i = 0; i < 4; i++)
    {
        out[i] = old[i] = (float4){0, 0, 0, 0};
        if (row + 4 * i >= p->rows) continue;
        if (has_slope) out[i] = *(const float4 *)(factor_row(&a->output, row + 4 * i) + col);
        if (a->adds) old[i] = *(const float4 *)sums_to(a, p, row + 4 * i, col);
    }
    UNROLL for (uint32_t i = 0; i < 4; i++)
    {
        float4 x = *(const float4 *)&own[end_at(lane / 8 + 4 * i, lane % 8 * 4)];
        if (row + 4 * i >= p->rows) continue;
        if (has_slope) {
            x.x *= gpu_slope(a->activation, a->slope, out[i].x);
            x.y *= gpu_slope(a->activation, a->slope, out[i].y);
            x.z *= gpu_slope(a->activation, a->slope, out[i].z);
            x.w *= gpu_slope(a->activation, a->slope, out[i].w);
        }
        if (a->adds) x.x += old[i].x, x.y += old[i].y, x.z += old[i].z, x.w += old[i].w;
        *(float4 *)sums_to(a, p, row + 4 * i, col) = x;
    }
}

/* The sums of a warp's 16 rows. What becomes of them is there once, not once a column: it is run rarely, from memory of instructions that is far away
 * (a tile's end took 20 us where the compiler had copied it 32 times, H100). */
DEVICE void packed_end(const struct product_args *a, const struct product_piece *p, const uint32_t COLS,
                       const float *sum, float *own, uint32_t first_row)
{
    const uint32_t lane = threadIdx.x % WARP_LANES;
    const bool is_aligned =
        a->result.is_aligned && (a->pass != PASS_OF_DIN || a->activation == 0 || a->output.is_aligned);
    ROLL for (uint32_t part = 0; part < COLS / PACKED_END_COLS; part++)
    {
        const uint32_t first_col = p->col + part * PACKED_END_COLS;
        if (first_col >= p->cols) break;
        __syncwarp();
        UNROLL for (uint32_t i = 0; i < COLS / PACKED_END_COLS; i++)
        {
            if (i != part) continue; /* registers have no number that is known later */
            UNROLL for (uint32_t j = 0; j < PACKED_END_COLS / 8; j++) UNROLL for (uint32_t h = 0; h < 2; h++)
            {
                const float *two = &sum[i * (PACKED_END_COLS / 2) + 4 * j + 2 * h];
                *(float2 *)&own[end_at(lane / 4 + 8 * h, 8 * j + lane % 4 * 2)] = (float2){two[0], two[1]};
            }
        }
        __syncwarp();
        if (!is_aligned || first_col + PACKED_END_COLS > p->cols)
            ROLL for (uint32_t e = lane; e < 16 * PACKED_END_COLS; e += WARP_LANES)
            {
                const float x = own[end_at(e / PACKED_END_COLS, e % PACKED_END_COLS)];
                sums_end(a, a->pass, p, first_row + e / PACKED_END_COLS, first_col + e % PACKED_END_COLS, 1, &x);
            }
        else if (a->pass == PASS_OF_FORWARD)
            fours_forward(a, p, own, first_row, first_col);
        else
            fours_backward(a, p, own, first_row, first_col);
    }
}

/* One of the two groups of four warps. */
DEVICE void packed_multiply(const struct product_args *a, const uint32_t bytes, const uint32_t COLS,
                            const uint32_t STAGES, const uint8_t *stages, uint64_t *full, uint64_t *empty, float *ends,
                            uint32_t tiles)
{
    const uint32_t warp = threadIdx.x / WARP_LANES, group = threadIdx.x / GROUP_THREADS;
    const bool is_first_lane = threadIdx.x % WARP_LANES == 0;
    struct ring at = {0, 0};
    for (uint32_t tile = blockIdx.x; tile < tiles * a->parts; tile += gridDim.x) {
        const struct product_piece p = piece_at(a, a->pass, PACKED_ROWS, COLS, tile % tiles, tile / tiles);
        if (p.row >= p.rows) continue;
        const uint32_t steps = piece_steps(&p, bytes);
        uint32_t before = 0;
        float sum[PACKED_COLS_MOST / 2];
        UNROLL for (uint32_t i = 0; i < COLS / 2; i++) sum[i] = 0;
        for (uint32_t step = 0; step < steps; step++) {
            const uint8_t *left = stages + at.stage * STAGE_BYTES(COLS) + group * PACKED_BLOCK_BYTES,
                          *right = stages + at.stage * STAGE_BYTES(COLS) + PACKED_LEFT_BYTES;
            barrier_wait(&full[at.stage], at.parity);
            group_begin();
            UNROLL for (uint32_t k = 0; k < 128; k += 32) group_multiply(sum, COLS, bytes, left + k, right + k);
            group_close();
            group_wait(1);
            if (step > 0 && is_first_lane) barrier_arrive(&empty[before]);
            before = at.stage;
            ring_step(&at, STAGES);
        }
        group_wait(0);
        group_take(sum, COLS / 2);
        if (steps > 0 && is_first_lane) barrier_arrive(&empty[before]);
        packed_end(a, &p, COLS, sum, ends + warp * 16 * PACKED_END_COLS, p.row + warp * 16);
    }
}

DEVICE void packed_product(const struct product_args *a, const uint32_t bytes, const uint32_t COLS,
                           const uint32_t STAGES, uint8_t *shared)
{
#if defined(__CUDACC__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
    __trap(); /* kind_of (gpu/product.c) chooses other kernels there: nothing to compile */
#else
    float *ends = (float *)(shared + STAGES * STAGE_BYTES(COLS));
    uint64_t *full = (uint64_t *)(ends + PACKED_ROWS * PACKED_END_COLS), *empty = full + STAGES;
    const uint32_t tiles = (a->rows + PACKED_ROWS - 1) / PACKED_ROWS * ((a->cols + COLS - 1) / COLS);
    if (threadIdx.x == 0) {
        for (uint32_t s = 0; s < STAGES; s++) {
            barrier_init(&full[s], 1);
            barrier_init(&empty[s], PACKED_WARPS);
        }
        barriers_open();
    }
    __syncthreads();
    if (threadIdx.x < 2 * GROUP_THREADS)
        packed_multiply(a, bytes, COLS, STAGES, shared, full, empty, ends, tiles);
    else if (threadIdx.x == 2 * GROUP_THREADS)
        packed_copy(a, bytes, COLS, STAGES, shared, full, empty, tiles);
#endif
}

#define PACKED_PRODUCT(name, bytes, COLS, STAGES, blocks)                                                              \
    KERNEL_BOUND_ROOM(name, PACKED_THREADS, blocks)                                                                    \
    {                                                                                                                  \
        SHARED_LARGE(uint8_t, shared, PACKED_BYTES(COLS, STAGES));                                                     \
        packed_product(&a, bytes, COLS, STAGES, shared);                                                               \
    }

#endif
