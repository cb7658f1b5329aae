/* Features of compute capability 9.0 alone (sm_90a) for products: copies of runs of bytes into shared memory
 * beside everything else, barriers that count them, and products of matrices there, by four warps at a time.
 * For kernels only; on the host gpu/emu has them.
 *
 *     barrier_init(barrier, count)              mbarrier: of 8 bytes, in shared memory; a phase ends when `count`
 *                                               threads have arrived and the bytes that they expect have come; the
 *                                               first is phase 0
 *     barriers_open()                           after the last barrier_init, by the same thread, before the block's
 *                                               next barrier
 *     barrier_arrive(barrier)                   arrives
 *     barrier_expect(barrier, bytes)            arrives, too
 *     barrier_wait(barrier, parity)             waits until the last phase of this parity has ended; the bytes that it
 *                                               counted are then there
 *     bulk_copy(to, from, bytes, barrier)       cp.async.bulk: from the card's memory; all multiples of 16 bytes
 *     registers_take(), registers_give()        setmaxnreg: where three groups of four warps have a multiprocessor to
 *                                               themselves, two take 240 registers a thread, the third keeps 24
 *     memory_expect(at)                         prefetches the card's memory there into its cache
 *     group_begin()                             wgmma.fence: before the first product, and where others have
 *                                               touched its sums or factors
 *     group_multiply(sum, cols, kind, left, right)
 *                                               wgmma: sum += left right, of 64 x cols (64, 128,
 *                                               256) sums and 32 bytes of terms; kind: bytes of a
 *                                               number of bfloat16 (2) or TF32 (4)
 *     group_close()                             the products begun since the last one are a group
 *     group_wait(left)                          waits until at most this many (0, 1) groups are under way; sums of the
 *                                               others are then there, and their factors free
 *     group_take(sum, count)                    after group_wait(0), before the sums are read
 *
 * Factors lie as [row][128 bytes of terms], 16-byte chunk c of row r at place c ^ (r % 8), from a multiple of
 * 1024 bytes on; left and right point to their first row, and its byte 0, 32, 64 or 96. The left factor has
 * 64 rows, the right one `cols`.
 *
 * Sums, over a group's threads t = 0 … 127 (PTX ISA, "Matrix fragments for wgmma.mma_async.m64nNk16"):
 *     sum[4 j + 2 h + e]     row t / 32 * 16 + t % 32 / 4 + 8 h,  col 8 j + t % 4 * 2 + e */
#ifndef HETERPS_GPU_WGMMA_H
#define HETERPS_GPU_WGMMA_H

#include "gpu/kernel.h"
#include "gpu/mma.h"

#define GROUP_THREADS 128u
#define GROUP_ROWS    64u

#ifdef __CUDACC__

DEVICE void barrier_init(uint64_t *barrier, uint32_t count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count) : "memory");
}
DEVICE void barriers_open(void) { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
DEVICE void barrier_arrive(uint64_t *barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
DEVICE void barrier_expect(uint64_t *barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}
DEVICE void barrier_wait(uint64_t *barrier, uint32_t parity)
{
    uint32_t is_over;
    do
        asm volatile("{\n\t.reg .pred over;\n\tmbarrier.try_wait.parity.shared::cta.b64 over, [%1], %2;\n\t"
                     "selp.u32 %0, 1, 0, over;\n\t}"
                     : "=r"(is_over)
                     : "r"(shared_address(barrier)), "r"(parity)
                     : "memory");
    while (!is_over);
}
DEVICE void bulk_copy(void *to, const void *from, uint32_t bytes, uint64_t *barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
}
DEVICE void registers_take(void) { asm volatile("setmaxnreg.inc.sync.aligned.u32 240;"); }
DEVICE void registers_give(void) { asm volatile("setmaxnreg.dec.sync.aligned.u32 24;"); }
DEVICE void memory_expect(const void *at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }

/* PTX ISA, "Matrix descriptor": the begin, 1024 bytes from eight rows to the next
 * eight, chunks placed over 128 bytes. */
DEVICE uint64_t matrix_at(const void *at)
{
    return (uint64_t)1 << 62 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 16 | (shared_address(at) & 0x3ffffu) >> 4;
}
DEVICE void group_begin(void) { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void group_close(void) { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
DEVICE void group_wait(const uint32_t left)
{
    if (left)
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    else
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}
DEVICE void group_take(float *sum, const uint32_t count)
{
    UNROLL for (uint32_t i = 0; i < count; i++) asm volatile("" : "+f"(sum[i])::"memory");
}

#define WGMMA_10(t)                                                                                                    \
    "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5, %" #t "6, %" #t "7, %" #t "8, %" #t "9, "
#define WGMMA_30               WGMMA_10() WGMMA_10(1) WGMMA_10(2)
#define WGMMA_60               WGMMA_30 WGMMA_10(3) WGMMA_10(4) WGMMA_10(5)
#define WGMMA_120              WGMMA_60 WGMMA_10(6) WGMMA_10(7) WGMMA_10(8) WGMMA_10(9) WGMMA_10(10) WGMMA_10(11)
#define WGMMA_FROM(a, b, c, d) "%" #a ", %" #b ", %" #c ", %" #d
#define WGMMA_8(d, i)                                                                                                  \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]),        \
        "+f"(d[i + 7])
#define WGMMA_32(d, i) WGMMA_8(d, i), WGMMA_8(d, i + 8), WGMMA_8(d, i + 16), WGMMA_8(d, i + 24)
#define WGMMA_64(d)    WGMMA_32(d, 0), WGMMA_32(d, 32)
#define WGMMA_128(d)   WGMMA_64(d), WGMMA_32(d, 64), WGMMA_32(d, 96)
/* sums += factors: the instruction's shape and kinds, the names of the sums and of left
 * and right, scales, and the rest. */
#define WGMMA(what, sums, factors, scales, ...)                                                                        \
    asm volatile("{\n\t.reg .pred adds;\n\tsetp.ne.b32 adds, 1, 0;\n\twgmma.mma_async.sync.aligned." what " {" sums    \
                 "}, " factors ", adds, 1, 1" scales ";\n\t}"                                                          \
                 : __VA_ARGS__                                                                                         \
                 : "l"(matrix_at(left)), "l"(matrix_at(right)))
#define WGMMA_OF(cols, sums, factors, ...)                                                                             \
    do {                                                                                                               \
        if (kind == 2)                                                                                                 \
            WGMMA("m64n" cols "k16.f32.bf16.bf16", sums, factors, ", 0, 0", __VA_ARGS__);                              \
        else                                                                                                           \
            WGMMA("m64n" cols "k8.f32.tf32.tf32", sums, factors, "", __VA_ARGS__);                                     \
    } while (0)
DEVICE void group_multiply(float *sum, const uint32_t cols, const uint32_t kind, const void *left, const void *right)
{
    if (cols == 256)
        WGMMA_OF("256", WGMMA_120 WGMMA_FROM(120, 121, 122, 123) ", " WGMMA_FROM(124, 125, 126, 127), "%128, %129",
                 WGMMA_128(sum));
    else if (cols == 128)
        WGMMA_OF("128", WGMMA_60 WGMMA_FROM(60, 61, 62, 63), "%64, %65", WGMMA_64(sum));
    else
        WGMMA_OF("64", WGMMA_30 "%30, %31", "%32, %33", WGMMA_32(sum, 0));
}

#else

#define memory_expect(at)                   ((void)(at))
#define registers_take()                    ((void)0)
#define registers_give()                    ((void)0)
#define barrier_init(barrier, count)        emu_barrier_init(EMU_HERE("barrier_init"), barrier, count)
#define barriers_open()                     ((void)0)
#define barrier_arrive(barrier)             emu_barrier_arrive(EMU_HERE("barrier_arrive"), barrier, 0)
#define barrier_expect(barrier, bytes)      emu_barrier_arrive(EMU_HERE("barrier_expect"), barrier, bytes)
#define barrier_wait(barrier, parity)       emu_barrier_wait(EMU_HERE("barrier_wait"), barrier, parity)
#define bulk_copy(to, from, bytes, barrier) emu_bulk_copy(EMU_HERE("bulk_copy"), to, from, bytes, barrier)
#define group_begin()                       ((void)0)
#define group_multiply(sum, cols, kind, left, right)                                                                   \
    emu_group_multiply(EMU_HERE("group_multiply"), sum, cols, kind, left, right)
#define group_close()          emu_group_close()
#define group_wait(left)       emu_group_wait(EMU_HERE("group_wait"), left)
#define group_take(sum, count) ((void)0)

#endif
#endif
