/* Which instruction sets there are, which ones this processor has, and which one is taken. Two families of
 * kernels need different instructions, so each is compiled for sets of its own, and takes the best of these:
 *
 *     enum isa      arithmetic (engine/device/cpu/isa)          enum isa_io   keys and text (io/isa)
 *       base        what every x86-64 has (SSE2)                  base        the same
 *       avx2        AVX2, FMA                                     avx2        AVX2, BMI, BMI2
 *       avx512      these, AVX-512 F, BW, DQ, VL                  avx512      these, AVX-512 F, BW, DQ, VL, VBMI2,
 *                                                                             VPOPCNTDQ
 *       avx512bf16  these, AVX512_BF16
 *       amx         these, AMX_TILE, AMX_BF16
 *
 * avx2 is Haswell and later, Zen and later; avx512 of arithmetic Skylake-SP, of io Ice Lake, both Zen 4 and
 * later. Results of arithmetic depend on the set, so a user can choose it (--isa). The kernels of io give the
 * same bytes in every set; only tests choose one. */
#ifndef HETERPS_ENGINE_BASE_ISA_H
#define HETERPS_ENGINE_BASE_ISA_H

#include <stdbool.h>

enum isa { ISA_base, ISA_avx2, ISA_avx512, ISA_avx512bf16, ISA_amx, ISA_COUNT };
extern const char *const isa_names[ISA_COUNT + 1]; /* "base", "avx2", …, NULL */
bool isa_runs_here(enum isa isa);
enum isa isa_best(void);
/* The set of that name, whether or not it runs here; NULL: the best. False: there is none. */
bool isa_find(const char *name, enum isa *isa);

enum isa_io { ISA_IO_base, ISA_IO_avx2, ISA_IO_avx512, ISA_IO_COUNT };
extern const char *const isa_io_names[ISA_IO_COUNT + 1]; /* "base", "avx2", "avx512", NULL */
bool isa_io_runs_here(enum isa_io isa);
/* The set of that name; NULL: the best. False, and base: there is none, or it does not run here. */
bool isa_io_find(const char *name, enum isa_io *isa);

#endif
