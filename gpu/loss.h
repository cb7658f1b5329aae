/* Losses, metrics, and softmax. */
#ifndef HETERPS_GPU_LOSS_H
#define HETERPS_GPU_LOSS_H

#include "gpu/now.h"

/* Losses of two numbers an example. */
enum pair_loss { PAIR_BCE, PAIR_SQUARED, PAIR_HINGE };
struct pair_loss_forward_args {
    const struct gpu_now *now;
    struct gpu_in x, y;
    const float *weight; /* of examples, or NULL */
    struct gpu_out out;
    uint32_t kind;
    float scale, margin;
};
/* Gradients of x and y; data NULL: nobody wants this one. */
struct pair_loss_backward_args {
    const struct gpu_now *now;
    struct gpu_in x, y;
    const float *weight;
    struct gpu_out dx, dy;
    uint32_t kind, x_adds, y_adds;
    float scale, margin;
};
/* -log of the target's part of softmax(x - log_q), over columns that are no accidental hits.
 * Without log_q: of softmax(x), and the label names the target. Saves loss, greatest and sum
 * (graph/op.h). A warp an example. */
struct log_loss_forward_args {
    const struct gpu_now *now;
    struct gpu_in x, log_q, label;
    const float *weight;
    struct gpu_out saved, out;
    uint32_t cols;
    float scale;
};
struct log_loss_backward_args {
    const struct gpu_now *now;
    struct gpu_in x, log_q, label, saved;
    const float *weight;
    struct gpu_out dx;
    uint32_t cols, adds;
    float scale;
};
/* Cross-entropy at each node of an example's tree, summed over the nodes. words: [B, nodes], the class of
 * each place, which kernels get from the host. Forward a warp an example. */
#define NODE_NONE    0xffffffffu /* the node has no number, or there is no node */
#define NODE_STRANGE 0xfffffffeu /* its number is no class */
struct node_loss_forward_args {
    const struct gpu_now *now;
    struct gpu_in x;
    const uint32_t *words;
    const float *weight;
    struct gpu_out saved, out;
    uint32_t nodes, classes;
    float scale;
};
struct node_loss_backward_args {
    const struct gpu_now *now;
    struct gpu_in x;
    const uint32_t *words;
    const float *weight;
    struct gpu_out dx;
    uint32_t nodes, classes, adds;
    float scale;
};
/* nce: log_k = log(negatives) + log_z. Forward a warp an example. */
struct nce_forward_args {
    const struct gpu_now *now;
    struct gpu_in x, log_q;
    const float *weight;
    struct gpu_out saved, out;
    uint32_t cols, corrects;
    float scale, log_k;
};
struct nce_backward_args {
    const struct gpu_now *now;
    struct gpu_in x, log_q;
    const float *weight;
    struct gpu_out dx;
    uint32_t cols, corrects, adds;
    float scale, log_k;
};
/* The rank of one target among an example's scores, and its value (graph/metric.c). With a label the
 * target is the class that it names, or with one column the sign; else column 0, or the score
 * against `also`. A warp an example. */
enum metric_kind { METRIC_ACCURACY, METRIC_HIT_RATE, METRIC_NDCG };
struct metric_rank_args {
    const struct gpu_now *now;
    struct gpu_in scores, also; /* the label, log_q or other scores; data NULL: absent */
    struct gpu_out out;
    uint32_t cols, kind, k, has_label;
};
/* Over each of `groups` runs of `cols` columns. A warp an example. */
struct softmax_forward_args {
    const struct gpu_now *now;
    struct gpu_in in;
    struct gpu_out out;
    uint32_t cols, groups;
};
struct softmax_backward_args {
    const struct gpu_now *now;
    struct gpu_in out, dout;
    struct gpu_out din;
    uint32_t cols, groups, adds;
};

#endif
