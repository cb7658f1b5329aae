/* A product of two matrices, cut into pieces for a team, and the end of its sums:
 * bias, activation, slope, adding.
 *
 *     result [rows, cols] = end(left [rows, terms]  right [terms, cols])       all row-major or transposed, any strides
 *
 * Groups are strided parts of the whole: each has rows of its own (row_groups), or terms of its own that add
 * to the same sums (term_groups). One of the two counts is 1.
 *
 * An element's terms are added in one order that depends on the sizes and on the instruction set alone: never
 * on pieces, members or groups of rows. So the bytes are the same for any team.
 *
 * Both factors enter as float32. With `bf16`, packing rounds them and other functions multiply them
 * (bf16/product_bf16.c); cutting, groups and ends are shared. Sums are float32. */
#ifndef HETERPS_ENGINE_DEVICE_CPU_ISA_PRODUCT_H
#define HETERPS_ENGINE_DEVICE_CPU_ISA_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/device/cpu/isa/vec.h"
#include "engine/device/cpu/kernels.h"
#include "graph/op.h"

/* The end of a finished sum s of row r and column c:
 *     ACTIVATES   result = activation(s + bias[c])
 *     SLOPES      result = s * activation'(output[r, c]), added to the result if `adds`
 *     ADDS        result += s                                                                     */
enum product_end { PRODUCT_ACTIVATES, PRODUCT_SLOPES, PRODUCT_ADDS };

struct product {
    const struct bf16_products *bf16; /* or NULL: in float32                                              */
    enum product_end end;
    uint32_t rows, cols, terms;       /* of a group                                                         */
    uint32_t row_groups, term_groups; /* one of them is 1                                             */
    const float *left;                /* element (r, t) at r * left_row + t * left_term: one of them is 1   */
    size_t left_row, left_term, left_group;
    const float *right;                        /* element (t, c) at t * right_term + c * right_col: one of them is 1 */
    size_t right_term, right_col, right_group; /* right_group: from one group of terms to the next          */
    float *result;
    size_t result_row, result_group;
    /* the end */
    const float *bias;          /* ACTIVATES: [cols], or NULL                                         */
    enum activation activation; /* ACTIVATES, SLOPES; ACT_NONE: none                                  */
    float slope;                /* of leaky_relu                                                      */
    const float *output;        /* SLOPES: what the activation gave                                   */
    size_t output_row, output_group;
    bool adds; /* SLOPES */
    /* ADDS: terms of each lane, where 2, 4, … lanes lie side by side (graph_lanes_join), at most
     * GRAPH_MICRO_USUAL terms in all; the lanes' sums are added along a tree. 0: there is one lane. */
    uint32_t lane_terms;
    float *col_sums;    /* right_col 1: sums of the right factor's columns over all terms are added here; or NULL */
    uint64_t number;    /* F32: given to no other product that finds the same scratch */
    const float *whole; /* F32, not ADDS: the right factor as product_whole_pack() has packed it; or NULL */
    /* set by product_cut() */
    uint32_t piece_count;
    uint32_t piece_cols, piece_groups, col_chunks, row_chunks;
    uint32_t units, share_units; /* of rows and groups: all, and most that a member has for its own */
    bool keeps;                  /* F32: whether what a piece has packed is left for the next; BF16: members > 1 */
    /* BF16 */
    bool is_pairs;        /* cpu_work.bf16_pairs                                                                 */
    uint32_t pack_count;  /* pieces of packing: of the right factor, then of the left one; F32: 0 */
    uint32_t right_packs; /* of these, the right factor's; 0: each piece packs the blocks that it multiplies */
    uint32_t pack_panels; /* of a piece of packing, most */
    size_t left_at;       /* of packed: where the left factor begins, if it is packed before */
    size_t packed_floats;
    float *packed; /* [packed_floats], 64-byte aligned: set between product_cut() and product_pack()        */
};

/* Cuts the product into piece_count pieces for a team of `members`, and the packing
 * before into pack_count pieces. */
void KERNEL(product_cut)(struct product *p, uint32_t members);
/* Packs a piece. All pieces are packed before the first product_piece(). */
void KERNEL(product_pack)(const struct product *p, uint32_t piece);
/* Packs a right factor once for all F32 products that share it: product_whole_pieces() pieces fill
 * `whole`, of product_whole_floats() (kernels.h). The products' rows do not matter, and their
 * bytes are the same as without it. */
uint32_t KERNEL(product_whole_pieces)(const struct product *p);
void KERNEL(product_whole_pack)(const struct product *p, float *whole, uint32_t piece);
/* Computes a piece. scratch: CPU_SCRATCH_BYTES, as team_work's. */
void KERNEL(product_piece)(const struct product *p, uint32_t piece, void *scratch);
/* Brings finished sums [rows, 2 VF] to their end: of rows [row_begin, row_begin + rows) of a group of rows,
 * and of the panel from column col on. */
void KERNEL(product_finish)(const struct product *p, uint32_t group, const float *sums, uint32_t row_begin,
                            uint32_t rows, uint32_t col);

#endif
