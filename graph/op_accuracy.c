/* Whether the target has the greatest score. Several greatest scores share the point, so a model that gives
 * all the same score has the accuracy of chance. Inputs: metric.c. */
#include "graph/op_rules.h"

const struct op_keys op_accuracy_keys = {NULL, 0, 0};

static float value(const struct metric_attr *attr, uint32_t above, uint32_t equal)
{
    (void)attr;
    return above == 0 ? 1.0f / (1.0f + (float)equal) : 0;
}

status op_accuracy_parse(const struct op_parse *p) { return metric_parse(p); }

status op_accuracy_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count)
{
    (void)tables, (void)table_count;
    return metric_shape(s, 1);
}

void op_accuracy_forward(const struct op_context *c, const struct graph_node *n) { metric_forward(c, n, value); }

/* A metric has no gradient; no graph has its backward node. */
void op_accuracy_backward(const struct op_context *c, const struct graph_node *n) { (void)c, (void)n; }
