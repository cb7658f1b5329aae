/* Vectors of floats for the kernels, one text for every instruction set: GNU vector extensions, and intrinsics for the three
 * things that those cannot say (fused multiply-add, square root, prefetch).
 *
 *   VF    floats a vector: 4 (base), 8 (avx2), 16 (avx512)
 *   vf    a vector; vi, vu: the same number of 32-bit integers
 *
 * vf_fma rounds once where the instruction set has FMA and twice in base, so sets differ within rounding; the code around never
 * depends on which. Everything here works lane by lane: a tail computed on a partly filled vector gives the same bits as the body. */
#ifndef HETERPS_ENGINE_CPU_ISA_VEC_H
#define HETERPS_ENGINE_CPU_ISA_VEC_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#define VF 16
#elif defined(__AVX2__)
#define VF 8
#else
#define VF 4
#endif

typedef float vf __attribute__((vector_size(4 * VF)));
typedef int32_t vi __attribute__((vector_size(4 * VF)));
typedef uint32_t vu __attribute__((vector_size(4 * VF)));
/* The same in memory, wherever it lies. */
typedef float vf_memory __attribute__((vector_size(4 * VF), aligned(4), may_alias));

#define ALWAYS_INLINE static inline __attribute__((always_inline))
/* KERNEL(fc_forward_f32) is fc_forward_f32_avx2 in the compilation for avx2. */
#define KERNEL_PASTE(name, isa)  name##_##isa
#define KERNEL_EXPAND(name, isa) KERNEL_PASTE(name, isa)
#define KERNEL(name)             KERNEL_EXPAND(name, ISA)

ALWAYS_INLINE vf vf_load(const float *p) { return *(const vf_memory *)p; }
ALWAYS_INLINE void vf_store(float *p, vf v) { *(vf_memory *)p = v; }
ALWAYS_INLINE vf vf_splat(float x) { return x - (vf){0}; } /* x - 0 is x, the sign of zero included */
/* The first n < VF floats; the rest of the vector is zero and stays unwritten. */
ALWAYS_INLINE vf vf_load_n(const float *p, size_t n)
{
    vf v = {0};
    memcpy(&v, p, n * sizeof *p);
    return v;
}
ALWAYS_INLINE void vf_store_n(float *p, vf v, size_t n) { memcpy(p, &v, n * sizeof *p); }
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

ALWAYS_INLINE vf vf_abs(vf a) { return (vf)((vi)a & INT32_MAX); }

/* Sum of all lanes along a binary tree. */
ALWAYS_INLINE float vf_sum(vf v)
{
    float lane[VF];
    memcpy(lane, &v, sizeof lane);
    for (int width = VF / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++) lane[i] += lane[i + width];
    return lane[0];
}

ALWAYS_INLINE void prefetch_read(const void *p) { __builtin_prefetch(p, 0, 3); }
ALWAYS_INLINE void prefetch_write(const void *p) { __builtin_prefetch(p, 1, 3); }

#endif
