/* What gpu/cuda takes for granted of CUDA, held against the toolkit's own files where they are: the header of
 * cuBLASLt (types of calls, layouts, values of enumerations), the library itself, and the names that the
 * driver library exports, by the stub that programs are linked with. What is of the header is decided when
 * this is compiled. Needs no card and no driver. */
#include <dlfcn.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if __has_include(<cuda.h>) && __has_include(<cublasLt.h>)

#include <cublasLt.h>
#include <cuda.h>

#include "gpu/cuda/blaslt.h"

/* The types of our declarations are as wide as the library's, and in the same kind of register. */
#define SAME_SIZE(ours, theirs)                                                                                        \
    _Static_assert(sizeof(ours) == sizeof(theirs) && _Alignof(ours) == _Alignof(theirs), #theirs)
SAME_SIZE(lt_status, cublasStatus_t);
SAME_SIZE(lt_compute, cublasComputeType_t);
SAME_SIZE(lt_type, cudaDataType_t);
SAME_SIZE(lt_desc_which, cublasLtMatmulDescAttributes_t);
SAME_SIZE(lt_preference_which, cublasLtMatmulPreferenceAttributes_t);
SAME_SIZE(lt_handle, cublasLtHandle_t);
SAME_SIZE(lt_desc, cublasLtMatmulDesc_t);
SAME_SIZE(lt_layout, cublasLtMatrixLayout_t);
SAME_SIZE(lt_preference, cublasLtMatmulPreference_t);
SAME_SIZE(lt_algorithm, cublasLtMatmulAlgo_t);
SAME_SIZE(lt_way, cublasLtMatmulHeuristicResult_t);
#define IS_ADDRESS(type)                                                                                               \
    _Static_assert(__builtin_classify_type(*(type *)0) == __builtin_classify_type((void *)0), #type)
IS_ADDRESS(cublasLtHandle_t);
IS_ADDRESS(cublasLtMatmulDesc_t);
IS_ADDRESS(cublasLtMatrixLayout_t);
IS_ADDRESS(cublasLtMatmulPreference_t);

#define SAME_PLACE(ours, theirs)                                                                                       \
    _Static_assert(offsetof(lt_way, ours) == offsetof(cublasLtMatmulHeuristicResult_t, theirs), #theirs)
SAME_PLACE(algorithm, algo);
SAME_PLACE(workspace_bytes, workspaceSize);
SAME_PLACE(state, state);
SAME_PLACE(waves, wavesCount);

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
SAME(LT_OK, CUBLAS_STATUS_SUCCESS);
SAME(LT_INVALID_VALUE, CUBLAS_STATUS_INVALID_VALUE);
SAME(LT_ARCH_MISMATCH, CUBLAS_STATUS_ARCH_MISMATCH);
SAME(LT_NOT_SUPPORTED, CUBLAS_STATUS_NOT_SUPPORTED);
SAME(LT_TYPE_F32, CUDA_R_32F);
SAME(LT_TYPE_BF16, CUDA_R_16BF);
SAME(LT_COMPUTE_F32, CUBLAS_COMPUTE_32F);
SAME(LT_COMPUTE_F32_FAST_TF32, CUBLAS_COMPUTE_32F_FAST_TF32);
SAME(LT_OPERATION_TRANSPOSED, CUBLAS_OP_T);
SAME(LT_DESC_A_OPERATION, CUBLASLT_MATMUL_DESC_TRANSA);
SAME(LT_DESC_B_OPERATION, CUBLASLT_MATMUL_DESC_TRANSB);
SAME(LT_DESC_EPILOGUE, CUBLASLT_MATMUL_DESC_EPILOGUE);
SAME(LT_DESC_BIAS, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
SAME(LT_EPILOGUE_NONE, CUBLASLT_EPILOGUE_DEFAULT);
SAME(LT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU);
SAME(LT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BIAS);
SAME(LT_EPILOGUE_RELU | LT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS);
SAME(LT_WANT_WORKSPACE_BYTES, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME(LT_WANT_REDUCTIONS, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
SAME(LT_WANT_A_ALIGNMENT, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME(LT_WANT_A_ALIGNMENT + 1, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
SAME(LT_WANT_A_ALIGNMENT + 2, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
SAME(LT_WANT_A_ALIGNMENT + 3, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
SAME(LT_REDUCTION_NONE, CUBLASLT_REDUCTION_SCHEME_NONE);

/* The library itself, if there is one: what it says to attributes needs no card. */
static void attributes__as_ours__are_taken_by_the_library(void **state)
{
    (void)state;
    static struct {
#define BLAS_CALL(type, name, arguments) type(*name) arguments;
#include "gpu/cuda/blas.def"
#undef BLAS_CALL
    } calls;
    void *library = dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_LOCAL), *address;
    if (library == NULL) library = dlopen("libcublasLt.so.12", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        print_message("%s\n", dlerror());
        skip();
    }
#define BLAS_CALL(type, name, arguments)                                                                               \
    if ((address = dlsym(library, #name)) == NULL) fail_msg("the library lacks " #name);                               \
    memcpy(&calls.name, &address, sizeof address);
#include "gpu/cuda/blas.def"
#undef BLAS_CALL
    lt_desc desc;
    lt_layout layout;
    lt_preference preference;
    const int transposed = LT_OPERATION_TRANSPOSED, epilogue = LT_EPILOGUE_RELU | LT_EPILOGUE_BIAS;
    const void *bias = &calls;
    const uint64_t workspace_bytes = 1 << 20;
    const uint32_t reductions = LT_REDUCTION_NONE, alignment = 64;
    assert_int_equal(calls.cublasLtMatmulDescCreate(&desc, LT_COMPUTE_F32, LT_TYPE_F32), LT_OK);
#define TAKES(set, of, which, value) assert_int_equal(calls.set(of, which, &(value), sizeof(value)), LT_OK)
    TAKES(cublasLtMatmulDescSetAttribute, desc, LT_DESC_A_OPERATION, transposed);
    TAKES(cublasLtMatmulDescSetAttribute, desc, LT_DESC_B_OPERATION, transposed);
    TAKES(cublasLtMatmulDescSetAttribute, desc, LT_DESC_EPILOGUE, epilogue);
    TAKES(cublasLtMatmulDescSetAttribute, desc, LT_DESC_BIAS, bias);
    assert_int_equal(calls.cublasLtMatrixLayoutCreate(&layout, LT_TYPE_BF16, 64, 32, 72), LT_OK);
    assert_int_equal(calls.cublasLtMatmulPreferenceCreate(&preference), LT_OK);
    TAKES(cublasLtMatmulPreferenceSetAttribute, preference, LT_WANT_WORKSPACE_BYTES, workspace_bytes);
    TAKES(cublasLtMatmulPreferenceSetAttribute, preference, LT_WANT_REDUCTIONS, reductions);
    for (int which = 0; which < 4; which++)
        TAKES(cublasLtMatmulPreferenceSetAttribute, preference, LT_WANT_A_ALIGNMENT + which, alignment);
    assert_string_equal(calls.cublasLtGetStatusName(LT_NOT_SUPPORTED), "CUBLAS_STATUS_NOT_SUPPORTED");
    assert_int_equal(calls.cublasLtMatmulPreferenceDestroy(preference), LT_OK);
    assert_int_equal(calls.cublasLtMatrixLayoutDestroy(layout), LT_OK);
    assert_int_equal(calls.cublasLtMatmulDescDestroy(desc), LT_OK);
}

/* The calls, with the library's types in place of ours: each is the one that the header declares. */
#define lt_status           cublasStatus_t
#define lt_compute          cublasComputeType_t
#define lt_type             cudaDataType_t
#define lt_desc_which       cublasLtMatmulDescAttributes_t
#define lt_preference_which cublasLtMatmulPreferenceAttributes_t
#define lt_handle           cublasLtHandle_t
#define lt_desc             cublasLtMatmulDesc_t
#define lt_layout           cublasLtMatrixLayout_t
#define lt_preference       cublasLtMatmulPreference_t
#define lt_algorithm        cublasLtMatmulAlgo_t
#define lt_way              cublasLtMatmulHeuristicResult_t
#define BLAS_CALL(type, name, arguments)                                                                               \
    _Static_assert(__builtin_types_compatible_p(__typeof__(name), type arguments), #name);
#include "gpu/cuda/blas.def"
#undef BLAS_CALL

/* What tests/gpu/driver_start.c declares itself. */
_Static_assert(sizeof(CUdevice) == sizeof(int) && sizeof(CUresult) == sizeof(int), "calls without cuda.h");

#ifndef CUDA_STUB
#define CUDA_STUB "/usr/local/cuda/lib64/stubs/libcuda.so"
#endif

static void calls__every_one__is_exported_by_the_driver(void **state)
{
    (void)state;
    static const char *const names[] = {
#define TEXT_OF(name)   #name
#define CUDA_CALL(name) TEXT_OF(name),
#include "gpu/cuda/calls.def"
#undef CUDA_CALL
    };
    void *stub = dlopen(CUDA_STUB, RTLD_LAZY | RTLD_LOCAL);
    if (stub == NULL) {
        print_message("no %s\n", CUDA_STUB);
        skip();
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (dlsym(stub, names[i]) == NULL) fail_msg("the driver exports no %s", names[i]);
    assert_null(dlsym(stub, "cuMemAlloc_v9"));
    dlclose(stub);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(attributes__as_ours__are_taken_by_the_library),
                                       cmocka_unit_test(calls__every_one__is_exported_by_the_driver)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    puts("ok 1 - gpu/cuda # SKIP no cuda.h and cublasLt.h");
    return 77;
}

#endif
