/* Vectors of rows in bfloat16 (graph/row_vector.h): two numbers in the place of a float. A number is read as
 * the upper half of a float, and rounded at random when it is stored. `at` counts columns. */
#ifndef HETERPS_ENGINE_DEVICE_CPU_ISA_ROW_BF16_H
#define HETERPS_ENGINE_DEVICE_CPU_ISA_ROW_BF16_H

#include "engine/base/bf16.h"
#include "engine/device/cpu/isa/vec.h"
#include "graph/row_vector.h"

/* VF halves from memory into the lower halves of lanes, and the lower halves of lanes into memory. */
#if VF == 16
ALWAYS_INLINE vu vu_load_halves(const void *p)
{
    return (vu)_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i_u *)p));
}
ALWAYS_INLINE void vu_store_halves(void *p, vu v)
{
    _mm256_storeu_si256((__m256i_u *)p, _mm512_cvtepi32_epi16((__m512i)v));
}
#elif VF == 8
ALWAYS_INLINE vu vu_load_halves(const void *p)
{
    return (vu)_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i_u *)p));
}
ALWAYS_INLINE void vu_store_halves(void *p, vu v)
{
    const __m256i packed = _mm256_packus_epi32((__m256i)(v & 0xffff), (__m256i)(v & 0xffff));
    _mm_storeu_si128((__m128i_u *)p, _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08)));
}
#else
ALWAYS_INLINE vu vu_load_halves(const void *p)
{
    return (vu)_mm_unpacklo_epi16(_mm_loadl_epi64((const __m128i_u *)p), _mm_setzero_si128());
}
/* Packing saturates numbers of more than 16 signed bits; after the sign extension there are none. */
ALWAYS_INLINE void vu_store_halves(void *p, vu v)
{
    const __m128i extended = _mm_srai_epi32(_mm_slli_epi32((__m128i)v, 16), 16);
    _mm_storel_epi64((__m128i_u *)p, _mm_packs_epi32(extended, extended));
}
#endif

/* The next columns from `at` on, of which there are `left`; the rest of the vector is zero. */
ALWAYS_INLINE vf bf16_load_upto(const float *words, uint32_t at, uint32_t left)
{
    const char *from = (const char *)words + (size_t)at * sizeof(uint16_t);
    if (left >= VF) return (vf)(vu_load_halves(from) << 16);
    uint16_t part[VF] = {0};
    memcpy(part, from, left * sizeof *part);
    return (vf)(vu_load_halves(part) << 16);
}
/* Columns of a row of a table that stores halves, or floats. */
ALWAYS_INLINE vf row_load_upto(const float *row, uint32_t at, uint32_t left, bool is_bf16)
{
    return is_bf16 ? bf16_load_upto(row, at, left) : vf_load_upto(row + at, left);
}

/* bf16_bits_random(), lane by lane; `noise` are halves [VF], whatever `left` is. */
ALWAYS_INLINE void bf16_store_random(float *words, uint32_t at, vf v, const uint16_t *noise, uint32_t left)
{
    char *to = (char *)words + (size_t)at * sizeof(uint16_t);
    const vu bits = (vu)v, rounded = (bits + vu_load_halves(noise)) >> 16, nan = bits >> 16 | 1u << 6;
    const vu stored = (vu)vf_select((vi)((bits & 0x7fffffff) > 0x7f800000), (vf)nan, (vf)rounded);
    if (left >= VF) {
        vu_store_halves(to, stored);
        return;
    }
    uint16_t part[VF];
    vu_store_halves(part, stored);
    memcpy(to, part, left * sizeof *part);
}

#endif
