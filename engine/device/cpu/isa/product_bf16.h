/* Products whose factors enter as bfloat16 (graph/op_fc.c says what is rounded and in which order terms are added). */
#ifndef HETERPS_ENGINE_DEVICE_CPU_ISA_PRODUCT_BF16_H
#define HETERPS_ENGINE_DEVICE_CPU_ISA_PRODUCT_BF16_H

#include "engine/device/cpu/isa/tile.h"

/* What product_cut, product_pack and product_piece (product.h) do of a product of type PRODUCT_BF16 in
 * particular: sets pack_count, pack_panels and packed_floats; packs a piece; computes one. */
void KERNEL(product_bf16_cut)(struct product *p, uint32_t members);
void KERNEL(product_bf16_pack)(const struct product *p, uint32_t piece);
void KERNEL(product_bf16_piece)(const struct product *p, struct product_place at, void *scratch);

/* Rows that are multiplied at a time: a piece begins at a multiple of them. */
#define BF16_ROWS (HAS_TILES ? 32u : TILE)

/* --- among its files -------------------------------------------------------------------------- */

/* Terms of a product: [begin, begin + count) of group `group`. */
struct terms {
    uint32_t group, begin, count;
    bool is_first, is_last;
};

/* Where a piece's arrays are in its scratch. Sums that wait: tile after tile, of each all panels. */
struct bf16_arrays {
    float *waiting, *left, *tile;
    vf *col_sums; /* of a piece that packs the right factor itself; or NULL */
};

/* Rows x columns `at`, of one group, by one block of terms: block_bf16.c, or block_amx.c where there are tiles. */
void KERNEL(product_bf16_block)(const struct product *p, struct product_place at, struct terms of,
                                const struct bf16_arrays *to);

#endif
