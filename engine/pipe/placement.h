/* Who works where: a plan's stages and the cores of this node become workers, each a gang of cores.
 *
 *   dedicated     stage 0: k 2, replicas 2    stage 1: k 2    service_cores 1
 *                 [worker 0] [worker 1]       [worker 2  ]    [service]
 *   processor          0          1              2     3          4 …
 *
 *   pool          [ worker 0  ] [ worker 1  ] [ worker 2 ] …      each serves every stage of every pipeline
 *
 * Every unit of the plan has a core of its own (dedicated) if there are enough cores. If there are
 * not, and only if the user asks for it, the stages share a pool of all cores: a plan's figures
 * hold for dedicated units alone. */
#ifndef HETERPS_ENGINE_PIPE_PLACEMENT_H
#define HETERPS_ENGINE_PIPE_PLACEMENT_H

#include "engine/base/cores.h"
#include "engine/device/kind.h"
#include "sched/plan.h"

#define PLACEMENT_ALL         UINT32_MAX /* a worker's pipeline: each of them */
#define PLACEMENT_WORKERS_MAX 16384u     /* threads */

struct placement_worker {
    uint32_t pipeline;               /* of pipeline_count, or PLACEMENT_ALL                                 */
    uint32_t stage_begin, stage_end; /* the stages that it serves: one, or all in a pool                    */
    uint32_t core_count;             /* its gang; 0: a worker of a stage on a card or on sim, which mostly waits */
    uint32_t unit_count;             /* of the plan: core_count; the units that a sim device imitates; a card */
    const int *processors;           /* [core_count], or NULL: not pinned                                   */
};

struct placement {
    /* workers of a pool first; then the dedicated ones, pipeline by pipeline,
     * stage by stage, replica by replica */
    struct placement_worker *worker;
    uint32_t worker_count;
    uint32_t pipeline_count;
    bool is_shared;         /* a pool serves the stages on cpu                                     */
    uint32_t service_count; /* cores for reading, the store, the wire; 0: these run anywhere       */
    const int *service;     /* [service_count], or NULL: not pinned                                */
    /* owns: */
    void *memory;
};

/* How many of a stage's workers take different lanes side by side: its replicas,
 * or the streams of its replicas. */
static inline uint32_t placement_seats(const struct plan *plan, uint32_t stage)
{
    return plan->stages[stage].replicas * device_kind_of(plan, stage)->streams;
}
/* Whether the stage's units are cores; else it has workers of its own, one a seat. */
static inline bool placement_has_cores(const struct plan *plan, uint32_t stage)
{
    return device_kind_of(plan, stage)->has_cores;
}

/* Places pipeline_count pipelines of the plan's stages on core_count cores: the first of `cores`, in order.
 * Nothing is pinned if a quota limits the cores, because it counts time and not cores; nor if core_count is
 * not all of them, because other processes may have been given the same ones.
 *
 *   dedicated   if pipelines * k of all stages + service cores fit: replica r of a stage is a gang of k / replicas
 *               neighbouring cores; service cores come last, together with the cores that are left over
 *   pool        if they do not fit and `share` is set: gangs as wide as the widest gang of the plan, or of the greatest
 *               smaller width that leaves no core over; no service cores
 *
 * Stages without cores do not count here, and their workers are never pinned.
 *
 * USAGE: a stage asks for more replicas than its kind of device has (device_kind.replicas_max); they do not
 * fit and `share` is not set, with the sum and what to do; more workers than PLACEMENT_WORKERS_MAX. MEMORY.
 * Borrows all; on failure *placement is empty. `graph` is for names in messages. */
MUST_USE status placement_make(struct placement *placement, const struct plan *plan, const struct graph *graph,
                               uint32_t pipeline_count, const struct cores *cores, uint32_t core_count, bool share);
void placement_free(struct placement *placement);

/* Says the placement: a line for each stage and one for service cores, or one for the pool:
 *     "stage 0 (e..x): 2 workers of 1 core on processors 0, 1"
 *     "stage 1 (h1): 1 worker imitates 8 units"
 *     "stage 1 (h1): 3 workers of a card"
 *     "3 stages share 2 workers of 1 core on processors 0, 1" */
typedef void placement_say(void *context, const char *line);
MUST_USE status placement_tell(const struct placement *placement, const struct plan *plan, const struct graph *graph,
                               placement_say *say, void *context);

#endif
