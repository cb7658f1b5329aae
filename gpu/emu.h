/* Runs CUDA kernels on the host, one launch at a time on the calling thread, and finds
 * errors that a card would not report.
 *
 * Each thread of a block is a fiber with its own stack. A seeded draw chooses one that can run, and it goes
 * on until it has to wait for others (a barrier, a shuffle) or ends. Kernels are compiled with the
 * compiler's thread-sanitizer calls before every access to memory. These calls ask (emu_check.c) whether the
 * byte lies in memory of the device, and whether another thread of the block has touched it since the last
 * barrier of both. So a launch fails when
 *
 *     an access is out of bounds, or of memory that has been freed
 *     two threads, also of two blocks, access the same byte, at least one writes, and no barrier lies between
 *     shared memory is read before it is written
 *     not all threads of a barrier, shuffle or vote reach it, or they wait at different ones
 *     shared memory is touched during an asynchronous copy to it: copies are done as late as possible, when
 *         their thread waits
 *     a thread uses a copy that a barrier counts, or a product of four warps, without waiting for it
 *         (gpu/emu/emu_wgmma.c)
 *
 * whatever the result: a missing __syncthreads is found even if the drawn order is harmless. Only in test
 * builds, and not under ThreadSanitizer, which needs the same calls. */
#ifndef HETERPS_GPU_EMU_H
#define HETERPS_GPU_EMU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

struct emu_dim {
    uint32_t x, y, z;
};
/* A kernel as KERNEL() makes it for the host. */
typedef void emu_kernel(const void *args);

struct emu_launch {
    const char *name; /* for messages */
    emu_kernel *kernel;
    struct emu_dim grid, block; /* at most 1024 threads a block */
    const void *args;           /* borrowed; copied for each thread */
    uint32_t args_bytes;
};
/* Runs the kernel to its end. INVALID tells the error, its thread and block, and its place; the memory that
 * the kernel has written then holds anything. MEMORY. */
MUST_USE status emu_launch(const struct emu_launch *launch, uint64_t seed);

/* Takes memory of the device, not zeroed, 256-byte aligned, with bytes around it that nobody
 * may touch. MEMORY. Any thread. */
MUST_USE status emu_alloc(void **memory, size_t bytes, const char *name);
/* NULL is ignored; any other address that is not allocated stops the program. */
void emu_free(void *memory);

/* --- for tests of the checks themselves ---------------------------------------------------------- */

/* A place in a kernel where a thread waits for others. */
struct emu_site {
    const char *file;
    int line;
    const char *called;
};
/* From now on threads pass this barrier in launches of the calling thread as if it
 * were not there; NULL: none. */
void emu_drop(const struct emu_site *site);
/* Barriers that launches of the calling thread have reached, each once: copies up to
 * `max`, returns the number of all. */
uint32_t emu_sites(const struct emu_site **sites, uint32_t max);

/* --- what kernels call (gpu/kernel.h) -------------------------------------------------------------- */

/* const: within a thread of the block the result does not change. */
struct emu_dim emu_thread_index(void) __attribute__((const));
struct emu_dim emu_block_index(void) __attribute__((const));
struct emu_dim emu_block_dim(void) __attribute__((const));
struct emu_dim emu_grid_dim(void) __attribute__((const));
void emu_sync_block(const struct emu_site *site);
void emu_sync_warp(const struct emu_site *site, uint32_t mask);
enum emu_from { EMU_FROM_LANE, EMU_FROM_XOR, EMU_FROM_ABOVE, EMU_FROM_BELOW, EMU_FROM_ALL };
uint32_t emu_shuffle(const struct emu_site *site, uint32_t mask, uint32_t bits, enum emu_from from, uint32_t lane);
uint32_t emu_ballot(const struct emu_site *site, uint32_t mask, bool vote);
void *emu_shared(const struct emu_site *site, size_t bytes);
/* Integers only: sums of floats would depend on the order of threads. */
uint32_t emu_atomic_add(uint32_t *at, uint32_t value);
/* All 32 lanes come, each with its own argument; work is called once with all
 * of these, then the lanes go on. */
void emu_warp_do(const struct emu_site *site, void (*work)(void *const lane[]), void *own);
/* cp.async into `bytes` (4, 8, 16) of shared memory: copies the first from_bytes, and zeroes the others, when
 * this thread waits until at most groups_left of its closed groups are under way. */
void emu_copy_begin(const struct emu_site *site, void *to, const void *from, uint32_t bytes, uint32_t from_bytes);
void emu_copy_close(void);
void emu_copy_wait(const struct emu_site *site, uint32_t groups_left);
/* ldmatrix: `count` (1, 2, 4) matrices of 8 x 8 numbers of 16 bits;
 * lane 8 m + r points to row r of matrix m. */
void emu_ldmatrix(const struct emu_site *site, uint32_t *to, uint32_t count, bool is_transposed, const void *row);
/* mma.m16n8k16: c += a b, of bfloat16. */
void emu_mma_bf16(const struct emu_site *site, float *c, const uint32_t *a, const uint32_t *b);
/* mma.m16n8k8: the same of TF32; fails where one of the 13 bits that TF32 lacks is set in a factor, because
 * a card leaves the result open. */
void emu_mma_tf32(const struct emu_site *site, float *c, const uint32_t *a, const uint32_t *b);
/* As gpu/wgmma.h says. bytes: 0, or the bytes that are expected from now on. */
void emu_barrier_init(const struct emu_site *site, uint64_t *barrier, uint32_t count);
void emu_barrier_arrive(const struct emu_site *site, uint64_t *barrier, uint32_t bytes);
void emu_barrier_wait(const struct emu_site *site, uint64_t *barrier, uint32_t parity);
void emu_bulk_copy(const struct emu_site *site, void *to, const void *from, uint32_t bytes, uint64_t *barrier);
void emu_group_multiply(const struct emu_site *site, float *sum, uint32_t cols, uint32_t kind, const void *left,
                        const void *right);
void emu_group_close(void);
void emu_group_wait(const struct emu_site *site, uint32_t groups_left);

#endif
