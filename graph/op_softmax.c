/* Softmax of each of `groups` equal parts of a row, with m the greatest number of the part:
 *
 *   y_i = exp(x_i - m) / sum_j exp(x_j - m)          dx_i = y_i (dy_i - sum_j y_j dy_j)
 *
 * so no exp overflows and the sum is at least 1. Sums run over j = 0, 1, ... A NaN, and an
 * infinite m, make the part NaN. */
#include "engine/base/fmath.h"
#include "engine/base/words.h"
#include "graph/op_rules.h"

#include <string.h>

struct softmax_keys {
    uint32_t groups;
};
static const struct cfg_key softmax_keys[] = {
    {.name = "groups",
     .type = CFG_U32,
     .fallback = "1",
     .min = 1,
     .max = OP_COLS_MAX,
     .unit = "",
     .meaning = "equal parts of an example's columns, each of which becomes numbers that add up to 1",
     .offset = offsetof(struct softmax_keys, groups)},
};
const struct op_keys op_softmax_keys = OP_KEYS(softmax_keys, struct softmax_keys);

static struct softmax_attr attr_of(const uint8_t *bytes)
{
    struct softmax_attr attr;
    memcpy(&attr, bytes, sizeof attr);
    return attr;
}

status op_softmax_parse(const struct op_parse *p)
{
    const struct softmax_keys *keys = p->keys;
    struct softmax_attr attr = {.groups = keys->groups};
    memcpy(p->attr, &attr, sizeof attr);
    return ST_OK;
}

void op_softmax_words(const uint8_t *attr, char *text, size_t bytes)
{
    uint32_t groups = attr_of(attr).groups;
    snprintf(text, bytes, " of %u part%s", groups, words_s(groups));
}

status op_softmax_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count)
{
    (void)tables, (void)table_count;
    uint32_t groups = attr_of(s->attr).groups;
    TRY(elementwise_shape(s, 0));
    if (groups == 0 || s->output_cols % groups != 0)
        FAIL(INVALID, "expected groups that divide the input's %u columns, found %u", s->output_cols, groups);
    s->flops_forward = 12 * (uint64_t)s->output_cols;
    s->flops_backward = 4 * (uint64_t)s->output_cols;
    return ST_OK;
}

void op_softmax_forward(const struct op_context *c, const struct graph_node *n)
{
    struct view in = op_in(c, n, 0), out = op_out(c, n);
    uint32_t groups = attr_of(n->attr).groups, cols = out.cols / groups;
    for (uint32_t b = 0; b < out.rows; b++)
        for (uint32_t g = 0; g < groups; g++) {
            const float *x = view_row(in, b) + g * cols;
            float *y = view_row(out, b) + g * cols, greatest = x[0], sum = 0;
            for (uint32_t i = 1; i < cols; i++) greatest = x[i] > greatest ? x[i] : greatest;
            for (uint32_t i = 0; i < cols; i++) {
                y[i] = (float)fmath_exp((double)(x[i] - greatest));
                sum += y[i];
            }
            for (uint32_t i = 0; i < cols; i++) y[i] /= sum;
        }
}

void op_softmax_backward(const struct op_context *c, const struct graph_node *n)
{
    struct view out = op_out(c, n), dout = op_dout(c, n), din = op_din(c, n, 0);
    uint32_t groups = attr_of(n->attr).groups, cols = out.cols / groups;
    bool adds = op_din_adds(c, n, 0);
    if (din.data == NULL) return;
    for (uint32_t b = 0; b < out.rows; b++)
        for (uint32_t g = 0; g < groups; g++) {
            const float *y = view_row(out, b) + g * cols, *dy = view_row(dout, b) + g * cols;
            float *dx = view_row(din, b) + g * cols, sum = 0;
            for (uint32_t i = 0; i < cols; i++) sum += y[i] * dy[i];
            for (uint32_t i = 0; i < cols; i++) grad_put(&dx[i], y[i] * (dy[i] - sum), adds);
        }
}
