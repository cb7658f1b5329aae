/* The product of two inputs, element by element; an input of one column multiplies every column.
 * Backward: an input's gradient is dout times the other input; for an input of one column, its sum
 * over the columns i = 0, 1, ... */
#include "graph/op_rules.h"

const struct op_keys op_mul_keys = {0};

status op_mul_parse(const struct op_parse *p)
{
    (void)p;
    return ST_OK;
}

status op_mul_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count)
{
    (void)tables, (void)table_count;
    if (s->input_count != 2) FAIL(INVALID, "expected two inputs, found %u", s->input_count);
    return broadcast_shape(s, 1);
}

void op_mul_forward(const struct op_context *c, const struct graph_node *n)
{
    struct view out = op_out(c, n), first = op_in(c, n, 0), second = op_in(c, n, 1);
    for (uint32_t b = 0; b < out.rows; b++)
        for (uint32_t i = 0; i < out.cols; i++)
            view_row(out, b)[i] = broadcast_at(first, b, i) * broadcast_at(second, b, i);
}

void op_mul_backward(const struct op_context *c, const struct graph_node *n)
{
    struct view dout = op_dout(c, n);
    for (uint32_t k = 0; k < 2; k++) {
        struct view din = op_din(c, n, k), other = op_in(c, n, 1 - k);
        bool adds = op_din_adds(c, n, k);
        for (uint32_t b = 0; b < dout.rows && din.data != NULL; b++) {
            const float *dout_b = view_row(dout, b);
            float *din_b = view_row(din, b);
            if (din.cols == dout.cols) {
                for (uint32_t i = 0; i < dout.cols; i++)
                    grad_put(&din_b[i], dout_b[i] * broadcast_at(other, b, i), adds);
                continue;
            }
            float sum = 0;
            for (uint32_t i = 0; i < dout.cols; i++) sum += dout_b[i] * broadcast_at(other, b, i);
            grad_put(din_b, sum, adds);
        }
    }
}
