/* Expected rates, and the search for plans that are better by them. Once a plan. */
#include "sched/expect.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"

/* --- rates ------------------------------------------------------------------------------------ */

static uint64_t nodes_of(const struct instance *i, const struct cost_stage *stage)
{
    const uint64_t nodes = i->types[stage->type].resource.nodes;
    return nodes ? nodes : 1;
}
static bool is_on_cores(const struct instance *i, const struct cost_stage *stage)
{
    return i->types[stage->type].resource.device == RESOURCE_CPU;
}
static uint32_t cores_of(const struct instance *i, const struct instance_run *run, uint32_t node)
{
    return i->nodes && i->nodes->node[node].cores > 0 ? i->nodes->node[node].cores : run->cores;
}

/* What a node's cores do: seconds an example, in all. */
struct node_load {
    uint64_t threads; /* of CPU stages */
    double seconds;
};

/* Whether some node of the stage has no core beside those of stages. */
static bool is_full(const struct instance *i, const struct instance_run *run, const struct cost_stage *stage,
                    const struct node_load *loads)
{
    if (!is_on_cores(i, stage)) return false;
    for (uint64_t left = nodes_of(i, stage); left; left &= left - 1) {
        const uint32_t node = (uint32_t)__builtin_ctzll(left);
        if (loads[node].threads >= cores_of(i, run, node)) return true;
    }
    return false;
}

/* The part of a stage's seconds an example, on its units, that its updates take: they divide as all of its
 * computation does. On devices that imitate others passes take all of the time. */
static double update_of(const struct instance *i, const struct cost_stage *stage)
{
    const struct cost_time *time = &stage->time;
    if (resource_is_imitated(i->types[stage->type].resource.device)) return 0;
    const double alone = time->compute + time->compute_shared;
    double update = 0;
    for (uint32_t l = stage->first; l <= stage->last; l++) update += instance_time(i, l, stage->type)->update;
    update /= i->batch * __builtin_popcountll(nodes_of(i, stage));
    return alone > 0 ? update * (time->compute + time->compute_shared / stage->k) / alone : 0;
}

/* ET of a stage; is_full: it moves what it moves by itself. */
static double et_of(const struct cost_stage *stage, bool is_full)
{
    const struct cost_time *time = &stage->time;
    const double move = time->move + time->move_shared / stage->k;
    return is_full ? time->compute + time->compute_shared / stage->k + move : stage->et;
}

static void load_add(const struct instance *i, const struct cost_stage *stage, double et, struct node_load *loads)
{
    const double alone = stage->time.compute + stage->time.compute_shared,
                 idle = stage->k * (stage->time.compute + stage->time.compute_shared / stage->k) - alone;
    for (uint64_t left = nodes_of(i, stage); left; left &= left - 1)
        loads[__builtin_ctzll(left)].seconds += stage->k * et - EXPECT_IDLE_USED * idle;
}

/* The longest that a node's cores need for an example, with reading. */
static double loads_longest(const struct instance *i, const struct instance_run *run, const struct cost_stage *first,
                            const struct node_load *loads)
{
    const uint64_t readers = nodes_of(i, first);
    const int reader_count = __builtin_popcountll(readers);
    double longest = 0;
    for (uint32_t node = 0; node < (i->nodes ? i->nodes->count : 1); node++) {
        const double reading = readers >> node & 1 ? i->service_seconds / reader_count * (reader_count > 1 ? 2 : 1) : 0;
        const uint32_t cores = cores_of(i, run, node), service = i->service_cores;
        if (service > 0 && service < cores)
            longest = fmax(longest, fmax(reading / service, loads[node].seconds / (cores - service)));
        else
            longest = fmax(longest, (loads[node].seconds + reading) / cores);
    }
    return longest;
}

double expect_rate(const struct instance *i, const struct cost_stage *stages, uint32_t count,
                   const struct instance_run *run)
{
    struct node_load loads[INSTANCE_NODES_MAX] = {0};
    const bool drains = run->micros < INSTANCE_NEVER_DRAINED;
    double slowest = 0, slowest_whole = 0, whole = 0, update_max = 0;
    if (run->micros == 0) return 0;
    for (uint32_t s = 0; s < count; s++)
        for (uint64_t left = nodes_of(i, &stages[s]); left && is_on_cores(i, &stages[s]); left &= left - 1)
            loads[__builtin_ctzll(left)].threads += stages[s].k;
    for (uint32_t s = 0; s < count; s++) {
        const double et = et_of(&stages[s], is_full(i, run, &stages[s], loads)),
                     update = drains ? update_of(i, &stages[s]) : 0, pass = et - update,
                     all = pass * __builtin_popcountll(nodes_of(i, &stages[s]));
        if (pass > slowest) slowest = pass, slowest_whole = all;
        update_max = fmax(update_max, update);
        whole += all;
        if (is_on_cores(i, &stages[s])) load_add(i, &stages[s], et, loads);
    }
    return 1 /
           fmax(slowest + (whole - slowest_whole) / run->micros + update_max, loads_longest(i, run, &stages[0], loads));
}

/* --- better plans ----------------------------------------------------------------------------- */

struct climb {
    const struct cost_model *model;
    const struct search_options *options;
    double rate_least;
    uint64_t begin_ns;
    uint32_t tries;
    bool is_small; /* steps try all ways to split a stage and to move units */
    bool is_over;
    struct expect_plan best, from, tried; /* of one start: the best so far; that of the last step; a neighbour */
    double best_score;
};

/* Tries between two looks at the clock. */
#define LOOK_TRIES 64u
/* Layers times types, up to which each step tries all ways to split a stage and to move units. */
#define SPLITS_MAX 1024u
/* USD an hour, more than any plan's, of plans that are too slow. */
#define SLOW_PRICE 1e200

/* To be minimised: USD an example of plans that are fast enough, which come before all that are slower. */
static double score_of(const struct climb *c, const struct expect_plan *plan)
{
    return (plan->rate >= c->rate_least ? plan->price : SLOW_PRICE) / plan->rate;
}

static void plan_copy(const struct climb *c, struct expect_plan *to, const struct expect_plan *from)
{
    memcpy(to->types, from->types, c->model->layer_count * sizeof *to->types);
    memcpy(to->stages, from->stages, from->stage_count * sizeof *to->stages);
    to->stage_count = from->stage_count;
    to->rate = from->rate;
    to->price = from->price;
}

/* Sets rate and price of a plan whose units are set; false: it does not keep to the limits. */
static bool plan_rate(const struct climb *c, struct expect_plan *plan)
{
    const struct cost_model *m = c->model;
    for (uint32_t s = 0; s < plan->stage_count; s++)
        plan->stages[s].et = cost_et(&plan->stages[s].time, plan->stages[s].k);
    if (!cost_of(m, plan->stages, plan->stage_count).is_feasible) return false;
    plan->rate = expect_rate(m->instance, plan->stages, plan->stage_count, &m->instance->run);
    plan->price = cost_nodes_price(m, plan->stages, plan->stage_count);
    for (uint32_t s = 0; s < plan->stage_count; s++) plan->price += m->price[plan->stages[s].type] * plan->stages[s].k;
    return true;
}

/* Looks at the clock, and asks whether to stop. */
static void clock_look(struct climb *c)
{
    const struct search_options *o = c->options;
    const double seconds = (double)(clock_ns() - c->begin_ns) * 1e-9;
    const struct search_standing standing = {.seconds = seconds, .cost = INFINITY};
    c->is_over = (o->seconds > 0 && seconds > o->seconds) || (o->progress && o->progress(o->context, &standing));
}

/* Takes what was tried if it is better than the best. */
static bool tried_take(struct climb *c)
{
    if (!c->is_over && ++c->tries % LOOK_TRIES == 0) clock_look(c);
    if (c->is_over) return false;
    if (!plan_rate(c, &c->tried)) return false;
    const double score = score_of(c, &c->tried);
    if (!(score < c->best_score * (1 - 1e-9))) return false;
    c->best_score = score;
    plan_copy(c, &c->best, &c->tried);
    return true;
}

/* Tries `from` with other units of a stage, and of another one, which may be the same. */
static bool units_try(struct climb *c, uint32_t stage, uint32_t k, uint32_t other, uint32_t k_other)
{
    if (k == 0 || k_other == 0) return false;
    plan_copy(c, &c->tried, &c->from);
    c->tried.stages[other].k = k_other;
    c->tried.stages[stage].k = k;
    return tried_take(c);
}

/* The units of the stage of `from` that has most layers in common with the stage. */
static uint32_t units_of(const struct expect_plan *from, const struct cost_stage *stage)
{
    uint32_t most = 0, k = 1;
    for (uint32_t s = 0; s < from->stage_count; s++) {
        const struct cost_stage *old = &from->stages[s];
        const uint32_t first = old->first > stage->first ? old->first : stage->first,
                       last = old->last < stage->last ? old->last : stage->last,
                       common = first <= last && old->type == stage->type ? last - first + 1 : 0;
        if (common > most) most = common, k = old->k;
    }
    return k;
}

/* Tries `from` with layers first … last on another type. */
static bool layers_try(struct climb *c, uint32_t first, uint32_t last, uint32_t type)
{
    plan_copy(c, &c->tried, &c->from);
    for (uint32_t l = first; l <= last; l++) c->tried.types[l] = (type_index)type;
    c->tried.stage_count = cost_stages(c->model, c->tried.types, c->tried.stages);
    for (uint32_t s = 0; s < c->tried.stage_count; s++) c->tried.stages[s].k = units_of(&c->from, &c->tried.stages[s]);
    return tried_take(c);
}

/* Tries `from` with the first or last layers of a stage, or all, on another type: any number of them. Where
 * there are many layers and types, only a whole stage goes, to a neighbour's type. */
static bool layers_give(struct climb *c, const struct cost_stage *stage, uint32_t type)
{
    const bool is_neighbour = (stage->first > 0 && stage[-1].type == type) ||
                              (stage->last + 1 < c->model->layer_count && stage[1].type == type);
    bool is_better = (c->is_small || is_neighbour) && layers_try(c, stage->first, stage->last, type);
    for (uint32_t l = stage->first; l < stage->last && c->is_small; l++) {
        is_better |= layers_try(c, stage->first, l, type);
        is_better |= layers_try(c, l + 1, stage->last, type);
    }
    return is_better;
}

/* One step of steepest descent. */
static bool climb_step(struct climb *c)
{
    bool is_better = false;
    plan_copy(c, &c->from, &c->best);
    for (uint32_t s = 0; s < c->from.stage_count; s++) {
        const struct cost_stage *stage = &c->from.stages[s];
        const uint32_t k = stage->k, others[] = {k - 1, k + 1, k / 2, 2 * k};
        for (size_t at = 0; at < sizeof others / sizeof *others; at++)
            is_better |= units_try(c, s, others[at], s, others[at]);
        for (uint32_t other = 0; other < c->from.stage_count; other++)
            if (other != s && (c->is_small || other + 1 == s || other == s + 1))
                is_better |= units_try(c, s, k + 1, other, c->from.stages[other].k - 1);
        for (uint32_t t = 0; t < c->model->type_count; t++) is_better |= t != stage->type && layers_give(c, stage, t);
    }
    return is_better;
}

/* Climbs from what is tried first; replaces *plan by a better one. */
static void start_climb(struct climb *c, struct expect_plan *plan, double *score)
{
    c->best_score = INFINITY;
    if (!tried_take(c)) return;
    while (!c->is_over && climb_step(c)) continue;
    if (!(c->best_score < *score * (1 - 1e-9))) return;
    *score = c->best_score;
    plan_copy(c, plan, &c->best);
}

/* A plan of one type, with a unit for each core here, if there are as many. */
static void start_alone(struct climb *c, uint32_t type)
{
    const struct cost_model *m = c->model;
    const uint32_t cores = m->instance->run.cores;
    for (uint32_t l = 0; l < m->layer_count; l++) c->tried.types[l] = (type_index)type;
    c->tried.stage_count = cost_stages(m, c->tried.types, c->tried.stages);
    c->tried.stages[0].k = m->limit[type] < cores ? m->limit[type] : cores;
}

/* All climbs; returns whether the plan is another one. */
static bool climb_all(struct climb *c, struct expect_plan *plan)
{
    const struct cost_model *m = c->model;
    plan_copy(c, &c->tried, plan);
    const double begin = plan_rate(c, &c->tried) ? score_of(c, &c->tried) : INFINITY, bar = begin * (1 - EXPECT_GAIN);
    double score = bar;
    plan->rate = isfinite(begin) ? c->tried.rate : 0;
    plan->price = c->tried.price;
    start_climb(c, plan, &score);
    for (uint32_t t = 0; t < m->type_count && c->is_small && !c->is_over; t++) {
        start_alone(c, t);
        start_climb(c, plan, &score);
    }
    return score < bar;
}

status expect_climb(const struct cost_model *model, const struct search_options *options, double rate_least,
                    struct expect_plan *plan, bool *is_changed)
{
    const uint32_t L = model->layer_count;
    type_index *types = calloc(3 * (size_t)L, sizeof *types);
    struct cost_stage *stages = calloc(3 * (size_t)L, sizeof *stages);
    const bool is_short = types == NULL || stages == NULL;
    *is_changed = false;
    if (!is_short) {
        struct climb c = {.model = model,
                          .options = options,
                          .rate_least = rate_least,
                          .begin_ns = clock_ns(),
                          .is_small = (uint64_t)L * model->type_count <= SPLITS_MAX,
                          .best = {.types = types, .stages = stages},
                          .from = {.types = types + L, .stages = stages + L},
                          .tried = {.types = types + 2 * (size_t)L, .stages = stages + 2 * (size_t)L}};
        *is_changed = climb_all(&c, plan);
    }
    free(types);
    free(stages);
    if (is_short) FAIL(MEMORY, "no memory for a plan of %u layers", L);
    return ST_OK;
}
