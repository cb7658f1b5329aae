/* A cross layer (Wang et al., WWW 2021, DCN-v2): out = x0 * z + x, element by element, the inputs x0, x
 * and z in this order and of one width; x0 is the input of the first cross layer, x the output of the
 * layer before. z is the factor of x0 in eq. (1), W x + b, an fc in a model text; of low rank, eq. (2),
 * z = U (V^T x) + b takes two fc:
 *
 *   [fc v1]              [fc z1]              [cross c1]
 *   input = x            input = v1           input = x0, x, z1
 *   units = RANK         units = WIDTH
 *   bias = no
 *
 * The first layer has x = x0, the second x = c1. Backward: dx0 = dout z, dx = dout, dz = dout x0. */
#include "graph/op_rules.h"

enum { X0, X, Z, INPUTS };

const struct op_keys op_cross_keys = {0};

status op_cross_parse(const struct op_parse *p)
{
    (void)p;
    return ST_OK;
}

status op_cross_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count)
{
    (void)tables, (void)table_count;
    if (s->input_count != INPUTS)
        FAIL(INVALID, "expected three inputs, x0, x and what x0 is multiplied by, found %u", s->input_count);
    for (uint32_t i = 0; i < INPUTS; i++) {
        if (s->input_cols[i] == 0) FAIL(INVALID, "expected inputs that are not sparse fields; input %u is one", i + 1);
        if (s->input_cols[i] != s->input_cols[X0])
            FAIL(INVALID, "expected three inputs of %u columns, as the first has; input %u has %u", s->input_cols[X0],
                 i + 1, s->input_cols[i]);
    }
    s->output_cols = s->input_cols[X0];
    s->flops_forward = 2 * (uint64_t)s->output_cols;
    s->flops_backward = 3 * (uint64_t)s->output_cols;
    return ST_OK;
}

void op_cross_forward(const struct op_context *c, const struct graph_node *n)
{
    struct view x0 = op_in(c, n, X0), x = op_in(c, n, X), z = op_in(c, n, Z), out = op_out(c, n);
    for (uint32_t b = 0; b < out.rows; b++)
        for (uint32_t i = 0; i < out.cols; i++)
            view_row(out, b)[i] = view_row(x0, b)[i] * view_row(z, b)[i] + view_row(x, b)[i];
}

void op_cross_backward(const struct op_context *c, const struct graph_node *n)
{
    struct view dout = op_dout(c, n);
    for (uint32_t k = 0; k < INPUTS; k++) {
        struct view din = op_din(c, n, k), factor = op_in(c, n, k == X0 ? Z : X0);
        bool adds = op_din_adds(c, n, k);
        for (uint32_t b = 0; b < dout.rows && din.data != NULL; b++)
            for (uint32_t i = 0; i < dout.cols; i++) {
                float dy = view_row(dout, b)[i];
                grad_put(&view_row(din, b)[i], k == X ? dy : dy * view_row(factor, b)[i], adds);
            }
    }
}
