/* Products by fused multiply-adds: a block computes a tile of 64 x 64, a thread 4 x 4 of it; the factors pass through shared memory, 16 terms
 * at a time. Each sum has one order, so results are the same bits every time. */
#include "gpu/product.h"

#include "gpu/each.h"
#include "gpu/math.h"

#define EACH   4u /* rows, and columns, of a thread  */
#define SIDE   (PRODUCT_TILE / EACH)
#define STRIDE (PRODUCT_TILE + 4)

/* To the nearest bfloat16, of two to the even one. */
DEVICE float bf16_of(float x)
{
    const uint32_t bits = __float_as_uint(x);
    if (x != x) return x;
    return __uint_as_float((bits + 0x7fffu + (bits >> 16 & 1)) & 0xffff0000u);
}
DEVICE float factor_of(float x, uint32_t is_bf16) { return is_bf16 ? bf16_of(x) : x; }

/* Row m of [B * groups, width]. */
DEVICE const float *group_row(struct gpu_in v, uint32_t m, uint32_t groups, uint32_t width)
{
    return groups == 1 ? in_row(v, m) : in_row(v, m / groups) + m % groups * width;
}
DEVICE float dz_at(const struct fc_dz *dz, uint32_t m, uint32_t n, uint32_t groups, uint32_t N)
{
    const float dy = group_row(dz->dout, m, groups, N)[n];
    return dz->activation ? dy * gpu_slope(dz->activation, dz->slope, group_row(dz->out, m, groups, N)[n]) : dy;
}

/* sum += left[depth][64]^T right[depth][64], this thread's part. */
DEVICE void tiles_multiply(float sum[EACH][EACH], const float *left, const float *right)
{
    const uint32_t row = threadIdx.x / SIDE * EACH, col = threadIdx.x % SIDE * EACH;
    for (uint32_t t = 0; t < PRODUCT_DEPTH; t++) UNROLL
    for (uint32_t i = 0; i < EACH; i++) UNROLL
    for (uint32_t j = 0; j < EACH; j++)
        sum[i][j] = __fmaf_rn(left[t * STRIDE + row + i], right[t * STRIDE + col + j], sum[i][j]);
}

/* Fills a tile: element (t, i) of it is VALUE, or 0 where it lies outside. Neighbouring threads go along i, or along t where that is the
 * direction in which memory runs. */
#define TILE_FILL_ALONG_I(tile, inside, VALUE)                                                                         \
    for (uint32_t e = threadIdx.x; e < PRODUCT_DEPTH * PRODUCT_TILE; e += PRODUCT_THREADS) {                           \
        const uint32_t t = e / PRODUCT_TILE, i = e % PRODUCT_TILE;                                                     \
        tile[t * STRIDE + i] = (inside) ? (VALUE) : 0;                                                                 \
    }
#define TILE_FILL_ALONG_T(tile, inside, VALUE)                                                                         \
    for (uint32_t e = threadIdx.x; e < PRODUCT_DEPTH * PRODUCT_TILE; e += PRODUCT_THREADS) {                           \
        const uint32_t i = e / PRODUCT_DEPTH, t = e % PRODUCT_DEPTH;                                                   \
        tile[t * STRIDE + i] = (inside) ? (VALUE) : 0;                                                                 \
    }

KERNEL_BOUND(fc_forward, PRODUCT_THREADS)
{
    SHARED(float, left, PRODUCT_DEPTH *STRIDE);
    SHARED(float, right, PRODUCT_DEPTH *STRIDE);
    const uint32_t M = a.now->example_count * a.groups, n0 = blockIdx.x * PRODUCT_TILE;
    for (uint32_t m0 = blockIdx.y * PRODUCT_TILE; m0 < M; m0 += gridDim.y * PRODUCT_TILE) {
        float sum[EACH][EACH] = {{0}};
        for (uint32_t k0 = 0; k0 < a.K; k0 += PRODUCT_DEPTH) {
            TILE_FILL_ALONG_T(left, m0 + i < M && k0 + t < a.K,
                              factor_of(group_row(a.in, m0 + i, a.groups, a.K)[k0 + t], a.is_bf16))
            TILE_FILL_ALONG_I(right, n0 + i < a.N && k0 + t < a.K,
                              factor_of(a.weight[(size_t)(k0 + t) * a.N + n0 + i], a.is_bf16))
            __syncthreads();
            tiles_multiply(sum, left, right);
            __syncthreads();
        }
        const uint32_t row = m0 + threadIdx.x / SIDE * EACH, col = n0 + threadIdx.x % SIDE * EACH;
        for (uint32_t i = 0; i < EACH && row + i < M; i++)
            for (uint32_t j = 0; j < EACH && col + j < a.N; j++) {
                const uint32_t m = row + i;
                const float z = a.bias ? sum[i][j] + a.bias[col + j] : sum[i][j];
                (out_row(a.out, m / a.groups) + m % a.groups * a.N)[col + j] = gpu_activation(a.activation, a.slope, z);
            }
    }
}

KERNEL_BOUND(fc_din, PRODUCT_THREADS)
{
    SHARED(float, left, PRODUCT_DEPTH *STRIDE);
    SHARED(float, right, PRODUCT_DEPTH *STRIDE);
    const uint32_t M = a.now->example_count * a.groups, k0 = blockIdx.x * PRODUCT_TILE;
    for (uint32_t m0 = blockIdx.y * PRODUCT_TILE; m0 < M; m0 += gridDim.y * PRODUCT_TILE) {
        float sum[EACH][EACH] = {{0}};
        for (uint32_t n0 = 0; n0 < a.N; n0 += PRODUCT_DEPTH) {
            TILE_FILL_ALONG_T(left, m0 + i < M && n0 + t < a.N,
                              factor_of(dz_at(&a.dz, m0 + i, n0 + t, a.groups, a.N), a.is_bf16))
            TILE_FILL_ALONG_T(right, k0 + i < a.K && n0 + t < a.N,
                              factor_of(a.weight[(size_t)(k0 + i) * a.N + n0 + t], a.is_bf16))
            __syncthreads();
            tiles_multiply(sum, left, right);
            __syncthreads();
        }
        const uint32_t row = m0 + threadIdx.x / SIDE * EACH, col = k0 + threadIdx.x % SIDE * EACH;
        for (uint32_t i = 0; i < EACH && row + i < M; i++)
            for (uint32_t j = 0; j < EACH && col + j < a.K; j++) {
                const uint32_t m = row + i;
                const float x = group_row(a.in, m, a.groups, a.K)[col + j],
                            grad = a.input_activation ? sum[i][j] * gpu_slope(a.input_activation, a.input_slope, x)
                                                      : sum[i][j];
                grad_put(out_row(a.din, m / a.groups) + m % a.groups * a.K + col + j, grad, a.adds);
            }
    }
}

KERNEL_BOUND(fc_dweight, PRODUCT_THREADS)
{
    SHARED(float, left, PRODUCT_DEPTH *STRIDE);
    SHARED(float, right, PRODUCT_DEPTH *STRIDE);
    const uint32_t M = a.now->example_count * a.groups, n0 = blockIdx.x * PRODUCT_TILE, k0 = blockIdx.y * PRODUCT_TILE,
                   begin = blockIdx.z * a.part_rows, end = begin + a.part_rows < M ? begin + a.part_rows : M;
    float sum[EACH][EACH] = {{0}};
    for (uint32_t m0 = begin; m0 < end; m0 += PRODUCT_DEPTH) {
        TILE_FILL_ALONG_I(left, k0 + i < a.K && m0 + t < end,
                          factor_of(group_row(a.in, m0 + t, a.groups, a.K)[k0 + i], a.is_bf16))
        TILE_FILL_ALONG_I(right, n0 + i < a.N && m0 + t < end,
                          factor_of(dz_at(&a.dz, m0 + t, n0 + i, a.groups, a.N), a.is_bf16))
        __syncthreads();
        tiles_multiply(sum, left, right);
        __syncthreads();
    }
    const uint32_t row = k0 + threadIdx.x / SIDE * EACH, col = n0 + threadIdx.x % SIDE * EACH;
    float *part = a.sums + (size_t)blockIdx.z * a.K * a.N;
    for (uint32_t i = 0; i < EACH && row + i < a.K; i++)
        for (uint32_t j = 0; j < EACH && col + j < a.N; j++) part[(size_t)(row + i) * a.N + col + j] = sum[i][j];
}

#define BIAS_COLS 32u
#define BIAS_ROWS 8u
KERNEL(fc_dbias)
{
    SHARED(float, sums, BIAS_COLS *BIAS_ROWS);
    const uint32_t M = a.now->example_count * a.groups, n = blockIdx.x * BIAS_COLS + threadIdx.x,
                   begin = blockIdx.z * a.part_rows, end = begin + a.part_rows < M ? begin + a.part_rows : M;
    float sum = 0;
    for (uint32_t m = begin + threadIdx.y; m < end && n < a.N; m += BIAS_ROWS) sum += dz_at(&a.dz, m, n, a.groups, a.N);
    sums[threadIdx.y * BIAS_COLS + threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && n < a.N) {
        for (uint32_t y = 1; y < BIAS_ROWS; y++) sum += sums[y * BIAS_COLS + threadIdx.x];
        a.sums[(size_t)blockIdx.z * a.N + n] = sum;
    }
}

KERNEL(parts_add)
{
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += gridDim.x * blockDim.x) {
        float sum = 0;
        for (uint32_t part = 0; part < a.part_count; part++) sum += a.parts[(size_t)part * a.count + i];
        a.to[i] += sum;
    }
}
