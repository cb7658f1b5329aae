/* Pairwise products of S vectors that lie side by side, e [B,S*D]: the second-order term of a factorization
 * machine whose feature values are already multiplied into e.
 *
 *   reduced      y    = sum over pairs s < t of e_s . e_t   = 1/2 sum_d ( (sum_s e_sd)^2 - sum_s e_sd^2 )    out [B,1]
 *   not reduced  y_d  = sum over pairs s < t of e_sd e_td   = 1/2       ( (sum_s e_sd)^2 - sum_s e_sd^2 )    out [B,D]
 *
 * The first is Rendle, ICDM 2010, the pairwise part of eq. (1) in the linear-time form of
 * Lemma 3.1; the second is the bi-interaction of He and Chua, SIGIR 2017, eq. (3) and (4), of
 * which the first is the sum over d.
 *
 * Backward: de_sd = dy_d (sum_t e_td - e_sd), with dy_d = dy if reduced. Sums run over s, and over d, in
 * order. */
#include "graph/op_rules.h"

#include <string.h>

struct fm_keys {
    uint32_t dim;
    bool reduce;
};
static const struct cfg_key fm_keys[] = {
    {.name = "dim",
     .type = CFG_U32,
     .min = 1,
     .max = OP_COLS_MAX,
     .unit = "",
     .meaning = "length of each of the vectors that the input is cut into",
     .offset = offsetof(struct fm_keys, dim)},
    {.name = "reduce",
     .type = CFG_BOOL,
     .fallback = "yes",
     .unit = "",
     .meaning = "yes: one number, the sum of the products of all pairs; no: dim of them",
     .offset = offsetof(struct fm_keys, reduce)},
};
const struct op_keys op_fm_keys = OP_KEYS(fm_keys, struct fm_keys);

static struct fm_attr attr_of(const uint8_t *bytes)
{
    struct fm_attr attr;
    memcpy(&attr, bytes, sizeof attr);
    return attr;
}

status op_fm_parse(const struct op_parse *p)
{
    const struct fm_keys *keys = p->keys;
    struct fm_attr attr = {.dim = keys->dim, .is_reduced = keys->reduce};
    memcpy(p->attr, &attr, sizeof attr);
    return ST_OK;
}

void op_fm_words(const uint8_t *attr, char *text, size_t bytes)
{
    snprintf(text, bytes, ", dim %u%s", attr_of(attr).dim, attr_of(attr).is_reduced ? "" : ", not reduced");
}

status op_fm_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count)
{
    (void)tables, (void)table_count;
    struct fm_attr attr = attr_of(s->attr);
    if (s->input_count != 1 || s->input_cols[0] == 0) FAIL(INVALID, "expected one input that is not a sparse field");
    uint32_t cols = s->input_cols[0];
    if (attr.dim == 0 || attr.dim > cols || cols % attr.dim != 0)
        FAIL(INVALID, "expected a dim that divides the %u columns, found %u", cols, attr.dim);
    if (cols == attr.dim && s->rules > 8)
        FAIL(INVALID,
             "expected two vectors or more of dim %u, found one, which has no pairs; "
             "of several keys of one field an [embedding] with pool = none keeps them apart",
             attr.dim);
    if (attr.is_reduced > 1) FAIL(INVALID, "expected a flag of 0 or 1, found %u", attr.is_reduced);
    s->output_cols = attr.is_reduced ? 1 : attr.dim;
    s->flops_forward = 3 * (uint64_t)cols + (3 + (uint64_t)attr.is_reduced) * attr.dim;
    s->flops_backward = 3 * (uint64_t)cols;
    return ST_OK;
}

/* sum over s of e_sd. */
static float column_sum(const float *e_b, uint32_t cols, uint32_t dim, uint32_t d)
{
    float sum = 0;
    for (uint32_t i = d; i < cols; i += dim) sum += e_b[i];
    return sum;
}

void op_fm_forward(const struct op_context *c, const struct graph_node *n)
{
    struct fm_attr attr = attr_of(n->attr);
    struct view e = op_in(c, n, 0), out = op_out(c, n);
    for (uint32_t b = 0; b < out.rows; b++) {
        const float *e_b = view_row(e, b);
        float *out_b = view_row(out, b), total = 0;
        for (uint32_t d = 0; d < attr.dim; d++) {
            float sum = column_sum(e_b, e.cols, attr.dim, d), squares = 0;
            for (uint32_t i = d; i < e.cols; i += attr.dim) squares += e_b[i] * e_b[i];
            float pairs = 0.5f * (sum * sum - squares);
            if (attr.is_reduced)
                total += pairs;
            else
                out_b[d] = pairs;
        }
        if (attr.is_reduced) out_b[0] = total;
    }
}

void op_fm_backward(const struct op_context *c, const struct graph_node *n)
{
    struct fm_attr attr = attr_of(n->attr);
    struct view e = op_in(c, n, 0), dout = op_dout(c, n), de = op_din(c, n, 0);
    if (de.data == NULL) return;
    bool adds = op_din_adds(c, n, 0);
    for (uint32_t b = 0; b < e.rows; b++) {
        const float *e_b = view_row(e, b), *dout_b = view_row(dout, b);
        for (uint32_t d = 0; d < attr.dim; d++) {
            float sum = column_sum(e_b, e.cols, attr.dim, d), dy = dout_b[attr.is_reduced ? 0 : d];
            for (uint32_t i = d; i < e.cols; i += attr.dim) grad_put(&view_row(de, b)[i], dy * (sum - e_b[i]), adds);
        }
    }
}
