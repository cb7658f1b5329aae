/* The elementwise functions of graph/activation.c on vectors. A NaN stays a NaN here too. */
#ifndef HETERPS_ENGINE_DEVICE_CPU_ISA_ACT_H
#define HETERPS_ENGINE_DEVICE_CPU_ISA_ACT_H

#include <float.h>

#include "engine/device/cpu/isa/vec.h"
#include "graph/op.h"

/* e^x with relative error below 2e-7; x is clamped to [-87, 88], where the result and its steps
 * are normal numbers. x = n ln 2 + r with |r| <= ln 2 / 2; e^r by its Taylor series, whose first
 * term left out is r^8 / 8! < 6e-9. */
ALWAYS_INLINE vf vf_exp(vf x)
{
    /* Compared in this order, a NaN passes both. */
    x = vf_select(x > 88.0f, vf_splat(88.0f), x);
    x = vf_select(x < -87.0f, vf_splat(-87.0f), x);
    /* Adding 1.5 * 2^23 leaves the nearest integer in the low bits. */
    const vf shift = vf_splat(0x1.8p23f);
    vf shifted = vf_fma(x, vf_splat(0x1.715476p0f), shift);
    vf n = shifted - shift;
    /* ln 2 in two parts: n times the first, of 15 bits, is exact. */
    vf r = vf_fma(n, vf_splat(-0x1.62e4p-1f), x);
    r = vf_fma(n, vf_splat(-0x1.7f7d1cp-20f), r);
    vf y = vf_splat(1 / 5040.0f);
    y = vf_fma(y, r, vf_splat(1 / 720.0f));
    y = vf_fma(y, r, vf_splat(1 / 120.0f));
    y = vf_fma(y, r, vf_splat(1 / 24.0f));
    y = vf_fma(y, r, vf_splat(1 / 6.0f));
    y = vf_fma(y, r, vf_splat(0.5f));
    y = vf_fma(y, r, vf_splat(1));
    y = vf_fma(y, r, vf_splat(1));
    vi exponent = (vi)shifted - (vi)shift + 127;
    return y * (vf)(exponent << 23);
}

ALWAYS_INLINE vf vf_sigmoid(vf x) { return 1.0f / (1.0f + vf_exp(-x)); }

/* From e^(-2|x|); below 1/4, where 1 - e loses digits, by the Taylor series, whose first term left out is
 * 1382/155925 x^10 < 9e-9 of the result. */
ALWAYS_INLINE vf vf_tanh(vf x)
{
    vi sign = (vi)x & INT32_MIN;
    vf magnitude = vf_abs(x);
    vf e = vf_exp(-2.0f * magnitude);
    vf large = (vf)((vi)((1.0f - e) / (1.0f + e)) | sign);
    vf x2 = x * x;
    vf y = vf_splat(62 / 2835.0f);
    y = vf_fma(y, x2, vf_splat(-17 / 315.0f));
    y = vf_fma(y, x2, vf_splat(2 / 15.0f));
    y = vf_fma(y, x2, vf_splat(-1 / 3.0f));
    vf small = vf_fma(y * x2, x, x);
    return vf_select(magnitude < 0.25f, small, large);
}

ALWAYS_INLINE vf vf_softsign(vf x)
{
    vf finite = vf_select(x > FLT_MAX, vf_splat(FLT_MAX), x);
    finite = vf_select(x < -FLT_MAX, vf_splat(-FLT_MAX), finite);
    return finite / (1.0f + vf_abs(finite));
}

ALWAYS_INLINE vf vf_activation(enum activation a, float slope, vf x)
{
    switch (a) {
    case ACT_RELU: return vf_max_or_second((vf){0}, x);
    case ACT_LEAKY_RELU: return vf_select(x < 0, x * slope, x);
    case ACT_SIGMOID: return vf_sigmoid(x);
    case ACT_TANH: return vf_tanh(x);
    case ACT_SOFTSIGN: return vf_softsign(x);
    default: return x;
    }
}

/* grad times d out / d x, from the output. */
ALWAYS_INLINE vf vf_activation_grad(enum activation a, float slope, vf out, vf grad)
{
    switch (a) {
    case ACT_RELU: return grad * vf_select(out > 0, vf_splat(1), (vf){0});
    case ACT_LEAKY_RELU: return grad * vf_select(out > 0, vf_splat(1), vf_splat(slope));
    case ACT_SIGMOID: return grad * (out * (1.0f - out));
    case ACT_TANH: return grad * (1.0f - out * out);
    case ACT_SOFTSIGN: return grad * ((1.0f - vf_abs(out)) * (1.0f - vf_abs(out)));
    default: return grad;
    }
}

#endif
