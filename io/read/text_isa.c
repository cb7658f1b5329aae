/* Chooses the parsers' kernels by what the processor has. */
#include "io/read/text_isa.h"

#include <string.h>

static bool runs_here(const struct text_kernels *kernels)
{
    __builtin_cpu_init();
    if (kernels == &text_kernels_base) return true;
    bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    if (kernels == &text_kernels_avx2) return has_avx2;
    return has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("avx512vpopcntdq");
}

const struct text_kernels *text_kernels_of(const char *name)
{
    static const struct text_kernels *const all[] = {&text_kernels_avx512, &text_kernels_avx2, &text_kernels_base};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if ((!name || strcmp(name, all[i]->name) == 0) && runs_here(all[i])) return all[i];
    return NULL;
}
