/* The sim device: once a task, and what it takes of a core is copying. */
#include "engine/device/sim/device.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/base/trace.h"
#include "graph/crossing.h"
#include "graph/cut.h"

/* Of a micro-batch, unscaled by steps: far above what anybody waits for, far below 2^64 ns. */
#define MICRO_SECONDS_MAX 1e6

struct sim_device {
    struct device device; /* first: a struct device * is a struct sim_device * */
    const struct graph *graph;
    double example_seconds; /* of this replica, as planned and scaled           */
    double slow_factor;     /* from step slow_step on                           */
    uint64_t slow_step;
    struct crossing crossing;
    /* What is copied out of the slot goes to one of these, what is written into it comes from the other. */
    uint8_t *taken, *zeros;
    size_t taken_bytes, zeros_bytes; /* of the longest list */
    struct sim_moved moved;
    uint64_t free_ns; /* when the imitated units are done with what they have begun */
    uint64_t late_ns; /* by how much the thread woke after that                    */
    struct arena arena;
};

/* --- bytes ------------------------------------------------------------------------------------ */

/* The keys of a sparse field, ids_max an example; what a list is shorter by is zero. */
static void keys_copy(const struct op_context *c, uint32_t field, uint8_t *to)
{
    const struct graph *g = c->graph;
    const struct micro_batch *m = c->batch;
    size_t example_bytes = g->fields[field].ids_max * sizeof *m->key;
    for (uint32_t b = 0; b < m->example_count; b++, to += example_bytes) {
        uint32_t home = b * g->field_count + field, begin = m->key_begin[home];
        size_t bytes = (m->key_begin[home + 1] - begin) * sizeof *m->key;
        memcpy(to, m->key + begin, bytes);
        memset(to + bytes, 0, example_bytes - bytes);
    }
}

/* Copies what the list names out of the slot; returns the bytes. */
static uint64_t list_take(const struct sim_device *d, const struct op_context *c, enum crossing_list list)
{
    uint8_t *at = d->taken;
    for (uint32_t i = 0; i < d->crossing.count[list]; i++) {
        uint32_t t = d->crossing.tensor[list][i];
        size_t row_bytes = graph_cut_tensor_bytes(c->graph, t);
        const struct view *v = &c->tensor[t];
        bool is_field = c->graph->tensors[t].kind == TENSOR_FIELD;
        uint32_t rows = is_field ? c->batch->example_count : v->rows;
        if (is_field) keys_copy(c, c->graph->tensors[t].cols, at);
        for (uint32_t b = 0; b < rows && !is_field; b++)
            memcpy(at + b * row_bytes, v->data + (size_t)b * v->stride, row_bytes);
        at += rows * row_bytes;
    }
    CHECK(at <= d->taken + d->taken_bytes);
    return (uint64_t)(at - d->taken);
}

/* Writes zeros into what the list names of the slot. */
static void list_give(const struct sim_device *d, const struct op_context *c, enum crossing_list list)
{
    const uint8_t *at = d->zeros;
    for (uint32_t i = 0; i < d->crossing.count[list]; i++) {
        uint32_t t = d->crossing.tensor[list][i];
        size_t row_bytes = graph_cut_tensor_bytes(c->graph, t);
        const struct view *v = &c->tensor[t];
        for (uint32_t b = 0; b < v->rows; b++, at += row_bytes) memcpy(v->data + (size_t)b * v->stride, at, row_bytes);
    }
    CHECK(at <= d->zeros + d->zeros_bytes);
}

/* --- time ------------------------------------------------------------------------------------- */

static void sleep_until(uint64_t end_ns)
{
    struct timespec end = {.tv_sec = (time_t)(end_ns / 1000000000u), .tv_nsec = (long)(end_ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) != 0) {
        /* woken by a signal */
    }
}

/* When the task that is submitted now has begun on the imitated units. */
static uint64_t task_begin_ns(const struct sim_device *d)
{
    uint64_t begin_ns = clock_ns() - d->late_ns;
    return begin_ns < d->free_ns ? d->free_ns : begin_ns;
}

static void task_end(struct sim_device *d, uint64_t end_ns)
{
    sleep_until(end_ns);
    uint64_t now_ns = clock_ns();
    d->free_ns = end_ns;
    d->late_ns = now_ns > end_ns ? now_ns - end_ns : 0;
}

/* --- the device ------------------------------------------------------------------------------- */

static status sim_submit(struct device *device, const struct op_context *c, const struct graph_node *nodes,
                         uint32_t count)
{
    struct sim_device *d = (struct sim_device *)device;
    CHECK(c->graph == d->graph);
    if (c->batch->example_count == 0 || count == 0) return ST_OK;
    bool is_forward = nodes->pass == PASS_FORWARD;
    double slow = c->batch->step >= d->slow_step ? d->slow_factor : 1;
    uint64_t micro_ns = (uint64_t)(d->example_seconds * slow * c->batch->example_count * 1e9),
             forward_ns = micro_ns / 3, begin_ns = task_begin_ns(d);
    uint64_t moved_bytes = list_take(d, c, is_forward ? CROSSING_FRONT : CROSSING_BEHIND);
    if (c->training) *(is_forward ? &d->moved.forward_bytes : &d->moved.backward_bytes) += moved_bytes;
    list_give(d, c, is_forward ? CROSSING_FORWARD_OUT : CROSSING_BACKWARD_BEGUN);
    if (is_forward) list_give(d, c, CROSSING_HEADS);
    task_end(d, begin_ns + (is_forward ? forward_ns : micro_ns - forward_ns));
    return ST_OK;
}

/* Sums that stages on other devices have added for a table whose first look-up is here are zeroed, as an update has to; there are none of the
 * stage's own. */
static status sim_update_rows(struct device *device, const struct table_update *update)
{
    (void)device;
    for (uint32_t i = 0; i < update->lanes * update->use_count; i++)
        memset(update->grad[i], 0, (size_t)update->row_count * update->table->dim * sizeof *update->grad[i]);
    return ST_OK;
}

static status sim_update_params(struct device *device, const struct param_update *update)
{
    (void)device, (void)update;
    return ST_OK;
}

static status sim_sum_params(struct device *device, const struct param_sums *sums)
{
    (void)device;
    memset(sums->squares, 0, sums->block_count * sizeof *sums->squares);
    return ST_OK;
}

static void sim_close(struct device *device)
{
    struct sim_device *d = (struct sim_device *)device;
    arena_close(&d->arena);
    crossing_free(&d->crossing);
    free(d);
}

static const struct device_vt sim_vt = {
    .name = "sim",
    .submit = sim_submit,
    .update_rows = sim_update_rows,
    .update_params = sim_update_params,
    .sum_params = sim_sum_params,
    .close = sim_close,
};

/* --- opening ---------------------------------------------------------------------------------- */

/* Of a whole micro-batch, where the list is the longest yet. */
static void list_measure(const struct sim_device *d, enum crossing_list list, size_t *longest)
{
    const struct graph *g = d->graph;
    size_t bytes = 0;
    for (uint32_t i = 0; i < d->crossing.count[list]; i++) {
        uint32_t t = d->crossing.tensor[list][i], rows = g->tensors[t].rows ? g->tensors[t].rows : g->header->micro;
        bytes += rows * graph_cut_tensor_bytes(g, t);
    }
    if (bytes > *longest) *longest = bytes;
}

static void device_layout(struct sim_device *d, struct layout *l)
{
    LAYOUT_TAKE(l, d->taken, d->taken_bytes);
    LAYOUT_TAKE(l, d->zeros, d->zeros_bytes);
}

static status memory_open(struct sim_device *d)
{
    list_measure(d, CROSSING_FRONT, &d->taken_bytes);
    list_measure(d, CROSSING_BEHIND, &d->taken_bytes);
    list_measure(d, CROSSING_FORWARD_OUT, &d->zeros_bytes);
    list_measure(d, CROSSING_HEADS, &d->zeros_bytes);
    list_measure(d, CROSSING_BACKWARD_BEGUN, &d->zeros_bytes);
    struct layout sum = {0}, taken = {.arena = &d->arena};
    device_layout(d, &sum);
    TRY(arena_open(&d->arena, "sim devices", sum.bytes));
    device_layout(d, &taken);
    return ST_OK;
}

/* The greatest factor of the ops of the stage's layers. */
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

static status times_set(struct sim_device *d, const struct plan *plan, uint32_t stage_index)
{
    const struct graph *g = d->graph;
    const struct plan_stage *stage = &plan->stages[stage_index];
    const struct resource_slow *slow = &plan->types[stage->type].slow;
    char name[128];
    if (!(stage->et > 0))
        FAIL(INVALID, "stage %u (%s) is on sim, but the plan does not say how long it takes: expected et > 0",
             stage_index, plan_stage_name(plan, g, stage_index, name, sizeof name));
    d->example_seconds = (stage->sim_et > 0 ? stage->sim_et : stage->et) * stage->replicas * plan->time_scale;
    d->slow_factor = slow_factor_of(g, stage, slow);
    d->slow_step = slow->from_step;
    double micro_seconds = d->example_seconds * d->slow_factor * g->header->micro;
    if (!(micro_seconds <= MICRO_SECONDS_MAX))
        FAIL(INVALID, "stage %u (%s) takes %g seconds for a micro-batch of %u; expected at most %g: lower time_scale",
             stage_index, plan_stage_name(plan, g, stage_index, name, sizeof name), micro_seconds, g->header->micro,
             MICRO_SECONDS_MAX);
    return ST_OK;
}

status sim_device_open(struct device **out, const struct graph *graph, const struct plan *plan, uint32_t stage)
{
    status st;
    *out = NULL;
    struct sim_device *d = calloc(1, sizeof *d);
    if (d == NULL) FAIL(MEMORY, "cannot describe a sim device");
    d->device.vt = &sim_vt;
    d->graph = graph;
    TRY_GOTO(times_set(d, plan, stage), fail);
    TRY_GOTO(crossing_find(&d->crossing, graph, plan->stages[stage].first_layer, plan->stages[stage].last_layer), fail);
    TRY_GOTO(memory_open(d), fail);
    *out = &d->device;
    return ST_OK;
fail:
    sim_close(&d->device);
    return st;
}

struct sim_moved sim_device_moved(const struct device *device) { return ((const struct sim_device *)device)->moved; }

/* --- as a kind of devices --------------------------------------------------------------------- */

struct device_stage {
    uint32_t count;
    struct device *devices[]; /* [count]: a replica each */
};

static status stage_open(struct device_stage **out, const struct device_stage_options *o)
{
    const uint32_t count = o->plan->stages[o->stage].replicas;
    struct device_stage *s = calloc(1, sizeof *s + count * sizeof *s->devices);
    if (s == NULL) FAIL(MEMORY, "no memory to describe %u sim devices", count);
    s->count = count;
    *out = s;
    return ST_OK;
}

static void stage_close(struct device_stage *s) { free(s); }

static struct device_figures stage_figures(const struct device_stage *s)
{
    struct device_figures sum = {0};
    for (uint32_t r = 0; r < s->count; r++) {
        const struct sim_moved moved = sim_device_moved(s->devices[r]);
        sum.front_bytes += moved.forward_bytes;
        sum.behind_bytes += moved.backward_bytes;
    }
    return sum;
}

static status open(struct device **device, struct device_stage *s, const struct device_stage_options *o,
                   const struct device_seat *seat)
{
    TRY(sim_device_open(device, o->graph, o->plan, o->stage));
    s->devices[seat->replica] = *device;
    return ST_OK;
}

const struct device_kind device_kind_sim = {
    .unit = "imitated unit",
    .streams = 1,
    .replicas_max = UINT32_MAX,
    .imitates = true,
    .stage_open = stage_open,
    .stage_close = stage_close,
    .stage_figures = stage_figures,
    .open = open,
};
