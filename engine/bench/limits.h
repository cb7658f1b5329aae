/* What the machine can do at most, to put beside a figure of ours that is measured in the same run:
 * multiply-adds of independent chains, copies, random rows of a table far beyond the caches, numbers through a
 * ring. Each by plain loops that do nothing else. */
#ifndef HETERPS_ENGINE_BENCH_LIMITS_H
#define HETERPS_ENGINE_BENCH_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/device/cpu/cpu_device.h"

/* GFLOP/s of all threads together, a multiply-add being two; takes some milliseconds. by_wall: one thread by
 * the clock on the wall too, beside what is measured so. */
double limit_fma(enum isa isa, uint32_t threads, const int *processors, bool by_wall);
/* Of products of bfloat16, summed in float32, by the instruction of that set: VDPBF16PS, TDPBF16PS. 0: it has none, or
 * does not run here. */
double limit_bf16(enum isa isa, uint32_t threads, const int *processors, bool by_wall);

/* GB/s, bytes read and written together, of threads that each copy a half of their share of `bytes` to the
 * other half, back and forth. 0: there is no memory for them. */
double limit_copy(size_t bytes, uint32_t threads, const int *processors);

/* Random rows of a table: each is read and summed, or has a constant subtracted. */
struct limit_rows {
    float *table;       /* 64-byte aligned                              */
    uint64_t row_count; /* of row_bytes each, side by side              */
    uint32_t row_bytes; /* a multiple of 64                             */
    bool updates;
    enum isa isa;
    uint32_t ahead; /* rows between asking for one and using it; 0 at first: the best of some is found and kept */
    uint64_t seed;  /* moves on, so that no call finds the rows of the one before                           */
};
/* Rows a second, of all threads; `rows`: how many each of them takes. */
double limit_rows(struct limit_rows *limit, uint64_t rows, uint32_t threads, const int *processors);

/* Two threads and a queue of 4096 cells that each looks at the other's end of only when it must: items a second
 * one way; nanoseconds of one there and back through two such queues. */
double limit_ring_items(uint64_t items, const int *processors);
double limit_ring_turn_ns(uint64_t turns, const int *processors);

#endif
