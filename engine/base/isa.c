/* Asks the processor which instruction sets it has, a few times a start. */
#include "engine/base/isa.h"

#include <cpuid.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

const char *const isa_names[ISA_COUNT + 1] = {"base", "avx2", "avx512", "avx512bf16", "amx", NULL};
const char *const isa_io_names[ISA_IO_COUNT + 1] = {"base", "avx2", "avx512", NULL};

/* The parts of AVX-512 that both families need: all that Skylake-SP has. */
static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

/* Linux from 5.16 on gives a process its tiles when it asks, unless something between them refuses. All
 * threads then have tiles, and asking again changes nothing. */
#define REQUEST_STATE 0x1023 /* ARCH_REQ_XCOMP_PERM */
#define TILE_STATE    18     /* XFEATURE_XTILEDATA */
static bool has_amx(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & 1u << 22) || !(d & 1u << 24)) return false;
    return syscall(SYS_arch_prctl, REQUEST_STATE, TILE_STATE) == 0;
}

bool isa_runs_here(enum isa isa)
{
    __builtin_cpu_init();
    switch (isa) {
    case ISA_base: return true;
    case ISA_avx2: return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case ISA_avx512: return has_avx512() && isa_runs_here(ISA_avx2);
    case ISA_avx512bf16: return __builtin_cpu_supports("avx512bf16") && isa_runs_here(ISA_avx512);
    case ISA_amx: return isa_runs_here(ISA_avx512bf16) && has_amx();
    default: return false;
    }
}

enum isa isa_best(void)
{
    enum isa best = ISA_base;
    for (int isa = 0; isa < ISA_COUNT; isa++)
        if (isa_runs_here((enum isa)isa)) best = (enum isa)isa;
    return best;
}

bool isa_find(const char *name, enum isa *isa)
{
    *isa = name ? ISA_base : isa_best();
    while (name && *isa < ISA_COUNT && strcmp(name, isa_names[*isa]) != 0) ++*isa;
    return *isa < ISA_COUNT;
}

bool isa_io_runs_here(enum isa_io isa)
{
    __builtin_cpu_init();
    switch (isa) {
    case ISA_IO_base: return true;
    case ISA_IO_avx2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    case ISA_IO_avx512:
        return has_avx512() && __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("avx512vpopcntdq") &&
               isa_io_runs_here(ISA_IO_avx2);
    default: return false;
    }
}

bool isa_io_find(const char *name, enum isa_io *isa)
{
    for (int i = ISA_IO_COUNT - 1; i >= 0; i--) {
        *isa = (enum isa_io)i;
        if ((!name || strcmp(name, isa_io_names[i]) == 0) && isa_io_runs_here(*isa)) return true;
    }
    return false;
}
