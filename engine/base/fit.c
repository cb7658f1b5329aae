/* Weighted linear least squares in two unknowns, and quantiles. A few hundred calls a profile. */
#include "engine/base/fit.h"

#include <math.h>
#include <stdlib.h>

#include "engine/base/status.h"

double fit_student(uint32_t freedom)
{
    /* Quantiles 0.975; beyond the table z + (z^3 + z) / 4n + (5 z^5 + 16 z^3 + 3 z) / 96 n^2, Abramowitz and
     * Stegun, 26.7.5. */
    static const double table[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                                   2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
                                   2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
    CHECK(freedom >= 1);
    if (freedom <= sizeof table / sizeof *table) return table[freedom - 1];
    double n = freedom;
    return 1.95996 + 2.37227 / n + 2.82250 / (n * n);
}

/* y = a + b x without bounds, and the covariance of a and b. */
struct solution {
    bool is_regular;
    double a, b;
    double variance_a, variance_b, covariance; /* 0 where no freedom is left */
};

static struct solution least_squares(const double *x, const double *y, uint32_t count)
{
    struct solution s = {0};
    double weight_sum = 0, x_mean = 0, y_mean = 0, xx = 0, xy = 0, residual = 0;
    for (uint32_t i = 0; i < count; i++) {
        double w = 1 / (y[i] * y[i]);
        weight_sum += w;
        x_mean += w * x[i];
        y_mean += w * y[i];
    }
    x_mean /= weight_sum;
    y_mean /= weight_sum;
    for (uint32_t i = 0; i < count; i++) {
        double w = 1 / (y[i] * y[i]);
        xx += w * (x[i] - x_mean) * (x[i] - x_mean);
        xy += w * (x[i] - x_mean) * (y[i] - y_mean);
    }
    if (!(xx > 0)) return s;
    s.is_regular = true;
    s.b = xy / xx;
    s.a = y_mean - s.b * x_mean;
    if (count <= 2) return s;
    for (uint32_t i = 0; i < count; i++) {
        double error = (y[i] - s.a - s.b * x[i]) / y[i];
        residual += error * error;
    }
    residual /= count - 2;
    s.variance_b = residual / xx;
    s.variance_a = residual * (1 / weight_sum + x_mean * x_mean / xx);
    s.covariance = -residual * x_mean / xx;
    return s;
}

static double cut(double value, double low, double high) { return value < low ? low : value > high ? high : value; }

struct fit_line fit_line(const double *x, const double *y, uint32_t count)
{
    struct fit_line line = {0};
    struct solution s = least_squares(x, y, count);
    double through_origin = 0, constant = 0, xx = 0, weight_sum = 0;
    CHECK(count >= 1);
    for (uint32_t i = 0; i < count; i++) {
        double w = 1 / (y[i] * y[i]);
        through_origin += w * x[i] * y[i];
        xx += w * x[i] * x[i];
        constant += w * y[i];
        weight_sum += w;
    }
    line.fixed = s.a;
    line.slope = s.b;
    if ((!s.is_regular || s.a < 0) && xx > 0) {
        line.fixed = 0;
        line.slope = through_origin / xx;
    } else if (!s.is_regular || s.b < 0) {
        line.fixed = constant / weight_sum;
        line.slope = 0;
    }
    line.has_interval = s.is_regular && count > 2;
    if (!line.has_interval) return line;
    double t = fit_student(count - 2), a = t * sqrt(s.variance_a), b = t * sqrt(s.variance_b);
    line.fixed_low = cut(s.a - a, 0, line.fixed);
    line.fixed_high = cut(s.a + a, line.fixed, INFINITY);
    line.slope_low = cut(s.b - b, 0, line.slope);
    line.slope_high = cut(s.b + b, line.slope, INFINITY);
    return line;
}

#define UNIT_COUNTS_MAX 64u

struct fit_share fit_share(const double *k, const double *seconds, uint32_t count)
{
    double x[UNIT_COUNTS_MAX];
    CHECK(count >= 2 && count <= UNIT_COUNTS_MAX);
    for (uint32_t i = 0; i < count; i++) x[i] = 1 / k[i];
    struct solution s = least_squares(x, seconds, count);
    CHECK(s.is_regular);
    struct fit_share fit = {.has_interval = count > 2};
    double sum = s.a + s.b; /* t(1) */
    if (!(sum > 0)) {       /* times grow so fast with k that the line is below 0 at one unit */
        fit.high = fit.has_interval ? 1 : 0;
        return fit;
    }
    double share = s.b / sum;
    fit.share = cut(share, 0, 1);
    if (!fit.has_interval) return fit;
    /* d share / d a = -b / sum^2, d share / d b = a / sum^2. */
    double by_a = -s.b / (sum * sum), by_b = s.a / (sum * sum);
    double variance = by_a * by_a * s.variance_a + by_b * by_b * s.variance_b + 2 * by_a * by_b * s.covariance;
    double half = fit_student(count - 2) * sqrt(variance > 0 ? variance : 0);
    fit.low = cut(share - half, 0, 1);
    fit.high = cut(share + half, 0, 1);
    return fit;
}

static int double_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double fit_quantile(double *values, uint32_t count, double share)
{
    CHECK(count >= 1);
    qsort(values, count, sizeof *values, double_compare);
    double at = share * (count - 1);
    uint32_t below = (uint32_t)at;
    if (below + 1 >= count) return values[count - 1];
    return values[below] + (at - below) * (values[below + 1] - values[below]);
}
