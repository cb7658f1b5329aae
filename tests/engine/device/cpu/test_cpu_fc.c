/* Kernels of [fc] in float32 and bfloat16, micro-batches without examples, and the opening of a device of an
 * instruction set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/device/cpu/fc_case.h"

static void fc_check(struct fc_params p)
{
    char what[96];
    snprintf(what, sizeof what, "fc B %u K %u N %u groups %u gap %u activation %u adds %d", p.B, p.K, p.N,
             p.attr.groups, p.gap, p.attr.activation, p.adds);
    case_check(what, fc_build, &p, PRODUCT_TOLERANCE);
}

static void fc__odd_shapes__equal_reference_for_every_team(void **state)
{
    (void)state;
    static const uint32_t shapes[][3] = {{1, 1, 1},     {1, 429, 1},     {3, 1, 2},      {2, 3, 4},
                                         {5, 7, 9},     {6, 16, 16},     {7, 17, 15},    {13, 33, 31},
                                         {100, 13, 64}, {256, 31, 1},    {100, 429, 65}, {300, 10, 33},
                                         {29, 600, 18}, {256, 429, 128}, {40, 1100, 70}, {530, 30, 64}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (uint32_t gap = 0; gap <= 3; gap += 3)
            fc_check((struct fc_params){shapes[i][0],
                                        shapes[i][1],
                                        shapes[i][2],
                                        gap,
                                        {.has_bias = 1, .activation = ACT_RELU},
                                        .adds = gap != 0,
                                        .wants_din = true,
                                        .wants_dweight = true});
}

static void fc__every_fusion__equals_reference(void **state)
{
    (void)state;
    for (uint32_t N = 1; N <= 19; N += 18)
        for (uint32_t activation = 0; activation < ACT_COUNT; activation++)
            for (uint32_t flags = 0; flags < 32; flags++)
                fc_check((struct fc_params){
                    11,
                    21,
                    N,
                    1,
                    {.has_bias = flags & 1,
                     .activation = (uint8_t)activation,
                     .slope = 0.1f,
                     .dout_is_dz = flags >> 1 & 1,
                     .input_activation = (uint8_t)(flags & 4 ? ACT_COUNT - 1 - activation : ACT_NONE),
                     .input_slope = 0.2f},
                    .adds = flags >> 3 & 1,
                    .wants_din = flags & 16 ? activation != ACT_TANH : true,
                    .wants_dweight = flags & 16 ? activation != ACT_RELU : true});
}

static void fc__groups__equal_reference_for_every_team(void **state)
{
    (void)state;
    static const uint32_t shapes[][4] = {/* B, K, N, groups */
                                         {1, 1, 1, 1},    {1, 3, 1, 7},    {5, 1, 2, 40},
                                         {2, 20, 17, 33}, {40, 64, 36, 9}, {37, 36, 1, 11},
                                         {3, 140, 5, 2},  {300, 7, 33, 3}, {256, 16, 40, 2}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (uint32_t flags = 0; flags < 8; flags++)
            fc_check((struct fc_params){shapes[i][0],
                                        shapes[i][1],
                                        shapes[i][2],
                                        flags & 1 ? 3 : 0,
                                        {.groups = shapes[i][3],
                                         .has_bias = flags & 1,
                                         .activation = flags & 2 ? ACT_SIGMOID : ACT_RELU,
                                         .dout_is_dz = flags >> 2 & 1,
                                         .input_activation = flags & 2 ? ACT_RELU : ACT_NONE},
                                        .adds = flags & 1,
                                        .wants_din = flags != 6,
                                        .wants_dweight = flags != 5});
}

/* Bytes, not only closeness: a product of two bfloat16 is exact, so nothing but the order of
 * additions could differ, and it is one. */
static void fc__bf16__equals_reference_to_the_bit(void **state)
{
    (void)state;
    for (int is_pairs = 0; is_pairs < 2; is_pairs++) {
        bf16_is_pairs = is_pairs;
        fc_bf16_check(reference_run, 0, ISA_avx512bf16 + 1);
    }
}

/* Of which the matrix unit has one of its own. */
static void fc__bf16_by_tiles__equals_its_sums_to_the_bit(void **state)
{
    (void)state;
    if (!isa_runs_here(ISA_amx)) skip();
    fc_bf16_check(fc_amx_run, ISA_amx, ISA_amx + 1);
    fc_bf16_many_check(fc_amx_run, ISA_amx, ISA_amx + 1);
}

static void fc__bf16_of_many_rows_and_terms__equals_reference_to_the_bit(void **state)
{
    (void)state;
    for (int is_pairs = 0; is_pairs < 2; is_pairs++) {
        bf16_is_pairs = is_pairs;
        fc_bf16_many_check(reference_run, 0, ISA_avx512bf16 + 1);
    }
}

/* Products and sums on both sides of 2^-126, below which VDPBF16PS has zeros: the device may take either way,
 * so it must not show. */
static void fc_tiny_build(struct fixture *f, const void *params)
{
    fc_build(f, params);
    for (uint32_t t = 0; t < f->h.graph.tensor_count; t++) {
        struct view *v = &f->h.view[t];
        for (size_t i = 0; v->data != NULL && i < (size_t)v->rows * v->stride; i++)
            v->data[i] *= ldexpf(1, -50 - (int)(i * 7919 % 41));
    }
}

static void fc__bf16_of_tiny_numbers__is_the_same_both_ways(void **state)
{
    (void)state;
    if (!isa_runs_here(ISA_avx512bf16)) skip();
    struct fc_params p = {
        40, 37, 50, 0, {.precision = PRECISION_BF16}, .adds = false, .wants_din = true, .wants_dweight = true};
    struct fixture *pairs = fixture_open(fc_tiny_build, &p), *single = fixture_open(fc_tiny_build, &p);
    bf16_is_pairs = true;
    device_run(pairs, ISA_avx512bf16, 1, 0);
    bf16_is_pairs = false;
    device_run(single, ISA_avx512bf16, 1, 0);
    fixtures_compare("fc in bf16 of tiny numbers, both ways", pairs, single, EXACT);
    fixture_close(pairs);
    fixture_close(single);
}

static void submit__no_examples__touches_nothing(void **state)
{
    (void)state;
    struct fc_params p = {4, 5, 6, 0, {.has_bias = 1}, .wants_din = true, .wants_dweight = true};
    struct fixture *f = fixture_open(fc_build, &p), *untouched = fixture_open(fc_build, &p);
    f->h.batch.example_count = 0;
    device_run(f, isa_best(), 2, 0);
    fixtures_compare("empty micro-batch", f, untouched, EXACT);
    fixture_close(f);
    fixture_close(untouched);
}

/* --- opening ---------------------------------------------------------------------------------- */

static void open__unknown_isa__is_refused(void **state)
{
    (void)state;
    struct hand_graph h;
    struct device *device;
    hand_open(&h, 1, 1);
    assert_int_equal(cpu_device_open(&device, &h.graph, 1, NULL, "avx3"), ST_USAGE);
    assert_null(device);
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        bool runs = isa_runs_here((enum isa)isa);
        assert_int_equal(cpu_device_open(&device, &h.graph, 1, NULL, isa_names[isa]), runs ? ST_OK : ST_USAGE);
        if (!runs) continue;
        assert_int_equal(cpu_device_isa(device), isa);
        device_close(device);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fc__odd_shapes__equal_reference_for_every_team),
        cmocka_unit_test(fc__every_fusion__equals_reference),
        cmocka_unit_test(fc__groups__equal_reference_for_every_team),
        cmocka_unit_test(fc__bf16__equals_reference_to_the_bit),
        cmocka_unit_test(fc__bf16_by_tiles__equals_its_sums_to_the_bit),
        cmocka_unit_test(fc__bf16_of_many_rows_and_terms__equals_reference_to_the_bit),
        cmocka_unit_test(fc__bf16_of_tiny_numbers__is_the_same_both_ways),
        cmocka_unit_test(submit__no_examples__touches_nothing),
        cmocka_unit_test(open__unknown_isa__is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
