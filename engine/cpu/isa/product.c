/* Products of matrices in pieces: all but a few percent of the time of a click model's dense part (product.h).
 *
 * A piece is some rows of one panel of PANEL columns:
 *
 *              terms                      PANEL                  for each FC_BLOCK of terms:
 *          ┌──────────┐              ┌─┬─┬─┬─┬─┐                     pack the panel's part of the right factor (8 KiB, stays in L1)
 *    rows  │ left     │        terms │ │ │#│ │ │ right               for each TILE of rows: TILE x PANEL sums in registers,
 *          │──────────│              │ │ │#│ │ │                         one multiply-add an element and term
 *          │##########│ TILE         └─┴─┴─┴─┴─┘                 then bias and activation, or slope, or adding
 *          └──────────┘
 *
 * A piece takes as many groups of rows as its scratch holds, so that a panel that is packed once serves them all.
 *
 * An element's terms are added in order, one after another, from zero, whatever the tile, the piece or the block: sums that go on in
 * the next block wait in a strip of the scratch. So the bytes do not depend on how rows and columns are cut. The left factor is read in
 * place: a tile walks TILE rows of it forward (or, for in^T, TILE neighbouring columns down), and asks ahead for the lines that it or the
 * next tile will need. Rows an odd number of cache lines apart spread best over the cache's sets.
 *
 * Measured (Zen 3, AVX2, one thread, B = 256, 429 x 512 and 512 x 256): 80 to 88 % of the peak of multiply-adds in the undisturbed
 * twentieth of short repeats, 72 to 85 % in the median of tests/bench/gemm_bench.c beside other work. Blocks of 128 terms lose
 * a few percent to visits of the strip, blocks of 256 as much of dW to a first-level cache that is too full. */
#include "engine/cpu/isa/product.h"

#include "engine/cpu/isa/product_bf16.h"
#include "engine/cpu/isa/tile.h"

_Static_assert(PANEL <= FC_PANEL_MAX && CPU_SCRATCH_BYTES >= (FC_BLOCK + FC_ROWS_MAX) * PANEL * sizeof(float),
               "scratch");

/* Rows side by side: the transposed input of dW. */
static void tile_across(uint32_t rows, const float *left, size_t left_term, const float *panel, uint32_t terms,
                        float *sums, bool is_first)
{
    tile_dispatch(rows, left, 1, left_term, panel, terms, sums, is_first);
}

/* Packs terms x cols of a factor whose columns are side by side; the panel's other columns become zeros. */
static void pack_rows(float *panel, const float *right, size_t right_term, uint32_t terms, uint32_t cols)
{
    for (uint32_t t = 0; t < terms; t++, panel += PANEL, right += right_term) {
        if (cols == PANEL) {
            vf_store(panel, vf_load(right));
            vf_store(panel + VF, vf_load(right + VF));
        } else {
            for (uint32_t c = 0; c < PANEL; c++) panel[c] = c < cols ? right[c] : 0;
        }
    }
}

typedef float v4 __attribute__((vector_size(16)));
typedef float v4_memory __attribute__((vector_size(16), aligned(4), may_alias));

/* Packs terms x cols of a factor whose terms are side by side: 4 x 4 at a time through registers. */
static void pack_cols(float *panel, const float *right, size_t right_col, uint32_t terms, uint32_t cols)
{
    uint32_t c = 0;
    for (; c + 4 <= cols; c += 4) {
        const float *r0 = right + c * right_col, *r1 = r0 + right_col, *r2 = r1 + right_col, *r3 = r2 + right_col;
        uint32_t t = 0;
        for (; t + 4 <= terms; t += 4) {
            v4 a = *(const v4_memory *)(r0 + t), b = *(const v4_memory *)(r1 + t);
            v4 d = *(const v4_memory *)(r2 + t), e = *(const v4_memory *)(r3 + t);
            v4 ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
            v4 de_low = __builtin_shufflevector(d, e, 0, 4, 1, 5), de_high = __builtin_shufflevector(d, e, 2, 6, 3, 7);
            float *to = panel + t * PANEL + c;
            *(v4_memory *)to = __builtin_shufflevector(ab_low, de_low, 0, 1, 4, 5);
            *(v4_memory *)(to + PANEL) = __builtin_shufflevector(ab_low, de_low, 2, 3, 6, 7);
            *(v4_memory *)(to + 2 * PANEL) = __builtin_shufflevector(ab_high, de_high, 0, 1, 4, 5);
            *(v4_memory *)(to + 3 * PANEL) = __builtin_shufflevector(ab_high, de_high, 2, 3, 6, 7);
        }
        for (; t < terms; t++) {
            float *to = panel + t * PANEL + c;
            to[0] = r0[t], to[1] = r1[t], to[2] = r2[t], to[3] = r3[t];
        }
    }
    for (; c < PANEL; c++)
        for (uint32_t t = 0; t < terms; t++) panel[t * PANEL + c] = c < cols ? right[c * right_col + t] : 0;
}

/* Hands finished sums of rows [row_begin, row_begin + rows) and columns [col, col + cols) on to the result. What is
 * a constant in an instance costs nothing in its loop: the end, the usual activations, and that the panel is full. */
ALWAYS_INLINE void finish(const struct product *p, enum product_end end, enum activation activation, uint32_t cols,
                          const float *sums, uint32_t row_begin, uint32_t rows, uint32_t col)
{
    for (uint32_t r = 0; r < rows; r++, sums += PANEL) {
        float *to = p->result + (row_begin + r) * p->result_row + col;
#pragma GCC unroll 2
        for (uint32_t c = 0; c < cols; c += VF) {
            size_t left = cols - c;
            vf sum = vf_load(sums + c);
            if (end == PRODUCT_ACTIVATES) {
                if (p->bias != NULL) sum += vf_load_upto(p->bias + col + c, left);
                sum = vf_activation(activation, p->slope, sum);
            } else if (end == PRODUCT_SLOPES) {
                if (activation != ACT_NONE) {
                    const float *output = p->output + (row_begin + r) * p->output_row + col + c;
                    sum = vf_activation_grad(activation, p->slope, vf_load_upto(output, left), sum);
                }
                if (p->adds) sum = vf_load_upto(to + c, left) + sum;
            } else {
                sum = vf_load_upto(to + c, left) + sum;
            }
            vf_store_upto(to + c, sum, left);
        }
    }
}

ALWAYS_INLINE void finish_activation(const struct product *p, enum product_end end, uint32_t cols, const float *sums,
                                     uint32_t row_begin, uint32_t rows, uint32_t col)
{
    if (p->activation == ACT_NONE)
        finish(p, end, ACT_NONE, cols, sums, row_begin, rows, col);
    else if (p->activation == ACT_RELU)
        finish(p, end, ACT_RELU, cols, sums, row_begin, rows, col);
    else
        finish(p, end, p->activation, cols, sums, row_begin, rows, col);
}

ALWAYS_INLINE void finish_end(const struct product *p, uint32_t cols, const float *sums, uint32_t row_begin,
                              uint32_t rows, uint32_t col)
{
    switch (p->end) {
    case PRODUCT_ACTIVATES: finish_activation(p, PRODUCT_ACTIVATES, cols, sums, row_begin, rows, col); break;
    case PRODUCT_SLOPES: finish_activation(p, PRODUCT_SLOPES, cols, sums, row_begin, rows, col); break;
    case PRODUCT_ADDS: finish(p, PRODUCT_ADDS, ACT_NONE, cols, sums, row_begin, rows, col); break;
    }
}

static void sums_finish(const struct product *p, const float *sums, uint32_t row_begin, uint32_t rows, uint32_t col,
                        uint32_t cols)
{
    if (cols == PANEL)
        finish_end(p, PANEL, sums, row_begin, rows, col);
    else
        finish_end(p, cols, sums, row_begin, rows, col);
}

/* Asks for the lines of the result that a tile will meet when its sums are finished. */
static void result_prefetch(const struct product *p, uint32_t row_begin, uint32_t rows, uint32_t col)
{
    for (uint32_t r = row_begin; r < row_begin + rows; r++)
        for (uint32_t c = 0; c < PANEL; c += LINE_FLOATS) {
            prefetch_write(p->result + r * p->result_row + col + c);
            if (p->output != NULL) prefetch_read(p->output + r * p->output_row + col + c);
        }
}

/* Group g of a product's rows, or of its terms. */
static struct product group_of(const struct product *p, uint32_t g)
{
    struct product group = *p;
    group.left += g * p->left_group;
    group.right += g * p->right_group;
    group.result += g * p->result_group;
    if (p->output != NULL) group.output += g * p->output_group;
    return group;
}

void KERNEL(product_finish)(const struct product *p, uint32_t group, const float *sums, uint32_t row_begin,
                            uint32_t rows, uint32_t col)
{
    struct product of_group = group_of(p, group);
    sums_finish(&of_group, sums, row_begin, rows, col, p->cols - col < PANEL ? p->cols - col : PANEL);
}

/* Adds the terms [begin, begin + terms) of rows [row_begin, row_begin + rows) to their sums in the strip. */
static void block_multiply(const struct product *p, uint32_t row_begin, uint32_t rows, uint32_t col, uint32_t begin,
                           uint32_t terms, const float *panel, float *strip, bool is_first, bool is_last)
{
    const float *left = p->left + row_begin * p->left_row + begin * p->left_term;
    for (uint32_t r = 0; r < rows; r += TILE) {
        uint32_t tile_rows = rows - r < TILE ? rows - r : TILE;
        if (is_last) result_prefetch(p, row_begin + r, tile_rows, col);
        const float *at = left + r * p->left_row;
        if (p->left_term == 1)
            tile_along(tile_rows, at, p->left_row, panel, terms, strip + r * PANEL, is_first);
        else
            tile_across(tile_rows, at, p->left_term, panel, terms, strip + r * PANEL, is_first);
    }
}

void KERNEL(product_pack)(const struct product *p, uint32_t piece, void *scratch)
{
    KERNEL(product_bf16_pack)(p, piece, scratch);
}

void KERNEL(product_piece)(const struct product *p, uint32_t piece, void *scratch)
{
    if (p->type == PRODUCT_BF16) {
        KERNEL(product_bf16_piece)(p, piece, scratch);
        return;
    }
    /* Panels change fastest: members at work at the same time read the same rows of the left factor. */
    uint32_t col = piece % p->panel_count * PANEL, place = piece / p->panel_count;
    uint32_t row_begin = place % p->chunk_count * p->piece_rows, group_begin = place / p->chunk_count * p->piece_groups;
    uint32_t cols = p->cols - col < PANEL ? p->cols - col : PANEL;
    uint32_t rows = p->rows - row_begin < p->piece_rows ? p->rows - row_begin : p->piece_rows;
    uint32_t groups = p->row_groups - group_begin < p->piece_groups ? p->row_groups - group_begin : p->piece_groups;
    size_t strip_floats = (size_t)p->piece_rows * PANEL; /* of a group */
    float *panel = scratch, *strip = panel + FC_BLOCK * PANEL;
    for (uint32_t t = 0; t < p->term_groups; t++) {
        for (uint32_t begin = 0; begin < p->terms; begin += FC_BLOCK) {
            uint32_t terms = p->terms - begin < FC_BLOCK ? p->terms - begin : FC_BLOCK;
            const float *right = p->right + t * p->right_group + col * p->right_col;
            if (p->right_col == 1)
                pack_rows(panel, right + begin * p->right_term, p->right_term, terms, cols);
            else
                pack_cols(panel, right + begin, p->right_col, terms, cols);
            bool is_first = t == 0 && begin == 0, is_last = t + 1 == p->term_groups && begin + terms == p->terms;
            for (uint32_t g = 0; g < groups; g++) {
                struct product group = group_of(p, t + group_begin + g);
                block_multiply(&group, row_begin, rows, col, begin, terms, panel, strip + g * strip_floats, is_first,
                               is_last);
            }
        }
    }
    for (uint32_t g = 0; g < groups; g++) {
        struct product group = group_of(p, group_begin + g);
        sums_finish(&group, strip + g * strip_floats, row_begin, rows, col, cols);
    }
}

/* Cuts into pieces: as many rows, and groups of them, as fit, fewer where that leaves members without work. */
void KERNEL(product_cut)(struct product *p, uint32_t members)
{
    if (p->type == PRODUCT_BF16) {
        KERNEL(product_bf16_cut)(p, members);
        return;
    }
    p->panel_count = (p->cols + PANEL - 1) / PANEL;
    uint32_t chunk_count = (p->rows + FC_ROWS_MAX - 1) / FC_ROWS_MAX;
    uint32_t wanted = members == 1 ? 1 : (4 * members + p->panel_count - 1) / p->panel_count;
    uint32_t chunks_wanted = (wanted + p->row_groups - 1) / p->row_groups;
    if (chunk_count < chunks_wanted) chunk_count = chunks_wanted;
    uint32_t piece_rows = (p->rows + chunk_count - 1) / chunk_count;
    piece_rows = (piece_rows + TILE - 1) / TILE * TILE;
    if (piece_rows > FC_ROWS_MAX) piece_rows = FC_ROWS_MAX;
    p->piece_rows = piece_rows;
    p->chunk_count = (p->rows + piece_rows - 1) / piece_rows;
    uint32_t runs_wanted = (wanted + p->chunk_count - 1) / p->chunk_count;
    uint32_t piece_groups = (p->row_groups + runs_wanted - 1) / runs_wanted;
    if (piece_groups > FC_ROWS_MAX / piece_rows) piece_groups = FC_ROWS_MAX / piece_rows;
    p->piece_groups = piece_groups;
    p->piece_count = p->panel_count * p->chunk_count * ((p->row_groups + piece_groups - 1) / piece_groups);
}
