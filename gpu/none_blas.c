/* A program without cuBLASLt. Linked if nothing before it in the link has cuBLASLt (gpu/cuda/blas.c). */
#include "gpu/blas.h"

const char *gpu_blas_library(const char **why)
{
    *why = "this program is built without the CUDA side";
    return NULL;
}
status gpu_blas_open(struct gpu *gpu, struct gpu_blas **blas, const char **why)
{
    (void)gpu;
    *blas = NULL;
    (void)gpu_blas_library(why);
    return ST_OK;
}
