/* The answer to an instance: a plan with its provision, its cost and whether it is proven;
 * written as plan.json (sched/plan.h). */
#ifndef HETERPS_SCHED_SOLUTION_H
#define HETERPS_SCHED_SOLUTION_H

#include "sched/method.h"
#include "sched/plan.h"

struct solution {
    const struct instance *instance; /* borrowed: outlives the solution */
    /* borrowed, too: the instance before measured times corrected it, whose times devices on sim go on
     * taking; NULL: it was not corrected */
    const struct instance *profile;
    const char *method; /* of methods.def                   */
    uint64_t seed, evaluations;
    double seconds;
    enum search_end ended_by;
    bool is_proven;
    struct cost_result result; /* is_feasible false: the plan at the nearest feasible throughput */
    double measured;           /* examples/s of the plan when it was tried (engine/plan/trial.h); 0: it was not tried */
    double waited;             /* the share of the trial in which it waited for processors that others had */
    double lower_bound;        /* USD; 0: none */
    uint32_t server_cores;     /* of parameter servers, beside the stages' units; 0: no such data */
    double server_cost;        /* USD */
    type_index *types;         /* [L] */
    struct cost_stage *stages; /* [stage_count] */
    uint32_t stage_count;
    struct search_point *curve; /* [curve_count] */
    uint32_t curve_count;
    /* with method auto: the cost that rl found, for its gap, and rl's seconds; cost 0: none */
    double rl_cost, rl_seconds;
    void *memory;
};

/* Measured examples/s, without the time in which the plan waited for processors; 0: it was not tried. */
static inline double solution_rate(const struct solution *solution)
{
    return solution->measured / (1 - solution->waited);
}

struct solve_options {
    /* of methods.def, or "auto": the proven plan if exact finishes, else the best of exact, rl and rl+polish;
     * rl runs in any case, and its gap is kept */
    const char *method;
    uint64_t seed;
    uint64_t evaluations; /* budget of sampled and learned methods; 0: solve_evaluations(seconds) */
    double seconds;       /* ceiling, of each method; 0: none */
    bool keeps_curve;
    search_progress *progress;
    void *context;
    const struct policy *policy_from;
    struct policy *policy_to;
    const double *skewness; /* of ralp: as in search_options */
};
/* USAGE, with all names: the method is neither auto nor of methods.def. */
MUST_USE status solve_method_check(const char *method);
/* The evaluations that sampled and learned methods get for this many seconds: the same number on every
 * machine, so that a plan can be repeated. */
uint64_t solve_evaluations(double seconds);
/* USAGE: the method is unknown; MEMORY; INVALID: the method cannot work on the instance. If no plan is
 * feasible, neither is the solution; from auto and proving methods it has the plan of greatest throughput. */
MUST_USE status solve(const struct instance *instance, const struct solve_options *options, struct solution *solution);
/* The plan that gives layer l to types[l], with the best units; keeps `method`, which says where the plan is
 * from. MEMORY. Returns the solution: solution_free. */
MUST_USE status solve_types(const struct instance *instance, const type_index *types, const char *method,
                            struct solution *solution);
void solution_free(struct solution *solution);
/* "infeasible: at most 8,200 examples/s of 9,121 asked: stage fc0..fc3 on gpu1 has all its 16 units",
 * or "" for a feasible solution. */
char *solution_infeasible_text(const struct solution *solution, char *buffer, size_t bytes);

/* plan.json of a solution: types with devices, layers' names, stages with predicted et and cut_bytes,
 * figures. malloc'd: the caller's. MEMORY. */
MUST_USE status solution_text(const struct solution *solution, char **text, size_t *bytes);
MUST_USE status solution_write(const struct solution *solution, const char *path);
/* The plan of a solution for the graph, by way of its text. Returns *plan:
 * plan_free. As plan_parse; MEMORY. */
MUST_USE status solution_to_plan(const struct solution *solution, const struct graph *graph, struct plan *plan);

#endif
