/* Puts its inputs' columns side by side, in the order of the inputs; backward, each input's gradient is its part of
 * dout. */
#include "graph/op_rules.h"

const struct op_keys op_concat_keys = {0};

status op_concat_parse(const struct op_parse *p)
{
    (void)p;
    return ST_OK;
}

status op_concat_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count)
{
    (void)tables, (void)table_count;
    if (s->input_count == 0) FAIL(INVALID, "expected one or more inputs, found none");
    uint64_t cols = 0;
    for (uint32_t i = 0; i < s->input_count; i++) {
        if (s->input_cols[i] == 0) FAIL(INVALID, "expected inputs that are not sparse fields; input %u is one", i + 1);
        cols += s->input_cols[i];
        if (cols > OP_COLS_MAX) FAIL(INVALID, "expected at most %u columns in all", OP_COLS_MAX);
    }
    s->output_cols = (uint32_t)cols;
    return ST_OK;
}

void op_concat_forward(const struct op_context *c, const struct graph_node *n)
{
    struct view out = op_out(c, n);
    uint32_t begin = 0;
    for (uint32_t k = 0; k < n->input_count; k++) {
        struct view in = op_in(c, n, k);
        for (uint32_t b = 0; b < out.rows; b++) {
            const float *in_b = view_row(in, b);
            float *out_b = view_row(out, b) + begin;
            for (uint32_t i = 0; i < in.cols; i++) out_b[i] = in_b[i];
        }
        begin += in.cols;
    }
}

void op_concat_backward(const struct op_context *c, const struct graph_node *n)
{
    struct view dout = op_dout(c, n);
    uint32_t begin = 0;
    for (uint32_t k = 0; k < n->input_count; k++) {
        struct view din = op_din(c, n, k);
        bool adds = op_din_adds(c, n, k);
        for (uint32_t b = 0; b < din.rows; b++) {
            const float *dout_b = view_row(dout, b) + begin;
            float *din_b = view_row(din, b);
            for (uint32_t i = 0; i < din.cols; i++) grad_put(&din_b[i], dout_b[i], adds);
        }
        begin += op_in(c, n, k).cols;
    }
}
