/* Noise-contrastive estimation: is a word the data's, or one of the K drawn? Inputs are logits
 * s_0 of the target and s_1 .. s_K of drawn candidates, and the logarithms of the
 * probabilities q_j with which each is drawn.
 *
 *   z_j = s_j - log Z - log(K q_j)
 *   loss = -log sigmoid(z_0) - sum_j log (1 - sigmoid(z_j))      ds_j = sigmoid(z_j) - [j = 0]
 *
 * Gutmann, Hyvarinen, "Noise-Contrastive Estimation of Unnormalized Statistical Models", JMLR 2012, eq. (8)
 * with nu = K, where the model is exp(s) / Z with one constant Z for all contexts: 1 in Mnih, Teh, ICML 2012,
 * section 3; a greater one begins nearer to the truth (Chen et al., ICASSP 2015, section 4). correction = no
 * leaves out log(K q): z = s, negative sampling (Mikolov et al., NIPS 2013, eq. (4)). A candidate that is the
 * target by accident does not count.
 *
 * The gradient is that of the sum of the examples' losses; this op starts the backward pass, so it reads no
 * dout. */
#include "engine/base/fmath.h"
#include "graph/op_rules.h"

static const struct cfg_key nce_keys[] = {
    LOSS_WEIGHT_KEY,
    {.name = "correction",
     .type = CFG_BOOL,
     .fallback = "yes",
     .unit = "",
     .meaning =
         "whether the logarithm of K times its probability is subtracted from a logit; no: plain negative sampling",
     .offset = offsetof(struct loss_keys, correction)},
    {.name = "log_z",
     .type = CFG_F32,
     .fallback = "0",
     .min = -100,
     .max = 100,
     .unit = "",
     .meaning = "logarithm of the constant that probabilities are taken to be exp(logit) over; "
                "about the logarithm of the number of words, so that logits near 0 are a fair beginning",
     .offset = offsetof(struct loss_keys, log_z)},
};
const struct op_keys op_nce_keys = OP_KEYS(nce_keys, struct loss_keys);

status op_nce_parse(const struct op_parse *p) { return loss_parse(p); }

status op_nce_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count)
{
    (void)tables, (void)table_count;
    TRY(loss_candidates_shape(s));
    s->saved[0].name = "row";
    s->saved[0].cols = 1;
    s->saved_count = 1;
    s->flops_forward = 16 * (uint64_t)s->input_cols[0];
    s->flops_backward = 14 * (uint64_t)s->input_cols[0];
    return ST_OK;
}

static double logit_of(const float *x, const float *log_q, uint32_t j, double log_k, bool corrects)
{
    return corrects ? (double)x[j] - ((double)log_q[j] + log_k) : (double)x[j];
}

void op_nce_forward(const struct op_context *c, const struct graph_node *n)
{
    struct view in = op_in(c, n, 0), log_q = op_in(c, n, 1), out = op_out(c, n), saved = op_saved(c, n, 0);
    bool corrects = loss_attr_of(n->attr).corrects;
    double log_k = fmath_log((double)(in.cols - 1)) + (double)loss_attr_of(n->attr).log_z;
    for (uint32_t b = 0; b < out.rows; b++) {
        const float *x = view_row(in, b), *q = view_row(log_q, b);
        double loss = 0;
        for (uint32_t j = 0; j < in.cols; j++) {
            if (log_q_is_hit(q, j)) continue;
            double z = logit_of(x, q, j, log_k, corrects), against = j == 0 ? -z : z;
            loss += (against > 0 ? against : 0) + fmath_log1p(fmath_exp(z < 0 ? z : -z));
        }
        *view_row(saved, b) = (float)loss;
        *view_row(out, b) = (float)((double)loss_scale(c, n, b) * loss);
    }
}

void op_nce_backward(const struct op_context *c, const struct graph_node *n)
{
    struct view in = op_in(c, n, 0), log_q = op_in(c, n, 1), din = op_din(c, n, 0);
    bool corrects = loss_attr_of(n->attr).corrects, adds = op_din_adds(c, n, 0);
    double log_k = fmath_log((double)(in.cols - 1)) + (double)loss_attr_of(n->attr).log_z;
    if (din.data == NULL) return;
    for (uint32_t b = 0; b < in.rows; b++) {
        const float *x = view_row(in, b), *q = view_row(log_q, b);
        double scale = (double)loss_scale(c, n, b);
        for (uint32_t j = 0; j < in.cols; j++) {
            double slope = fmath_sigmoid(logit_of(x, q, j, log_k, corrects)) - (j == 0);
            grad_put(&view_row(din, b)[j], log_q_is_hit(q, j) ? 0 : (float)(scale * slope), adds);
        }
    }
}
