/* Lines, shares and quantiles against numbers worked out in exact fractions, and their bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "engine/base/fit.h"

static void assert_near(double value, double expected)
{
    if (!(fabs(value - expected) <= 1e-10 * (1 + fabs(expected)))) fail_msg("%.12g, not %.12g", value, expected);
}

static void fit_student__freedom__is_the_table_and_goes_on_to_the_normal(void **state)
{
    (void)state;
    assert_near(fit_student(1), 12.706);
    assert_near(fit_student(2), 4.303);
    assert_near(fit_student(30), 2.042);
    /* Tables have 2.0395, 2.0003 and 1.9600. */
    assert_true(fabs(fit_student(31) - 2.0395) < 1e-4);
    assert_true(fabs(fit_student(60) - 2.0003) < 1e-4);
    assert_true(fabs(fit_student(1000000) - 1.95996) < 1e-5);
}

static void fit_line__scattered_points__is_the_weighted_line_with_its_intervals(void **state)
{
    (void)state;
    struct fit_line f = fit_line((const double[]){1, 2, 4, 8}, (const double[]){5, 6.5, 12, 18}, 4);
    assert_true(f.has_interval);
    assert_near(f.fixed, 2.9498340478);
    assert_near(f.slope, 1.96939275561);
    assert_near(f.fixed_low, 0.79012595329);
    assert_near(f.fixed_high, 5.1095421423);
    assert_near(f.slope_low, 1.0888096015);
    assert_near(f.slope_high, 2.84997590972);
}

static void fit_line__few_points__has_no_interval(void **state)
{
    (void)state;
    struct fit_line two = fit_line((const double[]){1, 3}, (const double[]){5, 9}, 2);
    assert_false(two.has_interval);
    assert_near(two.fixed, 3);
    assert_near(two.slope, 2);
    struct fit_line one = fit_line((const double[]){4}, (const double[]){6}, 1);
    assert_true(one.fixed == 0 && one.slope == 1.5 && !one.has_interval);
    struct fit_line same = fit_line((const double[]){2, 2, 2}, (const double[]){3, 3, 3}, 3);
    assert_true(same.fixed == 0 && !same.has_interval);
    assert_near(same.slope, 1.5);
    struct fit_line at_zero = fit_line((const double[]){0, 0}, (const double[]){3, 3}, 2);
    assert_true(at_zero.slope == 0);
    assert_near(at_zero.fixed, 3);
}

static void fit_line__below_0__is_fitted_alone_and_the_interval_holds_it(void **state)
{
    (void)state;
    const double x[] = {1, 2, 4};
    struct fit_line f = fit_line(x, (const double[]){1, 3, 6}, 3);
    assert_true(f.fixed == 0 && f.fixed_low == 0 && f.slope_low == 0 && f.has_interval);
    assert_near(f.slope, 1.2352941176470589);
    assert_near(f.fixed_high, 1.85395934277);
    assert_near(f.slope_high, 3.77747346845);
    struct fit_line falling = fit_line(x, (const double[]){6, 5, 4}, 3);
    assert_true(falling.slope == 0 && falling.slope_low == 0);
    assert_near(falling.fixed, 4.733475479744136);
    assert_near(falling.fixed_low, 2.11501449777);
    assert_near(falling.fixed_high, 10.7473231646);
    assert_near(falling.slope_high, 0.811253599267);
}

static void fit_share__times_of_units__is_the_part_that_parallel_work_has(void **state)
{
    (void)state;
    const double k[] = {1, 2, 4, 8};
    struct fit_share usual = fit_share(k, (const double[]){10, 6.2, 4, 3.1}, 4);
    assert_true(usual.has_interval);
    assert_near(usual.share, 0.793531929938);
    assert_near(usual.low, 0.751601616908);
    assert_near(usual.high, 0.835462242968);
    struct fit_share nearly = fit_share(k, (const double[]){10, 5.05, 2.49, 1.26}, 4);
    assert_near(nearly.share, 0.999458719316);
    assert_near(nearly.low, 0.993157618893);
    assert_true(nearly.high == 1);
    struct fit_share two = fit_share(k, (const double[]){10, 5}, 2);
    assert_false(two.has_interval);
    assert_near(two.share, 1);
    struct fit_share growing = fit_share(k, (const double[]){1, 4}, 2);
    assert_true(growing.share == 0 && growing.low == 0 && growing.high == 0);
    growing = fit_share(k, (const double[]){1, 20, 400}, 3);
    assert_true(growing.share == 0 && growing.low == 0 && growing.high <= 1);
}

static void fit_quantile__shares__are_interpolated(void **state)
{
    (void)state;
    double values[] = {9, 1, 5, 3};
    assert_near(fit_quantile(values, 4, 0.5), 4);
    assert_true(values[0] == 1 && values[1] == 3 && values[2] == 5 && values[3] == 9);
    assert_near(fit_quantile(values, 4, 0), 1);
    assert_near(fit_quantile(values, 4, 1), 9);
    assert_near(fit_quantile(values, 4, 0.75), 6);
    assert_near(fit_quantile(values, 3, 0.5), 3);
    assert_near(fit_quantile(values, 1, 0.3), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fit_student__freedom__is_the_table_and_goes_on_to_the_normal),
        cmocka_unit_test(fit_line__scattered_points__is_the_weighted_line_with_its_intervals),
        cmocka_unit_test(fit_line__few_points__has_no_interval),
        cmocka_unit_test(fit_line__below_0__is_fitted_alone_and_the_interval_holds_it),
        cmocka_unit_test(fit_share__times_of_units__is_the_part_that_parallel_work_has),
        cmocka_unit_test(fit_quantile__shares__are_interpolated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
