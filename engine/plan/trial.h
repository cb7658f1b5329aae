/* Plans that are tried. Each trains the graph from its start for a moment on this machine, on the data of the
 * profile, and its examples a second are read off the clock. A prediction leaves out some delays that a run
 * shows: threads that want one core, reading that cannot keep up, the fill and drain of every step.
 *
 *     solutions of several methods, the chosen one with a stage fewer ─▶ distinct plans ─train─▶ measured ─▶ the best
 *
 * Workload: five to ten plans, once a plan is made. */
#ifndef HETERPS_ENGINE_PLAN_TRIAL_H
#define HETERPS_ENGINE_PLAN_TRIAL_H

#include "sched/solution.h"

struct trial_options {
    const char *graph_path;
    const char *const *set; /* "section.key=value" of the graph, [set_count] */
    uint32_t set_count;
    const char *data, *isa; /* NULL: as the graph says, else generated rows; the best here */
    double seconds;         /* of each plan, about: the second half of them is measured */
    double throughput;      /* goal: examples/s, 0: none, infinite: max */
};

/* Plans that trials_run may add: of methods that need no search, and the first plan with each of
 * its stages given to a neighbour. */
#define TRIALS_ADDED_MAX 48u

/* Trains the plans of solutions[0 … *count), all of one instance, and of solutions that it adds (*count
 * grows, up to `most`). Sets `measured` of each plan that can be run here; for the others a line says why
 * not. Also sets the share of time that a plan `waited` for processors, which comparisons take out. Plans
 * that are predicted to miss the goal, or for max the fastest plan, by a factor of five are left out. The
 * best plan comes to the front, by measured figures: the cheapest plan that reaches the goal, or for max
 * PLANNER_MAX_SHARE of the fastest plan's throughput; if none does, the fastest. If none can be run, the
 * first stays. STOPPED by a signal; MEMORY; also fails as reading data fails. */
MUST_USE status trials_run(const struct trial_options *options, struct solution *solutions, uint32_t *count,
                           uint32_t most);

/* The same for one solution, which is replaced by the best; its profile stays. */
MUST_USE status trials_best(const struct trial_options *options, struct solution *solution);

#endif
