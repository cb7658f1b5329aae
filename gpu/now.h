/* Micro-batches and tensors as kernels see them. Numbers that differ between micro-batches lie in memory of
 * the card, so that a captured list of launches can be replayed for every micro-batch. */
#ifndef HETERPS_GPU_NOW_H
#define HETERPS_GPU_NOW_H

#include <stdint.h>

struct gpu_now {
    uint32_t example_count; /* of the micro-batch                        */
    uint32_t example_begin; /* number of its first example within the step */
    uint32_t key_count;
    uint32_t training; /* 0 or 1 */
    uint64_t step;
    uint32_t unique_count[]; /* [table] */
};

#define EACH_THREADS 256u /* threads of a block of gpu_launch_each */
#define EACH_ROWS    4u   /* examples that a thread takes at a time in kernels of GPU_EACH_ROWS */

/* [B, cols], stride floats from row to row; data NULL: absent. */
struct gpu_in {
    const float *data;
    uint32_t stride;
};
struct gpu_out {
    float *data;
    uint32_t stride;
};

#endif
