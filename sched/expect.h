/* The rate that a run of a plan is expected to reach, and plans made better by it. Formulas 3 to 5 of
 * HeterPS (sched/cost.h) are bounds: they leave out the end of a step, reading, and what crosses links while
 * no core is free. With an instance that says how it runs (struct instance_run), seconds an example are
 *
 *     T1 = max pass + (sum of n pass over the other stages) / m + max update
 *     T2 = max over nodes of (sum of k ET over its CPU stages - used idle + reading) / cores
 *
 * and the rate is 1 / max(T1, T2). A stage's ET = pass + update, on sim and paced devices = pass. At the end
 * of each step of m micro-batches the pipeline is drained. The slowest stage then waits while one micro-batch
 * passes all others, of which a stage on n nodes takes it n times its seconds an example; and for the longest
 * update. Where the threads of CPU stages are as many as a node's cores, these move data instead of
 * computing: ET is CT + DT there, also of a type that overlaps. Reading (service_seconds) takes cores of the
 * first stage's nodes, evenly. If these are several, reading takes twice its seconds: rows are found by who
 * asks and by who owns them. With service_cores, reading has these, and stages the others. A gang that does
 * not divide well, k ET > CT(1), leaves cores idle. Reading uses EXPECT_IDLE_USED of them, as measured on two
 * cores of a Xeon (Cascade Lake). */
#ifndef HETERPS_SCHED_EXPECT_H
#define HETERPS_SCHED_EXPECT_H

#include "sched/search.h"

#define EXPECT_IDLE_USED 0.25
/* A plan takes another one's place if it is better by this share: runs of one and the same plan
 * differ by as much, so a measurement could not tell a smaller gain. */
#define EXPECT_GAIN 0.01

/* Examples a second of stages whose k and et are set; 0: the instance does not say how it runs. */
double expect_rate(const struct instance *instance, const struct cost_stage *stages, uint32_t count,
                   const struct instance_run *run);

/* A plan as the search for a better one changes it. */
struct expect_plan {
    type_index *types;         /* [L] */
    struct cost_stage *stages; /* [L], of which stage_count, with k and et */
    uint32_t stage_count;
    double rate;  /* expected, examples/s */
    double price; /* USD an hour */
};
/* Climbs from the plan, and from plans of one type, until no step helps. A step gives the first or last
 * layers of a stage, or all, to another type; or changes a stage's units; or moves a unit between stages.
 * While the rate is at least `rate_least`, the plan gets cheaper an example. Below, or where that is
 * infinite, it gets faster. Every plan on the way keeps to the model's limits and throughput. *is_changed:
 * the plan is another one, better by EXPECT_GAIN; else it is as it was. Of the options seconds and progress
 * count, which end the climb with the best so far. With many layers and types the climb begins at the plan
 * alone, and tries fewer steps. MEMORY. */
MUST_USE status expect_climb(const struct cost_model *model, const struct search_options *options, double rate_least,
                             struct expect_plan *plan, bool *is_changed);

#endif
