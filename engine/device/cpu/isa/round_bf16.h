/* Vectors of floats, rounded to bfloat16: for factors of products, and for sums of gradients. */
#ifndef HETERPS_ENGINE_DEVICE_CPU_ISA_ROUND_BF16_H
#define HETERPS_ENGINE_DEVICE_CPU_ISA_ROUND_BF16_H

#include "engine/device/cpu/isa/vec.h"

#ifdef __AVX512BF16__
/* Rounded lane i goes to lane i ^ exchange. The instruction makes zeros of small numbers by itself. */
ALWAYS_INLINE vf vf_bf16_round_to(vf x, const int exchange)
{
    const __m512i lane = _mm512_xor_si512(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                                          _mm512_set1_epi32(exchange));
    const __m512i order = _mm512_slli_epi32(lane, 16);
    return (vf)_mm512_maskz_permutexvar_epi16(0xaaaaaaaa, order,
                                              _mm512_castsi256_si512((__m256i)_mm512_cvtneps_pbh(x)));
}
#endif

/* bf16_round (engine/base/bf16.h), lane by lane. */
ALWAYS_INLINE vf vf_bf16_round(vf x)
{
#ifdef __AVX512BF16__
    return vf_bf16_round_to(x, 0);
#else
    vu bits = (vu)x, magnitude = bits & 0x7fffffff;
    vu is_nan = (vu)((vi)magnitude > 0x7f800000), is_small = (vu)((vi)magnitude < 0x00800000);
    vu rounded = bits + 0x7fff + (bits >> 16 & 1);
    rounded = (is_nan & (bits | 1u << 22)) | (~is_nan & rounded);
    rounded = (is_small & (bits ^ magnitude)) | (~is_small & rounded);
    return (vf)(rounded & 0xffff0000);
#endif
}

#endif
