/* The elementary functions against the C library in long double, over millions of points. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "engine/base/fmath.h"
#include "engine/base/random.h"

#define POINTS 2000000u
/* Half of what fmath.h promises: the greatest error seen is 3.4e-16. */
#define TOLERANCE 5e-16L

/* Point i of a test: uniform in (0, 1). */
static double unit(uint64_t i)
{
    uint32_t bits[4];
    random_block((struct random_stream){{20, 26}}, i, 0, bits);
    return random_unit_f64(bits[0], bits[1]);
}

/* The greatest error of f at x = from + (to - from) u, relative to the value (or to 1, if is_absolute). */
static long double error_max(double (*f)(double), long double (*exact)(long double), double from, double to,
                             int is_absolute)
{
    long double most = 0;
    double at = 0;
    for (uint64_t i = 0; i < POINTS; i++) {
        double x = from + (to - from) * unit(i);
        long double expected = exact(x), error = fabsl((long double)f(x) - expected);
        if (!is_absolute && expected != 0) error /= fabsl(expected);
        if (error > most) most = error, at = x;
    }
    if (most >= TOLERANCE) print_message("# [%g, %g]: error at most %.2Lg, at %.17g\n", from, to, most, at);
    return most;
}

static void exp__normal_results__within_5e_16(void **state)
{
    (void)state;
    assert_true(error_max(fmath_exp, expl, -1, 1, 0) < TOLERANCE);
    assert_true(error_max(fmath_exp, expl, -708, 709.7, 0) < TOLERANCE);
}

static void exp__subnormal_results__within_one_step(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < POINTS; i++) {
        double x = -746 + 38 * unit(i);
        assert_true(fabsl((long double)fmath_exp(x) - expl(x)) <= 1.01L * 0x1p-1074L);
    }
}

static void exp__ends__zero_one_infinity_nan(void **state)
{
    (void)state;
    assert_true(fmath_exp(0) == 1);
    assert_true(fmath_exp(-0.0) == 1);
    assert_true(fmath_exp(-HUGE_VAL) == 0);
    assert_true(fmath_exp(-746) == 0);
    assert_true(fmath_exp(-DBL_MAX) == 0);
    assert_true(fmath_exp(709.7) < HUGE_VAL);
    assert_true(fmath_exp(709.8) == HUGE_VAL);
    assert_true(fmath_exp(DBL_MAX) == HUGE_VAL);
    assert_true(fmath_exp(HUGE_VAL) == HUGE_VAL);
    assert_true(isnan(fmath_exp(NAN)));
}

static void log__all_sizes__within_5e_16(void **state)
{
    (void)state;
    assert_true(error_max(fmath_log, logl, 0, 1, 0) < TOLERANCE);
    assert_true(error_max(fmath_log, logl, 0.999, 1.001, 0) < TOLERANCE);
    assert_true(error_max(fmath_log, logl, 0.7, 1.5, 0) < TOLERANCE);
    assert_true(error_max(fmath_log, logl, 1, 1e6, 0) < TOLERANCE);
    assert_true(error_max(fmath_log, logl, 0, DBL_MAX, 0) < TOLERANCE);
    assert_true(error_max(fmath_log, logl, 0, DBL_MIN, 0) < TOLERANCE);
    for (double x = 0x1p-1074; x < HUGE_VAL; x *= 2)
        assert_true(fabsl((long double)fmath_log(x) - logl(x)) <= TOLERANCE * fabsl(logl(x)));
}

static void log__ends__infinities_and_nan(void **state)
{
    (void)state;
    assert_true(fmath_log(1) == 0);
    assert_true(fmath_log(0) == -HUGE_VAL);
    assert_true(fmath_log(-0.0) == -HUGE_VAL);
    assert_true(fmath_log(HUGE_VAL) == HUGE_VAL);
    assert_true(isnan(fmath_log(-1)));
    assert_true(isnan(fmath_log(-HUGE_VAL)));
    assert_true(isnan(fmath_log(NAN)));
}

static void log1p__all_sizes__within_5e_16(void **state)
{
    (void)state;
    assert_true(error_max(fmath_log1p, log1pl, -1, 1, 0) < TOLERANCE);
    assert_true(error_max(fmath_log1p, log1pl, -0.3, -0.28, 0) < TOLERANCE);
    assert_true(error_max(fmath_log1p, log1pl, 0.4, 0.5, 0) < TOLERANCE);
    assert_true(error_max(fmath_log1p, log1pl, -1e-8, 1e-8, 0) < TOLERANCE);
    assert_true(error_max(fmath_log1p, log1pl, 0, 1e6, 0) < TOLERANCE);
    assert_true(error_max(fmath_log1p, log1pl, 0, DBL_MAX, 0) < TOLERANCE);
    for (double x = 0x1p-1074; x < HUGE_VAL; x *= 2)
        assert_true(fabsl((long double)fmath_log1p(x) - log1pl(x)) <= TOLERANCE * log1pl(x));
}

static void log1p__ends__exact(void **state)
{
    (void)state;
    assert_true(fmath_log1p(0) == 0);
    assert_true(signbit(fmath_log1p(-0.0)));
    assert_true(fmath_log1p(0x1p-1074) == 0x1p-1074);
    assert_true(fmath_log1p(-1) == -HUGE_VAL);
    assert_true(fmath_log1p(HUGE_VAL) == HUGE_VAL);
    assert_true(isnan(fmath_log1p(-1.5)));
    assert_true(isnan(fmath_log1p(NAN)));
}

static long double cos2pil(long double x) { return cosl(2 * 3.14159265358979323846264338327950288L * x); }

static void cos2pi__one_turn__within_5e_16(void **state)
{
    (void)state;
    assert_true(error_max(fmath_cos2pi, cos2pil, 0, 1, 1) < TOLERANCE);
    assert_true(error_max(fmath_cos2pi, cos2pil, -1, 0, 1) < TOLERANCE);
    for (int eighth = 0; eighth <= 8; eighth++)
        assert_true(fabsl(fmath_cos2pi(eighth / 8.0) - cos2pil(eighth / 8.0L)) < TOLERANCE);
}

static void cos2pi__quarters__exact(void **state)
{
    (void)state;
    static const double known[] = {1, 0, -1, 0, 1};
    for (int quarter = -4; quarter <= 4; quarter++)
        assert_true(fmath_cos2pi(quarter / 4.0) == known[quarter < 0 ? -quarter : quarter]);
}

static void sigmoid__both_signs__within_5e_16_and_complementary(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < POINTS; i++) {
        double x = 80 * unit(i) - 40;
        long double expected = 1 / (1 + expl(-(long double)x));
        assert_true(fabsl(fmath_sigmoid(x) - expected) <= 2 * TOLERANCE * expected);
    }
    assert_true(fmath_sigmoid(0) == 0.5);
    assert_true(fmath_sigmoid(1e6) == 1);
    assert_true(fmath_sigmoid(-1e6) == 0);
    assert_true(isnan(fmath_sigmoid(NAN)));
}

/* "Same bytes" on every machine: the hash of all results' bits. */
static void all__golden__same_bits_as_ever(void **state)
{
    (void)state;
    static const uint64_t known[] = {0xbc6ac9ffd49c41b7, 0x8ebb470c3f0d619a, 0xe9a8187fe98934d4, 0x0f299f19f0b560bf};
    uint64_t hash[4] = {0};
    for (uint64_t i = 0; i < 100000; i++) {
        double u = unit(i),
               results[4] = {fmath_exp(1400 * u - 700), fmath_log(u * 1e3), fmath_log1p(3 * u * u), fmath_cos2pi(u)};
        for (int j = 0; j < 4; j++) hash[j] = XXH3_64bits_withSeed(&results[j], sizeof results[j], hash[j]);
    }
    for (int j = 0; j < 4; j++) {
        if (hash[j] != known[j]) print_message("# function %d: 0x%016llx\n", j, (unsigned long long)hash[j]);
        assert_true(hash[j] == known[j]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp__normal_results__within_5e_16),
        cmocka_unit_test(exp__subnormal_results__within_one_step),
        cmocka_unit_test(exp__ends__zero_one_infinity_nan),
        cmocka_unit_test(log__all_sizes__within_5e_16),
        cmocka_unit_test(log__ends__infinities_and_nan),
        cmocka_unit_test(log1p__all_sizes__within_5e_16),
        cmocka_unit_test(log1p__ends__exact),
        cmocka_unit_test(cos2pi__one_turn__within_5e_16),
        cmocka_unit_test(cos2pi__quarters__exact),
        cmocka_unit_test(sigmoid__both_signs__within_5e_16_and_complementary),
        cmocka_unit_test(all__golden__same_bits_as_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
