/* Reads an example's columns as a matrix of `rows` equal rows, one after another, and writes it transposed:
 * element (r, k) goes from column r width + k to column k rows + r, width being cols / rows. The only shape
 * of a tensor is its number of columns, so without transposing the op is the identity under another name. */
#include "graph/op_rules.h"

#include <string.h>

struct reshape_keys {
    uint32_t rows;
    bool transpose;
};
static const struct cfg_key reshape_keys[] = {
    {.name = "rows",
     .type = CFG_U32,
     .min = 1,
     .max = OP_COLS_MAX,
     .unit = "",
     .meaning = "an example's columns are read as this many rows, one after another",
     .offset = offsetof(struct reshape_keys, rows)},
    {.name = "transpose",
     .type = CFG_BOOL,
     .fallback = "no",
     .unit = "",
     .meaning = "whether the rows are written as columns; no: the output is the input, under another name",
     .offset = offsetof(struct reshape_keys, transpose)},
};
const struct op_keys op_reshape_keys = OP_KEYS(reshape_keys, struct reshape_keys);

static struct reshape_attr attr_of(const uint8_t *bytes)
{
    struct reshape_attr attr;
    memcpy(&attr, bytes, sizeof attr);
    return attr;
}

status op_reshape_parse(const struct op_parse *p)
{
    const struct reshape_keys *keys = p->keys;
    struct reshape_attr attr = {.rows = keys->rows, .is_transposed = keys->transpose};
    memcpy(p->attr, &attr, sizeof attr);
    return ST_OK;
}

status op_reshape_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count)
{
    (void)tables, (void)table_count;
    struct reshape_attr attr = attr_of(s->attr);
    TRY(elementwise_shape(s, 0));
    if (attr.is_transposed > 1) FAIL(INVALID, "expected transpose to be 0 or 1, found %u", attr.is_transposed);
    if (attr.rows == 0 || s->output_cols % attr.rows != 0)
        FAIL(INVALID, "expected rows that divide the input's %u columns, found %u", s->output_cols, attr.rows);
    return ST_OK;
}

/* to[k rows + r] (+)= from[r width + k], both [width * rows]. */
static void row_transpose(float *to, const float *from, uint32_t rows, uint32_t width, bool adds)
{
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t k = 0; k < width; k++) grad_put(&to[k * rows + r], from[r * width + k], adds);
}

void op_reshape_forward(const struct op_context *c, const struct graph_node *n)
{
    struct view in = op_in(c, n, 0), out = op_out(c, n);
    struct reshape_attr attr = attr_of(n->attr);
    uint32_t rows = attr.is_transposed ? attr.rows : 1;
    for (uint32_t b = 0; b < out.rows; b++)
        row_transpose(view_row(out, b), view_row(in, b), rows, out.cols / rows, false);
}

void op_reshape_backward(const struct op_context *c, const struct graph_node *n)
{
    struct view din = op_din(c, n, 0), dout = op_dout(c, n);
    struct reshape_attr attr = attr_of(n->attr);
    uint32_t width = attr.is_transposed ? dout.cols / attr.rows : 1;
    for (uint32_t b = 0; b < dout.rows && din.data != NULL; b++)
        row_transpose(view_row(din, b), view_row(dout, b), width, dout.cols / width, op_din_adds(c, n, 0));
}
