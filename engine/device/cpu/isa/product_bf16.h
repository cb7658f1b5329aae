/* Products whose factors enter as bfloat16 (graph/op_fc.c says what is rounded and in which order terms are added). */
#ifndef HETERPS_ENGINE_DEVICE_CPU_ISA_PRODUCT_BF16_H
#define HETERPS_ENGINE_DEVICE_CPU_ISA_PRODUCT_BF16_H

#include "engine/device/cpu/isa/product.h"

/* What product_cut, product_pack and product_piece (product.h) do of a product of type PRODUCT_BF16 in particular: sets pack_count, pack_panels and
 * packed_floats; packs a piece; computes one. */
void KERNEL(product_bf16_cut)(struct product *p, uint32_t members);
void KERNEL(product_bf16_pack)(const struct product *p, uint32_t piece);
void KERNEL(product_bf16_piece)(const struct product *p, struct product_place at, void *scratch);

#endif
