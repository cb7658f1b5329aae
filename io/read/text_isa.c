/* The parsers' kernels by instruction set. */
#include "io/read/text_isa.h"

#include "engine/base/isa.h"

const struct text_kernels *text_kernels_of(const char *name)
{
    static const struct text_kernels *const all[ISA_IO_COUNT] = {&text_kernels_base, &text_kernels_avx2,
                                                                 &text_kernels_avx512};
    enum isa_io isa;
    return isa_io_find(name, &isa) ? all[isa] : NULL;
}
