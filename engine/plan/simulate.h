/* Runs a plan for any cluster in the real pipeline, on sim devices and in scaled time, and compares what it
 * measures with what the plan predicts: examples/s (HeterPS, formula 5) and the bytes that cross each cut.
 *
 *     graph, or a chain with an instance's cuts ──▶ plan, every stage on sim ──▶ pipeline ──▶ throughput, bytes
 *
 * Under wsp minibatches follow one another without a barrier, and enough are in flight that the slowest stage
 * always has work. The first and the last minibatches in flight are left out, because the pipeline is slower
 * while it fills and drains. Under bsp whole steps are measured, the first one left out. Each step begins and
 * ends with an empty pipeline, which formula 5 does not count and the measured figure does. */
#ifndef HETERPS_ENGINE_PLAN_SIMULATE_H
#define HETERPS_ENGINE_PLAN_SIMULATE_H

#include "cfg/settings.h"
#include "graph/graph.h"
#include "sched/instance.h"
#include "sched/plan.h"
#include "sched/solution.h"

#define SIMULATE_MICRO 16u /* examples of a micro-batch */

/* The graph of a run: with sync, batch and micro-batch as the run needs them. Either the one in a file … */
struct simulate_shape {
    uint32_t sync;        /* SYNC_BSP or SYNC_WSP */
    uint32_t micro_count; /* bsp: micro-batches a step */
};
MUST_USE status simulate_graph_open(struct graph *graph, const char *path, const char *const *set, uint32_t set_count,
                                    const struct simulate_shape *shape);
/* … or a chain of as many layers as the instance has. Their outputs are as wide as the instance says of the
 * cuts after them, there and back; or 1 / *factor of this width, where a micro-batch would be too large. */
MUST_USE status simulate_graph_make(struct graph *graph, const struct instance *instance,
                                    const struct simulate_shape *shape, double *factor);
/* The parts of a graph that plan_read and plan_stage_name need: layers, their names, the hash. The names are
 * the instance's, which a model text might not allow. Not to be run. graph_close. */
MUST_USE status simulate_names_make(struct graph *names, const struct instance *instance);

/* Turns a plan that was read into one on sim: every stage in one replica. An et that the plan lacks follows
 * from the instance; INVALID: there is no instance (NULL). */
MUST_USE status simulate_plan_turn(struct plan *plan, const struct graph *names, const struct instance *instance);
/* The same for the plan of a solution; borrows the names of its instance. */
MUST_USE status simulate_plan_make(struct plan *plan, const struct solution *solution);

struct simulate_options {
    const struct graph *graph; /* of simulate_graph_…                                          */
    const struct graph *names; /* of the layers: the same graph, or simulate_names_make's      */
    struct plan *plan;         /* of simulate_plan_…; its time_scale is set                    */
    uint32_t sync;
    /* of the run; 0: the slowest stage takes SIMULATE_MICRO_SECONDS a micro-batch, or SIMULATE_STAGE_SECONDS
     * for each stage, whichever is more */
    double time_scale;
    uint64_t batches; /* micro-batches to measure, at least */
};
/* Far above the time that it takes to wake a thread (50 us), and all threads
 * of a pipeline one after another. */
#define SIMULATE_MICRO_SECONDS 5e-3
#define SIMULATE_STAGE_SECONDS 0.5e-3

struct simulated_stage {
    char name[64];
    const char *type;
    uint32_t units;
    double et, et_measured; /* seconds an example, in the plan's time            */
    /* across the cut after it, in all */
    uint64_t predicted_bytes, moved_bytes;
};
struct simulation {
    double time_scale;
    double predicted, measured;           /* examples/s, in the plan's time                        */
    uint64_t micro_count, measured_count; /* micro-batches                                         */
    uint32_t in_flight, step_micro_count;
    struct simulated_stage *stages; /* [stage_count]; malloc'd */
    uint32_t stage_count;
};
/* Micro-batches of a step under bsp: enough that filling and draining are a small part of the step. */
uint32_t simulate_step_micro_count(uint32_t stage_count);
/* Takes as long as the plan's times say; STOPPED by a signal. The caller frees: simulation_free. */
MUST_USE status simulate_run(struct simulation *simulation, const struct simulate_options *options);
void simulation_free(struct simulation *simulation);

#endif
