/* Kernels over vectors side by side in an example's row. */
#ifndef HETERPS_GPU_VECTORS_H
#define HETERPS_GPU_VECTORS_H

#include "gpu/now.h"

struct fm_forward_args {
    const struct gpu_now *now;
    struct gpu_in e;
    struct gpu_out out;
    uint32_t cols, dim, is_reduced; /* reduced: a warp an example */
};
struct fm_backward_args {
    const struct gpu_now *now;
    struct gpu_in e, dout;
    struct gpu_out de;
    uint32_t cols, dim, is_reduced, adds;
};

/* The vectors of interact: those of input k begin at number first[k]. */
#define INTERACT_INPUTS_MAX 64u
struct interact_in {
    struct gpu_in e[INTERACT_INPUTS_MAX];
    uint32_t first[INTERACT_INPUTS_MAX];
    uint32_t input_count, vector_count, dim, has_self;
};
struct interact_forward_args {
    const struct gpu_now *now;
    struct interact_in in;
    struct gpu_out out;
    uint32_t pair_count;
};
/* The gradient of one input, whose first vector has number `first`. */
struct interact_backward_args {
    const struct gpu_now *now;
    struct interact_in in;
    struct gpu_in dout;
    struct gpu_out de;
    uint32_t cols, first, adds;
};

/* Similarity of q [B, D] with vectors [B, cols * (D + has_bias)]; a warp an example. Cosine saves norms and
 * similarities. */
struct match_forward_args {
    const struct gpu_now *now;
    struct gpu_in q, vectors;
    struct gpu_out out, norms, similarities; /* data NULL: dot */
    uint32_t D, cols, has_bias;
    float scale, eps;
};
struct match_dq_args {
    const struct gpu_now *now;
    struct gpu_in q, vectors, dout, norms, similarities;
    struct gpu_out dq;
    uint32_t D, cols, has_bias, adds;
    float scale;
};
struct match_dvectors_args {
    const struct gpu_now *now;
    struct gpu_in q, vectors, dout, norms, similarities;
    struct gpu_out dvectors;
    uint32_t D, cols, has_bias, adds;
    float scale;
};

struct attention_pairs_forward_args {
    const struct gpu_now *now;
    struct gpu_in q, h;
    struct gpu_out out;
    uint32_t D, cols; /* of h */
};
struct attention_pairs_dq_args {
    const struct gpu_now *now;
    struct gpu_in h, dout;
    struct gpu_out dq;
    uint32_t D, cols, adds;
};
struct attention_pairs_dh_args {
    const struct gpu_now *now;
    struct gpu_in q, dout;
    struct gpu_out dh;
    uint32_t D, cols, adds;
};

/* The number of keys of an example in the field of an attention_pool. */
struct attention_keys {
    const uint32_t *key_begin;
    uint32_t field, field_count;
};
/* Softmax over the first `keys` scores of T, zeros behind; a warp an example. */
struct attention_weights_args {
    const struct gpu_now *now;
    struct attention_keys keys;
    struct gpu_in scores;
    struct gpu_out weights;
    uint32_t T;
};
struct attention_sum_args {
    const struct gpu_now *now;
    struct attention_keys keys;
    struct gpu_in weights, h;
    struct gpu_out out;
    uint32_t D;
};
/* A warp an example; out.data NULL: without softmax. */
struct attention_dscores_args {
    const struct gpu_now *now;
    struct attention_keys keys;
    struct gpu_in weights, h, out, dout;
    struct gpu_out dscores;
    uint32_t D, T, adds;
};
struct attention_dh_args {
    const struct gpu_now *now;
    struct attention_keys keys;
    struct gpu_in weights, dout;
    struct gpu_out dh;
    uint32_t D, cols, adds;
};

#endif
