/* What the processor can do at most, for programs that say how near they come to it: multiply-adds of independent chains, and a copy of
 * bytes, by 1 and 2 threads; and the clock and the median that go with them. */
#ifndef HETERPS_TESTS_BENCH_PEAK_H
#define HETERPS_TESTS_BENCH_PEAK_H

#include <immintrin.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/cpu/device.h"

#define REPEATS     7
#define THREADS_MAX 2
#define PEAK_ROUNDS 4000000L

static volatile float peak_sink;

/* One thread is measured by its processor time, so that what else the machine runs costs it caches but no time; two by the clock on the
 * wall: a member that waits shows. */
static uint64_t now_ns(uint32_t threads)
{
    struct timespec now;
    clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Twelve (sixteen, eight) chains of multiply-adds: more than latency times throughput, so the units are always busy. */
#define PEAK(name, isa, type, chains, splat, step)                                                                     \
    __attribute__((target(isa))) static double name(uint32_t threads)                                                  \
    {                                                                                                                  \
        type sum[chains], m = splat(0.999f), a = splat(0.001f);                                                        \
        for (int i = 0; i < (chains); i++) sum[i] = splat((float)i);                                                   \
        uint64_t begin = now_ns(threads);                                                                              \
        for (long round = 0; round < PEAK_ROUNDS; round++) {                                                           \
            _Pragma("GCC unroll 16") for (int i = 0; i < (chains); i++) sum[i] = step(sum[i], m, a);                   \
            __asm__ volatile("" : "+x"(m));                                                                            \
        }                                                                                                              \
        uint64_t end = now_ns(threads);                                                                                \
        for (int i = 1; i < (chains); i++) sum[0] += sum[i];                                                           \
        peak_sink = ((const float *)sum)[0];                                                                           \
        return (double)PEAK_ROUNDS * (chains) * (double)(sizeof(type) / sizeof(float)) * 2 / (double)(end - begin);    \
    }
#define MULTIPLY_ADD(s, m, a) ((s) * (m) + (a))
PEAK(peak_base, "sse2", __m128, 8, _mm_set1_ps, MULTIPLY_ADD)
PEAK(peak_avx2, "avx2,fma", __m256, 12, _mm256_set1_ps, _mm256_fmadd_ps)
PEAK(peak_avx512, "avx512f", __m512, 16, _mm512_set1_ps, _mm512_fmadd_ps)
static double (*const peak_of[ISA_COUNT])(uint32_t threads) = {peak_base, peak_avx2, peak_avx512, peak_avx512};

struct peak_thread {
    pthread_t thread;
    enum isa isa;
    uint32_t threads;
    double gflops;
};
static void *peak_main(void *argument)
{
    struct peak_thread *p = argument;
    p->gflops = peak_of[p->isa](p->threads);
    return NULL;
}
static double peak_measure(enum isa isa, uint32_t threads)
{
    struct peak_thread p[THREADS_MAX];
    double sum = 0;
    for (uint32_t i = 0; i < threads; i++) {
        p[i] = (struct peak_thread){.isa = isa, .threads = threads};
        if (i > 0) CHECK(pthread_create(&p[i].thread, NULL, peak_main, &p[i]) == 0);
    }
    peak_main(&p[0]);
    for (uint32_t i = 1; i < threads; i++) pthread_join(p[i].thread, NULL);
    for (uint32_t i = 0; i < threads; i++) sum += p[i].gflops;
    return sum;
}

static int double_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static double median(double *values)
{
    qsort(values, REPEATS, sizeof *values, double_compare);
    return values[REPEATS / 2];
}

/* GB/s, read and written bytes together, of `threads` that copy a half of `bytes` each to its own other half, as often as takes a while. */
struct copy_thread {
    pthread_t thread;
    uint8_t *block;
    size_t bytes; /* of the block */
    long rounds;
};
static void *copy_main(void *argument)
{
    struct copy_thread *p = argument;
    size_t half = p->bytes / 2;
    for (long i = 0; i < p->rounds; i++) {
        memcpy(p->block + half * (i & 1), p->block + half * (~i & 1), half);
        __asm__ volatile("" ::: "memory");
    }
    return NULL;
}
static inline double copy_measure(size_t bytes, uint32_t threads)
{
    struct copy_thread p[THREADS_MAX];
    long rounds = (long)(4e8 / (double)bytes) + 1;
    for (uint32_t i = 0; i < threads; i++) {
        p[i] = (struct copy_thread){.bytes = bytes / threads, .rounds = rounds};
        p[i].block = malloc(p[i].bytes + 2);
        if (p[i].block == NULL) abort();
        memset(p[i].block, 1, p[i].bytes);
    }
    uint64_t begin = now_ns(threads);
    for (uint32_t i = 1; i < threads; i++)
        if (pthread_create(&p[i].thread, NULL, copy_main, &p[i]) != 0) abort();
    copy_main(&p[0]);
    for (uint32_t i = 1; i < threads; i++) pthread_join(p[i].thread, NULL);
    double gigabytes = (double)bytes * (double)rounds / (double)(now_ns(threads) - begin);
    for (uint32_t i = 0; i < threads; i++) free(p[i].block);
    return gigabytes;
}

#endif
