/* x where x >= 0, else slope x (Maas, Hannun, Ng, ICML 2013, section 3, with slope 0.01); the maths is in
 * activation.c. */
#include "graph/op_rules.h"

#include <string.h>

struct leaky_relu_keys {
    float slope;
};
static const struct cfg_key leaky_relu_keys[] = {
    {.name = "slope",
     .type = CFG_F32,
     .fallback = "0.01",
     .max = 1,
     .unit = "",
     .meaning = "factor of negative inputs",
     .offset = offsetof(struct leaky_relu_keys, slope)},
};
const struct op_keys op_leaky_relu_keys = OP_KEYS(leaky_relu_keys, struct leaky_relu_keys);

status op_leaky_relu_parse(const struct op_parse *p)
{
    const struct leaky_relu_keys *keys = p->keys;
    struct leaky_relu_attr attr = {.slope = keys->slope};
    memcpy(p->attr, &attr, sizeof attr);
    return ST_OK;
}

static struct leaky_relu_attr attr_of(const uint8_t *bytes)
{
    struct leaky_relu_attr attr;
    memcpy(&attr, bytes, sizeof attr);
    return attr;
}

status op_leaky_relu_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count)
{
    (void)tables, (void)table_count;
    float slope = attr_of(s->attr).slope;
    if (!(slope >= 0 && slope <= 1)) FAIL(INVALID, "expected a slope of 0 to 1, found %g", (double)slope);
    return elementwise_shape(s, 2);
}

void op_leaky_relu_forward(const struct op_context *c, const struct graph_node *n)
{
    elementwise_forward(c, n, ACT_LEAKY_RELU, attr_of(n->attr).slope);
}

void op_leaky_relu_backward(const struct op_context *c, const struct graph_node *n)
{
    elementwise_backward(c, n, ACT_LEAKY_RELU, attr_of(n->attr).slope);
}
