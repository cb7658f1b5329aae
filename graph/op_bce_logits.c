/* Binary cross-entropy of a prediction that has not been through the sigmoid yet. With p = 1 / (1 + exp(-z)):
 *
 *   -y log p - (1-y) log (1-p),        log p = -log(1 + exp(-z)),   log(1-p) = -z - log(1 + exp(-z))
 *     = (1-y) z + log(1 + exp(-z))
 *
 * exp(-z) overflows for z far below 0; there log(1 + exp(-z)) = -z + log(1 + exp(z)). Both cases in one:
 *
 *   loss  = max(z, 0) - z y + log1p(exp(-|z|))     every term is finite, and log1p keeps the digits of a small exp
 *   dloss/dz = p - y                               p through exp(-|z|) too, so it neither overflows nor loses digits
 *
 * Computed in double and rounded once. The gradient is that of the sum of the examples' losses; who wants the mean scales by
 * 1 / examples (the optimizer does). This op starts the backward pass, so it reads no dout. */
#include "engine/base/fmath.h"
#include "graph/op_rules.h"

const struct op_keys op_bce_logits_keys = {NULL, 0, 0};

status op_bce_logits_parse(const struct op_parse *p)
{
    (void)p;
    return ST_OK;
}

status op_bce_logits_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count)
{
    (void)tables, (void)table_count;
    if (s->input_count != 2) FAIL(INVALID, "expected a prediction and a label, found %u inputs", s->input_count);
    if (s->input_cols[0] != 1) FAIL(INVALID, "expected a prediction of 1 column, found %u", s->input_cols[0]);
    if (s->input_cols[1] != 1) FAIL(INVALID, "expected a label of 1 column, found %u", s->input_cols[1]);
    s->output_cols = 1;
    s->flops_forward = 20;
    s->flops_backward = 12;
    return ST_OK;
}

void op_bce_logits_forward(const struct op_context *c, const struct graph_node *n)
{
    struct view logit = op_in(c, n, 0), label = op_in(c, n, 1), out = op_out(c, n);
    for (uint32_t b = 0; b < out.rows; b++) {
        double z = (double)*view_row(logit, b), y = (double)*view_row(label, b);
        double above = z < 0 ? 0 : z, magnitude = z < 0 ? -z : z;
        *view_row(out, b) = (float)(above - z * y + fmath_log1p(fmath_exp(-magnitude)));
    }
}

void op_bce_logits_backward(const struct op_context *c, const struct graph_node *n)
{
    struct view logit = op_in(c, n, 0), label = op_in(c, n, 1), dlogit = op_din(c, n, 0);
    if (dlogit.data == NULL) return;
    bool adds = op_din_adds(c, n, 0);
    for (uint32_t b = 0; b < logit.rows; b++) {
        double z = (double)*view_row(logit, b), y = (double)*view_row(label, b);
        grad_put(view_row(dlogit, b), (float)(fmath_sigmoid(z) - y), adds);
    }
}
