/* bfloat16: the upper half of a float32, with its range and 8 bits of precision. */
#ifndef HETERPS_BASE_BF16_H
#define HETERPS_BASE_BF16_H

#include <stdint.h>
#include <string.h>

/* The nearest bfloat16, of two equally near ones the even, as a float32. Numbers below 2^-126 become zeros of their sign, as the
 * instructions for bfloat16 have it (Intel SDM, VCVTNEPS2BF16); above 2^128 - 2^119 infinite; a NaN stays one. Multiplied with each other two
 * of them give a float32 without rounding, if its exponent allows. */
static inline float bf16_round(float x)
{
    uint32_t bits, magnitude;
    memcpy(&bits, &x, sizeof bits);
    magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        bits |= 1u << 22;
    else if (magnitude < 0x00800000)
        bits ^= magnitude;
    else
        bits += 0x7fff + (bits >> 16 & 1);
    bits &= 0xffff0000;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#endif
