/* The kernels of products by the matrix unit, with tiles that are memory, on any processor with AVX-512: to
 * the bit their sums in plain C, whatever the shape and the team. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/device/cpu/fc_case.h"

/* In place of the library's. */
#define ISA amx
#define AMX_MODEL
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma")
#include "engine/device/cpu/isa/bf16/block_amx.c"
#include "engine/device/cpu/isa/bf16/product_bf16.c"
#pragma GCC pop_options

bool __real_isa_runs_here(enum isa isa);
bool __wrap_isa_runs_here(enum isa isa);
bool __wrap_isa_runs_here(enum isa isa) { return __real_isa_runs_here(isa == ISA_amx ? ISA_avx512 : isa); }

static void block__shapes__equal_sums_in_plain_c_to_the_bit(void **state)
{
    (void)state;
    if (!isa_runs_here(ISA_amx)) skip();
    fc_bf16_check(fc_amx_run, ISA_amx, ISA_amx + 1);
}

static void block__many_rows_and_terms__equal_sums_in_plain_c_to_the_bit(void **state)
{
    (void)state;
    if (!isa_runs_here(ISA_amx)) skip();
    fc_bf16_many_check(fc_amx_run, ISA_amx, ISA_amx + 1);
}

/* What is packed last, 40 terms of d weight, lies where infinite weights lay before it: nothing of them
 * must be left behind its last term. */
static void fc_infinite_build(struct fixture *f, const void *params)
{
    fc_build(f, params);
    struct view weight = op_param(&f->h.context, &f->h.node[0], 0);
    for (uint32_t k = 0; k < weight.rows; k++)
        for (uint32_t i = 0; i < weight.cols; i++) view_row(weight, k)[i] = INFINITY;
}

static void block__infinite_numbers_before__leave_nothing(void **state)
{
    (void)state;
    if (!isa_runs_here(ISA_amx)) skip();
    struct fc_params p = {
        40, 64, 48, 0, {.dout_is_dz = 1, .precision = PRECISION_BF16}, .wants_din = false, .wants_dweight = true};
    case_check_by("fc with infinite weights", fc_infinite_build, &p, EXACT, fc_amx_run, ISA_amx, ISA_amx + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(block__shapes__equal_sums_in_plain_c_to_the_bit),
        cmocka_unit_test(block__many_rows_and_terms__equal_sums_in_plain_c_to_the_bit),
        cmocka_unit_test(block__infinite_numbers_before__leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
