/* The sim device: all that a task costs a core is copying. */
#include "engine/device/sim/sim_device.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/device/sim/pace.h"
#include "graph/crossing.h"
#include "graph/cut.h"

struct sim_device {
    struct device device; /* first: a struct device * is a struct sim_device * */
    const struct graph *graph;
    struct pace pace;
    struct crossing crossing;
    /* What is copied out of the slot goes to `taken`; what is written into the slot comes from `zeros`. */
    uint8_t *taken, *zeros;
    size_t taken_bytes, zeros_bytes; /* of the longest list */
    struct sim_moved moved;
    struct arena arena;
};

/* --- bytes ------------------------------------------------------------------------------------ */

/* Copies the keys of a sparse field, ids_max an example; zeros follow where an example has fewer. */
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

/* --- the device ------------------------------------------------------------------------------- */

static status sim_submit(struct device *device, const struct op_context *c, const struct graph_node *nodes,
                         uint32_t count)
{
    struct sim_device *d = (struct sim_device *)device;
    CHECK(c->graph == d->graph);
    if (c->batch->example_count == 0 || count == 0) return ST_OK;
    bool is_forward = nodes->pass == PASS_FORWARD;
    const uint64_t begin_ns = pace_begin_ns(&d->pace);
    uint64_t moved_bytes = list_take(d, c, is_forward ? CROSSING_FRONT : CROSSING_BEHIND);
    if (c->training) *(is_forward ? &d->moved.forward_bytes : &d->moved.backward_bytes) += moved_bytes;
    list_give(d, c, is_forward ? CROSSING_FORWARD_OUT : CROSSING_BACKWARD_BEGUN);
    if (is_forward) list_give(d, c, CROSSING_HEADS);
    pace_end(&d->pace, begin_ns + pace_pass_ns(&d->pace, c, (enum graph_pass)nodes->pass, count));
    return ST_OK;
}

/* Zeroes the sums that stages on other devices have added for a table whose first look-up is here, as an
 * update must; the stage itself adds none. */
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

/* Raises *longest to the bytes of the list in a whole micro-batch, if these are more. */
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

status sim_device_open(struct device **out, const struct graph *graph, const struct plan *plan, uint32_t stage)
{
    status st;
    *out = NULL;
    struct sim_device *d = calloc(1, sizeof *d);
    if (d == NULL) FAIL(MEMORY, "no memory to describe a sim device");
    d->device.vt = &sim_vt;
    d->graph = graph;
    TRY_GOTO(pace_open(&d->pace, graph, plan, stage), fail);
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

static status kind_open(struct device **device, struct device_stage *s, const struct device_stage_options *o,
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
    .open = kind_open,
};
