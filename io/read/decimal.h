/* Decimal numbers as data files have them, read to the nearest float, whatever the locale. */
#ifndef HETERPS_IO_READ_DECIMAL_H
#define HETERPS_IO_READ_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Of a number's text. */
#define DECIMAL_BYTES_MAX 255u

/* [+-]? digits with at most one point [eE[+-]?digits], nothing before or behind them. *wide and *narrow are
 * the double and the float nearest to the number (ties to even), never -0. False for any other text, and for
 * what no float can hold: nan, inf, 1e39. */
bool decimal_parse(const char *text, size_t bytes, double *wide, float *narrow);

/* Whether a text has the form of a number that decimal_parse refuses:
 * beyond what a float can hold, or too long. */
bool decimal_is_beyond(const char *text, size_t bytes);
/* The expected text for messages. */
#define DECIMAL_WITHIN "a number of at most 3.4028235e38, the greatest of float32, in at most 255 characters"

/* decimal_parse where eight bytes from the text's first on may be read, whatever follows the text: short
 * numbers then take no branch that depends on their digits. */
static inline bool decimal_parse_ahead(const char *text, size_t bytes, double *wide, float *narrow);

/* --- how --------------------------------------------------------------------------------------- */

/* Whether a double is in the middle between two floats: it does not tell which
 * of them is nearer to the text. */
static inline bool decimal_is_between_floats(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (bits & UINT64_C(0x1fffffff)) == UINT64_C(0x10000000);
}

/* -?[0-9]*.?[0-9]* of up to eight bytes, with a digit: the digits without the point are a number below 10^8,
 * and its quotient by a power of ten is rounded once. False for any other text, number or not. */
static inline bool decimal_parse_short(const char *text, size_t bytes, double *wide, float *narrow)
{
    static const double powers[8] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7};
    const uint64_t each = UINT64_C(0x0101010101010101);
    if (__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__ || bytes - 1 >= 8) return false;
    uint64_t word;
    memcpy(&word, text, sizeof word);
    unsigned is_negative = (word & 0xff) == '-', count = (unsigned)bytes - is_negative;
    word >>= 8 * is_negative;
    uint64_t inside = count == 8 ? UINT64_MAX : ((uint64_t)1 << 8 * count) - 1;
    /* The lowest byte that is a point has its top bit set, and no lower byte has. */
    uint64_t x = word ^ each * '.', points = (x - each) & ~x & each * 0x80 & inside;
    unsigned has_point = points != 0;
    uint64_t before = ((points & (0 - points)) >> 7) - 1; /* bytes before the point, or all */
    word = (word & before) | (word >> 8 & ~before);
    unsigned whole = has_point ? (unsigned)__builtin_ctzll(points) / 8 : count;
    unsigned digits = count - has_point, fraction = digits - whole;
    /* The digits move to the top of a word, with zeros in front of them; then neighbours are joined. Two
     * shifts, because one by 64 is undefined. */
    unsigned half_shift = 32 - 4 * digits;
    word = (word << half_shift << half_shift) ^ (each * '0' << half_shift << half_shift);
    if (digits == 0 || (((word + each * 0x76) | word) & each * 0x80)) return false;
    word = (word * 10 + (word >> 8)) & UINT64_C(0x00ff00ff00ff00ff);
    word = (word * 100 + (word >> 16)) & UINT64_C(0x0000ffff0000ffff);
    word = (word * 10000 + (word >> 32)) & UINT64_C(0xffffffff);
    double value = (double)(int64_t)word / powers[fraction];
    if (__builtin_expect(decimal_is_between_floats(value), 0)) return false;
    *wide = is_negative ? 0 - value : value;
    *narrow = (float)*wide;
    return true;
}

static inline bool decimal_parse_ahead(const char *text, size_t bytes, double *wide, float *narrow)
{
    return decimal_parse_short(text, bytes, wide, narrow) || decimal_parse(text, bytes, wide, narrow);
}

#endif
