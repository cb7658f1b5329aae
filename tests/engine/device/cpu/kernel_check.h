/* What tests of kernels share: how many threads a team has, and how floats are compared.
 * Included behind cmocka.h. */
#ifndef HETERPS_TESTS_ENGINE_CPU_KERNEL_CHECK_H
#define HETERPS_TESTS_ENGINE_CPU_KERNEL_CHECK_H

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#ifdef __SANITIZE_ADDRESS__ /* slow, and whether pieces are cut right shows without it */
static const uint32_t members_tried[] = {1, 3};
#else
static const uint32_t members_tried[] = {1, 2, 3, 5};
#endif
#define MEMBERS_TRIED (sizeof members_tried / sizeof members_tried[0])

#define EXACT         0.0

/* Fails unless a is b, gaps between rows included: to the bit, or within tolerance
 * of 1 + |b|; NaNs are equal. */
static inline void floats_compare(const char *what, const float *a, const float *b, size_t rows, size_t cols,
                                  size_t stride, double tolerance)
{
    if (rows == 0) return;
    for (size_t i = 0; i < (rows - 1) * stride + cols; i++) {
        bool is_gap = i % stride >= cols;
        if (memcmp(&a[i], &b[i], sizeof a[i]) == 0) continue;
        double error = fabs((double)a[i] - (double)b[i]) / (1 + fabs((double)b[i]));
        if (!is_gap && isnan(a[i]) && isnan(b[i])) continue;
        if (!is_gap && tolerance > 0 && error <= tolerance) continue;
        fail_msg("%s: row %zu column %zu is %a, expected %a (error %g, tolerance %g)", what, i / stride, i % stride,
                 (double)a[i], (double)b[i], error, tolerance);
    }
}

#endif
