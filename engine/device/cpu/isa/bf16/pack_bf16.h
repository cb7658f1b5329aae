/* How the factors of products in bfloat16 are packed, and how their terms are walked through
 * (product_bf16.c).
 *
 * Packed factors are words of 32 bits, one for each step of a row (left) or column (right), in one of
 * two ways that give the same bits:
 *
 *     pairs    a step is two terms t, t + 1; a word is both of them as bfloat16; VDPBF16PS adds word times word to
 *              a sum, t + 1 first
 *     single   a step is one term; a word is the term rounded to bfloat16, as a float32; terms come in the order t
 *              + 1, t, and a fused multiply-add adds word times word, as exactly: the product of two bfloat16 has
 *              16 bits
 *
 *     right    packed[group of terms][block of terms][panel][step][PANEL]
 *
 * The right factor is packed before by pieces of their own, which all others share, or block after block by
 * the piece that multiplies them.
 *
 * An odd last term gets a zero for partner. Tiles (amx.h) take pairs, sixteen steps of them at a time: zeros
 * fill the last ones up. */
#ifndef HETERPS_ENGINE_DEVICE_CPU_ISA_BF16_PACK_BF16_H
#define HETERPS_ENGINE_DEVICE_CPU_ISA_BF16_PACK_BF16_H

#include "engine/device/cpu/isa/bf16/product_bf16.h"
#include "engine/device/cpu/isa/round_bf16.h"
#include "engine/device/cpu/isa/tile.h"

#define AMX_TERMS 32u /* of a tile; steps, of a pair each */
#define AMX_STEPS 16u

/* Most steps of a block of terms. Tiles go through smaller blocks, so that a panel and the rows it
 * meets fit into the first cache. */
#define BLOCK_STEPS (HAS_TILES ? PRODUCT_TERMS / 2 : PRODUCT_TERMS)

/* Steps that `terms` take. */
ALWAYS_INLINE uint32_t steps_of(uint32_t terms, const bool is_pairs)
{
    if (HAS_TILES) return (terms + AMX_TERMS - 1) / AMX_TERMS * AMX_STEPS;
    return is_pairs ? (terms + 1) / 2 : (terms + 1) / 2 * 2;
}
/* vf_bf16_round, and each two neighbours exchanged: the order in which terms are added. */
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

/* The operands of VDPBF16PS, where there is one. */
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
#elif defined(AMX_MODEL)
ALWAYS_INLINE vf vf_pairs_along(vf low, vf high)
{
    const __m512i upper = _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29, 27,
                                           25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    return (vf)_mm512_permutex2var_epi16((__m512i)vf_bf16_round(low), upper, (__m512i)vf_bf16_round(high));
}
ALWAYS_INLINE vf vf_pairs_across(vf low, vf high)
{
    return (vf)((vu)vf_bf16_round(high) | (vu)vf_bf16_round(low) >> 16);
}
#else
ALWAYS_INLINE vf vf_pairs_along(vf low, vf high) { return low + high; }
ALWAYS_INLINE vf vf_pairs_across(vf low, vf high) { return low + high; }
#endif

ALWAYS_INLINE vf vf_load_or_zero(const float *from, size_t left)
{
    return left == 0 ? (vf){0} : vf_load_upto(from, left);
}

/* Packs `terms` terms that lie side by side, and asks for those at `ahead`; writes up to a vector more than
 * their steps. */
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

/* Most panels of a piece of packing: some KiB of a row where columns lie side by side. */
#define PACK_PANELS 8u

static inline uint32_t panels_of(uint32_t cols) { return (cols + PANEL - 1) / PANEL; }

/* Words of a panel of a block of terms. */
static inline size_t panel_words_of(const struct product *p, struct terms of)
{
    return (size_t)steps_of(of.count, p->is_pairs) * PANEL;
}
/* Of a right factor that is packed before: its words, and the panel of a block from column `col` on. */
static inline size_t right_words(const struct product *p)
{
    return (size_t)p->term_groups * steps_of(p->terms, p->is_pairs) * panels_of(p->cols) * PANEL;
}
static inline float *right_packed(const struct product *p, struct terms of, uint32_t col)
{
    size_t steps = (size_t)of.group * steps_of(p->terms, p->is_pairs) + steps_of(of.begin, p->is_pairs);
    return p->packed + steps * panels_of(p->cols) * PANEL + col / PANEL * panel_words_of(p, of);
}

/* Packs a strip, terms x cols and at most ACROSS_VECTORS vectors wide, of a factor whose columns lie side by
 * side. With has_sums, adds the terms to col_sums in order; the strip's sums are in registers. */
#define ACROSS_VECTORS 8u
ALWAYS_INLINE void right_pack_strip(float *panels, size_t panel_words, const float *right, size_t right_term,
                                    uint32_t terms, uint32_t cols, vf *col_sums, const bool has_sums,
                                    const bool is_pairs)
{
    const uint32_t vectors = (cols + PANEL - 1) / PANEL * 2;
    vf sum[ACROSS_VECTORS];
    for (uint32_t vector = 0; vector < vectors && has_sums; vector++) sum[vector] = col_sums[vector];
    for (uint32_t t = 0; t < terms; t += 2, right += 2 * right_term, panels += (is_pairs ? 1 : 2) * PANEL) {
#pragma GCC unroll 8
        for (uint32_t vector = 0; vector < ACROSS_VECTORS; vector++) {
            const uint32_t c = vector * VF;
            if (vector >= vectors) break;
            size_t left = cols > c ? cols - c : 0;
            vf term = vf_load_or_zero(right + c, left), next = {0};
            if (t + 1 < terms) next = vf_load_or_zero(right + right_term + c, left);
            if (c % LINE_FLOATS == 0) {
                prefetch_read(right + ROWS_AHEAD * right_term + c);
                prefetch_read(right + (ROWS_AHEAD + 1) * right_term + c);
            }
            words_store(panels + vector / 2 * panel_words + vector % 2 * VF, PANEL, term, next, is_pairs);
            if (has_sums) sum[vector] = sum[vector] + term + next;
        }
    }
    for (uint32_t vector = 0; vector < vectors && has_sums; vector++) col_sums[vector] = sum[vector];
}

ALWAYS_INLINE void right_pack_across(float *panels, size_t panel_words, const float *right, size_t right_term,
                                     uint32_t terms, uint32_t cols, vf *col_sums, const bool has_sums,
                                     const bool is_pairs)
{
    const uint32_t wide = ACROSS_VECTORS * VF;
    for (uint32_t c = 0; c < cols;) {
        float *to = panels + c / PANEL * panel_words;
        vf *sums = has_sums ? col_sums + c / VF : NULL;
        uint32_t left = cols - c;
        if (left >= wide)
            right_pack_strip(to, panel_words, right + c, right_term, terms, wide, sums, has_sums, is_pairs);
        else if (left >= PANEL)
            right_pack_strip(to, panel_words, right + c, right_term, terms, PANEL, sums, has_sums, is_pairs);
        else
            right_pack_strip(to, panel_words, right + c, right_term, terms, left, sums, has_sums, is_pairs);
        c += left >= wide ? wide : PANEL;
    }
}

/* Packs terms x cols of a factor whose terms lie side by side: VF columns by LINE_FLOATS terms at a time
 * through registers. Fewer columns or terms are first copied among zeros. */
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

#if HAS_TILES
/* Stores word i of row r of 16 rows of 16 words as word r of row i, rows `row` apart; of `count` words i. */
ALWAYS_INLINE void words_transpose(float *to, size_t row, const float *words, const uint32_t count)
{
#pragma GCC unroll 4
    for (uint32_t i = 0; i < count; i += 4) {
        vf out[4];
        vf_load_transposed(out, words + i, VF);
#pragma GCC unroll 4
        for (uint32_t j = 0; j < 4; j++) vf_store(to + (i + j) * row, out[j]);
    }
}

/* right_pack_along, whole tiles at a time: it rounds first, and so transposes half as much. */
static void right_pack_tiles(float *panels, size_t panel_words, const float *right, size_t right_col, uint32_t terms,
                             uint32_t cols)
{
    float words[VF * VF] __attribute__((aligned(64)));
    for (uint32_t c = 0; c < (cols + PANEL - 1) / PANEL * PANEL; c += VF) {
        float *to = panels + c / PANEL * panel_words + c % PANEL;
        for (uint32_t t = 0; t < terms; t += AMX_TERMS, to += AMX_STEPS * PANEL) {
            uint32_t left = terms - t;
            for (uint32_t i = 0; i < VF; i++) {
                const float *from = right + (c + i) * right_col + t;
                vf low = {0}, high = {0};
                if (c + i < cols) {
                    low = vf_load_upto(from, left);
                    high = vf_load_or_zero(from + VF, left > VF ? left - VF : 0);
                    prefetch_read(from + VF * right_col);
                    prefetch_read(from + VF * right_col + VF);
                }
                vf_store(words + i * VF, vf_pairs_along(low, high));
            }
            words_transpose(to, PANEL, words, VF);
        }
    }
}
#endif

/* Packs terms x columns [col, col + cols). Where columns lie side by side, adds terms to col_sums, if any. */
ALWAYS_INLINE void right_pack(const struct product *p, struct terms of, uint32_t col, uint32_t cols, float *panels,
                              size_t panel_words, vf *col_sums, const bool is_pairs)
{
    const float *right = p->right + of.group * p->right_group + of.begin * p->right_term + col * p->right_col;
#if HAS_TILES
    if (p->right_col != 1) {
        right_pack_tiles(panels, panel_words, right, p->right_col, of.count, cols);
        return;
    }
#endif
    if (p->right_col != 1)
        right_pack_along(panels, panel_words, right, p->right_col, of.count, cols, is_pairs);
    else if (col_sums != NULL)
        right_pack_across(panels, panel_words, right, p->right_term, of.count, cols, col_sums, true, is_pairs);
    else
        right_pack_across(panels, panel_words, right, p->right_term, of.count, cols, NULL, false, is_pairs);
}

/* Makes zeros of the steps behind the last term. */
static inline void steps_fill(float *panels, size_t panel_words, uint32_t terms, uint32_t cols)
{
    uint32_t begin = (terms + 1) / 2 * PANEL, end = steps_of(terms, true) * PANEL;
    for (uint32_t c = 0; c < cols; c += PANEL, panels += panel_words)
        memset(panels + begin, 0, (end - begin) * sizeof *panels);
}

static inline void right_pack_any(const struct product *p, struct terms of, uint32_t col, uint32_t cols, float *panels,
                                  size_t panel_words, vf *col_sums)
{
    if (HAS_PAIRS && p->is_pairs)
        right_pack(p, of, col, cols, panels, panel_words, col_sums, HAS_PAIRS);
    else
        right_pack(p, of, col, cols, panels, panel_words, col_sums, false);
    if (HAS_TILES) steps_fill(panels, panel_words, of.count, cols);
}

/* Between tiny_flush() and tiny_restore(), numbers below 2^-126 are zeros, as operands
 * and results: MXCSR's DAZ and FTZ. */
ALWAYS_INLINE uint32_t tiny_flush(void)
{
    uint32_t before = _mm_getcsr(), during = before | 0x8040;
    __asm__ volatile("ldmxcsr %0" : : "m"(during) : "memory");
    return before;
}
ALWAYS_INLINE void tiny_restore(uint32_t before) { __asm__ volatile("ldmxcsr %0" : : "m"(before) : "memory"); }

static inline struct terms terms_at(const struct product *p, uint32_t group, uint32_t begin)
{
    uint32_t most = p->is_pairs ? 2 * BLOCK_STEPS : BLOCK_STEPS, left = p->terms - begin;
    struct terms at = {.group = group, .begin = begin, .count = left < most ? left : most};
    at.is_first = group == 0 && begin == 0;
    at.is_last = group + 1 == p->term_groups && begin + at.count == p->terms;
    return at;
}

static inline struct terms terms_after(const struct product *p, struct terms at)
{
    bool is_group_end = at.begin + at.count == p->terms;
    return terms_at(p, at.group + is_group_end, is_group_end ? 0 : at.begin + at.count);
}

#endif
