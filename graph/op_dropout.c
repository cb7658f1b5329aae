/* Dropout with inverted scaling (Srivastava et al., JMLR 2014, section 4): in training an element is kept
 * with probability 1 - rate, and a kept one is divided by 1 - rate, so that the expectation is the input;
 * outside training the op is the identity.
 *
 * Whether an element is kept is a function of (seed, node, step, example of the step, column), so
 * the backward pass draws the mask again instead of reading one, and neither threads nor
 * micro-batches change the mask. */
#include "graph/op_rules.h"

#include <string.h>

struct dropout_keys {
    float rate;
};
static const struct cfg_key dropout_keys[] = {
    {.name = "rate",
     .type = CFG_F32,
     .fallback = "0.5",
     .max = 0.99,
     .unit = "",
     .meaning = "probability that an element is dropped in training",
     .offset = offsetof(struct dropout_keys, rate)},
};
const struct op_keys op_dropout_keys = OP_KEYS(dropout_keys, struct dropout_keys);

static struct dropout_attr attr_of(const uint8_t *bytes)
{
    struct dropout_attr attr;
    memcpy(&attr, bytes, sizeof attr);
    return attr;
}

status op_dropout_parse(const struct op_parse *p)
{
    const struct dropout_keys *keys = p->keys;
    struct dropout_attr attr = {.rate = keys->rate};
    memcpy(p->attr, &attr, sizeof attr);
    return ST_OK;
}

void op_dropout_words(const uint8_t *attr, char *text, size_t bytes)
{
    snprintf(text, bytes, " %g", (double)attr_of(attr).rate);
}

status op_dropout_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count)
{
    (void)tables, (void)table_count;
    float rate = attr_of(s->attr).rate;
    if (!(rate >= 0 && rate <= 0.99f)) FAIL(INVALID, "expected a dropout rate of 0 to 0.99, found %g", (double)rate);
    return elementwise_shape(s, 2);
}

/* to[b,i] (+)= from[b,i] * mask[b,i] */
static void mask_multiply(const struct op_context *c, const struct graph_node *n, struct view to, struct view from,
                          bool adds)
{
    float rate = attr_of(n->attr).rate, kept_scale = 1 / (1 - rate);
    struct random_stream stream = random_stream(c->seed, RANDOM_DROPOUT, (uint64_t)(n - c->graph->nodes));
    for (uint32_t b = 0; b < to.rows; b++) {
        const float *from_b = view_row(from, b);
        float *to_b = view_row(to, b);
        uint64_t item = c->batch->step << 32 | (c->example_begin + b);
        uint32_t bits[4];
        for (uint32_t i = 0; i < to.cols; i++) {
            if (i % 4 == 0) random_block(stream, item, i / 4, bits);
            bool is_kept = !c->training || random_unit_f32(bits[i % 4]) >= rate;
            float scale = c->training ? kept_scale : 1;
            grad_put(&to_b[i], is_kept ? from_b[i] * scale : 0, adds);
        }
    }
}

void op_dropout_forward(const struct op_context *c, const struct graph_node *n)
{
    mask_multiply(c, n, op_out(c, n), op_in(c, n, 0), false);
}

void op_dropout_backward(const struct op_context *c, const struct graph_node *n)
{
    struct view din = op_din(c, n, 0);
    if (din.data != NULL) mask_multiply(c, n, din, op_dout(c, n), op_din_adds(c, n, 0));
}
