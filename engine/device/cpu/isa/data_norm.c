/* Data normalisation (graph/op_data_norm.c), operation by operation as the reference, so with its bits: a
 * column is a lane of a vector, and every sum runs over the examples in order. Bound by memory. Cut by
 * columns: four vectors a piece, whose sums are independent. */
#include "engine/device/cpu/isa/kernels_isa.h"

#define GROUP      4u /* vectors of a piece */
#define PIECE_COLS (GROUP * VF)

struct norm_call {
    struct view in, to, dout;               /* to: out, or din, which may be absent */
    const float *size, *sum, *square_sum;   /* the statistics                       */
    float *dsize, *dsum, *dsquare_sum, eps; /* each may be absent                   */
    bool adds;
};

static size_t left_of(const struct norm_call *call, uint32_t at) { return at < call->in.cols ? call->in.cols - at : 0; }

/* Mean and scale of the columns from `begin` on. A lane beyond the last column
 * divides 0 by 0; nobody reads it. */
ALWAYS_INLINE void constants_of(const struct norm_call *call, uint32_t begin, vf mean[GROUP], vf scale[GROUP])
{
    for (uint32_t v = 0; v < GROUP; v++) {
        uint32_t at = begin + v * VF;
        size_t left = left_of(call, at);
        vf size = vf_load_upto(call->size + at, left);
        mean[v] = vf_load_upto(call->sum + at, left) / size;
        scale[v] = vf_sqrt(size / vf_load_upto(call->square_sum + at, left));
    }
}

static void forward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct norm_call *call = context;
    uint32_t begin = piece * PIECE_COLS;
    vf mean[GROUP], scale[GROUP];
    constants_of(call, begin, mean, scale);
    for (uint32_t b = 0; b < call->in.rows; b++) {
        const float *in_b = call->in.data + (size_t)b * call->in.stride + begin;
        float *out_b = call->to.data + (size_t)b * call->to.stride + begin;
        for (uint32_t v = 0; v < GROUP; v++) {
            size_t left = left_of(call, begin + v * VF);
            vf_store_upto(out_b + v * VF, (vf_load_upto(in_b + v * VF, left) - mean[v]) * scale[v], left);
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
    uint32_t begin = piece * PIECE_COLS;
    vf mean[GROUP], scale[GROUP], sum[GROUP] = {{0}}, square_sum[GROUP] = {{0}};
    constants_of(call, begin, mean, scale);
    for (uint32_t b = 0; b < call->in.rows; b++) {
        const float *in_b = call->in.data + (size_t)b * call->in.stride + begin;
        for (uint32_t v = 0; v < GROUP; v++) {
            vf x = vf_load_upto(in_b + v * VF, left_of(call, begin + v * VF)), difference = x - mean[v];
            sum[v] += x;
            square_sum[v] += difference * difference + call->eps;
        }
    }
    for (uint32_t v = 0; v < GROUP; v++) {
        uint32_t at = begin + v * VF;
        size_t left = left_of(call, at);
        add_to(call->dsize, vf_splat((float)call->in.rows), at, left);
        add_to(call->dsum, sum[v], at, left);
        add_to(call->dsquare_sum, square_sum[v], at, left);
    }
    for (uint32_t b = 0; b < call->in.rows && call->to.data != NULL; b++) {
        const float *dout_b = call->dout.data + (size_t)b * call->dout.stride + begin;
        float *din_b = call->to.data + (size_t)b * call->to.stride + begin;
        for (uint32_t v = 0; v < GROUP; v++) {
            size_t left = left_of(call, begin + v * VF);
            vf dx = vf_load_upto(dout_b + v * VF, left) * scale[v];
            if (call->adds) dx = vf_load_upto(din_b + v * VF, left) + dx;
            vf_store_upto(din_b + v * VF, dx, left);
        }
    }
}

static struct norm_call call_of(const struct op_context *c, const struct graph_node *n)
{
    struct data_norm_attr attr;
    memcpy(&attr, n->attr, sizeof attr);
    return (struct norm_call){.in = op_in(c, n, 0),
                              .size = op_param(c, n, DATA_NORM_SIZE).data,
                              .sum = op_param(c, n, DATA_NORM_SUM).data,
                              .square_sum = op_param(c, n, DATA_NORM_SQUARE_SUM).data,
                              .eps = attr.eps};
}

void KERNEL(data_norm_forward_f32)(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n)
{
    struct norm_call call = call_of(c, n);
    call.to = op_out(c, n);
    team_run(work->team, forward_piece, &call, (call.in.cols + PIECE_COLS - 1) / PIECE_COLS);
}

void KERNEL(data_norm_backward_f32)(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n)
{
    struct norm_call call = call_of(c, n);
    call.to = op_din(c, n, 0);
    call.dout = op_dout(c, n);
    call.adds = op_din_adds(c, n, 0);
    if (c->training) {
        call.dsize = op_dparam(c, n, DATA_NORM_SIZE).data;
        call.dsum = op_dparam(c, n, DATA_NORM_SUM).data;
        call.dsquare_sum = op_dparam(c, n, DATA_NORM_SQUARE_SUM).data;
    }
    team_run(work->team, backward_piece, &call, (call.in.cols + PIECE_COLS - 1) / PIECE_COLS);
}
