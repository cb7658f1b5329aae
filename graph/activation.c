/* The elementwise functions, as an op of their own and as the end of an fc. The slope follows from the
 * output, so a backward pass need not keep the input:
 *
 *   relu        y = max(x, 0)           dy/dx = 1 where y > 0, else 0 (at x = 0 too)
 *   leaky_relu  y = x or slope x        dy/dx = 1 where y > 0, else slope; slope in [0, 1], so y > 0 only where x > 0
 *   sigmoid     y = 1 / (1 + exp(-x))   dy/dx = y (1 - y)
 *   tanh                                dy/dx = 1 - y^2
 *   softsign    y = x / (1 + |x|)       dy/dx = (1 - |y|)^2, which is 1 / (1 + |x|)^2
 *
 * A NaN stays a NaN, so that a diverging run is noticed. */
#include <float.h>
#include <math.h>

#include "engine/base/fmath.h"
#include "graph/op_rules.h"

const char *const activation_names[ACT_COUNT + 1] = {"none", "relu", "leaky_relu", "sigmoid", "tanh", "softsign", NULL};

/* Computed from exp(-2|x|) in [0, 1], which cannot overflow. Near 0, where 1 - e would lose digits, by the
 * Taylor series: at |x| = 1/64 its first missing term, 17/315 x^7, is 8e-13 of the result. */
static float tanh_f32(float x)
{
    double magnitude = x < 0 ? -(double)x : (double)x;
    if (magnitude < 0x1p-6) {
        double x2 = magnitude * magnitude;
        return (float)((double)x * (1 - x2 * (1.0 / 3 - x2 * (2.0 / 15))));
    }
    double e = fmath_exp(-2 * magnitude), y = (1 - e) / (1 + e);
    return (float)(x < 0 ? -y : y);
}

/* Infinite x count as the greatest finite numbers, which give 1 or -1:
 * infinity by infinity would be no number. */
static float softsign_f32(float x)
{
    float finite = x > FLT_MAX ? FLT_MAX : x < -FLT_MAX ? -FLT_MAX : x;
    return finite / (1 + fabsf(finite));
}

float activation_apply(enum activation a, float slope, float x)
{
    switch (a) {
    case ACT_RELU: return x < 0 ? 0 : x;
    case ACT_LEAKY_RELU: return x < 0 ? x * slope : x;
    case ACT_SIGMOID: return (float)fmath_sigmoid((double)x);
    case ACT_TANH: return tanh_f32(x);
    case ACT_SOFTSIGN: return softsign_f32(x);
    default: return x;
    }
}

float activation_slope(enum activation a, float slope, float out)
{
    switch (a) {
    case ACT_RELU: return out > 0 ? 1 : 0;
    case ACT_LEAKY_RELU: return out > 0 ? 1 : slope;
    case ACT_SIGMOID: return out * (1 - out);
    case ACT_TANH: return 1 - out * out;
    case ACT_SOFTSIGN: return (1 - fabsf(out)) * (1 - fabsf(out));
    default: return 1;
    }
}

status elementwise_shape(struct op_shape *s, uint32_t flops)
{
    if (s->input_count != 1 || s->input_cols[0] == 0) FAIL(INVALID, "expected one input that is not a sparse field");
    s->output_cols = s->input_cols[0];
    s->flops_forward = s->flops_backward = (uint64_t)flops * s->output_cols;
    return ST_OK;
}

void elementwise_forward(const struct op_context *c, const struct graph_node *n, enum activation a, float slope)
{
    struct view in = op_in(c, n, 0), out = op_out(c, n);
    for (uint32_t b = 0; b < out.rows; b++) {
        const float *in_b = view_row(in, b);
        float *out_b = view_row(out, b);
        for (uint32_t i = 0; i < out.cols; i++) out_b[i] = activation_apply(a, slope, in_b[i]);
    }
}

void elementwise_backward(const struct op_context *c, const struct graph_node *n, enum activation a, float slope)
{
    struct view out = op_out(c, n), dout = op_dout(c, n), din = op_din(c, n, 0);
    if (din.data == NULL) return;
    bool adds = op_din_adds(c, n, 0);
    for (uint32_t b = 0; b < out.rows; b++) {
        const float *out_b = view_row(out, b), *dout_b = view_row(dout, b);
        float *din_b = view_row(din, b);
        for (uint32_t i = 0; i < out.cols; i++)
            grad_put(&din_b[i], dout_b[i] * activation_slope(a, slope, out_b[i]), adds);
    }
}
