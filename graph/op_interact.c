/* Dot products of all pairs of S vectors, of which each input holds one or more side by side: e [B,S*D] ->
 * out [B,S(S-1)/2], the pairs i > j row by row: (1,0), (2,0), (2,1), (3,0), …; with `self`, [B,S(S+1)/2], row
 * i ends with (i,i). The interaction of DLRM: Naumov et al., arXiv 1906.00091, section 2.1.3.
 *
 * Backward: de_i = sum over j of g_ij e_j, g_ij = g_ji being dout of the pair; g_ii is twice dout of (i,i),
 * or 0. Sums run over d, and over j, in order. */
#include "graph/op_rules.h"

#include <inttypes.h>
#include <string.h>

struct interact_keys {
    uint32_t dim;
    bool self;
};
static const struct cfg_key interact_keys[] = {
    {.name = "dim",
     .type = CFG_U32,
     .min = 1,
     .max = OP_COLS_MAX,
     .unit = "",
     .meaning = "length of each of the vectors that the inputs are cut into",
     .offset = offsetof(struct interact_keys, dim)},
    {.name = "self",
     .type = CFG_BOOL,
     .fallback = "no",
     .unit = "",
     .meaning = "whether each vector's product with itself is an output, too",
     .offset = offsetof(struct interact_keys, self)},
};
const struct op_keys op_interact_keys = OP_KEYS(interact_keys, struct interact_keys);

static struct interact_attr attr_of(const uint8_t *bytes)
{
    struct interact_attr attr;
    memcpy(&attr, bytes, sizeof attr);
    return attr;
}

status op_interact_parse(const struct op_parse *p)
{
    const struct interact_keys *keys = p->keys;
    struct interact_attr attr = {.dim = keys->dim, .has_self = keys->self};
    memcpy(p->attr, &attr, sizeof attr);
    return ST_OK;
}

void op_interact_words(const uint8_t *attr, char *text, size_t bytes)
{
    snprintf(text, bytes, ", dim %u%s", attr_of(attr).dim, attr_of(attr).has_self ? " + self" : "");
}

status op_interact_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count)
{
    (void)tables, (void)table_count;
    struct interact_attr attr = attr_of(s->attr);
    if (attr.dim == 0 || attr.dim > OP_COLS_MAX || attr.has_self > 1)
        FAIL(INVALID, "expected a dim of 1 to %u and a flag of 0 or 1, found %u and %u", OP_COLS_MAX, attr.dim,
             attr.has_self);
    uint64_t S = 0; /* at most 2^24 inputs of 2^24 columns */
    for (uint32_t i = 0; i < s->input_count; i++) {
        if (s->input_cols[i] == 0) FAIL(INVALID, "expected inputs that are not sparse fields; input %u is one", i + 1);
        if (s->input_cols[i] % attr.dim != 0)
            FAIL(INVALID, "expected inputs of vectors of dim = %u columns, found input %u of %u columns", attr.dim,
                 i + 1, s->input_cols[i]);
        S += s->input_cols[i] / attr.dim;
    }
    if (S + attr.has_self < 2 || S * attr.dim > OP_COLS_MAX || S > OP_COLS_MAX)
        FAIL(INVALID, "expected %s vectors of %u columns, at most %u columns in all, found %" PRIu64 " vectors",
             attr.has_self ? "one or more" : "two or more", attr.dim, OP_COLS_MAX, S);
    uint64_t pairs = S * (S - 1) / 2 + (attr.has_self ? S : 0);
    if (pairs > OP_COLS_MAX)
        FAIL(INVALID, "expected at most %u pairs, found %" PRIu64 " of %" PRIu64 " vectors", OP_COLS_MAX, pairs, S);
    s->output_cols = (uint32_t)pairs;
    s->flops_forward = 2 * pairs * attr.dim;
    s->flops_backward = 4 * pairs * attr.dim;
    return ST_OK;
}

/* Where vector i lies in its input, or in the input's gradient. */
struct interact_place {
    uint32_t input, col;
};
static struct interact_place place_of(const struct op_context *c, const struct graph_node *n, uint32_t dim, uint32_t i)
{
    struct interact_place place = {0, i * dim}; /* below OP_COLS_MAX */
    while (place.col >= op_in(c, n, place.input).cols) place.col -= op_in(c, n, place.input++).cols;
    return place;
}

static uint32_t vector_count(const struct op_context *c, const struct graph_node *n, uint32_t dim)
{
    uint32_t cols = 0;
    for (uint32_t k = 0; k < n->input_count; k++) cols += op_in(c, n, k).cols;
    return cols / dim;
}

static const float *vector_of(const struct op_context *c, const struct graph_node *n, uint32_t dim, uint32_t b,
                              uint32_t i)
{
    struct interact_place place = place_of(c, n, dim, i);
    return view_row(op_in(c, n, place.input), b) + place.col;
}

void op_interact_forward(const struct op_context *c, const struct graph_node *n)
{
    struct interact_attr attr = attr_of(n->attr);
    struct view out = op_out(c, n);
    uint32_t S = vector_count(c, n, attr.dim);
    for (uint32_t b = 0; b < out.rows; b++) {
        float *out_b = view_row(out, b);
        for (uint32_t i = 0; i < S; i++) {
            const float *e_i = vector_of(c, n, attr.dim, b, i);
            for (uint32_t j = 0; j < i + attr.has_self; j++) {
                const float *e_j = vector_of(c, n, attr.dim, b, j);
                float sum = 0;
                for (uint32_t d = 0; d < attr.dim; d++) sum += e_i[d] * e_j[d];
                *out_b++ = sum;
            }
        }
    }
}

void op_interact_backward(const struct op_context *c, const struct graph_node *n)
{
    struct interact_attr attr = attr_of(n->attr);
    struct view dout = op_dout(c, n);
    uint32_t S = vector_count(c, n, attr.dim);
    for (uint32_t b = 0; b < dout.rows; b++) {
        const float *dout_b = view_row(dout, b);
        for (uint32_t i = 0; i < S; i++) {
            struct interact_place place = place_of(c, n, attr.dim, i);
            struct view de = op_din(c, n, place.input);
            bool adds = op_din_adds(c, n, place.input);
            for (uint32_t d = 0; d < attr.dim && de.data != NULL; d++) {
                float sum = 0;
                for (uint32_t j = 0; j < S; j++) {
                    if (i == j && !attr.has_self) continue;
                    float g = dout_b[interact_pair(attr, i > j ? i : j, i > j ? j : i)];
                    sum += (i == j ? 2 * g : g) * vector_of(c, n, attr.dim, b, j)[d];
                }
                grad_put(&view_row(de, b)[place.col + d], sum, adds);
            }
        }
    }
}
