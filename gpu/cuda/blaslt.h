/* The part of cuBLASLt's interface that gpu/cuda/blas.c uses, from its documentation since version 11.4: its
 * headers are not needed. tests/gpu/test_abi.c compares it with the header where there is one. */
#ifndef HETERPS_GPU_CUDA_BLASLT_H
#define HETERPS_GPU_CUDA_BLASLT_H

#include <stddef.h>
#include <stdint.h>

/* The types in blas.def: enumerations are int, handles addresses. */
typedef int lt_status, lt_compute, lt_type, lt_desc_which, lt_preference_which;
typedef void *lt_handle, *lt_desc, *lt_layout, *lt_preference;
typedef struct {
    uint64_t words[8];
} lt_algorithm;
typedef struct {
    lt_algorithm algorithm;
    size_t workspace_bytes;
    lt_status state;
    float waves;
    int reserved[4];
} lt_way;

/* Values of its enumerations. */
enum {
    LT_OK = 0,
    LT_INVALID_VALUE = 7,
    LT_ARCH_MISMATCH = 8,
    LT_NOT_SUPPORTED = 15,
    LT_TYPE_F32 = 0,
    LT_TYPE_BF16 = 14,
    LT_COMPUTE_F32 = 68,
    LT_COMPUTE_F32_FAST_TF32 = 77, /* float32 factors are rounded or not; TF32 factors stay as they are */
    LT_OPERATION_TRANSPOSED = 1,
    LT_DESC_A_OPERATION = 3,
    LT_DESC_B_OPERATION = 4,
    LT_DESC_EPILOGUE = 7,
    LT_DESC_BIAS = 8, /* of the result's type, unless another is set */
    LT_EPILOGUE_NONE = 1,
    LT_EPILOGUE_RELU = 2,
    LT_EPILOGUE_BIAS = 4,
    LT_WANT_WORKSPACE_BYTES = 1,
    LT_WANT_REDUCTIONS = 3,
    LT_WANT_A_ALIGNMENT = 5, /* the next ones are B, C and D */
    LT_REDUCTION_NONE = 0
};

#endif
