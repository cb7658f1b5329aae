/* Cross-entropy of a label that is the number t of one of C classes, from logits. With m the greatest logit:
 *
 *   loss = log sum_j exp(x_j - m) - (x_t - m)          dx_j = exp(x_j - m) / sum - [j = t]
 *
 * so no exp overflows and the sum is at least 1. A label that is no whole number of 0 .. C-1 makes the loss
 * NaN: readers refuse such numbers (graph_label_range), and at such a word the engine stops and names the
 * example (op_labels_check); there the gradient is as if no class were right. The gradient is that of the sum
 * of the examples' losses; this op starts the backward pass, so it reads no dout. */
#include <math.h>

#include "engine/base/fmath.h"
#include "graph/op_rules.h"

static const struct cfg_key softmax_loss_keys[] = {LOSS_WEIGHT_KEY};
const struct op_keys op_softmax_loss_keys = OP_KEYS(softmax_loss_keys, struct loss_keys);

status op_softmax_loss_parse(const struct op_parse *p) { return loss_parse(p); }

status op_softmax_loss_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count)
{
    (void)tables, (void)table_count;
    TRY(loss_label_shape(s, 0));
    if (s->input_cols[0] < 2)
        FAIL(INVALID, "expected logits of 2 classes or more, found %u; of one column kind = bce makes a probability",
             s->input_cols[0]);
    s->saved[0].name = "row";
    s->saved[0].cols = LOSS_SAVED_COLS;
    s->saved_count = 1;
    s->flops_forward = 12 * (uint64_t)s->input_cols[0];
    s->flops_backward = 12 * (uint64_t)s->input_cols[0];
    return ST_OK;
}

void op_softmax_loss_forward(const struct op_context *c, const struct graph_node *n)
{
    struct view in = op_in(c, n, 0), label = op_in(c, n, 1), out = op_out(c, n), saved = op_saved(c, n, 0);
    for (uint32_t b = 0; b < out.rows; b++) {
        const float *x = view_row(in, b);
        uint32_t target = label_class(*view_row(label, b), in.cols);
        float greatest = x[0];
        double sum = 0;
        for (uint32_t j = 1; j < in.cols; j++) greatest = x[j] > greatest ? x[j] : greatest;
        for (uint32_t j = 0; j < in.cols; j++) sum += fmath_exp((double)x[j] - (double)greatest);
        double loss = target == GRAPH_NONE ? (double)NAN : fmath_log(sum) - ((double)x[target] - (double)greatest);
        view_row(saved, b)[LOSS_SAVED_LOSS] = (float)loss;
        view_row(saved, b)[LOSS_SAVED_GREATEST] = greatest;
        view_row(saved, b)[LOSS_SAVED_SUM] = (float)sum;
        *view_row(out, b) = (float)((double)loss_scale(c, n, b) * loss);
    }
}

void op_softmax_loss_backward(const struct op_context *c, const struct graph_node *n)
{
    struct view in = op_in(c, n, 0), label = op_in(c, n, 1), saved = op_saved(c, n, 0), din = op_din(c, n, 0);
    if (din.data == NULL) return;
    bool adds = op_din_adds(c, n, 0);
    for (uint32_t b = 0; b < in.rows; b++) {
        const float *x = view_row(in, b), *saved_b = view_row(saved, b);
        uint32_t target = label_class(*view_row(label, b), in.cols);
        double scale = (double)loss_scale(c, n, b);
        for (uint32_t j = 0; j < in.cols; j++) {
            double probability =
                fmath_exp((double)x[j] - (double)saved_b[LOSS_SAVED_GREATEST]) / (double)saved_b[LOSS_SAVED_SUM];
            grad_put(&view_row(din, b)[j], (float)(scale * (probability - (j == target))), adds);
        }
    }
}
