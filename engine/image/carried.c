/* The static program, which carries the image as bytes. The image is not packed: half of it are
 * kernels that are packed already, and only machines with a card ever touch its pages. build.sh knows
 * that this file depends on the image. */
#include "engine/image/image.h"

__asm__(".section .rodata.image,\"a\",@progbits\n"
        ".balign 4096\n"
        "image_begin: .incbin \"build/release/image\"\n"
        "image_end: .byte 0\n"
        ".text\n");
extern const uint8_t image_begin[], image_end[];

const struct image image = {IMAGE_CARRIED, image_begin, image_end};
