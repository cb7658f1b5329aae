/* The answer to an instance: a plan with its provision, what it costs and how sure that is; written as
 * plan.json (sched/plan.h). */
#ifndef HETERPS_SCHED_SOLUTION_H
#define HETERPS_SCHED_SOLUTION_H

#include "sched/method.h"
#include "sched/plan.h"

struct solution {
    const struct instance *instance; /* borrowed: outlives the solution */
    /* likewise: the instance before measured times have corrected it, which is what devices on sim go on taking;
     * NULL: it was not */
    const struct instance *profile;
    const char *method; /* of methods.def                   */
    uint64_t seed, evaluations;
    double seconds;
    enum search_end ended_by;
    bool is_proven;
    struct cost_result result; /* is_feasible false: the plan at the nearest feasible throughput */
    double measured;           /* examples/s of the plan where it was tried (engine/plan/trial.h); 0: it was not */
    double waited;             /* the share of that time for which it waited for processors that others had */
    double lower_bound;        /* USD; 0: none */
    uint32_t server_cores;     /* of parameter servers, a line of its own; 0: no such data */
    double server_cost;        /* USD */
    type_index *types;         /* [L] */
    struct cost_stage *stages; /* [stage_count] */
    uint32_t stage_count;
    struct search_point *curve; /* [curve_count] */
    uint32_t curve_count;
    /* with method auto, what rl found besides, for its gap; cost 0: it was not asked */
    double rl_cost, rl_seconds;
    void *memory;
};

/* Examples/s that were measured, without the time for which the plan waited for processors; 0: it was not tried. */
static inline double solution_rate(const struct solution *solution)
{
    return solution->measured / (1 - solution->waited);
}

struct solve_options {
    /* of methods.def, or "auto": the proven plan where exact finishes, else the better of it and rl+polish;
     * in both cases rl is run besides, and its gap kept */
    const char *method;
    uint64_t seed;
    uint64_t evaluations; /* budget of sampled and learned methods; 0: solve_evaluations(seconds) */
    double seconds;       /* ceiling, of each method; 0: none */
    bool keeps_curve;
    search_progress *progress;
    void *context;
    const struct policy *policy_from;
    struct policy *policy_to;
    const double *skewness; /* of ralp: as search_options' */
};
/* USAGE where the method is neither auto nor of methods.def: with their names. */
MUST_USE status solve_method_check(const char *method);
/* Evaluations that sampled and learned methods get for so many seconds: the same number on every machine, so
 * that a plan can be repeated. */
uint64_t solve_evaluations(double seconds);
/* USAGE for an unknown method; MEMORY; INVALID where the method cannot work on the instance. An instance that
 * nothing satisfies gives a solution that is not feasible, with the plan of greatest throughput. */
MUST_USE status solve(const struct instance *instance, const struct solve_options *options, struct solution *solution);
/* The plan that gives layer l to types[l], with the units that are best; `method` says where it is from, and is kept.
 * MEMORY. Yours: solution_free. */
MUST_USE status solve_types(const struct instance *instance, const type_index *types, const char *method,
                            struct solution *solution);
void solution_free(struct solution *solution);
/* "infeasible: at most 8,200 examples/s of 9,121 asked: stage fc0..fc3 on gpu1 has all its 16 units", or "" if
 * it is feasible. */
char *solution_infeasible_text(const struct solution *solution, char *buffer, size_t bytes);

/* plan.json of a solution: types with devices, layers' names, stages with predicted et and cut_bytes, figures.
 * malloc'd: the caller's. MEMORY. */
MUST_USE status solution_text(const struct solution *solution, char **text, size_t *bytes);
MUST_USE status solution_write(const struct solution *solution, const char *path);
/* The plan of a solution for the graph, by way of its text.
 * *plan is yours: plan_free. As plan_parse; MEMORY. */
MUST_USE status solution_to_plan(const struct solution *solution, const struct graph *graph, struct plan *plan);

#endif
