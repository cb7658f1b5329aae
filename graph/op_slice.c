/* The columns [begin, end) of the input. Backward: the other columns get a gradient of zero. */
#include "graph/op_rules.h"

#include <string.h>

struct slice_keys {
    uint32_t begin, end;
};
static const struct cfg_key slice_keys[] = {
    {.name = "begin",
     .type = CFG_U32,
     .fallback = "0",
     .max = OP_COLS_MAX - 1,
     .unit = "",
     .meaning = "first column that is taken, counted from 0",
     .offset = offsetof(struct slice_keys, begin)},
    {.name = "end",
     .type = CFG_U32,
     .fallback = "0",
     .max = OP_COLS_MAX,
     .unit = "",
     .meaning = "first column after the columns that are taken; 0: all from begin on",
     .offset = offsetof(struct slice_keys, end)},
};
const struct op_keys op_slice_keys = OP_KEYS(slice_keys, struct slice_keys);

static struct slice_attr attr_of(const uint8_t *bytes)
{
    struct slice_attr attr;
    memcpy(&attr, bytes, sizeof attr);
    return attr;
}

status op_slice_parse(const struct op_parse *p)
{
    const struct slice_keys *keys = p->keys;
    struct slice_attr attr = {.begin = keys->begin, .end = keys->end};
    memcpy(p->attr, &attr, sizeof attr);
    return ST_OK;
}

status op_slice_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count)
{
    (void)tables, (void)table_count;
    struct slice_attr attr = attr_of(s->attr);
    TRY(elementwise_shape(s, 0));
    uint32_t end = slice_end(attr, s->output_cols);
    if (end > s->output_cols || attr.begin >= end)
        FAIL(INVALID, "expected begin < end <= %u, the input's columns, found %u and %u%s", s->output_cols, attr.begin,
             end, attr.end == 0 ? " (end = 0: the last)" : "");
    s->output_cols = end - attr.begin;
    return ST_OK;
}

void op_slice_forward(const struct op_context *c, const struct graph_node *n)
{
    struct view in = op_in(c, n, 0), out = op_out(c, n);
    uint32_t begin = attr_of(n->attr).begin;
    for (uint32_t b = 0; b < out.rows; b++)
        for (uint32_t i = 0; i < out.cols; i++) view_row(out, b)[i] = view_row(in, b)[begin + i];
}

void op_slice_backward(const struct op_context *c, const struct graph_node *n)
{
    struct view din = op_din(c, n, 0), dout = op_dout(c, n);
    uint32_t begin = attr_of(n->attr).begin;
    bool adds = op_din_adds(c, n, 0);
    for (uint32_t b = 0; b < dout.rows && din.data != NULL; b++) {
        float *din_b = view_row(din, b);
        for (uint32_t i = 0; i < din.cols && !adds; i++) din_b[i] = 0;
        for (uint32_t i = 0; i < dout.cols; i++) grad_put(&din_b[begin + i], view_row(dout, b)[i], adds);
    }
}
