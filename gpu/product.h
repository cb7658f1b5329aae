/* The three products of a fully connected layer (graph/op_fc.c), and the sums of its bias' gradient. Tensors [B, G * width] are taken as
 * [B * G, width]. */
#ifndef HETERPS_GPU_PRODUCT_H
#define HETERPS_GPU_PRODUCT_H

#include "gpu/now.h"

#define PRODUCT_TILE    64u /* rows and columns of the result that a block computes */
#define PRODUCT_DEPTH   16u /* terms that it takes at a time                        */
#define PRODUCT_THREADS 256u

/* How dz follows from dout and out. */
struct fc_dz {
    struct gpu_in dout, out;
    uint32_t activation; /* of out; 0: dout is dz already */
    float slope;
};
/* out = act(in W + bias) */
struct fc_forward_args {
    const struct gpu_now *now;
    struct gpu_in in;
    const float *weight, *bias; /* [K, N]; [N], or NULL */
    struct gpu_out out;
    uint32_t K, N, groups, activation, is_bf16;
    float slope;
};
/* din = or += dz W^T * slope of in */
struct fc_din_args {
    const struct gpu_now *now;
    struct fc_dz dz;
    const float *weight;
    struct gpu_in in;
    struct gpu_out din;
    uint32_t K, N, groups, input_activation, adds, is_bf16;
    float input_slope;
};
/* part z of in^T dz, over rows z * part_rows …, goes to sums[z][K * N] */
struct fc_dweight_args {
    const struct gpu_now *now;
    struct gpu_in in;
    struct fc_dz dz;
    float *sums;
    uint32_t K, N, groups, part_rows, is_bf16;
};
/* part z of the sums of dz over rows, to sums[z][N] */
struct fc_dbias_args {
    const struct gpu_now *now;
    struct fc_dz dz;
    float *sums;
    uint32_t N, groups, part_rows;
};
/* to[i] += sum over parts, in order */
struct parts_add_args {
    const struct gpu_now *now;
    const float *parts; /* [part_count, count] */
    float *to;
    uint32_t count, part_count;
};

#endif
