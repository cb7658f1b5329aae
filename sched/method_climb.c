/* Hill climbing from random starts: the control for every learned method. A descent takes the first move that
 * lowers the score, so it is a few passes over the moves; then the next start is drawn. */
#include "sched/climb.h"

#include <stdlib.h>
#include <string.h>

#include "sched/method.h"

/* A move gives one type to a run of layers. The numbers are, in this order: another type for a layer, [L, T -
 * 1]; another type for the stage that begins at a layer, [L, T - 1], void if none begins; a boundary before a
 * layer moves to another layer of its two stages, [L, L]. */
struct move {
    uint32_t begin, end; /* layers begin … end - 1; none: void */
    type_index type;
};

static uint32_t stage_end(const type_index *types, uint32_t layer_count, uint32_t begin)
{
    uint32_t end = begin + 1;
    while (end < layer_count && types[end] == types[begin]) end++;
    return end;
}

static struct move move_of(const type_index *types, uint32_t L, uint32_t T, uint64_t number)
{
    const struct move none = {0};
    uint64_t layer_moves = (uint64_t)L * (T - 1);
    if (number < 2 * layer_moves) {
        bool is_stage = number >= layer_moves;
        uint64_t n = is_stage ? number - layer_moves : number;
        uint32_t begin = (uint32_t)(n / (T - 1)), other = (uint32_t)(n % (T - 1));
        if (is_stage && begin > 0 && types[begin] == types[begin - 1]) return none;
        uint32_t end = is_stage ? stage_end(types, L, begin) : begin + 1;
        if (is_stage && end == begin + 1) return none; /* the same as a layer's move */
        return (struct move){begin, end, (type_index)(other < types[begin] ? other : other + 1)};
    }
    uint64_t n = number - 2 * layer_moves;
    uint32_t boundary = (uint32_t)(n / L), to = (uint32_t)(n % L);
    if (boundary == 0 || types[boundary] == types[boundary - 1] || to == boundary) return none;
    if (to > boundary) {
        if (to > stage_end(types, L, boundary)) return none;
        return (struct move){boundary, to, types[boundary - 1]};
    }
    for (uint32_t l = to; l < boundary; l++)
        if (types[l] != types[boundary - 1]) return none;
    return (struct move){to, boundary, types[boundary]};
}

static uint64_t divisor_common(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

double climb(struct search *s, struct draw *draw, type_index *types, double score)
{
    uint32_t L = s->model->layer_count, T = s->model->type_count;
    type_index before[INSTANCE_LAYERS_MAX];
    uint64_t count = 2 * (uint64_t)L * (T - 1) + (uint64_t)L * L;
    /* Steps without a common divisor with `count` reach every number once. */
    uint64_t at = draw_below(draw, (uint32_t)count), step;
    do step = 1 + draw_below(draw, (uint32_t)count);
    while (divisor_common(step, count) != 1);
    for (uint64_t failed = 0; failed < count && !search_is_over(s); failed++) {
        at = (at + step) % count;
        struct move m = move_of(types, L, T, at);
        if (m.begin == m.end) continue;
        size_t bytes = (m.end - m.begin) * sizeof *types;
        memcpy(before, types + m.begin, bytes);
        for (uint32_t l = m.begin; l < m.end; l++) types[l] = m.type;
        double moved = search_evaluate(s, types);
        if (moved < score) {
            score = moved;
            failed = 0;
        } else
            memcpy(types + m.begin, before, bytes);
    }
    return score;
}

/* Every second start is uniform; the others have one to four runs of layers. On 24 random instances of 12 to
 * 20 layers and 16 to 64 types, 10,000 evaluations each, this finds 15 optima; starts of runs alone find 12,
 * uniform ones alone 9, and moves of any run of layers to any type 5. */
#define START_SEGMENTS_MAX 4

status method_climb(struct search *s)
{
    uint32_t L = s->model->layer_count, T = s->model->type_count;
    type_index types[INSTANCE_LAYERS_MAX];
    struct draw draw = draw_make(s->options.seed, DRAW_CLIMB);
    for (uint64_t start = 0; !search_is_over(s); start++) {
        if (start % 2 == 0)
            draw_plan_segments(&draw, types, L, T, 1 + draw_below(&draw, START_SEGMENTS_MAX));
        else
            draw_plan_uniform(&draw, types, L, T);
        climb(s, &draw, types, search_evaluate(s, types));
    }
    return ST_OK;
}
