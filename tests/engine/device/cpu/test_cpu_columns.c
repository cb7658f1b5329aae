/* Kernels that combine, move or sum columns: softmax, sums and products of inputs, slices, concat, losses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/device/cpu/kernel_case.h"

/* attr: the op's; cols: of each input, then of the output; an input without `wants_din` has no gradient, one
 * like the input before it (SAME) is the same tensor. */
#define SAME 0u
struct many_params {
    op_id op;
    const void *attr;
    size_t attr_bytes;
    uint32_t B, gap, input_count, cols[5];
    uint32_t adds, wants_din; /* bit i: of input i */
};
static void many_build(struct fixture *f, const void *params)
{
    const struct many_params *p = params;
    struct hand_graph *h = &f->h;
    struct hand_tensors in = {p->input_count, {0}};
    uint32_t adds[4];
    hand_open(h, p->B, p->B + p->cols[0]);
    for (uint32_t i = 0; i < p->input_count; i++) {
        adds[i] = p->cols[i] == SAME || (p->adds >> i & 1); /* the input before has been written */
        if (p->cols[i] == SAME)
            in.t[i] = in.t[i - 1];
        else if (p->wants_din >> i & 1)
            in.t[i] = hand_tensor_grad(h, p->B, p->cols[i], p->cols[i] + (i + 1) * p->gap);
        else
            in.t[i] = hand_tensor(h, p->B, p->cols[i], p->cols[i] + p->gap);
    }
    uint32_t out_cols = p->cols[p->input_count], out = hand_tensor_grad(h, p->B, out_cols, out_cols + 2 * p->gap);
    hand_node(h, p->op, in, (struct hand_tensors){0}, out, (struct hand_tensors){0}, p->attr, p->attr_bytes, adds);
}

/* With every choice of gradients that are wanted, and of those that are added to; of
 * three inputs and more with some. */
static void many_check(struct many_params p, double tolerance)
{
    static const uint32_t rows[] = {1, 37, 50};
    char what[96];
    for (uint32_t flags = 0; flags<1u << (2 * p.input_count); flags += p.input_count> 2 ? 7 : 1) {
        p.adds = flags;
        p.wants_din = ~flags >> p.input_count;
        p.B = rows[flags % 3];
        p.gap = flags / 3 % 3;
        snprintf(what, sizeof what, "%s cols %u to %u, flags %u", op_table[p.op].name, p.cols[0], p.cols[p.input_count],
                 flags);
        case_check(what, many_build, &p, tolerance);
    }
}

static void softmax__odd_parts__equals_reference(void **state)
{
    (void)state;
    static const uint32_t parts[] = {1, 2, 7, 16, 31, 70}, groups[] = {1, 3};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        for (size_t k = 0; k < sizeof groups / sizeof *groups; k++) {
            struct softmax_attr attr = {.groups = groups[k]};
            uint32_t cols = parts[i] * groups[k];
            many_check((struct many_params){OP_ID_softmax, &attr, sizeof attr, .input_count = 1, .cols = {cols, cols}},
                       5e-7);
        }
}

/* All far below zero, and far apart: the greatest decides. */
static void softmax__extreme_numbers__are_as_in_the_reference(void **state)
{
    (void)state;
    enum { COLS = 37 };
    struct softmax_attr attr = {.groups = 1};
    struct many_params p = {OP_ID_softmax, &attr, sizeof attr, .B = 3, .input_count = 1, .cols = {COLS, COLS}};
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        if (!isa_runs_here((enum isa)isa)) continue;
        struct fixture *reference = fixture_open(many_build, &p), *f = fixture_open(many_build, &p);
        for (int k = 0; k < 2; k++) {
            float *in = (k == 0 ? reference : f)->h.view[0].data;
            for (int i = 0; i < COLS; i++) in[i] = in[i] * 200 - 1e6f;
            in[COLS + COLS - 1] = 3e38f;
            in[COLS] = -INFINITY;
            in[2 * COLS + 33] = NAN;
        }
        op_table[OP_ID_softmax].forward(&reference->h.context, &reference->h.node[0]);
        struct device *device;
        assert_int_equal(cpu_device_open(&device, &f->h.graph, 1, NULL, isa_names[isa]), ST_OK);
        assert_int_equal(device_submit(device, &f->h.context, &f->h.node[0], 1), ST_OK);
        device_close(device);
        const float *got = op_out(&f->h.context, &f->h.node[0]).data,
                    *expected = op_out(&reference->h.context, &reference->h.node[0]).data;
        floats_compare(isa_names[isa], got, expected, 2, COLS, COLS, 5e-7);
        for (int i = 2 * COLS; i < 3 * COLS; i++) assert_true(isnan(got[i]) && isnan(expected[i]));
        fixture_close(f);
        fixture_close(reference);
    }
}

/* The gradient of one column is a sum, whose order is the kernel's own; all else is to the bit. */
static void add_mul_cross__odd_widths__equal_reference(void **state)
{
    (void)state;
    static const uint32_t cols[] = {1, 3, 16, 31, 70};
    for (size_t i = 0; i < sizeof cols / sizeof *cols; i++) {
        uint32_t c = cols[i];
        const struct {
            struct many_params p;
            double tolerance;
        } cases[] = {
            {{OP_ID_add, NULL, 0, .input_count = 2, .cols = {c, c, c}}, EXACT},
            {{OP_ID_add, NULL, 0, .input_count = 4, .cols = {c, SAME, 1, c, c}}, 2e-6},
            {{OP_ID_mul, NULL, 0, .input_count = 2, .cols = {c, c, c}}, EXACT},
            {{OP_ID_mul, NULL, 0, .input_count = 2, .cols = {c, SAME, c}}, EXACT},
            {{OP_ID_mul, NULL, 0, .input_count = 2, .cols = {c, 1, c}}, 2e-6},
            {{OP_ID_mul, NULL, 0, .input_count = 2, .cols = {1, c, c}}, 2e-6},
            {{OP_ID_cross, NULL, 0, .input_count = 3, .cols = {c, c, c, c}}, EXACT},
            {{OP_ID_cross, NULL, 0, .input_count = 3, .cols = {c, SAME, c, c}}, EXACT},
        };
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) many_check(cases[k].p, cases[k].tolerance);
    }
}

static void slice_reshape_sum_pool__odd_shapes__equal_reference_to_the_bit(void **state)
{
    (void)state;
    static const uint32_t counts[][2] = {{1, 1}, {1, 7}, {3, 1}, {2, 16}, {5, 31}, {17, 6}, {20, 33}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        uint32_t rows = counts[i][0], width = counts[i][1], cols = rows * width;
        for (uint32_t is_transposed = 0; is_transposed < 2; is_transposed++)
            many_check((struct many_params){OP_ID_reshape, &(struct reshape_attr){rows, is_transposed},
                                            sizeof(struct reshape_attr), .input_count = 1, .cols = {cols, cols}},
                       EXACT);
        for (uint32_t groups = 1; groups < 4; groups += 2)
            many_check((struct many_params){OP_ID_sum_pool, &(struct sum_pool_attr){width, rows},
                                            sizeof(struct sum_pool_attr), .input_count = 1,
                                            .cols = {groups * cols, groups * width}},
                       EXACT);
        for (uint32_t begin = 0; begin <= width; begin += width)
            many_check((struct many_params){OP_ID_slice, &(struct slice_attr){begin, begin + cols},
                                            sizeof(struct slice_attr), .input_count = 1,
                                            .cols = {begin + cols + 2 * begin, cols}},
                       EXACT);
    }
}

struct concat_params {
    uint32_t B;
    bool adds;
    uint32_t groups;
};
static void concat_build(struct fixture *f, const void *params)
{
    const struct concat_params *concat = params;
    struct hand_graph *h = &f->h;
    hand_open(h, concat->B, concat->B);
    uint32_t adds[4] = {concat->adds, 0, concat->adds, 0};
    uint32_t G = concat->groups;
    struct hand_tensors in = {4,
                              {hand_tensor_grad(h, concat->B, 13 * G, 16 * G), hand_tensor(h, concat->B, G, G),
                               hand_tensor_grad(h, concat->B, 40 * G, 40 * G + 1),
                               hand_tensor_grad(h, concat->B, 3 * G, 3 * G)}};
    uint32_t out = hand_tensor_grad(h, concat->B, 57 * G, 64 * G);
    hand_node(h, OP_ID_concat, in, (struct hand_tensors){0}, out, (struct hand_tensors){0},
              &(struct concat_attr){.groups = G}, sizeof(struct concat_attr), adds);
}

static void concat__some_gradients_wanted__equals_reference_to_the_bit(void **state)
{
    (void)state;
    for (uint32_t B = 1; B < 100; B += 49)
        for (int adds = 0; adds < 2; adds++)
            for (uint32_t groups = 1; groups <= 5; groups += 2)
                case_check("concat", concat_build, &(struct concat_params){B, adds, groups}, EXACT);
}

/* --- losses ------------------------------------------------------------------------------------- */

struct loss_params {
    op_id op;
    uint32_t B, C, saved_cols;
    bool adds, is_weighted, corrects;
    float half_width; /* of logits and log probabilities: those above 0 are hits */
};
static void loss_build(struct fixture *f, const void *params)
{
    static float weight[128];
    const struct loss_params *loss = params;
    struct hand_graph *h = &f->h;
    bool has_label = op_table[loss->op].inputs == OP_INPUTS_LOSS;
    hand_open(h, loss->B, loss->B + loss->C);
    uint32_t x = hand_tensor_grad(h, loss->B, loss->C, loss->C + 3),
             second = hand_tensor(h, loss->B, has_label ? 1 : loss->C, (has_label ? 1 : loss->C) + 2);
    for (uint32_t b = 0; b < loss->B; b++) {
        for (uint32_t j = 0; j < loss->C; j++) h->view[x].data[b * h->view[x].stride + j] *= loss->half_width;
        /* Every third label is none: one too many, not whole, not a number; its loss is NaN,
         * its gradient that of no class. */
        float *label = &h->view[second].data[b * h->view[second].stride];
        const float none[] = {(float)loss->C, 0.5f, -1};
        if (has_label) *label = b % 3 == 1 ? none[b / 3 % 3] : (float)((h->draw >> 33) % loss->C);
        (void)hand_random(h);
        weight[b] = (float)(b % 5) / 2;
    }
    if (loss->is_weighted) h->batch.weight = weight;
    uint32_t out = hand_tensor(h, loss->B, 1, 1);
    struct hand_tensors saved = {0};
    if (loss->saved_cols)
        saved = (struct hand_tensors){1, {hand_tensor(h, loss->B, loss->saved_cols, loss->saved_cols)}};
    struct loss_attr attr = {.weight = 0.75f, .log_z = 1.5f, .corrects = loss->corrects};
    hand_node(h, loss->op, (struct hand_tensors){2, {x, second}}, (struct hand_tensors){0}, out, saved, &attr,
              sizeof attr, (uint32_t[]){loss->adds, 0});
}

static void bce_logits__no_kernel__runs_as_reference(void **state)
{
    (void)state;
    case_check("bce_logits", loss_build, &(struct loss_params){OP_ID_bce_logits, 33, 1, .half_width = 1}, EXACT);
}

/* Around a vector, around a block of columns, and as wide as a vocabulary. */
static void losses_of_many_columns__any_shape__equal_reference(void **state)
{
    (void)state;
    static const uint32_t cols[] = {2, 3, 15, 16, 17, 100, 1023, 1025, 5000};
    static const struct loss_params of[] = {{OP_ID_softmax_loss, .saved_cols = LOSS_SAVED_COLS},
                                            {OP_ID_sampled_softmax, .saved_cols = LOSS_SAVED_COLS},
                                            {OP_ID_nce, .saved_cols = 1},
                                            {OP_ID_nce, .saved_cols = 1, .corrects = true}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        for (size_t k = 0; k < sizeof cols / sizeof *cols; k++)
            for (int variant = 0; variant < 4; variant++) {
                struct loss_params loss = of[i];
                loss.B = cols[k] > 1000 ? 7 : 37;
                loss.C = cols[k];
                loss.adds = variant & 1;
                loss.is_weighted = variant & 2;
                loss.half_width = variant == 3 ? 60 : 3;
                case_check(op_table[loss.op].name, loss_build, &loss, PRODUCT_TOLERANCE);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(softmax__odd_parts__equals_reference),
        cmocka_unit_test(softmax__extreme_numbers__are_as_in_the_reference),
        cmocka_unit_test(add_mul_cross__odd_widths__equal_reference),
        cmocka_unit_test(slice_reshape_sum_pool__odd_shapes__equal_reference_to_the_bit),
        cmocka_unit_test(concat__some_gradients_wanted__equals_reference_to_the_bit),
        cmocka_unit_test(bce_logits__no_kernel__runs_as_reference),
        cmocka_unit_test(losses_of_many_columns__any_shape__equal_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
