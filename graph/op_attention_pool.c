/* Weighted sum of the vectors of a field's keys: scores [B,T], h [B,T*D], and the
 * field, whose ids_max is T -> [B,D]:
 *
 *   out = sum over t < n of w_t h_t       n: how many keys the example has in the field
 *
 *   none      w_t = score_t           Zhou et al., KDD 2018, eq. (3), which leaves the softmax out
 *   softmax   w_t = exp(score_t) / sum over u < n of exp(score_u); saved
 *
 * Scores and vectors behind the last key are not read, and their gradient is zero. An
 * example without keys gives zeros.
 *
 * Backward: dh_t = w_t dout, and with dw_t = dout . h_t
 *   none      dscore_t = dw_t
 *   softmax   dscore_t = w_t (dw_t - dout . out), because sum_u w_u dw_u = dout . out
 * Sums run over t, and over d, in order. */
#include "engine/base/fmath.h"
#include "graph/op_rules.h"

#include <string.h>

static const char *const normalise_names[] = {"none", "softmax", NULL};
struct attention_pool_keys {
    uint32_t normalise;
};
static const struct cfg_key attention_pool_keys[] = {
    {.name = "normalise",
     .type = CFG_CHOICE,
     .fallback = "none",
     .unit = "",
     .meaning = "what makes weights of the scores; softmax is over the keys that an example has",
     .offset = offsetof(struct attention_pool_keys, normalise),
     .choices = normalise_names},
};
const struct op_keys op_attention_pool_keys = OP_KEYS(attention_pool_keys, struct attention_pool_keys);

static struct attention_pool_attr attr_of(const uint8_t *bytes)
{
    struct attention_pool_attr attr;
    memcpy(&attr, bytes, sizeof attr);
    return attr;
}

status op_attention_pool_parse(const struct op_parse *p)
{
    const struct attention_pool_keys *keys = p->keys;
    struct attention_pool_attr attr = {.is_softmax = keys->normalise};
    memcpy(p->attr, &attr, sizeof attr);
    return ST_OK;
}

void op_attention_pool_words(const uint8_t *attr, char *text, size_t bytes)
{
    snprintf(text, bytes, "%s", attr_of(attr).is_softmax ? ", softmax" : "");
}

status op_attention_pool_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count)
{
    (void)tables, (void)table_count;
    struct attention_pool_attr attr = attr_of(s->attr);
    if (s->input_count != 3 || s->input_cols[0] == 0 || s->input_cols[1] == 0 || s->input_cols[2] != 0)
        FAIL(INVALID, "expected scores, vectors, and the sparse field whose keys they are of, found %u inputs",
             s->input_count);
    if (attr.is_softmax > 1) FAIL(INVALID, "expected a flag of 0 or 1, found %u", attr.is_softmax);
    uint32_t T = s->input_cols[0], cols = s->input_cols[1];
    if (T != s->input_keys[2])
        FAIL(INVALID, "expected a score for each of the field's ids_max = %u keys, found %u", s->input_keys[2], T);
    if (cols % T != 0)
        FAIL(INVALID, "expected a second input of %u vectors, as many as scores, found %u columns", T, cols);
    s->output_cols = cols / T;
    s->flops_forward = 2 * (uint64_t)cols;
    s->flops_backward = 3 * (uint64_t)cols;
    if (!attr.is_softmax) return ST_OK;
    s->saved[0].name = "weights";
    s->saved[0].cols = T;
    s->saved[0].type = TENSOR_F32;
    s->saved_count = 1;
    s->flops_forward += 4 * (uint64_t)T;
    s->flops_backward += 2 * (uint64_t)T + 2 * (uint64_t)s->output_cols;
    return ST_OK;
}

void op_attention_pool_forward(const struct op_context *c, const struct graph_node *n)
{
    struct attention_pool_attr attr = attr_of(n->attr);
    struct view scores = op_in(c, n, 0), h = op_in(c, n, 1), out = op_out(c, n);
    for (uint32_t b = 0; b < out.rows; b++) {
        uint32_t count = attention_key_count(c, n, b);
        const float *weight_b = view_row(scores, b);
        if (attr.is_softmax) {
            float *saved_b = view_row(op_saved(c, n, 0), b), most = count > 0 ? weight_b[0] : 0;
            double sum = 0;
            for (uint32_t t = 1; t < count; t++) most = weight_b[t] > most ? weight_b[t] : most;
            for (uint32_t t = 0; t < count; t++) sum += fmath_exp((double)weight_b[t] - (double)most);
            for (uint32_t t = 0; t < scores.cols; t++)
                saved_b[t] = t < count ? (float)(fmath_exp((double)weight_b[t] - (double)most) / sum) : 0;
            weight_b = saved_b;
        }
        for (uint32_t d = 0; d < out.cols; d++) {
            float sum = 0;
            for (uint32_t t = 0; t < count; t++) sum += weight_b[t] * view_row(h, b)[(size_t)t * out.cols + d];
            view_row(out, b)[d] = sum;
        }
    }
}

static float dot(const float *left, const float *right, uint32_t count)
{
    float sum = 0;
    for (uint32_t i = 0; i < count; i++) sum += left[i] * right[i];
    return sum;
}

void op_attention_pool_backward(const struct op_context *c, const struct graph_node *n)
{
    struct attention_pool_attr attr = attr_of(n->attr);
    struct view scores = op_in(c, n, 0), h = op_in(c, n, 1), out = op_out(c, n), dout = op_dout(c, n);
    struct view dscores = op_din(c, n, 0), dh = op_din(c, n, 1);
    struct view weights = attr.is_softmax ? op_saved(c, n, 0) : scores;
    uint32_t D = out.cols;
    for (uint32_t b = 0; b < dout.rows; b++) {
        uint32_t count = attention_key_count(c, n, b);
        const float *weight_b = view_row(weights, b), *h_b = view_row(h, b), *dout_b = view_row(dout, b);
        float inner = attr.is_softmax ? dot(dout_b, view_row(out, b), D) : 0;
        for (uint32_t t = 0; t < scores.cols && dscores.data != NULL; t++) {
            float dw = t < count ? dot(dout_b, h_b + (size_t)t * D, D) : 0;
            if (attr.is_softmax) dw = weight_b[t] * (dw - inner);
            grad_put(&view_row(dscores, b)[t], dw, op_din_adds(c, n, 0));
        }
        for (uint32_t i = 0; i < h.cols && dh.data != NULL; i++)
            grad_put(&view_row(dh, b)[i], i / D < count ? weight_b[i / D] * dout_b[i % D] : 0, op_din_adds(c, n, 1));
    }
}
