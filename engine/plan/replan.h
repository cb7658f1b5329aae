/* Plans a graph for a cluster, and plans it again when the running pipeline shows that the times on
 * which the plan rests were wrong:
 *
 *     instance ──solve──▶ plan ──▶ pipeline ──figures──▶ measured seconds an example, stage by stage
 *        ▲                                                    │ differ from the plan's by more than the bound, twice
 *        └──────── times of the stage's type, corrected ──────┘
 *
 * HeterPS, section 5.2: Algorithm 1 is used a second time during training, on real throughput. The learned
 * methods go on with the policy of the search before. */
#ifndef HETERPS_ENGINE_PLAN_REPLAN_H
#define HETERPS_ENGINE_PLAN_REPLAN_H

#include "engine/pipe/pipeline.h"
#include "sched/solution.h"

/* A stage whose time differs from the plan's by more than this factor, up or down, asks for another plan … */
#define REPLAN_BOUND 1.25
/* … which is taken if it promises at least this much: less cost, or where the goal
 * is missed, more throughput. */
#define REPLAN_GAIN 1.05

struct replanner;
struct replan_options {
    const struct graph *graph;       /* kept */
    const struct instance *instance; /* copied */
    double throughput;               /* goal: examples/s, 0: none, infinite: max */
    uint32_t pipeline_count;         /* of pipelines that run the plan side by side, each with these units */
    search_progress *progress;       /* of the searches, or NULL */
    /* as in solve_options; later plans of auto come from exact, or from rl where exact does not finish */
    const char *method;
    uint64_t seed;
    double seconds; /* bound of the first plan's search; later plans have a quarter of it, at most 0.5 s */
    /* Replaces the first solution by a better one; or NULL. */
    status (*better)(void *context, struct solution *solution);
    void *better_context;
};
/* Solves the instance: *plan is the first plan (the caller frees it: plan_free). INFEASIBLE: says the
 * reason and the nearest throughput. */
MUST_USE status replanner_open(struct replanner **replanner, const struct replan_options *options, struct plan *plan);
void replanner_close(struct replanner *replanner);
/* The solution from which the present plan was made. */
const struct solution *replanner_solution(const struct replanner *replanner);

/* Examples a second that a run of the plan is expected to reach on core_count cores of this node, in steps of
 * `micro_count` micro-batches (sched/expect.h; INSTANCE_NEVER_DRAINED). */
double replanner_expected(const struct replanner *replanner, uint32_t micro_count, uint32_t core_count);

/* Compares what the pipeline has measured since the last call with the plan; `examples`: trained since then.
 * Returns whether a new plan is due; the instance is then corrected, and `why` gives the reason. Costs a
 * microsecond; to be called about once a second. */
bool replanner_look(struct replanner *replanner, const struct pipeline_figures *figures, uint64_t examples, char *why,
                    size_t why_bytes);
/* Solves the corrected instance. *is_better: *plan is the new plan, the present one from now on; else the
 * present plan is as good, and keeps its units, with corrected times. */
MUST_USE status replanner_plan(struct replanner *replanner, struct plan *plan, bool *is_better);
/* The new plan cannot be run: nothing is compared from now on. */
void replanner_stop(struct replanner *replanner);
/* The pipeline was opened anew: its figures begin at zero. */
void replanner_restart(struct replanner *replanner);

#endif
