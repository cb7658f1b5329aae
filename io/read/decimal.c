/* Nearly all numbers are short: one division or multiplication of exact doubles, whose result is
 * rounded once (Clinger, "How to Read Floating Point Numbers Accurately", PLDI 1990, section 3).
 * The C library reads the others. */
#include "io/read/decimal.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A mantissa below this has room for a further digit. */
#define MANTISSA_MAX UINT64_C(1000000000000000000)
/* The greatest power of ten that is a double. */
#define POWER_MAX 22
/* Beyond this any mantissa is 0 or infinite, so further digits of an exponent do not count. */
#define EXPONENT_MAX 100000

/* A text taken apart: mantissa * 10^exponent. */
struct parts {
    bool is_negative;
    bool is_cut; /* the mantissa lacks digits that are not 0 */
    uint64_t mantissa;
    int exponent;
};

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* False if the text is no number. */
static inline bool parts_find(const char *at, const char *end, struct parts *p)
{
    bool has_digit = false;
    *p = (struct parts){.is_negative = at < end && *at == '-'};
    at += at < end && (*at == '-' || *at == '+');
    for (int behind_point = 0;; at++) {
        if (at == end) return has_digit;
        if (is_digit(*at)) {
            bool has_room = p->mantissa < MANTISSA_MAX;
            unsigned digit = (unsigned)(*at - '0');
            has_digit = true;
            p->mantissa = has_room ? p->mantissa * 10 + digit : p->mantissa;
            p->is_cut |= !has_room && digit;
            p->exponent += !has_room - behind_point;
        } else if (*at == '.' && !behind_point) {
            behind_point = 1;
        } else {
            break;
        }
    }
    if (!has_digit || (*at != 'e' && *at != 'E')) return false;
    at++;
    bool is_below = at < end && *at == '-';
    at += at < end && (*at == '-' || *at == '+');
    if (at == end) return false;
    int exponent = 0;
    for (; at < end && is_digit(*at); at++)
        if (exponent < EXPONENT_MAX) exponent = exponent * 10 + (*at - '0');
    p->exponent += is_below ? -exponent : exponent;
    return at == end;
}

static bool parse_long(const char *text, size_t bytes, double *wide, float *narrow)
{
    char copy[DECIMAL_BYTES_MAX + 1];
    memcpy(copy, text, bytes);
    copy[bytes] = 0;
    *wide = strtod(copy, NULL) + 0.0;
    *narrow = strtof(copy, NULL) + 0.0f;
    return isfinite(*narrow);
}

bool decimal_parse(const char *text, size_t bytes, double *wide, float *narrow)
{
    static const double powers[POWER_MAX + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                                 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    struct parts p;
    if (bytes > DECIMAL_BYTES_MAX || !parts_find(text, text + bytes, &p)) return false;
    if (p.mantissa == 0) {
        *wide = *narrow = 0;
        return true;
    }
    if (p.is_cut || p.mantissa > (uint64_t)1 << 53 || p.exponent > POWER_MAX || p.exponent < -POWER_MAX)
        return parse_long(text, bytes, wide, narrow);
    double value = (double)p.mantissa;
    value = p.exponent < 0 ? value / powers[-p.exponent] : value * powers[p.exponent];
    if (decimal_is_between_floats(value)) return parse_long(text, bytes, wide, narrow);
    *wide = p.is_negative ? -value : value;
    *narrow = (float)*wide;
    return true;
}

bool decimal_is_beyond(const char *text, size_t bytes)
{
    struct parts p;
    double wide;
    float narrow;
    return parts_find(text, text + bytes, &p) && !decimal_parse(text, bytes, &wide, &narrow);
}
