/* The answer to an instance: a plan with its provision, its cost and whether it is proven;
 * written as plan.json (sched/plan.h). */
#ifndef HETERPS_SCHED_SOLUTION_H
#define HETERPS_SCHED_SOLUTION_H

#include "sched/method.h"
#include "sched/plan.h"

/* The method of a plan that was made better for a run. */
#define SOLUTION_ADAPTED "adapted"

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
    double expected;           /* examples/s of a run (sched/expect.h); 0: the instance does not say how it runs */
    /* Of the plan of the method adapted_from, before it was made better for a run; NULL: it was not */
    const char *adapted_from;
    double expected_before;
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

/* Examples/s that a run is expected to reach, or, where that is not known, formula 5's. */
static inline double solution_predicted(const struct solution *solution)
{
    return solution->expected > 0 ? solution->expected : solution->result.throughput;
}
/* USD at the predicted throughput; result.cost is that at formula 5's. */
static inline double solution_run_cost(const struct solution *s)
{
    return s->result.throughput > 0 ? s->result.cost * (s->result.throughput / solution_predicted(s)) : s->result.cost;
}
/* Measured examples/s, without the time in which the plan waited for processors; 0: it was not tried. */
static inline double solution_rate(const struct solution *solution)
{
    return solution->measured / (1 - solution->waited);
}

struct solve_options {
    /* of methods.def, or "auto": the proven plan if exact finishes, else the best of exact, rl and rl+polish;
     * rl runs in any case, and its gap is kept, unless the plan is adapted */
    const char *method;
    uint64_t seed;
    uint64_t evaluations; /* budget of sampled and learned methods; 0: solve_evaluations(seconds) */
    double seconds;       /* ceiling, of each method; 0: none */
    bool keeps_curve;
    /* Where the instance says how it runs, the plan is made better for this (sched/expect.h); its
     * method is then "adapted". */
    bool adapts;
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
/* "the best plan that was tried reaches 8200 examples/s of 9121 asked, …", of a solution with what was
 * measured. */
char *solution_tried_text(const struct solution *solution, char *buffer, size_t bytes);
/* "infeasible: at most 8,200 examples/s of 9,121 asked: stage fc0..fc3 on gpu1 has all its 16 units",
 * or "" for a feasible solution. */
char *solution_infeasible_text(const struct solution *solution, char *buffer, size_t bytes);

/* "563,689 examples/s in a run, 102 % of what is asked, for 0.0009885 USD, where the pipeline is drained
 * after every 4 micro-batches and reading takes a core 1.54 us an example; the plan of exact would reach
 * 316,624"; cut to the buffer. For solutions with `expected`. */
char *solution_expected_text(const struct solution *solution, char *buffer, size_t bytes);

/* A warning of a feasible solution that is expected to miss what is asked in a run; "" of another one. */
char *solution_short_text(const struct solution *solution, char *buffer, size_t bytes);

/* plan.json of a solution: types with devices, layers' names, stages with predicted et and cut_bytes,
 * figures. malloc'd: the caller's. MEMORY. */
MUST_USE status solution_text(const struct solution *solution, char **text, size_t *bytes);
MUST_USE status solution_write(const struct solution *solution, const char *path);
/* The plan of a solution for the graph, by way of its text. Returns *plan:
 * plan_free. As plan_parse; MEMORY. */
MUST_USE status solution_to_plan(const struct solution *solution, const struct graph *graph, struct plan *plan);

#endif
