/* The paced device: a cpu device, and a sleep after each of its passes. */
#include "engine/device/sim/paced.h"

#include <inttypes.h>
#include <stdlib.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/device/cpu/cpu_device.h"
#include "engine/device/sim/pace.h"

/* One pass in this many may overrun without a warning: other programs disturb it. */
#define OVERRUN_PART 100u

struct paced_device {
    struct device device; /* first: a struct device * is a struct paced_device * */
    struct device *cpu;
    struct pace pace;
    struct paced_passes passes;
    char stage[128];
};

static status paced_submit(struct device *device, const struct op_context *c, const struct graph_node *nodes,
                           uint32_t count)
{
    struct paced_device *d = (struct paced_device *)device;
    if (c->batch->example_count == 0 || count == 0) return ST_OK;
    const uint64_t begin_ns = pace_begin_ns(&d->pace),
                   end_ns = begin_ns + pace_pass_ns(&d->pace, c, (enum graph_pass)nodes->pass, count);
    TRY(device_submit(d->cpu, c, nodes, count));
    const uint64_t now_ns = clock_ns();
    d->passes.count++;
    d->passes.overrun_count += now_ns > end_ns;
    pace_end(&d->pace, now_ns > end_ns ? now_ns : end_ns);
    return ST_OK;
}

static status paced_update_rows(struct device *device, const struct table_update *update)
{
    return device_update_rows(((struct paced_device *)device)->cpu, update);
}
static status paced_update_params(struct device *device, const struct param_update *update)
{
    return device_update_params(((struct paced_device *)device)->cpu, update);
}
static status paced_sum_params(struct device *device, const struct param_sums *sums)
{
    return device_sum_params(((struct paced_device *)device)->cpu, sums);
}
static status paced_sum_rows(struct device *device, const struct table_sums *sums)
{
    return device_sum_rows(((struct paced_device *)device)->cpu, sums);
}

static void paced_close(struct device *device)
{
    struct paced_device *d = (struct paced_device *)device;
    if (d->passes.overrun_count * OVERRUN_PART > d->passes.count)
        log_warning("stage %s on paced: %" PRIu64 " of %" PRIu64
                    " passes computed longer than the plan says; raise its time_scale",
                    d->stage, d->passes.overrun_count, d->passes.count);
    device_close(d->cpu);
    free(d);
}

static const struct device_vt paced_vt = {
    .name = "paced",
    .submit = paced_submit,
    .update_rows = paced_update_rows,
    .update_params = paced_update_params,
    .sum_params = paced_sum_params,
    .sum_rows = paced_sum_rows,
    .close = paced_close,
};

status paced_device_open(struct device **out, const struct graph *graph, const struct plan *plan, uint32_t stage,
                         const char *isa)
{
    status st;
    *out = NULL;
    struct paced_device *d = calloc(1, sizeof *d);
    if (d == NULL) FAIL(MEMORY, "no memory to describe a paced device");
    d->device.vt = &paced_vt;
    (void)plan_stage_name(plan, graph, stage, d->stage, sizeof d->stage);
    TRY_GOTO(pace_open(&d->pace, graph, plan, stage), fail);
    TRY_GOTO(cpu_device_open(&d->cpu, graph, 1, NULL, isa), fail);
    *out = &d->device;
    return ST_OK;
fail:
    free(d);
    return st;
}

struct paced_passes paced_device_passes(const struct device *device)
{
    return ((const struct paced_device *)device)->passes;
}

/* --- as a kind of devices --------------------------------------------------------------------- */

static status kind_open(struct device **device, struct device_stage *s, const struct device_stage_options *o,
                        const struct device_seat *seat)
{
    (void)s, (void)seat;
    return paced_device_open(device, o->graph, o->plan, o->stage, o->isa);
}

const struct device_kind device_kind_paced = {
    .unit = "paced unit",
    .streams = 1,
    .replicas_max = UINT32_MAX,
    .imitates = true,
    .open = kind_open,
};
