/* Products of packed factors (factor_pack) on cards of compute capability 9.0: tiles of 128 x COLS sums; each
 * of two groups of four warps computes 64 rows. Another thread copies the factors into a ring of STAGES
 * stages, 128 bytes of terms each, as far ahead as there is room, also into the next tile. Kernels only.
 *
 *     stage     left   two blocks of 64 rows           full    the stage's bytes are there        (gpu/wgmma.h)
 *               right  COLS / 64 blocks of 64 columns  empty   all eight warps have multiplied its bytes
 *
 * A block of the grid goes through its own tiles, in steps of the grid. At the end of a tile each warp moves
 * its sums from registers through shared memory, so that neighbouring lanes store neighbouring columns.
 *
 * In any tile each sum adds its terms in order, 32 bytes of terms at a time; the card
 * orders the terms of one wgmma. */
#ifndef HETERPS_GPU_PRODUCT_PACKED_H
#define HETERPS_GPU_PRODUCT_PACKED_H

#include "gpu/product_tile.h"
#include "gpu/wgmma.h"

#define STAGE_TERMS(bytes) (128 / (bytes))
#define STAGE_BYTES(COLS)  ((PACKED_ROWS + (COLS)) * 128)
#define PACKED_WARPS       8u /* that multiply */
#define PACKED_LEFT_BYTES  (PACKED_ROWS * 128)
#define PACKED_COLS_MOST   256

/* A block's place in its ring. */
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
/* Bytes of a factor's block of terms for the tile that begins at row `first`: existing blocks of rows. */
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

/* The state of a block. */
struct packed_block {
    uint8_t *stages;
    float *ends; /* [warp][16 * PACKED_END_COLS] */
    uint64_t *full, *empty;
    uint32_t tiles, micro_rows; /* tiles: of a part */
};
DEVICE struct product_piece packed_piece(const struct product_args *a, const struct packed_block *b,
                                         const uint32_t COLS, uint32_t tile)
{
    return piece_at(a, a->pass, PACKED_ROWS, COLS, b->micro_rows, tile % b->tiles, tile / b->tiles);
}

/* One thread: does all copies of the block's tiles. */
DEVICE void packed_copy(const struct product_args *a, const uint32_t bytes, const uint32_t COLS, const uint32_t STAGES,
                        const struct packed_block *b)
{
    struct ring at = {0, 1}; /* all stages of a new ring are empty */
    for (uint32_t tile = blockIdx.x; tile < b->tiles * a->parts; tile += gridDim.x) {
        const struct product_piece p = packed_piece(a, b, COLS, tile);
        if (p.row >= p.rows) continue;
        const uint32_t left = side_bytes(p.row, p.rows, PACKED_ROWS), right = side_bytes(p.col, p.cols, COLS),
                       steps = piece_steps(&p, bytes), first = p.begin / STAGE_TERMS(bytes);
        for (uint32_t step = 0; step < steps; step++) {
            uint8_t *to = b->stages + at.stage * STAGE_BYTES(COLS);
            barrier_wait(&b->empty[at.stage], at.parity);
            barrier_expect(&b->full[at.stage], left + right);
            bulk_copy(to, side_at(&a->left, p.row, first + step), left, &b->full[at.stage]);
            bulk_copy(to + PACKED_LEFT_BYTES, side_at(&a->right, p.col, first + step), right, &b->full[at.stage]);
            ring_step(&at, STAGES);
        }
    }
}

/* --- the end of a tile ---------------------------------------------------------------------------------- */

/* A warp's 16 rows of sums go out 32 columns at a time, through shared memory: [16][PACKED_END_COLS], with
 * eight columns at a time placed by row, so that no two accesses at one time share a bank. A lane then takes
 * four columns of every fourth row. This work delays the products of a narrow layer, so it is kept small: few
 * instructions, one chain of them for each number. */
struct tile_end {
    float *to; /* a lane's four columns of its first row */
    const float *out;
    uint32_t to_step, out_step; /* from row to row, in floats */
    uint32_t rows_left;         /* existing rows from the first on */
    uint32_t there;             /* existing ones of the four columns */
};
DEVICE float *end_place(float *own, uint32_t row, uint32_t col)
{
    return own + row * PACKED_END_COLS + (col ^ row % 4 * 8);
}
DEVICE uint32_t rows_step(uint32_t stride, uint32_t width, uint32_t groups) { return groups == 1 ? stride : width; }
/* Whether all rows have the same step between them. */
DEVICE bool is_even(uint32_t stride, uint32_t width, uint32_t groups)
{
    return groups == 1 || stride == groups * width;
}
DEVICE struct tile_end end_of(const struct product_args *a, const struct product_piece *p, uint32_t first_row)
{
    const uint32_t lane = threadIdx.x % WARP_LANES, row = first_row + lane / 8, col = p->col + lane % 8 * 4;
    struct tile_end e = {sums_to(a, p, 0, col), (const float *)a->output.data + col, 4, 4, 0, 0};
    e.to_step = rows_step(a->result.stride, a->result.width, a->result.groups);
    e.out_step = rows_step(a->output.stride, a->output.width, a->output.groups);
    e.to += (size_t)row * e.to_step;
    e.out += (size_t)row * e.out_step;
    e.rows_left = row < p->rows ? p->rows - row : 0;
    return e;
}
DEVICE void end_take(float x[4], const float *own, uint32_t row) { four_take(x, own + row * PACKED_END_COLS, 4, true); }
DEVICE void end_give(const struct product_args *a, const struct tile_end *e, uint32_t row, const float x[4])
{
    if (row < e->rows_left) four_give(e->to + (size_t)row * e->to_step, x, e->there, a->result.is_aligned);
}

/* Takes `rows` of a lane's four rows at a time, as registers allow. */
DEVICE void fours_forward(const struct product_args *a, const struct tile_end *e, const float *own, const float *bias,
                          const uint32_t rows)
{
    const bool is_relu = a->activation == 1;
    const float slope = a->activation == 0 ? 1 : a->slope;
    float biases[4];
    four_take(biases, bias, bias ? e->there : 0, false);
    if (a->activation > 2) {
        ROLL for (uint32_t i = 0; i < 4; i++)
        {
            float x[4];
            end_take(x, own, 4 * i);
            UNROLL for (uint32_t j = 0; j < 4; j++) x[j] =
                gpu_activation(a->activation, a->slope, bias ? x[j] + biases[j] : x[j]);
            end_give(a, e, 4 * i, x);
        }
        return;
    }
    UNROLL for (uint32_t first = 0; first < 4; first += rows)
    {
        float x[4][4];
        UNROLL for (uint32_t i = 0; i < rows; i++) end_take(x[i], own, 4 * (first + i));
        UNROLL for (uint32_t i = 0; i < rows; i++) UNROLL for (uint32_t j = 0; j < 4; j++)
        {
            if (bias) x[i][j] += biases[j];
            const float low = is_relu ? 0 : x[i][j] * slope;
            x[i][j] = x[i][j] < 0 ? low : x[i][j];
        }
        UNROLL for (uint32_t i = 0; i < rows; i++) end_give(a, e, 4 * (first + i), x[i]);
    }
}
DEVICE void fours_backward(const struct product_args *a, const struct tile_end *e, const float *own,
                           const uint32_t rows)
{
    const bool has_slope = a->pass == PASS_OF_DIN && a->activation;
    const float low = a->activation == 1 ? 0 : a->slope;
    UNROLL for (uint32_t first = 0; first < 4; first += rows)
    {
        float out[4][4], old[4][4]; /* all loads begin before the first is needed */
        UNROLL for (uint32_t i = 0; i < rows; i++)
        {
            const uint32_t row = 4 * (first + i), there = row < e->rows_left ? e->there : 0;
            four_take(out[i], e->out + (size_t)row * e->out_step, has_slope ? there : 0, a->output.is_aligned);
            four_take(old[i], e->to + (size_t)row * e->to_step, a->adds ? there : 0, a->result.is_aligned);
        }
        UNROLL for (uint32_t i = 0; i < rows; i++)
        {
            float x[4];
            end_take(x, own, 4 * (first + i));
            if (has_slope && a->activation <= 2)
                UNROLL for (uint32_t j = 0; j < 4; j++) x[j] *= out[i][j] > 0 ? 1 : low;
            if (has_slope && a->activation > 2)
                UNROLL for (uint32_t j = 0; j < 4; j++) x[j] *= gpu_slope(a->activation, a->slope, out[i][j]);
            if (a->adds) UNROLL for (uint32_t j = 0; j < 4; j++) x[j] += old[i][j];
            end_give(a, e, 4 * (first + i), x);
        }
    }
}

/* sum: the thread's sums of its group's; own: shared memory of the warp. The columns go in a
 * loop. Only the code that fills shared memory is unrolled for each of them, because registers
 * cannot be indexed at run time. */
DEVICE void packed_end(const struct product_args *a, const struct product_piece *p, const uint32_t COLS,
                       const float *sum, float *own, uint32_t first_row)
{
    const uint32_t lane = threadIdx.x % WARP_LANES;
    const float *from = end_place(own, lane / 8, lane % 8 * 4);
    const bool is_whole =
        is_even(a->result.stride, a->result.width, a->result.groups) &&
        (a->pass != PASS_OF_DIN || a->activation == 0 || is_even(a->output.stride, a->output.width, a->output.groups));
    struct tile_end e = end_of(a, p, first_row);
    ROLL for (uint32_t part = 0; part < COLS / PACKED_END_COLS; part++)
    {
        const uint32_t first_col = p->col + part * PACKED_END_COLS;
        if (first_col >= p->cols) break;
        __syncwarp();
        UNROLL for (uint32_t i = 0; i < COLS / PACKED_END_COLS; i++)
        {
            if (i != part) continue;
            UNROLL for (uint32_t j = 0; j < PACKED_END_COLS / 8; j++) UNROLL for (uint32_t h = 0; h < 2; h++)
            {
                const float *two = &sum[i * (PACKED_END_COLS / 2) + 4 * j + 2 * h];
                float *to = end_place(own, lane / 4, 8 * j + lane % 4 * 2) + h * 8 * PACKED_END_COLS;
                *(float2 *)to = (float2){two[0], two[1]};
            }
        }
        __syncwarp();
        const uint32_t left = p->cols - first_col, before = lane % 8 * 4;
        e.there = left > before ? min(left - before, 4u) : 0;
        if (!is_whole) ROLL for (uint32_t n = lane; n < 16 * PACKED_END_COLS; n += WARP_LANES)
            {
                const float x = *end_place(own, n / PACKED_END_COLS, n % PACKED_END_COLS);
                sums_end(a, a->pass, p, first_row + n / PACKED_END_COLS, first_col + n % PACKED_END_COLS, 1, &x);
            }
        else if (a->pass == PASS_OF_FORWARD)
            fours_forward(a, &e, from, a->bias ? a->bias + first_col + before : (const float *)0, COLS == 256 ? 4 : 2);
        else
            fours_backward(a, &e, from, COLS == 256 ? 4 : COLS == 128 ? 1 : 2);
        e.to += PACKED_END_COLS;
        e.out += PACKED_END_COLS;
    }
}
/* Prefetches the memory that the end of a tile reads. */
DEVICE void packed_expect(const struct product_args *a, const struct product_piece *p, const uint32_t COLS,
                          uint32_t first_row)
{
    const bool has_out = a->pass == PASS_OF_DIN && a->activation;
    if (a->pass == PASS_OF_FORWARD || !(has_out || a->adds)) return;
    for (uint32_t n = threadIdx.x % WARP_LANES; n < 16 * (COLS / 32); n += WARP_LANES) {
        const uint32_t row = first_row + n / (COLS / 32), col = p->col + n % (COLS / 32) * 32;
        if (row >= p->rows || col >= p->cols) continue;
        if (has_out) memory_expect(factor_row(&a->output, row) + col);
        if (a->adds) memory_expect(sums_to(a, p, row, col));
    }
}

/* One of the two groups of four warps. */
DEVICE void packed_multiply(const struct product_args *a, const uint32_t bytes, const uint32_t COLS,
                            const uint32_t STAGES, const struct packed_block *b)
{
    const uint32_t warp = threadIdx.x / WARP_LANES, group = threadIdx.x / GROUP_THREADS;
    const bool is_first_lane = threadIdx.x % WARP_LANES == 0;
    struct ring at = {0, 0};
    for (uint32_t tile = blockIdx.x; tile < b->tiles * a->parts; tile += gridDim.x) {
        const struct product_piece p = packed_piece(a, b, COLS, tile);
        if (p.row >= p.rows) continue;
        const uint32_t steps = piece_steps(&p, bytes);
        uint32_t before = 0;
        packed_expect(a, &p, COLS, p.row + warp * 16);
        float sum[PACKED_COLS_MOST / 2];
        UNROLL for (uint32_t i = 0; i < COLS / 2; i++) sum[i] = 0;
        for (uint32_t step = 0; step < steps; step++) {
            const uint8_t *left = b->stages + at.stage * STAGE_BYTES(COLS) + group * PACKED_BLOCK_BYTES,
                          *right = b->stages + at.stage * STAGE_BYTES(COLS) + PACKED_LEFT_BYTES;
            barrier_wait(&b->full[at.stage], at.parity);
            group_begin();
            UNROLL for (uint32_t k = 0; k < 128; k += 32) group_multiply(sum, COLS, bytes, left + k, right + k);
            group_close();
            group_wait(1);
            if (step > 0 && is_first_lane) barrier_arrive(&b->empty[before]);
            before = at.stage;
            ring_step(&at, STAGES);
        }
        group_wait(0);
        group_take(sum, COLS / 2);
        if (steps > 0 && is_first_lane) barrier_arrive(&b->empty[before]);
        packed_end(a, &p, COLS, sum, b->ends + warp * 16 * PACKED_END_COLS, p.row + warp * 16);
    }
}

DEVICE void packed_product(const struct product_args *a, const uint32_t bytes, const uint32_t COLS,
                           const uint32_t STAGES, uint8_t *shared)
{
#if defined(__CUDACC__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
    __trap(); /* kind_of (gpu/product.c) chooses other kernels there: nothing to compile */
#else
    float *ends = (float *)(shared + STAGES * STAGE_BYTES(COLS));
    uint64_t *full = (uint64_t *)(ends + PACKED_ROWS * PACKED_END_COLS);
    const uint32_t tiles = (a->rows + PACKED_ROWS - 1) / PACKED_ROWS * ((a->cols + COLS - 1) / COLS);
    const struct packed_block b = {shared, ends, full, full + STAGES, tiles, micro_rows_of(a)};
    if (threadIdx.x == 0) {
        for (uint32_t s = 0; s < STAGES; s++) {
            barrier_init(&b.full[s], 1);
            barrier_init(&b.empty[s], PACKED_WARPS);
        }
        barriers_open();
    }
    __syncthreads();
    if (threadIdx.x < 2 * GROUP_THREADS) {
        if (PACKED_THREADS(COLS) == 3 * GROUP_THREADS) registers_take();
        packed_multiply(a, bytes, COLS, STAGES, &b);
    } else {
        if (PACKED_THREADS(COLS) == 3 * GROUP_THREADS) registers_give();
        if (threadIdx.x == 2 * GROUP_THREADS) packed_copy(a, bytes, COLS, STAGES, &b);
    }
#endif
}

#define PACKED_PRODUCT(name, bytes, COLS, STAGES, blocks)                                                              \
    KERNEL_BOUND_ROOM(name, PACKED_THREADS(COLS), blocks)                                                              \
    {                                                                                                                  \
        SHARED_LARGE(uint8_t, shared, PACKED_BYTES(COLS, STAGES));                                                     \
        packed_product(&a, bytes, COLS, STAGES, shared);                                                               \
    }

#endif
