/* An fc of one node, what it is tried with in bfloat16, and a matrix unit in plain C.
 * Included behind cmocka.h. */
#ifndef HETERPS_TESTS_ENGINE_CPU_FC_CASE_H
#define HETERPS_TESTS_ENGINE_CPU_FC_CASE_H

#include "engine/base/bf16.h"
#include "graph/op_rules.h"
#include "tests/engine/device/cpu/kernel_case.h"

struct fc_params {
    uint32_t B, K, N, gap; /* gap: floats between columns and stride */
    struct fc_attr attr;   /* without units; groups 0: 1 */
    bool adds, wants_din, wants_dweight;
};

static inline void fc_build(struct fixture *f, const void *params)
{
    const struct fc_params *p = params;
    struct hand_graph *h = &f->h;
    struct fc_attr attr = p->attr;
    uint32_t adds[1] = {p->adds};
    attr.units = p->N;
    if (attr.groups == 0) attr.groups = 1;
    hand_open(h, p->B, p->B + p->K + p->N);
    uint32_t in_cols = attr.groups * p->K, out_cols = attr.groups * p->N;
    uint32_t in = p->wants_din ? hand_tensor_grad(h, p->B, in_cols, in_cols + p->gap)
                               : hand_tensor(h, p->B, in_cols, in_cols + p->gap);
    uint32_t out = hand_tensor_grad(h, p->B, out_cols, out_cols + p->gap);
    uint32_t weight = p->wants_dweight ? hand_tensor_grad(h, p->K, p->N, p->N) : hand_tensor(h, p->K, p->N, p->N);
    struct hand_tensors param = {1, {weight}};
    if (attr.has_bias)
        param.t[param.count++] = p->wants_dweight ? hand_tensor_grad(h, 1, p->N, p->N) : hand_tensor(h, 1, p->N, p->N);
    hand_node(h, OP_ID_fc, (struct hand_tensors){1, {in}}, param, out, (struct hand_tensors){0}, &attr, sizeof attr,
              adds);
}

/* `sum` and `count` more terms, as tiles add them: 32 at a time, even and odd ones in a chain each. */
static inline float amx_sum(float sum, const float *left, size_t left_step, const float *right, size_t right_step,
                            uint32_t count)
{
    for (uint32_t t = 0; t < count; t += 32) {
        float chain[2] = {0, 0};
        for (uint32_t i = t; i < t + 32 && i < count; i++)
            chain[i & 1] = fmaf(bf16_round(left[i * left_step]), bf16_round(right[i * right_step]), chain[i & 1]);
        sum += chain[0] + chain[1];
    }
    return sum;
}

/* reference_run (graph/op_fc.c) of an fc without groups or with, whose activations are none or relu. */
static inline void fc_amx_run(struct fixture *f)
{
    const struct graph_node *n = &f->h.node[0];
    const struct op_context *c = &f->h.context;
    struct fc_attr attr;
    memcpy(&attr, n->attr, sizeof attr);
    struct view in = op_in(c, n, 0), weight = op_param(c, n, 0), out = op_out(c, n), dout = op_dout(c, n);
    struct view din = op_din(c, n, 0), dweight = op_dparam(c, n, 0);
    const float *bias = attr.has_bias ? op_param(c, n, 1).data : NULL;
    float *dbias = attr.has_bias ? op_dparam(c, n, 1).data : NULL;
    uint32_t K = weight.rows, N = weight.cols, B = out.rows;
    for (uint32_t b = 0; b < B; b++)
        for (uint32_t o = 0; o < out.cols; o++) {
            float z = amx_sum(0, view_row(in, b) + o / N * K, 1, weight.data + o % N, weight.stride, K);
            if (bias != NULL) z += bias[o % N];
            view_row(out, b)[o] = attr.activation == ACT_RELU && !(z > 0) ? 0 : z;
        }
    float *dz = calloc((size_t)B * out.cols, sizeof *dz);
    assert_non_null(dz);
    for (uint32_t b = 0; b < B; b++)
        for (uint32_t o = 0; o < out.cols; o++)
            dz[(size_t)b * out.cols + o] = attr.dout_is_dz || attr.activation == ACT_NONE || view_row(out, b)[o] > 0
                                               ? view_row(dout, b)[o]
                                               : 0 * view_row(dout, b)[o];
    for (uint32_t i = 0; i < N && dbias != NULL; i++) {
        float sum = 0;
        for (uint32_t g = 0; g < attr.groups; g++)
            for (uint32_t b = 0; b < B; b++) sum += dz[(size_t)b * out.cols + g * N + i];
        dbias[i] += sum;
    }
    for (uint32_t k = 0; k < K && dweight.data != NULL; k++)
        for (uint32_t i = 0; i < N; i++) {
            float sum = 0;
            for (uint32_t g = 0; g < attr.groups; g++)
                sum = amx_sum(sum, in.data + g * K + k, in.stride, dz + g * N + i, out.cols, B);
            view_row(dweight, k)[i] += sum;
        }
    bool adds = din.data != NULL && op_din_adds(c, n, 0);
    for (uint32_t b = 0; b < B && din.data != NULL; b++)
        for (uint32_t j = 0; j < in.cols; j++) {
            float sum = amx_sum(0, dz + (size_t)b * out.cols + j / K * N, 1, view_row(weight, j % K), 1, N);
            if (attr.input_activation == ACT_RELU) sum *= view_row(in, b)[j] > 0 ? 1 : 0;
            view_row(din, b)[j] = adds ? view_row(din, b)[j] + sum : sum;
        }
    free(dz);
}

/* Shapes in bfloat16, on the instruction sets [isa, end), against `run`. Activations whose exponentials are
 * approximated are not among them. */
static inline void fc_bf16_check(void (*run)(struct fixture *), int isa, int end)
{
    static const uint32_t shapes[][4] = {/* B, K, N, groups */
                                         {1, 1, 2, 1},     {1, 429, 3, 1},    {2, 3, 4, 1},      {5, 7, 9, 1},
                                         {6, 16, 16, 1},   {7, 17, 15, 1},    {13, 33, 31, 1},   {100, 13, 64, 1},
                                         {259, 31, 33, 1}, {29, 600, 18, 1},  {40, 20, 17, 9},   {5, 1, 2, 40},
                                         {300, 7, 33, 3},  {15, 2051, 35, 1}, {2060, 5, 290, 1}, {1100, 6, 290, 2},
                                         {64, 96, 128, 1}, {48, 80, 64, 1},   {1040, 144, 20, 2}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (uint32_t flags = 0; flags < 4; flags++) {
            struct fc_params p = {shapes[i][0],
                                  shapes[i][1],
                                  shapes[i][2],
                                  flags & 1 ? 3 : 0,
                                  {.groups = shapes[i][3],
                                   .has_bias = flags & 1,
                                   .activation = flags & 2 ? ACT_RELU : ACT_NONE,
                                   .dout_is_dz = flags >> 1 & 1,
                                   .input_activation = flags & 1 ? ACT_RELU : ACT_NONE,
                                   .precision = PRECISION_BF16},
                                  .adds = flags & 1,
                                  .wants_din = flags != 2,
                                  .wants_dweight = true};
            char what[96];
            snprintf(what, sizeof what, "fc in bf16, B %u K %u N %u groups %u flags %u pairs %d", p.B, p.K, p.N,
                     p.attr.groups, flags, bf16_is_pairs);
            case_check_by(what, fc_build, &p, EXACT, run, isa, end);
        }
}

/* More rows than there is room for their sums to wait for the next terms, enough columns; one member. */
static inline void fc_bf16_many_check(void (*run)(struct fixture *), int isa, int end)
{
    struct fc_params p = {530,
                          1030,
                          500,
                          0,
                          {.has_bias = 1, .activation = ACT_RELU, .precision = PRECISION_BF16},
                          .wants_din = false,
                          .wants_dweight = false};
    struct fixture *reference = fixture_open(fc_build, &p);
    run(reference);
    for (; isa < end; isa++) {
        if (!isa_runs_here((enum isa)isa)) continue;
        struct fixture *f = fixture_open(fc_build, &p);
        device_run(f, (enum isa)isa, 1, 0);
        fixtures_compare("fc in bf16 of many rows and terms", f, reference, EXACT);
        fixture_close(f);
    }
    fixture_close(reference);
}

#endif
