/* Plans that are tried: each trains the graph from nothing for a moment on this machine, on the data that it is
 * profiled on, and its examples a second are read off the clock. A prediction leaves out what only a run shows:
 * threads that want one core, reading that cannot keep up, the fill and drain of every step.
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

/* Plans that trials_run may add: of methods that need no search, and the first one's with each of its stages given to a
 * neighbour. */
#define TRIALS_ADDED_MAX 48u

/* Trains the plans of solutions[0 … *count), which are of one instance, and of what it adds to them (*count grows, up
 * to `most`), and sets `measured` of each that can be run here, and for how long it `waited` for processors, which is
 * taken out where plans are compared; a line says why another cannot. Those that are predicted to miss the goal, or
 * for max the fastest, by a factor of five are left out. The best of those comes to the front: the cheapest by what
 * was measured of those that reach the goal, for max of those within PLANNER_MAX_SHARE of the fastest; where none
 * does, the fastest. Where none can be run the first stays. STOPPED by a signal; MEMORY; what reading data fails
 * with. */
MUST_USE status trials_run(const struct trial_options *options, struct solution *solutions, uint32_t *count,
                           uint32_t most);

/* The same of one solution, which becomes the best; its profile stays. */
MUST_USE status trials_best(const struct trial_options *options, struct solution *solution);

#endif
