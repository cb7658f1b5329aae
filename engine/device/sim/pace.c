/* How long tasks take on imitated units, and the sleep until they are done. */
#include "engine/device/sim/pace.h"

#include <time.h>

#include "engine/base/clock.h"

/* Bound of a micro-batch: far above what anybody waits for, far below 2^64 ns. */
#define MICRO_SECONDS_MAX 1e6

static void sleep_until(uint64_t end_ns)
{
    struct timespec end = {.tv_sec = (time_t)(end_ns / 1000000000u), .tv_nsec = (long)(end_ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) != 0) {
        /* woken by a signal */
    }
}

uint64_t pace_begin_ns(const struct pace *p)
{
    const uint64_t begin_ns = clock_ns() - p->late_ns;
    return begin_ns < p->free_ns ? p->free_ns : begin_ns;
}

uint64_t pace_pass_ns(const struct pace *p, const struct op_context *c, enum graph_pass pass, uint32_t node_count)
{
    const double slow = resource_is_slowed_at(&p->slow, c->batch->step) ? p->slow_factor : 1;
    const uint64_t micro_ns = (uint64_t)(p->example_seconds * slow * c->batch->example_count * 1e9),
                   forward_ns = micro_ns / 3, pass_ns = pass == PASS_FORWARD ? forward_ns : micro_ns - forward_ns;
    const uint32_t all = p->node_count[pass];
    return node_count >= all ? pass_ns : (uint64_t)((double)pass_ns * node_count / all);
}

void pace_end(struct pace *p, uint64_t end_ns)
{
    sleep_until(end_ns);
    const uint64_t now_ns = clock_ns();
    p->free_ns = end_ns;
    p->late_ns = now_ns > end_ns ? now_ns - end_ns : 0;
}

/* The greatest slow factor of the ops of the stage's layers. */
static double slow_factor_of(const struct graph *g, const struct plan_stage *stage, const struct resource_slow *slow)
{
    double factor = 1;
    for (uint32_t i = 0; i < g->forward_count && resource_is_slowed(slow); i++) {
        const struct graph_node *n = &g->nodes[i];
        if (n->layer < stage->first_layer || n->layer > stage->last_layer) continue;
        if ((double)slow->op[n->op] > factor) factor = (double)slow->op[n->op];
    }
    return factor;
}

status pace_open(struct pace *p, const struct graph *g, const struct plan *plan, uint32_t stage_index)
{
    const struct plan_stage *stage = &plan->stages[stage_index];
    const struct resource_slow *slow = &plan->types[stage->type].slow;
    char name[128];
    char device[16];
    *p = (struct pace){0};
    if (!(stage->et > 0))
        FAIL(INVALID, "stage %u (%s) is on %s, but the plan does not say how long it takes: expected et > 0",
             stage_index, plan_stage_name(plan, g, stage_index, name, sizeof name),
             resource_device_text(&plan->types[stage->type], device, sizeof device));
    p->example_seconds = (stage->sim_et > 0 ? stage->sim_et : stage->et) * stage->replicas * plan->time_scale;
    p->slow_factor = slow_factor_of(g, stage, slow);
    p->slow = *slow;
    for (uint32_t i = 0; i < g->node_count; i++)
        p->node_count[g->nodes[i].pass] +=
            g->nodes[i].layer >= stage->first_layer && g->nodes[i].layer <= stage->last_layer;
    double micro_seconds = p->example_seconds * p->slow_factor * g->header->micro;
    if (!(micro_seconds <= MICRO_SECONDS_MAX))
        FAIL(INVALID, "stage %u (%s) takes %g seconds for a micro-batch of %u; expected at most %g: lower time_scale",
             stage_index, plan_stage_name(plan, g, stage_index, name, sizeof name), micro_seconds, g->header->micro,
             MICRO_SECONDS_MAX);
    return ST_OK;
}
