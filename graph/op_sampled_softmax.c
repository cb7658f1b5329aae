/* Cross-entropy of a target among drawn candidates: softmax over z_j = s_j - log q_j, where column 0 is the
 * target and q_j the probability with which the reader draws a candidate, so that the expected gradient
 * approaches the gradient over all words (Jean, Cho, Memisevic, Bengio, "On Using Very Large Target
 * Vocabulary", ACL 2015, section 3; their log(K q) differs by a constant, which a softmax ignores). A
 * candidate that is the target by accident does not count: its exp is 0.
 *
 *   loss = log sum_j exp(z_j - m) - (z_0 - m)          ds_j = exp(z_j - m) / sum - [j = 0]          m = max z
 *
 * The gradient is that of the sum of the examples' losses; this op starts the backward pass, so it reads no
 * dout. */
#include "engine/base/fmath.h"
#include "graph/op_rules.h"

static const struct cfg_key sampled_softmax_keys[] = {LOSS_WEIGHT_KEY};
const struct op_keys op_sampled_softmax_keys = OP_KEYS(sampled_softmax_keys, struct loss_keys);

status op_sampled_softmax_parse(const struct op_parse *p) { return loss_parse(p); }

status op_sampled_softmax_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count)
{
    (void)tables, (void)table_count;
    TRY(loss_candidates_shape(s));
    s->saved[0].name = "row";
    s->saved[0].cols = LOSS_SAVED_COLS;
    s->saved_count = 1;
    s->flops_forward = 14 * (uint64_t)s->input_cols[0];
    s->flops_backward = 14 * (uint64_t)s->input_cols[0];
    return ST_OK;
}

void op_sampled_softmax_forward(const struct op_context *c, const struct graph_node *n)
{
    struct view in = op_in(c, n, 0), log_q = op_in(c, n, 1), out = op_out(c, n), saved = op_saved(c, n, 0);
    for (uint32_t b = 0; b < out.rows; b++) {
        const float *x = view_row(in, b), *q = view_row(log_q, b);
        float greatest = x[0] - q[0];
        double sum = 0;
        for (uint32_t j = 1; j < in.cols; j++)
            if (!log_q_is_hit(q, j) && x[j] - q[j] > greatest) greatest = x[j] - q[j];
        for (uint32_t j = 0; j < in.cols; j++)
            if (!log_q_is_hit(q, j)) sum += fmath_exp((double)(x[j] - q[j]) - (double)greatest);
        double loss = fmath_log(sum) - ((double)(x[0] - q[0]) - (double)greatest);
        view_row(saved, b)[LOSS_SAVED_LOSS] = (float)loss;
        view_row(saved, b)[LOSS_SAVED_GREATEST] = greatest;
        view_row(saved, b)[LOSS_SAVED_SUM] = (float)sum;
        *view_row(out, b) = (float)((double)loss_scale(c, n, b) * loss);
    }
}

void op_sampled_softmax_backward(const struct op_context *c, const struct graph_node *n)
{
    struct view in = op_in(c, n, 0), log_q = op_in(c, n, 1), saved = op_saved(c, n, 0), din = op_din(c, n, 0);
    if (din.data == NULL) return;
    bool adds = op_din_adds(c, n, 0);
    for (uint32_t b = 0; b < in.rows; b++) {
        const float *x = view_row(in, b), *q = view_row(log_q, b), *saved_b = view_row(saved, b);
        double scale = (double)loss_scale(c, n, b);
        for (uint32_t j = 0; j < in.cols; j++) {
            bool is_hit = log_q_is_hit(q, j);
            double probability = is_hit ? 0
                                        : fmath_exp((double)(x[j] - q[j]) - (double)saved_b[LOSS_SAVED_GREATEST]) /
                                              (double)saved_b[LOSS_SAVED_SUM];
            grad_put(&view_row(din, b)[j], (float)(scale * (probability - (j == 0))), adds);
        }
    }
}
