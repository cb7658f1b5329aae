/* CUDA's driver library, opened at run time: its calls, its errors as sentences, and a
 * card of it, for the files here. */
#ifndef HETERPS_GPU_CUDA_DRIVER_H
#define HETERPS_GPU_CUDA_DRIVER_H

#include <cuda.h>

#include "gpu/gpu.h"

struct cuda_calls {
#define CUDA_CALL(name) __typeof__(&name) name;
#include "gpu/cuda/calls.def"
#undef CUDA_CALL
};
/* Set by cuda_ready(). */
extern struct cuda_calls cuda_calls;

/* How many cards the driver has; opens it at the first call, from any thread. 0: *why is the reason. */
uint32_t cuda_ready(const char **why);

/* Kernels of one file of gpu, for all architectures (build.sh's). */
struct cuda_fatbin {
    const char *file;
    const void *image;
};
extern const struct cuda_fatbin cuda_fatbins[];
#define CUDA_FATBINS_MAX 32u
extern const uint32_t cuda_fatbin_count;
extern const char *const cuda_archs; /* "sm_80 sm_90" */

struct cuda_card {
    struct gpu gpu; /* first: a struct gpu * is a struct cuda_card * */
    uint32_t index;
    char name[128];
    CUdevice device;
    CUcontext context; /* the device's primary one */
    CUmodule module[CUDA_FATBINS_MAX];
    CUfunction kernel[GPU_KERNEL_COUNT];
};
struct gpu_stream {
    CUstream stream;
    const char *last; /* the stream's last work: errors are noticed later than they happen */
};

/* Records what a call returned, for which card and what;
 * returns MEMORY for CUDA_ERROR_OUT_OF_MEMORY, else SYSTEM. */
MUST_USE status cuda_fail(const struct cuda_card *c, const char *call, CUresult result, const char *format, ...)
    PRINTF_LIKE(4, 5);
/* CUDA_TRY(card, cuMemFree, (address), "giving back %s", what): passes a failure up. */
#define CUDA_TRY(card, call, arguments, ...)                                                                           \
    do {                                                                                                               \
        const CUresult result_ = cuda_calls.call arguments;                                                            \
        if (result_ != CUDA_SUCCESS) return cuda_fail(card, #call, result_, __VA_ARGS__);                              \
    } while (0)
/* Opens the card's context; `about`: for messages. MEMORY: other processes hold all of the card's memory. */
MUST_USE status cuda_retain(struct cuda_card *c, const char *about);
/* Makes the card the calling thread's: before every call that needs it. */
MUST_USE status cuda_enter(const struct cuda_card *c);
MUST_USE status cuda_attribute(const struct cuda_card *c, CUdevice_attribute which, uint32_t *value);

#endif
