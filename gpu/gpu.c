/* Shared by all kinds of cards: the names of kernels, and the reasons why cards, or cuBLASLt, are denied. */
#include "gpu/gpu.h"

#include "gpu/blas.h"
#include "gpu/product.h"

#include <stdio.h>

const char *const gpu_kernel_names[GPU_KERNEL_COUNT] = {
#define GPU_KERNEL(name) #name,
#include "gpu/kernels.def"
#undef GPU_KERNEL
};

const uint32_t gpu_kernel_large_bytes[GPU_KERNEL_COUNT] = {
#define GPU_KERNEL(name)
#define GPU_KERNEL_LARGE(name, bytes) [GPU_KERNEL_##name] = bytes,
#include "gpu/kernels.def"
#undef GPU_KERNEL
};

static char denied[GPU_WHY_BYTES];

void gpu_deny(const char *why) { snprintf(denied, sizeof denied, "%s", why); }
const char *gpu_denied(void) { return *denied ? denied : NULL; }

static bool blas_is_denied;

void gpu_blas_deny(void) { blas_is_denied = true; }
bool gpu_blas_is_denied(void) { return blas_is_denied; }
