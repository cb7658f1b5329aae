/* Products of matrices in pieces: all but a few percent of the time of a click model's dense part (product.h).
 *
 * A piece is some rows times some panels of PANEL columns:
 *
 *              terms                      PANEL                  for each PRODUCT_TERMS terms, and at most PRODUCT_COLS columns:
 *          ┌──────────┐              ┌─┬─┬─┬─┬─┐                     pack these panels of the right factor (512 KiB, stay in L2)
 *    rows  │ left     │        terms │ │#│#│ │ │ right               for each TILE of rows (14 KiB of the left factor, stay in L1)
 *          │──────────│              │ │#│#│ │ │                         for each panel: TILE x PANEL sums in registers,
 *          │##########│ TILE         └─┴─┴─┴─┴─┘                             one multiply-add an element and term
 *          └──────────┘                                                      then bias and activation, or slope, or adding
 *
 * Sums that go on in the next block of terms wait in the result, unless what is there is added to: then each block's are. A piece has as many
 * groups of rows as it can, so that a panel that is packed once serves them all.
 *
 * An element's terms are added in order, one after another, from zero, whatever the tile, the piece or the group; blocks of terms begin at
 * multiples of PRODUCT_TERMS. So the bytes do not depend on how rows and columns are cut. The left factor is read in place: a tile walks TILE
 * rows of it forward (or, for a transposed one, TILE neighbouring columns down). Rows an odd number of cache lines apart spread best over
 * the cache's sets. */
#include "engine/cpu/isa/product.h"

#include "engine/cpu/isa/product_bf16.h"
#include "engine/cpu/isa/tile.h"

_Static_assert(TILE *PANEL * sizeof(float) <= PRODUCT_TILE_BYTES && PRODUCT_COLS % PANEL == 0, "scratch");

/* Columns of a panel, of which `cols` are left: PANEL, or half of it. */
ALWAYS_INLINE uint32_t panel_width(uint32_t cols) { return cols > VF ? PANEL : VF; }

/* Packs terms x cols of a factor whose columns are side by side, panel after panel, a panel term after term; columns beyond become zeros.
 * Adds the sums of the columns to col_sums unless that is NULL. */
#define PACK_VECTORS 8u
ALWAYS_INLINE void pack_rows_strip(float *panels, const float *right, size_t right_term, uint32_t terms,
                                   float *col_sums)
{
    vf sum[PACK_VECTORS] = {{0}};
    for (uint32_t t = 0; t < terms; t++, right += right_term, panels += PANEL) {
#pragma GCC unroll 8
        for (uint32_t v = 0; v < PACK_VECTORS; v++) {
            vf x = vf_load(right + v * VF);
            vf_store(panels + v / 2 * terms * PANEL + v % 2 * VF, x);
            if (col_sums != NULL) sum[v] += x;
        }
    }
    if (col_sums == NULL) return;
    for (uint32_t v = 0; v < PACK_VECTORS; v++) vf_store(col_sums + v * VF, vf_load(col_sums + v * VF) + sum[v]);
}

static void pack_rows(float *panels, const float *right, size_t right_term, uint32_t terms, uint32_t cols,
                      float *col_sums)
{
    uint32_t c = 0;
    for (; c + PACK_VECTORS * VF <= cols; c += PACK_VECTORS * VF) {
        if (col_sums != NULL)
            pack_rows_strip(panels + c * terms, right + c, right_term, terms, col_sums + c);
        else
            pack_rows_strip(panels + c * terms, right + c, right_term, terms, NULL);
    }
    for (; c < cols; c += VF) {
        uint32_t panel = c / PANEL * PANEL, width = panel_width(cols - panel);
        float *to = panels + panel * terms + c % PANEL;
        vf sum = {0};
        for (uint32_t t = 0; t < terms; t++) {
            vf x = vf_load_upto(right + t * right_term + c, cols - c);
            vf_store(to + t * width, x);
            sum += x;
        }
        if (col_sums != NULL) vf_store_upto(col_sums + c, vf_load_upto(col_sums + c, cols - c) + sum, cols - c);
    }
}

/* The same of a factor whose terms are side by side: VF columns by EDGE terms at a time through registers. Where there are fewer, they are
 * copied among zeros first. */
#define EDGE 16u
static void pack_cols(float *panels, const float *right, size_t right_col, uint32_t terms, uint32_t cols)
{
    float edge[VF * EDGE];
    for (uint32_t c = 0; c < cols; c += VF) {
        uint32_t panel = c / PANEL * PANEL, width = panel_width(cols - panel);
        float *to = panels + panel * terms + c % PANEL;
        uint32_t col_count = cols - c < VF ? cols - c : VF;
        for (uint32_t t = 0; t < terms; t += EDGE, to += EDGE * width) {
            const float *from = right + c * right_col + t;
            size_t from_col = right_col;
            uint32_t count = terms - t < EDGE ? terms - t : EDGE;
            if (count < EDGE || col_count < VF) {
                memset(edge, 0, sizeof edge);
                for (uint32_t i = 0; i < col_count; i++)
                    memcpy(edge + i * EDGE, from + i * right_col, count * sizeof *from);
                from = edge;
                from_col = EDGE;
            } else if (c + 2 * VF <= cols) {
                for (uint32_t i = 0; i < VF; i++) prefetch_read(from + (VF + i) * right_col);
            }
            for (uint32_t i = 0; i < count; i += 4) {
                vf out[4];
                vf_load_transposed(out, from + i, from_col);
                for (uint32_t j = 0; j < 4 && i + j < count; j++) vf_store(to + (i + j) * width, out[j]);
            }
        }
    }
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

/* Which rows and columns, and of the block's terms whether there are some before and some behind. */
struct place {
    uint32_t row, rows, col, cols, begin, terms;
    bool is_first, is_last;
};

static void tile_run(const struct product *p, uint32_t rows, uint32_t cols, const float *left, const float *panel,
                     uint32_t terms, const float *next, float *sums, size_t sums_row, bool is_first)
{
    if (p->left_term == 1) {
        if (cols > VF)
            tile_dispatch(rows, 2, left, p->left_row, 1, panel, terms, next, sums, sums_row, is_first);
        else
            tile_dispatch(rows, 1, left, p->left_row, 1, panel, terms, next, sums, sums_row, is_first);
    } else {
        if (cols > VF)
            tile_dispatch(rows, 2, left, 1, p->left_term, panel, terms, NULL, sums, sums_row, is_first);
        else
            tile_dispatch(rows, 1, left, 1, p->left_term, panel, terms, NULL, sums, sums_row, is_first);
    }
}

/* Multiplies a block of the left factor by the packed panels. */
static void block_multiply(const struct product *p, struct place at, const float *panels, float *tile)
{
    bool adds = p->end == PRODUCT_ADDS || p->adds;
    for (uint32_t r = at.row; r < at.row + at.rows; r += TILE) {
        uint32_t rows = at.row + at.rows - r < TILE ? at.row + at.rows - r : TILE;
        const float *left = p->left + r * p->left_row + at.begin * p->left_term;
        for (uint32_t c = 0; c < at.cols; c += PANEL) {
            uint32_t cols = at.cols - c < PANEL ? at.cols - c : PANEL, col = at.col + c;
            const float *panel = panels + c * at.terms;
            const float *next = c + PANEL >= at.cols ? left + rows * p->left_row : NULL;
            float *to = p->result + r * p->result_row + col;
            if (cols == PANEL && !at.is_last && !adds) {
                tile_run(p, rows, cols, left, panel, at.terms, next, to, p->result_row, at.is_first);
            } else {
                bool goes_on = !at.is_first && !adds;
                if (goes_on)
                    for (uint32_t i = 0; i < rows; i++)
                        for (uint32_t v = 0; v < cols; v += VF)
                            vf_store(tile + i * PANEL + v, vf_load_upto(to + i * p->result_row + v, cols - v));
                tile_run(p, rows, cols, left, panel, at.terms, next, tile, PANEL, !goes_on);
                if (at.is_last || adds)
                    sums_finish(p, tile, r, rows, col, cols);
                else
                    for (uint32_t i = 0; i < rows; i++)
                        for (uint32_t v = 0; v < cols; v += VF)
                            vf_store_upto(to + i * p->result_row + v, vf_load(tile + i * PANEL + v), cols - v);
            }
        }
    }
}

static uint32_t count_from(uint32_t begin, uint32_t end, uint32_t most)
{
    return end - begin < most ? end - begin : most;
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
    /* Columns change fastest: members at work at the same time read the same rows of the left factor. */
    uint32_t col_chunk = piece % p->col_chunks, row_chunk = piece / p->col_chunks % p->row_chunks;
    uint32_t group_begin = piece / p->col_chunks / p->row_chunks * p->piece_groups;
    uint32_t groups = count_from(group_begin, p->row_groups, p->piece_groups);
    struct place at = {.row = row_chunk * p->piece_rows, .col = col_chunk * p->piece_cols};
    at.rows = count_from(at.row, p->rows, p->piece_rows);
    at.cols = count_from(at.col, p->cols, p->piece_cols);
    float *panels = scratch, *tile = panels + PRODUCT_TERMS * PRODUCT_COLS;
    float *col_sums = p->col_sums != NULL && at.row == 0 ? p->col_sums + at.col : NULL;
    for (uint32_t t = 0; t < p->term_groups; t++) {
        for (at.begin = 0; at.begin < p->terms; at.begin += PRODUCT_TERMS) {
            at.terms = count_from(at.begin, p->terms, PRODUCT_TERMS);
            at.is_first = t == 0 && at.begin == 0;
            at.is_last = t + 1 == p->term_groups && at.begin + at.terms == p->terms;
            const float *right = p->right + t * p->right_group + at.begin * p->right_term + at.col * p->right_col;
            if (p->right_col == 1)
                pack_rows(panels, right, p->right_term, at.terms, at.cols, col_sums);
            else
                pack_cols(panels, right, p->right_col, at.terms, at.cols);
            for (uint32_t g = 0; g < groups; g++) {
                struct product group = group_of(p, t + group_begin + g);
                block_multiply(&group, at, panels, tile);
            }
        }
    }
}

static uint32_t divide_up(uint32_t a, uint32_t b) { return (a + b - 1) / b; }

/* Cuts columns first, which every member packs for itself anyway, then groups, then rows, whose pieces each pack the same again. */
void KERNEL(product_cut)(struct product *p, uint32_t members)
{
    if (p->type == PRODUCT_BF16) {
        KERNEL(product_bf16_cut)(p, members);
        return;
    }
    uint32_t panel_count = divide_up(p->cols, PANEL), wanted = members == 1 ? 1 : 4 * members;
    uint32_t col_chunks = divide_up(p->cols, PRODUCT_COLS);
    if (col_chunks < wanted) col_chunks = wanted < divide_up(panel_count, 2) ? wanted : divide_up(panel_count, 2);
    p->piece_cols = divide_up(panel_count, col_chunks) * PANEL;
    p->col_chunks = divide_up(p->cols, p->piece_cols);
    wanted = divide_up(wanted, p->col_chunks);
    p->piece_groups = divide_up(p->row_groups, wanted);
    uint32_t group_chunks = divide_up(p->row_groups, p->piece_groups);
    wanted = divide_up(wanted, group_chunks);
    p->piece_rows = divide_up(divide_up(p->rows + !p->rows, wanted), TILE) * TILE;
    p->row_chunks = divide_up(p->rows + !p->rows, p->piece_rows);
    p->piece_count = p->col_chunks * p->row_chunks * group_chunks;
}
