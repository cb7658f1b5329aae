/* Kernels that pass over their rows once: activations, dropout, normalisations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/device/cpu/kernel_case.h"

struct rows_params {
    op_id op;
    uint32_t B, cols, gap;
    bool adds, wants_din, training;
};

static void rows_build(struct fixture *f, const void *params)
{
    const struct rows_params *rows = params;
    struct hand_graph *h = &f->h;
    uint32_t adds[1] = {rows->adds};
    hand_open(h, rows->B, rows->cols);
    h->context.training = rows->training;
    h->context.example_begin = 512;
    h->batch.step = 77;
    uint32_t in = rows->wants_din ? hand_tensor_grad(h, rows->B, rows->cols, rows->cols + rows->gap)
                                  : hand_tensor(h, rows->B, rows->cols, rows->cols + rows->gap);
    struct leaky_relu_attr leaky = {.slope = 0.01f};
    struct dropout_attr dropout = {.rate = 0.3f};
    const uint32_t units[] = {0, 2 * rows->cols + 1, (rows->cols + 1) / 2}; /* as wide, wider, narrower */
    struct busy_attr busy = {.rounds = 50, .units = units[rows->gap % 3]};
    bool is_busy = rows->op == OP_ID_busy;
    const void *attr = rows->op == OP_ID_leaky_relu ? (const void *)&leaky : &dropout;
    if (is_busy) attr = &busy;
    uint32_t out_cols = is_busy && busy.units != 0 ? busy.units : rows->cols;
    uint32_t out = hand_tensor_grad(h, rows->B, out_cols, out_cols + 2 * rows->gap);
    hand_node(h, rows->op, (struct hand_tensors){1, {in}}, (struct hand_tensors){0}, out, (struct hand_tensors){0},
              attr, is_busy ? sizeof busy : sizeof(float), adds);
}

static void rows_check(op_id op, double tolerance)
{
    static const uint32_t cols[] = {1, 3, 16, 31, 70};
    char what[96];
    for (size_t i = 0; i < sizeof cols / sizeof cols[0]; i++)
        for (uint32_t flags = 0; flags < 8; flags++) {
            struct rows_params rows = {op, 37, cols[i], i % 3, flags & 1, (flags & 3) != 2, flags >> 2 & 1};
            snprintf(what, sizeof what, "%s cols %u flags %u", op_table[op].name, cols[i], flags);
            case_check(what, rows_build, &rows, tolerance);
        }
}

static void relu__odd_rows__equals_reference_to_the_bit(void **state) { (void)state, rows_check(OP_ID_relu, EXACT); }
static void leaky_relu__odd_rows__equals_reference_to_the_bit(void **state)
{
    (void)state, rows_check(OP_ID_leaky_relu, EXACT);
}
static void sigmoid__odd_rows__equals_reference(void **state) { (void)state, rows_check(OP_ID_sigmoid, 3e-7); }
static void tanh__odd_rows__equals_reference(void **state) { (void)state, rows_check(OP_ID_tanh, 3e-7); }
static void softsign__odd_rows__equals_reference_to_the_bit(void **state)
{
    (void)state, rows_check(OP_ID_softsign, EXACT);
}
static void dropout__odd_rows__equals_reference_to_the_bit(void **state)
{
    (void)state, rows_check(OP_ID_dropout, EXACT);
}

static void busy__odd_rows__equals_reference_to_the_bit(void **state) { (void)state, rows_check(OP_ID_busy, EXACT); }

struct norm_params {
    uint32_t B, cols, gap;
    bool adds, wants_din, wants_dparam, training;
};
static void norm_build(struct fixture *f, const void *params)
{
    const struct norm_params *p = params;
    struct hand_graph *h = &f->h;
    uint32_t adds[1] = {p->adds};
    hand_open(h, p->B, p->B + p->cols);
    h->context.training = p->training;
    uint32_t in = p->wants_din ? hand_tensor_grad(h, p->B, p->cols, p->cols + p->gap)
                               : hand_tensor(h, p->B, p->cols, p->cols + p->gap);
    uint32_t out = hand_tensor_grad(h, p->B, p->cols, p->cols + 2 * p->gap);
    struct hand_tensors param = {4, {0}}, saved = {2, {0}};
    for (uint32_t i = 0; i < param.count; i++)
        param.t[i] = p->wants_dparam ? hand_tensor_grad(h, 1, p->cols, p->cols) : hand_tensor(h, 1, p->cols, p->cols);
    for (uint32_t i = 0; i < saved.count; i++) saved.t[i] = hand_tensor(h, 1, p->cols, p->cols);
    float *variance = h->view[param.t[BATCH_NORM_VARIANCE]].data;
    for (uint32_t i = 0; i < p->cols; i++) variance[i] += 1;
    struct batch_norm_attr attr = {.eps = 1e-5f, .momentum = 0.9f};
    hand_node(h, OP_ID_batch_norm, (struct hand_tensors){1, {in}}, param, out, saved, &attr, sizeof attr, adds);
}

/* The kernel does as the reference does, and uses no fma: the same bits. */
static void batch_norm__odd_shapes__equals_reference_to_the_bit(void **state)
{
    (void)state;
    static const uint32_t cols[] = {1, 3, 16, 31, 64, 70, 129}, rows[] = {1, 2, 37, 256};
    char what[96];
    for (size_t i = 0; i < sizeof cols / sizeof cols[0]; i++)
        for (uint32_t flags = 0; flags < 16; flags++) {
            struct norm_params p = {rows[(i + flags) % 4], cols[i],          i % 3,           flags & 1,
                                    (flags & 3) != 2,      (flags & 4) == 0, (flags & 8) == 0};
            snprintf(what, sizeof what, "batch_norm B %u cols %u flags %u", p.B, cols[i], flags);
            case_check(what, norm_build, &p, EXACT);
        }
}

static void data_norm_build(struct fixture *f, const void *params)
{
    const struct norm_params *p = params;
    struct hand_graph *h = &f->h;
    uint32_t adds[1] = {p->adds};
    hand_open(h, p->B, p->B + p->cols);
    h->context.training = p->training;
    uint32_t in = p->wants_din ? hand_tensor_grad(h, p->B, p->cols, p->cols + p->gap)
                               : hand_tensor(h, p->B, p->cols, p->cols + p->gap);
    uint32_t out = hand_tensor_grad(h, p->B, p->cols, p->cols + 2 * p->gap);
    struct hand_tensors param = {DATA_NORM_PARAMS, {0}};
    for (uint32_t i = 0; i < param.count; i++) {
        param.t[i] = p->wants_dparam ? hand_tensor_grad(h, 1, p->cols, p->cols) : hand_tensor(h, 1, p->cols, p->cols);
        for (uint32_t k = 0; k < p->cols && i != DATA_NORM_SUM; k++) h->view[param.t[i]].data[k] += 1.5f;
    }
    struct data_norm_attr attr = {.eps = 1e-4f, .decay = 0.9f};
    hand_node(h, OP_ID_data_norm, (struct hand_tensors){1, {in}}, param, out, (struct hand_tensors){0}, &attr,
              sizeof attr, adds);
}

static void data_norm__odd_shapes__equals_reference_to_the_bit(void **state)
{
    (void)state;
    static const uint32_t cols[] = {1, 3, 16, 31, 64, 70, 129}, rows[] = {1, 2, 37, 256};
    char what[96];
    for (size_t i = 0; i < sizeof cols / sizeof cols[0]; i++)
        for (uint32_t flags = 0; flags < 16; flags++) {
            struct norm_params p = {rows[(i + flags) % 4], cols[i],          i % 3,           flags & 1,
                                    (flags & 3) != 2,      (flags & 4) == 0, (flags & 8) == 0};
            snprintf(what, sizeof what, "data_norm B %u cols %u flags %u", p.B, cols[i], flags);
            case_check(what, data_norm_build, &p, EXACT);
        }
}

/* --- accuracy ----------------------------------------------------------------------------------- */

struct values_params {
    op_id op;
    const float *value;
    uint32_t count;
};
static void values_build(struct fixture *f, const void *params)
{
    const struct values_params *values = params;
    hand_open(&f->h, 1, 1);
    uint32_t in = hand_tensor(&f->h, 1, values->count, values->count),
             out = hand_tensor(&f->h, 1, values->count, values->count);
    memcpy(f->h.view[in].data, values->value, values->count * sizeof(float));
    struct leaky_relu_attr attr = {.slope = 0.01f};
    hand_node(&f->h, values->op, (struct hand_tensors){1, {in}}, (struct hand_tensors){0}, out,
              (struct hand_tensors){0}, &attr, sizeof attr, NULL);
}

/* Relative error of every element against the reference, which rounds a double once; where that is denormal,
 * absolute. */
static void values_check(op_id op, const float *value, uint32_t count, double tolerance)
{
    struct values_params values = {op, value, count};
    struct fixture *reference = fixture_open(values_build, &values);
    op_table[op].forward(&reference->h.context, &reference->h.node[0]);
    const float *expected = op_out(&reference->h.context, &reference->h.node[0]).data;
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        if (!isa_runs_here((enum isa)isa)) continue;
        struct fixture *f = fixture_open(values_build, &values);
        struct device *device;
        assert_int_equal(cpu_device_open(&device, &f->h.graph, 1, NULL, isa_names[isa]), ST_OK);
        assert_int_equal(device_submit(device, &f->h.context, &f->h.node[0], 1), ST_OK);
        device_close(device);
        const float *got = op_out(&f->h.context, &f->h.node[0]).data;
        for (uint32_t i = 0; i < count; i++) {
            if (isnan(expected[i]) && isnan(got[i])) continue;
            double error = fabs((double)got[i] - (double)expected[i]);
            if (!(got[i] == expected[i]) && !(error <= tolerance * fabs((double)expected[i]) + 1e-37))
                fail_msg("%s %s of %a is %a, expected %a", isa_names[isa], op_table[op].name, (double)value[i],
                         (double)got[i], (double)expected[i]);
        }
        fixture_close(f);
    }
    fixture_close(reference);
}

static void activations__whole_range__within_six_roundings(void **state)
{
    (void)state;
    enum { COUNT = 40000 };
    static float value[COUNT];
    for (int i = 0; i < COUNT; i++) value[i] = ldexpf((float)(i % 1000 - 500) / 500, i / 1000 - 30);
    static const float special[] = {0.0f,   -0.0f,   INFINITY, -INFINITY, NAN,   87.5f,  -87.5f,
                                    1e-45f, -1e-45f, 3e38f,    -3e38f,    0.25f, -0.25f, 0x1.fffffep-3f};
    memcpy(value, special, sizeof special);
    values_check(OP_ID_tanh, value, COUNT, 6 * 0x1p-24);
    values_check(OP_ID_sigmoid, value, COUNT, 6 * 0x1p-24);
    values_check(OP_ID_softsign, value, COUNT, 0);
    values_check(OP_ID_relu, value, COUNT, 0);
    values_check(OP_ID_leaky_relu, value, COUNT, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(relu__odd_rows__equals_reference_to_the_bit),
        cmocka_unit_test(leaky_relu__odd_rows__equals_reference_to_the_bit),
        cmocka_unit_test(sigmoid__odd_rows__equals_reference),
        cmocka_unit_test(tanh__odd_rows__equals_reference),
        cmocka_unit_test(softsign__odd_rows__equals_reference_to_the_bit),
        cmocka_unit_test(dropout__odd_rows__equals_reference_to_the_bit),
        cmocka_unit_test(busy__odd_rows__equals_reference_to_the_bit),
        cmocka_unit_test(batch_norm__odd_shapes__equals_reference_to_the_bit),
        cmocka_unit_test(data_norm__odd_shapes__equals_reference_to_the_bit),
        cmocka_unit_test(activations__whole_range__within_six_roundings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
