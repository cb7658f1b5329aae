/* The kernels as nvcc has compiled them, each file of gpu for all architectures, as bytes of the program.
 * build.sh lists them, and knows that this file is made of them. */
#include "gpu/cuda/driver.h"

#define FATBIN(name, path)                                                                                             \
    extern const char fatbin_##name[];                                                                                 \
    __asm__(".section .rodata\n .balign 64\nfatbin_" #name ": .incbin \"" path "\"\n .text\n");
#include "fatbins.def"
#undef FATBIN

const struct cuda_fatbin cuda_fatbins[] = {
#define FATBIN(name, path) {"gpu/" #name ".cu", fatbin_##name},
#include "fatbins.def"
#undef FATBIN
};
const char *const cuda_archs = GPU_ARCHS;
const uint32_t cuda_fatbin_count = sizeof cuda_fatbins / sizeof *cuda_fatbins;
_Static_assert(sizeof cuda_fatbins / sizeof *cuda_fatbins <= CUDA_FATBINS_MAX,
               "room for all modules in struct cuda_card");
