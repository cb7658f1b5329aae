/* Normalisation of columns (graph/op_batch_norm.c, op_data_norm.c). */
#ifndef HETERPS_GPU_NORM_H
#define HETERPS_GPU_NORM_H

#include "gpu/now.h"

/* A block of a kernel over columns: 32 columns, 8 threads along the examples of each. */
#define NORM_COLS 32u
#define NORM_ROWS 8u

/* mean and variance of each column: of the micro-batch's examples in training, else the given ones. */
struct norm_measure_args {
    const struct gpu_now *now;
    struct gpu_in in;
    const float *given_mean, *given_variance;
    float *mean, *variance;
    uint32_t cols;
};
struct norm_forward_args {
    const struct gpu_now *now;
    struct gpu_in in;
    const float *mean, *variance, *weight, *bias;
    struct gpu_out out;
    uint32_t cols;
    float eps;
};
/* sums[0][i]: of dy over the examples; sums[1][i]: of dy times the normalised input; both are added to the
 * gradients that they are. NULL: nobody wants this gradient. */
struct norm_sums_args {
    const struct gpu_now *now;
    struct gpu_in in, dout;
    const float *mean, *variance;
    float *sums, *dweight, *dbias, *dmean, *dvariance;
    uint32_t cols;
    float eps;
};
struct norm_backward_args {
    const struct gpu_now *now;
    struct gpu_in in, dout;
    const float *mean, *variance, *weight, *sums;
    struct gpu_out din;
    uint32_t cols, adds;
    float eps;
};

struct data_norm_forward_args {
    const struct gpu_now *now;
    struct gpu_in in;
    const float *size, *sum, *square_sum;
    struct gpu_out out;
    uint32_t cols;
};
struct data_norm_backward_args {
    const struct gpu_now *now;
    struct gpu_in dout;
    const float *size, *square_sum;
    struct gpu_out din;
    uint32_t cols, adds;
};
struct data_norm_sums_args {
    const struct gpu_now *now;
    struct gpu_in in;
    const float *size, *sum;
    float *dsize, *dsum, *dsquare_sum;
    uint32_t cols;
    float eps;
};

#endif
