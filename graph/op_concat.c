/* Puts its inputs' columns side by side, in the order of the inputs; backward, each input's gradient is its
 * part of dout. With groups G, every input is G parts of equal width, and so is the output: its part g holds
 * part g of all inputs side by side, so that the parts of one place in a list stay together.
 *
 * Without groups, an input whose columns begin a cache line of the output may lie within the output
 * (graph/life.h): the copy then changes nothing. */
#include "graph/op_rules.h"

#include <string.h>

static const struct cfg_key concat_keys[] = {
    {.name = "groups",
     .type = CFG_U32,
     .fallback = "1",
     .min = 1,
     .max = OP_COLS_MAX,
     .unit = "",
     .meaning = "equal parts of each input that are put side by side, part by part",
     .offset = offsetof(struct concat_attr, groups)},
};
const struct op_keys op_concat_keys = OP_KEYS(concat_keys, struct concat_attr);

static uint32_t groups_of(const uint8_t *bytes)
{
    struct concat_attr attr;
    memcpy(&attr, bytes, sizeof attr);
    return attr.groups;
}

status op_concat_parse(const struct op_parse *p)
{
    memcpy(p->attr, p->keys, sizeof(struct concat_attr));
    return ST_OK;
}

status op_concat_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count)
{
    (void)tables, (void)table_count;
    if (s->input_count == 0) FAIL(INVALID, "expected one or more inputs, found none");
    uint32_t groups = groups_of(s->attr);
    if (groups == 0) FAIL(INVALID, "expected one group or more, found none");
    uint64_t cols = 0;
    for (uint32_t i = 0; i < s->input_count; i++) {
        if (s->input_cols[i] == 0) FAIL(INVALID, "expected inputs that are not sparse fields; input %u is one", i + 1);
        if (s->input_cols[i] % groups != 0)
            FAIL(INVALID, "expected %u groups of columns, found %u columns in input %u", groups, s->input_cols[i],
                 i + 1);
        cols += s->input_cols[i];
        if (cols > OP_COLS_MAX) FAIL(INVALID, "expected at most %u columns in all", OP_COLS_MAX);
    }
    s->output_cols = (uint32_t)cols;
    return ST_OK;
}

void op_concat_forward(const struct op_context *c, const struct graph_node *n)
{
    struct view out = op_out(c, n);
    uint32_t groups = groups_of(n->attr), begin = 0;
    for (uint32_t k = 0; k < n->input_count; k++) {
        struct view in = op_in(c, n, k);
        uint32_t part = in.cols / groups;
        for (uint32_t b = 0; b < out.rows; b++)
            for (uint32_t i = 0; i < in.cols; i++)
                view_row(out, b)[i / part * (out.cols / groups) + begin + i % part] = view_row(in, b)[i];
        begin += part;
    }
}

void op_concat_backward(const struct op_context *c, const struct graph_node *n)
{
    struct view dout = op_dout(c, n);
    uint32_t groups = groups_of(n->attr), begin = 0;
    for (uint32_t k = 0; k < n->input_count; k++) {
        struct view din = op_din(c, n, k);
        bool adds = op_din_adds(c, n, k);
        uint32_t part = op_in(c, n, k).cols / groups;
        for (uint32_t b = 0; b < din.rows; b++)
            for (uint32_t i = 0; i < din.cols; i++)
                grad_put(&view_row(din, b)[i], view_row(dout, b)[i / part * (dout.cols / groups) + begin + i % part],
                         adds);
        begin += part;
    }
}
