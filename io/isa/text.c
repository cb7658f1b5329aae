/* The parsers' kernels (io/read/text_isa.h), one text for every instruction set.
 *
 * Workload: a line of Criteo, 250 bytes with 40 columns: four blocks of 64 bytes, two vectors of
 * integers, four of keys. Numbers and keys of unusual length are left to plain code, so branches here
 * depend only on how unusual the data is. */
#include "io/read/decimal.h"
#include "io/read/reader_internal.h"
#include "io/read/text_isa.h"

#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define PASTE(name, isa)  name##_##isa
#define EXPAND(name, isa) PASTE(name, isa)
#define KERNEL(name)      EXPAND(name, ISA)
#define STRING(name)      #name
#define NAME(isa)         STRING(isa)
#define ALWAYS_INLINE     static inline __attribute__((always_inline))

/* --- columns ---------------------------------------------------------------------------------- */

/* Bit i: byte i of the 64 is a line end, a separator, a quotation mark, a space. */
struct block_masks {
    uint64_t ends, separators, quotes, spaces;
};

#if defined(__AVX512VBMI2__)
ALWAYS_INLINE struct block_masks block_masks_of(const char *text, char separator)
{
    __m512i bytes = _mm512_loadu_si512(text);
    return (struct block_masks){.ends = _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8('\n')),
                                .separators = _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(separator)),
                                .quotes = _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8('"')),
                                .spaces = _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(' '))};
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
ALWAYS_INLINE uint64_t block_mask_of(__m256i low, __m256i high, char c)
{
    __m256i wanted = _mm256_set1_epi8(c);
    uint32_t low_mask = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, wanted));
    uint32_t high_mask = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, wanted));
    return (uint64_t)high_mask << 32 | low_mask;
}

ALWAYS_INLINE struct block_masks block_masks_of(const char *text, char separator)
{
    __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)text);
    __m256i high = _mm256_loadu_si256((const __m256i *)(const void *)(text + 32));
    return (struct block_masks){.ends = block_mask_of(low, high, '\n'),
                                .separators = block_mask_of(low, high, separator),
                                .quotes = block_mask_of(low, high, '"'),
                                .spaces = block_mask_of(low, high, ' ')};
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
ALWAYS_INLINE struct block_masks block_masks_of(const char *text, char separator)
{
    return (struct block_masks){.ends = reader_mask(text, '\n'),
                                .separators = reader_mask(text, separator),
                                .quotes = reader_mask(text, '"'),
                                .spaces = reader_mask(text, ' ')};
}

ALWAYS_INLINE void places_store(uint32_t *begin, uint32_t at, uint64_t mask, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++, mask &= mask - 1) begin[i] = at + (uint32_t)__builtin_ctzll(mask);
}
#endif

/* Which bytes are between quotation marks, on the way through blocks of 64 bytes. */
struct quotes {
    uint64_t inside;   /* all ones: the last block ended between two marks           */
    uint64_t is_begin; /* 1: the next byte is a column's first                         */
    uint64_t is_close; /* 1: the last byte was a closing mark, behind which the column must end */
    uint64_t odd;      /* marks that are at no end of a column                       */
};

/* Takes the bytes between marks out of a block's separators and spaces; `inside`: bytes of
 * the block that are the line's. */
ALWAYS_INLINE void quotes_take(struct quotes *q, uint64_t marks, uint64_t inside, uint64_t *block_separators,
                               uint64_t *spaces)
{
    uint64_t between = marks;
    for (int shift = 1; shift < 64; shift *= 2) between ^= between << shift;
    between ^= q->inside;
    uint64_t separators = *block_separators & ~between, line_ends = ~inside;
    uint64_t opens = marks & between, closes = marks & ~between;
    q->odd |= opens & ~(separators << 1 | q->is_begin);
    q->odd |= closes & ~((separators | line_ends) >> 1 | UINT64_C(1) << 63);
    q->odd |= q->is_close & ~(separators | line_ends);
    q->is_begin = separators >> 63;
    q->is_close = closes >> 63;
    q->inside = 0 - (between >> 63);
    *block_separators = separators;
    *spaces &= ~between;
}

static void KERNEL(columns_find)(const char *text, size_t bytes, char separator, uint32_t limit,
                                 struct text_columns *found)
{
    uint32_t *restrict begin = found->begin;
    uint32_t count = 0; /* of separators; those beyond the limit are only counted */
    uint64_t quotes = 0, spaces = 0;
    struct quotes between = {.is_begin = 1};
    size_t line_bytes = bytes;
    bool has_end = false;
    begin[0] = 0;
    for (size_t at = 0; at < bytes; at += 64) {
        struct block_masks masks = block_masks_of(text + at, separator);
        uint64_t inside = bytes - at < 64 ? ((uint64_t)1 << (bytes - at)) - 1 : UINT64_MAX;
        uint64_t ends = masks.ends & inside;
        inside = ends ? (ends & (0 - ends)) - 1 : inside;
        uint64_t separators = masks.separators & inside;
        quotes |= masks.quotes & inside;
        if (found->takes_quotes) quotes_take(&between, masks.quotes & inside, inside, &separators, &masks.spaces);
        uint32_t more = (uint32_t)__builtin_popcountll(separators);
        spaces |= masks.spaces & inside;
        if (__builtin_expect(count <= limit, 1)) places_store(begin + count + 1, (uint32_t)at + 1, separators, more);
        count += more;
        if (ends) {
            line_bytes = at + (size_t)__builtin_ctzll(ends);
            has_end = true;
            break;
        }
    }
    if (count < limit) begin[count + 1] = (uint32_t)line_bytes + 1;
    found->line_bytes = line_bytes;
    found->has_end = has_end;
    found->has_quote = quotes;
    found->is_quoted = found->takes_quotes && !between.odd && !between.inside;
    found->has_space = spaces;
    found->separator_count = count;
}

#if defined(__AVX2__)

/* --- vectors of 64-bit words -------------------------------------------------------------------- */

#if defined(__AVX512VBMI2__)
#define LANES          8
#define SHIFT(op, ...) (vq) _mm512_##op((__m512i)__VA_ARGS__)
#else
#define LANES          4
#define SHIFT(op, ...) (vq) _mm256_##op((__m256i)__VA_ARGS__)
#endif
typedef uint64_t vq __attribute__((vector_size(8 * LANES)));
typedef uint64_t vq_memory __attribute__((vector_size(8 * LANES), aligned(8), may_alias));
typedef double vd __attribute__((vector_size(8 * LANES)));
typedef uint32_t vw __attribute__((vector_size(4 * LANES)));
typedef uint32_t vw_memory __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

ALWAYS_INLINE vq splat(uint64_t number) { return number - (vq){0}; }
ALWAYS_INLINE vq load(const uint64_t *p) { return *(const vq_memory *)p; }
ALWAYS_INLINE vq widen(vw v) { return __builtin_convertvector(v, vq); }
ALWAYS_INLINE vw load_w(const uint32_t *p) { return *(const vw_memory *)p; }

/* Shifts by 64 and more, which C leaves undefined, give 0. */
#if defined(__AVX512VBMI2__)
ALWAYS_INLINE vq shift_left(vq a, vq count) { return (vq)_mm512_sllv_epi64((__m512i)a, (__m512i)count); }
ALWAYS_INLINE vq shift_right(vq a, vq count) { return (vq)_mm512_srlv_epi64((__m512i)a, (__m512i)count); }
ALWAYS_INLINE vq pairs_add(vq bytes, vq factors) { return (vq)_mm512_maddubs_epi16((__m512i)bytes, (__m512i)factors); }
ALWAYS_INLINE vq halves_add(vq halves, vq factors) { return (vq)_mm512_madd_epi16((__m512i)halves, (__m512i)factors); }
ALWAYS_INLINE vq low_multiply(vq a, vq b) { return (vq)_mm512_mul_epu32((__m512i)a, (__m512i)b); }
/* A bit for each lane that is true. */
ALWAYS_INLINE uint32_t lanes_of(vq is_true) { return _mm512_movepi64_mask((__m512i)is_true); }
#else
ALWAYS_INLINE vq shift_left(vq a, vq count) { return (vq)_mm256_sllv_epi64((__m256i)a, (__m256i)count); }
ALWAYS_INLINE vq shift_right(vq a, vq count) { return (vq)_mm256_srlv_epi64((__m256i)a, (__m256i)count); }
ALWAYS_INLINE vq pairs_add(vq bytes, vq factors) { return (vq)_mm256_maddubs_epi16((__m256i)bytes, (__m256i)factors); }
ALWAYS_INLINE vq halves_add(vq halves, vq factors) { return (vq)_mm256_madd_epi16((__m256i)halves, (__m256i)factors); }
ALWAYS_INLINE vq low_multiply(vq a, vq b) { return (vq)_mm256_mul_epu32((__m256i)a, (__m256i)b); }
ALWAYS_INLINE uint32_t lanes_of(vq is_true) { return (uint32_t)_mm256_movemask_pd((__m256d)is_true); }
#endif
#undef SHIFT

ALWAYS_INLINE uint64_t word_at(const char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/* Eight bytes from each place. Single loads, because a gather is no faster where it is good and much slower
 * elsewhere. */
ALWAYS_INLINE vq words_at(const char *text, const uint32_t *at)
{
#if defined(__AVX512VBMI2__)
    return (vq){word_at(text + at[0]), word_at(text + at[1]), word_at(text + at[2]), word_at(text + at[3]),
                word_at(text + at[4]), word_at(text + at[5]), word_at(text + at[6]), word_at(text + at[7])};
#else
    return (vq){word_at(text + at[0]), word_at(text + at[1]), word_at(text + at[2]), word_at(text + at[3])};
#endif
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

/* The keys of LANES texts of any lengths; keys of empty texts have no meaning. */
ALWAYS_INLINE vq keys_of(const char *text, const uint32_t *at, vw text_bytes, const struct text_seeds *seeds,
                         uint32_t first)
{
    vq word = words_at(text, at), bytes = widen(text_bytes);
    vq key = hash_usual(word, bytes, load(seeds->flip_usual + first));
    vq is_short = (vq)(bytes - 1 < 3);
    if (lanes_of(is_short)) {
        vq other = hash_short(word, bytes, load(seeds->flip_short + first));
        key = (key & ~is_short) | (other & is_short);
    }
    uint32_t long_lanes = lanes_of((vq)(bytes > 8));
    if (__builtin_expect(long_lanes != 0, 0)) {
        uint64_t out[LANES];
        memcpy(out, &key, sizeof out);
        for (; long_lanes; long_lanes &= long_lanes - 1) {
            uint32_t i = (uint32_t)__builtin_ctz(long_lanes);
            out[i] = reader_key_inline(seeds->seed[first + i], text + at[i], text_bytes[i]);
        }
        memcpy(&key, out, sizeof out);
    }
    return key;
}

static void KERNEL(keys)(uint64_t *key, const char *text, const uint32_t *at, const uint32_t *bytes,
                         const struct text_seeds *seeds, uint32_t count)
{
    for (uint32_t i = 0; i < count; i += LANES) {
        vq keys = keys_of(text, at + i, load_w(bytes + i), seeds, i);
        memcpy(key + i, &keys, sizeof keys);
    }
}

static uint32_t KERNEL(categories)(const struct criteo_fields *fields, const char *line, const uint32_t *begin,
                                   uint64_t *key, uint32_t *key_end)
{
    const uint32_t field_count = fields->field_count;
    uint32_t at[CRITEO_CATEGORIES + 6], text_bytes[CRITEO_CATEGORIES + 6];
    /* Columns behind the last field are 0, so that every lane has a place in the line. */
#if defined(__AVX512VBMI2__)
    const __m512i low = _mm512_loadu_si512(begin), high = _mm512_loadu_si512(begin + 16);
    const __m512i low_next = _mm512_loadu_si512(begin + 1), high_next = _mm512_loadu_si512(begin + 17);
    for (uint32_t i = 0; i < CRITEO_CATEGORIES + 6; i += 16) {
        __m512i column = _mm512_loadu_si512(fields->column + i);
        __m512i from = _mm512_permutex2var_epi32(low, column, high);
        __m512i next = _mm512_permutex2var_epi32(low_next, column, high_next);
        _mm512_storeu_si512(at + i, from);
        _mm512_storeu_si512(text_bytes + i, _mm512_sub_epi32(_mm512_sub_epi32(next, from), _mm512_set1_epi32(1)));
    }
#else
    for (uint32_t i = 0; i < CRITEO_CATEGORIES + 6; i++) {
        uint32_t column = fields->column[i];
        at[i] = begin[column];
        text_bytes[i] = begin[column + 1] - begin[column] - 1;
    }
#endif
#if defined(__AVX512VBMI2__)
    uint32_t has = 0, key_count = 0;
    for (uint32_t i = 0; i < field_count; i += LANES) {
        vw bytes = load_w(text_bytes + i);
        uint32_t left = field_count - i, lanes = left < LANES ? (1u << left) - 1 : 0xff;
        __m512i keys = (__m512i)keys_of(line, at + i, bytes, &fields->seeds, i);
        __mmask8 present = _mm256_test_epi32_mask((__m256i)bytes, (__m256i)bytes);
        if (fields->missing_is_key) {
            keys = _mm512_mask_loadu_epi64(keys, (__mmask8)~present, fields->missing_key + i);
            present = 0xff;
        }
        present &= (__mmask8)lanes;
        uint32_t count = (uint32_t)__builtin_popcount(present);
        _mm512_mask_storeu_epi64(key + key_count, (__mmask8)((1u << count) - 1),
                                 _mm512_maskz_compress_epi64(present, keys));
        key_count += count;
        has |= (uint32_t)present << i;
    }
    for (uint32_t i = 0; i < field_count; i += 16) {
        uint32_t left = field_count - i;
        __m512i bit = _mm512_add_epi32(_mm512_set1_epi32((int)i),
                                       _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
        /* Bits 0 .. bit. */
        __m512i upto = _mm512_sub_epi32(_mm512_sllv_epi32(_mm512_set1_epi32(2), bit), _mm512_set1_epi32(1));
        __m512i ends = _mm512_popcnt_epi32(_mm512_and_si512(upto, _mm512_set1_epi32((int)has)));
        _mm512_mask_storeu_epi32(key_end + i, left < 16 ? (__mmask16)((1u << left) - 1) : 0xffff, ends);
    }
    return key_count;
#else
    const bool missing_is_key = fields->missing_is_key;
    uint64_t found[CRITEO_CATEGORIES + 6];
    KERNEL(keys)(found, line, at, text_bytes, &fields->seeds, field_count);
    uint32_t key_count = 0;
    for (uint32_t field = 0; field < field_count; field++) {
        uint64_t missing = fields->missing_key[field];
        key[key_count] = text_bytes[field] ? found[field] : missing;
        key_count += (text_bytes[field] > 0) | missing_is_key;
        key_end[field] = key_count;
    }
    return key_count;
#endif
}

/* --- integers --------------------------------------------------------------------------------- */

/* The logarithm of 1 + x for x = 1 .. 2^32 - 1, by the steps, sums and products of fmath_log1p and fmath_log.
 * 1 + x is exact, so nothing is added for its rounding. */
ALWAYS_INLINE vd log1p_of_large(vd x)
{
    static const double inverse_odd[] = {
        2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9, 2.0 / 11, 2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21, 2.0 / 23,
    };
    vq bits = (vq)(1 + x);
    vd m = (vd)((bits & ((UINT64_C(1) << 52) - 1)) | (UINT64_C(1023) << 52));
    vq is_above = (vq)(m > 0x1.6a09e667f3bcdp+0);
    m = (vd)(((vq)m & ~is_above) | ((vq)(m * 0.5) & is_above));
    /* 2^52 + n as bits is 2^52 with n in its lowest places. */
    vq n = (bits >> 52) - 1023 + (is_above & 1);
    vd exponent = (vd)(n | (UINT64_C(1075) << 52)) - 0x1p52;
    vd f = (m - 1) / (m + 1), f2 = f * f, sum = inverse_odd[10] - (vd){0};
    for (int i = 9; i >= 0; i--) sum = sum * f2 + inverse_odd[i];
    vd log_m = 2 * f + f * f2 * sum;
    return exponent * 0x1.62e42fefp-1 + (log_m + exponent * 0x1.473de6af278edp-34);
}

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

#if defined(__AVX512VBMI2__)
/* --- features --------------------------------------------------------------------------------- */

/* The parts of a line: the texts between its blanks and colons. */
#define PARTS_MAX (3 * TEXT_FEATURES)
struct parts {
    uint32_t begin[PARTS_MAX + TEXT_BEGIN_MORE]; /* part i is the bytes begin[i] .. begin[i + 1] - 2 */
    char separator[PARTS_MAX + 128];             /* the byte behind part i                       */
};

/* Finds the parts at the front of a text that ends in no blank, at least `most` of them if there
 * are as many; returns how many. */
ALWAYS_INLINE uint32_t parts_find(const char *text, size_t bytes, uint32_t most, struct parts *parts)
{
    uint32_t count = 0;
    size_t at = 0;
    parts->begin[0] = 0;
    for (; at < bytes && count < most; at += 64) {
        __m512i block = _mm512_loadu_si512(text + at);
        uint64_t separators = _mm512_cmpeq_epi8_mask(block, _mm512_set1_epi8(' ')) |
                              _mm512_cmpeq_epi8_mask(block, _mm512_set1_epi8('\t')) |
                              _mm512_cmpeq_epi8_mask(block, _mm512_set1_epi8(':'));
        if (bytes - at < 64) separators &= ((uint64_t)1 << (bytes - at)) - 1;
        uint32_t more = (uint32_t)__builtin_popcountll(separators);
        places_store(parts->begin + count + 1, (uint32_t)at + 1, separators, more);
        _mm512_storeu_si512(parts->separator + count, _mm512_maskz_compress_epi8(separators, block));
        count += more;
    }
    if (at < bytes || count >= most) return count;
    parts->begin[count + 1] = (uint32_t)bytes + 1;
    parts->separator[count] = ' ';
    return count + 1;
}

/* Whether a colon follows each part of a feature but the last, and a blank follows the last. */
ALWAYS_INLINE bool parts_alternate(const char *separator, uint32_t count, bool has_field)
{
    /* Bit i of pattern j: (64 j + i) % 3 != 2. */
    static const uint64_t thirds[3] = {UINT64_C(0xb6db6db6db6db6db), UINT64_C(0xdb6db6db6db6db6d),
                                       UINT64_C(0x6db6db6db6db6db6)};
    for (uint32_t i = 0; i < count; i += 64) {
        uint64_t colons = _mm512_cmpeq_epi8_mask(_mm512_loadu_si512(separator + i), _mm512_set1_epi8(':'));
        uint64_t expected = has_field ? thirds[i / 64] : UINT64_C(0x5555555555555555);
        uint64_t inside = count - i < 64 ? ((uint64_t)1 << (count - i)) - 1 : UINT64_MAX;
        if ((colons ^ expected) & inside) return false;
    }
    return true;
}

/* decimal_parse_short (io/read/decimal.h), lane by lane. Returns the lanes where the function is false. */
ALWAYS_INLINE uint32_t decimals_of(vq word, vq bytes, float out[LANES])
{
    const vq each = splat(UINT64_C(0x0101010101010101));
    vq is_negative = (vq)((word & 0xff) == '-'), count = bytes + is_negative; /* true is -1 */
    word = shift_right(word, is_negative & 8);
    vq inside = ~shift_left(splat(UINT64_MAX), 8 * count);
    vq differs = word ^ each * '.', points = (differs - each) & ~differs & each * 0x80 & inside;
    vq has_point = (vq)(points != 0), before = ((points & (0 - points)) >> 7) - 1;
    word = (word & before) | (word >> 8 & ~before);
    vq behind_whole = (vq)_mm512_popcnt_epi64((__m512i)before) >> 3;
    vq digits = count + has_point, fraction = (digits - behind_whole) & has_point;
    vq shift = 64 - 8 * digits;
    word = shift_left(word, shift) ^ shift_left(each * '0', shift);
    vq other = ((word + each * 0x76) | word) & each * 0x80;
    word = pairs_add(word, splat(UINT64_C(0x010a010a010a010a)));
    word = halves_add(word, splat(UINT64_C(0x0001006400010064)));
    word = low_multiply(word, splat(10000)) + (word >> 32);
    vd value = (vd)_mm512_cvtepu64_pd((__m512i)word);
    if (lanes_of(has_point)) { /* a division takes as long as everything else */
        const __m512d powers = _mm512_setr_pd(1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7);
        value /= (vd)_mm512_permutexvar_pd((__m512i)fraction, powers);
    }
    vq is_between = (vq)(((vq)value & 0x1fffffff) == 0x10000000);
    value = (vd)((is_negative & (vq)(0 - value)) | (~is_negative & (vq)value));
    _mm256_storeu_ps(out, _mm512_cvtpd_ps((__m512d)value));
    return lanes_of((vq)(bytes - 1 >= 8) | (vq)(digits == 0) | (vq)(other != 0) | is_between);
}

/* Lanes whose id is empty or has a leading zero, or, within eight bytes, has another byte than digits. */
ALWAYS_INLINE uint32_t ids_other(vq word, vq bytes)
{
    vq shift = 64 - 8 * bytes;
    vq digits = shift_left(word, shift) ^ shift_left(splat(UINT64_C(0x3030303030303030)), shift);
    vq other = ((digits + UINT64_C(0x7676767676767676)) | digits) & UINT64_C(0x8080808080808080);
    vq has_zero = (vq)((word & 0xff) == '0') & (vq)(bytes > 1);
    return lanes_of((vq)(bytes == 0) | ((vq)(other != 0) & (vq)(bytes <= 8)) | has_zero);
}

static bool is_long_id(const char *text, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        if (text[i] < '0' || text[i] > '9') return false;
    return bytes <= 20;
}

static size_t KERNEL(features)(const char *text, size_t bytes, bool has_field, struct text_features *found)
{
    const uint32_t each = has_field ? 3 : 2, most = each * TEXT_FEATURES;
    struct parts parts;
    uint32_t value_at[TEXT_FEATURES], value_bytes[TEXT_FEATURES], field_at[TEXT_FEATURES], field_bytes[TEXT_FEATURES];
    while (bytes && (text[bytes - 1] == ' ' || text[bytes - 1] == '\t')) bytes--;
    uint32_t count = parts_find(text, bytes, most, &parts) / each;
    if (count > TEXT_FEATURES) count = TEXT_FEATURES;
    if (!parts_alternate(parts.separator, count * each, has_field)) return 0;
    const uint32_t *begin = parts.begin + has_field;
    for (uint32_t i = 0; i < count; i++, begin += each) {
        found->at[i] = begin[0], found->id_bytes[i] = begin[1] - begin[0] - 1;
        value_at[i] = begin[1], value_bytes[i] = begin[2] - begin[1] - 1;
        if (has_field) field_at[i] = begin[-1], field_bytes[i] = begin[0] - begin[-1] - 1;
    }
    for (uint32_t i = count; i % LANES; i++) {
        found->at[i] = value_at[i] = field_at[i] = 0;
        found->id_bytes[i] = value_bytes[i] = field_bytes[i] = 1;
    }
    for (uint32_t i = 0; i < count; i += LANES) {
        uint32_t lanes = count - i < LANES ? (1u << (count - i)) - 1 : (1u << LANES) - 1;
        vq id_bytes = widen(load_w(found->id_bytes + i));
        if (ids_other(words_at(text, found->at + i), id_bytes) & lanes) return 0;
        uint32_t other = lanes_of((vq)(id_bytes > 8)) & lanes;
        for (; __builtin_expect(other != 0, 0); other &= other - 1) {
            uint32_t j = i + (uint32_t)__builtin_ctz(other);
            if (!is_long_id(text + found->at[j], found->id_bytes[j])) return 0;
        }
        other = decimals_of(words_at(text, value_at + i), widen(load_w(value_bytes + i)), found->value + i) & lanes;
        for (; __builtin_expect(other != 0, 0); other &= other - 1) {
            uint32_t j = i + (uint32_t)__builtin_ctz(other);
            double wide;
            if (!decimal_parse(text + value_at[j], value_bytes[j], &wide, &found->value[j])) return 0;
        }
        if (!has_field) continue;
        struct integers number = integers_of(words_at(text, field_at + i), widen(load_w(field_bytes + i)));
        vq is_other = number.is_other | number.is_negative | (vq)(widen(load_w(field_bytes + i)) - 1 >= 5) |
                      (vq)(number.magnitude > 65535);
        if (lanes_of(is_other) & lanes) return 0;
        _mm256_storeu_si256((__m256i *)(void *)(found->field + i), _mm512_cvtepi64_epi32((__m512i)number.magnitude));
    }
    found->count = count;
    size_t taken = parts.begin[count * each];
    return taken < bytes ? taken : bytes;
}

static bool KERNEL(integers)(const char *line, const uint32_t at[16], const uint32_t bytes[16], uint32_t count,
                             const float *log1p_of, float missing_value, float out[16])
{
    const __mmask16 lanes = (__mmask16)((1u << count) - 1);
    vw low_bytes = load_w(bytes), high_bytes = load_w(bytes + 8);
    struct integers low = integers_of(words_at(line, at), widen(low_bytes));
    struct integers high = integers_of(words_at(line, at + 8), widen(high_bytes));
    uint32_t other = lanes_of(low.is_other) | lanes_of(high.is_other) << 8;
    if (__builtin_expect((other & lanes) != 0, 0)) return false;
    __m512i magnitude = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi64_epi32((__m512i)low.magnitude)),
                                           _mm512_cvtepi64_epi32((__m512i)high.magnitude), 1);
    __m512 value;
    if (log1p_of) {
        __mmask16 large = _mm512_mask_cmpge_epu32_mask(lanes, magnitude, _mm512_set1_epi32(TEXT_LOG1P_COUNT));
        value = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), (__mmask16)(lanes & ~large), magnitude, log1p_of, 4);
        /* Few columns have large numbers, but nearly every line has one: they move into one vector. */
        while (large) {
            __m512i rest = _mm512_maskz_compress_epi32(large, magnitude);
            __m512d log1p = (__m512d)log1p_of_large((vd)_mm512_cvtepu32_pd(_mm512_castsi512_si256(rest)));
            __mmask16 done = (__mmask16)_pdep_u32(0xff, large);
            value = _mm512_mask_expand_ps(value, done, _mm512_castps256_ps512(_mm512_cvtpd_ps(log1p)));
            large &= (__mmask16)~done;
        }
    } else {
        value = _mm512_cvtepu32_ps(magnitude);
    }
    __mmask16 is_negative = (__mmask16)(lanes_of(low.is_negative) | lanes_of(high.is_negative) << 8);
    __mmask16 is_missing = (__mmask16)(_mm256_testn_epi32_mask((__m256i)low_bytes, (__m256i)low_bytes) |
                                       _mm256_testn_epi32_mask((__m256i)high_bytes, (__m256i)high_bytes) << 8);
    value = _mm512_mask_sub_ps(value, is_negative, _mm512_setzero_ps(), value);
    _mm512_storeu_ps(out, _mm512_mask_mov_ps(value, is_missing, _mm512_set1_ps(missing_value)));
    return true;
}

static bool KERNEL(homes)(uint32_t *key_begin, uint32_t *key_home, const uint32_t *key_end, uint32_t field_count,
                          uint32_t home, uint32_t key_base)
{
    uint32_t before = 0, position = key_base;
    bool is_single = true;
    const __m512i iota = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (uint32_t i = 0; i < field_count; i += 16) {
        uint32_t left = field_count - i;
        __mmask16 lanes = left < 16 ? (__mmask16)((1u << left) - 1) : 0xffff;
        __m512i ends = _mm512_maskz_loadu_epi32(lanes, key_end + i);
        __m512i begins = _mm512_alignr_epi32(ends, _mm512_set1_epi32((int)before), 15);
        __m512i counts = _mm512_maskz_sub_epi32(lanes, ends, begins);
        __mmask16 has = _mm512_test_epi32_mask(counts, counts);
        is_single = is_single && !_mm512_cmpgt_epu32_mask(counts, _mm512_set1_epi32(1));
        _mm512_mask_storeu_epi32(key_begin + 1 + i, lanes, _mm512_add_epi32(ends, _mm512_set1_epi32((int)key_base)));
        __m512i homes = _mm512_add_epi32(iota, _mm512_set1_epi32((int)(home + i)));
        uint32_t count = (uint32_t)__builtin_popcount(has);
        _mm512_mask_storeu_epi32(key_home + position, (__mmask16)((1u << count) - 1),
                                 _mm512_maskz_compress_epi32(has, homes));
        position += count;
        before = key_end[i + (left < 16 ? left : 16) - 1];
    }
    return is_single;
}
#else
static bool KERNEL(integers)(const char *line, const uint32_t at[16], const uint32_t all_bytes[16], uint32_t count,
                             const float *log1p_of, float missing_value, float out[16])
{
    vq is_other = {0};
    for (uint32_t i = 0; i < 16; i += LANES) {
        vw text_bytes = load_w(all_bytes + i);
        vq bytes = widen(text_bytes);
        struct integers found = integers_of(words_at(line, at + i), bytes);
        vq lanes = (vq)((vq){0, 1, 2, 3} + i < count);
        is_other |= found.is_other & lanes;
        vq magnitude = found.magnitude & lanes & ~found.is_other, is_large = (vq)(magnitude >= TEXT_LOG1P_COUNT);
        float value[LANES];
        if (!log1p_of) {
            for (uint32_t lane = 0; lane < LANES; lane++) value[lane] = (float)(uint32_t)magnitude[lane];
        } else {
            for (uint32_t lane = 0; lane < LANES; lane++) value[lane] = log1p_of[(magnitude & ~is_large)[lane]];
            if (lanes_of(is_large)) {
                vd log1p = log1p_of_large(__builtin_convertvector(magnitude, vd));
                for (uint32_t lane = 0; lane < LANES; lane++)
                    if (is_large[lane]) value[lane] = (float)log1p[lane];
            }
        }
        for (uint32_t lane = 0; lane < LANES; lane++) {
            float signed_value = found.is_negative[lane] ? 0 - value[lane] : value[lane];
            out[i + lane] = text_bytes[lane] ? signed_value : missing_value;
        }
    }
    return lanes_of(is_other) == 0;
}
#endif
#endif

const struct text_kernels KERNEL(text_kernels) = {
    .name = NAME(ISA),
    .columns_find = KERNEL(columns_find),
#if defined(__AVX2__)
    .integers = KERNEL(integers),
    .categories = KERNEL(categories),
    .keys = KERNEL(keys),
#endif
#if defined(__AVX512VBMI2__)
    .features = KERNEL(features),
    .homes = KERNEL(homes),
#endif
};
