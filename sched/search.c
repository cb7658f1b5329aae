/* Counts evaluations, keeps plans, ends a search. search_evaluate is the inner loop
 * of sampled and learned methods. */
#include "sched/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "engine/base/clock.h"

/* Plans asked for lately: one a cell, a later one replaces it. A cell has 63 bits of the plan's hash; two
 * plans with the same bits, once in 2^63, would share a score. */
struct search_cell {
    uint64_t key;
    double score;
};
#define CELL_COUNT_MAX ((uint64_t)1 << 17) /* 2 MiB: the second-level cache of a core, roughly */
#define TELL_SECONDS   0.05
#define LOOK_EVERY     256 /* evaluations between two looks at the clock */
#define CURVE_ROOM     4096

status search_open(struct search *s, const struct cost_model *model, const struct search_options *options)
{
    uint32_t L = model->layer_count;
    *s = (struct search){.model = model, .options = *options, .best_score = INFINITY, .begin_ns = clock_ns()};
    s->cell_count = CELL_COUNT_MAX;
    s->best = calloc(L, sizeof *s->best);
    s->best_units = calloc(L, sizeof *s->best_units);
    s->stages = calloc(L, sizeof *s->stages);
    s->cells = calloc(s->cell_count, sizeof *s->cells);
    if (options->keeps_curve) s->curve = calloc(s->curve_room = CURVE_ROOM, sizeof *s->curve);
    if (s->best == NULL || s->best_units == NULL || s->stages == NULL || s->cells == NULL ||
        (options->keeps_curve && s->curve == NULL)) {
        search_close(s);
        FAIL(MEMORY, "no memory for a search over %u layers", L);
    }
    return ST_OK;
}

void search_close(struct search *s)
{
    free(s->best);
    free(s->best_units);
    free(s->stages);
    free(s->cells);
    free(s->curve);
    *s = (struct search){0};
}

double search_seconds(const struct search *s) { return (double)(clock_ns() - s->begin_ns) * 1e-9; }

static void over(struct search *s, enum search_end end)
{
    s->is_over = true;
    s->ended_by = end;
}

bool search_is_over(struct search *s)
{
    const struct search_options *o = &s->options;
    if (s->is_over) return true;
    if (o->evaluations > 0 && s->evaluations >= o->evaluations) {
        over(s, SEARCH_EVALUATIONS);
        return true;
    }
    if (s->evaluations < s->next_look) return false;
    s->next_look = s->evaluations + LOOK_EVERY;
    struct search_standing now = {s->evaluations, search_seconds(s), s->is_feasible ? s->best_score : INFINITY};
    if (o->seconds > 0 && now.seconds >= o->seconds) over(s, SEARCH_SECONDS);
    if (s->is_over || o->progress == NULL || now.seconds < s->told_seconds + TELL_SECONDS) return s->is_over;
    s->told_seconds = now.seconds;
    if (o->progress(o->context, &now)) over(s, SEARCH_STOPPED);
    return s->is_over;
}

/* A full curve's last point is replaced. */
static void curve_add(struct search *s)
{
    if (s->curve == NULL) return;
    uint32_t at = s->curve_count < s->curve_room ? s->curve_count++ : s->curve_room - 1;
    s->curve[at] = (struct search_point){s->evaluations, search_seconds(s), s->is_feasible ? s->best_score : INFINITY};
}

double search_evaluate(struct search *s, const type_index *types)
{
    const struct cost_model *m = s->model;
    if (search_is_over(s)) return INFINITY;
    s->evaluations++;
    uint64_t key = XXH3_64bits(types, m->layer_count * sizeof *types) | 1; /* 0: an empty cell */
    struct search_cell *cell = &s->cells[(key >> 1) % s->cell_count];
    if (cell->key == key) return cell->score;
    uint32_t count = cost_stages(m, types, s->stages);
    struct cost_result result = provision_exact(m, s->stages, count);
    *cell = (struct search_cell){key, result.score};
    if (result.score < s->best_score) {
        s->best_score = result.score;
        s->is_feasible = result.is_feasible;
        memcpy(s->best, types, m->layer_count * sizeof *types);
        memset(s->best_units, 0, m->layer_count * sizeof *s->best_units);
        curve_add(s);
    }
    return result.score;
}

/* How far a plan is from throughput, limits, places and memory; 0: it keeps to all. */
static double excess_of(const struct cost_model *m, const struct cost_stage *stages, uint32_t count, double tau)
{
    double excess = tau > m->tau_max ? tau / m->tau_max - 1 : 0, lack;
    uint32_t node;
    for (uint32_t stage = 0; stage < count; stage++) {
        double units = 0;
        bool is_first = true;
        for (uint32_t other = 0; other < count; other++) {
            if (stages[other].type != stages[stage].type) continue;
            is_first = is_first && other >= stage;
            units += stages[other].k;
        }
        const double limit = m->limit[stages[stage].type];
        if (is_first && units > limit) excess += units / limit - 1;
    }
    enum cost_misplaced why;
    excess += cost_misplaced(m, stages, count, &why);
    lack = cost_memory_lack(m, stages, count, &node);
    return lack > 0 ? excess + lack / m->node_memory[node] : excess;
}

double search_evaluate_units(struct search *s, const type_index *types, const uint32_t *units)
{
    const struct cost_model *m = s->model;
    if (search_is_over(s)) return INFINITY;
    s->evaluations++;
    const uint32_t count = cost_stages(m, types, s->stages);
    for (uint32_t i = 0; i < count; i++) {
        s->stages[i].k = units[s->stages[i].first];
        s->stages[i].et = cost_et(&s->stages[i].time, s->stages[i].k);
    }
    const struct cost_result result = cost_of(m, s->stages, count);
    double score = result.score;
    if (!result.is_feasible) score = m->penalty * (1 + excess_of(m, s->stages, count, 1 / result.throughput));
    if (score < s->best_score) {
        s->best_score = score;
        s->is_feasible = result.is_feasible;
        memcpy(s->best, types, m->layer_count * sizeof *types);
        memcpy(s->best_units, units, m->layer_count * sizeof *units);
        curve_add(s);
    }
    return score;
}
