/* Updates on an emulated card against the CPU's (update_rig.h);
 * products that benchmarks ask for (product_rig.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gpu/emu/gpu_emu.h"
#include "tests/gpu/product_rig.h"
#include "tests/gpu/update_rig.h"

static status rig_gpu_open(uint64_t seed, struct gpu **gpu) { return gpu_emu_open(gpu, 0, seed); }
static void rig_gpu_close(struct gpu *gpu) { gpu_close(gpu); }

static void update_rows__every_rule__same_bits(void **state)
{
    (void)state;
    update_rows_check_all();
}
static void update_params__every_rule__same_bits(void **state)
{
    (void)state;
    update_params_check_all();
}
static void sum_params__blocks__same_bits(void **state)
{
    (void)state;
    sum_params_check_all();
}

static void gpu_product__every_pass__equals_sums_in_double(void **state)
{
    (void)state;
    for (uint32_t precision = 0; precision < PRECISION_COUNT; precision++) product_check_all(precision);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(update_rows__every_rule__same_bits),
        cmocka_unit_test(update_params__every_rule__same_bits),
        cmocka_unit_test(sum_params__blocks__same_bits),
        cmocka_unit_test(gpu_product__every_pass__equals_sums_in_double),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
