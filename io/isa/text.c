/* The parsers' kernels (io/read/text_isa.h), one text for every instruction set.
 *
 * Workload: a line of Criteo, 250 bytes with 40 columns: four blocks of 64 bytes, two vectors of
 * integers, four of keys. Numbers and keys of unusual length are left to plain code, so branches here
 * depend only on how unusual the data is. */
#include "io/isa/text_lanes.h"

#define STRING(name) #name
#define NAME(isa)    STRING(isa)

/* --- columns ---------------------------------------------------------------------------------- */

/* Bit i: byte i of the 64 is a line end, a separator, a quotation mark, a space. */
struct block_masks {
    uint64_t ends, separators, quotes, spaces;
};

ALWAYS_INLINE struct block_masks block_masks_of(const char *text, char separator)
{
    const struct bytes64 bytes = bytes64_of(text);
    return (struct block_masks){.ends = bytes64_equal(bytes, '\n'),
                                .separators = bytes64_equal(bytes, separator),
                                .quotes = bytes64_equal(bytes, '"'),
                                .spaces = bytes64_equal(bytes, ' ')};
}

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
    if ((marks | q->inside | q->is_close) == 0) { /* most files have no marks */
        q->is_begin = *block_separators >> 63;
        return;
    }
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
    for (uint32_t i = 0; count < limit && i <= TEXT_PAD; i++) begin[count + 1 + i] = (uint32_t)line_bytes + 1;
    found->line_bytes = line_bytes;
    found->has_end = has_end;
    found->has_quote = quotes;
    found->is_quoted = found->takes_quotes && !between.odd && !between.inside;
    found->has_space = spaces;
    found->separator_count = count;
}

#if defined(__AVX2__)
/* --- keys ------------------------------------------------------------------------------------- */

/* The keys of LANES texts of any lengths; keys of empty texts, and of those that are not in `lanes`, have no
 * meaning. */
ALWAYS_INLINE vq keys_of(const char *text, const uint32_t *at, vw text_bytes, const struct text_seeds *seeds,
                         struct chosen chosen, uint32_t lanes)
{
    vq bytes = widen(text_bytes), key = keys_of_words(words_at(text, at), bytes, seeds, chosen);
    uint32_t long_lanes = lanes_of((vq)(bytes > 8)) & lanes;
    if (__builtin_expect(long_lanes != 0, 0)) {
        uint64_t out[LANES];
        memcpy(out, &key, sizeof out);
        for (; long_lanes; long_lanes &= long_lanes - 1) {
            uint32_t i = (uint32_t)__builtin_ctz(long_lanes);
            const uint32_t seed = chosen.which ? chosen.which[i] : chosen.first + i;
            out[i] = reader_key_inline(seeds->seed[seed], text + at[i], text_bytes[i]);
        }
        memcpy(&key, out, sizeof out);
    }
    return key;
}

static void KERNEL(keys)(uint64_t *key, const char *text, const uint32_t *at, const uint32_t *bytes,
                         const struct text_seeds *seeds, const uint32_t *which, uint32_t count)
{
    for (uint32_t i = 0; i < count; i += LANES) {
        const struct chosen chosen = {.which = which + i};
        vq keys = keys_of(text, at + i, load_w(bytes + i), seeds, chosen, lanes_first(count - i));
        memcpy(key + i, &keys, sizeof keys);
    }
}

/* Fields i .. i + LANES - 1, behind key_count keys; returns how many there are then. */
ALWAYS_INLINE uint32_t plain_put(const struct text_plain *plain, uint32_t i, const char *text, const uint32_t *at,
                                 vw text_bytes, uint32_t key_count, uint64_t *key, uint32_t *key_end)
{
    const uint32_t lanes = lanes_first(plain->field_count - i);
    const vq found = keys_of(text, at, text_bytes, &plain->seeds, (struct chosen){.first = i}, lanes);
#if defined(__AVX512VBMI2__)
    __mmask8 present = _mm256_test_epi32_mask((__m256i)text_bytes, (__m256i)text_bytes);
    __m512i keys = (__m512i)found;
    if (plain->missing_is_key) {
        keys = _mm512_mask_loadu_epi64(keys, (__mmask8)~present, plain->missing_key + i);
        present = 0xff;
    }
    present &= (__mmask8)lanes;
    const uint32_t count = (uint32_t)__builtin_popcount(present);
    _mm512_mask_storeu_epi64(key + key_count, (__mmask8)((1u << count) - 1),
                             _mm512_maskz_compress_epi64(present, keys));
    const __m256i up_to = _mm256_setr_epi32(1, 3, 7, 15, 31, 63, 127, 255); /* bits 0 .. lane */
    const __m256i before = _mm256_popcnt_epi32(_mm256_and_si256(up_to, _mm256_set1_epi32(present)));
    _mm256_mask_storeu_epi32(key_end + i, (__mmask8)lanes, _mm256_add_epi32(before, _mm256_set1_epi32((int)key_count)));
    return key_count + count;
#else
    for (uint32_t lane = 0; lanes >> lane & 1; lane++) {
        key[key_count] = text_bytes[lane] ? found[lane] : plain->missing_key[i + lane];
        key_count += (text_bytes[lane] > 0) | plain->missing_is_key;
        key_end[i + lane] = key_count;
    }
    return key_count;
#endif
}

static uint32_t KERNEL(fields)(const struct text_plain *fields, const char *text, const uint32_t *at,
                               const uint32_t *stop, uint64_t *key, uint32_t *key_end)
{
    uint32_t key_count = 0;
    for (uint32_t i = 0; i < fields->field_count; i += LANES)
        key_count = plain_put(fields, i, text, at + i, load_w(stop + i) - load_w(at + i) - 1, key_count, key, key_end);
    return key_count;
}

static uint32_t KERNEL(categories)(const struct criteo_fields *fields, const char *line, const uint32_t *begin,
                                   uint64_t *key, uint32_t *key_end)
{
    uint32_t at[CRITEO_CATEGORIES + 6], text_bytes[CRITEO_CATEGORIES + 6], key_count = 0;
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
    for (uint32_t i = 0; i < fields->plain.field_count; i += LANES)
        key_count = plain_put(&fields->plain, i, line, at + i, load_w(text_bytes + i), key_count, key, key_end);
    return key_count;
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

#if defined(__AVX512VBMI2__)
static bool KERNEL(integers)(const char *line, const uint32_t at[16], const uint32_t stop[16], uint32_t count,
                             const float *log1p_of, float missing_value, float out[16])
{
    const __mmask16 lanes = (__mmask16)((1u << count) - 1);
    vw low_bytes = load_w(stop) - load_w(at) - 1, high_bytes = load_w(stop + 8) - load_w(at + 8) - 1;
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
static bool KERNEL(integers)(const char *line, const uint32_t at[16], const uint32_t stop[16], uint32_t count,
                             const float *log1p_of, float missing_value, float out[16])
{
    vq is_other = {0};
    for (uint32_t i = 0; i < 16; i += LANES) {
        vw text_bytes = load_w(stop + i) - load_w(at + i) - 1;
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
    .fields = KERNEL(fields),
    .keys = KERNEL(keys),
    .features = KERNEL(text_features),
#endif
#if defined(__AVX512VBMI2__)
    .homes = KERNEL(homes),
#endif
};
