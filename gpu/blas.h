/* Products by NVIDIA's cuBLASLt, where it is installed: opened at run time, never needed
 * (gpu/product.c has kernels for everything). */
#ifndef HETERPS_GPU_BLAS_H
#define HETERPS_GPU_BLAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

struct gpu;
struct gpu_stream;
struct gpu_blas;

/* result = or += left [rows, terms] right [terms, cols], with bfloat16 or TF32 factors and float32 sums; all
 * row-major, strides are in elements. Then bias is added to each row, and negative sums become 0. */
struct gpu_blas_product {
    const void *left, *right;
    float *result;
    const float *bias; /* [cols], or NULL; not used unless 16-byte aligned */
    uint32_t left_stride, right_stride, result_stride;
    uint32_t rows, cols, terms;
    bool left_is_transposed; /* it lies as [terms, rows] */
    bool right_is_transposed;
    bool is_tf32; /* factors are float32 that are TF32, else bfloat16 */
    bool is_relu; /* a NaN may become 0 */
    bool adds;
    void *workspace; /* of the stream, 256-byte aligned */
    size_t workspace_bytes;
};

struct gpu_blas_vt {
    /* Gives the stream the product. *is_taken false: the library has no way for it, and nothing was given.
     * The way is chosen once for a shape, so that the bits are the same every time; ways that add parts in
     * the order in which they end are ruled out. Any thread. */
    status (*multiply)(struct gpu_blas *, struct gpu_stream *, const struct gpu_blas_product *, bool *is_taken);
    void (*close)(struct gpu_blas *);
};
struct gpu_blas {
    const struct gpu_blas_vt *vt;
};

/* From now on gpu_blas_open finds no library. Before threads. */
void gpu_blas_deny(void);
bool gpu_blas_is_denied(void);
/* The library's name and version, or NULL, with the reason in *why. Kept by the callee. */
const char *gpu_blas_library(const char **why);
/* Opens it for a card; *blas NULL: there is none, with the reason in *why, until the thread's next call. */
MUST_USE status gpu_blas_open(struct gpu *gpu, struct gpu_blas **blas, const char **why);
/* NULL is ignored. Before the card is closed. */
static inline void gpu_blas_close(struct gpu_blas *blas)
{
    if (blas != NULL) blas->vt->close(blas);
}

#endif
