/* A source of this folder is compiled once for each instruction set, with ISA defined as its name:
 * KERNEL(name) is name_avx2 in the compilation for avx2. */
#ifndef HETERPS_IO_ISA_KERNEL_NAME_H
#define HETERPS_IO_ISA_KERNEL_NAME_H

#define PASTE(name, isa)  name##_##isa
#define EXPAND(name, isa) PASTE(name, isa)
#define KERNEL(name)      EXPAND(name, ISA)
#define ALWAYS_INLINE     static inline __attribute__((always_inline))

#endif
