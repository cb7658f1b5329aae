/* Batch normalisation (graph/op_batch_norm.c), operation by operation as the reference, so with its bits: a
 * column is a lane of a vector, and every sum runs over the examples in order. Bound by memory; later passes
 * over a micro-batch read from the caches what they still hold. Cut by columns: four vectors a piece, whose
 * sums are independent and fill the adder. */
#include "engine/device/cpu/isa/kernels_isa.h"

#define GROUP      4u /* vectors of a piece */
#define PIECE_COLS (GROUP * VF)

struct norm_call {
    struct view in, to, dout; /* to: out, or din, which may be absent */
    const float *weight, *bias;
    float *mean, *variance;                     /* what the pass uses                                  */
    const float *stored_mean, *stored_variance; /* evaluation: the parameters; else NULL               */
    float *dweight, *dbias, *dmean, *dvariance; /* each may be absent                                  */
    float eps, count, share;                    /* share: 1 / count, or 0 where mean and variance are constants */
    bool adds;
};

/* Columns [at, at + left) of a piece's vector `v`; left may be 0 or less than a vector. */
static size_t left_of(const struct norm_call *call, uint32_t at) { return at < call->in.cols ? call->in.cols - at : 0; }

ALWAYS_INLINE vf inverse_deviation(const struct norm_call *call, vf variance)
{
    return 1.0f / vf_sqrt(variance + call->eps);
}

/* Mean and variance of the examples, in two passes. */
static void measure(const struct norm_call *call, uint32_t begin, vf mean[GROUP], vf variance[GROUP])
{
    struct view in = call->in;
    vf sum[GROUP] = {{0}}, difference_sum[GROUP] = {{0}}, square_sum[GROUP] = {{0}};
    for (uint32_t b = 0; b < in.rows; b++) {
        const float *in_b = in.data + (size_t)b * in.stride + begin;
        for (uint32_t v = 0; v < GROUP; v++) sum[v] += vf_load_upto(in_b + v * VF, left_of(call, begin + v * VF));
    }
    for (uint32_t v = 0; v < GROUP; v++) mean[v] = sum[v] / call->count;
    for (uint32_t b = 0; b < in.rows; b++) {
        const float *in_b = in.data + (size_t)b * in.stride + begin;
        for (uint32_t v = 0; v < GROUP; v++) {
            vf difference = vf_load_upto(in_b + v * VF, left_of(call, begin + v * VF)) - mean[v];
            difference_sum[v] += difference;
            square_sum[v] += difference * difference;
        }
    }
    for (uint32_t v = 0; v < GROUP; v++) {
        vf correction = difference_sum[v] / call->count;
        vf exact = (square_sum[v] - difference_sum[v] * correction) / call->count;
        variance[v] = vf_select(exact < 0, (vf){0}, exact);
        mean[v] += correction;
    }
}

static void forward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct norm_call *call = context;
    uint32_t begin = piece * PIECE_COLS;
    vf mean[GROUP], variance[GROUP], r[GROUP], weight[GROUP], bias[GROUP];
    if (call->stored_mean == NULL) measure(call, begin, mean, variance);
    for (uint32_t v = 0; v < GROUP; v++) {
        uint32_t at = begin + v * VF;
        size_t left = left_of(call, at);
        if (call->stored_mean != NULL) {
            mean[v] = vf_load_upto(call->stored_mean + at, left);
            variance[v] = vf_load_upto(call->stored_variance + at, left);
        }
        vf_store_upto(call->mean + at, mean[v], left);
        vf_store_upto(call->variance + at, variance[v], left);
        r[v] = inverse_deviation(call, variance[v]);
        weight[v] = vf_load_upto(call->weight + at, left);
        bias[v] = vf_load_upto(call->bias + at, left);
    }
    for (uint32_t b = 0; b < call->in.rows; b++) {
        const float *in_b = call->in.data + (size_t)b * call->in.stride + begin;
        float *out_b = call->to.data + (size_t)b * call->to.stride + begin;
        for (uint32_t v = 0; v < GROUP; v++) {
            size_t left = left_of(call, begin + v * VF);
            vf x = vf_load_upto(in_b + v * VF, left);
            vf_store_upto(out_b + v * VF, (x - mean[v]) * r[v] * weight[v] + bias[v], left);
        }
    }
}

static void add_to(float *sums, vf value, uint32_t at, size_t left)
{
    if (sums != NULL) vf_store_upto(sums + at, vf_load_upto(sums + at, left) + value, left);
}

static void backward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct norm_call *call = context;
    struct view in = call->in;
    uint32_t begin = piece * PIECE_COLS;
    vf mean[GROUP], r[GROUP], weight[GROUP], dweight[GROUP] = {{0}}, dbias[GROUP] = {{0}};
    for (uint32_t v = 0; v < GROUP; v++) {
        uint32_t at = begin + v * VF;
        size_t left = left_of(call, at);
        vf variance = vf_load_upto(call->variance + at, left);
        mean[v] = vf_load_upto(call->mean + at, left);
        r[v] = inverse_deviation(call, variance);
        weight[v] = vf_load_upto(call->weight + at, left);
        add_to(call->dmean, call->count * mean[v], at, left);
        add_to(call->dvariance, call->count * variance, at, left);
    }
    for (uint32_t b = 0; b < in.rows; b++) {
        const float *in_b = in.data + (size_t)b * in.stride + begin;
        const float *dout_b = call->dout.data + (size_t)b * call->dout.stride + begin;
        for (uint32_t v = 0; v < GROUP; v++) {
            size_t left = left_of(call, begin + v * VF);
            vf dy = vf_load_upto(dout_b + v * VF, left);
            dbias[v] += dy;
            dweight[v] += dy * ((vf_load_upto(in_b + v * VF, left) - mean[v]) * r[v]);
        }
    }
    for (uint32_t v = 0; v < GROUP; v++) {
        size_t left = left_of(call, begin + v * VF);
        add_to(call->dweight, dweight[v], begin + v * VF, left);
        add_to(call->dbias, dbias[v], begin + v * VF, left);
    }
    for (uint32_t b = 0; b < in.rows && call->to.data != NULL; b++) {
        const float *in_b = in.data + (size_t)b * in.stride + begin;
        const float *dout_b = call->dout.data + (size_t)b * call->dout.stride + begin;
        float *din_b = call->to.data + (size_t)b * call->to.stride + begin;
        for (uint32_t v = 0; v < GROUP; v++) {
            size_t left = left_of(call, begin + v * VF);
            vf normal = (vf_load_upto(in_b + v * VF, left) - mean[v]) * r[v];
            vf dy = vf_load_upto(dout_b + v * VF, left);
            vf dx = weight[v] * r[v] * (dy - dbias[v] * call->share - normal * (dweight[v] * call->share));
            if (call->adds) dx = vf_load_upto(din_b + v * VF, left) + dx;
            vf_store_upto(din_b + v * VF, dx, left);
        }
    }
}

static struct norm_call call_of(const struct op_context *c, const struct graph_node *n)
{
    struct batch_norm_attr attr;
    memcpy(&attr, n->attr, sizeof attr);
    struct norm_call call = {.in = op_in(c, n, 0),
                             .weight = op_param(c, n, BATCH_NORM_WEIGHT).data,
                             .bias = op_param(c, n, BATCH_NORM_BIAS).data,
                             .mean = op_saved(c, n, 0).data,
                             .variance = op_saved(c, n, 1).data,
                             .eps = attr.eps};
    call.count = (float)call.in.rows;
    call.share = c->training ? 1 / call.count : 0;
    return call;
}

void KERNEL(batch_norm_forward_f32)(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n)
{
    struct norm_call call = call_of(c, n);
    call.to = op_out(c, n);
    if (!c->training) {
        call.stored_mean = op_param(c, n, BATCH_NORM_MEAN).data;
        call.stored_variance = op_param(c, n, BATCH_NORM_VARIANCE).data;
    }
    team_run(work->team, forward_piece, &call, (call.in.cols + PIECE_COLS - 1) / PIECE_COLS);
}

void KERNEL(batch_norm_backward_f32)(const struct cpu_work *work, const struct op_context *c,
                                     const struct graph_node *n)
{
    struct norm_call call = call_of(c, n);
    call.to = op_din(c, n, 0);
    call.dout = op_dout(c, n);
    call.adds = op_din_adds(c, n, 0);
    call.dweight = op_dparam(c, n, BATCH_NORM_WEIGHT).data;
    call.dbias = op_dparam(c, n, BATCH_NORM_BIAS).data;
    if (c->training) {
        call.dmean = op_dparam(c, n, BATCH_NORM_MEAN).data;
        call.dvariance = op_dparam(c, n, BATCH_NORM_VARIANCE).data;
    }
    team_run(work->team, backward_piece, &call, (call.in.cols + PIECE_COLS - 1) / PIECE_COLS);
}
