/* The static program, with the image as bytes of it: not packed, for half of it are kernels that are packed
 * already, and only those who have a card ever touch these pages. build.sh knows that this file is made of it. */
#include "engine/image/image.h"

__asm__(".section .rodata.image,\"a\",@progbits\n"
        ".balign 4096\n"
        "image_begin: .incbin \"build/release/image\"\n"
        "image_end: .byte 0\n"
        ".text\n");
extern const uint8_t image_begin[], image_end[];

const struct image image = {IMAGE_CARRIED, image_begin, image_end};
