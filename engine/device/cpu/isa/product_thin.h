/* Sums of few rows, for which a right factor is not worth packing: it is read once, in place, or where it was
 * packed for other products (product.c). */
#ifndef HETERPS_ENGINE_DEVICE_CPU_ISA_PRODUCT_THIN_H
#define HETERPS_ENGINE_DEVICE_CPU_ISA_PRODUCT_THIN_H

#include "engine/device/cpu/isa/tile.h"

/* Sums of few rows with a panel whose terms lie side by side, read once in place: 2 VF columns by four terms
 * at a time through registers. `rows` is a constant in every instance. */
#define THIN_ROWS  4u
#define THIN_AHEAD 64u /* floats of a column between asking for a line and reading it */
ALWAYS_INLINE void thin_multiply(const uint32_t rows, const float *left, size_t left_row, const float *right,
                                 size_t right_col, uint32_t terms, float *sums)
{
    vf sum[THIN_ROWS][2] = {{{0}}};
    uint32_t t = 0;
    for (; t + 4 <= terms; t += 4) {
        vf term[2][4];
        if (t % LINE_FLOATS == 0)
            for (uint32_t c = 0; c < PANEL; c++) prefetch_read(right + c * right_col + t + THIN_AHEAD);
        vf_load_transposed(term[0], right + t, right_col);
        vf_load_transposed(term[1], right + VF * right_col + t, right_col);
#pragma GCC unroll 4
        for (uint32_t i = 0; i < 4; i++)
#pragma GCC unroll 4
            for (uint32_t r = 0; r < rows; r++) {
                vf l = vf_splat(left[r * left_row + t + i]);
                vf_fma_into(&sum[r][0], l, term[0][i]);
                vf_fma_into(&sum[r][1], l, term[1][i]);
            }
    }
    for (; t < terms; t++) {
        float term[PANEL];
        for (uint32_t c = 0; c < PANEL; c++) term[c] = right[c * right_col + t];
#pragma GCC unroll 4
        for (uint32_t r = 0; r < rows; r++) {
            vf l = vf_splat(left[r * left_row + t]);
            vf_fma_into(&sum[r][0], l, vf_load(term));
            vf_fma_into(&sum[r][1], l, vf_load(term + VF));
        }
    }
#pragma GCC unroll 4
    for (uint32_t r = 0; r < rows; r++) {
        vf_store(sums + r * PANEL, sum[r][0]);
        vf_store(sums + r * PANEL + VF, sum[r][1]);
    }
}

static inline void tile_thin(uint32_t rows, const float *left, size_t left_row, const float *right, size_t right_col,
                             uint32_t terms, float *sums)
{
    switch (rows) {
    case 1: thin_multiply(1, left, left_row, right, right_col, terms, sums); break;
    case 2: thin_multiply(2, left, left_row, right, right_col, terms, sums); break;
    case 3: thin_multiply(3, left, left_row, right, right_col, terms, sums); break;
    default: thin_multiply(4, left, left_row, right, right_col, terms, sums);
    }
}

/* Sums of few rows with `panels` panels whose columns lie side by side, read once in place, in a strip as
 * wide as the registers have room for sums: neighbouring lines of a row come from memory together. The next
 * panel lies panel_step further. sums: a panel's rows, then the next panel's. */
#define THIN_SUMS         (VF == 16 ? 16u : 8u)
#define THIN_PANELS(rows) (THIN_SUMS / (2 * ((rows) == 3 ? 4 : (rows))))
ALWAYS_INLINE void strip_multiply(const uint32_t rows, const uint32_t panels, const float *left, size_t left_row,
                                  size_t left_term, const float *right, size_t right_term, size_t panel_step,
                                  uint32_t terms, float *sums)
{
    vf sum[THIN_ROWS][THIN_SUMS] = {{{0}}};
    for (uint32_t t = 0; t < terms; t++, left += left_term, right += right_term) {
#pragma GCC unroll 16
        for (uint32_t v = 0; v < 2 * panels; v++) {
            const float *at = right + v / 2 * panel_step + v % 2 * VF;
            if (v * VF % LINE_FLOATS == 0) prefetch_read(at + ROWS_AHEAD * right_term);
            vf x = vf_load(at);
#pragma GCC unroll 4
            for (uint32_t r = 0; r < rows; r++) vf_fma_into(&sum[r][v], vf_splat(left[r * left_row]), x);
        }
    }
#pragma GCC unroll 4
    for (uint32_t r = 0; r < rows; r++)
#pragma GCC unroll 16
        for (uint32_t v = 0; v < 2 * panels; v++) vf_store(sums + (v / 2 * rows + r) * PANEL + v % 2 * VF, sum[r][v]);
}

#define STRIP_CASE(rows, panels)                                                                                       \
    case rows:                                                                                                         \
        strip_multiply(rows, panels, left, left_row, left_term, right, right_term, panel_step, terms, sums);           \
        break;
static inline void strip_one(uint32_t rows, const float *left, size_t left_row, size_t left_term, const float *right,
                             size_t right_term, size_t panel_step, uint32_t terms, float *sums)
{
    switch (rows) {
        STRIP_CASE(1, 1)
        STRIP_CASE(2, 1)
        STRIP_CASE(3, 1)
        STRIP_CASE(4, 1)
    }
}

static inline void strip_wide(uint32_t rows, const float *left, size_t left_row, size_t left_term, const float *right,
                              size_t right_term, size_t panel_step, uint32_t terms, float *sums)
{
    switch (rows) {
        STRIP_CASE(1, THIN_PANELS(1))
        STRIP_CASE(2, THIN_PANELS(2))
        STRIP_CASE(3, THIN_PANELS(3))
        STRIP_CASE(4, THIN_PANELS(4))
    }
}

#endif
