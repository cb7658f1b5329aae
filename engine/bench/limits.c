/* The loops of the limits. Each is compiled for the instruction set that it measures, and
 * runs only where that set does. */
#include "engine/bench/limits.h"

#include <immintrin.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/futex.h"
#include "engine/base/status.h"
#include "engine/bench/watch.h"
#include "engine/device/cpu/isa/bf16/amx.h"

static volatile float sink;

/* --- multiply-adds ---------------------------------------------------------------------------- */

#define FMA_ROUNDS 4000000L
#define AMX_ROUNDS (FMA_ROUNDS / 8) /* the same cycles */

/* Eight, twelve or sixteen chains: more than latency times throughput, so the units are always busy. */
#define FMA_LOOP(name, isa, type, chains, splat, step)                                                                 \
    __attribute__((target(isa))) static void name(void *context, uint32_t thread)                                      \
    {                                                                                                                  \
        (void)context, (void)thread;                                                                                   \
        type sum[chains], m = splat(0.999f), a = splat(0.001f);                                                        \
        for (int i = 0; i < (chains); i++) sum[i] = splat((float)i);                                                   \
        for (long round = 0; round < FMA_ROUNDS; round++) {                                                            \
            _Pragma("GCC unroll 16") for (int i = 0; i < (chains); i++) sum[i] = step(sum[i], m, a);                   \
            __asm__ volatile("" : "+x"(m));                                                                            \
        }                                                                                                              \
        for (int i = 1; i < (chains); i++) sum[0] += sum[i];                                                           \
        sink = ((const float *)sum)[0];                                                                                \
    }
#define MULTIPLY_ADD(s, m, a) ((s) * (m) + (a))
FMA_LOOP(fma_base, "sse2", __m128, 8, _mm_set1_ps, MULTIPLY_ADD)
FMA_LOOP(fma_avx2, "avx2,fma", __m256, 12, _mm256_set1_ps, _mm256_fmadd_ps)
FMA_LOOP(fma_avx512, "avx512f", __m512, 16, _mm512_set1_ps, _mm512_fmadd_ps)

static const struct {
    watch_work *loop;
    double flops; /* of a round */
} fma_of[ISA_COUNT] = {[ISA_base] = {fma_base, 8 * 4 * 2},
                       [ISA_avx2] = {fma_avx2, 12 * 8 * 2},
                       [ISA_avx512] = {fma_avx512, 16 * 16 * 2},
                       [ISA_avx512bf16] = {fma_avx512, 16 * 16 * 2},
                       [ISA_amx] = {fma_avx512, 16 * 16 * 2}};

static double seconds_of(watch_work *loop, uint32_t threads, const int *processors, bool by_wall)
{
    return by_wall ? watch_run_wall(threads, processors, loop, NULL) : watch_run(threads, processors, loop, NULL);
}

double limit_fma(enum isa isa, uint32_t threads, const int *processors, bool by_wall)
{
    double seconds = seconds_of(fma_of[isa].loop, threads, processors, by_wall);
    return fma_of[isa].flops * (double)FMA_ROUNDS * threads / seconds * 1e-9;
}

__attribute__((target("avx512f,avx512bf16"))) static void bf16_loop(void *context, uint32_t thread)
{
    (void)context, (void)thread;
    __m512 sum[16];
    /* Pairs of 1 and of 2^-15 or so: the sums stay finite. */
    __m512i one = _mm512_set1_epi32(0x3f803f80), small = _mm512_set1_epi32(0x38003800);
    for (int i = 0; i < 16; i++) sum[i] = _mm512_set1_ps((float)i);
    for (long round = 0; round < FMA_ROUNDS; round++) {
        _Pragma("GCC unroll 16") for (int i = 0; i < 16; i++) sum[i] =
            _mm512_dpbf16_ps(sum[i], (__m512bh)one, (__m512bh)small);
        __asm__ volatile("" : "+x"(one));
    }
    for (int i = 1; i < 16; i++) sum[0] += sum[i];
    sink = _mm512_reduce_add_ps(sum[0]);
}

/* Two tiles by two, as in kernels; all are zeros, which does not change the time. */
static void amx_loop(void *context, uint32_t thread)
{
    (void)context, (void)thread;
    tiles_open();
    for (long round = 0; round < AMX_ROUNDS; round++) {
        TILE_ADD(0, 4, 6);
        TILE_ADD(1, 4, 7);
        TILE_ADD(2, 5, 6);
        TILE_ADD(3, 5, 7);
    }
    tiles_close();
}

double limit_bf16(enum isa isa, uint32_t threads, const int *processors, bool by_wall)
{
    if (isa < ISA_avx512bf16 || !isa_runs_here(isa)) return 0;
    bool is_amx = isa == ISA_amx;
    double seconds = seconds_of(is_amx ? amx_loop : bf16_loop, threads, processors, by_wall),
           flops = is_amx ? 4.0 * 16 * 16 * 32 * 2 * AMX_ROUNDS : 16.0 * 32 * 2 * FMA_ROUNDS;
    return flops * threads / seconds * 1e-9;
}

/* --- copies ------------------------------------------------------------------------------------ */

struct copy {
    uint8_t *block;
    size_t half_bytes; /* half of a thread's share */
    long rounds;
};
static void copy_loop(void *context, uint32_t thread)
{
    const struct copy *c = context;
    uint8_t *block = c->block + thread * 2 * c->half_bytes;
    for (long i = 0; i < c->rounds; i++) {
        memcpy(block + c->half_bytes * (size_t)(i & 1), block + c->half_bytes * (size_t)(~i & 1), c->half_bytes);
        __asm__ volatile("" ::: "memory");
    }
}

double limit_copy(size_t bytes, uint32_t threads, const int *processors)
{
    struct copy c = {.half_bytes = bytes / threads / 2, .rounds = (long)(4e8 / (double)bytes) + 1};
    c.block = malloc(2 * c.half_bytes * threads + 1);
    if (c.block == NULL) return 0;
    memset(c.block, 1, 2 * c.half_bytes * threads);
    double seconds = watch_run(threads, processors, copy_loop, &c);
    free(c.block);
    return 2 * (double)c.half_bytes * threads * (double)c.rounds / seconds * 1e-9;
}

/* --- random rows ------------------------------------------------------------------------------- */

/* A line of the table, in registers of the target's width. */
typedef float line_f32 __attribute__((vector_size(64)));
#define LINE_FLOATS 16u

struct rows_call {
    const struct limit_rows *limit;
    uint64_t rows;
};

static inline __attribute__((always_inline)) uint64_t row_of(uint64_t i, uint64_t row_count)
{
    uint64_t h = i * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ h >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    h ^= h >> 32;
    return (uint64_t)((unsigned __int128)h * row_count >> 64);
}

static inline __attribute__((always_inline)) void rows_body(const struct rows_call *call, uint32_t thread,
                                                            const uint32_t lines, const bool updates)
{
    const struct limit_rows *l = call->limit;
    line_f32 *table = (line_f32 *)l->table;
    const uint64_t seed = l->seed + thread * UINT64_C(0x1000000000), row_count = l->row_count;
    const uint32_t ahead = l->ahead;
    line_f32 sum = {0};
    for (uint64_t i = 0; i < call->rows; i++) {
        const line_f32 *next = table + row_of(seed + i + ahead, row_count) * lines;
        _Pragma("GCC unroll 4") for (uint32_t j = 0; j < lines; j++)
        {
            if (updates)
                __builtin_prefetch(next + j, 1);
            else
                __builtin_prefetch(next + j, 0);
        }
        line_f32 *row = table + row_of(seed + i, row_count) * lines;
        _Pragma("GCC unroll 4") for (uint32_t j = 0; j < lines; j++)
        {
            if (updates)
                row[j] -= 1e-6f;
            else
                sum += row[j];
        }
    }
    float first[LINE_FLOATS];
    memcpy(first, &sum, sizeof first);
    sink = first[0];
}

/* Compiled apart for the usual sizes. */
#define ROWS_LOOP(isa, flags)                                                                                          \
    __attribute__((target(flags))) static void rows_##isa(void *context, uint32_t thread)                              \
    {                                                                                                                  \
        const struct rows_call *call = context;                                                                        \
        uint32_t lines = call->limit->row_bytes / (uint32_t)sizeof(line_f32);                                          \
        bool updates = call->limit->updates;                                                                           \
        if (lines == 1)                                                                                                \
            updates ? rows_body(call, thread, 1, true) : rows_body(call, thread, 1, false);                            \
        else if (lines == 4)                                                                                           \
            updates ? rows_body(call, thread, 4, true) : rows_body(call, thread, 4, false);                            \
        else                                                                                                           \
            updates ? rows_body(call, thread, lines, true) : rows_body(call, thread, lines, false);                    \
    }
ROWS_LOOP(base, "sse2")
ROWS_LOOP(avx2, "avx2,fma")
#ifdef __clang__ /* it does not know the attribute */
ROWS_LOOP(avx512, "avx512f")
#else
ROWS_LOOP(avx512, "avx512f,prefer-vector-width=512")
#endif
static watch_work *const rows_loop[ISA_COUNT] = {[ISA_base] = rows_base,
                                                 [ISA_avx2] = rows_avx2,
                                                 [ISA_avx512] = rows_avx512,
                                                 [ISA_avx512bf16] = rows_avx512,
                                                 [ISA_amx] = rows_avx512};

static double rows_run(struct limit_rows *l, uint64_t rows, uint32_t threads, const int *processors)
{
    struct rows_call call = {l, rows};
    l->seed += UINT64_C(99999937);
    double seconds = watch_run(threads, processors, rows_loop[l->isa], &call);
    return (double)rows * threads / seconds;
}

double limit_rows(struct limit_rows *l, uint64_t rows, uint32_t threads, const int *processors)
{
    static const uint32_t tried[] = {8, 16, 32, 64};
    CHECK(l->row_bytes >= 64 && l->row_bytes % 64 == 0 && (uintptr_t)l->table % 64 == 0);
    if (l->ahead == 0) {
        double best = 0;
        uint32_t ahead = tried[0];
        rows_run(l, rows / 4, threads, processors);
        for (size_t i = 0; i < sizeof tried / sizeof *tried; i++) {
            l->ahead = l->row_bytes == 64 ? tried[i] : tried[i] / 2;
            double rate = rows_run(l, rows / 4, threads, processors);
            if (rate > best) ahead = l->ahead;
            if (rate > best) best = rate;
        }
        l->ahead = ahead;
    }
    return rows_run(l, rows, threads, processors);
}

/* --- rings ------------------------------------------------------------------------------------- */

#define QUEUE_CELLS ((size_t)4096)

/* One thread pushes, one pops; each keeps the other's end as last seen. */
struct queue {
    _Alignas(128) _Atomic size_t shared_head;
    size_t tail_seen;
    _Alignas(128) _Atomic size_t shared_tail;
    size_t head_seen;
    _Alignas(128) uint64_t cell[QUEUE_CELLS];
};
static struct queue queues[2];

static inline bool queue_push(struct queue *q, uint64_t item)
{
    /* Relaxed: only this thread writes it. */
    size_t tail = atomic_load_explicit(&q->shared_tail, memory_order_relaxed);
    if (tail - q->head_seen == QUEUE_CELLS) {
        /* Acquire pairs with the release in queue_pop(): the cell has been read. */
        q->head_seen = atomic_load_explicit(&q->shared_head, memory_order_acquire);
        if (tail - q->head_seen == QUEUE_CELLS) return false;
    }
    q->cell[tail % QUEUE_CELLS] = item;
    /* Release: the cell is written. */
    atomic_store_explicit(&q->shared_tail, tail + 1, memory_order_release);
    return true;
}

static inline bool queue_pop(struct queue *q, uint64_t *item)
{
    /* Relaxed: only this thread writes it. */
    size_t head = atomic_load_explicit(&q->shared_head, memory_order_relaxed);
    if (head == q->tail_seen) {
        /* Acquire pairs with the release in queue_push(): the cell is written. */
        q->tail_seen = atomic_load_explicit(&q->shared_tail, memory_order_acquire);
        if (head == q->tail_seen) return false;
    }
    *item = q->cell[head % QUEUE_CELLS];
    /* Release: the cell has been read. */
    atomic_store_explicit(&q->shared_head, head + 1, memory_order_release);
    return true;
}

static void items_loop(void *context, uint32_t thread)
{
    const uint64_t items = *(const uint64_t *)context;
    uint64_t item, sum = 0;
    if (thread == 0) {
        for (uint64_t i = 0; i < items; i++)
            while (!queue_push(&queues[0], i)) spin_pause();
    } else {
        for (uint64_t i = 0; i < items; i++) {
            while (!queue_pop(&queues[0], &item)) spin_pause();
            sum += item;
        }
        sink = (float)sum;
    }
}

static void turns_loop(void *context, uint32_t thread)
{
    const uint64_t turns = *(const uint64_t *)context;
    uint64_t item = 0;
    for (uint64_t i = 0; i < turns; i++) {
        if (thread == 0)
            while (!queue_push(&queues[0], i)) continue;
        while (!queue_pop(&queues[1 - thread], &item)) continue;
        if (thread == 1)
            while (!queue_push(&queues[1], item)) continue;
    }
}

double limit_ring_items(uint64_t items, const int *processors)
{
    return (double)items / watch_run(2, processors, items_loop, &items);
}

double limit_ring_turn_ns(uint64_t turns, const int *processors)
{
    return watch_run(2, processors, turns_loop, &turns) * 1e9 / (double)turns;
}
