/* The most that the machine can do, to set beside a figure measured in the same run: multiply-adds in
 * independent chains, copies, random rows of a table far beyond the caches, numbers through a ring. Plain
 * loops that do nothing else measure each. */
#ifndef HETERPS_ENGINE_BENCH_LIMITS_H
#define HETERPS_ENGINE_BENCH_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/device/cpu/cpu_device.h"

/* GFLOP/s of all threads together, two for a multiply-add; takes some milliseconds. by_wall: also one thread
 * is timed by the clock on the wall, for figures timed so. */
double limit_fma(enum isa isa, uint32_t threads, const int *processors, bool by_wall);
/* The same for products of bfloat16, summed in float32, by the set's instruction: VDPBF16PS, TDPBF16PS. 0:
 * the set has none, or does not run here. */
double limit_bf16(enum isa isa, uint32_t threads, const int *processors, bool by_wall);

/* GB/s, reads and writes counted, of threads that each copy one half of their share of `bytes` to the other
 * half, back and forth. 0: there is no memory for them. */
double limit_copy(size_t bytes, uint32_t threads, const int *processors);

/* Random rows of a table: each is read and summed, or has a constant subtracted. */
struct limit_rows {
    float *table;       /* 64-byte aligned                              */
    uint64_t row_count; /* rows of row_bytes, side by side              */
    uint32_t row_bytes; /* a multiple of 64                             */
    bool updates;
    enum isa isa;
    uint32_t ahead; /* rows from a prefetch to its use; 0 at first: the best of some is found and kept */
    uint64_t seed;  /* moves on, so that each call visits new rows                                          */
};
/* Rows a second of all threads; each takes `rows` rows. */
double limit_rows(struct limit_rows *limit, uint64_t rows, uint32_t threads, const int *processors);

/* Two threads, and a queue of 4096 cells; each looks at the other's end only when it has to. Items a second
 * one way; nanoseconds of a round trip through two such queues. */
double limit_ring_items(uint64_t items, const int *processors);
double limit_ring_turn_ns(uint64_t turns, const int *processors);

#endif
