/* Vectors of rows from and to float32. */
#include "graph/row_vector.h"

#include <string.h>

void row_vector_read(const struct graph_table *t, const float *span, float *vector)
{
    if (t->store == TABLE_F32) memcpy(vector, span, t->dim * sizeof *vector);
    for (uint32_t i = 0; i < t->dim && t->store == TABLE_BF16; i++) vector[i] = bf16_get(span, i);
}

void row_vector_write(const struct graph_table *t, float *span, const float *vector)
{
    if (t->store == TABLE_F32) memcpy(span, vector, t->dim * sizeof *vector);
    for (uint32_t i = 0; i < t->dim && t->store == TABLE_BF16; i++) row_vector_put(t, span, i, vector[i]);
    if (t->store == TABLE_BF16 && t->dim % 2) bf16_put(span, t->dim, 0);
}

void row_vector_begin(const struct graph_table *t, float *span, uint32_t count, struct random_stream stream,
                      uint64_t key)
{
    float vector[ROW_BF16_DIM_MAX];
    if (t->store == TABLE_F32) {
        random_fill(span, count, t->init, t->init_scale, stream, key);
        return;
    }
    random_fill(vector, count, t->init, t->init_scale, stream, key);
    for (uint32_t i = 0; i < count; i++) row_vector_put(t, span, i, vector[i]);
}

struct random_stream row_noise(uint64_t seed, uint32_t table, uint64_t step)
{
    _Static_assert(GRAPH_TABLES_MAX <= 1u << 8, "a stream's number has enough bits for every table's number");
    return random_stream(seed, RANDOM_ROUND, step << 8 | table);
}

void row_vector_round(struct random_stream noise, uint64_t key, const float *vector, uint32_t count, float *span)
{
    for (uint32_t begin = 0; begin < count; begin += ROW_NOISE_COLS) {
        uint32_t words[4];
        random_block(noise, key, begin / ROW_NOISE_COLS, words);
        for (uint32_t i = 0; i < ROW_NOISE_COLS && begin + i < count; i++)
            bf16_put(span, begin + i, bf16_bits_random(vector[begin + i], words[i / 2] >> 16 * (i % 2) & 0xffff));
    }
}
