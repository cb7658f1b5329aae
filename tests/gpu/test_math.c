/* Functions of kernels that have the bits of the host's: sin and cos (gpu/math.h, graph/cell.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gpu/math.h"
#include "graph/cell.h"

/* Angles of every exponent, both signs, and of equal distance around 0. */
static void gpu_sin_and_cos__any_angle__have_the_bits_of_the_host(void **state)
{
    (void)state;
    uint32_t checked = 0;
    for (uint32_t bits = 0; bits < 0xff800000u - 40009u; bits += 40009u) {
        const float x = __uint_as_float(bits);
        if (!isfinite(x)) continue;
        assert_int_equal(__float_as_uint(gpu_sin(x)), __float_as_uint(cell_sin(x)));
        assert_int_equal(__float_as_uint(gpu_cos(x)), __float_as_uint(cell_cos(x)));
        checked++;
    }
    for (int i = -4000; i <= 4000; i++) {
        const float x = (float)i * 0.0123f;
        assert_int_equal(__float_as_uint(gpu_sin(x)), __float_as_uint(cell_sin(x)));
        assert_int_equal(__float_as_uint(gpu_cos(x)), __float_as_uint(cell_cos(x)));
    }
    assert_true(checked > 100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpu_sin_and_cos__any_angle__have_the_bits_of_the_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
