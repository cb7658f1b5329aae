/* Binary cross-entropy of a logit z. With p = 1 / (1 + exp(-z)):
 *
 *   -y log p - (1-y) log (1-p),        log p = -log(1 + exp(-z)),   log(1-p) = -z - log(1 + exp(-z))
 *     = (1-y) z + log(1 + exp(-z))
 *
 * exp(-z) overflows for z far below 0; there log(1 + exp(-z)) = -z + log(1 + exp(z)). Both cases in one:
 *
 *   loss  = max(z, 0) - z y + log1p(exp(-|z|))     every term is finite, and log1p keeps the digits of a small exp
 *   dloss/dz = p - y                               p by exp(-|z|), too, so it neither overflows nor loses digits
 *
 * A label below 0 or above 1, such as the -1 of many files, has no such loss: readers refuse it
 * (graph_label_range); from elsewhere it makes the loss NaN. The loss is computed in double, multiplied by
 * the weights, and rounded once. The gradient is that of the sum of the examples' losses; the optimizer
 * scales by 1 / examples for the mean. This op starts the backward pass, so it reads no dout. */
#include <math.h>

#include "engine/base/fmath.h"
#include "graph/op_rules.h"

static const struct cfg_key bce_logits_keys[] = {LOSS_WEIGHT_KEY};
const struct op_keys op_bce_logits_keys = OP_KEYS(bce_logits_keys, struct loss_keys);

status op_bce_logits_parse(const struct op_parse *p) { return loss_parse(p); }

status op_bce_logits_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count)
{
    (void)tables, (void)table_count;
    TRY(loss_label_shape(s, 1));
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
        double loss = y >= 0 && y <= 1 ? above - z * y + fmath_log1p(fmath_exp(-magnitude)) : (double)NAN;
        *view_row(out, b) = (float)((double)loss_scale(c, n, b) * loss);
    }
}

void op_bce_logits_backward(const struct op_context *c, const struct graph_node *n)
{
    struct view logit = op_in(c, n, 0), label = op_in(c, n, 1), dlogit = op_din(c, n, 0);
    if (dlogit.data == NULL) return;
    bool adds = op_din_adds(c, n, 0);
    for (uint32_t b = 0; b < logit.rows; b++) {
        double z = (double)*view_row(logit, b), y = (double)*view_row(label, b);
        grad_put(view_row(dlogit, b), (float)((double)loss_scale(c, n, b) * (fmath_sigmoid(z) - y)), adds);
    }
}
