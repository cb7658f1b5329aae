/* How a table stores the vectors of its rows: `store` of [table NAME].
 *
 *   f32    a vector is `dim` floats
 *   bf16   it is `dim` numbers in bfloat16, two in the space of a float (engine/base/bf16.h); an odd dim is followed
 *          by a zero
 *
 * The rest of a row's span is float32 either way. Readers take a bf16 as the float32 whose upper half it is,
 * exactly. First values, and values loaded from elsewhere, are rounded to nearest. An update computes in
 * float32 and rounds at random, by (seed, table, step, key, column) alone. A unit of bf16 is 2^-8 of a
 * weight, more than most steps change: rounding to nearest would lose these steps, while at random a weight
 * has on average its value in float32.
 *
 *   noise of column c      16 bits: half c % 2, the lower one first, of word c / 2 % 4 of block c / 8 of item `key`
 *                          (RANDOM_ROUND, engine/base/random.h) */
#ifndef HETERPS_GRAPH_ROW_VECTOR_H
#define HETERPS_GRAPH_ROW_VECTOR_H

#include "engine/base/bf16.h"
#include "engine/base/random.h"
#include "graph/graph.h"

/* Columns of a block of noise. */
#define ROW_NOISE_COLS 8u

/* Floats of a span that the vector takes. */
static inline uint32_t row_vector_floats(const struct graph_table *t)
{
    return t->store == TABLE_BF16 ? bf16_words(t->dim) : t->dim;
}
/* Column `i` of a row's vector. */
static inline float row_vector_get(const struct graph_table *t, const float *span, uint32_t i)
{
    return t->store == TABLE_BF16 ? bf16_get(span, i) : span[i];
}
static inline void row_vector_put(const struct graph_table *t, float *span, uint32_t i, float x)
{
    if (t->store == TABLE_BF16)
        bf16_put(span, i, bf16_bits(bf16_round(x)));
    else
        span[i] = x;
}
/* The whole vector: vector [dim]. */
void row_vector_read(const struct graph_table *t, const float *span, float *vector);
void row_vector_write(const struct graph_table *t, float *span, const float *vector);

/* Fills the first `count` columns with the key's first values, from the table's stream RANDOM_ROW. */
void row_vector_begin(const struct graph_table *t, float *span, uint32_t count, struct random_stream stream,
                      uint64_t key);

/* The noise of a step's updates of a table; steps count from 1. */
struct random_stream row_noise(uint64_t seed, uint32_t table, uint64_t step);
/* Of a table in bf16: stores the first `count` columns of the vector that an update has computed for the
 * key's row. The plain reference. */
void row_vector_round(struct random_stream noise, uint64_t key, const float *vector, uint32_t count, float *span);

#endif
