/* What the parsers' kernels (io/isa/text.c, io/isa/text_features.c) share, for the instruction set of the
 * source that includes this: sixty-four bytes of a text with masks of places in them, and vectors of 64-bit
 * words. */
#ifndef HETERPS_IO_ISA_TEXT_LANES_H
#define HETERPS_IO_ISA_TEXT_LANES_H

#include <string.h>

#include "io/isa/kernel_name.h"
#include "io/read/reader_internal.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

/* --- sixty-four bytes -------------------------------------------------------------------------- */

#if defined(__AVX512VBMI2__)
struct bytes64 {
    __m512i all;
};
ALWAYS_INLINE struct bytes64 bytes64_of(const char *text) { return (struct bytes64){_mm512_loadu_si512(text)}; }
/* Bit i: byte i is c. */
ALWAYS_INLINE uint64_t bytes64_equal(struct bytes64 bytes, char c)
{
    return _mm512_cmpeq_epi8_mask(bytes.all, _mm512_set1_epi8(c));
}

/* begin[i] = at + (the place of the i-th bit) for all bits; up to 64 entries are written. */
ALWAYS_INLINE void places_store(uint32_t *begin, uint32_t at, uint64_t mask, uint32_t count)
{
    static const uint8_t iota[64] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                     16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
                                     32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47,
                                     48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};
    __m512i places = _mm512_maskz_compress_epi8(mask, _mm512_loadu_si512(iota)), base = _mm512_set1_epi32((int)at);
#define STORE(part)                                                                                                    \
    _mm512_storeu_si512(begin + 16 * (part),                                                                           \
                        _mm512_add_epi32(base, _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(places, part))))
    STORE(0);
    STORE(1);
    if (__builtin_expect(count <= 32, 1)) return;
    STORE(2);
    STORE(3);
#undef STORE
}
#elif defined(__AVX2__)
struct bytes64 {
    __m256i low, high;
};
ALWAYS_INLINE struct bytes64 bytes64_of(const char *text)
{
    return (struct bytes64){_mm256_loadu_si256((const __m256i *)(const void *)text),
                            _mm256_loadu_si256((const __m256i *)(const void *)(text + 32))};
}
ALWAYS_INLINE uint64_t bytes64_equal(struct bytes64 bytes, char c)
{
    __m256i wanted = _mm256_set1_epi8(c);
    uint32_t low = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes.low, wanted));
    uint32_t high = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes.high, wanted));
    return (uint64_t)high << 32 | low;
}

/* Eight at a time: their number is hard to predict. */
ALWAYS_INLINE void places_store(uint32_t *begin, uint32_t at, uint64_t mask, uint32_t count)
{
    for (uint32_t done = 0; done < count; done += 8)
        for (uint32_t i = 0; i < 8; i++) {
            begin[done + i] = at + (uint32_t)_tzcnt_u64(mask);
            mask &= mask - 1;
        }
}
#else
struct bytes64 {
    const char *text;
};
ALWAYS_INLINE struct bytes64 bytes64_of(const char *text) { return (struct bytes64){text}; }
ALWAYS_INLINE uint64_t bytes64_equal(struct bytes64 bytes, char c) { return reader_mask(bytes.text, c); }

ALWAYS_INLINE void places_store(uint32_t *begin, uint32_t at, uint64_t mask, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++, mask &= mask - 1) begin[i] = at + (uint32_t)__builtin_ctzll(mask);
}
#endif

#if defined(__AVX2__)
/* --- vectors of 64-bit words -------------------------------------------------------------------- */

#if defined(__AVX512VBMI2__)
#define LANES 8
#else
#define LANES 4
#endif
typedef uint64_t vq __attribute__((vector_size(8 * LANES)));
typedef uint64_t vq_memory __attribute__((vector_size(8 * LANES), aligned(8), may_alias));
typedef double vd __attribute__((vector_size(8 * LANES)));
typedef float vf __attribute__((vector_size(4 * LANES)));
typedef uint32_t vw __attribute__((vector_size(4 * LANES)));
typedef uint32_t vw_memory __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

ALWAYS_INLINE vq splat(uint64_t number) { return number - (vq){0}; }
ALWAYS_INLINE vq load(const uint64_t *p) { return *(const vq_memory *)p; }
ALWAYS_INLINE vw load_w(const uint32_t *p) { return *(const vw_memory *)p; }
/* Lane i: p[2 i] below, p[2 i + 1] above. */
ALWAYS_INLINE vq load_pairs(const uint32_t *p)
{
    vq pairs;
    memcpy(&pairs, p, sizeof pairs);
    return pairs;
}

/* Shifts by 64 and more, which C leaves undefined, give 0. */
#if defined(__AVX512VBMI2__)
ALWAYS_INLINE vq shift_left(vq a, vq count) { return (vq)_mm512_sllv_epi64((__m512i)a, (__m512i)count); }
ALWAYS_INLINE vq shift_right(vq a, vq count) { return (vq)_mm512_srlv_epi64((__m512i)a, (__m512i)count); }
ALWAYS_INLINE vq pairs_add(vq bytes, vq factors) { return (vq)_mm512_maddubs_epi16((__m512i)bytes, (__m512i)factors); }
ALWAYS_INLINE vq halves_add(vq halves, vq factors) { return (vq)_mm512_madd_epi16((__m512i)halves, (__m512i)factors); }
ALWAYS_INLINE vq low_multiply(vq a, vq b) { return (vq)_mm512_mul_epu32((__m512i)a, (__m512i)b); }
ALWAYS_INLINE vq widen(vw a) { return (vq)_mm512_cvtepu32_epi64((__m256i)a); }
/* A bit for each lane whose top bit is set. */
ALWAYS_INLINE uint32_t lanes_of(vq a) { return _mm512_movepi64_mask((__m512i)a); }
/* The same for lanes that are equal, or greater. */
ALWAYS_INLINE uint32_t lanes_equal(vq a, vq b) { return _mm512_cmpeq_epi64_mask((__m512i)a, (__m512i)b); }
ALWAYS_INLINE uint32_t lanes_above(vq a, vq b) { return _mm512_cmpgt_epu64_mask((__m512i)a, (__m512i)b); }
#else
ALWAYS_INLINE vq shift_left(vq a, vq count) { return (vq)_mm256_sllv_epi64((__m256i)a, (__m256i)count); }
ALWAYS_INLINE vq shift_right(vq a, vq count) { return (vq)_mm256_srlv_epi64((__m256i)a, (__m256i)count); }
ALWAYS_INLINE vq pairs_add(vq bytes, vq factors) { return (vq)_mm256_maddubs_epi16((__m256i)bytes, (__m256i)factors); }
ALWAYS_INLINE vq halves_add(vq halves, vq factors) { return (vq)_mm256_madd_epi16((__m256i)halves, (__m256i)factors); }
ALWAYS_INLINE vq low_multiply(vq a, vq b) { return (vq)_mm256_mul_epu32((__m256i)a, (__m256i)b); }
ALWAYS_INLINE vq widen(vw a) { return (vq)_mm256_cvtepu32_epi64((__m128i)a); }
ALWAYS_INLINE uint32_t lanes_of(vq a) { return (uint32_t)_mm256_movemask_pd((__m256d)a); }
ALWAYS_INLINE uint32_t lanes_equal(vq a, vq b) { return lanes_of((vq)(a == b)); }
ALWAYS_INLINE uint32_t lanes_above(vq a, vq b) { return lanes_of((vq)(a > b)); }
#endif

/* A bit for each of `left` lanes, as far as there are so many. */
ALWAYS_INLINE uint32_t lanes_first(uint32_t left) { return left < LANES ? (1u << left) - 1 : (1u << LANES) - 1; }

ALWAYS_INLINE uint64_t word_at(const char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/* Eight bytes from each `step`th of the places. Single loads, because a gather is no faster where it is good
 * and much slower elsewhere. */
ALWAYS_INLINE vq words_at_each(const char *text, const uint32_t *at, size_t step)
{
#define WORD(lane) word_at(text + at[(lane)*step])
#if defined(__AVX512VBMI2__)
    return (vq){WORD(0), WORD(1), WORD(2), WORD(3), WORD(4), WORD(5), WORD(6), WORD(7)};
#else
    return (vq){WORD(0), WORD(1), WORD(2), WORD(3)};
#endif
#undef WORD
}
ALWAYS_INLINE vq words_at(const char *text, const uint32_t *at) { return words_at_each(text, at, 1); }

/* LANES integers of up to eight bytes. */
struct integers {
    vq magnitude, is_negative, is_other; /* is_other: the text has another form, or is longer */
};

ALWAYS_INLINE struct integers integers_of(vq word, vq bytes)
{
    struct integers found;
    vq is_long = (vq)(bytes > 8), has_sign = (vq)((word & 0xff) == '-') & (vq)(bytes > 0);
    bytes += has_sign; /* true is -1 */
    word = shift_right(word, has_sign & 8);
    /* The digits move to the top of a word, the last one uppermost, with zeros in front of
     * them; then neighbours are joined. */
    vq shift = 64 - 8 * bytes;
    word = shift_left(word, shift) ^ shift_left(splat(UINT64_C(0x3030303030303030)), shift);
    vq other = ((word + UINT64_C(0x7676767676767676)) | word) & UINT64_C(0x8080808080808080);
    found.is_other = is_long | (has_sign & (vq)(bytes == 0)) | (vq)(other != 0);
    word = pairs_add(word, splat(UINT64_C(0x010a010a010a010a)));
    word = halves_add(word, splat(UINT64_C(0x0001006400010064)));
    found.magnitude = low_multiply(word, splat(10000)) + (word >> 32);
    found.is_negative = has_sign;
    return found;
}

/* --- keys ------------------------------------------------------------------------------------- */

/* xxh3-64 of a text of 4 to 8 bytes; `word` has the text's first eight bytes,
 * those behind the text do not count. */
ALWAYS_INLINE vq hash_usual(vq word, vq bytes, vq flip)
{
    const uint64_t prime = UINT64_C(0x9fb21c651e98df25);
    vq last = shift_right(word, 8 * bytes - 32) & 0xffffffff;
    vq h = (last + (word << 32)) ^ flip;
    h ^= (h << 49 | h >> 15) ^ (h << 24 | h >> 40);
    h *= prime;
    h ^= (h >> 35) + bytes;
    h *= prime;
    return h ^ h >> 28;
}

/* The same for 1 to 3 bytes. */
ALWAYS_INLINE vq hash_short(vq word, vq bytes, vq flip)
{
    vq middle = shift_right(word, (bytes >> 1) * 8) & 0xff, last = shift_right(word, 8 * bytes - 8) & 0xff;
    vq h = ((word & 0xff) << 16 | middle << 24 | last | bytes << 8) ^ flip;
    h ^= h >> 33;
    h *= XXH_PRIME64_2;
    h ^= h >> 29;
    h *= XXH_PRIME64_3;
    return h ^ h >> 32;
}

/* Which of an array's numbers the lanes take: those at `which`, or, if this is NULL, from `first` on, or all
 * of them the first. */
struct chosen {
    const uint32_t *which;
    uint32_t first;
    bool is_same;
};
ALWAYS_INLINE vq numbers_of(const uint64_t *number, struct chosen chosen)
{
    if (!chosen.which) return chosen.is_same ? splat(number[chosen.first]) : load(number + chosen.first);
    vq numbers;
    for (uint32_t i = 0; i < LANES; i++) numbers[i] = number[chosen.which[i]];
    return numbers;
}

/* The keys of LANES texts of at most eight bytes, by their first eight bytes; keys of empty texts and of
 * longer ones have no meaning. */
ALWAYS_INLINE vq keys_of_words(vq word, vq bytes, const struct text_seeds *seeds, struct chosen chosen)
{
    vq key = hash_usual(word, bytes, numbers_of(seeds->flip_usual, chosen));
    vq is_short = (vq)(bytes - 1 < 3);
    if (lanes_above(splat(3), bytes - 1)) {
        vq other = hash_short(word, bytes, numbers_of(seeds->flip_short, chosen));
        key = (key & ~is_short) | (other & is_short);
    }
    return key;
}

/* text_kernels.features, in io/isa/text_features.c. */
size_t KERNEL(text_features)(const char *text, size_t bytes, const struct text_numbers *numbers,
                             struct text_features *found);
#endif

#endif
