/* The sum of two or more inputs, element by element, in their order; an input of one column is
 * added to every column. Backward: an input's gradient is dout; for an input of one column, its sum
 * over the columns i = 0, 1, ... */
#include "graph/op_rules.h"

const struct op_keys op_add_keys = {0};

status op_add_parse(const struct op_parse *p)
{
    (void)p;
    return ST_OK;
}

status op_add_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count)
{
    (void)tables, (void)table_count;
    if (s->input_count < 2) FAIL(INVALID, "expected two or more inputs, found %u", s->input_count);
    return broadcast_shape(s, 1);
}

void op_add_forward(const struct op_context *c, const struct graph_node *n)
{
    struct view out = op_out(c, n);
    for (uint32_t b = 0; b < out.rows; b++)
        for (uint32_t i = 0; i < out.cols; i++) {
            float sum = broadcast_at(op_in(c, n, 0), b, i);
            for (uint32_t k = 1; k < n->input_count; k++) sum += broadcast_at(op_in(c, n, k), b, i);
            view_row(out, b)[i] = sum;
        }
}

void op_add_backward(const struct op_context *c, const struct graph_node *n)
{
    struct view dout = op_dout(c, n);
    for (uint32_t k = 0; k < n->input_count; k++) {
        struct view din = op_din(c, n, k);
        bool adds = op_din_adds(c, n, k);
        for (uint32_t b = 0; b < dout.rows && din.data != NULL; b++) {
            const float *dout_b = view_row(dout, b);
            float *din_b = view_row(din, b);
            if (din.cols == dout.cols) {
                for (uint32_t i = 0; i < dout.cols; i++) grad_put(&din_b[i], dout_b[i], adds);
                continue;
            }
            float sum = 0;
            for (uint32_t i = 0; i < dout.cols; i++) sum += dout_b[i];
            grad_put(din_b, sum, adds);
        }
    }
}
