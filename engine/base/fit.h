/* Least squares for profiles: lines through measured times, with intervals.
 *
 * Times of a machine err by a share of themselves, so every point weighs 1 / y^2: relative errors are what is
 * least. Intervals are of 95 %, by Student's t with n - 2 degrees of freedom; two points give none. */
#ifndef HETERPS_ENGINE_BASE_FIT_H
#define HETERPS_ENGINE_BASE_FIT_H

#include <stdbool.h>
#include <stdint.h>

/* y = fixed + slope x, neither below 0: if the least squares have one of them below 0, it is 0,
 * and the other is fitted alone. */
struct fit_line {
    double fixed, slope;
    bool has_interval;
    /* of the fit without bounds, then widened until they hold the values */
    double fixed_low, fixed_high, slope_low, slope_high;
};
/* Through `count` points, 1 or more: x >= 0, y > 0. One point, or all at one x: slope = y / x. */
struct fit_line fit_line(const double *x, const double *y, uint32_t count);

/* t(k) = t(1) (1 - share + share / k): HeterPS, section 4.1, formulas 1 and 2,
 * fitted as sequential + parallel / k. */
struct fit_share {
    double share; /* 0 … 1 */
    bool has_interval;
    double low, high; /* by the delta method, cut at 0 and 1 */
};
/* `count` >= 2 points at different k >= 1, seconds > 0. */
struct fit_share fit_share(const double *k, const double *seconds, uint32_t count);

/* The value that Student's t exceeds in size with probability 5 %; freedom >= 1. */
double fit_student(uint32_t freedom);

/* The value below which a share of the values lies (0.5: the median), interpolated; sorts them. count >= 1 */
double fit_quantile(double *values, uint32_t count, double share);

#endif
