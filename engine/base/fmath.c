/* Elementary functions from additions, multiplications and divisions of doubles alone, which IEEE 754 defines
 * to the bit: argument reduction by exact or compensated subtraction, then a Taylor series whose first
 * left-out term is below a sixteenth of a unit in the last place. Called per row and per example, not per
 * weight, so the series are not shortened by fitting. */
#include "engine/base/fmath.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* ln 2 in two parts. The first has 33 significant bits, so that its product with an
 * exponent (at most 11 bits) is exact. */
#define LN2_HIGH 0x1.62e42fefp-1
#define LN2_LOW  0x1.473de6af278edp-34
#define LOG2_E   0x1.71547652b82fep+0
#define TWO_PI   0x1.921fb54442d18p+2
#define SQRT_2   0x1.6a09e667f3bcdp+0

static uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static double double_of(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* 2^exponent, for a normal result. */
static double power_of_two(int exponent) { return double_of((uint64_t)(exponent + 1023) << 52); }

/* The nearest integer, for |x| < 2^51: adding 1.5 * 2^52 leaves no bits for a fraction. */
static double nearest(double x) { return (x + 0x1.8p52) - 0x1.8p52; }

/* c[0] + c[1] x + ... + c[count - 1] x^(count - 1), from the highest. */
static double polynomial(const double *c, int count, double x)
{
    double sum = c[count - 1];
    for (int i = count - 2; i >= 0; i--) sum = sum * x + c[i];
    return sum;
}

double fmath_exp(double x)
{
    /* 1 / (n + 2)!; at |r| <= ln(2) / 2 the term of n = 14 is below 5e-18. */
    static const double inverse_factorial[] = {
        1.0 / 2,     1.0 / 6,      1.0 / 24,      1.0 / 120,      1.0 / 720,       1.0 / 5040,
        1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800.0,
    };
    if (x != x) return x;
    if (x > 710) return HUGE_VAL;
    if (x < -746) return 0;
    double k = nearest(x * LOG2_E);
    /* x = k ln 2 + r; the first difference is exact, the low part is below half an ulp of k ln 2. */
    double r = (x - k * LN2_HIGH) - k * LN2_LOW;
    double y = 1 + (r + r * r * polynomial(inverse_factorial, 12, r));
    /* In two factors, because 2^k itself may be out of range where the result is not. */
    int half = (int)k / 2;
    return y * power_of_two(half) * power_of_two((int)k - half);
}

/* 2 atanh(f) = log((1 + f) / (1 - f)), for |f| <= 3 - 2 sqrt(2) = 0.1716: the left-out
 * term is below 1e-18 of the sum. */
static double atanh_twice(double f)
{
    static const double inverse_odd[] = {
        2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9, 2.0 / 11, 2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21, 2.0 / 23,
    };
    double f2 = f * f;
    return 2 * f + f * f2 * polynomial(inverse_odd, 11, f2);
}

double fmath_log(double x)
{
    if (x != x || x == HUGE_VAL) return x;
    if (x == 0) return -HUGE_VAL;
    if (x < 0) return (double)NAN;
    int exponent = 0;
    if (x < 0x1p-1022) {
        x *= 0x1p54; /* a subnormal becomes normal, exactly */
        exponent = -54;
    }
    uint64_t bits = bits_of(x);
    exponent += (int)(bits >> 52) - 1023;
    double m = double_of((bits & ((UINT64_C(1) << 52) - 1)) | (UINT64_C(1023) << 52)); /* [1, 2) */
    if (m > SQRT_2) {
        m *= 0.5;
        exponent++;
    }
    /* log x = k ln 2 + log m; m - 1 is exact. */
    double log_m = atanh_twice((m - 1) / (m + 1));
    return (double)exponent * LN2_HIGH + (log_m + (double)exponent * LN2_LOW);
}

double fmath_log1p(double x)
{
    if (x != x || x == HUGE_VAL) return x;
    if (x == -1) return -HUGE_VAL;
    if (x < -1) return (double)NAN;
    /* Where |x / (2 + x)| is within reach of the series no digit of x is lost in 1 + x. */
    if (x > -0.29 && x < 0.41) {
        if (x > -0x1p-54 && x < 0x1p-54) return x; /* keeps subnormals and the sign of zero */
        return atanh_twice(x / (2 + x));
    }
    /* u = 1 + x rounded; what the rounding took, x - (u - 1), is added to first order. */
    double u = 1 + x;
    double rest = x >= 1 ? 1 - (u - x) : x - (u - 1);
    return fmath_log(u) + rest / u;
}

double fmath_cos2pi(double x)
{
    /* (-1)^n / (2n)! and (-1)^n / (2n + 1)!; at t <= pi/4 the left-out terms are below 3e-18. */
    static const double cosine[] = {
        1.0,
        -1.0 / 2,
        1.0 / 24,
        -1.0 / 720,
        1.0 / 40320,
        -1.0 / 3628800,
        1.0 / 479001600,
        -1.0 / 87178291200.0,
        1.0 / 20922789888000.0,
    };
    static const double sine[] = {
        1.0,
        -1.0 / 6,
        1.0 / 120,
        -1.0 / 5040,
        1.0 / 362880,
        -1.0 / 39916800,
        1.0 / 6227020800.0,
        -1.0 / 1307674368000.0,
        1.0 / 355687428096000.0,
    };
    double quarter = nearest(4 * x);
    double t = (x - 0.25 * quarter) * TWO_PI; /* the difference is exact; |t| <= pi/4 */
    double t2 = t * t;
    switch ((int)quarter & 3) {
    case 0: return polynomial(cosine, 9, t2);
    case 1: return -t * polynomial(sine, 9, t2);
    case 2: return -polynomial(cosine, 9, t2);
    default: return t * polynomial(sine, 9, t2);
    }
}
