/* The parts of products of matrices: tiles of sums in registers, and panels of the right factor.
 *
 *              terms                PANEL
 *          ┌──────────┐        ┌─┬─┬─┬─┬─┐      a panel has PANEL columns of the right factor, packed term after term;
 *    rows  │ left     │  terms │ │ │#│ │ │      a tile is TILE rows of the left factor with one panel
 *          │##########│ TILE   └─┴─┴─┴─┴─┘
 *          └──────────┘
 *
 * An element's terms are added in order, one after another, whatever the tile. Half a panel, VF columns, has
 * tiles of its own, so that few columns cost less than a panel. */
#ifndef HETERPS_ENGINE_DEVICE_CPU_ISA_TILE_H
#define HETERPS_ENGINE_DEVICE_CPU_ISA_TILE_H

#include "engine/device/cpu/isa/act.h"
#include "engine/device/cpu/isa/kernels_isa.h"
#include "engine/device/cpu/isa/product.h"

/* TILE x PANEL sums fill the registers: 6 x 2 of 16 (AVX2), 14 x 2 of 32 (AVX-512); base keeps room for the
 * product that a fused multiply-add would not need: 4 x 2 of 16. */
#if VF == 16
#define TILE 14
#elif VF == 8
#define TILE 6
#else
#define TILE 4
#endif
#define PANEL (2 * VF)
/* Panels that a packed tile of a left factor must serve to be worth the copy. */
#define LEFT_PACKED_PANELS 4u
#define LINE_FLOATS        (CACHE_LINE_BYTES / sizeof(float))

/* Rows of a factor between asking for their lines and packing them. */
#define ROWS_AHEAD 8u

/* Returns VF columns, *from_col apart, of `count` terms side by side, at most a line of them: in place, or,
 * if there are fewer columns or terms, copied among zeros into `edge`, [VF * LINE_FLOATS]. In place, it asks
 * for the next VF columns if has_next. */
ALWAYS_INLINE const float *cols_whole(float *edge, const float *from, size_t *from_col, uint32_t count,
                                      uint32_t col_count, bool has_next)
{
    const size_t col = *from_col;
    if (count == LINE_FLOATS && col_count == VF) {
        if (has_next)
            for (uint32_t i = 0; i < VF; i++) prefetch_read(from + (VF + i) * col);
        return from;
    }
    memset(edge, 0, VF * LINE_FLOATS * sizeof *edge);
    for (uint32_t i = 0; i < col_count; i++) memcpy(edge + i * LINE_FLOATS, from + i * col, count * sizeof *from);
    *from_col = LINE_FLOATS;
    return edge;
}

/* `count` terms of tile_multiply, or steps of pairs: constant where it unrolls. */
ALWAYS_INLINE void tile_terms(const bool is_pairs, const uint32_t rows, const uint32_t vectors, const uint32_t count,
                              const float *base[(TILE + 2) / 3], size_t left_row, size_t left_term, const float *panel,
                              size_t panel_term, float *packed, vf sum[TILE][2])
{
    /* A third of the rows has a plain address; the multiply-add reads their numbers itself, which
     * leaves time for the other rows. Reading all rows so, twice a number, would take longer than the
     * sums. 3 % faster with AVX-512. */
    const bool is_near = VF == 16 && __builtin_constant_p(left_term);
#pragma GCC unroll 4
    for (uint32_t t = 0; t < count; t++) {
#ifdef __FMA__
        /* The compiler must not load the next terms' numbers early: the sums leave no register for them. */
        __asm__ volatile("" ::: "memory");
#endif
        vf right0 = vf_load(panel + t * panel_term);
        vf right1 = vectors == 2 ? vf_load(panel + t * panel_term + VF) : right0;
        if (packed != NULL) {
            vf_store(packed + t * PANEL, right0);
            vf_store(packed + t * PANEL + VF, right1);
            prefetch_read(panel + (t + ROWS_AHEAD) * panel_term);
            prefetch_read(panel + (t + ROWS_AHEAD) * panel_term + PANEL - LINE_FLOATS);
        }
#pragma GCC unroll 16
        for (uint32_t r = 0; r < rows; r++) {
            const float *number = &base[r / 3][r % 3 * left_row + t * left_term];
            if (is_pairs) {
                vf l = vf_word_splat(number);
                vf_pairs_into(&sum[r][0], l, right0);
                if (vectors == 2) vf_pairs_into(&sum[r][1], l, right1);
            } else if (is_near && r % 3 == 0) {
                vf_fma_into_splat(&sum[r][0], number, right0);
                if (vectors == 2) vf_fma_into_splat(&sum[r][1], number, right1);
            } else {
                vf l = vf_splat(*number);
                vf_fma_into(&sum[r][0], l, right0);
                if (vectors == 2) vf_fma_into(&sum[r][1], l, right1);
            }
        }
    }
#pragma GCC unroll 5
    for (uint32_t i = 0; i < (rows + 2) / 3; i++) base[i] += count * left_term;
}

/* Rows of a panel's width, `row` floats apart, to be asked for into the second cache. */
struct tile_far {
    const float *at;
    size_t row;
    uint32_t rows;
};

/* Memory that a tile asks for while it multiplies. */
struct tile_ahead {
    const float *left;   /* the next tile's rows, as far apart as these; or NULL */
    const float *result; /* TILE rows of a panel, where the next sums go; or NULL */
    const float *output; /* the outputs they meet; or NULL */
    size_t result_row, output_row;
    struct tile_far far[2]; /* of the right and of the left factor: will be packed after this tile */
};

ALWAYS_INLINE void tile_far_ask(struct tile_far *far)
{
    prefetch_far(far->at);
    prefetch_far(far->at + PANEL - LINE_FLOATS);
    far->at += far->row;
    far->rows--;
}

/* sum[rows][vectors] += left [rows, terms] x panel [terms, vectors * VF], whose terms lie panel_term apart
 * and are copied to `packed` unless that is NULL. `is_pairs`, `rows` and `vectors` are constants in every
 * instance; with is_pairs a term is a word of two in bfloat16 (product_bf16.c). Every three rows have a base,
 * from which the processor's addressing reaches them by 0, 1 and 2 times left_row. Lines of `ahead` are asked
 * for a row at a time: all at once they would take every place of the first cache that waits for memory (64
 * terms, M = 2048, N = 2048: 0.91 of the peak, all at once when a tile begins 0.81). */
ALWAYS_INLINE void tile_multiply(const bool is_pairs, const uint32_t rows, const uint32_t vectors, const float *left,
                                 size_t left_row, size_t left_term, const float *panel, size_t panel_term,
                                 uint32_t terms, const struct tile_ahead *ahead, float *packed, vf sum[TILE][2])
{
    const float *result = ahead->result, *output = ahead->output;
    uint32_t rows_ahead = result != NULL ? TILE : 0;
    /* Only a transposed left factor (a constant left_row) has a second one: every register counts. If the
     * left factor is not packed, there are few panels in which to ask for all its terms. */
    const bool has_far1 = __builtin_constant_p(left_row);
    struct tile_far far0 = ahead->far[0], far1 = has_far1 ? ahead->far[1] : (struct tile_far){0};
    const uint32_t far1_each = __builtin_constant_p(left_term) ? 1 : LEFT_PACKED_PANELS;
    const uint32_t step = rows == TILE && vectors == 2 && VF > 4 ? 4 : 1;
    const float *base[(TILE + 2) / 3];
#pragma GCC unroll 5
    for (uint32_t i = 0; i < (rows + 2) / 3; i++) base[i] = left + 3 * i * left_row;
    uint32_t t = 0;
    for (; t + step <= terms && (step == 1 || ahead->left != NULL || (rows_ahead | far0.rows | far1.rows) != 0);
         t += step, panel += step * panel_term) {
        if (ahead->left != NULL && t % LINE_FLOATS == 0) {
#pragma GCC unroll 16
            for (uint32_t r = 0; r < rows; r++) prefetch_read(ahead->left + r * left_row + t);
        }
        if (rows_ahead > 0) {
            rows_ahead--;
            prefetch_write(result);
            prefetch_write(result + PANEL - LINE_FLOATS);
            result += ahead->result_row;
            if (output != NULL) {
                prefetch_read(output);
                prefetch_read(output + PANEL - LINE_FLOATS);
                output += ahead->output_row;
            }
        }
        if (far0.rows > 0) tile_far_ask(&far0);
        if (has_far1) {
#pragma GCC unroll 4
            for (uint32_t i = 0; i < far1_each; i++)
                if (far1.rows > 0) tile_far_ask(&far1);
        }
        tile_terms(is_pairs, rows, vectors, step, base, left_row, left_term, panel, panel_term, packed, sum);
        if (packed != NULL) packed += step * PANEL;
    }
    /* Once everything is asked for, sums alone: asking takes a tenth of the instructions. */
    for (; step > 1 && t + step <= terms; t += step, panel += step * panel_term) {
        tile_terms(is_pairs, rows, vectors, step, base, left_row, left_term, panel, panel_term, packed, sum);
        if (packed != NULL) packed += step * PANEL;
    }
    for (; step > 1 && t < terms; t++, panel += panel_term) {
        tile_terms(is_pairs, rows, vectors, 1, base, left_row, left_term, panel, panel_term, packed, sum);
        if (packed != NULL) packed += PANEL;
    }
}

/* tile_multiply() for sums in memory, rows sums_row apart: added to, or begun if is_first. */
ALWAYS_INLINE void tile_sums(const bool is_pairs, const uint32_t rows, const uint32_t vectors, const float *left,
                             size_t left_row, size_t left_term, const float *panel, size_t panel_term, uint32_t terms,
                             const struct tile_ahead *ahead, float *sums, size_t sums_row, bool is_first)
{
    vf sum[TILE][2];
#pragma GCC unroll 16
    for (uint32_t r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (uint32_t v = 0; v < vectors; v++) sum[r][v] = is_first ? (vf){0} : vf_load(sums + r * sums_row + v * VF);
    tile_multiply(is_pairs, rows, vectors, left, left_row, left_term, panel, panel_term, terms, ahead, NULL, sum);
#pragma GCC unroll 16
    for (uint32_t r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (uint32_t v = 0; v < vectors; v++) vf_store(sums + r * sums_row + v * VF, sum[r][v]);
}

/* How a whole tile's sums end without leaving the registers: the usual ends. */
enum tile_end { TILE_WAITS, TILE_BIAS, TILE_BIAS_RELU, TILE_SLOPE_RELU, TILE_ADDS, TILE_BY_PARTS };

static inline enum tile_end tile_end_of(const struct product *p)
{
    switch (p->end) {
    case PRODUCT_ADDS: return TILE_ADDS;
    case PRODUCT_SLOPES:
        if (p->activation == ACT_NONE) return p->adds ? TILE_ADDS : TILE_WAITS;
        return p->activation == ACT_RELU && !p->adds ? TILE_SLOPE_RELU : TILE_BY_PARTS;
    case PRODUCT_ACTIVATES:
        if (p->bias == NULL) return p->activation == ACT_NONE ? TILE_WAITS : TILE_BY_PARTS;
        if (p->activation == ACT_NONE) return TILE_BIAS;
        return p->activation == ACT_RELU ? TILE_BIAS_RELU : TILE_BY_PARTS;
    }
    return TILE_BY_PARTS;
}

#define TILE_END(expression)                                                                                           \
    {                                                                                                                  \
        _Pragma("GCC unroll 16") for (uint32_t r = 0; r < TILE; r++)                                                   \
        {                                                                                                              \
            _Pragma("GCC unroll 2") for (uint32_t v = 0; v < 2; v++)                                                   \
            {                                                                                                          \
                float *to = result + r * result_row + v * VF;                                                          \
                vf s = sum[r][v];                                                                                      \
                vf_store(to, expression);                                                                              \
            }                                                                                                          \
        }                                                                                                              \
    }
/* Ends a whole tile's sums at `result`; slopes need `output`. `end` is any but TILE_BY_PARTS. */
ALWAYS_INLINE void tile_sums_end(enum tile_end end, vf sum[TILE][2], float *result, size_t result_row,
                                 const float *bias, const float *output, size_t output_row)
{
    switch (end) {
    case TILE_BIAS: TILE_END(s + vf_load(bias + v * VF)) break;
    case TILE_BIAS_RELU: TILE_END(vf_activation(ACT_RELU, 0, s + vf_load(bias + v * VF))) break;
    case TILE_SLOPE_RELU: TILE_END(vf_activation_grad(ACT_RELU, 0, vf_load(output + r * output_row + v * VF), s)) break;
    case TILE_ADDS: TILE_END(vf_load(to) + s) break;
    default: TILE_END(s) break;
    }
}

/* One instance a number of rows: the last tile of a piece is as high as the rows that are left. */
#define TILE_CASE(rows)                                                                                                \
    case rows:                                                                                                         \
        tile_sums(is_pairs, rows, vectors, left, left_row, left_term, panel, panel_term, terms, ahead, sums, sums_row, \
                  is_first);                                                                                           \
        break;
ALWAYS_INLINE void tile_dispatch(const bool is_pairs, uint32_t rows, const uint32_t vectors, const float *left,
                                 size_t left_row, size_t left_term, const float *panel, size_t panel_term,
                                 uint32_t terms, const struct tile_ahead *ahead, float *sums, size_t sums_row,
                                 bool is_first)
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

/* tile_dispatch() for a left factor whose terms lie side by side, and a whole panel. */
static inline void tile_along(uint32_t rows, const float *left, size_t left_row, const float *panel, uint32_t terms,
                              const struct tile_ahead *ahead, float *sums, size_t sums_row, bool is_first)
{
    tile_dispatch(false, rows, 2, left, left_row, 1, panel, PANEL, terms, ahead, sums, sums_row, is_first);
}

#endif
