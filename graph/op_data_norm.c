/* Data normalisation (PaddlePaddle's data_norm), column by column, by sums over all examples of earlier
 * steps; in, out [B,C], size, sum, square_sum [1,C]:
 *
 *   mean = sum / size     scale = sqrt(size / square_sum)     out = (x - mean) scale
 *
 * in training as in evaluation. Mean and scale are constants of a step: backward dx = dy scale, and nothing
 * is trained. The three parameters are statistics; a step of n examples makes of them
 * (graph/optimizer_accumulate.c):
 *
 *   size       = decay size + n                     starts at 1e4
 *   sum        = decay sum + sum_b x                starts at 0
 *   square_sum = decay square_sum + sum_b ((x - mean)^2 + eps)   starts at 1e4
 *
 * So the first steps hardly scale, and a constant column is scaled at most by 1 / sqrt(eps). In training the
 * backward pass, which runs in the order of the lane, adds a micro-batch's share to dsize, dsum and
 * dsquare_sum, even if the input is a column of the data and has no gradient. Sums run over b = 0, 1, ... */
#include "graph/op_rules.h"

#include <math.h>
#include <string.h>

#include "graph/optimizer.h"

#define EPS_MIN   1e-10
#define EPS_MAX   1
#define SIZE_INIT 1e4f

struct data_norm_keys {
    float eps, decay;
};
static const struct cfg_key data_norm_keys[] = {
    {.name = "eps",
     .type = CFG_F32,
     .fallback = "1e-4",
     .min = EPS_MIN,
     .max = EPS_MAX,
     .unit = "",
     .meaning = "added to the square of an example's distance from the mean",
     .offset = offsetof(struct data_norm_keys, eps)},
    {.name = "decay",
     .type = CFG_F32,
     .fallback = "0.9999999",
     .max = 1,
     .unit = "",
     .meaning = "what the sums over all examples keep of their values at a step",
     .offset = offsetof(struct data_norm_keys, decay)},
};
const struct op_keys op_data_norm_keys = OP_KEYS(data_norm_keys, struct data_norm_keys);

static struct data_norm_attr attr_of(const uint8_t *bytes)
{
    struct data_norm_attr attr;
    memcpy(&attr, bytes, sizeof attr);
    return attr;
}

status op_data_norm_parse(const struct op_parse *p)
{
    const struct data_norm_keys *keys = p->keys;
    struct data_norm_attr attr = {.eps = keys->eps, .decay = keys->decay};
    memcpy(p->attr, &attr, sizeof attr);
    return ST_OK;
}

void op_data_norm_words(const uint8_t *attr, char *text, size_t bytes)
{
    snprintf(text, bytes, ", eps %g", (double)attr_of(attr).eps);
}

status op_data_norm_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count)
{
    (void)tables, (void)table_count;
    struct data_norm_attr attr = attr_of(s->attr);
    if (!(attr.eps >= (float)EPS_MIN && attr.eps <= (float)EPS_MAX))
        FAIL(INVALID, "expected an eps of %g to %g, found %g", (double)EPS_MIN, (double)EPS_MAX, (double)attr.eps);
    if (!(attr.decay >= 0 && attr.decay <= 1))
        FAIL(INVALID, "expected a decay of 0 to 1, found %g", (double)attr.decay);
    TRY(elementwise_shape(s, 0));
    uint32_t cols = s->output_cols;
    static const char *const names[] = {
        [DATA_NORM_SIZE] = "size", [DATA_NORM_SUM] = "sum", [DATA_NORM_SQUARE_SUM] = "square_sum"};
    for (uint32_t i = 0; i < DATA_NORM_PARAMS; i++) {
        s->param[i].name = names[i];
        s->param[i].rows = 1;
        s->param[i].cols = cols;
        s->param[i].init = i == DATA_NORM_SUM ? INIT_ZEROS : TENSOR_INIT_CONSTANT;
        s->param[i].init_scale = i == DATA_NORM_SUM ? 0 : SIZE_INIT;
        s->param[i].is_statistic = true;
        s->param[i].rule = optimizer_accumulate(attr.decay);
    }
    s->param_count = DATA_NORM_PARAMS;
    /* dx takes 1, the sums 5. */
    s->flops_forward = 2 * (uint64_t)cols;
    s->flops_backward = 6 * (uint64_t)cols;
    return ST_OK;
}

static float mean_of(const struct op_context *c, const struct graph_node *n, uint32_t i)
{
    return op_param(c, n, DATA_NORM_SUM).data[i] / op_param(c, n, DATA_NORM_SIZE).data[i];
}
static float scale_of(const struct op_context *c, const struct graph_node *n, uint32_t i)
{
    return sqrtf(op_param(c, n, DATA_NORM_SIZE).data[i] / op_param(c, n, DATA_NORM_SQUARE_SUM).data[i]);
}

void op_data_norm_forward(const struct op_context *c, const struct graph_node *n)
{
    struct view in = op_in(c, n, 0), out = op_out(c, n);
    for (uint32_t i = 0; i < out.cols; i++) {
        float mean = mean_of(c, n, i), scale = scale_of(c, n, i);
        for (uint32_t b = 0; b < out.rows; b++) view_row(out, b)[i] = (view_row(in, b)[i] - mean) * scale;
    }
}

void op_data_norm_backward(const struct op_context *c, const struct graph_node *n)
{
    struct view in = op_in(c, n, 0), din = op_din(c, n, 0), dout = op_dout(c, n);
    struct view dsize = op_dparam(c, n, DATA_NORM_SIZE), dsum = op_dparam(c, n, DATA_NORM_SUM),
                dsquare_sum = op_dparam(c, n, DATA_NORM_SQUARE_SUM);
    float eps = attr_of(n->attr).eps;
    bool adds = op_din_adds(c, n, 0);
    for (uint32_t i = 0; i < in.cols; i++) {
        float mean = mean_of(c, n, i), scale = scale_of(c, n, i), sum = 0, square_sum = 0;
        for (uint32_t b = 0; b < in.rows; b++) {
            float x = view_row(in, b)[i], difference = x - mean;
            sum += x;
            square_sum += difference * difference + eps;
            if (din.data != NULL) grad_put(&view_row(din, b)[i], view_row(dout, b)[i] * scale, adds);
        }
        if (!c->training) continue;
        if (dsize.data != NULL) dsize.data[i] += (float)in.rows;
        if (dsum.data != NULL) dsum.data[i] += sum;
        if (dsquare_sum.data != NULL) dsquare_sum.data[i] += square_sum;
    }
}
