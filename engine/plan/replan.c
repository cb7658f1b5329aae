/* Compares a plan with its pipeline's figures, and replaces it. Between steps, about once a second. */
#include "engine/plan/replan.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/plan/planner.h"
#include "sched/expect.h"
#include "sched/policy.h"

#define LATER_SHARE      0.25
#define LATER_SECONDS    0.5
#define LOOKS_NEEDED     2
#define LOOKS_NEEDED_MAX 64 /* while one plan after another stays the best */
#define STAGES_MAX       INSTANCE_LAYERS_MAX

struct replanner {
    const struct graph *graph;
    struct replan_options options;
    struct instance profile;  /* as given                                                      */
    struct instance instance; /* the profile times `factor`                                    */
    double *factor;           /* [L, T]: measured for some layers, supposed for the rest */
    bool *is_measured;        /* [L, T]                                                        */
    struct solution solution; /* of the present plan; its stages' times are corrected          */
    struct policy *policy;    /* of the last search of a learned method                        */
    bool is_stopped;
    uint32_t looks;               /* looks in a row that found a difference */
    uint32_t looks_needed;        /* that make a new plan due */
    uint64_t busy_ns[STAGES_MAX]; /* of the pipeline's stages at the last look              */
};

/* Solves the present instance by a method; learned methods begin with the policy of the last search. */
static status method_solve(struct replanner *r, const char *method, double seconds, struct solution *solution)
{
    uint32_t number = method_find(method);
    bool is_elman = number == METHOD_ID_rl_rnn, is_auto = number == GRAPH_NONE; /* auto runs rl */
    struct policy *trained = NULL;
    if (is_auto || method_table[number].kind == METHOD_LEARNED)
        TRY(policy_make(&trained, is_elman ? POLICY_ELMAN : POLICY_LSTM, r->options.seed));
    struct solve_options options = {.method = method,
                                    .seed = r->options.seed,
                                    .seconds = seconds,
                                    .adapts = strcmp(r->options.method, "auto") == 0,
                                    .progress = r->options.progress,
                                    .policy_from = trained ? r->policy : NULL,
                                    .policy_to = trained};
    status st = solve(&r->instance, &options, solution);
    if (st != ST_OK) {
        policy_free(trained);
        return st;
    }
    solution->profile = &r->profile;
    if (trained) {
        policy_free(r->policy);
        r->policy = trained;
    }
    return ST_OK;
}

/* Solves for a goal of `throughput` examples a second. While training waits, auto is exact, or
 * rl where exact does not finish. */
static status goal_solve(struct replanner *r, double throughput, double seconds, bool is_first,
                         struct solution *solution)
{
    bool is_auto = strcmp(r->options.method, "auto") == 0;
    TRY(planner_goal_set(&r->instance, throughput, seconds, r->options.progress, NULL));
    if (is_first || !is_auto) return method_solve(r, r->options.method, seconds, solution);
    status st = method_solve(r, method_table[METHOD_ID_exact].name, seconds, solution);
    const bool was_proven = solution->is_proven || (solution->adapted_from && solution->ended_by == SEARCH_FINISHED);
    if (st == ST_OK && was_proven) return ST_OK;
    if (st != ST_OK && st != ST_INVALID) return st;
    solution_free(solution);
    return method_solve(r, method_table[METHOD_ID_rl].name, seconds, solution);
}

static status factors_open(struct replanner *r)
{
    size_t cells = (size_t)r->profile.layer_count * r->profile.type_count;
    r->factor = malloc(cells * sizeof *r->factor);
    r->is_measured = calloc(cells, sizeof *r->is_measured);
    if (r->factor == NULL || r->is_measured == NULL) FAIL(MEMORY, "no memory for %zu factors", cells);
    for (size_t c = 0; c < cells; c++) r->factor[c] = 1;
    return ST_OK;
}

status replanner_open(struct replanner **out, const struct replan_options *options, struct plan *plan)
{
    struct replanner *r = calloc(1, sizeof *r);
    *out = NULL;
    if (r == NULL) FAIL(MEMORY, "no memory for planning");
    r->graph = options->graph;
    r->options = *options;
    status st;
    char text[1024];
    r->looks_needed = LOOKS_NEEDED;
    TRY_GOTO(instance_copy(&r->profile, options->instance), failed);
    TRY_GOTO(instance_copy(&r->instance, options->instance), failed);
    TRY_GOTO(factors_open(r), failed);
    r->options.instance = &r->instance;
    TRY_GOTO(goal_solve(r, options->throughput, options->seconds, true, &r->solution), failed);
    if (options->better) TRY_GOTO(options->better(options->better_context, &r->solution), failed);
    if (!r->solution.result.is_feasible) {
        st = status_fail(ST_INFEASIBLE, __FILE__, __LINE__, "%s",
                         solution_infeasible_text(&r->solution, text, sizeof text));
        goto failed;
    }
    TRY_GOTO(solution_to_plan(&r->solution, r->graph, plan), failed);
    *out = r;
    return ST_OK;
failed:
    replanner_close(r);
    return st;
}

void replanner_close(struct replanner *r)
{
    if (r == NULL) return;
    solution_free(&r->solution);
    policy_free(r->policy);
    free(r->factor);
    free(r->is_measured);
    instance_free(&r->instance);
    instance_free(&r->profile);
    free(r);
}

const struct solution *replanner_solution(const struct replanner *r) { return &r->solution; }

double replanner_expected(const struct replanner *r, uint32_t micro_count, uint32_t core_count)
{
    const struct solution *s = &r->solution;
    const uint32_t pipelines = r->options.pipeline_count;
    const struct instance_run run = instance_run_part(&(struct instance_run){micro_count, core_count}, pipelines);
    return pipelines * expect_rate(&r->instance, s->stages, s->stage_count, &run);
}

void replanner_stop(struct replanner *r) { r->is_stopped = true; }

void replanner_restart(struct replanner *r)
{
    r->looks = 0;
    memset(r->busy_ns, 0, sizeof r->busy_ns);
}

/* --- what was measured ------------------------------------------------------------------------ */

/* A stage's seconds an example since the last look, on all its units. Its workers take turns, so busy time
 * divides among them; several pipelines share the examples. */
static double stage_measure(struct replanner *r, const struct stage_figures *figures, uint32_t stage, uint64_t examples)
{
    uint64_t busy_ns = 0;
    for (int w = 0; w < WORK_COUNT; w++) busy_ns += figures->busy_ns[w];
    double seconds = (double)(busy_ns - r->busy_ns[stage]) * 1e-9;
    uint32_t workers = figures->worker_count / r->options.pipeline_count;
    r->busy_ns[stage] = busy_ns;
    return seconds / (double)examples / (workers ? workers : 1);
}

/* The busy seconds an example that the plan expects: without moving on cpu, where moving looks like waiting
 * for memory; on sim moving is part of the task. */
static double stage_planned(const struct replanner *r, const struct cost_stage *stage)
{
    struct cost_time time = stage->time;
    if (r->instance.types[stage->type].resource.device == RESOURCE_CPU) time.move = time.move_shared = 0;
    return cost_et(&time, stage->k);
}

static double clamp(double figure)
{
    return figure < RESOURCE_FIGURE_MIN   ? RESOURCE_FIGURE_MIN
           : figure > RESOURCE_FIGURE_MAX ? RESOURCE_FIGURE_MAX
                                          : figure;
}

/* How much longer the plan's layers take than profiled, weighted by their time: those on the type, or on all
 * types of this machine's cores; 0: the plan has none. */
static double factor_mean(const struct replanner *r, uint32_t type, bool on_cores)
{
    const struct solution *s = &r->solution;
    double measured = 0, profiled = 0;
    for (uint32_t i = 0; i < s->stage_count; i++) {
        const uint32_t on = s->stages[i].type;
        if (on_cores ? r->instance.types[on].resource.device != RESOURCE_CPU : on != type) continue;
        for (uint32_t l = s->stages[i].first; l <= s->stages[i].last; l++) {
            const double oct = instance_time(&r->profile, l, on)->oct;
            measured += oct * r->factor[(size_t)l * r->instance.type_count + on];
            profiled += oct;
        }
    }
    return profiled > 0 ? measured / profiled : 0;
}

/* The factor of layers never measured on the type: that of the layers that the plan has on it. Other programs
 * slow all cores down alike, so a type of cores that no plan has used gets the factor of the cores. Else it
 * would promise the speed of a machine without load. 0: not known. */
static double factor_supposed(const struct replanner *r, uint32_t type)
{
    bool is_new = r->instance.types[type].resource.device == RESOURCE_CPU;
    for (uint32_t l = 0; l < r->instance.layer_count; l++)
        is_new = is_new && !r->is_measured[(size_t)l * r->instance.type_count + type];
    return factor_mean(r, type, is_new);
}

/* Layers of a stage get the measured time, all in the same proportion. */
static void instance_correct(struct replanner *r, const double *ratio)
{
    const struct solution *s = &r->solution;
    uint32_t T = r->instance.type_count;
    for (uint32_t i = 0; i < s->stage_count; i++)
        for (uint32_t l = s->stages[i].first; l <= s->stages[i].last; l++) {
            size_t cell = (size_t)l * T + s->stages[i].type;
            r->factor[cell] *= ratio[i];
            r->is_measured[cell] = true;
        }
    for (uint32_t t = 0; t < T; t++) {
        const double supposed = factor_supposed(r, t);
        for (uint32_t l = 0; l < r->instance.layer_count; l++) {
            size_t cell = (size_t)l * T + t;
            const struct instance_time *from = &r->profile.times[cell];
            struct instance_time *time = &r->instance.times[cell];
            if (supposed > 0 && !r->is_measured[cell]) r->factor[cell] = supposed;
            time->oct = clamp(from->oct * r->factor[cell]);
            time->fixed = from->fixed * r->factor[cell];
            time->update = from->update * r->factor[cell];
            /* A device on sim or paced takes the longer of oct and odt, so both were measured. */
            if (resource_is_imitated(r->instance.types[t].resource.device) && from->odt > 0)
                time->odt = clamp(from->odt * r->factor[cell]);
        }
    }
}

/* Computes the present plan's figures from the corrected times. */
static status solution_correct(struct replanner *r)
{
    struct cost_model model;
    struct solution *s = &r->solution;
    TRY(cost_model_open(&model, &r->instance));
    for (uint32_t i = 0; i < s->stage_count; i++) {
        struct cost_stage *stage = &s->stages[i];
        stage->time = cost_segment(&model, stage->first, stage->last, stage->type);
        stage->et = cost_et(&stage->time, stage->k);
    }
    s->result = cost_of(&model, s->stages, s->stage_count);
    s->expected = expect_rate(&r->instance, s->stages, s->stage_count, &r->instance.run);
    cost_model_free(&model);
    return ST_OK;
}

bool replanner_look(struct replanner *r, const struct pipeline_figures *f, uint64_t examples, char *why,
                    size_t why_bytes)
{
    const struct solution *s = &r->solution;
    double ratio[STAGES_MAX], worst = 1;
    uint32_t worst_stage = 0;
    /* In a shared pool a stage's time includes other stages'. */
    if (r->is_stopped || examples == 0 || f->is_shared || f->stage_count != s->stage_count) return false;
    bool is_measured = true;
    for (uint32_t i = 0; i < s->stage_count; i++) {
        ratio[i] = stage_measure(r, &f->stage[i], i, examples) / stage_planned(r, &s->stages[i]);
        double off = ratio[i] > 1 ? ratio[i] : 1 / ratio[i];
        is_measured = is_measured && ratio[i] > 0 && isfinite(ratio[i]);
        if (off <= worst) continue;
        worst = off;
        worst_stage = i;
    }
    if (!is_measured) return false;
    if (worst <= REPLAN_BOUND) {
        r->looks = 0;
        return false;
    }
    if (++r->looks < r->looks_needed) return false;
    r->looks = 0;
    snprintf(why, why_bytes, "stage %s takes %.3g us an example, %.3g times what was planned",
             f->stage[worst_stage].name, 1e6 * ratio[worst_stage] * stage_planned(r, &s->stages[worst_stage]),
             ratio[worst_stage]);
    instance_correct(r, ratio);
    return true;
}

/* Whether the new solution, which is feasible, is worth a change. */
static bool is_gain(const struct solution *now, const struct solution *next)
{
    const double asked = next->instance->throughput_limit;
    if (!now->result.is_feasible || solution_predicted(now) < asked)
        return solution_predicted(next) > REPLAN_GAIN * solution_predicted(now);
    return solution_predicted(next) >= asked && solution_run_cost(now) > REPLAN_GAIN * solution_run_cost(next);
}

status replanner_plan(struct replanner *r, struct plan *plan, bool *is_better)
{
    double seconds = r->options.seconds * LATER_SHARE;
    if (seconds > LATER_SECONDS) seconds = LATER_SECONDS;
    struct solution next;
    *is_better = false;
    TRY(goal_solve(r, r->options.throughput, seconds, false, &next));
    if (!next.result.is_feasible) {
        log_detail("the goal of %.6g examples/s is out of reach now; planning for the most examples/s",
                   r->instance.throughput_limit);
        solution_free(&next);
        TRY(goal_solve(r, INFINITY, seconds, false, &next));
    }
    status st;
    TRY_GOTO(solution_correct(r), done);
    if (!next.result.is_feasible || !is_gain(&r->solution, &next)) {
        if (r->looks_needed < LOOKS_NEEDED_MAX) r->looks_needed *= 2;
        goto done;
    }
    TRY_GOTO(solution_to_plan(&next, r->graph, plan), done);
    solution_free(&r->solution);
    r->solution = next;
    r->looks_needed = LOOKS_NEEDED;
    *is_better = true;
    return ST_OK;
done:
    solution_free(&next);
    return st;
}
