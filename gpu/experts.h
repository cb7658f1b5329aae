/* Routed experts (graph/op_experts.c): choices, rows by expert, and sums; gpu/product.h has the products.
 * What graph/experts_frame.h names lies where it says, in the tensor that the op saves.
 *
 *     forward     choose ─▶ queue ─▶ begin ─▶ gather ─▶ runs_forward_… of each layer ─▶ outputs
 *     backward    gates ─▶ of each layer: f32_dweight_…, ranges_sum, runs_din_… ─▶ inputs ─▶ logits
 *
 * How many rows an expert has is known on the card alone; all grids are made for B * top rows. */
#ifndef HETERPS_GPU_EXPERTS_H
#define HETERPS_GPU_EXPERTS_H

#include "gpu/now.h"

#define ROUTED_NONE    0xffffffffu
#define ROUTED_THREADS 512u /* of routed_queue */

/* The experts of an example, in falling order of their logits, their gates, and the softmax over all. A warp
 * an example. */
struct routed_choose_args {
    const struct gpu_now *now;
    struct gpu_in logits;
    uint32_t *expert; /* [B, top] */
    float *gate, *p;  /* [B, top], [B, count] */
    uint32_t count, top;
};
/* The place of each choice among those of its expert, all first choices first; NONE: the expert was full. A
 * block an expert. */
struct routed_queue_args {
    const struct gpu_now *now;
    const uint32_t *expert;
    uint32_t *place; /* [B, top] */
    uint32_t *rows;  /* [experts]: how many an expert takes */
    float *load;
    uint32_t top, capacity;
};
/* An expert's first row. One warp. */
struct routed_begin_args {
    const struct gpu_now *now;
    const uint32_t *rows;
    uint32_t *begin; /* [count + 1] */
    uint32_t count;
};
/* Rows of choices, and the examples in them. A warp a choice. */
struct routed_gather_args {
    const struct gpu_now *now;
    struct gpu_in x;
    const uint32_t *expert, *place, *begin;
    uint32_t *row, *from;
    float *in; /* [rows, cols] */
    uint32_t cols, top;
};
/* The sum of an example's rows, each times its gate. */
struct routed_outputs_args {
    const struct gpu_now *now;
    const uint32_t *row;
    const float *gate, *rows; /* rows: [rows, cols] */
    struct gpu_out out;
    uint32_t cols, top;
};
/* The gradients of gates, and of the rows that they multiply, before their activation. A warp a choice. */
struct routed_gates_args {
    const struct gpu_now *now;
    struct gpu_in dout;
    const uint32_t *row;
    const float *gate, *out;
    float *dgate, *dz;
    uint32_t cols, top, activation;
};
/* The sum of the gradients of an example's rows. */
struct routed_inputs_args {
    const struct gpu_now *now;
    const uint32_t *row;
    const float *rows; /* [rows, cols] */
    struct gpu_out dx;
    uint32_t cols, top, adds;
};
/* The gradients of the gate's logits, with that of the load loss. A warp an example. */
struct routed_logits_args {
    const struct gpu_now *now;
    const uint32_t *expert;
    const float *gate, *dgate, *p, *load;
    const float *weight; /* of examples, or NULL */
    struct gpu_out dlogits;
    float balance;
    uint32_t count, top, adds;
};

#endif
