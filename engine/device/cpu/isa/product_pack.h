/* How products (product.c) pack their factors: the right one into panels, a transposed left one into tiles.
 * Packing also sums the right factor's columns: a layer's gradient of its bias. */
#ifndef HETERPS_ENGINE_DEVICE_CPU_ISA_PRODUCT_PACK_H
#define HETERPS_ENGINE_DEVICE_CPU_ISA_PRODUCT_PACK_H

#include "engine/device/cpu/isa/tile.h"

/* Floats a term of a packed tile of the left factor, whole vectors. */
#define LEFT_STEP ((TILE + VF - 1) / VF * VF)
/* Lanes of a block of terms are at most 2^(LANE_LEVELS - 1). */
#define LANE_LEVELS 10u

static inline uint32_t count_from(uint32_t begin, uint32_t end, uint32_t most)
{
    return end - begin < most ? end - begin : most;
}

/* Columns of a panel, of which `cols` are left: PANEL, or half of it. */
ALWAYS_INLINE uint32_t panel_width(uint32_t cols) { return cols > VF ? PANEL : VF; }

/* Columns of a factor that is packed whole, panel after panel (product_whole.c). */
ALWAYS_INLINE size_t whole_cols(uint32_t cols)
{
    uint32_t rest = cols % PANEL;
    return cols - rest + (rest ? panel_width(rest) : 0);
}

/* Packs terms x cols of a factor whose columns are side by side, panel after panel, a panel term after term;
 * columns beyond become zeros. Adds the columns' sums to col_sums unless that is NULL. */
#define PACK_VECTORS 8u
ALWAYS_INLINE void pack_rows_strip(float *panels, const float *right, size_t right_term, uint32_t terms,
                                   float *col_sums)
{
    vf sum[PACK_VECTORS] = {{0}};
    for (uint32_t t = 0; t < terms; t++, right += right_term, panels += PANEL) {
#pragma GCC unroll 8
        for (uint32_t v = 0; v < PACK_VECTORS; v++) {
            vf x = vf_load(right + v * VF);
            if (v * VF % LINE_FLOATS == 0) prefetch_read(right + ROWS_AHEAD * right_term + v * VF);
            vf_store(panels + v / 2 * terms * PANEL + v % 2 * VF, x);
            if (col_sums != NULL) sum[v] += x;
        }
    }
    if (col_sums == NULL) return;
    for (uint32_t v = 0; v < PACK_VECTORS; v++) vf_store(col_sums + v * VF, vf_load(col_sums + v * VF) + sum[v]);
}

static inline void pack_rows(float *panels, const float *right, size_t right_term, uint32_t terms, uint32_t cols,
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

/* Adds sums of lanes, a vector each, in their order along the tree;
 * lane_vectors_end() returns the sum of all. */
struct lane_vectors {
    vf sum[LANE_LEVELS];
    uint32_t count, lane;
};
ALWAYS_INLINE void lane_vectors_add(struct lane_vectors *l, vf sum)
{
    for (uint32_t bit = l->lane++; bit & 1; bit >>= 1) sum = l->sum[--l->count] + sum;
    l->sum[l->count++] = sum;
}
ALWAYS_INLINE vf lane_vectors_end(const struct lane_vectors *l)
{
    uint32_t count = l->count - 1;
    vf sum = l->sum[count];
    while (count > 0) sum = l->sum[--count] + sum;
    return sum;
}

/* Adds to col_sums the sums of pack_rows(), lane by lane. */
static __attribute__((noinline, unused)) void lanes_col_sums(const float *right, size_t right_term, uint32_t terms,
                                                             uint32_t cols, uint32_t lane_terms, float *col_sums)
{
    for (uint32_t c = 0; c < cols; c += VF) {
        struct lane_vectors lanes = {.count = 0};
        for (uint32_t begin = 0; begin < terms; begin += lane_terms) {
            vf sum = {0};
            for (uint32_t t = begin; t < begin + count_from(begin, terms, lane_terms); t++)
                sum += vf_load_upto(right + t * right_term + c, cols - c);
            lane_vectors_add(&lanes, sum);
        }
        vf_store_upto(col_sums + c, vf_load_upto(col_sums + c, cols - c) + lane_vectors_end(&lanes), cols - c);
    }
}

/* pack_rows(), without sums, for a factor whose terms are side by side: VF columns by a line of terms at a
 * time through registers. Fewer columns or terms are first copied among zeros. */
static inline void pack_cols(float *panels, const float *right, size_t right_col, uint32_t terms, uint32_t cols)
{
    float edge[VF * LINE_FLOATS];
    for (uint32_t c = 0; c < cols; c += VF) {
        uint32_t panel = c / PANEL * PANEL, width = panel_width(cols - panel);
        float *to = panels + panel * terms + c % PANEL;
        uint32_t col_count = cols - c < VF ? cols - c : VF;
        for (uint32_t t = 0; t < terms; t += LINE_FLOATS, to += LINE_FLOATS * width) {
            size_t from_col = right_col;
            uint32_t count = terms - t < LINE_FLOATS ? terms - t : LINE_FLOATS;
            const float *from =
                cols_whole(edge, right + c * right_col + t, &from_col, count, col_count, c + 2 * VF <= cols);
            for (uint32_t i = 0; i < count; i += 4) {
                vf out[4];
                vf_load_transposed(out, from + i, from_col);
                for (uint32_t j = 0; j < 4 && i + j < count; j++) vf_store(to + (i + j) * width, out[j]);
            }
        }
    }
}

/* Packs `rows` <= TILE neighbouring columns of a transposed left factor: LEFT_STEP floats a term. */
static inline void left_pack(float *to, const float *left, size_t left_term, uint32_t rows, uint32_t terms)
{
    for (uint32_t t = 0; t < terms; t++, left += left_term, to += LEFT_STEP) {
#pragma GCC unroll 2
        for (uint32_t v = 0; v < LEFT_STEP; v += VF)
            vf_store(to + v, v < rows ? vf_load_upto(left + v, rows - v) : (vf){0});
    }
}

/* The sums of a packed panel's columns: even terms and odd ones, then both. */
ALWAYS_INLINE void panel_sum(const float *panel, uint32_t terms, vf both[2])
{
    vf sum[2][2] = {{{0}}};
    uint32_t t = 0;
    for (; t + 2 <= terms; t += 2, panel += 2 * PANEL)
        for (uint32_t i = 0; i < 2; i++) {
            sum[i][0] += vf_load(panel + i * PANEL);
            sum[i][1] += vf_load(panel + i * PANEL + VF);
        }
    if (t < terms) sum[0][0] += vf_load(panel), sum[0][1] += vf_load(panel + VF);
    for (uint32_t v = 0; v < 2; v++) both[v] = sum[0][v] + sum[1][v];
}

/* Adds a packed panel's column sums to col_sums; sums of lanes are added along the tree first. */
static __attribute__((noinline, unused)) void panel_sums(const float *panel, uint32_t terms, uint32_t lane_terms,
                                                         float *col_sums)
{
    struct lane_vectors lanes[2] = {{.count = 0}, {.count = 0}};
    vf both[2];
    if (lane_terms == 0) lane_terms = terms;
    for (uint32_t begin = 0; begin < terms; begin += lane_terms) {
        panel_sum(panel + (size_t)begin * PANEL, count_from(begin, terms, lane_terms), both);
        for (uint32_t v = 0; v < 2; v++) lane_vectors_add(&lanes[v], both[v]);
    }
    for (uint32_t v = 0; v < 2; v++)
        vf_store(col_sums + v * VF, vf_load(col_sums + v * VF) + lane_vectors_end(&lanes[v]));
}

#endif
