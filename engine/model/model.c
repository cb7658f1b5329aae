/* A model's memory and initial values. Opened once a run; the dense part's arrays are listed once a
 * checkpoint.
 *
 *   param   | h1.weight | h1.bias | h2.weight | …       at the tensors' offsets
 *   state   | update 0: state 0 of all its floats | state 1 of all | update 1: … */
#include "engine/model/model.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/random.h"
#include "graph/op.h"
#include "graph/row_vector.h"
#include "io/safetensors.h"
#include "io/store/filed.h"
#include "io/store/store.h"

#define PART_PARAM "parameters"
#define PART_STATE "optimizer state"

static uint32_t state_count(const struct graph *g, const struct graph_update *u)
{
    return optimizer_table[g->optimizers[u->optimizer].kind].state_count;
}

/* --- opening ---------------------------------------------------------------------------------- */

/* Gives every dense update its part of the state. */
static status state_place(struct model *model)
{
    const struct graph *g = model->graph;
    uint64_t offset = 0;
    model->state_offset = calloc((size_t)g->update_count + 1, sizeof *model->state_offset);
    if (model->state_offset == NULL) FAIL(MEMORY, "no memory for %u updates", g->update_count);
    for (uint32_t i = 0; i < g->update_count; i++) {
        const struct graph_update *u = &g->updates[i];
        model->state_offset[i] = offset;
        if (u->table != GRAPH_NONE) continue;
        uint64_t floats;
        if (u->param_count > g->header->param_floats || u->param_offset > g->header->param_floats - u->param_count ||
            __builtin_mul_overflow(u->param_count, (uint64_t)state_count(g, u), &floats) ||
            floats > g->header->state_floats - offset)
            FAIL(INVALID,
                 "the graph's update %u of %" PRIu64 " floats does not lie within its %" PRIu64
                 " parameters and %" PRIu64 " floats of optimizer state",
                 i, u->param_count, g->header->param_floats, g->header->state_floats);
        offset += floats;
    }
    return ST_OK;
}

static status floats_take(const char *part, uint64_t count, float **floats)
{
    void *block;
    if (count > SIZE_MAX / 8) FAIL(MEMORY, "%s: %" PRIu64 " floats are more than any machine has", part, count);
    TRY(memory_take(part, (size_t)count * sizeof(float), &block));
    *floats = block;
    return ST_OK;
}

/* Element e, counted without padding, is value e % 4 of item e / 4 (random.h). */
static void param_init(const struct model *model, const struct graph_tensor *tensor, uint32_t param_index)
{
    struct random_stream stream = random_stream(model->graph->header->seed, RANDOM_PARAM, param_index);
    float *weight = model->param + tensor->offset;
    uint64_t count = (uint64_t)tensor->rows * tensor->cols;
    if (tensor->init == INIT_ZEROS) return; /* the memory is zero already */
    for (uint64_t e = 0; e < count; e += 4) {
        float four[4] = {tensor->init_scale, tensor->init_scale, tensor->init_scale, tensor->init_scale};
        if (tensor->init != TENSOR_INIT_CONSTANT) random_fill(four, 4, tensor->init, tensor->init_scale, stream, e / 4);
        for (uint64_t i = e; i < e + 4 && i < count; i++)
            weight[i / tensor->cols * tensor->stride + i % tensor->cols] = four[i - e];
    }
}

void model_init(struct model *model)
{
    const struct graph *g = model->graph;
    uint32_t param_index = 0;
    for (uint32_t i = 0; i < g->tensor_count; i++)
        if (g->tensors[i].kind == TENSOR_PARAM && !g->tensors[i].is_alias)
            param_init(model, &g->tensors[i], param_index++);
    for (uint32_t i = 0; i < g->update_count; i++) {
        const struct graph_update *u = &g->updates[i];
        if (u->table != GRAPH_NONE) continue;
        const struct graph_optimizer *o = &g->optimizers[u->optimizer];
        float *state = model->state + model->state_offset[i];
        for (uint32_t s = 0; s < state_count(g, u); s++) {
            float first = optimizer_table[o->kind].state_init(o, s);
            for (uint64_t k = 0; k < u->param_count; k++) *state++ = first;
        }
    }
}

void model_row_init(void *context, uint32_t table, uint64_t key, float *span)
{
    const struct model *model = context;
    const struct graph *g = model->graph;
    const struct graph_table *declared = &g->tables[table];
    const struct graph_optimizer *o = &g->optimizers[declared->optimizer];
    row_vector_begin(declared, span, declared->life.vector_score > 0 ? 1 : declared->dim,
                     random_stream(g->header->seed, RANDOM_ROW, table), key);
    if (model->looks_up) return;
    float *state = span + row_vector_floats(declared);
    const struct optimizer *rule = &optimizer_table[o->kind];
    for (uint32_t s = 0; s < rule->state_count; s++) {
        float first = rule->state_init(o, s);
        for (uint32_t k = 0; k < declared->dim; k++) *state++ = first;
    }
    for (uint32_t s = 0; s < rule->row_state_count; s++) *state++ = rule->state_init(o, rule->state_count + s);
    /* The counter of updates, if there is one, starts at 0, which the span has already. */
    if (declared->life.counts)
        row_counters_begin(span + graph_table_rule_floats(declared), !(declared->life.vector_score > 0));
}

/* The store's own bytes for rows in RAM of a table whose rows are in files. */
#define FILED_SPARE_BYTES ((uint64_t)64 << 10)

/* Rows stay in files: divides the RAM between the tables' indices and copies of rows. */
static status files_plan(const struct model *model, const struct model_budget *budget, struct store_options *options,
                         struct store_table_options *tables)
{
    const struct graph *g = model->graph;
    uint64_t least = 0, most = 0;
    struct home_table_options *homes = calloc((size_t)g->table_count + 1, sizeof *homes);
    if (homes == NULL) FAIL(MEMORY, "no memory to describe %u tables", g->table_count);
    for (uint32_t t = 0; t < g->table_count; t++) {
        homes[t].span_floats = model_row_floats(model, t);
        least += filed_table_least(budget->rows[t]);
        most += filed_table_most(budget->rows[t], model_row_floats(model, t));
    }
    const struct home_options home = {.table_count = g->table_count,
                                      .table = homes,
                                      .fetch_max =
                                          options->batch.micro * options->example.key_count_max * g->table_count,
                                      .io_threads = options->io_threads};
    const uint64_t other = filed_fixed_bytes(&home) + g->table_count * FILED_SPARE_BYTES;
    free(homes);
    if (budget->ram_bytes < least + other)
        FAIL(MEMORY,
             "rows that stay in the files of their save need %" PRIu64 " bytes of RAM for their index, and %" PRIu64
             " for reads; store.ram is %" PRIu64 " bytes",
             least, other, budget->ram_bytes);
    const double part =
        fmin(1, (double)(budget->ram_bytes - least - other) / (double)(most > least ? most - least : 1));
    for (uint32_t t = 0; t < g->table_count; t++) {
        const uint64_t own = filed_table_least(budget->rows[t]),
                       kept = filed_table_most(budget->rows[t], model_row_floats(model, t)) - own;
        tables[t].rows = budget->rows[t];
        tables[t].ram_bytes = 0;
        tables[t].disk_bytes = own + (uint64_t)((double)kept * part);
        options->disk_bytes += tables[t].disk_bytes;
    }
    options->home = &filed_home;
    options->looks_up = true;
    return ST_OK;
}

/* Tickets in flight: those of two steps, as a step's rows are pinned until the next
 * step is done, and some read ahead. */
static uint32_t ticket_max_of(const struct graph *g) { return 2 * batch_micro_count(graph_batch(g)) + 17; }

static status tables_open(struct model *model, const struct model_budget *budget)
{
    const struct graph *g = model->graph;
    status st = ST_OK;
    struct store_table_options *tables = calloc((size_t)g->table_count + 1, sizeof *tables);
    uint8_t *serves = calloc((size_t)g->table_count * g->field_count + 1, 1);
    if (tables == NULL || serves == NULL)
        st = status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory to describe %u tables", g->table_count);
    for (uint32_t t = 0; t < g->table_count && st == ST_OK; t++) {
        uint8_t *serves_t = serves + (size_t)t * g->field_count;
        graph_table_serves(g, t, serves_t);
        tables[t] = (struct store_table_options){.name = graph_string(g, g->tables[t].name),
                                                 .span_floats = model_row_floats(model, t),
                                                 .serves = serves_t,
                                                 .share = g->tables[t].field_count,
                                                 .row_init = model_row_init,
                                                 .context = model};
        if (budget->table) {
            tables[t].ram_bytes = budget->table[t].ram_bytes;
            tables[t].disk_bytes = budget->table[t].disk_bytes;
            tables[t].unseen_is_zeros = budget->table[t].unseen_is_zeros;
        }
        if (budget->lives) tables[t].life = g->tables[t].life;
    }
    struct store_options options = {.ram_bytes = budget->ram_bytes,
                                    .disk_bytes = g->table_count ? budget->disk_bytes : 0,
                                    .path = budget->path,
                                    .io_threads = budget->io_threads,
                                    .ticket_max = ticket_max_of(g),
                                    .table_count = g->table_count,
                                    .table = tables,
                                    .batch = graph_batch(g),
                                    .example = graph_example(g)};
    if (st == ST_OK && budget->rows) st = files_plan(model, budget, &options, tables);
    if (st == ST_OK) st = store_open(&model->store, &options);
    free(serves);
    free(tables);
    return st;
}

static status open_parts(struct model *model, const struct model_budget *budget)
{
    const struct graph_header *h = model->graph->header;
    TRY(state_place(model));
    TRY(floats_take(PART_PARAM, h->param_floats, &model->param));
    TRY(floats_take(PART_STATE, h->state_floats, &model->state));
    return tables_open(model, budget);
}

status model_open(struct model *model, const struct graph *graph, const struct model_budget *budget)
{
    *model = (struct model){.graph = graph, .looks_up = budget->looks_up || budget->rows};
    status st = open_parts(model, budget);
    if (st != ST_OK) model_close(model);
    return st;
}

void model_close(struct model *model)
{
    if (model->graph == NULL) return;
    if (model->store != NULL) store_close(model->store);
    if (model->param != NULL) memory_give(PART_PARAM, model->param, model->graph->header->param_floats * sizeof(float));
    if (model->state != NULL) memory_give(PART_STATE, model->state, model->graph->header->state_floats * sizeof(float));
    free(model->state_offset);
    model_data_close(&model->data);
    *model = (struct model){0};
}

/* --- the dense part as arrays ----------------------------------------------------------------- */

static status arrays_add(struct model_arrays *arrays, const struct model *model, const struct graph_tensor *tensor,
                         bool with_state)
{
    const struct graph *g = model->graph;
    const char *name = graph_string(g, tensor->name);
    const struct graph_update *u = &g->updates[tensor->update];
    uint32_t count = 1 + (with_state ? state_count(g, u) : 0);
    struct model_array *items = realloc(arrays->items, (arrays->count + count) * sizeof *items);
    if (items == NULL) FAIL(MEMORY, "no memory to list the parameters");
    arrays->items = items;
    for (uint32_t i = 0; i < count; i++) {
        struct model_array *a = &items[arrays->count];
        *a = (struct model_array){.rows = tensor->rows, .cols = tensor->cols, .stride = tensor->stride};
        if (i == 0) {
            a->data = model->param + tensor->offset;
            a->name = strdup(name);
        } else {
            a->data = model->state + model->state_offset[tensor->update] + (i - 1) * u->param_count +
                      (tensor->offset - u->param_offset);
            if (asprintf(&a->name, "%s.state%u", name, i - 1) < 0) a->name = NULL;
        }
        if (a->name == NULL) FAIL(MEMORY, "no memory to list the parameters");
        arrays->count++;
    }
    return ST_OK;
}

status model_arrays_list(struct model_arrays *arrays, const struct model *model, bool with_state)
{
    const struct graph *g = model->graph;
    status st = ST_OK;
    *arrays = (struct model_arrays){0};
    for (uint32_t i = 0; i < g->tensor_count && st == ST_OK; i++)
        if (g->tensors[i].kind == TENSOR_PARAM && !g->tensors[i].is_alias)
            st = arrays_add(arrays, model, &g->tensors[i], with_state);
    if (st != ST_OK) model_arrays_free(arrays);
    return st;
}

void model_arrays_free(struct model_arrays *arrays)
{
    for (uint32_t i = 0; i < arrays->count; i++) free(arrays->items[i].name);
    free(arrays->items);
    *arrays = (struct model_arrays){0};
}

status model_array_put(const struct model_array *a, struct file_writer *writer)
{
    for (uint32_t row = 0; row < a->rows; row++)
        TRY(file_writer_put(writer, a->data + (size_t)row * a->stride, a->cols * sizeof(float)));
    return ST_OK;
}

static status arrays_put(const struct model_arrays *arrays, struct file_writer *writer,
                         struct safetensors_tensor *tensors)
{
    uint64_t file_bytes;
    for (uint32_t i = 0; i < arrays->count; i++) {
        const struct model_array *a = &arrays->items[i];
        tensors[i] = (struct safetensors_tensor){
            .name = a->name, .type = SAFETENSORS_F32, .rank = 2, .shape = {a->rows, a->cols}};
    }
    TRY(safetensors_header_put(writer, tensors, arrays->count, &file_bytes));
    for (uint32_t i = 0; i < arrays->count; i++) TRY(model_array_put(&arrays->items[i], writer));
    CHECK(writer->written_bytes == file_bytes);
    return ST_OK;
}

status model_arrays_put(const struct model_arrays *arrays, struct file_writer *writer)
{
    struct safetensors_tensor *tensors = calloc((size_t)arrays->count + 1, sizeof *tensors);
    if (tensors == NULL) FAIL(MEMORY, "%s: no memory to describe %u arrays", writer->path, arrays->count);
    status st = arrays_put(arrays, writer, tensors);
    free(tensors);
    return st;
}
