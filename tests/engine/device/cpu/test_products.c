/* Products whose pieces take ways of their own give the bits of those that do not: few rows, whose right
 * factor is read where it lies, against the same rows among many. On every instruction set that runs here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "cfg/settings.h"
#include "engine/bench/hand_graph.h"
#include "engine/device/cpu/cpu_device.h"
#include "engine/device/cpu/kernels.h"

/* The tensors of a layer that few rows are compared by. */
struct layer {
    uint32_t in, out;
};

/* A layer of N units and K inputs for `rows` examples, the same numbers for any number of them. */
static struct layer layer_open(struct hand_graph *h, uint32_t rows, uint32_t N, uint32_t K, bool adds)
{
    struct fc_attr attr = {
        .units = N, .groups = 1, .has_bias = 1, .activation = ACT_RELU, .dout_is_dz = 1, .input_activation = ACT_TANH};
    hand_open(h, rows, 7);
    uint32_t weight = hand_tensor_grad(h, K, N, N), bias = hand_tensor_grad(h, 1, N, N);
    uint32_t in = hand_tensor_grad(h, rows, K, K + 3), out = hand_tensor_grad(h, rows, N, N + 5);
    uint32_t of_rows[] = {in, h->tensor[in].grad, h->tensor[out].grad};
    for (uint32_t i = 0; i < 3; i++) {
        struct view *v = &h->view[of_rows[i]];
        h->draw = 100 + i;
        for (uint32_t r = 0; r < v->rows; r++)
            for (uint32_t c = 0; c < v->cols; c++) v->data[r * v->stride + c] = hand_random(h);
    }
    hand_node(h, OP_ID_fc, (struct hand_tensors){1, {in}}, (struct hand_tensors){2, {weight, bias}}, out,
              (struct hand_tensors){0}, &attr, sizeof attr, &(uint32_t){adds});
    return (struct layer){in, out};
}

static void layer_run(struct hand_graph *h, enum isa isa)
{
    struct device *device;
    assert_int_equal(cpu_device_open(&device, &h->graph, 1, NULL, isa_names[isa]), ST_OK);
    assert_int_equal(device_submit(device, &h->context, &h->node[0], 1), ST_OK);
    assert_int_equal(device_submit(device, &h->context, &h->node[1], 1), ST_OK);
    device_close(device);
}

static void rows_compare(const char *what, const struct view *few, const struct view *many)
{
    for (uint32_t r = 0; r < few->rows; r++)
        for (uint32_t c = 0; c < few->cols; c++) {
            float a = few->data[r * few->stride + c], b = many->data[r * many->stride + c];
            if (memcmp(&a, &b, sizeof a) != 0)
                fail_msg("%s: row %u of %u, column %u is %a, among more rows %a", what, r, few->rows, c, (double)a,
                         (double)b);
        }
}

static void products__few_rows__are_those_among_many(void **state)
{
    (void)state;
    /* N, K: whole panels, parts of one, terms beyond whole fours, two blocks of terms in either direction. */
    static const uint32_t shapes[][2] = {{64, 64}, {429, 101}, {3, 70}, {1030, 33}, {516, 17}, {200, 530}};
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        if (!isa_runs_here((enum isa)isa)) continue;
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (int adds = 0; adds < 2; adds++) {
                static struct hand_graph many, few;
                struct layer l = layer_open(&many, 19, shapes[s][0], shapes[s][1], adds);
                layer_run(&many, (enum isa)isa);
                for (uint32_t rows = 1; rows <= 5; rows++) {
                    char what[96];
                    layer_open(&few, rows, shapes[s][0], shapes[s][1], adds);
                    layer_run(&few, (enum isa)isa);
                    snprintf(what, sizeof what, "%s, N %u K %u, forward", isa_names[isa], shapes[s][0], shapes[s][1]);
                    rows_compare(what, &few.view[l.out], &many.view[l.out]);
                    snprintf(what, sizeof what, "%s, N %u K %u, %s", isa_names[isa], shapes[s][0], shapes[s][1],
                             adds ? "d input added" : "d input");
                    uint32_t din = many.tensor[l.in].grad;
                    rows_compare(what, &few.view[din], &many.view[din]);
                    hand_close(&few);
                }
                hand_close(&many);
            }
    }
}

/* What marks a scratch as a product's, now and after any number of them,
 * is never a float that an op wrote there. */
static void product_numbers__upper_half__is_a_signalling_nan(void **state)
{
    (void)state;
    const uint64_t numbers[] = {PRODUCT_NUMBERS, PRODUCT_NUMBERS + UINT32_MAX};
    for (int i = 0; i < 2; i++) {
        uint32_t upper = (uint32_t)(numbers[i] >> 32);
        assert_int_equal(upper & 0x7fc00000, 0x7f800000);
        assert_int_not_equal(upper & 0x003fffff, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(products__few_rows__are_those_among_many),
                                       cmocka_unit_test(product_numbers__upper_half__is_a_signalling_nan)};
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
