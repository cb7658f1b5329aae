/* A block of terms of a product in bfloat16 by vectors of words (pack_bf16.h);
 * product_bf16.c goes through the blocks.
 *
 *     left    [row][ROW_WORDS]     where terms lie side by side:  a tile's rows, in the piece's scratch, for all panels
 *             [step][VF]           where rows lie side by side    of the piece
 *
 *     block: rows x columns        for each TILE of rows: pack the tile (28 KiB of the left factor, stay in L1)
 *                                      for each panel (512 KiB together, stay in L2): TILE x PANEL sums in registers
 *                                          then, if this was the last block, bias and activation, or slope, or adding
 *
 * Sums and terms below 2^-126 count as zeros in both ways of packing, since VDPBF16PS knows no smaller ones;
 * without fused multiply-add (base) so do products. The device chooses the way (cpu_work.bf16_pairs): on some
 * processors VDPBF16PS is four times slower than a fused multiply-add, on others as fast. */
#include "engine/base/clock.h"
#include "engine/device/cpu/isa/bf16/pack_bf16.h"

#if !HAS_TILES

#define ROW_WORDS (BLOCK_STEPS + LINE_FLOATS) /* an odd number of lines, and room for a vector behind the last step */
_Static_assert(TILE *ROW_WORDS <= PRODUCT_TERMS * PRODUCT_LEFT && TILE <= VF && VF <= PRODUCT_LEFT,
               "a tile's rows are a vector's lanes");

/* --- tiles ------------------------------------------------------------------------------------ */

/* Packs `terms` terms of a tile of `rows` rows. */
ALWAYS_INLINE void left_pack(const struct product *p, float *words, const float *left, uint32_t rows, uint32_t terms,
                             const bool is_pairs)
{
    if (p->left_term == 1) {
        for (uint32_t r = 0; r < rows; r++, left += p->left_row, words += ROW_WORDS)
            pack_along(words, left, left + LEFT_ROWS_AHEAD * p->left_row, terms, is_pairs);
        return;
    }
    for (uint32_t t = 0; t < terms; t += 2, left += 2 * p->left_term, words += (is_pairs ? 1 : 2) * VF) {
        prefetch_read(left + ROWS_AHEAD * p->left_term);
        prefetch_read(left + (ROWS_AHEAD + 1) * p->left_term);
        pack_across(words, VF, left, t + 1 < terms ? left + p->left_term : NULL, rows, is_pairs);
    }
}

/* A tile's packed factors, the sums that it goes on from (PANEL apart, or NULL),
 * and what it asks for meanwhile. */
struct bf16_tile {
    const float *left, *panel, *sums;
    uint32_t steps;
    struct tile_ahead ahead;
};

/* Computes a whole tile; its sums end in the registers. */
typedef void bf16_whole(const struct bf16_tile *f, enum tile_end end, float *result, size_t result_row,
                        const float *bias, const float *output, size_t output_row);
#define BF16_WHOLE(name, is_pairs, left_row, left_step)                                                                \
    static __attribute__((noinline)) void name(const struct bf16_tile *f, enum tile_end end, float *result,            \
                                               size_t result_row, const float *bias, const float *output,              \
                                               size_t output_row)                                                      \
    {                                                                                                                  \
        vf sum[TILE][2];                                                                                               \
        _Pragma("GCC unroll 16") for (uint32_t r = 0; r < TILE; r++) sum[r][0] = sum[r][1] = (vf){0};                  \
        if (f->sums != NULL) _Pragma("GCC unroll 16") for (uint32_t r = 0; r < TILE; r++)                              \
            {                                                                                                          \
                sum[r][0] = vf_load(f->sums + r * PANEL);                                                              \
                sum[r][1] = vf_load(f->sums + r * PANEL + VF);                                                         \
            }                                                                                                          \
        tile_multiply(is_pairs, TILE, 2, f->left, left_row, left_step, f->panel, PANEL, f->steps, &f->ahead, NULL,     \
                      sum);                                                                                            \
        tile_sums_end(end, sum, result, result_row, bias, output, output_row);                                         \
    }
BF16_WHOLE(whole_along_single, false, ROW_WORDS, 1)
BF16_WHOLE(whole_across_single, false, 1, VF)
BF16_WHOLE(whole_along_pairs, HAS_PAIRS, ROW_WORDS, 1)
BF16_WHOLE(whole_across_pairs, HAS_PAIRS, 1, VF)
static bf16_whole *const bf16_wholes[2][2] = {{whole_across_single, whole_across_pairs},
                                              {whole_along_single, whole_along_pairs}};

/* A part of a tile: fewer rows or columns, or an end of many kinds. Its sums, PANEL apart,
 * begin or go on in `sums`. */
static void tile_part(const struct bf16_tile *f, uint32_t rows, uint32_t cols, bool is_along, bool is_pairs,
                      float *sums)
{
    size_t row = is_along ? ROW_WORDS : 1, step = is_along ? 1 : VF;
    bool is_first = f->sums == NULL;
    if (HAS_PAIRS && is_pairs) {
        if (cols > VF)
            tile_dispatch(HAS_PAIRS, rows, 2, f->left, row, step, f->panel, PANEL, f->steps, &f->ahead, sums, PANEL,
                          is_first);
        else
            tile_dispatch(HAS_PAIRS, rows, 1, f->left, row, step, f->panel, PANEL, f->steps, &f->ahead, sums, PANEL,
                          is_first);
    } else {
        if (cols > VF)
            tile_dispatch(false, rows, 2, f->left, row, step, f->panel, PANEL, f->steps, &f->ahead, sums, PANEL,
                          is_first);
        else
            tile_dispatch(false, rows, 1, f->left, row, step, f->panel, PANEL, f->steps, &f->ahead, sums, PANEL,
                          is_first);
    }
}

static void left_ask(const struct product *p, const float *left, uint32_t rows, uint32_t terms, uint32_t c,
                     uint32_t panels, struct tile_far far[2])
{
    if (p->left_term == 1) {
        uint32_t each = (rows + panels - 1) / panels, end = (c + 1) * each < rows ? (c + 1) * each : rows;
        for (uint32_t r = c * each, i = 0; r < end; r++, i++) {
            const float *row = left + r * p->left_row;
            if (i < 2)
                far[i] = (struct tile_far){row, PANEL, (terms + PANEL - 1) / PANEL};
            else
                for (uint32_t t = 0; t < terms; t += LINE_FLOATS) prefetch_far(row + t);
        }
    } else {
        uint32_t each = (terms + 2 * panels - 1) / (2 * panels);
        for (uint32_t i = 0; i < 2; i++) {
            uint32_t begin = (2 * c + i) * each;
            if (begin < terms)
                far[i] = (struct tile_far){left + begin * p->left_term, p->left_term,
                                           terms - begin < each ? terms - begin : each};
        }
    }
}

/* Asks for part i of `parts` of a packed panel's next steps. */
static void panel_ask(const float *panel, uint32_t steps, uint32_t i, uint32_t parts)
{
    uint32_t lines = steps * (PANEL / LINE_FLOATS);
    for (uint32_t l = lines * i / parts; l < lines * (i + 1) / parts; l++) prefetch_far(panel + l * LINE_FLOATS);
}

/* Multiplies rows x columns `at`, of one group, by one block of terms. */
void SET_KERNEL(product_bf16_block)(const struct product *p, struct product_place at, struct terms of,
                                    const struct bf16_arrays *to)
{
    size_t panel_words = panel_words_of(p, of);
    uint32_t panels = panels_of(at.cols), tiles = (at.rows + TILE - 1) / TILE, steps = steps_of(of.count, p->is_pairs);
    enum tile_end end = of.is_last ? tile_end_of(p) : TILE_WAITS;
    bool is_own = p->right_packs == 0;
    const float *right = is_own ? p->packed : right_packed(p, of, at.col);
    if (is_own) right_pack_any(p, of, at.col, at.cols, p->packed, panel_words, to->col_sums);
    const float *left =
        p->left + (at.group + of.group) * p->left_group + at.row * p->left_row + of.begin * p->left_term;
    float *result = p->result + at.group * p->result_group + at.row * p->result_row + at.col;
    const float *output =
        p->output != NULL ? p->output + at.group * p->output_group + at.row * p->output_row + at.col : NULL;
    struct terms after = of.is_last ? (struct terms){0} : terms_after(p, of);
    const float *left_after =
        p->left + (at.group + after.group) * p->left_group + at.row * p->left_row + after.begin * p->left_term;
    const float *right_after = right_packed(p, after, at.col);
    struct bf16_tile tile = {.left = to->left,
                             .steps = steps,
                             .ahead = {.result_row = of.is_last ? p->result_row : PANEL, .output_row = p->output_row}};
    uint32_t before = tiny_flush();
    for (uint32_t i = 0; i < tiles; i++) {
        uint32_t r = i * TILE, rows = at.rows - r < TILE ? at.rows - r : TILE;
        bool is_last_tile = i + 1 == tiles;
        if (HAS_PAIRS && p->is_pairs)
            left_pack(p, to->left, left + r * p->left_row, rows, of.count, HAS_PAIRS);
        else
            left_pack(p, to->left, left + r * p->left_row, rows, of.count, false);
        for (uint32_t c = 0; c < panels; c++) {
            uint32_t cols = at.cols - c * PANEL < PANEL ? at.cols - c * PANEL : PANEL;
            float *waiting = to->waiting + ((size_t)i * panels + c) * (TILE * PANEL),
                  *tile_result = result + r * p->result_row + c * PANEL;
            /* Field by field: a load that spans a wider store would wait for all results of the last tile. */
            tile.panel = right + c * panel_words;
            tile.sums = of.is_first ? NULL : waiting;
            tile.ahead.result = tile.ahead.output = NULL;
            tile.ahead.far[0].rows = tile.ahead.far[1].rows = 0;
            if (!of.is_last) {
                tile.ahead.result = waiting + TILE * PANEL;
            } else if (c + 1 < panels) {
                tile.ahead.result = tile_result + PANEL;
                if (output != NULL) tile.ahead.output = output + r * p->output_row + (c + 1) * PANEL;
            } else if (!is_last_tile) {
                tile.ahead.result = result + (r + TILE) * p->result_row;
                if (output != NULL) tile.ahead.output = output + (r + TILE) * p->output_row;
            }
            if (!is_last_tile)
                left_ask(p, left + (r + TILE) * p->left_row, at.rows - r - TILE < TILE ? at.rows - r - TILE : TILE,
                         of.count, c, panels, tile.ahead.far);
            else if (!of.is_last)
                left_ask(p, left_after, at.rows < TILE ? at.rows : TILE, after.count, c, panels, tile.ahead.far);
            if (!of.is_last && !is_own)
                panel_ask(right_after + c * panel_words_of(p, after), steps_of(after.count, p->is_pairs), i, tiles);
            if (rows == TILE && cols == PANEL && end != TILE_BY_PARTS) {
                bf16_wholes[p->left_term == 1][p->is_pairs](
                    &tile, end, of.is_last ? tile_result : waiting, of.is_last ? p->result_row : PANEL,
                    p->bias != NULL ? p->bias + at.col + c * PANEL : NULL,
                    output != NULL ? output + r * p->output_row + c * PANEL : NULL, p->output_row);
                continue;
            }
            float *sums = of.is_first && of.is_last ? to->tile : waiting;
            tile_part(&tile, rows, cols, p->left_term == 1, p->is_pairs, sums);
            if (of.is_last) KERNEL(product_finish)(p, at.group, sums, at.row + r, rows, at.col + c * PANEL);
        }
    }
    tiny_restore(before);
}

/* --- which way is faster ---------------------------------------------------------------------- */

/* Least time of some runs of a tile, in ns: other work of the machine can only add to it. */
static uint64_t tile_ns(bf16_whole *whole, uint32_t steps)
{
    static const float zeros[TILE * ROW_WORDS > 256 * PANEL ? TILE * ROW_WORDS : 256 * PANEL];
    float sums[TILE * PANEL];
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < 8; i++) {
        uint64_t begin = clock_ns();
        for (uint32_t j = 0; j < 4; j++)
            whole(&(struct bf16_tile){.left = zeros, .panel = zeros, .steps = steps}, TILE_WAITS, sums, PANEL, NULL,
                  NULL, 0);
        uint64_t ns = clock_ns() - begin;
        if (ns < least) least = ns;
    }
    return least;
}

bool SET_KERNEL(bf16_pairs_are_faster)(void)
{
    return HAS_PAIRS && tile_ns(whole_along_pairs, 128) < tile_ns(whole_along_single, 256);
}

#endif
