/* bfloat16: the upper half of a float32, with its range and 8 bits of precision. */
#ifndef HETERPS_BASE_BF16_H
#define HETERPS_BASE_BF16_H

#include <stdint.h>
#include <string.h>

/* The nearest bfloat16, of two equally near ones the even, as a float32. Numbers below 2^-126 become
 * zeros of their sign, as the instructions for bfloat16 have it (Intel SDM, VCVTNEPS2BF16); numbers
 * above 2^128 - 2^119 become infinite; a NaN stays a NaN. The product of two such numbers is exact in
 * float32, if its exponent allows. */
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

/* Rounds at random to one of the two bfloat16 around x, the nearer one being likelier, so that the mean over
 * `noise` of 0 .. 65535 is x (Gupta, Agrawal, Gopalakrishnan, Narayanan, "Deep Learning with Limited
 * Numerical Precision", ICML 2015, section 4.1): noise is added to the lower half of x, and what matters is
 * the carry. A bfloat16 stays what it is, and so does an infinite number; a NaN stays a NaN. */
static inline uint16_t bf16_bits_random(float x, uint32_t noise)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 1u << 6);
    return (uint16_t)((bits + noise) >> 16);
}
/* A bfloat16 as the upper half of its number, and the number of an upper half. */
static inline uint16_t bf16_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 16);
}
static inline float bf16_float(uint16_t upper)
{
    const uint32_t bits = (uint32_t)upper << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
/* Words of 32 bits that `count` bfloat16 take: two in the space of a float, the first one lower. */
static inline uint32_t bf16_words(uint32_t count) { return (count + 1) / 2; }
static inline float bf16_get(const float *words, uint32_t i)
{
    uint16_t bits;
    memcpy(&bits, (const char *)words + i * sizeof bits, sizeof bits);
    return bf16_float(bits);
}
static inline void bf16_put(float *words, uint32_t i, uint16_t bits)
{
    memcpy((char *)words + i * sizeof bits, &bits, sizeof bits);
}

#endif
