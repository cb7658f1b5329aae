#include "tests/gpu/emu_kernels.h"
#include "gpu/kernel.h"
#include "gpu/mma.h"
#include "gpu/wgmma.h"

#define reads_behind_args     faulty_args
#define writes_before_args    faulty_args
#define forgets_barrier_args  faulty_args
#define overwrites_args       faulty_args
#define diverges_args         faulty_args
#define leaves_args           faulty_args
#define reads_unwritten_args  faulty_args
#define blocks_collide_args   faulty_args
#define blocks_peek_args      faulty_args
#define forgets_lane_args     faulty_args
#define forgets_warp_args     faulty_args
#define leaves_mask_args      faulty_args
#define halves_collide_args   faulty_args
#define forgets_copies_args   faulty_args
#define hides_copies_args     faulty_args
#define copies_early_args     faulty_args
#define leaves_copies_args    faulty_args
#define multiplies_args       faulty_args
#define multiplies_tf32_args  faulty_args
#define forgets_to_round_args faulty_args
#define forgets_bulk_args     faulty_args
#define expects_less_args     faulty_args
#define hides_bulk_args       faulty_args
#define refills_early_args    faulty_args
#define forgets_arrival_args  faulty_args
#define leaves_products_args  faulty_args
#define blocks_overtake_args  faulty_args
#define meets_args            faulty_args
#define adds_args             faulty_args

#define BLOCK                 128u

KERNEL(reads_behind)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < a.count) a.out[i] = a.in[i + a.is_faulty];
}

KERNEL(writes_before)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < a.count) *(a.out + i - a.is_faulty) = i;
}

KERNEL(forgets_barrier)
{
    SHARED(uint32_t, tile, BLOCK);
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = a.in[i];
    if (!a.is_faulty) __syncthreads();
    a.out[i] = tile[threadIdx.x ^ 64];
}

KERNEL(overwrites)
{
    SHARED(uint32_t, tile, BLOCK);
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
    for (uint32_t round = 0; round < 3; round++) {
        tile[threadIdx.x] = a.in[i] + round;
        __syncthreads();
        sum += tile[BLOCK - 1 - threadIdx.x];
        if (!a.is_faulty) __syncthreads();
    }
    a.out[i] = sum;
}

KERNEL(diverges)
{
    SHARED(uint32_t, tile, BLOCK);
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i;
    if (a.is_faulty && threadIdx.x % 2)
        __syncthreads();
    else
        __syncthreads();
    a.out[i] = tile[threadIdx.x ^ 1];
}

KERNEL(leaves)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (a.is_faulty && i == 5) return;
    __syncthreads();
    a.out[i] = i;
}

KERNEL(reads_unwritten)
{
    SHARED(uint32_t, tile, BLOCK);
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (!a.is_faulty || threadIdx.x != 9) tile[threadIdx.x] = i;
    __syncthreads();
    a.out[i] = tile[BLOCK - 1 - threadIdx.x];
}

KERNEL(blocks_collide)
{
    if (threadIdx.x == 0) a.out[a.is_faulty ? 0 : blockIdx.x] = 1;
}

KERNEL(blocks_peek)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    a.out[i] = i;
    if (a.is_faulty && blockIdx.x == 1 && threadIdx.x == 0) a.out[i] = a.out[0];
}

KERNEL(forgets_lane)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x, x = a.in[i];
    if (!a.is_faulty || threadIdx.x != 7) x += __shfl_xor_sync(WARP_ALL, x, 16);
    a.out[i] = x;
}

KERNEL(forgets_warp)
{
    SHARED(uint32_t, tile, BLOCK);
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = a.in[i];
    if (!a.is_faulty) __syncwarp();
    a.out[i] = tile[threadIdx.x ^ 1];
}

KERNEL(leaves_mask)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x % 32 < 16) a.out[i] = __shfl_sync(0xffffu, i, a.is_faulty ? 20 : 3);
}

KERNEL(halves_collide)
{
    uint16_t *half = (uint16_t *)a.out;
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 2 * a.count) half[i] = (uint16_t)i;
}

KERNEL(forgets_copies)
{
    SHARED(uint32_t, tile, BLOCK);
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    tile_copy(&tile[threadIdx.x], &a.in[i], 4, threadIdx.x == 3 ? 0 : 4);
    tile_copies_close();
    if (!a.is_faulty) tile_copies_wait(0);
    __syncthreads();
    a.out[i] = tile[threadIdx.x ^ 64];
}

KERNEL(hides_copies)
{
    SHARED(uint32_t, tile, BLOCK);
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    tile_copy(&tile[threadIdx.x], &a.in[i], 4, 4);
    tile_copies_close();
    tile_copies_wait(0);
    if (!a.is_faulty) __syncthreads();
    a.out[i] = tile[threadIdx.x ^ 64];
}

/* Three stages, of which two are under way. */
KERNEL(copies_early)
{
    SHARED(uint32_t, tile, 3 * BLOCK);
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
    for (uint32_t round = 0; round < 7; round++) {
        if (round < 5) tile_copy(&tile[round % 3 * BLOCK + threadIdx.x], &a.in[(i + round) % a.count], 4, 4);
        tile_copies_close();
        if (round < 2) continue;
        tile_copies_wait(2);
        __syncthreads();
        sum += tile[(round - 2) % 3 * BLOCK + (threadIdx.x ^ 64)];
        if (!a.is_faulty) __syncthreads();
    }
    a.out[i] = sum;
}

KERNEL(leaves_copies)
{
    SHARED(uint32_t, tile, BLOCK);
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    tile_copy(&tile[threadIdx.x], &a.in[i], 4, 4);
    tile_copies_close();
    if (!a.is_faulty) tile_copies_wait(0);
    a.out[i] = i;
}

/* c = A B of 16 x 16 and 16 x 8, of small whole numbers: MULTIPLIES_LEFT, MULTIPLIES_RIGHT. */
KERNEL(multiplies)
{
    SHARED(uint16_t, left, 16 * 16);
    SHARED(uint16_t, right, 16 * 16);
    for (uint32_t e = threadIdx.x; e < 256; e += BLOCK) {
        left[e] = (uint16_t)(__float_as_uint((float)MULTIPLIES_LEFT(e / 16, e % 16)) >> 16);
        right[e] = (uint16_t)(__float_as_uint((float)MULTIPLIES_RIGHT(e / 16, e % 16)) >> 16);
    }
    __syncthreads();
    const uint32_t lane = threadIdx.x % 32, row = lane % 16, col = lane / 16 * 8;
    uint32_t x[4], y[4];
    float c[4] = {0};
    matrix_load(x, &left[row * 16 + col]);
    matrix_load_transposed(y, &right[row * 16 + col]);
    if (!a.is_faulty || threadIdx.x != 7) matrix_multiply_bf16(c, x, y);
    if (threadIdx.x >= 32) return;
    for (uint32_t j = 0; j < 4; j++)
        a.out[blockIdx.x * BLOCK + (lane / 4 + j / 2 * 8) * 8 + lane % 4 * 2 + j % 2] = (uint32_t)c[j];
}

/* c = A B of 16 x 8 and 8 x 8: the right factor lies as [col][term], as ldmatrix serves it. */
KERNEL(multiplies_tf32)
{
    SHARED(float, left, 16 * 8);
    SHARED(float, right, 8 * 8);
    left[threadIdx.x] = MULTIPLIES_LEFT(threadIdx.x / 8, threadIdx.x % 8);
    if (threadIdx.x < 64) right[threadIdx.x] = MULTIPLIES_RIGHT(threadIdx.x % 8, threadIdx.x / 8);
    __syncthreads();
    const uint32_t lane = threadIdx.x % 32;
    uint32_t x[4], y[4];
    float c[4] = {0};
    matrix_load(x, &left[lane % 16 * 8 + lane / 16 * 4]);
    matrix_load(y, &right[lane % 8 * 8 + lane / 8 % 2 * 4]); /* twice */
    if (!a.is_faulty || threadIdx.x != 7) matrix_multiply_tf32(c, x, y);
    if (threadIdx.x >= 32) return;
    for (uint32_t j = 0; j < 4; j++)
        a.out[blockIdx.x * BLOCK + (lane / 4 + j / 2 * 8) * 8 + lane % 4 * 2 + j % 2] = (uint32_t)c[j];
}

KERNEL(forgets_to_round)
{
    const uint32_t one = __float_as_uint(1.0f), x[4] = {one, one, one, one | 4 * a.is_faulty}, y[2] = {one, one};
    float c[4] = {0};
    matrix_multiply_tf32(c, x, y);
    a.out[blockIdx.x * blockDim.x + threadIdx.x] = (uint32_t)c[0];
}

/* A run of a number a thread, by thread 0. */
DEVICE void run_copy(const struct faulty_args *a, uint32_t *tile, uint64_t *barrier, uint32_t expected)
{
    if (threadIdx.x == 0) {
        barrier_init(barrier, 1);
        barriers_open();
    }
    __syncthreads();
    if (threadIdx.x > 0) return;
    bulk_copy(tile, &a->in[blockIdx.x * BLOCK], 4 * BLOCK, barrier);
    barrier_expect(barrier, expected);
}
KERNEL(forgets_bulk)
{
    SHARED(uint32_t, tile, BLOCK);
    SHARED(uint64_t, barrier, 1);
    run_copy(&a, tile, barrier, 4 * BLOCK);
    if (!a.is_faulty) barrier_wait(barrier, 0);
    __syncthreads();
    a.out[blockIdx.x * BLOCK + threadIdx.x] = tile[threadIdx.x ^ 64];
}
KERNEL(expects_less)
{
    SHARED(uint32_t, tile, BLOCK);
    SHARED(uint64_t, barrier, 1);
    run_copy(&a, tile, barrier, a.is_faulty ? 2 * BLOCK : 4 * BLOCK);
    barrier_wait(barrier, 0);
    a.out[blockIdx.x * BLOCK + threadIdx.x] = threadIdx.x;
}

/* Two products, each of 64 rows by themselves, which are filled again in between. */
#define FILL_BYTES (64 * 128)
DEVICE void rows_fill(const struct faulty_args *a, uint8_t *rows, uint64_t *full)
{
    barrier_expect(full, FILL_BYTES);
    for (uint32_t at = 0; at < FILL_BYTES; at += 512) bulk_copy(rows + at, a->in, 512, full);
}
enum fault { HIDES, REFILLS, FORGETS, LEAVES };
DEVICE void rows_multiply(const struct faulty_args *a, enum fault fault, uint8_t *rows, uint64_t *full, uint64_t *empty)
{
    const bool is_first_lane = threadIdx.x % 32 == 0;
    float sum[32] = {0};
    if (threadIdx.x == 0) {
        barrier_init(full, 1);
        barrier_init(empty, BLOCK / 32);
        barriers_open();
    }
    __syncthreads();
    for (uint32_t step = 0; step < 2; step++) {
        if (threadIdx.x == 0) {
            if (step > 0) barrier_wait(empty, 0);
            rows_fill(a, rows, full);
        }
        if (!(a->is_faulty && fault == HIDES && threadIdx.x / 32 == 1)) barrier_wait(full, step);
        group_begin();
        group_multiply(sum, 64, 2, rows, rows);
        group_close();
        if (a->is_faulty && fault == REFILLS && is_first_lane) barrier_arrive(empty);
        if (!(a->is_faulty && (fault == REFILLS || (fault == LEAVES && step > 0)))) group_wait(0);
        if (a->is_faulty && (fault == REFILLS || (fault == FORGETS && threadIdx.x == 96))) continue;
        if (is_first_lane) barrier_arrive(empty);
    }
    a->out[blockIdx.x * BLOCK + threadIdx.x] = (uint32_t)sum[0];
}
#define ROWS_MULTIPLY(name, fault)                                                                                     \
    KERNEL(name)                                                                                                       \
    {                                                                                                                  \
        SHARED(uint8_t, rows, FILL_BYTES);                                                                             \
        SHARED(uint64_t, barriers, 2);                                                                                 \
        rows_multiply(&a, fault, rows, &barriers[0], &barriers[1]);                                                    \
    }
ROWS_MULTIPLY(hides_bulk, HIDES)
ROWS_MULTIPLY(refills_early, REFILLS)
ROWS_MULTIPLY(forgets_arrival, FORGETS)
ROWS_MULTIPLY(leaves_products, LEAVES)

KERNEL(blocks_overtake)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x, sum = a.out[i];
    if (a.is_faulty && i == 0) sum += a.out[BLOCK];
    a.out[i] = sum + i;
}

KERNEL(meets)
{
    SHARED(uint32_t, tile, BLOCK);
    const uint32_t t = threadIdx.x, first = a.is_faulty & 0xff, second = a.is_faulty >> 8 & 0xff;
    uint32_t sum = 0;
    tile[t] = t;
    __syncthreads();
    if (a.is_faulty && (t == first || (second && t == second))) {
        if (a.is_faulty >> 24 & 1)
            tile[5] = t;
        else
            sum = tile[5];
    }
    if (a.is_faulty >> 25 & 1) __syncwarp();
    if (a.is_faulty && t == (a.is_faulty >> 16 & 0xff)) tile[5] = t;
    __syncthreads();
    a.out[blockIdx.x * blockDim.x + t] = sum + tile[t];
}

KERNEL(adds)
{
    atomicAdd(&a.out[0], 1u);
    if (a.is_faulty && threadIdx.x == 0) a.out[1 + blockIdx.x] = a.out[0];
}
