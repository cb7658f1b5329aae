/* Products whose factors enter as bfloat16 (graph/op_fc.c says what is rounded and in
 * which order terms are added). */
#ifndef HETERPS_ENGINE_DEVICE_CPU_ISA_BF16_PRODUCT_BF16_H
#define HETERPS_ENGINE_DEVICE_CPU_ISA_BF16_PRODUCT_BF16_H

#include "engine/device/cpu/isa/tile.h"

/* SET_KERNEL(product_bf16_block) is product_bf16_block_amx in the compilation for amx. KERNEL names the
 * compilation for the set's vectors, as elsewhere. */
#define SET_KERNEL(name) KERNEL_EXPAND(name, ISA)

#define BF16_ROWS        (HAS_TILES ? 32u : TILE)                      /* bf16_products.rows */
#define BF16_COLS        (HAS_TILES ? PRODUCT_COLS : 2 * PRODUCT_COLS) /* bf16_products.cols */

/* Terms of a product: [begin, begin + count) of group `group`. */
struct terms {
    uint32_t group, begin, count;
    bool is_first, is_last;
};

/* A piece's arrays in its scratch. Sums that wait lie tile after tile, each with all panels. */
struct bf16_arrays {
    float *waiting, *left, *tile;
    vf *col_sums; /* of a piece that packs the right factor itself; or NULL */
};

/* Multiplies rows x columns `at`, of one group, by one block of terms: block_bf16.c,
 * or with tiles block_amx.c. */
void SET_KERNEL(product_bf16_block)(const struct product *p, struct product_place at, struct terms of,
                                    const struct bf16_arrays *to);
/* bf16_products.pairs_are_faster, in the same two files. */
bool SET_KERNEL(bf16_pairs_are_faster)(void);

#endif
