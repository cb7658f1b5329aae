/* Vectors of floats for the kernels, one text for every instruction set: GNU vector extensions, and
 * intrinsics for what these cannot say, or not well (fused multiply-add, square root, prefetch, a part of a
 * vector, the sum of its lanes).
 *
 *   VF    floats a vector: 4 (base), 8 (avx2), 16 (avx512)
 *   vf    a vector; vi, vu: the same number of 32-bit integers; vw: half as many 64-bit ones
 *
 * vf_fma rounds once where the instruction set has FMA and twice in base, so sets differ within rounding; the
 * code around never depends on which. Everything here works lane by lane: a tail computed on a partly filled
 * vector gives the same bits as the body. */
#ifndef HETERPS_ENGINE_DEVICE_CPU_ISA_VEC_H
#define HETERPS_ENGINE_DEVICE_CPU_ISA_VEC_H

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#define VF      16
#define VECTORS avx512
#elif defined(__AVX2__)
#define VF      8
#define VECTORS avx2
#else
#define VF      4
#define VECTORS base
#endif

typedef float vf __attribute__((vector_size(4 * VF)));
typedef int32_t vi __attribute__((vector_size(4 * VF)));
typedef uint32_t vu __attribute__((vector_size(4 * VF)));
typedef uint64_t vw __attribute__((vector_size(4 * VF)));
/* A vector in memory, at the address of any float. */
typedef float vf_memory __attribute__((vector_size(4 * VF), aligned(4), may_alias));

#define ALWAYS_INLINE static inline __attribute__((always_inline))
/* KERNEL(fc_forward_f32) is fc_forward_f32_avx2 in the compilation for avx2; in all compilations with vectors
 * of 16, which differ in bfloat16 alone (bf16/), fc_forward_f32_avx512. */
#define KERNEL_PASTE(name, isa)  name##_##isa
#define KERNEL_EXPAND(name, isa) KERNEL_PASTE(name, isa)
#define KERNEL(name)             KERNEL_EXPAND(name, VECTORS)

/* Products of the lower halves of lanes. */
#if defined(__AVX512F__)
ALWAYS_INLINE vw vw_low_product(vw left, vw right) { return (vw)_mm512_mul_epu32((__m512i)left, (__m512i)right); }
#elif defined(__AVX2__)
ALWAYS_INLINE vw vw_low_product(vw left, vw right) { return (vw)_mm256_mul_epu32((__m256i)left, (__m256i)right); }
#else
ALWAYS_INLINE vw vw_low_product(vw left, vw right) { return (vw)_mm_mul_epu32((__m128i)left, (__m128i)right); }
#endif

ALWAYS_INLINE vf vf_load(const float *p) { return *(const vf_memory *)p; }
ALWAYS_INLINE void vf_store(float *p, vf v) { *(vf_memory *)p = v; }
ALWAYS_INLINE vf vf_splat(float x) { return x - (vf){0}; } /* x - 0 is x, the sign of zero included */
/* The first n < VF floats: loading makes the rest of the vector zero, storing leaves the rest of memory as
 * it is. Masks do both where there are any, but not under AddressSanitizer, which does not see what a mask
 * reads. Half and quarter vectors go without masks: a load that reaches beyond what an earlier masked
 * store writes waits for the store. */
#if defined(__AVX512F__) && !defined(__SANITIZE_ADDRESS__)
ALWAYS_INLINE vf vf_load_n(const float *p, size_t n)
{
    if (__builtin_constant_p(n) && n == 8) return _mm512_zextps256_ps512(_mm256_loadu_ps(p));
    if (__builtin_constant_p(n) && n == 4) return _mm512_zextps128_ps512(_mm_loadu_ps(p));
    return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
}
ALWAYS_INLINE void vf_store_n(float *p, vf v, size_t n)
{
    if (__builtin_constant_p(n) && n == 8)
        _mm256_storeu_ps(p, _mm512_castps512_ps256(v));
    else if (__builtin_constant_p(n) && n == 4)
        _mm_storeu_ps(p, _mm512_castps512_ps128(v));
    else
        _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), v);
}
#elif defined(__AVX2__) && !defined(__SANITIZE_ADDRESS__)
ALWAYS_INLINE vi vf_mask_n(size_t n) { return (vi){0, 1, 2, 3, 4, 5, 6, 7} < (int32_t)n; }
ALWAYS_INLINE vf vf_load_n(const float *p, size_t n) { return _mm256_maskload_ps(p, (__m256i)vf_mask_n(n)); }
ALWAYS_INLINE void vf_store_n(float *p, vf v, size_t n) { _mm256_maskstore_ps(p, (__m256i)vf_mask_n(n), v); }
#else
ALWAYS_INLINE vf vf_load_n(const float *p, size_t n)
{
    vf v = {0};
    memcpy(&v, p, n * sizeof *p);
    return v;
}
ALWAYS_INLINE void vf_store_n(float *p, vf v, size_t n) { memcpy(p, &v, n * sizeof *p); }
#endif
/* The same for whatever is left of a row: loops step by VF and call these, so body and tail are one text. */
ALWAYS_INLINE vf vf_load_upto(const float *p, size_t left) { return left >= VF ? vf_load(p) : vf_load_n(p, left); }
ALWAYS_INLINE void vf_store_upto(float *p, vf v, size_t left)
{
    if (left >= VF)
        vf_store(p, v);
    else
        vf_store_n(p, v, left);
}

/* a * b + c */
ALWAYS_INLINE vf vf_fma(vf a, vf b, vf c)
{
#if defined(__AVX512F__)
    return _mm512_fmadd_ps(a, b, c);
#elif defined(__FMA__)
    return _mm256_fmadd_ps(a, b, c);
#else
    return a * b + c;
#endif
}

/* *sum = a * b + *sum, in the register where the sum is: left to itself, the compiler exchanges sums and
 * factors in loops that fill all registers, and moves them about. */
ALWAYS_INLINE void vf_fma_into(vf *sum, vf a, vf b)
{
#if defined(__FMA__)
    __asm__("vfmadd231ps %2, %1, %0" : "+v"(*sum) : "v"(a), "v"(b));
#else
    *sum = vf_fma(a, b, *sum);
#endif
}

/* The same with a number in memory for all lanes of a. Best where the number's address is a register and a
 * constant: then it is one micro-operation. */
ALWAYS_INLINE void vf_fma_into_splat(vf *sum, const float *number, vf b)
{
#if defined(__AVX512F__)
    __asm__("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(*sum) : "v"(b), "m"(*number));
#else
    vf_fma_into(sum, vf_splat(*number), b);
#endif
}

/* Whether products in bfloat16 are multiplied by the matrix unit (amx.h). */
#if defined(__AMX_BF16__) || defined(AMX_MODEL)
#define HAS_TILES 1
#else
#define HAS_TILES 0
#endif

/* A word is two numbers in bfloat16: *sum += the products of the words' numbers, of the upper ones first.
 * Sums and numbers below 2^-126 count as zeros. Without the instruction nothing calls this. */
#ifdef AMX_MODEL
#define HAS_PAIRS 1
#elif defined(__AVX512BF16__)
#define HAS_PAIRS 1
#else
#define HAS_PAIRS 0
#endif
#ifdef __AVX512BF16__
ALWAYS_INLINE void vf_pairs_into(vf *sum, vf a, vf b) { __asm__("vdpbf16ps %2, %1, %0" : "+v"(*sum) : "v"(a), "v"(b)); }
ALWAYS_INLINE vf vf_word_splat(const float *word)
{
    int32_t bits;
    memcpy(&bits, word, sizeof bits);
    return (vf)_mm512_set1_epi32(bits);
}
#else
ALWAYS_INLINE void vf_pairs_into(vf *sum, vf a, vf b) { *sum += a + b; }
ALWAYS_INLINE vf vf_word_splat(const float *word) { return vf_splat(*word); }
#endif

ALWAYS_INLINE vf vf_sqrt(vf a)
{
#if defined(__AVX512F__)
    return _mm512_sqrt_ps(a);
#elif defined(__AVX2__)
    return _mm256_sqrt_ps(a);
#else
    return _mm_sqrt_ps(a);
#endif
}

/* Lane by lane: mask (all ones or zero, as comparisons give) ? a : b. */
ALWAYS_INLINE vf vf_select(vi mask, vf a, vf b) { return (vf)((mask & (vi)a) | (~mask & (vi)b)); }

/* Lane by lane: a > b ? a : b; so a NaN in either gives b. */
ALWAYS_INLINE vf vf_max_or_second(vf a, vf b)
{
#if defined(__AVX512F__)
    return _mm512_max_ps(a, b);
#elif defined(__AVX2__)
    return _mm256_max_ps(a, b);
#else
    return _mm_max_ps(a, b);
#endif
}

ALWAYS_INLINE vf vf_abs(vf a) { return (vf)((vi)a & INT32_MAX); }

/* Sum of all lanes along a binary tree: each level adds the upper half of the lanes to the lower half. */
ALWAYS_INLINE float vf_sum(vf v)
{
#if defined(__AVX512F__)
    __m256 eight = _mm512_castps512_ps256(v) + _mm512_extractf32x8_ps(v, 1);
#elif defined(__AVX2__)
    __m256 eight = v;
#endif
#if defined(__AVX2__)
    __m128 four = _mm256_castps256_ps128(eight) + _mm256_extractf128_ps(eight, 1);
#else
    __m128 four = v;
#endif
    __m128 two = four + _mm_movehl_ps(four, four);
    return two[0] + two[1];
}

/* Lane i is vf_sum(v[i]), to the bit: the same tree for VF vectors at once. A step of width w adds the halves
 * of two vectors a and b: lanes whose number lacks bit w get a[i] + a[i + w], the others b[i - w] + b[i]. */
#define VF_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
ALWAYS_INLINE vf vf_sums(const vf v[VF])
{
    vf half[VF / 2];
#if VF == 16
    for (int i = 0; i < 8; i++)
        half[i] = VF_SHUFFLE(v[i], v[i + 8], 0, 1, 2, 3, 4, 5, 6, 7, 24, 25, 26, 27, 28, 29, 30, 31) +
                  VF_SHUFFLE(v[i], v[i + 8], 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23);
    for (int i = 0; i < 4; i++)
        half[i] = VF_SHUFFLE(half[i], half[i + 4], 0, 1, 2, 3, 20, 21, 22, 23, 8, 9, 10, 11, 28, 29, 30, 31) +
                  VF_SHUFFLE(half[i], half[i + 4], 4, 5, 6, 7, 16, 17, 18, 19, 12, 13, 14, 15, 24, 25, 26, 27);
    for (int i = 0; i < 2; i++)
        half[i] = VF_SHUFFLE(half[i], half[i + 2], 0, 1, 18, 19, 4, 5, 22, 23, 8, 9, 26, 27, 12, 13, 30, 31) +
                  VF_SHUFFLE(half[i], half[i + 2], 2, 3, 16, 17, 6, 7, 20, 21, 10, 11, 24, 25, 14, 15, 28, 29);
    return VF_SHUFFLE(half[0], half[1], 0, 17, 2, 19, 4, 21, 6, 23, 8, 25, 10, 27, 12, 29, 14, 31) +
           VF_SHUFFLE(half[0], half[1], 1, 16, 3, 18, 5, 20, 7, 22, 9, 24, 11, 26, 13, 28, 15, 30);
#elif VF == 8
    for (int i = 0; i < 4; i++)
        half[i] = VF_SHUFFLE(v[i], v[i + 4], 0, 1, 2, 3, 12, 13, 14, 15) +
                  VF_SHUFFLE(v[i], v[i + 4], 4, 5, 6, 7, 8, 9, 10, 11);
    for (int i = 0; i < 2; i++)
        half[i] = VF_SHUFFLE(half[i], half[i + 2], 0, 1, 10, 11, 4, 5, 14, 15) +
                  VF_SHUFFLE(half[i], half[i + 2], 2, 3, 8, 9, 6, 7, 12, 13);
    return VF_SHUFFLE(half[0], half[1], 0, 9, 2, 11, 4, 13, 6, 15) +
           VF_SHUFFLE(half[0], half[1], 1, 8, 3, 10, 5, 12, 7, 14);
#else
    for (int i = 0; i < 2; i++)
        half[i] = VF_SHUFFLE(v[i], v[i + 2], 0, 1, 6, 7) + VF_SHUFFLE(v[i], v[i + 2], 2, 3, 4, 5);
    return VF_SHUFFLE(half[0], half[1], 0, 5, 2, 7) + VF_SHUFFLE(half[0], half[1], 1, 4, 3, 6);
#endif
}

/* vf_load_transposed() loads four terms, side by side in each of VF rows that lie `row` floats apart: out[t]
 * is term t of all rows. Vector i takes parts of four floats, from rows i, i + 4, i + 8, …; then numbers
 * change places within each part. */
ALWAYS_INLINE vf vf_load_parts(const float *p, size_t part)
{
#if defined(__AVX512F__)
    __m512 v = _mm512_castps128_ps512(_mm_loadu_ps(p));
    v = _mm512_insertf32x4(v, _mm_loadu_ps(p + part), 1);
    v = _mm512_insertf32x4(v, _mm_loadu_ps(p + 2 * part), 2);
    return _mm512_insertf32x4(v, _mm_loadu_ps(p + 3 * part), 3);
#elif defined(__AVX2__)
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), _mm_loadu_ps(p + part), 1);
#else
    (void)part;
    return _mm_loadu_ps(p);
#endif
}
#if VF == 16
#define VF_UNPACK(a, b, i, j)                                                                                          \
    VF_SHUFFLE(a, b, i, i + 16, j, j + 16, i + 4, i + 20, j + 4, j + 20, i + 8, i + 24, j + 8, j + 24, i + 12, i + 28, \
               j + 12, j + 28)
#define VF_UNPACK_PAIRS(a, b, i)                                                                                       \
    VF_SHUFFLE(a, b, i, i + 1, i + 16, i + 17, i + 4, i + 5, i + 20, i + 21, i + 8, i + 9, i + 24, i + 25, i + 12,     \
               i + 13, i + 28, i + 29)
#elif VF == 8
#define VF_UNPACK(a, b, i, j)    VF_SHUFFLE(a, b, i, i + 8, j, j + 8, i + 4, i + 12, j + 4, j + 12)
#define VF_UNPACK_PAIRS(a, b, i) VF_SHUFFLE(a, b, i, i + 1, i + 8, i + 9, i + 4, i + 5, i + 12, i + 13)
#else
#define VF_UNPACK(a, b, i, j)    VF_SHUFFLE(a, b, i, i + 4, j, j + 4)
#define VF_UNPACK_PAIRS(a, b, i) VF_SHUFFLE(a, b, i, i + 1, i + 4, i + 5)
#endif
ALWAYS_INLINE void vf_load_transposed(vf out[4], const float *p, size_t row)
{
    vf a = vf_load_parts(p, 4 * row), b = vf_load_parts(p + row, 4 * row);
    vf c = vf_load_parts(p + 2 * row, 4 * row), d = vf_load_parts(p + 3 * row, 4 * row);
    vf ab_low = VF_UNPACK(a, b, 0, 1), ab_high = VF_UNPACK(a, b, 2, 3);
    vf cd_low = VF_UNPACK(c, d, 0, 1), cd_high = VF_UNPACK(c, d, 2, 3);
    out[0] = VF_UNPACK_PAIRS(ab_low, cd_low, 0), out[1] = VF_UNPACK_PAIRS(ab_low, cd_low, 2);
    out[2] = VF_UNPACK_PAIRS(ab_high, cd_high, 0), out[3] = VF_UNPACK_PAIRS(ab_high, cd_high, 2);
}

ALWAYS_INLINE void prefetch_read(const void *p) { __builtin_prefetch(p, 0, 3); }
/* Into the second cache only: frees the few places of the first one that wait for memory, so that more lines
 * can be on their way. */
ALWAYS_INLINE void prefetch_far(const void *p) { __builtin_prefetch(p, 0, 2); }
ALWAYS_INLINE void prefetch_write(const void *p) { __builtin_prefetch(p, 1, 3); }

#endif
