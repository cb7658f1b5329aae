/* Elementary functions that give the same bits on every machine: the C library picks its own
 * by processor, and a result that depends on the processor would break "same bytes". Built
 * without contraction of a * b + c. */
#ifndef HETERPS_BASE_FMATH_H
#define HETERPS_BASE_FMATH_H

/* e^x for any x (0 below about -745, infinity above about 709.8, NaN for NaN); relative error under 1e-15. */
double fmath_exp(double x);
/* Natural logarithm; x > 0, finite or infinite; -infinity for 0; NaN below; relative error under 1e-15. */
double fmath_log(double x);
/* log(1 + x), exact near 0; x > -1. */
double fmath_log1p(double x);
/* cos(2*pi*x) for x in [-1, 1]; error under 1e-15. sin(2*pi*x) is fmath_cos2pi(x - 0.25). */
double fmath_cos2pi(double x);

static inline double fmath_sigmoid(double x)
{
    double e = fmath_exp(x < 0 ? x : -x);
    return x < 0 ? e / (1 + e) : 1 / (1 + e);
}

#endif
