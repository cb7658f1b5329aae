/* x / (1 + |x|), element by element; the maths is in activation.c. */
#include "graph/op_rules.h"

const struct op_keys op_softsign_keys = {0};

status op_softsign_parse(const struct op_parse *p)
{
    (void)p;
    return ST_OK;
}

status op_softsign_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count)
{
    (void)tables, (void)table_count;
    return elementwise_shape(s, 4);
}

void op_softsign_forward(const struct op_context *c, const struct graph_node *n)
{
    elementwise_forward(c, n, ACT_SOFTSIGN, 0);
}

void op_softsign_backward(const struct op_context *c, const struct graph_node *n)
{
    elementwise_backward(c, n, ACT_SOFTSIGN, 0);
}
