/* The table of ops, and the shapes of launches that many of them share. */
#include "gpu/ops.h"

#define GPU_OP(id) gpu_op_run gpu_##id##_forward, gpu_##id##_backward;
#include "gpu/ops.def"
#undef GPU_OP

const struct gpu_op gpu_op_table[OP_ID_COUNT] = {
#define GPU_OP(id) [OP_ID_##id] = {gpu_##id##_forward, gpu_##id##_backward},
#include "gpu/ops.def"
#undef GPU_OP
};

const char *const gpu_kernel_names[GPU_KERNEL_COUNT] = {
#define GPU_KERNEL(name) #name,
#include "gpu/kernels.def"
#undef GPU_KERNEL
};

#define BLOCK_THREADS 256u
#define GRID_Y_MAX    65535u

/* Threads of a block along the columns: as many as there are, at most all; the rest goes along the examples. */
static uint32_t width_of(uint32_t cols)
{
    uint32_t width = 1;
    while (width < cols && width < BLOCK_THREADS) width *= 2;
    return width;
}

status gpu_launch_each(const struct gpu_work *w, enum gpu_kernel kernel, uint32_t cols, const void *args, uint32_t args_bytes)
{
    const uint32_t width = width_of(cols), height = BLOCK_THREADS / width;
    uint32_t rows = (w->micro + height - 1) / height;
    if (cols == 0 || rows == 0) return ST_OK;
    if (rows > GRID_Y_MAX) rows = GRID_Y_MAX;
    return gpu_launch(w->gpu, w->stream, kernel, (struct gpu_dim){(cols + width - 1) / width, rows, 1},
                      (struct gpu_dim){width, height, 1}, args, args_bytes);
}

status gpu_launch_warps(const struct gpu_work *w, enum gpu_kernel kernel, const void *args, uint32_t args_bytes)
{
    const uint32_t warps = 8;
    uint32_t rows = (w->micro + warps - 1) / warps;
    if (rows == 0) return ST_OK;
    if (rows > GRID_Y_MAX) rows = GRID_Y_MAX;
    return gpu_launch(w->gpu, w->stream, kernel, (struct gpu_dim){1, rows, 1}, (struct gpu_dim){32, warps, 1}, args, args_bytes);
}
