/* Whether the target is among the k greatest scores. Its rank is the number of scores above its own plus half
 * the number of scores equal to it; the target counts if its rank is below k. Inputs: metric.c. */
#include "graph/op_rules.h"

static const struct cfg_key hit_rate_keys[] = {METRIC_K_KEY};
const struct op_keys op_hit_rate_keys = OP_KEYS(hit_rate_keys, struct metric_keys);

static float value(const struct metric_attr *attr, uint32_t above, uint32_t equal)
{
    return (float)above + 0.5f * (float)equal < (float)attr->k;
}

status op_hit_rate_parse(const struct op_parse *p) { return metric_parse(p); }

status op_hit_rate_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count)
{
    (void)tables, (void)table_count;
    return metric_shape(s, 2);
}

void op_hit_rate_forward(const struct op_context *c, const struct graph_node *n) { metric_forward(c, n, value); }

/* A metric has no gradient; no graph has its backward node. */
void op_hit_rate_backward(const struct op_context *c, const struct graph_node *n) { (void)c, (void)n; }
