/* Launches of batch_norm and data_norm. */
#include "gpu/norm.h"

#include "gpu/ops.h"

/* A block for 32 columns. */
#define GPU_COLUMNS(w, kernel, cols, ...)                                                                              \
    gpu_launch((w)->gpu, (w)->stream, GPU_KERNEL_##kernel,                                                             \
               (struct gpu_dim){((cols) + NORM_COLS - 1) / NORM_COLS, 1, 1},                                           \
               (struct gpu_dim){NORM_COLS, NORM_ROWS, 1}, &(const struct kernel##_args){.now = (w)->now, __VA_ARGS__}, \
               sizeof(struct kernel##_args))

GPU_RUN(batch_norm_forward)
{
    struct view in = op_in(c, n, 0), out = op_out(c, n);
    float *mean = op_saved(c, n, 0).data, *variance = op_saved(c, n, 1).data;
    TRY(GPU_COLUMNS(w, norm_measure, out.cols, .in = gpu_in_of(in), .given_mean = op_param(c, n, BATCH_NORM_MEAN).data,
                    .given_variance = op_param(c, n, BATCH_NORM_VARIANCE).data, .mean = mean, .variance = variance,
                    .cols = out.cols));
    return GPU_EACH(w, norm_forward, out.cols, .in = gpu_in_of(in), .mean = mean, .variance = variance,
                    .weight = op_param(c, n, BATCH_NORM_WEIGHT).data, .bias = op_param(c, n, BATCH_NORM_BIAS).data,
                    .out = gpu_out_of(out), .cols = out.cols, .eps = GPU_ATTR(batch_norm_attr, n).eps);
}

/* Two sums a column. */
size_t gpu_batch_norm_scratch_floats(const struct graph *g, const struct graph_node *n)
{
    return 2 * gpu_node_param_floats(g, n);
}

GPU_RUN(batch_norm_backward)
{
    struct view in = op_in(c, n, 0), din = op_din(c, n, 0), dout = op_dout(c, n);
    const float *mean = op_saved(c, n, 0).data, *variance = op_saved(c, n, 1).data;
    const float eps = GPU_ATTR(batch_norm_attr, n).eps;
    CHECK(w->scratch_floats >= 2 * (size_t)in.cols); /* gpu_batch_norm_scratch_floats */
    TRY(GPU_COLUMNS(w, norm_sums, in.cols, .in = gpu_in_of(in), .dout = gpu_in_of(dout), .mean = mean,
                    .variance = variance, .sums = w->scratch, .dweight = op_dparam(c, n, BATCH_NORM_WEIGHT).data,
                    .dbias = op_dparam(c, n, BATCH_NORM_BIAS).data, .dmean = op_dparam(c, n, BATCH_NORM_MEAN).data,
                    .dvariance = op_dparam(c, n, BATCH_NORM_VARIANCE).data, .cols = in.cols, .eps = eps));
    if (din.data == NULL) return ST_OK;
    return GPU_EACH(w, norm_backward, in.cols, .in = gpu_in_of(in), .dout = gpu_in_of(dout), .mean = mean,
                    .variance = variance, .weight = op_param(c, n, BATCH_NORM_WEIGHT).data, .sums = w->scratch,
                    .din = gpu_out_of(din), .cols = in.cols, .adds = op_din_adds(c, n, 0), .eps = eps);
}

GPU_RUN(data_norm_forward)
{
    struct view out = op_out(c, n);
    return GPU_EACH(w, data_norm_forward, out.cols, .in = gpu_in_of(op_in(c, n, 0)),
                    .size = op_param(c, n, DATA_NORM_SIZE).data, .sum = op_param(c, n, DATA_NORM_SUM).data,
                    .square_sum = op_param(c, n, DATA_NORM_SQUARE_SUM).data, .out = gpu_out_of(out), .cols = out.cols);
}

GPU_RUN(data_norm_backward)
{
    struct view in = op_in(c, n, 0), din = op_din(c, n, 0);
    if (din.data != NULL)
        TRY(GPU_EACH(w, data_norm_backward, in.cols, .dout = gpu_in_of(op_dout(c, n)),
                     .size = op_param(c, n, DATA_NORM_SIZE).data,
                     .square_sum = op_param(c, n, DATA_NORM_SQUARE_SUM).data, .din = gpu_out_of(din), .cols = in.cols,
                     .adds = op_din_adds(c, n, 0)));
    return GPU_COLUMNS(w, data_norm_sums, in.cols, .in = gpu_in_of(in), .size = op_param(c, n, DATA_NORM_SIZE).data,
                       .sum = op_param(c, n, DATA_NORM_SUM).data, .dsize = op_dparam(c, n, DATA_NORM_SIZE).data,
                       .dsum = op_dparam(c, n, DATA_NORM_SUM).data,
                       .dsquare_sum = op_dparam(c, n, DATA_NORM_SQUARE_SUM).data, .cols = in.cols,
                       .eps = GPU_ATTR(data_norm_attr, n).eps);
}
