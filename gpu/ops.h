/* How a card runs an op: for each, the launches of its forward and its backward pass. */
#ifndef HETERPS_GPU_OPS_H
#define HETERPS_GPU_OPS_H

#include "gpu/gpu.h"
#include "gpu/now.h"
#include "graph/op.h"

/* What every op is given besides its node. */
struct gpu_work {
    struct gpu *gpu;
    struct gpu_stream *stream;
    const struct gpu_now *now; /* in memory of the card */
    uint32_t micro;            /* most examples of a micro-batch: grids are made for them */
    const struct graph *graph;
};

/* Gives the stream the launches of one node (the forward node in both passes). All memory that the context names is the card's: what views,
 * batch and ticket point to; their shapes are the host's to read. */
typedef status gpu_op_run(const struct gpu_work *, const struct op_context *, const struct graph_node *);
struct gpu_op {
    gpu_op_run *forward, *backward; /* NULL: this op stays on the CPU */
};
extern const struct gpu_op gpu_op_table[OP_ID_COUNT];

static inline struct gpu_in gpu_in_of(struct view v) { return (struct gpu_in){v.data, v.stride}; }
static inline struct gpu_out gpu_out_of(struct view v) { return (struct gpu_out){v.data, v.stride}; }

/* Launches a kernel that goes over [B, cols] as gpu/each.h does. */
MUST_USE status gpu_launch_each(const struct gpu_work *w, enum gpu_kernel kernel, uint32_t cols, const void *args, uint32_t args_bytes);
#define GPU_EACH(w, kernel, cols, ...)                                                                                 \
    gpu_launch_each(w, GPU_KERNEL_##kernel, cols, &(const struct kernel##_args){.now = (w)->now, __VA_ARGS__},         \
                    sizeof(struct kernel##_args))
/* A warp an example. */
MUST_USE status gpu_launch_warps(const struct gpu_work *w, enum gpu_kernel kernel, const void *args, uint32_t args_bytes);
#define GPU_WARPS(w, kernel, ...)                                                                                      \
    gpu_launch_warps(w, GPU_KERNEL_##kernel, &(const struct kernel##_args){.now = (w)->now, __VA_ARGS__},              \
                     sizeof(struct kernel##_args))

#endif
