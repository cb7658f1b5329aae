/* Products of matrices in bfloat16, sums in float32: the right factor is packed once a product (pack_bf16.h),
 * with tiles the left one, too (strip_amx.h), then pieces multiply, block after block of terms.
 *
 *     piece: rows x columns        for each group of its rows
 *                                      for as many rows as there is room for sums that wait
 *                                          for each block of BLOCK_STEPS steps: block_bf16.c, or block_amx.c by the
 *                                          matrix unit
 *
 * An element's terms are one chain of additions from zero, whatever the block: sums wait in the
 * piece's scratch for the next block. */
#include "engine/device/cpu/isa/bf16/product_bf16.h"

#include "engine/device/cpu/isa/bf16/pack_bf16.h"
#include "engine/device/cpu/isa/bf16/strip_amx.h"

static void col_sums_add(float *to, const vf *col_sums, uint32_t cols)
{
    for (uint32_t c = 0; c < cols; c += VF, to += VF)
        vf_store_upto(to, vf_load_upto(to, cols - c) + col_sums[c / VF], cols - c);
}

static void right_pack_piece(const struct product *p, uint32_t piece)
{
    uint32_t col = piece * p->pack_panels * PANEL;
    uint32_t cols = p->cols - col < p->pack_panels * PANEL ? p->cols - col : p->pack_panels * PANEL;
    vf sums[2 * PACK_PANELS] = {{0}};
    struct terms of = terms_at(p, 0, 0);
    for (;; of = terms_after(p, of)) {
        right_pack_any(p, of, col, cols, right_packed(p, of, col), panel_words_of(p, of),
                       p->col_sums != NULL ? sums : NULL);
        if (of.is_last) break;
    }
    if (p->col_sums != NULL) col_sums_add(p->col_sums + col, sums, cols);
}

#if HAS_TILES
/* Rows of a piece of packing: where they lie side by side, half a KiB of each term. */
#define LEFT_PACK_ROWS (4 * BF16_ROWS)
static uint32_t left_packs(const struct product *p)
{
    return p->row_groups * ((p->rows + LEFT_PACK_ROWS - 1) / LEFT_PACK_ROWS);
}

static void left_pack_piece(const struct product *p, uint32_t piece)
{
    uint32_t each = left_packs(p) / p->row_groups, group = piece / each, row = piece % each * LEFT_PACK_ROWS,
             rows = p->rows - row < LEFT_PACK_ROWS ? p->rows - row : LEFT_PACK_ROWS;
    struct terms of = terms_at(p, 0, 0);
    for (;; of = terms_after(p, of)) {
        const float *left = p->left + (group + of.group) * p->left_group + row * p->left_row + of.begin * p->left_term;
        strips_pack(p, of, left, rows, strip_packed(p, group, of, row));
        if (of.is_last) break;
    }
}
#endif

static void pack(const struct product *p, uint32_t piece)
{
    if (piece < p->right_packs) right_pack_piece(p, piece);
#if HAS_TILES
    if (piece >= p->right_packs) left_pack_piece(p, piece - p->right_packs);
#endif
}

/* Rows whose sums can wait in `floats` floats. */
static uint32_t rows_waiting(const struct product *p, uint32_t floats)
{
    return floats / p->piece_cols / BF16_ROWS * BF16_ROWS;
}

/* Blocks that were packed beforehand come from far; with tiles fewer sums wait, so that blocks of both
 * factors have more of the second cache (heterps-run bench gemm --precision bf16). */
#define KEPT_BESIDE (HAS_TILES ? PRODUCT_KEPT / 2 : PRODUCT_KEPT)

static void multiply(const struct product *p, struct product_place at, void *scratch)
{
    if (at.rows == 0) return; /* column sums alone */
    vf col_sums[BF16_COLS / VF] = {{0}};
    bool has_sums = p->right_packs == 0 && p->col_sums != NULL;
    struct bf16_arrays to = {.waiting = scratch, .col_sums = has_sums ? col_sums : NULL};
    to.left = to.waiting + PRODUCT_KEPT;
    to.tile = to.left + PRODUCT_TERMS * PRODUCT_LEFT;
    struct terms first = terms_at(p, 0, 0);
    uint32_t row_end = at.row + at.rows, group_end = at.group + at.groups;
    uint32_t rows_most = first.is_last ? at.rows : rows_waiting(p, p->right_packs > 0 ? KEPT_BESIDE : PRODUCT_KEPT);
    for (; at.group < group_end; at.group++)
        for (uint32_t row = at.row; row < row_end; row += rows_most) {
            struct product_place part = at;
            part.row = row;
            part.rows = row_end - row < rows_most ? row_end - row : rows_most;
            struct terms of = first;
            for (; !of.is_last; of = terms_after(p, of)) SET_KERNEL(product_bf16_block)(p, part, of, &to);
            SET_KERNEL(product_bf16_block)(p, part, of, &to);
        }
    if (has_sums) col_sums_add(p->col_sums + at.col, col_sums, at.cols);
}

static void cut(struct product *p, uint32_t members)
{
    uint32_t panels = panels_of(p->cols), each = members == 1 ? PACK_PANELS : panels / (4 * members) + 1;
    struct terms first = terms_at(p, 0, 0);
    p->pack_panels = each < PACK_PANELS ? each : PACK_PANELS;
    p->right_packs = (panels + p->pack_panels - 1) / p->pack_panels;
    p->packed_floats = right_words(p);
    /* A single member that needs each block once packs it before it multiplies,
     * and finds it in its second cache. */
    if (members == 1 && p->rows > 0 && p->row_groups == 1 &&
        (first.is_last || p->rows <= rows_waiting(p, PRODUCT_KEPT))) {
        p->right_packs = 0;
        p->packed_floats = (size_t)steps_of(first.count, p->is_pairs) * p->piece_cols;
    }
    p->pack_count = p->right_packs;
#if HAS_TILES
    /* Strips that one piece alone needs are packed where it multiplies, unless rows lie side by side: then
     * the lines of several strips are read together. */
    p->left_at = p->packed_floats;
    if (p->rows > 0 && (p->col_chunks > 1 || p->left_term != 1)) {
        p->pack_count += left_packs(p);
        p->packed_floats += strips_floats(p);
    }
#endif
}

const struct bf16_products SET_KERNEL(bf16_products) = {
    .rows = BF16_ROWS,
    .cols = BF16_COLS,
    .cut = cut,
    .pack = pack,
    .piece = multiply,
    .pairs_are_faster = SET_KERNEL(bf16_pairs_are_faster),
};
