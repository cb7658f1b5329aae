/* Products whose factors enter as bfloat16 (graph/op_fc.c says what is rounded and in which order terms are added). */
#ifndef HETERPS_ENGINE_CPU_ISA_PRODUCT_BF16_H
#define HETERPS_ENGINE_CPU_ISA_PRODUCT_BF16_H

#include "engine/cpu/isa/product.h"

/* Of a product of type PRODUCT_BF16: product_cut, product_pack_bytes, product_pack and product_piece of product.h. */
void KERNEL(product_bf16_cut)(struct product *p, uint32_t members);
void KERNEL(product_bf16_pack)(const struct product *p, uint32_t piece, void *scratch);
void KERNEL(product_bf16_piece)(const struct product *p, uint32_t piece, void *scratch);

#endif
