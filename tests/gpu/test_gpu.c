/* What all kinds of cards share: names of kernels, and whether cards, or cuBLASLt, are denied. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "gpu/blas.h"
#include "gpu/gpu.h"

static void gpu_deny__a_reason__is_kept(void **state)
{
    (void)state;
    char why[] = "there is no room";
    assert_null(gpu_denied());
    gpu_deny(why);
    why[0] = 'T';
    assert_string_equal(gpu_denied(), "there is no room");
}

static void gpu_blas_deny__called__is_denied(void **state)
{
    (void)state;
    assert_false(gpu_blas_is_denied());
    gpu_blas_deny();
    assert_true(gpu_blas_is_denied());
}

/* Each kernel has a name of its own; the bytes that few have are whole floats. */
static void gpu_kernel_names__all__differ(void **state)
{
    (void)state;
    uint32_t large = 0;
    for (uint32_t i = 0; i < GPU_KERNEL_COUNT; i++) {
        assert_true(strlen(gpu_kernel_names[i]) > 2 && gpu_kernel_large_bytes[i] % sizeof(float) == 0);
        large += gpu_kernel_large_bytes[i] > 0;
        for (uint32_t k = 0; k < i; k++) assert_string_not_equal(gpu_kernel_names[i], gpu_kernel_names[k]);
    }
    assert_true(large > 0 && large < GPU_KERNEL_COUNT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpu_deny__a_reason__is_kept),
        cmocka_unit_test(gpu_blas_deny__called__is_denied),
        cmocka_unit_test(gpu_kernel_names__all__differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
