/* The identity that takes time: copies its input, and its gradient back, and spends `rounds` multiply-adds on
 * each example in each pass, each waiting for the one before. It serves to measure pipelines: a stage of such
 * ops takes the time asked for, whatever its width, and a gang shares it by examples. With `units` it also
 * has the width asked for: output j is input j mod the number of inputs. No model needs it. */
#include "graph/op_rules.h"

#include <string.h>

#define ROUNDS_MAX 100000000

struct busy_keys {
    uint32_t rounds, units;
};
static const struct cfg_key busy_keys[] = {
    {.name = "rounds",
     .type = CFG_U32,
     .fallback = "1000",
     .max = ROUNDS_MAX,
     .unit = "multiply-adds",
     .meaning = "spent on an example in each pass, one after another: for measuring pipelines, the output is the input",
     .offset = offsetof(struct busy_keys, rounds)},
    {.name = "units",
     .type = CFG_U32,
     .fallback = "0",
     .max = OP_COLS_MAX,
     .unit = "",
     .meaning = "number of outputs: output j is input j modulo their number; 0: as many as inputs",
     .offset = offsetof(struct busy_keys, units)},
};
const struct op_keys op_busy_keys = OP_KEYS(busy_keys, struct busy_keys);

static struct busy_attr attr_of(const uint8_t *bytes)
{
    struct busy_attr attr;
    memcpy(&attr, bytes, sizeof attr);
    return attr;
}

status op_busy_parse(const struct op_parse *p)
{
    const struct busy_keys *keys = p->keys;
    struct busy_attr attr = {.rounds = keys->rounds, .units = keys->units};
    memcpy(p->attr, &attr, sizeof attr);
    return ST_OK;
}

void op_busy_words(const uint8_t *attr, char *text, size_t bytes)
{
    snprintf(text, bytes, ", %u rounds", attr_of(attr).rounds);
}

status op_busy_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count)
{
    (void)tables, (void)table_count;
    uint32_t rounds = attr_of(s->attr).rounds, units = attr_of(s->attr).units;
    if (rounds > ROUNDS_MAX) FAIL(INVALID, "expected at most %d rounds, found %u", ROUNDS_MAX, rounds);
    if (units > OP_COLS_MAX) FAIL(INVALID, "expected at most %u units, found %u", OP_COLS_MAX, units);
    TRY(elementwise_shape(s, 0));
    if (units != 0) s->output_cols = units;
    s->flops_forward = s->flops_backward = 2 * (uint64_t)rounds;
    return ST_OK;
}

void busy_spend(uint32_t rounds)
{
    /* Read and written in memory, so that the compiler neither knows the result nor drops it as unused. */
    volatile float place = 0;
    float x = place;
    for (uint32_t i = 0; i < rounds; i++) x = x * 0.5f + 0.25f; /* towards 0.5, far from denormal numbers */
    place = x;
}

void busy_row_forward(float *out, uint32_t out_cols, const float *in, uint32_t in_cols)
{
    for (uint32_t at = 0; at < out_cols; at += in_cols) {
        uint32_t left = out_cols - at;
        memcpy(out + at, in, (left < in_cols ? left : in_cols) * sizeof *out);
    }
}

void busy_row_backward(float *din, uint32_t in_cols, const float *dout, uint32_t out_cols, bool adds)
{
    for (uint32_t i = 0; i < in_cols; i++) {
        float sum = i < out_cols ? dout[i] : 0; /* an input that no output shows has no gradient */
        for (uint32_t k = i + in_cols; k < out_cols; k += in_cols) sum += dout[k];
        grad_put(&din[i], sum, adds);
    }
}

void op_busy_forward(const struct op_context *c, const struct graph_node *n)
{
    struct view in = op_in(c, n, 0), out = op_out(c, n);
    uint32_t rounds = attr_of(n->attr).rounds;
    for (uint32_t b = 0; b < out.rows; b++) {
        busy_row_forward(view_row(out, b), out.cols, view_row(in, b), in.cols);
        busy_spend(rounds);
    }
}

void op_busy_backward(const struct op_context *c, const struct graph_node *n)
{
    struct view din = op_din(c, n, 0), dout = op_dout(c, n);
    uint32_t rounds = attr_of(n->attr).rounds;
    bool adds = op_din_adds(c, n, 0);
    for (uint32_t b = 0; b < dout.rows; b++) {
        if (din.data != NULL) busy_row_backward(view_row(din, b), din.cols, view_row(dout, b), dout.cols, adds);
        busy_spend(rounds);
    }
}
