/* Vectors of rows in bfloat16, as graph/row_vector.h has them: two numbers in the place of a float, the first
 * one lower. */
#ifndef HETERPS_GPU_CARD_ROW_VECTOR_H
#define HETERPS_GPU_CARD_ROW_VECTOR_H

#include "gpu/philox.h"

/* Column `d` of a row. */
DEVICE float row_number(const float *row, uint32_t d, uint32_t is_bf16)
{
    if (!is_bf16) return row[d];
    return __uint_as_float((uint32_t)((const uint16_t *)row)[d] << 16);
}
/* bf16_bits_random() of engine/base/bf16.h. */
DEVICE uint32_t bf16_random(float x, uint32_t noise)
{
    const uint32_t bits = __float_as_uint(x);
    return (bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 1u << 6 : (bits + noise) >> 16;
}

/* Columns of a block of noise. */
#define NOISE_COLS 8u

#endif
