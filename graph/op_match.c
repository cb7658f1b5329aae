/* Similarity of one vector with each of n others: q [B,D], c [B,n*D'] -> out [B,n], out_j = scale * s_j +
 * bias_j.
 *
 *   dot      s_j = q . c_j                                        D' = D, or D + 1 with a bias: the last number of each
 *   cosine   s_j = q . c_j * u * v_j                              D' = D
 *            u = 1 / sqrt(|q|^2 + eps)    v_j = 1 / sqrt(|c_j|^2 + eps)
 *
 * Backward, with g_j = scale * dout_j:
 *
 *   dot      dq = sum_j g_j c_j                                   dc_j = g_j q            dbias_j = dout_j
 *   cosine   dq = u sum_j g_j v_j c_j - u^2 sum_j g_j s_j q       dc_j = g_j v_j (u q - s_j v_j c_j)
 *
 * Cosine saves the inverse norms u, v_0, v_1, … and the similarities. Sums run over d, and over j, in
 * order. */
#include "graph/op_rules.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char *const similarity_names[] = {"dot", "cosine", NULL};
struct match_keys {
    uint32_t similarity;
    bool bias;
    float scale, eps;
};
static const struct cfg_key match_keys[] = {
    {.name = "similarity",
     .type = CFG_CHOICE,
     .fallback = "dot",
     .unit = "",
     .meaning = "of the first input with each of the vectors that the second one holds, one after another",
     .offset = offsetof(struct match_keys, similarity),
     .choices = similarity_names},
    {.name = "bias",
     .type = CFG_BOOL,
     .fallback = "no",
     .unit = "",
     .meaning = "of dot: whether each vector has one number more than the first input, its last, "
                "which is added to its similarity",
     .offset = offsetof(struct match_keys, bias)},
    {.name = "scale",
     .type = CFG_F32,
     .fallback = "1",
     .min = MATCH_SCALE_MIN,
     .max = MATCH_SCALE_MAX,
     .unit = "",
     .meaning = "factor of the similarity: one over the temperature",
     .offset = offsetof(struct match_keys, scale)},
    {.name = "eps",
     .type = CFG_F32,
     .fallback = "1e-12",
     .min = MATCH_EPS_MIN,
     .max = MATCH_EPS_MAX,
     .unit = "",
     .meaning = "of cosine: added to the squares of both norms",
     .offset = offsetof(struct match_keys, eps)},
};
const struct op_keys op_match_keys = OP_KEYS(match_keys, struct match_keys);

static struct match_attr attr_of(const uint8_t *bytes)
{
    struct match_attr attr;
    memcpy(&attr, bytes, sizeof attr);
    return attr;
}

status op_match_parse(const struct op_parse *p)
{
    const struct match_keys *keys = p->keys;
    struct match_attr attr = {
        .similarity = keys->similarity, .has_bias = keys->bias, .scale = keys->scale, .eps = keys->eps};
    if (attr.has_bias && attr.similarity != MATCH_DOT)
        return ini_fail(p->ini, p->section, ini_entry_find(p->section, "bias"),
                        "expected bias = no with similarity = %s, found yes", similarity_names[attr.similarity]);
    memcpy(p->attr, &attr, sizeof attr);
    return ST_OK;
}

void op_match_words(const uint8_t *bytes_of_attr, char *text, size_t bytes)
{
    const struct match_attr attr = attr_of(bytes_of_attr);
    snprintf(text, bytes, ", %s%s, scale %g", attr.similarity == MATCH_COSINE ? "cosine" : "dot",
             attr.has_bias ? " + bias" : "", (double)attr.scale);
}

status match_attr_check(const struct match_attr *attr)
{
    if (attr->similarity > MATCH_COSINE || attr->has_bias > (attr->similarity == MATCH_DOT))
        FAIL(INVALID, "expected a similarity below %d, and a bias of dot only, found %u and %u", MATCH_COSINE + 1,
             attr->similarity, attr->has_bias);
    if (!(attr->scale >= (float)MATCH_SCALE_MIN && attr->scale <= (float)MATCH_SCALE_MAX))
        FAIL(INVALID, "expected a scale of %g to %g, found %g", MATCH_SCALE_MIN, MATCH_SCALE_MAX, (double)attr->scale);
    if (!(attr->eps >= (float)MATCH_EPS_MIN && attr->eps <= (float)MATCH_EPS_MAX))
        FAIL(INVALID, "expected an eps of %g to %g, found %g", MATCH_EPS_MIN, (double)MATCH_EPS_MAX, (double)attr->eps);
    return ST_OK;
}

status op_match_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count)
{
    (void)tables, (void)table_count;
    struct match_attr attr = attr_of(s->attr);
    if (s->input_count != 2 || s->input_cols[0] == 0 || s->input_cols[1] == 0)
        FAIL(INVALID, "expected two inputs that are not sparse fields, found %u inputs", s->input_count);
    TRY(match_attr_check(&attr));
    uint32_t D = s->input_cols[0], vector = D + attr.has_bias, cols = s->input_cols[1];
    if (cols % vector != 0)
        FAIL(INVALID, "expected a second input of vectors of %u columns, %s the first input, found %u columns", vector,
             attr.has_bias ? "one more than" : "as many as", cols);
    uint32_t vector_count = s->output_cols = cols / vector;
    uint64_t products = (uint64_t)vector_count * D;
    s->flops_forward = 2 * products + vector_count * (1 + (uint64_t)attr.has_bias);
    s->flops_backward = 4 * products + vector_count;
    if (attr.similarity != MATCH_COSINE) return ST_OK;
    if (vector_count == OP_COLS_MAX) FAIL(INVALID, "expected fewer than %u vectors, found as many", OP_COLS_MAX);
    s->saved[0].name = "inverse_norms";
    s->saved[0].cols = vector_count + 1;
    s->saved[0].type = TENSOR_F32;
    s->saved[1].name = "similarity";
    s->saved[1].cols = vector_count;
    s->saved[1].type = TENSOR_F32;
    s->saved_count = 2;
    /* The norms, and their part in each gradient. */
    s->flops_forward += 2 * (products + D) + 3 * ((uint64_t)vector_count + 1);
    s->flops_backward += 2 * products + 3 * (uint64_t)D + 5 * (uint64_t)vector_count;
    return ST_OK;
}

static float dot(const float *left, const float *right, uint32_t count)
{
    float sum = 0;
    for (uint32_t i = 0; i < count; i++) sum += left[i] * right[i];
    return sum;
}

void op_match_forward(const struct op_context *c, const struct graph_node *n)
{
    struct match_attr attr = attr_of(n->attr);
    struct view q = op_in(c, n, 0), vectors = op_in(c, n, 1), out = op_out(c, n);
    uint32_t D = q.cols, vector = D + attr.has_bias;
    for (uint32_t b = 0; b < out.rows; b++) {
        const float *q_b = view_row(q, b);
        float *out_b = view_row(out, b), *norm_b = NULL, *similarity_b = out_b;
        if (attr.similarity == MATCH_COSINE) {
            norm_b = view_row(op_saved(c, n, 0), b);
            similarity_b = view_row(op_saved(c, n, 1), b);
            norm_b[0] = 1 / sqrtf(dot(q_b, q_b, D) + attr.eps);
        }
        for (uint32_t j = 0; j < out.cols; j++) {
            const float *c_bj = view_row(vectors, b) + (size_t)j * vector;
            float similarity = dot(q_b, c_bj, D);
            if (norm_b != NULL) {
                norm_b[1 + j] = 1 / sqrtf(dot(c_bj, c_bj, D) + attr.eps);
                similarity = similarity * norm_b[0] * norm_b[1 + j];
            }
            similarity_b[j] = similarity;
            out_b[j] = attr.has_bias ? attr.scale * similarity + c_bj[D] : attr.scale * similarity;
        }
    }
}

/* dq of an example: sum over j of factor_j c_j, less the part of cosine along q. */
static void dq_make(const struct match_attr *attr, struct view q, struct view vectors, struct view dout,
                    const float *norm_b, const float *similarity_b, uint32_t b, float *dq_b, bool adds)
{
    uint32_t vector = q.cols + attr->has_bias;
    for (uint32_t d = 0; d < q.cols; d++) {
        float sum = 0, along = 0;
        for (uint32_t j = 0; j < dout.cols; j++) {
            float g = attr->scale * view_row(dout, b)[j];
            sum += (norm_b ? g * norm_b[1 + j] : g) * view_row(vectors, b)[(size_t)j * vector + d];
            if (norm_b) along += g * similarity_b[j];
        }
        if (norm_b) sum = norm_b[0] * sum - norm_b[0] * norm_b[0] * along * view_row(q, b)[d];
        grad_put(&dq_b[d], sum, adds);
    }
}

static void dc_make(const struct match_attr *attr, struct view q, struct view vectors, struct view dout,
                    const float *norm_b, const float *similarity_b, uint32_t b, float *dc_b, bool adds)
{
    uint32_t D = q.cols, vector = D + attr->has_bias;
    for (uint32_t j = 0; j < dout.cols; j++) {
        float dout_bj = view_row(dout, b)[j], g = attr->scale * dout_bj;
        float along_q = norm_b ? g * norm_b[1 + j] * norm_b[0] : g;
        float along_c = norm_b ? g * norm_b[1 + j] * (similarity_b[j] * norm_b[1 + j]) : 0;
        for (uint32_t d = 0; d < D; d++) {
            size_t at = (size_t)j * vector + d;
            float value = along_q * view_row(q, b)[d];
            if (norm_b) value -= along_c * view_row(vectors, b)[at];
            grad_put(&dc_b[at], value, adds);
        }
        if (attr->has_bias) grad_put(&dc_b[(size_t)j * vector + D], dout_bj, adds);
    }
}

void op_match_backward(const struct op_context *c, const struct graph_node *n)
{
    struct match_attr attr = attr_of(n->attr);
    struct view q = op_in(c, n, 0), vectors = op_in(c, n, 1), dout = op_dout(c, n);
    struct view dq = op_din(c, n, 0), dc = op_din(c, n, 1);
    for (uint32_t b = 0; b < dout.rows; b++) {
        const float *norm_b = NULL, *similarity_b = NULL;
        if (attr.similarity == MATCH_COSINE) {
            norm_b = view_row(op_saved(c, n, 0), b);
            similarity_b = view_row(op_saved(c, n, 1), b);
        }
        if (dq.data != NULL)
            dq_make(&attr, q, vectors, dout, norm_b, similarity_b, b, view_row(dq, b), op_din_adds(c, n, 0));
        if (dc.data != NULL)
            dc_make(&attr, q, vectors, dout, norm_b, similarity_b, b, view_row(dc, b), op_din_adds(c, n, 1));
    }
}
