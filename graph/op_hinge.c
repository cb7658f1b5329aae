/* Hinge loss of a pair, max(0, margin - p + q), for the score p of the item that should rank first and the
 * score q of the one that should rank second (Herbrich, Graepel, Obermayer, "Large margin rank boundaries for
 * ordinal regression", 2000). dp = -1 and dq = 1 where the loss is positive, else 0. The gradient is that of
 * the sum of the examples' losses; this op starts the backward pass, so it reads no dout. */
#include "graph/op_rules.h"

static const struct cfg_key hinge_keys[] = {
    LOSS_WEIGHT_KEY,
    {.name = "margin",
     .type = CFG_F32,
     .fallback = "0.1",
     .max = 1e6,
     .unit = "",
     .meaning = "by which the first input should be above the second",
     .offset = offsetof(struct loss_keys, margin)},
};
const struct op_keys op_hinge_keys = OP_KEYS(hinge_keys, struct loss_keys);

status op_hinge_parse(const struct op_parse *p) { return loss_parse(p); }

status op_hinge_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count)
{
    (void)tables, (void)table_count;
    if (s->input_count != 2) FAIL(INVALID, "expected two scores, found %u inputs", s->input_count);
    for (uint32_t k = 0; k < 2; k++)
        if (s->input_cols[k] != 1) FAIL(INVALID, "expected scores of 1 column, found %u", s->input_cols[k]);
    TRY(loss_attr_check(s->attr));
    s->output_cols = 1;
    s->flops_forward = 4;
    s->flops_backward = 4;
    return ST_OK;
}

/* The loss of an example, without its weights. NaN stays NaN. */
static float loss_of(const struct op_context *c, const struct graph_node *n, uint32_t b)
{
    float loss = loss_attr_of(n->attr).margin - *view_row(op_in(c, n, 0), b) + *view_row(op_in(c, n, 1), b);
    return loss < 0 ? 0 : loss;
}

void op_hinge_forward(const struct op_context *c, const struct graph_node *n)
{
    struct view out = op_out(c, n);
    for (uint32_t b = 0; b < out.rows; b++) *view_row(out, b) = loss_scale(c, n, b) * loss_of(c, n, b);
}

void op_hinge_backward(const struct op_context *c, const struct graph_node *n)
{
    struct view dp = op_din(c, n, 0), dq = op_din(c, n, 1);
    for (uint32_t b = 0; b < c->batch->example_count; b++) {
        float slope = loss_of(c, n, b) > 0 ? loss_scale(c, n, b) : 0;
        if (dp.data) grad_put(view_row(dp, b), -slope, op_din_adds(c, n, 0));
        if (dq.data) grad_put(view_row(dq, b), slope, op_din_adds(c, n, 1));
    }
}
