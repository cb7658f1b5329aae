/* Scores of queries with all words of a vocabulary, and the questions about a row of scores
 * (engine/eval/rank.h). A panel of words is read once for all queries, TILE of them at a time; with some tens
 * of queries the products bound it, not memory. */
#include "engine/device/cpu/isa/tile.h"

#define BLOCK ((size_t)1024) /* numbers whose exp are added in floats */

void KERNEL(rank_score_f32)(float *scores, size_t scores_stride, const float *query, size_t query_stride, uint32_t rows,
                            const float *panels, uint32_t panel_count, uint32_t dim)
{
    for (uint32_t p = 0; p < panel_count; p++) {
        const float *panel = panels + (size_t)p * (dim + 1) * PANEL;
        for (uint32_t begin = 0; begin < rows; begin += TILE) {
            float sums[TILE * PANEL];
            uint32_t count = rows - begin < TILE ? rows - begin : TILE;
            for (uint32_t r = 0; r < count; r++) {
                vf_store(sums + r * PANEL, vf_load(panel));
                vf_store(sums + r * PANEL + VF, vf_load(panel + VF));
            }
            tile_along(count, query + begin * query_stride, query_stride, panel + PANEL, dim, &(struct tile_ahead){0},
                       sums, PANEL, false);
            for (uint32_t r = 0; r < count; r++)
                for (uint32_t v = 0; v < 2; v++)
                    vf_store(scores + (begin + r) * scores_stride + (size_t)p * PANEL + v * VF,
                             vf_load(sums + r * PANEL + v * VF));
        }
    }
}

float KERNEL(rank_greatest_f32)(const float *x, size_t count)
{
    vf greatest = vf_splat(x[0]);
    float lane[VF];
    size_t i = 0;
    for (; i + VF <= count; i += VF) greatest = vf_select(vf_load(x + i) > greatest, vf_load(x + i), greatest);
    vf_store(lane, greatest);
    for (uint32_t l = 1; l < VF; l++) lane[0] = lane[l] > lane[0] ? lane[l] : lane[0];
    for (; i < count; i++) lane[0] = x[i] > lane[0] ? x[i] : lane[0];
    return lane[0];
}

double KERNEL(rank_exp_sum_f32)(const float *x, size_t count, float greatest)
{
    double total = 0;
    for (size_t begin = 0; begin < count; begin += BLOCK) {
        size_t end = begin + BLOCK < count ? begin + BLOCK : count, i = begin;
        vf sum = {0};
        for (; i + VF <= end; i += VF) sum += vf_exp(vf_load(x + i) - greatest);
        total += (double)vf_sum(sum);
        if (i == end) continue;
        float lane[VF];
        vf_store(lane, vf_exp(vf_load_n(x + i, end - i) - greatest));
        for (size_t l = 0; l < end - i; l++) total += (double)lane[l];
    }
    return total;
}

void KERNEL(rank_above_count_f32)(const float *x, size_t count, float x0, uint64_t *above, uint64_t *equal)
{
    *above = *equal = 0;
    for (size_t begin = 0; begin < count; begin += BLOCK) {
        size_t end = begin + BLOCK < count ? begin + BLOCK : count, i = begin;
        vi more = {0}, same = {0}; /* comparisons give -1 */
        for (; i + VF <= end; i += VF) {
            more -= vf_load(x + i) > x0;
            same -= vf_load(x + i) == x0;
        }
        for (uint32_t l = 0; l < VF; l++) *above += (uint32_t)more[l], *equal += (uint32_t)same[l];
        for (; i < end; i++) *above += x[i] > x0, *equal += x[i] == x0;
    }
}

size_t KERNEL(rank_above_next_f32)(const float *x, size_t from, size_t count, float x0)
{
    for (size_t i = from; i < count;) {
        if (i + 4 * VF <= count) { /* nearly always none */
            vi any = {0};
            for (uint32_t v = 0; v < 4; v++) any |= vf_load(x + i + v * VF) > x0;
            uint64_t half[sizeof any / sizeof(uint64_t)], found = 0;
            memcpy(half, &any, sizeof any);
            for (uint32_t h = 0; h < sizeof half / sizeof *half; h++) found |= half[h];
            if (!found) {
                i += 4 * VF;
                continue;
            }
        }
        size_t end = i + 4 * VF < count ? i + 4 * VF : count;
        for (; i < end; i++)
            if (x[i] > x0) return i;
    }
    return count;
}
