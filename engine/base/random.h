/* Counter-based random numbers: a value is a function of what it is for, so no order of execution,
 * thread count or restart can change it. Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel
 * Random Numbers: As Easy as 1, 2, 3", SC 2011, section 3.3), the key from (seed, domain, stream),
 * the counter from (item, block). */
#ifndef HETERPS_BASE_RANDOM_H
#define HETERPS_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* What a draw is for; two domains never share a value. The numbers are part of the file formats: a trained
 * model's unseen rows are recomputed from them. Append only. */
enum random_domain {
    RANDOM_PARAM = 1,      /* stream: parameter index;  item: element / 4                     */
    RANDOM_ROW = 2,        /* stream: table index;      item: the key                         */
    RANDOM_DROPOUT = 3,    /* stream: node index;       item: step << 32 | example of the step */
    RANDOM_SHUFFLE = 4,    /* stream: epoch;            item: draw                            */
    RANDOM_GEN = 5,        /* the data generator's own                                       */
    RANDOM_SCHEDULE = 6,   /* stream: which generator or search; item: its draw              */
    RANDOM_CANDIDATES = 7, /* stream: epoch; item: example of the pass; block: field << 16 | pair of draws */
    /* stream: epoch; item: permutation << 32 | place / 4; block: what is permuted (io/cache/block_order.h) */
    RANDOM_BLOCKS = 8,
    RANDOM_ROUND = 9, /* stream: step << 8 | table; item: the key; block: column / 8 (graph/row_vector.h) */
};

struct random_stream {
    uint32_t key[2];
};
/* Philox4x32-10 itself: ten rounds over a counter with a key. */
void random_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

struct random_stream random_stream(uint64_t seed, enum random_domain domain, uint64_t stream);

/* Four 32-bit values: block `block` of item `item`. */
void random_block(struct random_stream stream, uint64_t item, uint32_t block, uint32_t out[4]);
/* The same of items item .. item + 7, faster than one by one; out[4 * i + k]: value k of item + i. */
#define RANDOM_LANES 8
void random_blocks(struct random_stream stream, uint64_t item, uint32_t block, uint32_t out[4 * RANDOM_LANES]);

/* Uniform in (0, 1), 2^-23 apart and never 0 or 1, from 32 random bits. 23 of them: with the half below, 24
 * would need a 25-bit significand, and the greatest would round to 1. */
static inline float random_unit_f32(uint32_t bits) { return ((float)(bits >> 9) + 0.5f) * 0x1p-23f; }
/* Uniform in (0, 1) from 64 random bits. */
static inline double random_unit_f64(uint32_t high, uint32_t low)
{
    return ((double)((((uint64_t)high << 32) | low) >> 12) + 0.5) * 0x1p-52;
}

/* Initial values. `scale`: half width of the uniform, standard deviation of the
 * normal (Box-Muller, in double). */
enum random_init { INIT_ZEROS, INIT_UNIFORM, INIT_NORMAL, INIT_COUNT };
extern const char *const random_init_names[INIT_COUNT + 1]; /* "zeros", "uniform", "normal", NULL */

/* Fills out[0..count) with the values of one item: value i is from block i / 4. */
void random_fill(float *out, size_t count, enum random_init init, float scale, struct random_stream stream,
                 uint64_t item);

#endif
