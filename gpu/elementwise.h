/* Kernels with a thread an element, or with sums of rows. */
#ifndef HETERPS_GPU_ELEMENTWISE_H
#define HETERPS_GPU_ELEMENTWISE_H

#include "gpu/now.h"

/* out = activation(in) */
struct activation_forward_args {
    const struct gpu_now *now;
    struct gpu_in in;
    struct gpu_out out;
    uint32_t cols, activation;
    float slope;
};
/* din = or += dout * slope of out */
struct activation_backward_args {
    const struct gpu_now *now;
    struct gpu_in out, dout;
    struct gpu_out din;
    uint32_t cols, activation;
    float slope;
    uint32_t adds;
};
/* busy: spends time, one multiply-add after another, an example a thread; nothing is written to `to` */
struct busy_rounds_args {
    const struct gpu_now *now;
    struct gpu_out to;
    uint32_t rounds;
};
/* din[i] = or += the sum of dout[i + in_cols * …] */
struct busy_backward_args {
    const struct gpu_now *now;
    struct gpu_in dout;
    struct gpu_out din;
    uint32_t in_cols, out_cols, adds;
};
/* to = or += from, where kept, times scale: random numbers depend on (key, step, example, column) alone */
struct dropout_args {
    const struct gpu_now *now;
    struct gpu_in from;
    struct gpu_out to;
    uint32_t cols, key[2];
    float rate;
    uint32_t adds;
};
/* to[b][g * to_group + to_begin + i] = or += from[b][g * from_group + from_begin + i] for i <
 * part, g < cols / part; from NULL: 0 */
struct move_args {
    const struct gpu_now *now;
    struct gpu_in from;
    struct gpu_out to;
    uint32_t cols, part, from_group, from_begin, to_group, to_begin, adds;
};
/* to[b][k * rows + r] = or += from[b][r * width + k] */
struct transpose_args {
    const struct gpu_now *now;
    struct gpu_in from;
    struct gpu_out to;
    uint32_t rows, width, adds;
};
/* to = or += x * y; y NULL: x; a factor of one column is the same for every element */
struct multiply_args {
    const struct gpu_now *now;
    struct gpu_in x, y;
    struct gpu_out to;
    uint32_t cols, x_is_single, y_is_single, adds;
};
/* out = x0 * z + x */
struct cross_args {
    const struct gpu_now *now;
    struct gpu_in x0, x, z;
    struct gpu_out out;
    uint32_t cols;
};
/* to[b][0] = or += sum over columns of x * y; y NULL: of x. A warp an example. */
struct row_dot_args {
    const struct gpu_now *now;
    struct gpu_in x, y;
    struct gpu_out to;
    uint32_t cols, y_is_single, adds;
};
/* to[b][g * dim + i] = sum over r of from[b][(g * rows + r) * dim + i] */
struct sum_pool_forward_args {
    const struct gpu_now *now;
    struct gpu_in from;
    struct gpu_out to;
    uint32_t cols, dim, rows;
};
struct sum_pool_backward_args {
    const struct gpu_now *now;
    struct gpu_in dout;
    struct gpu_out din;
    uint32_t cols, dim, rows, adds;
};

#endif
