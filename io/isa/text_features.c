/* Features of a line, many at a time (text_kernels.features of io/read/text_isa.h), one text for every
 * instruction set with vectors.
 *
 *     3:0.5 17:1 90:1        blanks are listed, and colons; the n-th feature is between two blanks, with its colon
 *     0:3:0.5 2:17:1         or its two colons there: else a text of it ends before it begins, which as a length
 *                            without sign is too long
 *
 * Workload: ten to forty features a line, 10 bytes each. Blanks and colons are found 64 bytes at a time,
 * fields, ids and values read as many at once as a vector holds. */
#include "io/isa/text_lanes.h"

#if defined(__AVX2__)

#include "io/read/decimal.h"

/* Of feature n: it begins at begin[n], and ends before the byte at begin[n + 1] - 1. Its colons, one or two,
 * are before the bytes at colon[n], or colon[2 n] and colon[2 n + 1]. */
#define COLONS_MAX (2 * TEXT_FEATURES)
struct marks {
    uint32_t begin[TEXT_FEATURES + 64 + LANES];
    uint32_t colon[COLONS_MAX + 64 + 2 * LANES];
};

/* Finds features at the front of a text that ends in no blank; returns how many, TEXT_FEATURES at most: 0 if
 * there are too few colons. Behind the lists are places in the text, so that all lanes have one. */
ALWAYS_INLINE uint32_t marks_find(const char *text, size_t bytes, uint32_t colons_each, struct marks *marks)
{
    uint32_t blank_count = 0, colon_count = 0;
    size_t at = 0;
    marks->begin[0] = 0;
    for (; at < bytes && blank_count < TEXT_FEATURES && colon_count < COLONS_MAX; at += 64) {
        const struct bytes64 all = bytes64_of(text + at);
        const uint64_t inside = bytes - at < 64 ? ((uint64_t)1 << (bytes - at)) - 1 : UINT64_MAX;
        const uint64_t blanks = (bytes64_equal(all, ' ') | bytes64_equal(all, '\t')) & inside;
        const uint64_t colons = bytes64_equal(all, ':') & inside;
        const uint32_t more_blanks = (uint32_t)__builtin_popcountll(blanks);
        const uint32_t more_colons = (uint32_t)__builtin_popcountll(colons);
        places_store(marks->begin + 1 + blank_count, (uint32_t)at + 1, blanks, more_blanks);
        places_store(marks->colon + colon_count, (uint32_t)at + 1, colons, more_colons);
        blank_count += more_blanks;
        colon_count += more_colons;
    }
    if (at >= bytes) marks->begin[1 + blank_count++] = (uint32_t)bytes + 1;
    const uint32_t count = blank_count < TEXT_FEATURES ? blank_count : TEXT_FEATURES;
    if (colon_count < colons_each * count) return 0;
    memset(marks->begin + count + 1, 0, LANES * sizeof *marks->begin);
    memset(marks->colon + colons_each * count, 0, 2 * LANES * sizeof *marks->colon);
    return count;
}

/* 10 to the power of each lane, 0 to 7. */
ALWAYS_INLINE vd powers_of(vq exponent)
{
#if defined(__AVX512VBMI2__)
    const __m512d powers = _mm512_setr_pd(1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7);
    return (vd)_mm512_permutexvar_pd((__m512i)exponent, powers);
#else
    const __m256 powers = _mm256_setr_ps(1e0f, 1e1f, 1e2f, 1e3f, 1e4f, 1e5f, 1e6f, 1e7f); /* all exact */
    const __m256i places = _mm256_castsi128_si256((__m128i) __builtin_convertvector(exponent, vw));
    return (vd)_mm256_cvtps_pd(_mm256_castps256_ps128(_mm256_permutevar8x32_ps(powers, places)));
#endif
}

/* The sum of the bytes of each lane. */
ALWAYS_INLINE vq bytes_sum(vq a)
{
#if defined(__AVX512VBMI2__)
    return (vq)_mm512_sad_epu8((__m512i)a, _mm512_setzero_si512());
#else
    return (vq)_mm256_sad_epu8((__m256i)a, _mm256_setzero_si256());
#endif
}

ALWAYS_INLINE void floats_store(float *out, vd value)
{
    const vf narrow = __builtin_convertvector(value, vf);
    memcpy(out, &narrow, sizeof narrow);
}
ALWAYS_INLINE void narrow_store(uint32_t *out, vq value)
{
    const vw narrow = __builtin_convertvector(value, vw);
    memcpy(out, &narrow, sizeof narrow);
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
    vq behind_whole = bytes_sum(before & each);
    vq digits = count + has_point, fraction = (digits - behind_whole) & has_point;
    vq shift = 64 - 8 * digits;
    word = shift_left(word, shift) ^ shift_left(each * '0', shift);
    vq other = ((word + each * 0x76) | word) & each * 0x80;
    word = pairs_add(word, splat(UINT64_C(0x010a010a010a010a)));
    word = halves_add(word, splat(UINT64_C(0x0001006400010064)));
    word = low_multiply(word, splat(10000)) + (word >> 32);
    /* 2^52 + n as bits is 2^52 with n in its lowest places. */
    vd value = (vd)(word | (UINT64_C(1075) << 52)) - 0x1p52;
    if (lanes_of(has_point)) value /= powers_of(fraction); /* a division takes as long as everything else */
    const uint32_t is_between = lanes_equal((vq)value & 0x1fffffff, splat(0x10000000));
    value = (vd)((is_negative & (vq)(0 - value)) | (~is_negative & (vq)value));
    floats_store(out, value);
    return lanes_above(bytes - 1, splat(7)) | lanes_equal(digits, splat(0)) | lanes_above(other, splat(0)) | is_between;
}

/* Lanes whose id is empty or has a leading zero, or, within eight bytes, has another byte than digits. */
ALWAYS_INLINE uint32_t ids_other(vq word, vq bytes)
{
    vq shift = 64 - 8 * bytes;
    vq digits = shift_left(word, shift) ^ shift_left(splat(UINT64_C(0x3030303030303030)), shift);
    vq other = ((digits + UINT64_C(0x7676767676767676)) | digits) & UINT64_C(0x8080808080808080);
    const uint32_t has_zero = lanes_equal(word & 0xff, splat('0')) & lanes_above(bytes, splat(1));
    return lanes_equal(bytes, splat(0)) | (lanes_above(other, splat(0)) & ~lanes_above(bytes, splat(8))) | has_zero;
}

/* Finds the fields of numbers; returns lanes that are no number of at most 65535. */
ALWAYS_INLINE uint32_t fields_find(vq word, vq bytes, const struct text_numbers *numbers, uint32_t field[LANES])
{
    const struct integers number = integers_of(word, bytes);
    const vq is_greater = (vq)(number.magnitude >= numbers->number_count);
    uint32_t place[LANES];
    narrow_store(place, (number.magnitude & ~is_greater) | (numbers->number_count & is_greater));
    for (uint32_t lane = 0; lane < LANES; lane++) field[lane] = numbers->field[place[lane]];
    return lanes_of(number.is_other | number.is_negative) | lanes_above(bytes - 1, splat(4)) |
           lanes_above(number.magnitude, splat(65535));
}

/* Lanes whose value is left to plain code. */
ALWAYS_INLINE uint32_t values_other(vq word, vq bytes, uint32_t lanes, float out[LANES])
{
    const uint32_t is_one = lanes_equal(word & 0xff, splat('1')) & lanes_equal(bytes, splat(1));
    if (~is_one & lanes) return decimals_of(word, bytes, out) & lanes;
    floats_store(out, 1 + (vd){0});
    return 0;
}

static bool is_long_id(const char *text, uint32_t bytes)
{
    if (bytes > 20) return false; /* or below 0 */
    for (uint32_t i = 0; i < bytes; i++)
        if (text[i] < '0' || text[i] > '9') return false;
    return true;
}

/* Features that vectors do not take: bit i, of feature i. is_bad: 0, or some feature has another form. */
struct unusual {
    uint64_t is_bad, has_long_id, has_other_value;
};

/* What vectors leave to plain code; false: a feature is not as it should be. Apart from their loop, for a
 * call in it would cost the registers of its constants. */
static bool unusual_take(struct unusual unusual, const char *text, const struct marks *marks,
                         const struct text_numbers *numbers, struct text_features *found)
{
    const bool has_number = numbers->has_number;
    for (uint64_t left = unusual.has_long_id; left; left &= left - 1) {
        const uint32_t i = (uint32_t)__builtin_ctzll(left);
        const uint64_t seed = numbers->seeds.seed[has_number ? found->field[i] : numbers->all];
        if (!is_long_id(text + found->at[i], found->id_bytes[i])) return false;
        found->key[i] = reader_key_inline(seed, text + found->at[i], found->id_bytes[i]);
    }
    for (uint64_t left = unusual.has_other_value; left; left &= left - 1) {
        const uint32_t i = (uint32_t)__builtin_ctzll(left), at = marks->colon[has_number ? 2 * i + 1 : i];
        double wide;
        if (!decimal_parse(text + at, marks->begin[i + 1] - at - 1, &wide, &found->value[i])) return false;
    }
    return true;
}

/* Finds the fields of features with numbers; returns 0 if all numbers are. */
ALWAYS_INLINE uint32_t numbers_take(const char *text, const struct marks *marks, uint32_t count,
                                    const struct text_numbers *numbers, uint32_t *field)
{
    uint32_t bad = 0;
    for (uint32_t i = 0; i < count; i += LANES) {
        const vq bytes = (load_pairs(marks->colon + 2 * i) & UINT32_MAX) - widen(load_w(marks->begin + i)) - 1;
        bad |= fields_find(words_at(text, marks->begin + i), bytes, numbers, field + i) & lanes_first(count - i);
    }
    return bad;
}

/* Inlined into both forms, with numbers and without: values first, then ids with their keys. */
ALWAYS_INLINE size_t features_take(const char *text, size_t bytes, bool has_number, const struct text_numbers *numbers,
                                   struct text_features *found)
{
    struct marks marks;
    struct unusual unusual = {0};
    while (bytes && (text[bytes - 1] == ' ' || text[bytes - 1] == '\t')) bytes--;
    const uint32_t count = marks_find(text, bytes, 1 + has_number, &marks);
    if (has_number) unusual.is_bad = numbers_take(text, &marks, count, numbers, found->field);
    for (uint32_t i = 0; i < count; i += LANES) {
        const uint32_t lanes = lanes_first(count - i);
        const vq colons = has_number ? load_pairs(marks.colon + 2 * i) : widen(load_w(marks.colon + i));
        const vq next = widen(load_w(marks.begin + i + 1)), value = has_number ? colons >> 32 : colons;
        const vq value_bytes = next - value - 1;
        const vq word = has_number ? words_at_each(text, marks.colon + 2 * i + 1, 2) : words_at(text, marks.colon + i);
        unusual.has_other_value |= (uint64_t)values_other(word, value_bytes, lanes, found->value + i) << i;
    }
    for (uint32_t i = 0; i < count; i += LANES) {
        const uint32_t lanes = lanes_first(count - i);
        const vq colons = has_number ? load_pairs(marks.colon + 2 * i) : widen(load_w(marks.colon + i));
        const vq id = has_number ? colons & UINT32_MAX : widen(load_w(marks.begin + i));
        const vq id_bytes = (has_number ? colons >> 32 : colons) - id - 1;
        narrow_store(found->at + i, id);
        narrow_store(found->id_bytes + i, id_bytes);
        const struct chosen field = {
            .which = has_number ? found->field + i : NULL, .first = numbers->all, .is_same = true};
        const vq word = words_at(text, found->at + i), key = keys_of_words(word, id_bytes, &numbers->seeds, field);
        memcpy(found->key + i, &key, sizeof key);
        unusual.is_bad |= ids_other(word, id_bytes) & lanes;
        unusual.has_long_id |= (uint64_t)(lanes_above(id_bytes, splat(8)) & lanes) << i;
    }
    if (unusual.is_bad) return 0;
    if (__builtin_expect((unusual.has_long_id | unusual.has_other_value) != 0, 0) &&
        !unusual_take(unusual, text, &marks, numbers, found))
        return 0;
    found->count = count;
    const size_t taken = marks.begin[count];
    return taken < bytes ? taken : bytes;
}

size_t KERNEL(text_features)(const char *text, size_t bytes, const struct text_numbers *numbers,
                             struct text_features *found)
{
    return numbers->has_number ? features_take(text, bytes, true, numbers, found)
                               : features_take(text, bytes, false, numbers, found);
}
#endif
