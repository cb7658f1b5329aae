/* Normalised discounted cumulative gain at k of one target: 1 / log2(2 + rank) if its rank, the number
 * of scores above its own plus half the number of scores equal to it, is below k, else 0 (Jarvelin,
 * Kekalainen, "Cumulated gain-based evaluation of IR techniques", TOIS 2002, where the ideal order has
 * a gain of 1). Inputs: metric.c. */
#include "engine/base/fmath.h"
#include "graph/op_rules.h"

static const struct cfg_key ndcg_keys[] = {METRIC_K_KEY};
const struct op_keys op_ndcg_keys = OP_KEYS(ndcg_keys, struct metric_keys);

static float value(const struct metric_attr *attr, uint32_t above, uint32_t equal)
{
    double rank = (double)above + 0.5 * (double)equal;
    return rank < (double)attr->k ? (float)(0.6931471805599453 / fmath_log(2 + rank)) : 0;
}

status op_ndcg_parse(const struct op_parse *p) { return metric_parse(p); }

status op_ndcg_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count)
{
    (void)tables, (void)table_count;
    return metric_shape(s, 2);
}

void op_ndcg_forward(const struct op_context *c, const struct graph_node *n) { metric_forward(c, n, value); }

/* A metric has no gradient; no graph has its backward node. */
void op_ndcg_backward(const struct op_context *c, const struct graph_node *n) { (void)c, (void)n; }
