/* Shared by metrics. A metric ranks one target among an example's scores:
 *
 *   inputs                            the target
 *   scores [B,C], label               the class that the label names; C = 1: the score's sign against a label of 0 or 1
 *   scores [B,1+K] of candidates      column 0; with their log_q as a second input, accidental hits count as absent
 *   scores p [B,1] and q [B,1]        p, against q
 *
 * `above` are the scores greater than the target's, `equal` the other scores equal to it. A
 * NaN counts as above, so a diverged model never looks good. A label that names no class makes
 * the value NaN (op_labels_check). */
#include <math.h>
#include <string.h>

#include "graph/op_rules.h"

status metric_parse(const struct op_parse *p)
{
    const struct metric_keys *keys = p->keys;
    struct metric_attr attr = {.k = keys ? keys->k : 1, .has_label = *p->label != 0};
    memcpy(p->attr, &attr, sizeof attr);
    return ST_OK;
}

static struct metric_attr attr_of(const uint8_t *bytes)
{
    struct metric_attr attr;
    memcpy(&attr, bytes, sizeof attr);
    return attr;
}

status metric_shape(struct op_shape *s, uint32_t cols_min)
{
    struct metric_attr attr = attr_of(s->attr);
    if (attr.k == 0 || attr.has_label > 1)
        FAIL(INVALID, "expected k of 1 or more and a flag, found %u and %u", attr.k, attr.has_label);
    uint32_t cols = s->input_count > 0 ? s->input_cols[0] : 0,
             expected = attr.has_label ? 1 : cols, /* of the second input */
        count_min = attr.has_label || cols == 1 ? 2 : 1;
    if (s->input_count < count_min || s->input_count > 2 || cols == 0)
        FAIL(INVALID, "expected scores%s, found %u inputs",
             attr.has_label ? " and a label"
             : cols == 1    ? " of 2 columns or more, or two inputs, or a label"
                            : " and at most their log_q",
             s->input_count);
    if (cols < cols_min) FAIL(INVALID, "expected scores of %u columns or more, found %u", cols_min, cols);
    if (s->input_count == 2 && s->input_cols[1] != expected)
        FAIL(INVALID, "expected a second input of %u columns, found %u", expected, s->input_cols[1]);
    s->output_cols = 1;
    s->flops_forward = 2 * (uint64_t)cols;
    return ST_OK;
}

void metric_forward(const struct op_context *c, const struct graph_node *n,
                    float (*value)(const struct metric_attr *attr, uint32_t above, uint32_t equal))
{
    struct metric_attr attr = attr_of(n->attr);
    struct view in = op_in(c, n, 0), out = op_out(c, n), second = {0};
    if (n->input_count > 1) second = op_in(c, n, 1);
    for (uint32_t b = 0; b < out.rows; b++) {
        const float *x = view_row(in, b), *also = second.data ? view_row(second, b) : NULL;
        uint32_t above = 0, equal = 0, target = 0;
        if (in.cols == 1) {
            float score = attr.has_label ? *also > 0.5f ? *x : -*x : *x, other = attr.has_label ? 0 : *also;
            above = !(other <= score);
            equal = other == score;
        } else {
            const float *log_q = attr.has_label ? NULL : also;
            if (attr.has_label) target = label_class(*also, in.cols);
            for (uint32_t j = 0; j < in.cols && target != GRAPH_NONE; j++) {
                if (j == target || (log_q && log_q_is_hit(log_q, j))) continue;
                above += !(x[j] <= x[target]);
                equal += x[j] == x[target];
            }
        }
        *view_row(out, b) = target == GRAPH_NONE ? NAN : value(&attr, above, equal);
    }
}
