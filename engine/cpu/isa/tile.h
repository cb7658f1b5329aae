/* What products of matrices are made of: tiles of sums in registers, and panels of the right factor.
 *
 *              terms                      PANEL
 *          ┌──────────┐              ┌─┬─┬─┬─┬─┐      a panel has PANEL columns of the right factor, packed term after term;
 *    rows  │ left     │        terms │ │ │#│ │ │      a tile is TILE rows of the left factor with one panel
 *          │##########│ TILE         └─┴─┴─┴─┴─┘
 *          └──────────┘
 *
 * An element's terms are added in order, one after another, whatever the tile. */
#ifndef HETERPS_ENGINE_CPU_ISA_TILE_H
#define HETERPS_ENGINE_CPU_ISA_TILE_H

#include "engine/cpu/isa/act.h"
#include "engine/cpu/isa/kernels_isa.h"

/* TILE x PANEL sums fill the registers: 6 x 2 of 16 (AVX2), 14 x 2 of 32 (AVX-512); base keeps room for the product
 * that a fused multiply-add would not need: 4 x 2 of 16. */
#if VF == 16
#define TILE 14
#elif VF == 8
#define TILE 6
#else
#define TILE 4
#endif
#define PANEL       (2 * VF)
#define LINE_FLOATS (CACHE_LINE_BYTES / sizeof(float))
/* Terms between asking for a line and using it: 12 take about 70 cycles, a visit of the third-level cache. */
#define TERMS_AHEAD 12u

/* sums [rows, PANEL] (+)= left [rows, terms] x panel [terms, PANEL]. `rows` is a constant in every instance. */
ALWAYS_INLINE void tile_multiply(const uint32_t rows, const float *left, size_t left_row, size_t left_term,
                                 const float *panel, uint32_t terms, float *sums, bool is_first)
{
    vf sum[TILE][2];
#pragma GCC unroll 16
    for (uint32_t r = 0; r < rows; r++) {
        sum[r][0] = is_first ? (vf){0} : vf_load(sums + r * PANEL);
        sum[r][1] = is_first ? (vf){0} : vf_load(sums + r * PANEL + VF);
    }
    for (uint32_t begin = 0; begin < terms; begin += LINE_FLOATS) {
        uint32_t count = terms - begin < LINE_FLOATS ? terms - begin : LINE_FLOATS;
        if (left_term == 1) {
#pragma GCC unroll 16
            for (uint32_t r = 0; r < rows; r++) prefetch_read(left + (rows + r) * left_row); /* the next tile's line */
        }
        for (uint32_t t = 0; t < count; t++) {
            vf right0 = vf_load(panel), right1 = vf_load(panel + VF);
            if (left_term != 1) prefetch_read(left + TERMS_AHEAD * left_term);
#pragma GCC unroll 16
            for (uint32_t r = 0; r < rows; r++) {
                vf l = vf_splat(left[r * left_row]);
                sum[r][0] = vf_fma(l, right0, sum[r][0]);
                sum[r][1] = vf_fma(l, right1, sum[r][1]);
            }
            left += left_term;
            panel += PANEL;
        }
    }
#pragma GCC unroll 16
    for (uint32_t r = 0; r < rows; r++) {
        vf_store(sums + r * PANEL, sum[r][0]);
        vf_store(sums + r * PANEL + VF, sum[r][1]);
    }
}

/* One instance a number of rows: the last tile of a piece is as high as what is left. */
#define TILE_CASE(rows)                                                                                                \
    case rows: tile_multiply(rows, left, left_row, left_term, panel, terms, sums, is_first); break;
ALWAYS_INLINE void tile_dispatch(uint32_t rows, const float *left, size_t left_row, size_t left_term,
                                 const float *panel, uint32_t terms, float *sums, bool is_first)
{
    switch (rows) {
        TILE_CASE(1)
        TILE_CASE(2)
        TILE_CASE(3)
        TILE_CASE(4)
#if TILE > 4
        TILE_CASE(5)
        TILE_CASE(6)
#endif
#if TILE > 6
        TILE_CASE(7)
        TILE_CASE(8)
        TILE_CASE(9)
        TILE_CASE(10)
        TILE_CASE(11)
        TILE_CASE(12)
        TILE_CASE(13)
        TILE_CASE(14)
#endif
    default: __builtin_unreachable();
    }
}

/* Terms side by side. */
static void tile_along(uint32_t rows, const float *left, size_t left_row, const float *panel, uint32_t terms,
                       float *sums, bool is_first)
{
    tile_dispatch(rows, left, left_row, 1, panel, terms, sums, is_first);
}

#endif
