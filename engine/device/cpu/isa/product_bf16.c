/* Products of matrices in bfloat16, sums in float32: the right factor is packed once a product, then pieces multiply.
 *
 * Everything packed is made of words of 32 bits, a word a row (left) or column (right) and step, in one of two ways that give the same bits:
 *
 *     pairs    a step is two terms t, t + 1; a word is both of them as bfloat16; VDPBF16PS adds word times word to a sum, t + 1 first
 *     single   a step is one term; a word is the term rounded to bfloat16, as a float32; terms come in the order t + 1, t, and a fused
 *              multiply-add adds word times word, as exactly: the product of two bfloat16 has 16 bits
 *
 * An odd last term gets a zero for partner. Sums and terms below 2^-126 count as zeros in both, since VDPBF16PS knows no smaller ones; without
 * fused multiply-add (base) this holds for products, too. Which way is taken is the device's choice (cpu_work.bf16_pairs): on some
 * processors VDPBF16PS is four times slower than a fused multiply-add, on others as fast.
 *
 *     right   packed[panel][group of terms][step][PANEL]      shared: panels are packed by pieces of their own before
 *     left    [row][ROW_WORDS]     where terms lie side by side:  a tile's rows, in the piece's scratch, for all panels of the piece
 *             [step][VF]           where rows lie side by side
 *
 *     piece: rows x columns        for each group of its rows
 *                                      for each block of BLOCK_STEPS steps
 *                                          for each TILE of rows: pack the tile (28 KiB of the left factor, stay in L1)
 *                                              for each panel (512 KiB together, stay in L2): TILE x PANEL sums in registers
 *                                                  then, if this was the last block, bias and activation, or slope, or adding
 *
 * An element's terms are one chain of additions from zero, whatever the block: sums wait in the piece's scratch for the next one. Pieces run,
 * their ends included, while numbers below 2^-126 are zeros. */
#include "engine/device/cpu/isa/product_bf16.h"

#include "engine/base/clock.h"
#include "engine/device/cpu/isa/tile.h"

#define BLOCK_STEPS PRODUCT_TERMS
#define ROW_WORDS   (BLOCK_STEPS + LINE_FLOATS) /* an odd number of lines, and room for a vector behind the last step */
_Static_assert(TILE *ROW_WORDS <= PRODUCT_TERMS * PRODUCT_LEFT && TILE <= VF && VF <= PRODUCT_LEFT,
               "a tile's rows are a vector's lanes");

/* Steps that `terms` take. */
ALWAYS_INLINE uint32_t steps_of(uint32_t terms, const bool is_pairs)
{
    return is_pairs ? (terms + 1) / 2 : (terms + 1) / 2 * 2;
}
#ifdef __AVX512BF16__
/* Rounded lane i goes to lane i ^ exchange. The instruction makes zeros of small numbers by itself. */
ALWAYS_INLINE vf vf_bf16_round_to(vf x, const int exchange)
{
    const __m512i lane = _mm512_xor_si512(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                                          _mm512_set1_epi32(exchange));
    const __m512i order = _mm512_slli_epi32(lane, 16);
    return (vf)_mm512_maskz_permutexvar_epi16(0xaaaaaaaa, order,
                                              _mm512_castsi256_si512((__m256i)_mm512_cvtneps_pbh(x)));
}
#endif

/* bf16_round (engine/base/bf16.h), lane by lane. */
ALWAYS_INLINE vf vf_bf16_round(vf x)
{
#ifdef __AVX512BF16__
    return vf_bf16_round_to(x, 0);
#else
    vu bits = (vu)x, magnitude = bits & 0x7fffffff;
    vu is_nan = (vu)((vi)magnitude > 0x7f800000), is_small = (vu)((vi)magnitude < 0x00800000);
    vu rounded = bits + 0x7fff + (bits >> 16 & 1);
    rounded = (is_nan & (bits | 1u << 22)) | (~is_nan & rounded);
    rounded = (is_small & (bits ^ magnitude)) | (~is_small & rounded);
    return (vf)(rounded & 0xffff0000);
#endif
}

/* The same, and each two neighbours exchanged: the order in which terms are added. */
ALWAYS_INLINE vf vf_bf16_round_swapped(vf x)
{
#ifdef __AVX512BF16__
    return vf_bf16_round_to(x, 1);
#elif VF == 16
    vf v = vf_bf16_round(x);
    return VF_SHUFFLE(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
#elif VF == 8
    vf v = vf_bf16_round(x);
    return VF_SHUFFLE(v, v, 1, 0, 3, 2, 5, 4, 7, 6);
#else
    vf v = vf_bf16_round(x);
    return VF_SHUFFLE(v, v, 1, 0, 3, 2);
#endif
}

/* What VDPBF16PS takes, where there is one. */
#ifdef __AVX512BF16__
/* Words of low (lanes 0 .. VF - 1) and high (VF ..) side by side: lane i has terms 2 i and 2 i + 1. */
ALWAYS_INLINE vf vf_pairs_along(vf low, vf high) { return (vf)(__m512i)_mm512_cvtne2ps_pbh(high, low); }
/* Lane i has lane i of `low` and that of `high`. */
ALWAYS_INLINE vf vf_pairs_across(vf low, vf high)
{
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                           21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return (vf)_mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(high, low));
}
#else
ALWAYS_INLINE vf vf_pairs_along(vf low, vf high) { return low + high; }
ALWAYS_INLINE vf vf_pairs_across(vf low, vf high) { return low + high; }
#endif

ALWAYS_INLINE vf vf_load_or_zero(const float *p, size_t left) { return left == 0 ? (vf){0} : vf_load_upto(p, left); }

/* Packs `terms` terms that lie side by side, and asks for those at `ahead`; writes up to a vector more than their steps. */
ALWAYS_INLINE void pack_along(float *words, const float *from, const float *ahead, uint32_t terms, const bool is_pairs)
{
    if (is_pairs) {
        for (uint32_t t = 0; t < terms; t += 2 * VF, words += VF) {
            vf low = vf_load_upto(from + t, terms - t);
            vf high = vf_load_or_zero(from + t + VF, terms - t > VF ? terms - t - VF : 0);
            for (uint32_t i = 0; i < 2 * VF; i += LINE_FLOATS) prefetch_read(ahead + t + i);
            vf_store(words, vf_pairs_along(low, high));
        }
    } else {
        for (uint32_t t = 0; t < terms; t += VF, words += VF) {
            vf rounded = vf_bf16_round_swapped(vf_load_upto(from + t, terms - t));
            if (t % LINE_FLOATS == 0) prefetch_read(ahead + t);
            vf_store(words, rounded);
        }
    }
}

/* Stores terms t and t + 1 as the words of one step or two. */
ALWAYS_INLINE void words_store(float *words, size_t step_words, vf term, vf next, const bool is_pairs)
{
    if (is_pairs) {
        vf_store(words, vf_pairs_across(term, next));
    } else {
        vf_store(words, vf_bf16_round(next));
        vf_store(words + step_words, vf_bf16_round(term));
    }
}

/* Packs terms t and t + 1 (absent: NULL) of `cols` <= VF columns that lie side by side. */
ALWAYS_INLINE void pack_across(float *words, size_t step_words, const float *term, const float *next, size_t cols,
                               const bool is_pairs)
{
    words_store(words, step_words, vf_load_or_zero(term, cols), next ? vf_load_or_zero(next, cols) : (vf){0}, is_pairs);
}

/* --- the right factor ------------------------------------------------------------------------- */

/* Rows of a left factor between asking for their lines and packing them. */
#define LEFT_ROWS_AHEAD 2u

#define PIECE_COLS      (2 * PRODUCT_COLS) /* most columns of a piece */
/* Most panels of a piece of packing: some KiB of a row where columns lie side by side. */
#define PACK_PANELS 8u

static size_t packed_panel_words(const struct product *p)
{
    return (size_t)p->term_groups * steps_of(p->terms, p->is_pairs) * PANEL;
}

/* Packs terms x cols of a factor whose columns lie side by side, and if has_sums adds the terms to col_sums in order. */
ALWAYS_INLINE void right_pack_across(float *panels, size_t panel_words, const float *right, size_t right_term,
                                     uint32_t terms, uint32_t cols, vf *col_sums, const bool has_sums,
                                     const bool is_pairs)
{
    for (uint32_t t = 0; t < terms; t += 2, right += 2 * right_term, panels += (is_pairs ? 1 : 2) * PANEL) {
        for (uint32_t c = 0, v = 0; c < (cols + PANEL - 1) / PANEL * PANEL; c += VF, v++) {
            size_t left = cols > c ? cols - c : 0;
            vf term = vf_load_or_zero(right + c, left), next = {0};
            if (t + 1 < terms) next = vf_load_or_zero(right + right_term + c, left);
            if (c % LINE_FLOATS == 0) {
                prefetch_read(right + ROWS_AHEAD * right_term + c);
                prefetch_read(right + (ROWS_AHEAD + 1) * right_term + c);
            }
            words_store(panels + v / 2 * panel_words + v % 2 * VF, PANEL, term, next, is_pairs);
            if (has_sums) col_sums[v] = col_sums[v] + term + next;
        }
    }
}

/* Packs terms x cols of a factor whose terms lie side by side: VF columns by LINE_FLOATS terms at a time through registers. Where there are
 * fewer, they are copied among zeros first. */
ALWAYS_INLINE void right_pack_along(float *panels, size_t panel_words, const float *right, size_t right_col,
                                    uint32_t terms, uint32_t cols, const bool is_pairs)
{
    float edge[VF * LINE_FLOATS];
    for (uint32_t c = 0; c < (cols + PANEL - 1) / PANEL * PANEL; c += VF) {
        float *words = panels + c / PANEL * panel_words + c % PANEL;
        uint32_t col_count = c >= cols ? 0 : cols - c < VF ? cols - c : VF;
        for (uint32_t t = 0; t < terms; t += LINE_FLOATS) {
            size_t from_col = right_col;
            uint32_t count = terms - t < LINE_FLOATS ? terms - t : LINE_FLOATS;
            const float *from =
                cols_whole(edge, right + c * right_col + t, &from_col, count, col_count, c + 2 * VF <= cols);
            for (uint32_t i = 0; i < count; i += 4) {
                vf term[4];
                vf_load_transposed(term, from + i, from_col);
                for (uint32_t j = 0; j < 4 && i + j < count; j += 2, words += (is_pairs ? 1 : 2) * PANEL)
                    words_store(words, PANEL, term[j], term[j + 1], is_pairs);
            }
        }
    }
}

/* Terms of a product: [begin, begin + count) of group `group`. */
struct terms {
    uint32_t group, begin, count;
    bool is_first, is_last;
};

/* Packs terms x columns [col, col + cols), and adds the terms to col_sums unless that is NULL. */
ALWAYS_INLINE void right_pack(const struct product *p, struct terms of, uint32_t col, uint32_t cols, float *panels,
                              size_t panel_words, vf *col_sums, const bool is_pairs)
{
    const float *right = p->right + of.group * p->right_group + of.begin * p->right_term + col * p->right_col;
    if (p->right_col != 1)
        right_pack_along(panels, panel_words, right, p->right_col, of.count, cols, is_pairs);
    else if (col_sums != NULL)
        right_pack_across(panels, panel_words, right, p->right_term, of.count, cols, col_sums, true, is_pairs);
    else
        right_pack_across(panels, panel_words, right, p->right_term, of.count, cols, NULL, false, is_pairs);
}

static void right_pack_any(const struct product *p, struct terms of, uint32_t col, uint32_t cols, float *panels,
                           size_t panel_words, vf *col_sums)
{
    if (HAS_PAIRS && p->is_pairs)
        right_pack(p, of, col, cols, panels, panel_words, col_sums, HAS_PAIRS);
    else
        right_pack(p, of, col, cols, panels, panel_words, col_sums, false);
}

static void col_sums_add(float *to, const vf *col_sums, uint32_t cols)
{
    for (uint32_t c = 0; c < cols; c += VF, to += VF)
        vf_store_upto(to, vf_load_upto(to, cols - c) + col_sums[c / VF], cols - c);
}

void KERNEL(product_bf16_pack)(const struct product *p, uint32_t piece)
{
    uint32_t panel = piece * p->pack_panels, col = panel * PANEL;
    uint32_t cols = p->cols - col < p->pack_panels * PANEL ? p->cols - col : p->pack_panels * PANEL;
    size_t panel_words = packed_panel_words(p), group_words = (size_t)steps_of(p->terms, p->is_pairs) * PANEL;
    vf sums[2 * PACK_PANELS] = {{0}};
    for (uint32_t g = 0; g < p->term_groups; g++)
        right_pack_any(p, (struct terms){.group = g, .count = p->terms}, col, cols,
                       p->packed + panel * panel_words + g * group_words, panel_words,
                       p->col_sums != NULL ? sums : NULL);
    if (p->col_sums != NULL) col_sums_add(p->col_sums + col, sums, cols);
}

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

/* A tile's factors, packed, sums that it goes on from, PANEL apart, or NULL, and what it asks for meanwhile. */
struct bf16_tile {
    const float *left, *panel, *sums;
    uint32_t steps;
    struct tile_ahead ahead;
};

/* A whole tile, to its end in the registers. */
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

/* A part of a tile: fewer rows or columns, or an end of many kinds. Its sums, PANEL apart, begin or go on in `sums`. */
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

/* --- pieces ----------------------------------------------------------------------------------- */

/* Between the two, numbers below 2^-126 are zeros, as operands and as results: MXCSR's DAZ and FTZ. */
ALWAYS_INLINE uint32_t tiny_flush(void)
{
    uint32_t before = _mm_getcsr(), during = before | 0x8040;
    __asm__ volatile("ldmxcsr %0" : : "m"(during) : "memory");
    return before;
}
ALWAYS_INLINE void tiny_restore(uint32_t before) { __asm__ volatile("ldmxcsr %0" : : "m"(before) : "memory"); }

static struct terms terms_at(const struct product *p, uint32_t group, uint32_t begin)
{
    uint32_t most = p->is_pairs ? 2 * BLOCK_STEPS : BLOCK_STEPS, left = p->terms - begin;
    struct terms at = {.group = group, .begin = begin, .count = left < most ? left : most};
    at.is_first = group == 0 && begin == 0;
    at.is_last = group + 1 == p->term_groups && begin + at.count == p->terms;
    return at;
}

static struct terms terms_after(const struct product *p, struct terms at)
{
    bool is_group_end = at.begin + at.count == p->terms;
    return terms_at(p, at.group + is_group_end, is_group_end ? 0 : at.begin + at.count);
}

/* What the tile with panel number c of `panels` asks for of the tile of the left factor at `left`, which will be packed next. */
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

/* Where a piece's arrays are in its scratch. Sums that wait: tile after tile, of each all panels. */
struct arrays {
    float *waiting, *left, *tile;
    vf *col_sums; /* of a piece that packs the right factor itself; or NULL */
};

/* Rows x columns `at`, of one group, by one block of terms. */
static void block_multiply(const struct product *p, struct product_place at, struct terms of, const struct arrays *to)
{
    size_t panel_words = packed_panel_words(p), steps_all = steps_of(p->terms, p->is_pairs);
    uint32_t panels = (at.cols + PANEL - 1) / PANEL, tiles = (at.rows + TILE - 1) / TILE,
             steps = steps_of(of.count, p->is_pairs);
    enum tile_end end = of.is_last ? tile_end_of(p) : TILE_WAITS;
    bool is_own = p->pack_count == 0;
    const float *right = p->packed;
    if (is_own)
        right_pack_any(p, of, at.col, at.cols, p->packed, panel_words = (size_t)steps * PANEL, to->col_sums);
    else
        right += at.col / PANEL * panel_words + (of.group * steps_all + steps_of(of.begin, p->is_pairs)) * PANEL;
    const float *left =
        p->left + (at.group + of.group) * p->left_group + at.row * p->left_row + of.begin * p->left_term;
    float *result = p->result + at.group * p->result_group + at.row * p->result_row + at.col;
    const float *output =
        p->output != NULL ? p->output + at.group * p->output_group + at.row * p->output_row + at.col : NULL;
    struct terms after = of.is_last ? (struct terms){0} : terms_after(p, of);
    const float *left_after =
        p->left + (at.group + after.group) * p->left_group + at.row * p->left_row + after.begin * p->left_term;
    const float *right_after = p->packed + at.col / PANEL * panel_words +
                               (after.group * steps_all + steps_of(after.begin, p->is_pairs)) * PANEL;
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
            /* Field by field: a load that spans a wider store would wait for all results of the tile before. */
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
                panel_ask(right_after + c * panel_words, steps_of(after.count, p->is_pairs), i, tiles);
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

/* Rows whose sums there is room for to wait. */
static uint32_t rows_waiting(const struct product *p) { return PRODUCT_KEPT / p->piece_cols / TILE * TILE; }

void KERNEL(product_bf16_piece)(const struct product *p, struct product_place at, void *scratch)
{
    if (at.rows == 0) return; /* column sums alone */
    vf col_sums[PIECE_COLS / VF] = {{0}};
    bool has_sums = p->pack_count == 0 && p->col_sums != NULL;
    struct arrays to = {.waiting = scratch, .col_sums = has_sums ? col_sums : NULL};
    to.left = to.waiting + PRODUCT_KEPT;
    to.tile = to.left + PRODUCT_TERMS * PRODUCT_LEFT;
    struct terms first = terms_at(p, 0, 0);
    uint32_t row_end = at.row + at.rows, group_end = at.group + at.groups;
    uint32_t rows_most = first.is_last ? at.rows : rows_waiting(p);
    for (; at.group < group_end; at.group++)
        for (uint32_t row = at.row; row < row_end; row += rows_most) {
            struct product_place part = at;
            part.row = row;
            part.rows = row_end - row < rows_most ? row_end - row : rows_most;
            struct terms of = first;
            for (; !of.is_last; of = terms_after(p, of)) block_multiply(p, part, of, &to);
            block_multiply(p, part, of, &to);
        }
    if (has_sums) col_sums_add(p->col_sums + at.col, col_sums, at.cols);
}

void KERNEL(product_bf16_cut)(struct product *p, uint32_t members)
{
    uint32_t panels = (p->cols + PANEL - 1) / PANEL, each = members == 1 ? PACK_PANELS : panels / (4 * members) + 1;
    struct terms first = terms_at(p, 0, 0);
    p->pack_panels = each < PACK_PANELS ? each : PACK_PANELS;
    p->pack_count = (panels + p->pack_panels - 1) / p->pack_panels;
    p->packed_floats = panels * packed_panel_words(p);
    /* One member that needs each block once packs it before it multiplies, and finds it in its second cache. */
    if (members == 1 && p->rows > 0 && p->row_groups == 1 && (first.is_last || p->rows <= rows_waiting(p))) {
        p->pack_count = 0;
        p->packed_floats = (size_t)steps_of(first.count, p->is_pairs) * p->piece_cols;
    }
}

/* --- which way is faster ---------------------------------------------------------------------- */

/* Least time of some runs of a tile, in ns: what else the machine does only adds. */
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

bool KERNEL(bf16_pairs_are_faster)(void)
{
    return HAS_PAIRS && tile_ns(whole_along_pairs, 128) < tile_ns(whole_along_single, 256);
}
