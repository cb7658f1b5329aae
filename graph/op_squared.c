/* Squared error of a prediction, (x - y)^2 with dx = 2 (x - y): as PyTorch's MSELoss, without the
 * 1/2 of some books. The gradient is that of the sum of the examples' losses; this op starts the
 * backward pass, so it reads no dout. */
#include "graph/op_rules.h"

static const struct cfg_key squared_keys[] = {LOSS_WEIGHT_KEY};
const struct op_keys op_squared_keys = OP_KEYS(squared_keys, struct loss_keys);

status op_squared_parse(const struct op_parse *p) { return loss_parse(p); }

status op_squared_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count)
{
    (void)tables, (void)table_count;
    TRY(loss_label_shape(s, 1));
    s->flops_forward = 3;
    s->flops_backward = 3;
    return ST_OK;
}

void op_squared_forward(const struct op_context *c, const struct graph_node *n)
{
    struct view in = op_in(c, n, 0), label = op_in(c, n, 1), out = op_out(c, n);
    for (uint32_t b = 0; b < out.rows; b++) {
        double error = (double)*view_row(in, b) - (double)*view_row(label, b);
        *view_row(out, b) = (float)((double)loss_scale(c, n, b) * (error * error));
    }
}

void op_squared_backward(const struct op_context *c, const struct graph_node *n)
{
    struct view in = op_in(c, n, 0), label = op_in(c, n, 1), din = op_din(c, n, 0);
    if (din.data == NULL) return;
    bool adds = op_din_adds(c, n, 0);
    for (uint32_t b = 0; b < in.rows; b++) {
        double error = (double)*view_row(in, b) - (double)*view_row(label, b);
        grad_put(view_row(din, b), (float)((double)loss_scale(c, n, b) * (2 * error)), adds);
    }
}
