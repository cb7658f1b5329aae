/* Elementary functions of kernels, from additions, multiplications and explicit fused multiply-adds: the same
 * bits on every card and in the emulation. */
#ifndef HETERPS_GPU_MATH_H
#define HETERPS_GPU_MATH_H

#include "gpu/kernel.h"

/* e^x: 2^k times a polynomial in the rest, |r| <= ln(2) / 2 (Cephes' expf, minimax of degree 7; relative
 * error under 1e-7); 0 below -103.97, infinity above 88.72. */
DEVICE float gpu_exp(float x)
{
    if (x != x) return x;
    if (x > 88.722839f) return __uint_as_float(0x7f800000u);
    if (x < -103.972084f) return 0;
    const float k = __fmaf_rn(x, 1.44269504f, 12582912.0f) - 12582912.0f; /* nearest, by adding 1.5 * 2^23 */
    float r = __fmaf_rn(k, -0.693359375f, x);
    r = __fmaf_rn(k, 2.12194440e-4f, r);
    float p = 1.9875691500e-4f;
    p = __fmaf_rn(p, r, 1.3981999507e-3f);
    p = __fmaf_rn(p, r, 8.3334519073e-3f);
    p = __fmaf_rn(p, r, 4.1665795894e-2f);
    p = __fmaf_rn(p, r, 1.6666665459e-1f);
    p = __fmaf_rn(p, r, 5.0000001201e-1f);
    p = __fmaf_rn(p, r * r, r) + 1;
    /* In two factors, because 2^k itself may be out of range where the result is not. */
    const int32_t whole = (int32_t)k, half = whole / 2;
    return p * __uint_as_float((uint32_t)(half + 127) << 23) * __uint_as_float((uint32_t)(whole - half + 127) << 23);
}

/* log(1 + x) for x in [0, 1]: 2 atanh(x / (2 + x)); the first term of its series
 * that is left out is 2/15 3^-15. */
DEVICE float gpu_log1p(float x)
{
    const float f = __fdiv_rn(x, 2 + x), f2 = f * f;
    float p = 1.0f / 13;
    p = __fmaf_rn(p, f2, 1.0f / 11);
    p = __fmaf_rn(p, f2, 1.0f / 9);
    p = __fmaf_rn(p, f2, 1.0f / 7);
    p = __fmaf_rn(p, f2, 1.0f / 5);
    p = __fmaf_rn(p, f2, 1.0f / 3);
    return 2 * __fmaf_rn(p * f2, f, f);
}

/* engine/base/bf16.h: the nearest bfloat16, of two the even one, in the upper half of the word;
 * numbers below 2^-126 become zeros. */
DEVICE uint32_t bf16_bits(float x)
{
    const uint32_t bits = __float_as_uint(x), magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (bits | 1u << 22) & 0xffff0000u;
    if (magnitude < 0x00800000u) return bits ^ magnitude;
    return (bits + 0x7fffu + (bits >> 16 & 1)) & 0xffff0000u;
}

/* Natural logarithm of a normal number above 0, or of no number. */
DEVICE float gpu_log(float x)
{
    if (x != x) return x;
    uint32_t bits = __float_as_uint(x);
    int32_t exponent = (int32_t)(bits >> 23) - 127;
    float m = __uint_as_float((bits & 0x7fffffu) | 0x3f800000u); /* [1, 2) */
    const bool is_high = m > 1.41421356f;
    if (is_high) m *= 0.5f, exponent++;
    const float f = __fdiv_rn(m - 1, m + 1), f2 = f * f; /* |f| <= 0.1716 */
    float p = 1.0f / 9;
    p = __fmaf_rn(p, f2, 1.0f / 7);
    p = __fmaf_rn(p, f2, 1.0f / 5);
    p = __fmaf_rn(p, f2, 1.0f / 3);
    return __fmaf_rn((float)exponent, 0.693147181f, 2 * __fmaf_rn(p * f2, f, f));
}

DEVICE float gpu_sigmoid(float x)
{
    const float e = gpu_exp(x < 0 ? x : -x);
    return x < 0 ? __fdiv_rn(e, 1 + e) : __fdiv_rn(1, 1 + e);
}

/* As graph/activation.c, in float32. */
DEVICE float gpu_tanh(float x)
{
    const float magnitude = x < 0 ? -x : x;
    if (magnitude < 0.25f) { /* the Taylor series, to x^9 */
        const float x2 = x * x;
        float p = 62.0f / 2835;
        p = __fmaf_rn(p, x2, -17.0f / 315);
        p = __fmaf_rn(p, x2, 2.0f / 15);
        p = __fmaf_rn(p, x2, -1.0f / 3);
        return __fmaf_rn(p * x2, x, x);
    }
    const float e = gpu_exp(-2 * magnitude), y = __fdiv_rn(1 - e, 1 + e);
    return x < 0 ? -y : y;
}

/* cos(2 pi x) for x in [-1, 1], as fmath_cos2pi() of engine/base/fmath.c: the same bits. */
DEVICE double gpu_cos2pi(double x)
{
    const double quarter = 4 * x + 6755399441055744.0 - 6755399441055744.0; /* nearest, by adding 1.5 * 2^52 */
    const double t = (x - 0.25 * quarter) * 6.28318530717958647692, t2 = t * t;
    const uint32_t turn = (uint32_t)(int32_t)quarter & 3;
    const double cosine[] = {1.0,
                             -1.0 / 2,
                             1.0 / 24,
                             -1.0 / 720,
                             1.0 / 40320,
                             -1.0 / 3628800,
                             1.0 / 479001600,
                             -1.0 / 87178291200.0,
                             1.0 / 20922789888000.0},
                 sine[] = {1.0,
                           -1.0 / 6,
                           1.0 / 120,
                           -1.0 / 5040,
                           1.0 / 362880,
                           -1.0 / 39916800,
                           1.0 / 6227020800.0,
                           -1.0 / 1307674368000.0,
                           1.0 / 355687428096000.0};
    double sum = turn & 1 ? sine[8] : cosine[8];
    UNROLL for (uint32_t i = 8; i > 0; i--) sum = sum * t2 + (turn & 1 ? sine[i - 1] : cosine[i - 1]);
    if (turn & 1) sum *= t;
    return turn == 1 || turn == 2 ? -sum : sum;
}
/* sin and cos of any angle, as cell_turn() of graph/cell.h. */
DEVICE float gpu_turn(float x, double quarters)
{
    const double turns = (double)x * 0.15915494309189533577 + quarters;
    return (float)gpu_cos2pi(turns - rint(turns));
}
DEVICE float gpu_sin(float x) { return gpu_turn(x, -0.25); }
DEVICE float gpu_cos(float x) { return gpu_turn(x, 0); }

/* enum activation of graph/op.h. The first three without a branch: a jump through a table
 * takes longer than everything else. */
DEVICE float gpu_activation(uint32_t activation, float slope, float x)
{
    if (activation <= 2) {
        const float low = activation == 0 ? x : activation == 1 ? 0 : x * slope;
        return x < 0 ? low : x;
    }
    switch (activation) {
    case 3: return gpu_sigmoid(x);
    case 4: return gpu_tanh(x);
    case 5: {
        const float most = 3.402823466e+38f, finite = x > most ? most : x < -most ? -most : x;
        return __fdiv_rn(finite, 1 + (finite < 0 ? -finite : finite));
    }
    default: return x;
    }
}
/* d out / d x, from the output. */
DEVICE float gpu_slope(uint32_t activation, float slope, float out)
{
    if (activation <= 2) {
        const float low = activation == 0 ? 1 : activation == 1 ? 0 : slope;
        return out > 0 ? 1 : low;
    }
    switch (activation) {
    case 3: return out * (1 - out);
    case 4: return 1 - out * out;
    case 5: {
        const float rest = 1 - (out < 0 ? -out : out);
        return rest * rest;
    }
    default: return 1;
    }
}

#endif
