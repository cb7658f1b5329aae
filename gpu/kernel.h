/* The words of kernels. A kernel is CUDA C that is C as well: one source, which nvcc compiles for the card
 * and the C compiler for the emulation (gpu/emu.h), where every kernel is tested.
 *
 *     struct relu_args { const float *in; float *out; uint32_t count; };     the kernel's argument, by value: a
 *                                                                            struct NAME_args
 *
 *     KERNEL(relu)
 *     {
 *         uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
 *         if (i < a.count) a.out[i] = fmaxf(a.in[i], 0);
 *     }
 *
 * threadIdx, __syncthreads, __shfl_xor_sync and so on mean the same as in CUDA. SHARED(float, tile, 32 * 33)
 * is an array of the block's shared memory; SHARED_LARGE is the only array of a kernel that is
 * GPU_KERNEL_LARGE in gpu/kernels.def. a * b + c is never contracted: kernels write fmaf where they mean it,
 * so that both sides round alike. */
#ifndef HETERPS_GPU_KERNEL_H
#define HETERPS_GPU_KERNEL_H

#include <stdint.h>

#define WARP_LANES 32u
#define WARP_ALL   0xffffffffu

#ifdef __CUDACC__

#define KERNEL(name)              extern "C" __global__ void name(const struct name##_args a)
#define KERNEL_BOUND(name, count) extern "C" __global__ void __launch_bounds__(count) name(const struct name##_args a)
#define KERNEL_BOUND_ROOM(name, count, blocks)                                                                         \
    extern "C" __global__ void __launch_bounds__(count, blocks) name(const struct name##_args a)
#define SHARED(type, name, count) __shared__ __align__(16) type name[count]
#define SHARED_LARGE(type, name, count)                                                                                \
    extern __shared__ __align__(1024) uint8_t shared_large[];                                                          \
    type *const name = (type *)shared_large
#define DEVICE static __device__ __forceinline__
#define UNROLL _Pragma("unroll")
#define ROLL   _Pragma("unroll 1")

#else

#include <math.h>
#include <stdbool.h>
#include "gpu/emu.h"

#define DEVICE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")
#define ROLL
/* The function that emu_launch takes, and the kernel itself, whose argument lies on its thread's stack. */
#define KERNEL(name)                                                                                                   \
    static void name##_body(const struct name##_args a);                                                               \
    void name(const void *args);                                                                                       \
    void name(const void *args) { name##_body(*(const struct name##_args *)args); }                                    \
    static void name##_body(const struct name##_args a)
#define KERNEL_BOUND(name, count)              KERNEL(name)
#define KERNEL_BOUND_ROOM(name, count, blocks) KERNEL(name)
#define EMU_HERE(called)                                                                                               \
    ({                                                                                                                 \
        static const struct emu_site here = {__FILE__, __LINE__, called};                                              \
        &here;                                                                                                         \
    })
#define SHARED(type, name, count)                                                                                      \
    type *const name = (type *)emu_shared(EMU_HERE("shared memory " #name), sizeof(type) * (count))
#define SHARED_LARGE(type, name, count) SHARED(type, name, count)

#define threadIdx                       emu_thread_index()
#define blockIdx                        emu_block_index()
#define blockDim                        emu_block_dim()
#define gridDim                         emu_grid_dim()
#define __syncthreads()                 emu_sync_block(EMU_HERE("__syncthreads"))
#define __syncwarp()                    emu_sync_warp(EMU_HERE("__syncwarp"), WARP_ALL)
#define __shfl_sync(mask, v, lane)      EMU_SHUFFLE("__shfl_sync", mask, v, EMU_FROM_LANE, lane)
#define __shfl_xor_sync(mask, v, x)     EMU_SHUFFLE("__shfl_xor_sync", mask, v, EMU_FROM_XOR, x)
#define __shfl_down_sync(mask, v, by)   EMU_SHUFFLE("__shfl_down_sync", mask, v, EMU_FROM_ABOVE, by)
#define __shfl_up_sync(mask, v, by)     EMU_SHUFFLE("__shfl_up_sync", mask, v, EMU_FROM_BELOW, by)
#define __ballot_sync(mask, v)          emu_ballot(EMU_HERE("__ballot_sync"), mask, (v) != 0)
/* Values of 4 bytes. */
#define EMU_SHUFFLE(called, mask, v, from, lane)                                                                       \
    ({                                                                                                                 \
        __typeof__((v) + 0) value_ = (v);                                                                              \
        _Static_assert(sizeof value_ == 4, "a shuffle moves 4 bytes");                                                 \
        uint32_t bits_;                                                                                                \
        __builtin_memcpy(&bits_, &value_, 4);                                                                          \
        bits_ = emu_shuffle(EMU_HERE(called), mask, bits_, from, lane);                                                \
        __builtin_memcpy(&value_, &bits_, 4);                                                                          \
        value_;                                                                                                        \
    })
#define __fmaf_rn(x, y, z)  fmaf(x, y, z)
#define __fsqrt_rn(x)       sqrtf(x)
#define __fdiv_rn(x, y)     ((float)(x) / (float)(y))
#define __float_as_uint(x)  emu_bits_of(x)
#define __uint_as_float(x)  emu_float_of(x)
#define __umulhi(x, y)      ((uint32_t)((uint64_t)(x) * (y) >> 32))
#define __ffs(x)            __builtin_ffs((int)(x))
#define __popc(x)           ((uint32_t)__builtin_popcount(x))
#define atomicAdd(p, value) emu_atomic_add(p, value)
#define min(x, y)                                                                                                      \
    ({                                                                                                                 \
        __typeof__((x) + (y)) x_ = (x), y_ = (y);                                                                      \
        x_ < y_ ? x_ : y_;                                                                                             \
    })
#define max(x, y)                                                                                                      \
    ({                                                                                                                 \
        __typeof__((x) + (y)) x_ = (x), y_ = (y);                                                                      \
        x_ > y_ ? x_ : y_;                                                                                             \
    })

typedef struct float2 {
    _Alignas(8) float x;
    float y;
} float2;
typedef struct float4 {
    _Alignas(16) float x;
    float y, z, w;
} float4;
typedef struct uint2 {
    _Alignas(8) uint32_t x;
    uint32_t y;
} uint2;
typedef struct uint4 {
    _Alignas(16) uint32_t x;
    uint32_t y, z, w;
} uint4;

static inline uint32_t emu_bits_of(float x)
{
    uint32_t bits;
    __builtin_memcpy(&bits, &x, 4);
    return bits;
}
static inline float emu_float_of(uint32_t bits)
{
    float x;
    __builtin_memcpy(&x, &bits, 4);
    return x;
}

#endif
#endif
