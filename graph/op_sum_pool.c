/* Sums vectors: in [B, G * rows * dim], G groups of `rows` vectors of `dim` numbers; out [B, G * dim], each
 * group's sum over its vectors r = 0, 1, ... Backward: every vector of a group gets the gradient of its
 * sum. It may follow an embedding with pool = none, which gives ids_max vectors a field, zeros if the field
 * has fewer keys: rows = ids_max. */
#include "graph/op_rules.h"

#include <string.h>

struct sum_pool_keys {
    uint32_t dim, rows;
};
static const struct cfg_key sum_pool_keys[] = {
    {.name = "dim",
     .type = CFG_U32,
     .min = 1,
     .max = OP_COLS_MAX,
     .unit = "floats",
     .meaning = "width of a vector",
     .offset = offsetof(struct sum_pool_keys, dim)},
    {.name = "rows",
     .type = CFG_U32,
     .min = 1,
     .max = OP_COLS_MAX,
     .unit = "vectors",
     .meaning = "this many consecutive vectors become their sum; ids_max after an [embedding] with pool = none",
     .offset = offsetof(struct sum_pool_keys, rows)},
};
const struct op_keys op_sum_pool_keys = OP_KEYS(sum_pool_keys, struct sum_pool_keys);

static struct sum_pool_attr attr_of(const uint8_t *bytes)
{
    struct sum_pool_attr attr;
    memcpy(&attr, bytes, sizeof attr);
    return attr;
}

status op_sum_pool_parse(const struct op_parse *p)
{
    const struct sum_pool_keys *keys = p->keys;
    struct sum_pool_attr attr = {.dim = keys->dim, .rows = keys->rows};
    memcpy(p->attr, &attr, sizeof attr);
    return ST_OK;
}

status op_sum_pool_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count)
{
    (void)tables, (void)table_count;
    struct sum_pool_attr attr = attr_of(s->attr);
    uint64_t group = (uint64_t)attr.dim * attr.rows;
    TRY(elementwise_shape(s, 1));
    if (group == 0 || s->output_cols % group != 0)
        FAIL(INVALID, "expected dim times rows to divide the input's %u columns, found %u and %u", s->output_cols,
             attr.dim, attr.rows);
    s->output_cols /= attr.rows;
    return ST_OK;
}

void op_sum_pool_forward(const struct op_context *c, const struct graph_node *n)
{
    struct view in = op_in(c, n, 0), out = op_out(c, n);
    struct sum_pool_attr attr = attr_of(n->attr);
    for (uint32_t b = 0; b < out.rows; b++)
        for (uint32_t i = 0; i < out.cols; i++) {
            const float *vector = view_row(in, b) + i / attr.dim * attr.rows * attr.dim + i % attr.dim;
            float sum = vector[0];
            for (uint32_t r = 1; r < attr.rows; r++) sum += vector[r * attr.dim];
            view_row(out, b)[i] = sum;
        }
}

void op_sum_pool_backward(const struct op_context *c, const struct graph_node *n)
{
    struct view din = op_din(c, n, 0), dout = op_dout(c, n);
    struct sum_pool_attr attr = attr_of(n->attr);
    bool adds = op_din_adds(c, n, 0);
    for (uint32_t b = 0; b < dout.rows && din.data != NULL; b++)
        for (uint32_t i = 0; i < din.cols; i++) {
            uint32_t group = i / (attr.rows * attr.dim);
            grad_put(&view_row(din, b)[i], view_row(dout, b)[group * attr.dim + i % attr.dim], adds);
        }
}
