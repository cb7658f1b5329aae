/* The input of the network that scores a candidate against each of T remembered items: q [B,D] and h
 * [B,T*D] -> [B,T*4D]; for each t, h_t, q, h_t - q, h_t * q side by side (Zhou et al., KDD 2018, section
 * 4.3, whose activation unit sees the two vectors and what they have in common). An [fc] with groups = T
 * then has the same weights for all t.
 *
 * Backward, with d0 … d3 the four parts of dout of t, sums over t in order:
 *   dh_t = d0 + d2 + d3 * q      dq = sum_t (d1 - d2 + d3 * h_t) */
#include "graph/op_rules.h"

const struct op_keys op_attention_pairs_keys = {0};

status op_attention_pairs_parse(const struct op_parse *p)
{
    (void)p;
    return ST_OK;
}

status op_attention_pairs_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count)
{
    (void)tables, (void)table_count;
    if (s->input_count != 2 || s->input_cols[0] == 0 || s->input_cols[1] == 0)
        FAIL(INVALID, "expected two inputs that are not sparse fields, found %u inputs", s->input_count);
    uint32_t D = s->input_cols[0], cols = s->input_cols[1];
    if (cols % D != 0)
        FAIL(INVALID, "expected a second input of vectors of %u columns, as many as the first input, found %u columns",
             D, cols);
    if (cols > OP_COLS_MAX / 4)
        FAIL(INVALID, "expected a second input of at most %u columns, found %u", OP_COLS_MAX / 4, cols);
    s->output_cols = 4 * cols;
    s->flops_forward = 2 * (uint64_t)cols;
    s->flops_backward = 7 * (uint64_t)cols;
    return ST_OK;
}

void op_attention_pairs_forward(const struct op_context *c, const struct graph_node *n)
{
    struct view q = op_in(c, n, 0), h = op_in(c, n, 1), out = op_out(c, n);
    uint32_t D = q.cols;
    for (uint32_t b = 0; b < out.rows; b++) {
        const float *q_b = view_row(q, b);
        for (uint32_t i = 0; i < h.cols; i++) {
            uint32_t t = i / D, d = i % D;
            float *out_bt = view_row(out, b) + (size_t)t * 4 * D, h_i = view_row(h, b)[i];
            out_bt[d] = h_i;
            out_bt[D + d] = q_b[d];
            out_bt[2 * D + d] = h_i - q_b[d];
            out_bt[3 * D + d] = h_i * q_b[d];
        }
    }
}

void op_attention_pairs_backward(const struct op_context *c, const struct graph_node *n)
{
    struct view q = op_in(c, n, 0), h = op_in(c, n, 1), dout = op_dout(c, n);
    struct view dq = op_din(c, n, 0), dh = op_din(c, n, 1);
    bool dq_adds = op_din_adds(c, n, 0), dh_adds = op_din_adds(c, n, 1);
    uint32_t D = q.cols;
    for (uint32_t b = 0; b < dout.rows; b++) {
        const float *dout_b = view_row(dout, b), *q_b = view_row(q, b), *h_b = view_row(h, b);
        for (uint32_t d = 0; d < D && dq.data != NULL; d++) {
            float sum = 0;
            for (uint32_t i = d; i < h.cols; i += D) {
                const float *d_t = dout_b + (size_t)(i - d) * 4;
                sum += d_t[D + d] - d_t[2 * D + d] + d_t[3 * D + d] * h_b[i];
            }
            grad_put(&view_row(dq, b)[d], sum, dq_adds);
        }
        for (uint32_t i = 0; i < h.cols && dh.data != NULL; i++) {
            uint32_t d = i % D;
            const float *d_t = dout_b + (size_t)(i - d) * 4;
            grad_put(&view_row(dh, b)[i], d_t[d] + d_t[2 * D + d] + d_t[3 * D + d] * q_b[d], dh_adds);
        }
    }
}
