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
 *     left    [block of STEPS][row][ROW_WORDS]     where terms lie side by side:  the rows of a piece, in its scratch
 *             [tile][step][VF]                     where rows lie side by side
 *
 *     piece: rows x panels        for each superblock of SUPER_STEPS steps
 *                                     pack the rows' part of the left factor (1 MiB, stays in L2)
 *                                     for each panel
 *                                         for each block of STEPS steps (16 KiB of the panel, stay in L1)
 *                                             for each TILE of rows: TILE x PANEL sums in registers
 *                                         if this was the last of its terms: the end of the panel's sums
 *
 * Where all panels of a piece fit into half of L2, for each TILE of rows all panels, so that results are written row by row. */
#include "engine/cpu/isa/product_bf16.h"

#include "engine/base/clock.h"
#include "engine/cpu/isa/tile.h"

#define STEPS       128u
#define SUPER_STEPS 2048u                 /* a multiple of STEPS */
#define ROW_WORDS   (STEPS + LINE_FLOATS) /* an odd number of lines, and room for a vector behind the last step */
#define ROWS_MAX    BF16_ROWS_MAX
#define LEFT_WORDS  (ROWS_MAX * 1184u) /* all rows of 1024 steps; of more steps fewer rows */
/* Sums of a piece's rows with one panel, or with all of its panels where superblocks follow. */
#define STRIP_WORDS (ROWS_MAX * PANEL * 8)
/* Panels that are short (rows_multiply), of a piece together: half a MiB; and how many of them a tile goes by before its results are written. */
#define SHORT_WORDS (128u << 10)
#define RUN_PANELS  8u
_Static_assert(ROWS_MAX % TILE == 0 && TILE <= VF, "a tile's rows are a vector's lanes");
_Static_assert(LEFT_WORDS >= ROWS_MAX * 1024 / STEPS * ROW_WORDS, "scratch");
_Static_assert(BF16_SCRATCH_BYTES >= (LEFT_WORDS + STRIP_WORDS) * sizeof(float), "scratch");

/* Steps that `terms` take. */
ALWAYS_INLINE uint32_t steps_of(uint32_t terms, const bool is_pairs)
{
    return is_pairs ? (terms + 1) / 2 : (terms + 1) / 2 * 2;
}
static uint32_t super_terms(bool is_pairs) { return is_pairs ? 2 * SUPER_STEPS : SUPER_STEPS; }
/* Of the packed left factor: from one block to the next where terms lie side by side, else from one tile to the next. */
ALWAYS_INLINE size_t block_words(uint32_t rows) { return (size_t)rows * ROW_WORDS; }
ALWAYS_INLINE size_t tile_words(uint32_t steps) { return (size_t)steps * VF + LINE_FLOATS; }

/* bf16_round (engine/base/bf16.h), lane by lane. */
ALWAYS_INLINE vf vf_bf16_round(vf x)
{
#ifdef __AVX512BF16__
    /* Its instruction makes zeros of small numbers by itself. */
    return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(x)), 16);
#else
    vu bits = (vu)x, magnitude = bits & 0x7fffffff;
    vu is_nan = (vu)((vi)magnitude > 0x7f800000), is_small = (vu)((vi)magnitude < 0x00800000);
    vu rounded = bits + 0x7fff + (bits >> 16 & 1);
    rounded = (is_nan & (bits | 1u << 22)) | (~is_nan & rounded);
    rounded = (is_small & (bits ^ magnitude)) | (~is_small & rounded);
    return (vf)(rounded & 0xffff0000);
#endif
}

#if VF == 16
#define VF_SWAP_NEIGHBOURS(v) VF_SHUFFLE(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14)
#elif VF == 8
#define VF_SWAP_NEIGHBOURS(v) VF_SHUFFLE(v, v, 1, 0, 3, 2, 5, 4, 7, 6)
#else
#define VF_SWAP_NEIGHBOURS(v) VF_SHUFFLE(v, v, 1, 0, 3, 2)
#endif

/* What VDPBF16PS takes, where there is one. */
#ifdef __AVX512BF16__
#define HAS_PAIRS true
/* Words of low (lanes 0 .. VF - 1) and high (VF ..) side by side: lane i has terms 2 i and 2 i + 1. */
ALWAYS_INLINE vf vf_pairs_along(vf low, vf high) { return (vf)(__m512i)_mm512_cvtne2ps_pbh(high, low); }
/* Lane i has lane i of `low` and that of `high`. */
ALWAYS_INLINE vf vf_pairs_across(vf low, vf high)
{
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                           21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return (vf)_mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(high, low));
}
ALWAYS_INLINE vf vf_pairs_add(vf sum, vf left, vf right)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)(__m512i)left, (__m512bh)(__m512i)right);
}
ALWAYS_INLINE vf vf_word_splat(const float *word)
{
    int32_t bits;
    memcpy(&bits, word, sizeof bits);
    return (vf)_mm512_set1_epi32(bits);
}
#else
#define HAS_PAIRS false
ALWAYS_INLINE vf vf_pairs_along(vf low, vf high) { return low + high; }
ALWAYS_INLINE vf vf_pairs_across(vf low, vf high) { return low + high; }
ALWAYS_INLINE vf vf_pairs_add(vf sum, vf left, vf right) { return sum + left + right; }
ALWAYS_INLINE vf vf_word_splat(const float *word) { return vf_splat(*word); }
#endif

ALWAYS_INLINE vf vf_load_or_zero(const float *p, size_t left) { return left == 0 ? (vf){0} : vf_load_upto(p, left); }

/* Floats of a row between asking for their line and packing them; behind the row's last comes the next row. */
#define FLOATS_AHEAD 512u

/* Packs `terms` terms that lie side by side; writes up to a vector more than their steps. */
ALWAYS_INLINE void pack_along(float *words, const float *from, uint32_t terms, const bool is_pairs)
{
    if (is_pairs) {
        for (uint32_t t = 0; t < terms; t += 2 * VF, words += VF) {
            vf low = vf_load_upto(from + t, terms - t);
            vf high = vf_load_or_zero(from + t + VF, terms - t > VF ? terms - t - VF : 0);
            for (uint32_t i = 0; i < 2 * VF; i += LINE_FLOATS) prefetch_read(from + t + i + FLOATS_AHEAD);
            vf_store(words, vf_pairs_along(low, high));
        }
    } else {
        for (uint32_t t = 0; t < terms; t += VF, words += VF) {
            vf rounded = vf_bf16_round(vf_load_upto(from + t, terms - t));
            if (t % LINE_FLOATS == 0) prefetch_read(from + t + FLOATS_AHEAD);
            vf_store(words, VF_SWAP_NEIGHBOURS(rounded));
        }
    }
}

/* Packs terms t and t + 1 (absent: NULL) of `cols` <= VF columns that lie side by side into the words of one step or two. */
ALWAYS_INLINE void pack_across(float *words, size_t step_words, const float *term, const float *next, size_t cols,
                               const bool is_pairs)
{
    vf low = vf_load_or_zero(term, cols), high = next ? vf_load_or_zero(next, cols) : (vf){0};
    if (is_pairs) {
        vf_store(words, vf_pairs_across(low, high));
    } else {
        vf_store(words, vf_bf16_round(high));
        vf_store(words + step_words, vf_bf16_round(low));
    }
}

typedef float v4 __attribute__((vector_size(16)));
typedef float v4_memory __attribute__((vector_size(16), aligned(4), may_alias));

/* Moves four rows of `steps` words into four columns of a panel. */
static void words_transpose(float *panel, const float *rows, size_t row_words, uint32_t steps)
{
    const float *r0 = rows, *r1 = r0 + row_words, *r2 = r1 + row_words, *r3 = r2 + row_words;
    for (uint32_t s = 0; s < steps; s += 4) { /* rows have room behind their last step, the panel does not */
        v4 a = *(const v4_memory *)(r0 + s), b = *(const v4_memory *)(r1 + s);
        v4 d = *(const v4_memory *)(r2 + s), e = *(const v4_memory *)(r3 + s);
        v4 ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
        v4 de_low = __builtin_shufflevector(d, e, 0, 4, 1, 5), de_high = __builtin_shufflevector(d, e, 2, 6, 3, 7);
        v4 out[4] = {__builtin_shufflevector(ab_low, de_low, 0, 1, 4, 5),
                     __builtin_shufflevector(ab_low, de_low, 2, 3, 6, 7),
                     __builtin_shufflevector(ab_high, de_high, 0, 1, 4, 5),
                     __builtin_shufflevector(ab_high, de_high, 2, 3, 6, 7)};
        for (uint32_t i = 0; i < 4 && s + i < steps; i++) *(v4_memory *)(panel + (s + i) * PANEL) = out[i];
    }
}

/* --- the right factor ------------------------------------------------------------------------- */

/* A piece of packing: so many terms of so many panels, which are some KiB of a row where columns lie side by side. */
#define PACK_TERMS  512u
#define PACK_PANELS 8u
#define PACK_WORDS  (PACK_TERMS + LINE_FLOATS)
_Static_assert(BF16_SCRATCH_BYTES >= 4 * PACK_WORDS * sizeof(float), "scratch");

static size_t packed_panel_words(const struct product *p)
{
    return (size_t)p->term_groups * steps_of(p->terms, p->is_pairs) * PANEL;
}

/* Packs terms x cols of a factor whose columns lie side by side. */
ALWAYS_INLINE void right_pack_across(float *panels, size_t panel_words, const float *right, size_t right_term,
                                     uint32_t terms, uint32_t cols, const bool is_pairs)
{
    for (uint32_t t = 0; t < terms; t += 2, right += 2 * right_term, panels += (is_pairs ? 1 : 2) * PANEL) {
        float *panel = panels;
        for (uint32_t c = 0; c < cols; c += PANEL, panel += panel_words) {
            const float *term = right + c, *next = t + 1 < terms ? term + right_term : NULL;
            for (uint32_t i = 0; i < PANEL; i += LINE_FLOATS) {
                prefetch_read(term + ROWS_AHEAD * right_term + i);
                prefetch_read(term + (ROWS_AHEAD + 1) * right_term + i);
            }
            pack_across(panel, PANEL, term, next, cols - c, is_pairs);
            pack_across(panel + VF, PANEL, term + VF, next ? next + VF : NULL, cols - c > VF ? cols - c - VF : 0,
                        is_pairs);
        }
    }
}

/* Packs terms x cols of a factor whose terms lie side by side, by way of `rows`. */
ALWAYS_INLINE void right_pack_along(float *panels, size_t panel_words, const float *right, size_t right_col,
                                    uint32_t terms, uint32_t cols, float *rows, const bool is_pairs)
{
    for (uint32_t c = 0; c < (cols + PANEL - 1) / PANEL * PANEL; c += 4) {
        for (uint32_t i = 0; i < 4; i++) {
            if (c + i < cols)
                pack_along(rows + i * PACK_WORDS, right + (c + i) * right_col, terms, is_pairs);
            else
                memset(rows + i * PACK_WORDS, 0, PACK_WORDS * sizeof *rows);
        }
        words_transpose(panels + c / PANEL * panel_words + c % PANEL, rows, PACK_WORDS, steps_of(terms, is_pairs));
    }
}

ALWAYS_INLINE void right_pack(const struct product *p, uint32_t piece, float *scratch, const bool is_pairs)
{
    uint32_t runs = (p->terms + PACK_TERMS - 1) / PACK_TERMS, place = piece / runs, group = place % p->term_groups;
    uint32_t panel = place / p->term_groups * PACK_PANELS, begin = piece % runs * PACK_TERMS;
    uint32_t terms = p->terms - begin < PACK_TERMS ? p->terms - begin : PACK_TERMS;
    uint32_t cols = p->cols - panel * PANEL < PACK_PANELS * PANEL ? p->cols - panel * PANEL : PACK_PANELS * PANEL;
    size_t panel_words = packed_panel_words(p);
    const float *right = p->right + group * p->right_group + panel * PANEL * p->right_col + begin * p->right_term;
    float *panels = p->packed + panel * panel_words +
                    ((size_t)group * steps_of(p->terms, is_pairs) + steps_of(begin, is_pairs)) * PANEL;
    if (p->right_col == 1)
        right_pack_across(panels, panel_words, right, p->right_term, terms, cols, is_pairs);
    else
        right_pack_along(panels, panel_words, right, p->right_col, terms, cols, scratch, is_pairs);
}

void KERNEL(product_bf16_pack)(const struct product *p, uint32_t piece, void *scratch)
{
    if (HAS_PAIRS && p->is_pairs)
        right_pack(p, piece, scratch, HAS_PAIRS);
    else
        right_pack(p, piece, scratch, false);
}

/* --- the left factor -------------------------------------------------------------------------- */

/* Packs terms [begin, begin + terms) of `rows` rows from left on. */
ALWAYS_INLINE void left_pack(const struct product *p, float *words, const float *left, uint32_t rows, uint32_t begin,
                             uint32_t terms, const bool is_pairs)
{
    uint32_t steps = steps_of(terms, is_pairs);
    left += begin * p->left_term;
    if (p->left_term == 1) {
        uint32_t block_terms = is_pairs ? 2 * STEPS : STEPS;
        for (uint32_t r = 0; r < rows; r++, left += p->left_row, words += ROW_WORDS)
            for (uint32_t t = 0, block = 0; t < terms; t += block_terms, block++)
                pack_along(words + block * block_words(rows), left + t,
                           terms - t < block_terms ? terms - t : block_terms, is_pairs);
        return;
    }
    for (uint32_t t = 0; t < terms; t += 2, left += 2 * p->left_term, words += (is_pairs ? 1 : 2) * VF) {
        for (uint32_t r = 0; r < rows; r += LINE_FLOATS) {
            prefetch_read(left + ROWS_AHEAD * p->left_term + r);
            prefetch_read(left + (ROWS_AHEAD + 1) * p->left_term + r);
        }
        for (uint32_t r = 0, tile = 0; r < rows; r += TILE, tile++)
            pack_across(words + tile * tile_words(steps), VF, left + r, t + 1 < terms ? left + p->left_term + r : NULL,
                        rows - r < TILE ? rows - r : TILE, is_pairs);
    }
}

/* --- tiles ------------------------------------------------------------------------------------ */

/* sums [rows, PANEL] (+)= left [rows, steps] x panel [steps, PANEL]. All but left, panel, sums and steps are constants in an
 * instance. */
ALWAYS_INLINE void bf16_tile_multiply(const uint32_t rows, const float *left, const float *panel, uint32_t steps,
                                      float *sums, const bool is_first, const bool is_along, const bool is_pairs)
{
    if (!is_pairs) {
        /* The next tile's rows lie behind these. */
        const struct tile_ahead ahead = {.left = is_along ? left + rows * ROW_WORDS : NULL};
        tile_sums(rows, 2, left, is_along ? ROW_WORDS : 1, is_along ? 1 : VF, panel, PANEL, steps, &ahead, sums, PANEL,
                  is_first);
        return;
    }
    vf sum[TILE][2];
#pragma GCC unroll 16
    for (uint32_t r = 0; r < rows; r++) {
        sum[r][0] = is_first ? (vf){0} : vf_load(sums + r * PANEL);
        sum[r][1] = is_first ? (vf){0} : vf_load(sums + r * PANEL + VF);
    }
    for (uint32_t s = 0; s < steps; s++) {
        vf right0 = vf_load(panel), right1 = vf_load(panel + VF);
#pragma GCC unroll 16
        for (uint32_t r = 0; r < rows; r++) {
            vf l = vf_word_splat(left + (is_along ? r * ROW_WORDS : r));
            sum[r][0] = vf_pairs_add(sum[r][0], l, right0);
            sum[r][1] = vf_pairs_add(sum[r][1], l, right1);
        }
        left += is_along ? 1 : VF;
        panel += PANEL;
    }
#pragma GCC unroll 16
    for (uint32_t r = 0; r < rows; r++) {
        vf_store(sums + r * PANEL, sum[r][0]);
        vf_store(sums + r * PANEL + VF, sum[r][1]);
    }
}

/* One instance a number of rows: the last tile of a piece is as high as what is left. */
#define BF16_TILE_CASE(rows)                                                                                           \
    case rows: bf16_tile_multiply(rows, left, panel, steps, sums, is_first, is_along, is_pairs); break;
ALWAYS_INLINE void bf16_tile_dispatch(uint32_t rows, const float *left, const float *panel, uint32_t steps, float *sums,
                                      const bool is_first, const bool is_along, const bool is_pairs)
{
    switch (rows) {
        BF16_TILE_CASE(1)
        BF16_TILE_CASE(2)
        BF16_TILE_CASE(3)
        BF16_TILE_CASE(4)
#if TILE > 4
        BF16_TILE_CASE(5)
        BF16_TILE_CASE(6)
#endif
#if TILE > 6
        BF16_TILE_CASE(7)
        BF16_TILE_CASE(8)
        BF16_TILE_CASE(9)
        BF16_TILE_CASE(10)
        BF16_TILE_CASE(11)
        BF16_TILE_CASE(12)
        BF16_TILE_CASE(13)
        BF16_TILE_CASE(14)
#endif
    default: __builtin_unreachable();
    }
}

typedef void bf16_tile(uint32_t rows, const float *left, const float *panel, uint32_t steps, float *sums,
                       bool is_first);
#define BF16_TILE(name, is_along, is_pairs)                                                                            \
    static void name(uint32_t rows, const float *left, const float *panel, uint32_t steps, float *sums, bool is_first) \
    {                                                                                                                  \
        bf16_tile_dispatch(rows, left, panel, steps, sums, is_first, is_along, is_pairs);                              \
    }
BF16_TILE(tile_along_single, true, false)
BF16_TILE(tile_across_single, false, false)
BF16_TILE(tile_along_pairs, true, HAS_PAIRS)
BF16_TILE(tile_across_pairs, false, HAS_PAIRS)
static bf16_tile *const bf16_tiles[2][2] = {{tile_across_single, tile_across_pairs},
                                            {tile_along_single, tile_along_pairs}};

/* Between the two, numbers below 2^-126 are zeros, as operands and as results: MXCSR's DAZ and FTZ. */
ALWAYS_INLINE uint32_t tiny_flush(void)
{
    uint32_t before = _mm_getcsr(), during = before | 0x8040;
    __asm__ volatile("ldmxcsr %0" : : "m"(during) : "memory");
    return before;
}
ALWAYS_INLINE void tiny_restore(uint32_t before) { __asm__ volatile("ldmxcsr %0" : : "m"(before) : "memory"); }

/* Where the sums of a panel go: columns [col, …) of rows [row_begin, …) of a group of rows. */
struct place {
    uint32_t row_group, row_begin, col;
};

/* Asks for the lines of the result, and of the output that slopes come from, that the end of a tile's sums will meet; into the second-level
 * cache, for tiles come before. */
static void result_prefetch(const struct product *p, struct place at, uint32_t rows)
{
    const float *result = p->result + at.row_group * p->result_group + at.row_begin * p->result_row + at.col;
    const float *output =
        p->output ? p->output + at.row_group * p->output_group + at.row_begin * p->output_row + at.col : NULL;
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t c = 0; c < PANEL; c += LINE_FLOATS) {
            __builtin_prefetch(result + r * p->result_row + c, 0, 2);
            if (output != NULL) __builtin_prefetch(output + r * p->output_row + c, 0, 2);
        }
}

/* Asks for the lines of the block of steps behind this one that tile number `tile` of `tiles` fetches: from the shared memory of all
 * cores into this one's second-level cache, while it multiplies. */
static void block_prefetch(const float *block, uint32_t tile, uint32_t tiles)
{
    const uint32_t lines = STEPS * PANEL / LINE_FLOATS;
    const float *next = block + STEPS * PANEL;
    for (uint32_t i = lines * tile / tiles; i < lines * (tile + 1) / tiles; i++)
        __builtin_prefetch(next + i * LINE_FLOATS, 0, 2);
}

/* The packed left factor of a tile from row r and of a block from step `begin` on. */
static const float *left_at(const struct product *p, const float *left, uint32_t rows, uint32_t steps, uint32_t r,
                            uint32_t begin)
{
    return p->left_term == 1 ? left + begin / STEPS * block_words(rows) + (size_t)r * ROW_WORDS
                             : left + r / TILE * tile_words(steps) + (size_t)begin * VF;
}

/* Adds the steps of a superblock to the sums of rows x panel in the strip. */
static void panel_multiply(const struct product *p, const float *left, uint32_t rows, const float *panel,
                           uint32_t steps, float *strip, struct place place, bool is_first, bool is_last)
{
    bf16_tile *tile = bf16_tiles[p->left_term == 1][p->is_pairs];
    uint32_t tiles = (rows + TILE - 1) / TILE, before = tiny_flush();
    for (uint32_t begin = 0; begin < steps; begin += STEPS) {
        uint32_t count = steps - begin < STEPS ? steps - begin : STEPS;
        const float *block = panel + (size_t)begin * PANEL;
        for (uint32_t i = 0; i < tiles; i++) {
            uint32_t r = i * TILE, tile_rows = rows - r < TILE ? rows - r : TILE;
            block_prefetch(block, i, tiles);
            if (is_last && begin + count == steps)
                result_prefetch(p, (struct place){place.row_group, place.row_begin + r, place.col}, tile_rows);
            tile(tile_rows, left_at(p, left, rows, steps, r, begin), block, count, strip + r * PANEL,
                 is_first && begin == 0);
        }
    }
    tiny_restore(before);
}

/* The whole of rows x panels where the panels are short: they stay in the second-level cache, and a tile goes by all of them, so that
 * results, which then are most of the traffic, are written row by row. */
static void rows_multiply(const struct product *p, const float *left, uint32_t rows, const float *panels,
                          uint32_t panel_count, float *strip, struct place place)
{
    bf16_tile *tile = bf16_tiles[p->left_term == 1][p->is_pairs];
    uint32_t steps = steps_of(p->terms, p->is_pairs);
    for (uint32_t r = 0; r < rows; r += TILE) {
        uint32_t tile_rows = rows - r < TILE ? rows - r : TILE;
        for (uint32_t i = 0; i < panel_count; i += RUN_PANELS) {
            uint32_t end = panel_count - i < RUN_PANELS ? panel_count : i + RUN_PANELS, before = tiny_flush();
            for (uint32_t j = i; j < end; j++) {
                struct place to = {place.row_group, place.row_begin + r, place.col + j * PANEL};
                result_prefetch(p, to, tile_rows);
                for (uint32_t begin = 0; begin < steps; begin += STEPS)
                    tile(tile_rows, left_at(p, left, rows, steps, r, begin),
                         panels + j * packed_panel_words(p) + (size_t)begin * PANEL,
                         steps - begin < STEPS ? steps - begin : STEPS, strip + (j - i) * TILE * PANEL, begin == 0);
            }
            tiny_restore(before);
            for (uint32_t j = i; j < end; j++) KERNEL(product_finish)
            (p, place.row_group, strip + (j - i) * TILE * PANEL, place.row_begin + r, tile_rows, place.col + j * PANEL);
        }
    }
}

void KERNEL(product_bf16_piece)(const struct product *p, uint32_t piece, void *scratch)
{
    uint32_t panel_begin = piece % p->panel_runs * p->piece_panels, place = piece / p->panel_runs;
    uint32_t row_begin = place % p->chunk_count * p->piece_rows, row_group = place / p->chunk_count;
    uint32_t rows = p->rows - row_begin < p->piece_rows ? p->rows - row_begin : p->piece_rows;
    uint32_t panels = p->panel_count - panel_begin < p->piece_panels ? p->panel_count - panel_begin : p->piece_panels;
    uint32_t step_max = super_terms(p->is_pairs), steps_all = steps_of(p->terms, p->is_pairs);
    float *left = scratch, *strips = left + LEFT_WORDS;
    for (uint32_t t = 0; t < p->term_groups; t++) {
        for (uint32_t begin = 0; begin < p->terms; begin += step_max) {
            uint32_t terms = p->terms - begin < step_max ? p->terms - begin : step_max;
            bool is_first = t == 0 && begin == 0, is_last = t + 1 == p->term_groups && begin + terms == p->terms;
            const float *from = p->left + (row_group + t) * p->left_group + row_begin * p->left_row;
            if (HAS_PAIRS && p->is_pairs)
                left_pack(p, left, from, rows, begin, terms, HAS_PAIRS);
            else
                left_pack(p, left, from, rows, begin, terms, false);
            if (is_first && is_last && panels * packed_panel_words(p) <= SHORT_WORDS) {
                rows_multiply(p, left, rows, p->packed + panel_begin * packed_panel_words(p), panels, strips,
                              (struct place){row_group, row_begin, panel_begin * PANEL});
                return;
            }
            for (uint32_t i = 0; i < panels; i++) {
                const float *panel = p->packed + (panel_begin + i) * packed_panel_words(p) +
                                     ((size_t)t * steps_all + steps_of(begin, p->is_pairs)) * PANEL;
                float *strip = is_first && is_last ? strips : strips + (size_t)i * p->piece_rows * PANEL;
                struct place to = {row_group, row_begin, (panel_begin + i) * PANEL};
                panel_multiply(p, left, rows, panel, steps_of(terms, p->is_pairs), strip, to, is_first, is_last);
                if (is_last) KERNEL(product_finish)(p, row_group, strip, row_begin, rows, to.col);
            }
        }
    }
}

void KERNEL(product_bf16_cut)(struct product *p, uint32_t members)
{
    uint32_t supers = p->term_groups * ((p->terms + super_terms(p->is_pairs) - 1) / super_terms(p->is_pairs));
    uint32_t wanted = members == 1 ? 1 : 8 * members;
    /* As many rows as a superblock's left factor has room for. */
    uint32_t steps = steps_of(p->terms, p->is_pairs), super_steps = steps < SUPER_STEPS ? steps : SUPER_STEPS;
    size_t rows_most = p->left_term == 1 ? LEFT_WORDS / (((super_steps + STEPS - 1) / STEPS) * ROW_WORDS) / TILE * TILE
                                         : LEFT_WORDS / tile_words(super_steps) * TILE;
    if (rows_most > ROWS_MAX) rows_most = ROWS_MAX;
    p->panel_count = (p->cols + PANEL - 1) / PANEL;
    /* Chunks of rows first, but of four tiles at least; then runs of panels, for each of which the left factor is packed again. */
    uint32_t chunks = (uint32_t)((p->rows + rows_most - 1) / rows_most),
             chunks_most = (p->rows + 4 * TILE - 1) / (4 * TILE);
    uint32_t chunks_wanted = (wanted + p->row_groups - 1) / p->row_groups;
    if (chunks < chunks_wanted) chunks = chunks_wanted < chunks_most ? chunks_wanted : chunks_most;
    p->piece_rows = ((p->rows + chunks - 1) / chunks + TILE - 1) / TILE * TILE;
    p->chunk_count = (p->rows + p->piece_rows - 1) / p->piece_rows;
    uint32_t pieces = p->chunk_count * p->row_groups;
    uint32_t panels_most = supers == 1 ? p->panel_count : STRIP_WORDS / (p->piece_rows * PANEL);
    uint32_t runs = (p->panel_count + panels_most - 1) / panels_most;
    uint32_t runs_wanted = (wanted + pieces - 1) / pieces;
    if (runs < runs_wanted) runs = runs_wanted < p->panel_count ? runs_wanted : p->panel_count;
    p->piece_panels = (p->panel_count + runs - 1) / runs;
    p->panel_runs = (p->panel_count + p->piece_panels - 1) / p->piece_panels;
    p->piece_count = pieces * p->panel_runs;
    p->pack_count =
        (p->panel_count + PACK_PANELS - 1) / PACK_PANELS * p->term_groups * ((p->terms + PACK_TERMS - 1) / PACK_TERMS);
    p->packed_floats = p->panel_count * packed_panel_words(p);
}

/* --- which way is faster ---------------------------------------------------------------------- */

/* Least time of some runs of a tile, in ns: what else the machine does only adds. */
static uint64_t tile_ns(bf16_tile *tile, uint32_t steps, const float *left, const float *panel, float *sums)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < 8; i++) {
        uint64_t begin = clock_ns();
        for (uint32_t s = 0; s < steps; s += STEPS) tile(TILE, left, panel, STEPS, sums, true);
        uint64_t ns = clock_ns() - begin;
        if (ns < least) least = ns;
    }
    return least;
}

bool KERNEL(bf16_pairs_are_faster)(void)
{
    static const float left[TILE * ROW_WORDS], panel[STEPS * PANEL];
    float sums[TILE * PANEL];
    return HAS_PAIRS && tile_ns(tile_along_pairs, 4 * STEPS, left, panel, sums) <
                            tile_ns(tile_along_single, 2 * 4 * STEPS, left, panel, sums);
}
