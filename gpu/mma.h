/* The instructions for matrices, and copies into shared memory that go on beside everything else: for kernels
 * only. On the host gpu/emu has them, and says how it adds.
 *
 *     tile_copy(to, from, bytes, from_bytes)       cp.async (sm_80; before, a plain copy): 4 or 16 bytes, those
 *                                                  behind from_bytes become 0
 *     tile_copies_close()                          what was copied since the last one is a group
 *     tile_copies_wait(groups_left)                until no more of the thread's groups are under way; others see
 *                                                  them after a barrier
 *     matrix_load, matrix_load_transposed          ldmatrix.x4 (sm_75): four 8 x 8 matrices of 16-bit numbers,
 *                                                  whose rows the lanes point to
 *     matrix_multiply_bf16(c, a, b)                mma.m16n8k16 (sm_80): c += a b, bfloat16 factors, float32 sums
 *     matrix_multiply_tf32(c, a, b)                mma.m16n8k8 (sm_80): the same of TF32: float32 whose lower 13
 *                                                  bits are zeros
 *
 * Fragments, over lanes l = 0 … 31 (PTX ISA, "Matrix fragments for mma.m16n8k16", "… for mma.m16n8k8"), two
 * bfloat16 a word, the lower first, or one TF32:
 *     a[i]   row l / 4 + 8 (i % 2), terms 2 (l % 4) + 8 (i / 2), + 1    b[i]   col l / 4, terms 2 (l % 4) + 8 i, + 1
 *     TF32:  row l / 4 + 8 (i % 2), term l % 4 + 4 (i / 2)                     col l / 4, term l % 4 + 4 i
 *     c[i]   row l / 4 + 8 (i / 2), col 2 (l % 4) + i % 2
 *     matrix_load: to[m]: row l / 4 of matrix m, cols 2 (l % 4), + 1; rows of 4 words: word l % 4 of row l /
 *     4 */
#ifndef HETERPS_GPU_MMA_H
#define HETERPS_GPU_MMA_H

#include "gpu/kernel.h"

#ifdef __CUDACC__

DEVICE uint32_t shared_address(const void *at) { return (uint32_t)__cvta_generic_to_shared(at); }

DEVICE void tile_copy(void *to, const void *from, const uint32_t bytes, uint32_t from_bytes)
{
#if __CUDA_ARCH__ >= 800
    if (bytes == 16) /* not through the first-level cache: no other thread of the block wants it */
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
                     "r"(from_bytes)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from),
                     "r"(from_bytes)
                     : "memory");
#else
    const float *words = (const float *)from;
    for (uint32_t i = 0; i < bytes / 4; i++) ((float *)to)[i] = 4 * i < from_bytes ? words[i] : 0;
#endif
}
DEVICE void tile_copies_close(void)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
DEVICE void tile_copies_wait(const uint32_t groups_left) /* 0 to 2: a constant, part of the instruction */
{
#if __CUDA_ARCH__ >= 800
    if (groups_left == 2)
        asm volatile("cp.async.wait_group 2;" ::: "memory");
    else if (groups_left == 1)
        asm volatile("cp.async.wait_group 1;" ::: "memory");
    else
        asm volatile("cp.async.wait_group 0;" ::: "memory");
#endif
}

DEVICE void matrix_load(uint32_t to[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(row))
                 : "memory");
}
DEVICE void matrix_load_transposed(uint32_t to[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(row))
                 : "memory");
}
DEVICE void matrix_multiply_bf16(float c[4], const uint32_t a[4], const uint32_t b[2])
{
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    __trap(); /* kind_of (gpu/product.c) chooses another kernel there */
#endif
}
DEVICE void matrix_multiply_tf32(float c[4], const uint32_t a[4], const uint32_t b[2])
{
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    __trap();
#endif
}

#else

#define tile_copy(to, from, bytes, from_bytes) emu_copy_begin(EMU_HERE("tile_copy"), to, from, bytes, from_bytes)
#define tile_copies_close()                    emu_copy_close()
#define tile_copies_wait(groups_left)          emu_copy_wait(EMU_HERE("tile_copies_wait"), groups_left)
#define matrix_load(to, row)                   emu_ldmatrix(EMU_HERE("matrix_load"), to, 4, false, row)
#define matrix_load_transposed(to, row)        emu_ldmatrix(EMU_HERE("matrix_load_transposed"), to, 4, true, row)
#define matrix_multiply_bf16(c, a, b)          emu_mma_bf16(EMU_HERE("matrix_multiply_bf16"), c, a, b)
#define matrix_multiply_tf32(c, a, b)          emu_mma_tf32(EMU_HERE("matrix_multiply_tf32"), c, a, b)

#endif
#endif
