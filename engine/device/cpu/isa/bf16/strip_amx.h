/* The left factor of a product by tiles (amx.h), packed in strips of BF16_ROWS rows:
 *
 *     strips[group][block of terms][strip][step / 16][row of 32][16 words]
 *
 * Sixteen rows of sixteen words are a tile; a word is two terms (pack_bf16.h). Where several pieces read the
 * left factor, it is packed once a product; else a piece packs a strip before it multiplies it. Rows that
 * fill up a strip keep what was there: they give sums that nothing reads. */
#ifndef HETERPS_ENGINE_DEVICE_CPU_ISA_BF16_STRIP_AMX_H
#define HETERPS_ENGINE_DEVICE_CPU_ISA_BF16_STRIP_AMX_H

#include "engine/device/cpu/isa/bf16/pack_bf16.h"

#if HAS_TILES

#define STRIP_STEP (BF16_ROWS * VF) /* floats of a strip's AMX_STEPS steps */

static inline size_t strip_floats(struct terms of) { return (size_t)steps_of(of.count, true) * BF16_ROWS; }
static inline uint32_t strips_of(uint32_t rows) { return (rows + BF16_ROWS - 1) / BF16_ROWS; }

/* Floats of a packed left factor. */
static inline size_t strips_floats(const struct product *p)
{
    return (size_t)p->row_groups * p->term_groups * steps_of(p->terms, true) * strips_of(p->rows) * BF16_ROWS;
}

/* The packed strip of a block of terms that begins at row `row` of a group of rows. */
static inline float *strip_packed(const struct product *p, uint32_t group, struct terms of, uint32_t row)
{
    size_t steps = (size_t)(group + of.group) * steps_of(p->terms, true) + steps_of(of.begin, true);
    return p->packed + p->left_at + steps * strips_of(p->rows) * BF16_ROWS + row / BF16_ROWS * strip_floats(of);
}

/* Rows whose terms lie side by side: word p of a row has terms 2 p and 2 p + 1. */
static inline void strip_pack_along(const struct product *p, const float *left, uint32_t rows, uint32_t terms,
                                    float *to)
{
    for (uint32_t r = 0; r < rows; r++, left += p->left_row, to += VF) {
        const float *ahead = left + LEFT_ROWS_AHEAD * p->left_row;
        float *tile = to;
        uint32_t t = 0;
        for (; t + AMX_TERMS <= terms; t += AMX_TERMS, tile += STRIP_STEP) {
            prefetch_read(ahead + t);
            prefetch_read(ahead + t + VF);
            vf_store(tile, vf_pairs_along(vf_load(left + t), vf_load(left + t + VF)));
        }
        if (t == terms) continue;
        uint32_t rest = terms - t;
        prefetch_read(ahead + t);
        prefetch_read(ahead + terms - 1);
        vf_store(tile, vf_pairs_along(vf_load_upto(left + t, rest),
                                      vf_load_or_zero(left + t + VF, rest > VF ? rest - VF : 0)));
    }
}

/* A tile of rows that lie side by side, `rows` <= VF of them, and `terms` <= AMX_TERMS terms. */
static inline void tile_pack_across(const struct product *p, const float *left, uint32_t rows, uint32_t terms,
                                    float *to)
{
    float words[VF * VF] __attribute__((aligned(64)));
    for (uint32_t t = 0; t < AMX_TERMS; t += 2, left += 2 * p->left_term) {
        vf term = {0}, next = {0};
        if (t < terms) term = vf_load_upto(left, rows);
        if (t + 1 < terms) next = vf_load_upto(left + p->left_term, rows);
        prefetch_read(left + AMX_TERMS * p->left_term);
        prefetch_read(left + (AMX_TERMS + 1) * p->left_term);
        vf_store(words + t / 2 * VF, vf_pairs_across(term, next));
    }
    words_transpose(to, VF, words, VF);
}

/* Packs `rows` rows of a block of terms, which lie at `left`, into strips, one behind the other. Rows that
 * lie side by side are read along: all strips' tiles of some terms, then those of the next terms. */
static inline void strips_pack(const struct product *p, struct terms of, const float *left, uint32_t rows, float *to)
{
    const size_t strip = strip_floats(of);
    if (p->left_term == 1) {
        for (uint32_t r = 0; r < rows; r += BF16_ROWS, to += strip)
            strip_pack_along(p, left + r * p->left_row, rows - r < BF16_ROWS ? rows - r : BF16_ROWS, of.count, to);
        return;
    }
    for (uint32_t t = 0; t < of.count; t += AMX_TERMS, to += STRIP_STEP, left += AMX_TERMS * p->left_term)
        for (uint32_t r = 0; r < rows; r += VF)
            tile_pack_across(p, left + r, rows - r < VF ? rows - r : VF,
                             of.count - t < AMX_TERMS ? of.count - t : AMX_TERMS,
                             to + r / BF16_ROWS * strip + r % BF16_ROWS * VF);
}

#endif
#endif
