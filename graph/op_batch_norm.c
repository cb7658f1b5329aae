/* Batch normalisation (Ioffe, Szegedy, ICML 2015, Algorithm 1), column by column; in, out [B,C], the rest
 * [1,C]:
 *
 *   training     m = 1/B sum_b x_b     v = 1/B sum_b (x_b - m)^2     of the micro-batch's examples
 *   evaluation   m, v: the parameters mean and variance
 *   out = (x - m) r weight + bias      r = 1 / sqrt(v + eps)
 *
 * Backward, the gradient of section 3 put together, with n = (x - m) r:
 *
 *   dbias = sum_b dy     dweight = sum_b dy n     dx = weight r (dy - dbias / B - n dweight / B)
 *
 * Outside training m and v are constants, and the two means drop out. B is the number of the micro-batch's
 * examples, also in the last one of the data; a single example has v = 0, and its output is the bias.
 *
 * mean and variance are statistics, not weights: the backward pass, which runs in the order of the lane, adds
 * B m to dmean and B v to dvariance. So their moving averages get the step's mean of x, and the variances of
 * its micro-batches weighted by their examples.
 *
 * Sums run over b = 0, 1, … in two passes: the second takes differences from the mean of the first, and
 * corrects the mean by their mean, and the variance by its square. So neither loses digits if the mean
 * is large against the deviation. */
#include "graph/op_rules.h"

#include <math.h>
#include <string.h>

#include "graph/optimizer.h"

#define EPS_MIN 1e-10
#define EPS_MAX 1

struct batch_norm_keys {
    float eps, momentum;
};
static const struct cfg_key batch_norm_keys[] = {
    {.name = "eps",
     .type = CFG_F32,
     .fallback = "1e-5",
     .min = EPS_MIN,
     .max = EPS_MAX,
     .unit = "",
     .meaning = "added to the variance",
     .offset = offsetof(struct batch_norm_keys, eps)},
    {.name = "momentum",
     .type = CFG_F32,
     .fallback = "0.9",
     .max = 0.999999,
     .unit = "",
     .meaning = "what mean and variance for evaluation keep of their values at a step; the rest comes from the step",
     .offset = offsetof(struct batch_norm_keys, momentum)},
};
const struct op_keys op_batch_norm_keys = OP_KEYS(batch_norm_keys, struct batch_norm_keys);

static struct batch_norm_attr attr_of(const uint8_t *bytes)
{
    struct batch_norm_attr attr;
    memcpy(&attr, bytes, sizeof attr);
    return attr;
}

status op_batch_norm_parse(const struct op_parse *p)
{
    const struct batch_norm_keys *keys = p->keys;
    struct batch_norm_attr attr = {.eps = keys->eps, .momentum = keys->momentum};
    memcpy(p->attr, &attr, sizeof attr);
    return ST_OK;
}

void op_batch_norm_words(const uint8_t *attr, char *text, size_t bytes)
{
    snprintf(text, bytes, ", eps %g", (double)attr_of(attr).eps);
}

status op_batch_norm_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count)
{
    (void)tables, (void)table_count;
    struct batch_norm_attr attr = attr_of(s->attr);
    if (!(attr.eps >= (float)EPS_MIN && attr.eps <= (float)EPS_MAX))
        FAIL(INVALID, "expected an eps of %g to %g, found %g", (double)EPS_MIN, (double)EPS_MAX, (double)attr.eps);
    if (!(attr.momentum >= 0 && attr.momentum <= MOMENTUM_MAX))
        FAIL(INVALID, "expected a momentum of 0 to %g, found %g", (double)MOMENTUM_MAX, (double)attr.momentum);
    TRY(elementwise_shape(s, 0));
    uint32_t cols = s->output_cols;
    static const char *const names[] = {[BATCH_NORM_WEIGHT] = "weight",
                                        [BATCH_NORM_BIAS] = "bias",
                                        [BATCH_NORM_MEAN] = "mean",
                                        [BATCH_NORM_VARIANCE] = "variance"};
    for (uint32_t i = 0; i < BATCH_NORM_PARAMS; i++) {
        s->param[i].name = names[i];
        s->param[i].rows = 1;
        s->param[i].cols = cols;
        bool is_one = i == BATCH_NORM_WEIGHT || i == BATCH_NORM_VARIANCE;
        s->param[i].init = is_one ? TENSOR_INIT_CONSTANT : INIT_ZEROS;
        s->param[i].init_scale = is_one;
        s->param[i].is_statistic = i >= BATCH_NORM_MEAN;
        if (s->param[i].is_statistic) s->param[i].rule = optimizer_moving_average(attr.momentum);
    }
    s->param_count = BATCH_NORM_PARAMS;
    s->saved[0].name = "micro_mean";
    s->saved[1].name = "micro_variance";
    for (uint32_t i = 0; i < 2; i++) {
        s->saved[i].cols = cols;
        s->saved[i].type = TENSOR_F32;
        s->saved[i].is_single = true;
    }
    s->saved_count = 2;
    /* The two passes of sums take 1 and 4, the output 4; dbias and dweight 5, dx 7. */
    s->flops_forward = 9 * (uint64_t)cols;
    s->flops_backward = 12 * (uint64_t)cols;
    return ST_OK;
}

/* Mean and variance of column i of the examples. */
static void column_measure(struct view in, uint32_t i, float *mean, float *variance)
{
    float count = (float)in.rows, sum = 0, difference_sum = 0, square_sum = 0;
    for (uint32_t b = 0; b < in.rows; b++) sum += view_row(in, b)[i];
    float rough = sum / count;
    for (uint32_t b = 0; b < in.rows; b++) {
        float difference = view_row(in, b)[i] - rough;
        difference_sum += difference;
        square_sum += difference * difference;
    }
    float correction = difference_sum / count, v = (square_sum - difference_sum * correction) / count;
    *mean = rough + correction;
    *variance = v < 0 ? 0 : v; /* a NaN stays one */
}

void op_batch_norm_forward(const struct op_context *c, const struct graph_node *n)
{
    struct view in = op_in(c, n, 0), out = op_out(c, n);
    const float *weight = op_param(c, n, BATCH_NORM_WEIGHT).data, *bias = op_param(c, n, BATCH_NORM_BIAS).data;
    float *mean = op_saved(c, n, 0).data, *variance = op_saved(c, n, 1).data;
    float eps = attr_of(n->attr).eps;
    for (uint32_t i = 0; i < out.cols; i++) {
        if (c->training) {
            column_measure(in, i, &mean[i], &variance[i]);
        } else {
            mean[i] = op_param(c, n, BATCH_NORM_MEAN).data[i];
            variance[i] = op_param(c, n, BATCH_NORM_VARIANCE).data[i];
        }
        float r = 1 / sqrtf(variance[i] + eps);
        for (uint32_t b = 0; b < out.rows; b++)
            view_row(out, b)[i] = (view_row(in, b)[i] - mean[i]) * r * weight[i] + bias[i];
    }
}

void op_batch_norm_backward(const struct op_context *c, const struct graph_node *n)
{
    struct view in = op_in(c, n, 0), din = op_din(c, n, 0), dout = op_dout(c, n);
    const float *weight = op_param(c, n, BATCH_NORM_WEIGHT).data;
    const float *mean = op_saved(c, n, 0).data, *variance = op_saved(c, n, 1).data;
    float *dparam[BATCH_NORM_PARAMS], count = (float)in.rows, share = c->training ? 1 / count : 0;
    float eps = attr_of(n->attr).eps;
    for (uint32_t k = 0; k < BATCH_NORM_PARAMS; k++) dparam[k] = op_dparam(c, n, k).data;
    bool adds = op_din_adds(c, n, 0);
    for (uint32_t i = 0; i < in.cols; i++) {
        float m = mean[i], r = 1 / sqrtf(variance[i] + eps), dweight = 0, dbias = 0;
        for (uint32_t b = 0; b < in.rows; b++) {
            float dy = view_row(dout, b)[i];
            dbias += dy;
            dweight += dy * ((view_row(in, b)[i] - m) * r);
        }
        if (dparam[BATCH_NORM_WEIGHT] != NULL) dparam[BATCH_NORM_WEIGHT][i] += dweight;
        if (dparam[BATCH_NORM_BIAS] != NULL) dparam[BATCH_NORM_BIAS][i] += dbias;
        if (c->training && dparam[BATCH_NORM_MEAN] != NULL) dparam[BATCH_NORM_MEAN][i] += count * m;
        if (c->training && dparam[BATCH_NORM_VARIANCE] != NULL) dparam[BATCH_NORM_VARIANCE][i] += count * variance[i];
        for (uint32_t b = 0; b < in.rows && din.data != NULL; b++) {
            float normal = (view_row(in, b)[i] - m) * r;
            float dx = weight[i] * r * (view_row(dout, b)[i] - dbias * share - normal * (dweight * share));
            grad_put(&view_row(din, b)[i], dx, adds);
        }
    }
}
