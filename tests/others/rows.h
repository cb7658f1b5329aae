// What the programs for rows in other stores share with tests/bench/store_bench.c: the same keys, the same measures.
#ifndef HETERPS_OTHERS_ROWS_H
#define HETERPS_OTHERS_ROWS_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROW_FLOATS 16
#define ROW_BYTES  (ROW_FLOATS * sizeof(float))
#define BATCH_KEYS 13312 // 512 examples of 26 fields

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static uint64_t key_draw(uint64_t *state, uint64_t row_count, int is_zipf)
{
    if (!is_zipf) return random_next(state) % row_count;
    const double unit = ((double)(random_next(state) >> 11) + 0.5) * 0x1p-53;
    const double rank = pow(1 - unit * (1 - pow((double)row_count, -0.05)), -20);
    return ((uint64_t)rank * UINT64_C(0x9e3779b97f4a7c15) >> 8) % row_count;
}

static void row_first(uint64_t key, float *row)
{
    for (int i = 0; i < ROW_FLOATS; i++) row[i] = (float)(key % 65536) + (float)i;
}

static int key_compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

// A batch's keys in order and without those that occur twice, as stores like them; returns how many.
static uint32_t batch_draw(uint64_t *random, uint64_t row_count, int is_zipf, uint64_t *key)
{
    uint32_t count = 1;
    for (int i = 0; i < BATCH_KEYS; i++) key[i] = key_draw(random, row_count, is_zipf);
    qsort(key, BATCH_KEYS, sizeof *key, key_compare);
    for (int i = 1; i < BATCH_KEYS; i++)
        if (key[i] != key[count - 1]) key[count++] = key[i];
    return count;
}

// Batch after batch for `seconds`, while the clock stands still as keys are drawn; prints rows a second of
// the second half, a row counting as often as it occurs.
static void batches_measure(const char *what, uint64_t row_count, double seconds,
                            void (*batch_do)(const uint64_t *key, uint32_t count, int updates))
{
    static uint64_t key[BATCH_KEYS];
    const int updates = strncmp(what, "update:", 7) == 0, is_zipf = strstr(what, ":zipf") != NULL;
    uint64_t random = UINT64_C(88172645463325252), done = 0;
    double spent = 0, counted = 0;
    while (spent < seconds) {
        const uint32_t count = batch_draw(&random, row_count, is_zipf, key);
        const double begin = seconds_now();
        batch_do(key, count, updates);
        const double took = seconds_now() - begin;
        if (spent >= seconds / 2) {
            counted += took;
            done += BATCH_KEYS;
        }
        spent += took;
    }
    printf("%-14s %10.0f rows/s\n", what, (double)done / counted);
    fflush(stdout);
}

#endif
