/* The time that the units of a plan's stage take, for devices that imitate them.
 *
 * The stage's replicas together make an example every `et` seconds, so one replica takes for a micro-batch
 *
 *     et * replicas * examples * plan.time_scale * slow factor
 *
 * a third of it forward, two thirds backward. A piece of a pass takes its nodes' share of the pass; updates
 * take no time. The slow factor is the greatest of the stage's ops, in the steps in which its type is slowed
 * (sched/resource.h). A device sleeps until the imitated units would be done. A thread that the machine wakes
 * late loses nothing: its next task counts as begun earlier by as much, but never before the end of the task
 * before it. (Tasks of 130 and 270 us in turn: 0.3 % late in all; 33 % if each began when its thread came to
 * it. AMD EPYC, the usual timer slack of 50 us.) */
#ifndef HETERPS_ENGINE_DEVICE_SIM_PACE_H
#define HETERPS_ENGINE_DEVICE_SIM_PACE_H

#include "graph/op.h"
#include "sched/plan.h"

struct pace {
    double example_seconds; /* of a replica, as planned and scaled           */
    double slow_factor;     /* in the steps in which the stage's type is slowed */
    struct resource_slow slow;
    uint32_t node_count[PASS_COUNT]; /* of the stage's passes */
    uint64_t free_ns;                /* when the imitated units are done with what they have begun */
    uint64_t late_ns;                /* by how much the thread woke after free_ns */
};

/* The pace of a replica of the plan's stage. INVALID: the plan gives the stage no et, or one so long that
 * a micro-batch would take days. */
MUST_USE status pace_open(struct pace *pace, const struct graph *graph, const struct plan *plan, uint32_t stage);
/* For node_count nodes of a pass: when they begin on the imitated units, and how long they take there. */
uint64_t pace_begin_ns(const struct pace *pace);
uint64_t pace_pass_ns(const struct pace *pace, const struct op_context *c, enum graph_pass pass, uint32_t node_count);
/* Sleeps until end_ns, when the imitated units are done. */
void pace_end(struct pace *pace, uint64_t end_ns);

#endif
