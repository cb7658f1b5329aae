/* The sim device: once a task, and what it takes of a core is copying. */
#include "engine/sim/device.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/trace.h"
#include "graph/cut.h"

/* Of a micro-batch, unscaled by steps: far above what anybody waits for, far below 2^64 ns. */
#define MICRO_SECONDS_MAX 1e6

/* A list of tensors that cross a cut, and the memory that they are copied to: one behind the other, `micro` examples each. */
struct crossing {
    uint32_t *tensors; /* [count] */
    uint32_t count;
    uint8_t *memory;
    size_t bytes;
};

struct sim_device {
    struct device device; /* first: a struct device * is a struct sim_device * */
    const struct graph *graph;
    double example_seconds; /* of this replica, as planned and scaled           */
    double slow_factor;     /* from step slow_step on                           */
    uint64_t slow_step;
    struct crossing take_forward, take_backward; /* what is copied out of the slot            */
    struct crossing give_forward, give_backward; /* what is written into it: from memory of zeros */
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

/* Copies what the list names out of the slot, or into it; returns the bytes. */
static uint64_t crossing_move(const struct crossing *crossing, const struct op_context *c, bool is_given)
{
    uint8_t *at = crossing->memory;
    for (uint32_t i = 0; i < crossing->count; i++) {
        uint32_t t = crossing->tensors[i];
        size_t row_bytes = graph_cut_tensor_bytes(c->graph, t);
        const struct view *v = &c->tensor[t];
        bool is_field = c->graph->tensors[t].kind == TENSOR_FIELD;
        /* Columns of the data pass a stage by: what it hands on is what it was given. */
        bool is_made = is_given && c->graph->tensors[t].kind == TENSOR_ACTIVATION;
        uint32_t rows = is_field ? c->batch->example_count : v->rows;
        if (is_field) keys_copy(c, c->graph->tensors[t].cols, at);
        for (uint32_t b = 0; b < rows && !is_field; b++) {
            float *row = v->data + (size_t)b * v->stride;
            if (is_made)
                memcpy(row, at + b * row_bytes, row_bytes);
            else
                memcpy(at + b * row_bytes, row, row_bytes);
        }
        at += rows * row_bytes;
    }
    CHECK(at <= crossing->memory + crossing->bytes);
    return (uint64_t)(at - crossing->memory);
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
    uint64_t moved_bytes = crossing_move(is_forward ? &d->take_forward : &d->take_backward, c, false);
    if (c->training) *(is_forward ? &d->moved.forward_bytes : &d->moved.backward_bytes) += moved_bytes;
    (void)crossing_move(is_forward ? &d->give_forward : &d->give_backward, c, true);
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

/* The tensors of a list, but for those of `but`, which only pass the stage by. */
static void crossing_fill(struct crossing *crossing, const struct graph *g, const uint32_t *tensors, uint32_t count,
                          const uint32_t *but, uint32_t but_count)
{
    uint32_t next = 0; /* both lists ascend */
    crossing->count = 0;
    crossing->bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        while (next < but_count && but[next] < tensors[i]) next++;
        if (next < but_count && but[next] == tensors[i]) continue;
        uint32_t rows = g->tensors[tensors[i]].rows ? g->tensors[tensors[i]].rows : g->header->micro;
        crossing->tensors[crossing->count++] = tensors[i];
        crossing->bytes += rows * graph_cut_tensor_bytes(g, tensors[i]);
    }
}

/* Adds to an ascending list what the stage's heads read and write, for the engine reads that when the forward pass is done. */
static void heads_add(const struct graph *g, const struct plan_stage *stage, uint32_t *tensors, uint32_t *count)
{
    for (uint32_t i = graph_head_next(g, 0); i < g->forward_count; i = graph_head_next(g, i + 1)) {
        const struct graph_node *n = &g->nodes[i];
        if (n->layer < stage->first_layer || n->layer > stage->last_layer) continue;
        for (uint32_t k = 0; k < n->input_count + n->param_count + n->output_count + n->saved_count; k++) {
            uint32_t tensor = g->args[n->arg_begin + k], at = *count;
            if (g->tensors[tensor].kind != TENSOR_ACTIVATION) continue;
            while (at > 0 && tensors[at - 1] > tensor) at--;
            if (at > 0 && tensors[at - 1] == tensor) continue;
            memmove(tensors + at + 1, tensors + at, (*count - at) * sizeof *tensors);
            tensors[at] = tensor;
            ++*count;
        }
    }
}

/* What the stage takes and gives in each pass, into lists of room for every tensor. */
static void crossings_find(struct sim_device *d, const struct graph *g, const struct plan_stage *stage,
                           uint32_t *const lists[8])
{
    uint32_t front_forward_count = 0, front_backward_count = 0, behind_forward_count, behind_backward_count;
    if (stage->first_layer > 0)
        (void)graph_cut(g, stage->first_layer - 1, lists[0], &front_forward_count, lists[1], &front_backward_count);
    (void)graph_cut(g, stage->last_layer, lists[2], &behind_forward_count, lists[3], &behind_backward_count);
    heads_add(g, stage, lists[2], &behind_forward_count);
    d->take_forward.tensors = lists[4];
    d->take_backward.tensors = lists[5];
    d->give_forward.tensors = lists[6];
    d->give_backward.tensors = lists[7];
    crossing_fill(&d->take_forward, g, lists[0], front_forward_count, NULL, 0);
    crossing_fill(&d->take_backward, g, lists[3], behind_backward_count, NULL, 0);
    crossing_fill(&d->give_forward, g, lists[2], behind_forward_count, lists[0], front_forward_count);
    crossing_fill(&d->give_backward, g, lists[1], front_backward_count, lists[3], behind_backward_count);
}

static void crossing_layout(struct crossing *crossing, struct layout *l)
{
    uint32_t *tensors;
    LAYOUT_TAKE(l, tensors, crossing->count);
    uint8_t *memory = layout_take(l, crossing->bytes, 1);
    if (!l->arena) return;
    memcpy(tensors, crossing->tensors, crossing->count * sizeof *tensors);
    crossing->tensors = tensors;
    crossing->memory = memory;
}
static void device_layout(struct sim_device *d, struct layout *l)
{
    crossing_layout(&d->take_forward, l);
    crossing_layout(&d->take_backward, l);
    crossing_layout(&d->give_forward, l);
    crossing_layout(&d->give_backward, l);
}

static status crossings_open(struct sim_device *d, const struct graph *g, const struct plan_stage *stage)
{
    size_t room = (size_t)g->tensor_count + 2;
    uint32_t *memory = calloc(8 * room, sizeof *memory), *lists[8];
    if (memory == NULL) FAIL(MEMORY, "no memory for the tensors of a stage");
    for (uint32_t i = 0; i < 8; i++) lists[i] = memory + i * room;
    crossings_find(d, g, stage, lists);
    struct layout sum = {0}, taken = {.arena = &d->arena};
    device_layout(d, &sum);
    status st = arena_open(&d->arena, "sim devices", sum.bytes);
    if (st == ST_OK) device_layout(d, &taken);
    free(memory);
    return st;
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
    TRY_GOTO(crossings_open(d, graph, &plan->stages[stage]), fail);
    *out = &d->device;
    return ST_OK;
fail:
    sim_close(&d->device);
    return st;
}

struct sim_moved sim_device_moved(const struct device *device) { return ((const struct sim_device *)device)->moved; }
