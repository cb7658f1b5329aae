/* Measures a plan by what its pipeline does, and replaces it. Between steps, about once a second. */
#include "engine/replan.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/planner.h"
#include "sched/policy.h"

#define LATER_SHARE   0.25
#define LATER_SECONDS 0.5
#define LOOKS_NEEDED  2
#define STAGES_MAX    INSTANCE_LAYERS_MAX

struct replanner {
    const struct graph *graph;
    struct replan_options options;
    struct instance profile;  /* as given                                       */
    struct instance instance; /* as corrected so far                            */
    struct solution solution; /* of the present plan; its stages' et as corrected */
    struct policy *policy;    /* of the last search by a learned method         */
    bool is_stopped;
    uint32_t looks;               /* in a row that found a difference               */
    uint64_t busy_ns[STAGES_MAX]; /* of the pipeline's stages at the last look  */
};

static bool learns(const struct replanner *r)
{
    uint32_t method = method_find(r->options.method);
    return method == GRAPH_NONE || method_table[method].kind == METHOD_LEARNED; /* auto runs rl */
}

/* Solves the instance as it is now; the learned methods begin with the policy of the search before. */
static status instance_solve(struct replanner *r, double seconds, struct solution *solution)
{
    struct policy *trained = NULL;
    TRY(planner_goal_set(&r->instance, r->options.throughput, seconds));
    bool is_elman = strcmp(r->options.method, method_table[METHOD_ID_rl_rnn].name) == 0;
    if (learns(r)) TRY(policy_make(&trained, is_elman ? POLICY_ELMAN : POLICY_LSTM, r->options.seed));
    struct solve_options options = {.method = r->options.method,
                                    .seed = r->options.seed,
                                    .seconds = seconds,
                                    .policy_from = r->policy,
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

/* The one way from a solution to a plan is its text. */
static status plan_of(const struct replanner *r, const struct solution *solution, struct plan *plan)
{
    char *text;
    size_t bytes;
    TRY(solution_text(solution, &text, &bytes));
    status st = plan_parse(plan, r->graph, "the plan", text, bytes);
    free(text);
    return st;
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
    TRY_GOTO(instance_copy(&r->profile, options->instance), failed);
    TRY_GOTO(instance_copy(&r->instance, options->instance), failed);
    r->options.instance = &r->instance;
    TRY_GOTO(instance_solve(r, options->seconds, &r->solution), failed);
    if (!r->solution.result.is_feasible) {
        st = status_fail(ST_INFEASIBLE, __FILE__, __LINE__, "%s",
                         solution_infeasible_text(&r->solution, text, sizeof text));
        goto failed;
    }
    TRY_GOTO(plan_of(r, &r->solution, plan), failed);
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
    instance_free(&r->instance);
    instance_free(&r->profile);
    free(r);
}

const struct solution *replanner_solution(const struct replanner *r) { return &r->solution; }

double replanner_expected(const struct replanner *r, uint32_t micro_count, uint32_t core_count)
{
    const struct solution *s = &r->solution;
    double slowest = 0, whole = 0, work = r->instance.service_seconds;
    for (uint32_t i = 0; i < s->stage_count; i++) {
        const struct cost_stage *stage = &s->stages[i];
        if (stage->et > slowest) slowest = stage->et;
        whole += stage->et;
        if (r->instance.types[stage->type].resource.device == RESOURCE_CPU) work += stage->et * stage->k;
    }
    double step = slowest + (whole - slowest) / micro_count, shared = work / core_count;
    return 1 / (step > shared ? step : shared);
}

void replanner_stop(struct replanner *r) { r->is_stopped = true; }

void replanner_restart(struct replanner *r)
{
    r->looks = 0;
    memset(r->busy_ns, 0, sizeof r->busy_ns);
}

/* --- what was measured ------------------------------------------------------------------------ */

/* Seconds an example of a stage since the last look: its workers take turns, so the time of one divides among them. */
static double stage_measure(struct replanner *r, const struct stage_figures *f, uint32_t stage, uint64_t examples)
{
    uint64_t busy_ns = 0;
    for (int w = 0; w < WORK_COUNT; w++) busy_ns += f->busy_ns[w];
    double seconds = (double)(busy_ns - r->busy_ns[stage]) * 1e-9;
    r->busy_ns[stage] = busy_ns;
    return seconds / (double)examples / (f->worker_count ? f->worker_count : 1);
}

/* The measured time of a stage is that of its layers, all in the same proportion; the mean of a type's stages, weighted by their time, is
 * taken for its layers that are elsewhere now. */
static void instance_correct(struct replanner *r, const double *ratio)
{
    const struct solution *s = &r->solution;
    for (uint32_t t = 0; t < r->instance.type_count; t++) {
        double measured = 0, planned = 0;
        for (uint32_t i = 0; i < s->stage_count; i++)
            if (s->stages[i].type == t) {
                measured += ratio[i] * s->stages[i].et * s->stages[i].k;
                planned += s->stages[i].et * s->stages[i].k;
            }
        if (planned == 0) continue;
        for (uint32_t l = 0; l < r->instance.layer_count; l++) {
            struct instance_time *time = &r->instance.times[(size_t)l * r->instance.type_count + t];
            double factor = measured / planned;
            for (uint32_t i = 0; i < s->stage_count; i++)
                if (s->stages[i].type == t && s->stages[i].first <= l && l <= s->stages[i].last) factor = ratio[i];
            time->oct *= factor;
            time->fixed *= factor;
        }
    }
}

/* The present plan's units under the corrected times. */
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
    cost_model_free(&model);
    return ST_OK;
}

bool replanner_look(struct replanner *r, const struct pipeline_figures *f, uint64_t examples, char *why,
                    size_t why_bytes)
{
    const struct solution *s = &r->solution;
    double ratio[STAGES_MAX], worst = 1;
    uint32_t worst_stage = 0;
    /* In a shared pool a stage's time is also that of the others. */
    if (r->is_stopped || examples == 0 || f->is_shared || f->stage_count != s->stage_count) return false;
    for (uint32_t i = 0; i < s->stage_count; i++) {
        ratio[i] = stage_measure(r, &f->stage[i], i, examples) / s->stages[i].et;
        double off = ratio[i] > 1 ? ratio[i] : 1 / ratio[i];
        if (off > worst) {
            worst = off;
            worst_stage = i;
        }
    }
    if (worst <= REPLAN_BOUND) {
        r->looks = 0;
        return false;
    }
    if (++r->looks < LOOKS_NEEDED) return false;
    r->looks = 0;
    snprintf(why, why_bytes, "stage %s takes %.3g us an example, %.3g times what was planned",
             f->stage[worst_stage].name, 1e6 * ratio[worst_stage] * s->stages[worst_stage].et, ratio[worst_stage]);
    instance_correct(r, ratio);
    return true;
}

/* Whether the new solution, a feasible one, is worth a change. */
static bool is_gain(const struct solution *now, const struct solution *next)
{
    if (!now->result.is_feasible) return next->result.throughput > REPLAN_GAIN * now->result.throughput;
    return now->result.cost > REPLAN_GAIN * next->result.cost;
}

status replanner_plan(struct replanner *r, struct plan *plan, bool *is_better)
{
    double seconds = r->options.seconds * LATER_SHARE;
    if (seconds > LATER_SECONDS) seconds = LATER_SECONDS;
    struct solution next;
    *is_better = false;
    TRY(instance_solve(r, seconds, &next));
    if (!next.result.is_feasible) {
        log_warning("the goal of %.6g examples/s is out of reach now; going on as fast as can be",
                    r->instance.throughput_limit);
        r->options.throughput = INFINITY;
        solution_free(&next);
        TRY(instance_solve(r, seconds, &next));
    }
    status st;
    TRY_GOTO(solution_correct(r), done);
    if (!next.result.is_feasible || !is_gain(&r->solution, &next)) goto done;
    TRY_GOTO(plan_of(r, &next, plan), done);
    solution_free(&r->solution);
    r->solution = next;
    *is_better = true;
    replanner_restart(r);
    return ST_OK;
done:
    solution_free(&next);
    return st;
}
