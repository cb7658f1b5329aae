/* samples/NAME.cfg, each at a symbol. build.sh knows that this file depends on them. */
#include "engine/bench/samples.h"

#include <stddef.h>
#include <string.h>

__asm__(".section .rodata\n"
        "sample_ctrdnn:  .incbin \"samples/ctrdnn.cfg\"\n .byte 0\n"
        "sample_ctrdnn1: .incbin \"samples/ctrdnn1.cfg\"\n .byte 0\n"
        "sample_ctrdnn2: .incbin \"samples/ctrdnn2.cfg\"\n .byte 0\n"
        "sample_dcnv2:   .incbin \"samples/dcnv2.cfg\"\n .byte 0\n"
        ".text\n");
extern const char sample_ctrdnn[], sample_ctrdnn1[], sample_ctrdnn2[], sample_dcnv2[];

static const char *const sample_names[] = {"ctrdnn", "ctrdnn1", "ctrdnn2", "dcnv2", NULL};
static const char *const texts[] = {sample_ctrdnn, sample_ctrdnn1, sample_ctrdnn2, sample_dcnv2};

const char *sample_text(const char *name)
{
    for (size_t i = 0; sample_names[i]; i++)
        if (strcmp(sample_names[i], name) == 0) return texts[i];
    return NULL;
}
