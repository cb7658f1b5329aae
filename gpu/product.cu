/* Products in float32 by fused multiply-adds. A block of 256 threads computes a tile of 16 TM x 16 TN sums, a
 * thread TM x TN of them; the factors pass through shared memory, DEPTH terms a stage, STAGES stages: while
 * one stage is multiplied, the copies of three are under way.
 *
 *     shared: left [stage][DEPTH][16 TM + 4], right likewise: a term after another, so that a thread's
 *     rows and columns are taken four at a time; with the 4 the copies of factors whose terms are
 *     neighbours in memory meet no bank twice.
 *
 * Each sum adds its terms in order, one after another, in any tile: results are the same bits every time. */
#include "gpu/each.h"
#include "gpu/product_tile.h"

#define DEPTH             8u
#define STAGES            4u
#define SIDE_STRIDE(each) (16 * (each) + 4)
#define SIDE_FLOATS(each) (STAGES * DEPTH * SIDE_STRIDE(each))

/* Where the rows of a factor are those of the tile: eight threads copy eight neighbouring terms of a row. */
#define WALK_ROWS (PRODUCT_THREADS / DEPTH)
struct walk {
    const float *row[4]; /* at the piece's first term, and this thread's within it    */
    uint32_t is_inside;  /* bit j: row[j] is inside the factor */
};
DEVICE struct walk walk_of(const struct product_factor *f, const uint32_t each, uint32_t first, uint32_t count)
{
    struct walk w = {{(const float *)0}, 0};
    UNROLL for (uint32_t j = 0; j < (16 * each + WALK_ROWS - 1) / WALK_ROWS; j++)
    {
        const uint32_t i = first + threadIdx.x / DEPTH + j * WALK_ROWS;
        const bool is_inside = i < count;
        w.row[j] = is_inside ? factor_row(f, i) + threadIdx.x % DEPTH : (const float *)f->data;
        w.is_inside |= (is_inside ? 1u : 0u) << j;
    }
    return w;
}
/* to[t][i] = row[i][begin + t] */
DEVICE void rows_copy(float *to, const struct walk *w, const uint32_t each, uint32_t begin, uint32_t end)
{
    const uint32_t t = threadIdx.x % DEPTH;
    UNROLL for (uint32_t j = 0; j < (16 * each + WALK_ROWS - 1) / WALK_ROWS; j++)
    {
        const uint32_t i = threadIdx.x / DEPTH + j * WALK_ROWS;
        const bool is_inside = begin + t < end && (w->is_inside >> j & 1);
        if (16 * each >= WALK_ROWS || i < 16 * each)
            tile_copy(&to[t * SIDE_STRIDE(each) + i], w->row[j] + (is_inside ? begin : 0), 4, is_inside ? 4 : 0);
    }
}
/* Where the factor's rows are terms: to[t][i] = f[begin + t][first + i]. */
DEVICE void terms_copy(float *to, const struct product_factor *f, const uint32_t each, uint32_t first, uint32_t count,
                       uint32_t begin, uint32_t end)
{
    const uint32_t side = 16 * each;
    if (f->is_aligned) {
        for (uint32_t e = threadIdx.x; e < DEPTH * side / 4; e += PRODUCT_THREADS) {
            const uint32_t t = e / (side / 4), i = e % (side / 4) * 4;
            const uint32_t there = begin + t < end && first + i < count ? min(count - first - i, 4u) : 0;
            const float *from = there ? factor_row(f, begin + t) + first + i : (const float *)f->data;
            tile_copy(&to[t * SIDE_STRIDE(each) + i], from, 16, 4 * there);
        }
    } else {
        for (uint32_t e = threadIdx.x; e < DEPTH * side; e += PRODUCT_THREADS) {
            const uint32_t t = e / side, i = e % side;
            const bool is_inside = begin + t < end && first + i < count;
            const float *from = is_inside ? factor_row(f, begin + t) + first + i : (const float *)f->data;
            tile_copy(&to[t * SIDE_STRIDE(each) + i], from, 4, is_inside ? 4 : 0);
        }
    }
}

/* A thread's rows or columns of a term: one, four neighbours, or eight,
 * the last four half a tile further on. */
DEVICE void sides_take(float x[8], const float *from, const uint32_t each)
{
    if (each == 1) {
        x[0] = *from;
        return;
    }
    UNROLL for (uint32_t h = 0; h < each / 4; h++)
    {
        const float4 four = *(const float4 *)(from + h * 64);
        x[4 * h] = four.x;
        x[4 * h + 1] = four.y;
        x[4 * h + 2] = four.z;
        x[4 * h + 3] = four.w;
    }
}
DEVICE uint32_t side_at(uint32_t number, const uint32_t each) { return each == 1 ? number : 4 * number; }

DEVICE void piece_multiply(const struct product_args *a, const struct product_piece p, const uint32_t pass,
                           const uint32_t TM, const uint32_t TN, float *left, float *right)
{
    /* A warp has 4 x 8 threads, so that its reads of a term meet no bank twice. */
    const uint32_t warp = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES,
                   row = side_at(warp / 2 * 4 + lane / 8, TM), col = side_at(warp % 2 * 8 + lane % 8, TN);
    struct walk left_walk = {{(const float *)0}, 0}, right_walk = {{(const float *)0}, 0};
    if (!left_is_terms(pass)) left_walk = walk_of(&a->left, TM, p.row, p.rows);
    if (!right_is_terms(pass)) right_walk = walk_of(&a->right, TN, p.col, p.cols);
    float sum[8][8];
    UNROLL for (uint32_t i = 0; i < TM; i++) UNROLL for (uint32_t j = 0; j < TN; j++) sum[i][j] = 0;

    for (uint32_t step = 0, begin = p.begin; tile_is_left(&p, step, begin, DEPTH, STAGES); step++, begin += DEPTH) {
        tile_step_await(step, STAGES);
        if (begin < p.end) {
            float *l = left + step % STAGES * DEPTH * SIDE_STRIDE(TM),
                  *r = right + step % STAGES * DEPTH * SIDE_STRIDE(TN);
            if (left_is_terms(pass))
                terms_copy(l, &a->left, TM, p.row, p.rows, begin, p.end);
            else
                rows_copy(l, &left_walk, TM, begin, p.end);
            if (right_is_terms(pass))
                terms_copy(r, &a->right, TN, p.col, p.cols, begin, p.end);
            else
                rows_copy(r, &right_walk, TN, begin, p.end);
        }
        tile_copies_close();
        if (step < STAGES - 1) continue;
        const uint32_t stage = (step + 1) % STAGES;
        const float *l = left + stage * DEPTH * SIDE_STRIDE(TM) + row,
                    *r = right + stage * DEPTH * SIDE_STRIDE(TN) + col;
        UNROLL for (uint32_t k = 0; k < DEPTH; k++)
        {
            float x[8], y[8];
            sides_take(x, l + k * SIDE_STRIDE(TM), TM);
            sides_take(y, r + k * SIDE_STRIDE(TN), TN);
            UNROLL for (uint32_t i = 0; i < TM; i++) UNROLL for (uint32_t j = 0; j < TN; j++) sum[i][j] =
                __fmaf_rn(x[i], y[j], sum[i][j]);
        }
    }
    UNROLL for (uint32_t i = 0; i < TM; i++) UNROLL for (uint32_t h = 0; h < (TN + 3) / 4; h++)
        sums_end(a, pass, &p, p.row + row + i % 4 + i / 4 * 64, p.col + col + h * 64, TN == 1 ? 1 : 4, &sum[i][4 * h]);
}

DEVICE void f32_product(const struct product_args *a, const uint32_t pass, const uint32_t TM, const uint32_t TN,
                        float *left, float *right)
{
    struct product_piece p = piece_of(a, pass, 16 * TM, 16 * TN);
    if (p.row >= p.rows) return;
    if (pass == PASS_OF_FORWARD && a->part_terms) {
        p.begin = p.part * a->part_terms;
        p.end = min(p.begin + a->part_terms, a->terms);
    }
    piece_multiply(a, p, pass, TM, TN, left, right);
}

/* The run in which a tile of `side` rows lies, and its first row; `count`: there is no such tile. */
DEVICE uint32_t run_of(const struct product_runs_args *runs, uint32_t tile, const uint32_t side, uint32_t *row)
{
    const uint32_t lane = threadIdx.x % WARP_LANES;
    uint32_t before = 0;
    for (uint32_t first = 0; first < runs->count; first += WARP_LANES) {
        const uint32_t run = first + lane, begin = run < runs->count ? runs->begin[run] : 0,
                       rows = run < runs->count ? runs->begin[run + 1] - begin : 0, tiles = (rows + side - 1) / side,
                       up_to = before + warp_sum_up_to(tiles, lane), behind = __ballot_sync(WARP_ALL, tile < up_to);
        if (behind) {
            const uint32_t found = (uint32_t)__ffs(behind) - 1;
            *row = __shfl_sync(WARP_ALL, begin + (tile - (up_to - tiles)) * side, found);
            return first + found;
        }
        before = __shfl_sync(WARP_ALL, up_to, WARP_LANES - 1);
    }
    return runs->count;
}
DEVICE void runs_product(const struct product_runs_args *runs, const uint32_t pass, const uint32_t TM,
                         const uint32_t TN, float *left, float *right)
{
    const uint32_t col_tiles = (runs->of.cols + 16 * TN - 1) / (16 * TN);
    uint32_t row = 0;
    const uint32_t run = run_of(runs, blockIdx.x / col_tiles, 16 * TM, &row);
    if (run == runs->count) return;
    struct product_args own = runs->of;
    const uint32_t right_rows = right_is_terms(pass) ? own.terms : own.cols;
    own.right.data = (const float *)own.right.data + (size_t)run * right_rows * own.right.stride;
    if (own.bias) own.bias += (size_t)run * own.cols;
    const struct product_piece p = {row, blockIdx.x % col_tiles * 16 * TN, runs->begin[run + 1], own.cols, 0, own.terms,
                                    0};
    piece_multiply(&own, p, pass, TM, TN, left, right);
}

#define F32_PRODUCT(name, pass, TM, TN)                                                                                \
    KERNEL_BOUND(name, PRODUCT_THREADS)                                                                                \
    {                                                                                                                  \
        SHARED(float, left, SIDE_FLOATS(TM));                                                                          \
        SHARED(float, right, SIDE_FLOATS(TN));                                                                         \
        f32_product(&a, pass, TM, TN, left, right);                                                                    \
    }
#define f32_forward_128x128_args product_args
#define f32_forward_64x64_args   product_args
#define f32_forward_64x16_args   product_args
#define f32_din_128x128_args     product_args
#define f32_din_64x64_args       product_args
#define f32_din_64x16_args       product_args
#define f32_dweight_128x128_args product_args
#define f32_dweight_64x64_args   product_args
#define f32_dweight_64x16_args   product_args
F32_PRODUCT(f32_forward_128x128, PASS_OF_FORWARD, 8, 8)
F32_PRODUCT(f32_forward_64x64, PASS_OF_FORWARD, 4, 4)
F32_PRODUCT(f32_forward_64x16, PASS_OF_FORWARD, 4, 1)
F32_PRODUCT(f32_din_128x128, PASS_OF_DIN, 8, 8)
F32_PRODUCT(f32_din_64x64, PASS_OF_DIN, 4, 4)
F32_PRODUCT(f32_din_64x16, PASS_OF_DIN, 4, 1)
F32_PRODUCT(f32_dweight_128x128, PASS_OF_DWEIGHT, 8, 8)
F32_PRODUCT(f32_dweight_64x64, PASS_OF_DWEIGHT, 4, 4)
F32_PRODUCT(f32_dweight_64x16, PASS_OF_DWEIGHT, 4, 1)

#define RUNS_PRODUCT(name, pass, TM, TN)                                                                               \
    KERNEL_BOUND(name, PRODUCT_THREADS)                                                                                \
    {                                                                                                                  \
        SHARED(float, left, SIDE_FLOATS(TM));                                                                          \
        SHARED(float, right, SIDE_FLOATS(TN));                                                                         \
        runs_product(&a, pass, TM, TN, left, right);                                                                   \
    }
#define runs_forward_128x128_args product_runs_args
#define runs_forward_64x64_args   product_runs_args
#define runs_forward_64x16_args   product_runs_args
#define runs_din_128x128_args     product_runs_args
#define runs_din_64x64_args       product_runs_args
#define runs_din_64x16_args       product_runs_args
RUNS_PRODUCT(runs_forward_128x128, PASS_OF_FORWARD, 8, 8)
RUNS_PRODUCT(runs_forward_64x64, PASS_OF_FORWARD, 4, 4)
RUNS_PRODUCT(runs_forward_64x16, PASS_OF_FORWARD, 4, 1)
RUNS_PRODUCT(runs_din_128x128, PASS_OF_DIN, 8, 8)
RUNS_PRODUCT(runs_din_64x64, PASS_OF_DIN, 4, 4)
RUNS_PRODUCT(runs_din_64x16, PASS_OF_DIN, 4, 1)

/* --- factors ---------------------------------------------------------------------------------------- */

/* The nearest TF32, float32 whose lower 13 bits are zeros; of two equally near the one further
 * from zero, like cvt.rna.tf32.f32. */
DEVICE float tf32_round(float x)
{
    const uint32_t bits = __float_as_uint(x), is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    return __uint_as_float((is_nan ? bits | 1u << 22 : bits + 0x1000u) & 0xffffe000u);
}

/* A thread goes down four columns, through every blockDim.y-th row of the part. */
KERNEL_BOUND(factor_prepare, PRODUCT_THREADS)
{
    SHARED(float, sums, 4 * PRODUCT_THREADS);
    const uint32_t col = (blockIdx.x * blockDim.x + threadIdx.x) * 4, begin = blockIdx.y * a.part_rows,
                   end = begin + a.part_rows < a.rows ? begin + a.part_rows : a.rows,
                   rows_there = a.groups ? a.now->example_count * a.groups : a.rows,
                   cols_there = col < a.cols ? min(a.cols - col, 4u) : 0;
    float sum[4] = {0};
    for (uint32_t m = begin + threadIdx.y; m < end && col < a.to_stride; m += blockDim.y) {
        const uint32_t there = m < rows_there ? cols_there : 0;
        float x[4] = {0};
        if (there) four_take(x, factor_row(&a.from, m) + col, there, a.from.is_aligned);
        if (there && a.out.data) {
            float out[4];
            four_take(out, factor_row(&a.out, m) + col, there, a.out.is_aligned);
            for (uint32_t j = 0; j < 4; j++) x[j] *= j < there ? gpu_slope(a.activation, a.slope, out[j]) : 0;
        }
        UNROLL for (uint32_t j = 0; j < 4; j++) sum[j] += x[j];
        if (a.to == (void *)0) continue;
        const size_t at = (size_t)m * a.to_stride + col;
        if (a.kind == FACTOR_BF16) {
            const uint2 four = {bf16_bits(x[0]) >> 16 | bf16_bits(x[1]), bf16_bits(x[2]) >> 16 | bf16_bits(x[3])};
            *(uint2 *)((uint16_t *)a.to + at) = four;
        } else {
            if (a.kind == FACTOR_F32_ROUNDED)
                for (uint32_t j = 0; j < 4; j++) x[j] = __uint_as_float(bf16_bits(x[j]));
            if (a.kind == FACTOR_TF32)
                for (uint32_t j = 0; j < 4; j++) x[j] = tf32_round(x[j]);
            *(float4 *)((float *)a.to + at) = (float4){x[0], x[1], x[2], x[3]};
        }
    }
    if (a.sums == (float *)0) return;
    for (uint32_t j = 0; j < 4; j++) sums[(threadIdx.y * blockDim.x + threadIdx.x) * 4 + j] = sum[j];
    __syncthreads();
    if (threadIdx.y > 0) return;
    for (uint32_t j = 0; j < cols_there; j++) {
        float all = 0;
        for (uint32_t row = 0; row < blockDim.y; row++) all += sums[(row * blockDim.x + threadIdx.x) * 4 + j];
        a.sums[(size_t)blockIdx.y * a.cols + col + j] = all;
    }
}

/* --- packed factors ----------------------------------------------------------------------------------- */

#define PACK_SIDE   64u
#define PACK_STRIDE (PACK_SIDE + 1) /* keeps both ways through the tile from meeting a bank often */
#define PACK_HEIGHT (PRODUCT_THREADS / (PACK_SIDE / 4))
#define PACK_ROWS   (PACK_SIDE / PACK_HEIGHT) /* rows of a thread in a tile */

/* The place of chunk c of a row and a block of terms, in a factor packed in `stride` rows. */
DEVICE uint8_t *chunk_at(void *to, uint32_t stride, uint32_t row, uint32_t block, uint32_t c)
{
    return (uint8_t *)to +
           ((size_t)block * (stride / PACKED_BLOCK_ROWS) + row / PACKED_BLOCK_ROWS) * PACKED_BLOCK_BYTES +
           row % PACKED_BLOCK_ROWS * 128 + (c ^ row % 8) * 16;
}
DEVICE uint32_t bf16_two(float low, float high) { return bf16_bits(low) >> 16 | bf16_bits(high); }

/* Packs four neighbouring terms of a row. */
DEVICE void four_pack(const struct pack_factor *packed, uint32_t kind, uint32_t row, uint32_t term, const float x[4])
{
    const uint32_t numbers = kind == FACTOR_BF16 ? 8 : 4, block = term / (8 * numbers), c = term / numbers % 8;
    uint8_t *to = chunk_at(packed->rows_to, packed->rows_stride, row, block, c);
    if (block * 8 * numbers >= packed->cols) return;
    if (kind == FACTOR_BF16)
        *(uint2 *)(to + term % 8 * 2) = (uint2){bf16_two(x[0], x[1]), bf16_two(x[2], x[3])};
    else
        *(float4 *)to = (float4){tf32_round(x[0]), tf32_round(x[1]), tf32_round(x[2]), tf32_round(x[3])};
}
/* Packs the tile's columns as rows: each lane takes a chunk at a time, of neighbouring rows of the tile. */
DEVICE void tile_pack(const struct pack_factor *packed, uint32_t kind, const float *tile, uint32_t first_row,
                      uint32_t first_col)
{
    const uint32_t numbers = kind == FACTOR_BF16 ? 8 : 4, chunks = PACK_SIDE / numbers, lanes = 32 / numbers;
    for (uint32_t e = threadIdx.y * blockDim.x + threadIdx.x; e < PACK_SIDE * chunks; e += PRODUCT_THREADS) {
        const uint32_t c = e % lanes + e / (lanes * PACK_SIDE) * lanes, i = e / lanes % PACK_SIDE,
                       block = first_row / (8 * numbers) + c / 8;
        const float *x = &tile[c * numbers * PACK_STRIDE + i];
        uint8_t *to = chunk_at(packed->terms_to, packed->terms_stride, first_col + i, block, c % 8);
        if (block * 8 * numbers >= packed->rows) continue;
        if (kind == FACTOR_BF16)
            *(uint4 *)to = (uint4){bf16_two(x[0], x[PACK_STRIDE]), bf16_two(x[2 * PACK_STRIDE], x[3 * PACK_STRIDE]),
                                   bf16_two(x[4 * PACK_STRIDE], x[5 * PACK_STRIDE]),
                                   bf16_two(x[6 * PACK_STRIDE], x[7 * PACK_STRIDE])};
        else
            *(float4 *)to = (float4){tf32_round(x[0]), tf32_round(x[PACK_STRIDE]), tf32_round(x[2 * PACK_STRIDE]),
                                     tf32_round(x[3 * PACK_STRIDE])};
    }
}

/* A block goes down 64 columns, a tile of 64 rows at a time, to the last row; the last tile has zeros behind
 * the rows and beside the columns. */
DEVICE void factor_go(const struct factor_pack_args *args, const struct pack_factor *packed, uint32_t block,
                      float *tile)
{
    const uint32_t col_blocks = (packed->cols + PACK_SIDE - 1) / PACK_SIDE, part = block / col_blocks,
                   first_col = block % col_blocks * PACK_SIDE, col = first_col + threadIdx.x * 4,
                   begin = part * packed->part_rows,
                   rows_there = packed->groups ? args->now->example_count * packed->groups : packed->rows,
                   end = min(begin + packed->part_rows, rows_there),
                   cols_there = col < packed->cols ? min(packed->cols - col, 4u) : 0;
    float sum[4] = {0};
    for (uint32_t first = begin; first < end; first += PACK_SIDE) {
        float x[PACK_ROWS][4], out[PACK_ROWS][4];
        UNROLL for (uint32_t i = 0; i < PACK_ROWS; i++)
        {
            const uint32_t m = first + threadIdx.y + i * PACK_HEIGHT, there = m < rows_there ? cols_there : 0;
            four_take(x[i], there ? factor_row(&packed->from, m) + col : (const float *)0, there,
                      packed->from.is_aligned);
            const uint32_t has_slope = packed->out.data ? there : 0;
            four_take(out[i], has_slope ? factor_row(&packed->out, m) + col : (const float *)0, has_slope,
                      packed->out.is_aligned);
        }
        UNROLL for (uint32_t i = 0; i < PACK_ROWS; i++)
        {
            const uint32_t row = threadIdx.y + i * PACK_HEIGHT, there = first + row < rows_there ? cols_there : 0;
            UNROLL for (uint32_t j = 0; j < 4; j++)
            {
                if (packed->out.data) x[i][j] *= j < there ? gpu_slope(args->activation, args->slope, out[i][j]) : 0;
                sum[j] += x[i][j];
                if (packed->terms_to) tile[row * PACK_STRIDE + threadIdx.x * 4 + j] = x[i][j];
            }
            if (packed->rows_to) four_pack(packed, args->kind, first + row, col, x[i]);
        }
        if (packed->terms_to == (void *)0) continue;
        __syncthreads();
        tile_pack(packed, args->kind, tile, first, first_col);
        __syncthreads();
    }
    if (packed->sums == (float *)0) return;
    UNROLL for (uint32_t j = 0; j < 4; j++) tile[threadIdx.y * PACK_SIDE + threadIdx.x * 4 + j] = sum[j];
    __syncthreads();
    if (threadIdx.y > 0) return;
    for (uint32_t j = 0; j < cols_there; j++) {
        float all = 0;
        for (uint32_t row = 0; row < PACK_HEIGHT; row++) all += tile[row * PACK_SIDE + threadIdx.x * 4 + j];
        packed->sums[(size_t)part * packed->cols + col + j] = all;
    }
}

KERNEL_BOUND(factor_pack, PRODUCT_THREADS)
{
    SHARED(float, tile, PACK_SIDE *PACK_STRIDE);
    uint32_t which = 0, block = blockIdx.x;
    while (block >= a.factor[which].blocks) block -= a.factor[which++].blocks;
    factor_go(&a, &a.factor[which], block, tile);
}

KERNEL(parts_add)
{
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += gridDim.x * blockDim.x) {
        float sum = 0;
        UNROLL for (uint32_t part = 0; part < a.part_count; part++) sum += a.parts[(size_t)part * a.count + i];
        a.to[i] += sum;
    }
}

KERNEL_BOUND(ranges_sum, RANGES_COLS *RANGES_ROWS)
{
    SHARED(float, sums, RANGES_COLS *RANGES_ROWS);
    const uint32_t col = blockIdx.x * RANGES_COLS + threadIdx.x, end = a.begin[blockIdx.y + 1];
    float sum = 0;
    for (uint32_t row = a.begin[blockIdx.y] + threadIdx.y; row < end && col < a.cols; row += RANGES_ROWS)
        sum += a.from[(size_t)row * a.stride + col];
    sums[threadIdx.y * RANGES_COLS + threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y > 0 || col >= a.cols) return;
    for (uint32_t i = 1; i < RANGES_ROWS; i++) sum += sums[i * RANGES_COLS + threadIdx.x];
    a.to[(size_t)blockIdx.y * a.cols + col] += sum;
}
