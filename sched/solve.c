/* Runs a method on an instance and makes a solution of its plan. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sched/expect.h"
#include "sched/solution.h"

/* Evaluations that rl, the slowest of the learned methods, makes in a second of one core (20 layers, 64
 * types;
 * Zen 3). */
#define EVALUATIONS_PER_SECOND 100000.0
/* On a machine slower by more than this factor, time cuts a search, which then cannot be repeated. */
#define CEILING_FACTOR 4.0

uint64_t solve_evaluations(double seconds)
{
    double count = seconds * EVALUATIONS_PER_SECOND;
    return count < 1 ? 1 : count > 1e18 ? (uint64_t)1e18 : (uint64_t)count;
}

/* --- making a solution ------------------------------------------------------------------------ */

static status solution_make(struct solution *s, const struct instance *instance, uint32_t curve_count)
{
    uint32_t L = instance->layer_count;
    size_t stages_bytes = L * sizeof *s->stages, curve_bytes = curve_count * sizeof *s->curve;
    uint8_t *memory = calloc(1, stages_bytes + curve_bytes + L * sizeof *s->types);
    if (memory == NULL) FAIL(MEMORY, "no memory for a solution of %u layers", L);
    *s = (struct solution){.instance = instance,
                           .stages = (struct cost_stage *)memory,
                           .curve = (struct search_point *)(memory + stages_bytes),
                           .curve_count = curve_count,
                           .types = (type_index *)(memory + stages_bytes + curve_bytes),
                           .memory = memory};
    return ST_OK;
}

void solution_free(struct solution *solution)
{
    free(solution->memory);
    *solution = (struct solution){0};
}

/* What follows from stages and result. */
static void figures_set(struct solution *s)
{
    if (s->result.throughput > 0) s->expected = expect_rate(s->instance, s->stages, s->stage_count, &s->instance->run);
    if (!s->result.is_feasible) return;
    s->server_cores = provision_server_cores(s->instance, s->result.throughput);
    s->server_cost = provision_server_cost(s->instance, s->result.throughput);
}

/* Sets the plan `types`, with units[L] if the method chose them; units NULL,
 * or all 0: provisioned exactly. */
static void solution_plan(struct solution *s, const struct cost_model *model, const type_index *types,
                          const uint32_t *units)
{
    memcpy(s->types, types, model->layer_count * sizeof *types);
    s->stage_count = cost_stages(model, types, s->stages);
    if (units && units[0] > 0) {
        for (uint32_t i = 0; i < s->stage_count; i++) {
            s->stages[i].k = units[s->stages[i].first];
            s->stages[i].et = cost_et(&s->stages[i].time, s->stages[i].k);
        }
        s->result = cost_of(model, s->stages, s->stage_count);
    }
    /* If the chosen units do not keep to throughput and limits, the exact provision replaces them. */
    if (units == NULL || units[0] == 0 || !s->result.is_feasible)
        s->result = provision_exact(model, s->stages, s->stage_count);
    figures_set(s);
}

static status solution_of(struct solution *s, const struct search *search, const char *method)
{
    TRY(solution_make(s, search->model->instance, search->curve_count));
    s->method = method;
    s->seed = search->options.seed;
    s->evaluations = search->evaluations;
    s->seconds = search_seconds(search);
    s->ended_by = search->ended_by;
    s->is_proven = search->is_proven;
    s->lower_bound = search->lower_bound;
    if (search->curve_count) memcpy(s->curve, search->curve, search->curve_count * sizeof *s->curve);
    if (search->evaluations > 0) solution_plan(s, search->model, search->best, search->best_units);
    return ST_OK;
}

status solve_types(const struct instance *instance, const type_index *types, const char *method,
                   struct solution *solution)
{
    struct cost_model model;
    *solution = (struct solution){0};
    TRY(cost_model_open(&model, instance));
    status st = solution_make(solution, instance, 0);
    if (st == ST_OK) {
        solution->method = method;
        solution->evaluations = 1;
        solution_plan(solution, &model, types, NULL);
    }
    cost_model_free(&model);
    return st;
}

/* --- running a method ------------------------------------------------------------------------- */

static status method_solve(const struct cost_model *model, const struct solve_options *o, uint32_t method,
                           struct solution *solution)
{
    const struct method *m = &method_table[method];
    bool is_budgeted = m->kind == METHOD_SAMPLED || m->kind == METHOD_LEARNED;
    struct search_options options = {.seed = o->seed,
                                     .seconds = o->seconds,
                                     .keeps_curve = o->keeps_curve,
                                     .progress = o->progress,
                                     .context = o->context,
                                     .skewness = o->skewness};
    if (is_budgeted) {
        options.evaluations = o->evaluations ? o->evaluations : solve_evaluations(o->seconds);
        options.seconds = o->seconds * CEILING_FACTOR;
    }
    if (m->kind == METHOD_LEARNED || method == METHOD_ID_policy) options.policy_from = o->policy_from;
    if (m->kind == METHOD_LEARNED) options.policy_to = o->policy_to;
    struct search search;
    TRY(search_open(&search, model, &options));
    status st = m->run(&search);
    if (st == ST_OK) st = solution_of(solution, &search, m->name);
    search_close(&search);
    return st;
}

/* Takes the plan of greatest throughput, for an instance without a feasible one. */
static status nearest_take(const struct cost_model *model, const struct solve_options *o, struct solution *s)
{
    uint32_t L = model->layer_count;
    type_index *types = malloc(L * sizeof *types);
    struct cost_stage *stages = malloc(L * sizeof *stages);
    const struct search_options options = {.seconds = o->seconds, .progress = o->progress, .context = o->context};
    struct fastest fastest = {0};
    status st = ST_OK;
    if (types == NULL || stages == NULL)
        st = status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for a plan of %u layers", L);
    else
        st = exact_fastest(model, &options, types, stages, &fastest);
    if (st == ST_OK && fastest.throughput > 0 && fastest.throughput > s->result.throughput)
        solution_plan(s, model, types, NULL);
    if (fastest.ended_by == SEARCH_STOPPED) s->ended_by = SEARCH_STOPPED;
    free(types);
    free(stages);
    return st;
}

static bool is_better(const struct solution *a, const struct solution *b)
{
    if (a->stage_count == 0 || b->stage_count == 0) return a->stage_count > 0;
    return a->result.score < b->result.score;
}

/* Runs exact, and rl for its gap; if exact has not finished, or the instance is too large for it, also
 * rl+polish, and takes the best. A request to stop ends them all. */
static status auto_solve(const struct cost_model *model, const struct solve_options *o, struct solution *best)
{
    enum { EXACT, RL, POLISHED, COUNT };
    static const uint32_t methods[COUNT] = {METHOD_ID_exact, METHOD_ID_rl, METHOD_ID_rl_polish};
    struct solution found[COUNT] = {0};
    uint32_t chosen = EXACT;
    status st = ST_OK;
    bool is_stopped = false;
    for (uint32_t i = 0; i < COUNT && st == ST_OK && !is_stopped; i++) {
        if (i == POLISHED && found[EXACT].is_proven) break;
        st = method_solve(model, o, methods[i], &found[i]);
        if (i == EXACT && st == ST_INVALID) st = ST_OK; /* nothing is proven */
        if (st == ST_OK && is_better(&found[i], &found[chosen])) chosen = i;
        is_stopped = found[i].ended_by == SEARCH_STOPPED;
    }
    if (st == ST_OK) {
        if (found[EXACT].is_proven && found[EXACT].result.is_feasible)
            chosen = EXACT; /* the costs of equal plans differ by rounding */
        *best = found[chosen];
        best->is_proven = found[EXACT].is_proven; /* the optimum, or that no plan is feasible */
        if (is_stopped) best->ended_by = SEARCH_STOPPED;
        best->lower_bound = found[EXACT].lower_bound;
        best->rl_cost = found[RL].result.is_feasible ? found[RL].result.cost : 0;
        best->rl_seconds = found[RL].seconds;
        found[chosen] = (struct solution){0};
    }
    for (uint32_t i = 0; i < COUNT; i++) solution_free(&found[i]);
    return st;
}

/* Replaces a feasible plan by one that is cheaper in a run, or faster where no plan is
 * expected to reach the throughput. */
static status solution_adapt(struct solution *s, const struct cost_model *model, const struct solve_options *o)
{
    const struct search_options options = {.seconds = o->seconds, .progress = o->progress, .context = o->context};
    const double before = s->expected;
    bool is_changed;
    if (!s->result.is_feasible || before == 0) return ST_OK;
    struct expect_plan plan = {.types = s->types, .stages = s->stages, .stage_count = s->stage_count};
    TRY(expect_climb(model, &options, s->instance->throughput_limit, &plan, &is_changed));
    if (!is_changed) return ST_OK;
    s->stage_count = plan.stage_count;
    s->result = cost_of(model, s->stages, s->stage_count);
    s->adapted_from = s->method;
    s->method = SOLUTION_ADAPTED;
    s->expected_before = before;
    s->is_proven = false;
    s->rl_cost = 0;
    figures_set(s);
    return ST_OK;
}

status solve(const struct instance *instance, const struct solve_options *options, struct solution *solution)
{
    bool is_auto = strcmp(options->method, "auto") == 0;
    uint32_t method = is_auto ? 0 : method_find(options->method);
    *solution = (struct solution){0};
    TRY(solve_method_check(options->method));
    struct cost_model model;
    TRY(cost_model_open(&model, instance));
    status st = is_auto ? auto_solve(&model, options, solution) : method_solve(&model, options, method, solution);
    bool may_differ = is_auto || (method < METHOD_ID_COUNT && method_table[method].kind == METHOD_PROOF);
    /* A method that has proven that no plan is feasible has also found the nearest. */
    bool is_nearest = solution->is_proven && solution->stage_count > 0;
    if (st == ST_OK && !solution->result.is_feasible && may_differ && !is_nearest)
        st = nearest_take(&model, options, solution);
    if (st == ST_OK && options->adapts) st = solution_adapt(solution, &model, options);
    if (st != ST_OK) solution_free(solution);
    cost_model_free(&model);
    return st;
}
