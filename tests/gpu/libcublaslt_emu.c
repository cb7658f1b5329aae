/* Stands in for cuBLASLt in tests: its calls (gpu/cuda/blas.def) over memory of the stand-in for CUDA's
 * driver, which is the host's. Strict about what it is given: column-major shapes that fit together, float32
 * results, no sums in parts, a bias that is 16-byte aligned; for a result of one row it has no way, and for
 * one of two columns none that does. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

enum { OK, NOT_INITIALIZED = 1, INVALID_VALUE = 7, NOT_SUPPORTED = 15 };

struct desc {
    bool is_tf32, is_transposed[2];
    int epilogue;
    const float *bias;
};
struct layout {
    int type;
    uint64_t rows, cols;
    int64_t stride;
};
struct preference {
    uint64_t workspace_bytes;
    uint32_t reductions, alignment[4];
};
struct way {
    uint64_t algorithm[8];
    size_t workspace_bytes;
    int state;
    float waves;
    int reserved[4];
};

#define EXPORT(type, name, ...)                                                                                        \
    __attribute__((visibility("default"))) type name(__VA_ARGS__);                                                     \
    type name(__VA_ARGS__)

EXPORT(size_t, cublasLtGetVersion, void) { return 130200; }
EXPORT(const char *, cublasLtGetStatusName, int status)
{
    return status == INVALID_VALUE   ? "CUBLAS_STATUS_INVALID_VALUE"
           : status == NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED"
                                     : "CUBLAS_STATUS_OTHER";
}
static CUresult (*stream_finish)(CUstream);
EXPORT(int, cublasLtCreate, void **handle)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *address = driver ? dlsym(driver, "cuStreamSynchronize") : NULL;
    if (address == NULL) return NOT_INITIALIZED;
    memcpy(&stream_finish, &address, sizeof address);
    *handle = malloc(1);
    return OK;
}
EXPORT(int, cublasLtDestroy, void *handle)
{
    free(handle);
    return OK;
}

EXPORT(int, cublasLtMatmulDescCreate, void **desc, int compute_type, int scale_type)
{
    struct desc *d = calloc(1, sizeof *d);
    d->epilogue = 1;
    d->is_tf32 = compute_type == 77;
    *desc = d;
    return (compute_type == 68 || d->is_tf32) && scale_type == 0 ? OK : INVALID_VALUE;
}
EXPORT(int, cublasLtMatmulDescDestroy, void *desc)
{
    free(desc);
    return OK;
}
EXPORT(int, cublasLtMatmulDescSetAttribute, void *desc, int which, const void *value, size_t bytes)
{
    struct desc *d = desc;
    const int *number = value;
    if (which == 8 && bytes == sizeof d->bias)
        memcpy(&d->bias, value, bytes);
    else if ((which == 3 || which == 4) && bytes == sizeof *number && *number <= 1)
        d->is_transposed[which - 3] = *number == 1;
    else if (which == 7 && bytes == sizeof *number && *number >= 1 && *number <= 6)
        d->epilogue = *number;
    else
        return INVALID_VALUE;
    return OK;
}

EXPORT(int, cublasLtMatrixLayoutCreate, void **layout, int type, uint64_t rows, uint64_t cols, int64_t stride)
{
    struct layout *l = malloc(sizeof *l);
    *l = (struct layout){type, rows, cols, stride};
    *layout = l;
    return (uint64_t)stride >= rows ? OK : INVALID_VALUE;
}
EXPORT(int, cublasLtMatrixLayoutDestroy, void *layout)
{
    free(layout);
    return OK;
}

EXPORT(int, cublasLtMatmulPreferenceCreate, void **preference)
{
    *preference = calloc(1, sizeof(struct preference));
    ((struct preference *)*preference)->reductions = 7;
    return OK;
}
EXPORT(int, cublasLtMatmulPreferenceDestroy, void *preference)
{
    free(preference);
    return OK;
}
EXPORT(int, cublasLtMatmulPreferenceSetAttribute, void *preference, int which, const void *value, size_t bytes)
{
    struct preference *p = preference;
    if (which == 1 && bytes == 8)
        memcpy(&p->workspace_bytes, value, bytes);
    else if (which == 3 && bytes == 4)
        memcpy(&p->reductions, value, bytes);
    else if (which >= 5 && which <= 8 && bytes == 4)
        memcpy(&p->alignment[which - 5], value, bytes);
    else
        return INVALID_VALUE;
    return OK;
}

static bool is_aligned(const void *at, uint32_t alignment) { return alignment && (uintptr_t)at % alignment == 0; }
static bool fits(const struct desc *d, const struct layout *a, const struct layout *b, const struct layout *to)
{
    const uint64_t rows = d->is_transposed[0] ? a->cols : a->rows, terms = d->is_transposed[0] ? a->rows : a->cols,
                   terms_b = d->is_transposed[1] ? b->cols : b->rows, cols = d->is_transposed[1] ? b->rows : b->cols;
    const int type = d->is_tf32 ? 0 : 14;
    return a->type == type && b->type == type && to->type == 0 && rows == to->rows && cols == to->cols &&
           terms == terms_b;
}

EXPORT(int, cublasLtMatmulAlgoGetHeuristic, void *handle, void *desc, void *a, void *b, void *c, void *d,
       void *preference, int wanted, struct way *ways, int *found)
{
    const struct preference *p = preference;
    (void)handle;
    *found = 0;
    if (c != d || wanted != 1 || !fits(desc, a, b, d) || p->reductions != 0 || p->alignment[0] != 256)
        return INVALID_VALUE;
    if (((struct layout *)d)->rows == 1) return NOT_SUPPORTED;
    *ways = (struct way){.algorithm = {p->workspace_bytes, p->alignment[3]}, .workspace_bytes = p->workspace_bytes};
    *found = 1;
    return OK;
}

static float number_at(const void *memory, const struct layout *l, uint64_t row, uint64_t col, bool is_transposed)
{
    const uint64_t at = is_transposed ? row * (uint64_t)l->stride + col : col * (uint64_t)l->stride + row;
    const uint32_t bits =
        l->type == 0 ? ((const uint32_t *)memory)[at] & 0xffffe000u : (uint32_t)((const uint16_t *)memory)[at] << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

EXPORT(int, cublasLtMatmul, void *handle, void *desc, const void *alpha, const void *a, void *a_layout, const void *b,
       void *b_layout, const void *beta, const void *c, void *c_layout, void *d, void *d_layout, const void *algorithm,
       void *workspace, size_t workspace_bytes, CUstream stream)
{
    const struct desc *how = desc;
    const struct layout *left = a_layout, *right = b_layout, *to = d_layout;
    const uint64_t *way = algorithm, terms = how->is_transposed[0] ? left->rows : left->cols;
    float *result = d;
    (void)handle;
    if (c != d || c_layout != d_layout || *(const float *)alpha != 1 || !fits(how, left, right, to) ||
        !is_aligned(a, 256) || !is_aligned(b, 256) || !is_aligned(d, (uint32_t)way[1]) || workspace_bytes < way[0] ||
        !is_aligned(workspace, 16) || (how->epilogue & 4 && (how->bias == NULL || !is_aligned(how->bias, 16))))
        return INVALID_VALUE;
    if (to->cols == 2) return NOT_SUPPORTED;
    if (stream_finish(stream) != CUDA_SUCCESS) return INVALID_VALUE; /* what the emulated card was given before */
    memset(workspace, 0xff, workspace_bytes);
    for (uint64_t col = 0; col < to->cols; col++)
        for (uint64_t row = 0; row < to->rows; row++) {
            float *at = &result[col * (uint64_t)to->stride + row], sum = 0;
            for (uint64_t t = 0; t < terms; t++)
                sum += number_at(a, left, row, t, how->is_transposed[0]) *
                       number_at(b, right, t, col, how->is_transposed[1]);
            if (*(const float *)beta != 0) sum += *(const float *)beta * *at;
            if (how->epilogue & 4) sum += how->bias[row];
            *at = how->epilogue & 2 && sum < 0 ? 0 : sum;
        }
    return OK;
}
