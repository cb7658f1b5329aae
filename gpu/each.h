/* How threads share the elements of [B, cols]: x goes over columns, y over examples, each in strides of the
 * grid (gpu_launch_each chooses the shape of block and grid). Kernels only. */
#ifndef HETERPS_GPU_EACH_H
#define HETERPS_GPU_EACH_H

#include "gpu/kernel.h"
#include "gpu/now.h"

#define EACH_ROW(i, count)                                                                                             \
    for (uint32_t i = blockIdx.y * blockDim.y + threadIdx.y; i < (count); i += gridDim.y * blockDim.y)
#define EACH_EXAMPLE(b) EACH_ROW(b, a.now->example_count)
/* EACH_ROWS examples of a thread at a time, example_of(b, 0), …, as far as they exist: their loads
 * from memory are under way at once. */
#define EACH_EXAMPLES(b)                                                                                               \
    for (uint32_t b = blockIdx.y * blockDim.y + threadIdx.y; b < a.now->example_count;                                 \
         b += EACH_ROWS * gridDim.y * blockDim.y)
#define EACH_COL(i, cols)                                                                                              \
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < (cols); i += gridDim.x * blockDim.x)

DEVICE uint32_t example_of(uint32_t b, uint32_t k) { return b + k * gridDim.y * blockDim.y; }
DEVICE const float *in_row(struct gpu_in in, uint32_t b) { return in.data + (size_t)b * in.stride; }
DEVICE float *out_row(struct gpu_out out, uint32_t b) { return out.data + (size_t)b * out.stride; }

/* Writes a gradient where nobody has written yet, or adds it. */
DEVICE void grad_put(float *to, float grad, uint32_t adds) { *to = adds ? *to + grad : grad; }

/* Combines the values of all lanes along a tree: all lanes have the result. */
DEVICE float warp_sum(float x)
{
    for (uint32_t by = WARP_LANES / 2; by > 0; by /= 2) x += __shfl_xor_sync(WARP_ALL, x, by);
    return x;
}
DEVICE float warp_max(float x)
{
    for (uint32_t by = WARP_LANES / 2; by > 0; by /= 2) {
        const float other = __shfl_xor_sync(WARP_ALL, x, by);
        x = other > x ? other : x;
    }
    return x;
}
/* The factor of an example's loss: the head's scale times the example's weight. */
DEVICE float scale_of(const float *weight, float scale, uint32_t b) { return weight ? scale * weight[b] : scale; }

/* The sum of a lane's value and those of the lanes before it. `lane`: the caller's. */
DEVICE uint32_t warp_sum_up_to(uint32_t number, uint32_t lane)
{
    for (uint32_t by = 1; by < WARP_LANES; by *= 2) {
        const uint32_t other = __shfl_up_sync(WARP_ALL, number, by);
        number += lane >= by ? other : 0;
    }
    return number;
}

#endif
