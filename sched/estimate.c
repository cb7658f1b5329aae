/* Times from declared rates, for layers of a layer table or of a graph. Once a start. */
#include "sched/estimate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cfg/settings.h"
#include "engine/base/file.h"
#include "graph/cut.h"
#include "graph/op.h"
#include "sched/json_read.h"

/* Backward costs twice forward. */
#define PASSES          3.0

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* --- keys ------------------------------------------------------------------------------------- */

struct layer_keys {
#define LAYER_KEY(key, type, fallback, min, max, unit, meaning) CFG_CTYPE_##type key;
#include "sched/cluster.def"
};
static const struct cfg_key layer_keys[] = {
#define LAYER_KEY(KEY, TYPE, FALLBACK, MIN, MAX, UNIT, MEANING)                                                        \
    {.name = #KEY,                                                                                                     \
     .type = CFG_##TYPE,                                                                                               \
     .fallback = FALLBACK,                                                                                             \
     .min = MIN,                                                                                                       \
     .max = MAX,                                                                                                       \
     .unit = UNIT,                                                                                                     \
     .meaning = MEANING,                                                                                               \
     .offset = offsetof(struct layer_keys, KEY)},
#include "sched/cluster.def"
};
struct model_keys {
    const char *name;
};
static const struct cfg_key model_keys[] = {
    {.name = "name",
     .type = CFG_TEXT,
     .fallback = "model",
     .unit = "",
     .meaning = "name of the model, for people",
     .offset = offsetof(struct model_keys, name)},
};

const char *const layer_table_kinds[] = {"model", "layer", NULL};

const struct cfg_key *layer_table_keys(const char *kind, size_t *key_count)
{
    bool is_model = strcmp(kind, "model") == 0, is_layer = strcmp(kind, "layer") == 0;
    *key_count = is_model ? COUNT_OF(model_keys) : is_layer ? COUNT_OF(layer_keys) : 0;
    return is_model ? model_keys : is_layer ? layer_keys : NULL;
}

/* --- layer tables ----------------------------------------------------------------------------- */

static status layer_read(const struct ini *ini, const struct ini_section *section, struct layer_facts *layer)
{
    struct layer_keys keys;
    if (section->name[0] == 0 || !json_is_plain(section->name))
        return ini_fail(ini, section, NULL, "expected [layer NAME] with a name in UTF-8");
    TRY(cfg_read(ini, section, layer_keys, COUNT_OF(layer_keys), &keys));
    if (keys.type[0] == 0 || strlen(keys.type) > INSTANCE_NAME_BYTES || !json_is_plain(keys.type))
        return ini_fail(ini, section, ini_entry_find(section, "type"), "expected 1 to %u bytes in UTF-8",
                        INSTANCE_NAME_BYTES);
    *layer = (struct layer_facts){
        .name = section->name,
        .kind = keys.type,
        .in_bytes = keys.in_bytes,
        .out_bytes = keys.out_bytes,
        .cut_bytes = ini_entry_find(section, "cut_bytes") ? keys.cut_bytes : 2 * keys.out_bytes,
        .touched_bytes = keys.touched_bytes,
        .row_bytes = keys.touched_bytes,
        .weight_bytes = keys.weight_bytes,
        .dense_bytes = keys.touched_bytes > 0 ? 0 : keys.weight_bytes,
        .flops = keys.flops,
    };
    return ST_OK;
}

/* Counts the layers, and checks that the kind of every section exists. */
static status sections_check(struct layer_table *table)
{
    const struct ini *ini = &table->ini;
    for (uint32_t i = 0; i < ini->section_count; i++) {
        const struct ini_section *section = &ini->sections[i];
        if (strcmp(section->kind, "layer") == 0) {
            if (++table->layer_count > INSTANCE_LAYERS_MAX)
                return ini_fail(ini, section, NULL, "expected at most %u layers, found another", INSTANCE_LAYERS_MAX);
        } else if (strcmp(section->kind, "model") != 0) {
            return ini_fail(ini, section, NULL, "no such section; expected [model] or [layer NAME]");
        } else if (section->name[0]) {
            return ini_fail(ini, section, NULL, "expected [model] without a name");
        }
    }
    if (table->layer_count == 0) return ini_fail(ini, NULL, NULL, "expected at least one [layer NAME], found none");
    return ST_OK;
}

static status layers_make(struct layer_table *table, const char *path)
{
    table->memory = table->layers = calloc(table->layer_count, sizeof *table->layers);
    if (table->layers == NULL) FAIL(MEMORY, "%s: no memory for %u layers", path, table->layer_count);
    return ST_OK;
}

static status sections_read(struct layer_table *table)
{
    const struct ini *ini = &table->ini;
    struct model_keys model;
    uint32_t l = 0;
    TRY(sections_check(table));
    TRY(layers_make(table, ini->path));
    TRY(cfg_read(ini, ini_find(ini, "model", ""), model_keys, COUNT_OF(model_keys), &model));
    table->name = model.name;
    for (uint32_t i = 0; i < ini->section_count; i++)
        if (strcmp(ini->sections[i].kind, "layer") == 0) TRY(layer_read(ini, &ini->sections[i], &table->layers[l++]));
    return ST_OK;
}

status layer_table_parse(struct layer_table *table, const char *path, const char *text, size_t bytes)
{
    *table = (struct layer_table){0};
    TRY(ini_parse(&table->ini, path, text, bytes));
    status st = sections_read(table);
    if (st != ST_OK) layer_table_free(table);
    return st;
}

status layer_table_read(struct layer_table *table, const char *path)
{
    struct file_map map;
    *table = (struct layer_table){0};
    TRY(file_map_read(&map, path));
    status st = layer_table_parse(table, path, (const char *)map.data, map.bytes);
    file_map_close(&map);
    return st;
}

void layer_table_free(struct layer_table *table)
{
    free(table->memory);
    ini_free(&table->ini);
    *table = (struct layer_table){0};
}

/* --- graphs ----------------------------------------------------------------------------------- */

/* Operations of an example in the node's forward pass; cols: scratch of two for each of its inputs. */
static uint64_t node_flops(const struct graph *g, const struct graph_node *n, uint32_t *cols)
{
    uint32_t *keys = cols + n->input_count;
    for (uint32_t i = 0; i < n->input_count; i++)
        op_input_measure(&g->tensors[g->args[n->arg_begin + i]], g->fields, &cols[i], &keys[i]);
    struct op_shape shape = {.attr = n->attr,
                             .input_count = n->input_count,
                             .input_cols = cols,
                             .input_keys = keys,
                             .program = g->args + n->program_begin,
                             .program_count = n->program_count};
    CHECK(op_table[n->op].shape(&shape, g->tables, g->table_count) == ST_OK);
    return shape.flops_forward;
}

/* The most keys of an example that the node looks up, in *table; 0: it looks none up. */
static double keys_of(const struct graph *g, const struct graph_node *n, uint32_t *table)
{
    double keys = 0;
    if (!(op_table[n->op].traits & OP_LOOKS_UP)) return 0;
    *table = ((const struct embed_bag_attr *)n->attr)->table;
    for (uint32_t i = 0; i < n->input_count; i++) keys += g->fields[g->tensors[g->args[n->arg_begin + i]].cols].ids_max;
    return keys;
}

/* Bytes of a row between nodes: the key, the vector and its gradient. */
static double row_bytes(const struct graph_table *table) { return 8 + 2 * table->dim * (double)sizeof(float); }

/* Adds the bytes of the rows that an example looks up: read and written; and sent between nodes. */
static void rows_add(const struct graph *g, const struct graph_node *n, struct layer_facts *layer)
{
    uint32_t table;
    const double keys = keys_of(g, n, &table);
    if (keys == 0) return;
    layer->touched_bytes += 2 * keys * g->tables[table].span_floats * sizeof(float);
    layer->row_bytes += keys * row_bytes(&g->tables[table]);
}

void layer_table_rows(struct layer_table *layers, const struct graph *g, const double *rows)
{
    for (uint32_t l = 0; l < g->layer_count; l++) layers->layers[l].row_bytes = 0;
    for (uint32_t t = 0; t < g->table_count; t++) {
        double all = 0;
        uint32_t table;
        for (uint32_t i = 0; i < g->forward_count; i++) {
            const double keys = keys_of(g, &g->nodes[i], &table);
            if (keys > 0 && table == t) all += keys;
        }
        for (uint32_t i = 0; i < g->forward_count; i++) {
            const double keys = keys_of(g, &g->nodes[i], &table);
            if (keys > 0 && table == t)
                layers->layers[g->nodes[i].layer].row_bytes += keys / all * rows[t] * row_bytes(&g->tables[t]);
        }
    }
}

status layer_table_of_graph(struct layer_table *table, const struct graph *graph)
{
    *table = (struct layer_table){.name = graph_string(graph, graph->header->name), .layer_count = graph->layer_count};
    uint32_t *cols = calloc(2 * (size_t)graph->arg_count + 1, sizeof *cols);
    uint64_t *flops_most = calloc(graph->layer_count, sizeof *flops_most);
    uint32_t *ties = calloc(2 * (size_t)graph->layer_count, sizeof *ties); /* first, last */
    status st = layers_make(table, table->name);
    if (st == ST_OK && (cols == NULL || flops_most == NULL || ties == NULL))
        st = status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for %u layers", graph->layer_count);
    if (st == ST_OK) graph_ties(graph, ties, ties + graph->layer_count);
    for (uint32_t i = 0; i < graph->forward_count && st == ST_OK; i++) {
        const struct graph_node *n = &graph->nodes[i];
        struct layer_facts *layer = &table->layers[n->layer];
        uint64_t flops = node_flops(graph, n, cols);
        if (layer->kind == NULL || flops > flops_most[n->layer]) {
            layer->kind = op_table[n->op].section;
            flops_most[n->layer] = flops;
        }
        rows_add(graph, n, layer);
        layer->is_end |= op_is_head(n->op);
    }
    for (uint32_t l = 0; l < graph->layer_count && st == ST_OK; l++) {
        const struct graph_layer *from = &graph->layers[l];
        struct layer_facts *layer = &table->layers[l];
        struct cut cut;
        st = graph_cut(graph, l, &cut, NULL, NULL, NULL, NULL);
        if (st != ST_OK) break;
        layer->name = graph_string(graph, from->name);
        layer->in_bytes = (double)from->input_bytes;
        layer->out_bytes = (double)from->output_bytes;
        layer->cut_bytes =
            (double)(cut.forward_bytes + cut.backward_bytes) + (double)cut.micro_bytes / graph->header->micro;
        layer->weight_bytes = layer->dense_bytes = (double)from->param_count * sizeof(float);
        layer->flops = (double)from->flops_forward;
        layer->tied_before = l - ties[l];
        layer->tied_behind = ties[graph->layer_count + l] - l;
    }
    free(ties);
    free(cols);
    free(flops_most);
    if (st != ST_OK) layer_table_free(table);
    return st;
}

/* --- times ------------------------------------------------------------------------------------ */

struct instance_time estimate_time(const struct layer_facts *layer, const struct cluster_rates *rates, double batch)
{
    double compute = PASSES * layer->flops * batch / rates->flops;
    double moved = (2 * (layer->in_bytes + layer->out_bytes) + layer->touched_bytes) * batch;
    double fixed = rates->batch_overhead + 2 * layer->dense_bytes / rates->link_bandwidth;
    double oct = fixed + fmax(compute, moved / rates->memory_bandwidth);
    return (struct instance_time){
        .oct = fmax(oct, RESOURCE_FIGURE_MIN),
        .alpha = rates->alpha,
        .odt = layer->cut_bytes * batch / rates->link_bandwidth,
        .beta = rates->beta,
        .fixed = fixed,
    };
}

/* Checks that every type has rates, and the goal a number of examples. */
static status rates_check(const struct cluster *cluster)
{
    for (uint32_t t = 0; t < cluster->type_count; t++) {
        const struct cluster_type *type = &cluster->types[t];
        if (!type->has_rates)
            FAIL(INVALID,
                 "%s:%u: [type %s]: expected the declared rates flops, memory_bandwidth and link_bandwidth, found none",
                 cluster->path, type->line, type->resource.name);
    }
    if (!(cluster->examples >= RESOURCE_FIGURE_MIN))
        FAIL(INVALID, "%s: [goal] examples: expected how many an epoch has, found none", cluster->path);
    return ST_OK;
}

static void instance_fill(struct instance *instance, const struct layer_table *table, const struct cluster *cluster,
                          double batch)
{
    instance->name = instance_text(instance, table->name);
    instance->batch = batch;
    instance->examples = cluster->examples;
    instance->epochs = cluster->epochs;
    instance->throughput_limit = isinf(cluster->throughput) ? 0 : cluster->throughput;
    instance->service_cores = cluster->service_cores;
    for (uint32_t t = 0; t < cluster->type_count; t++) {
        instance->types[t].resource = cluster->types[t].resource;
        instance->types[t].resource.name = instance_text(instance, cluster->types[t].resource.name);
        instance->types[t].source = INSTANCE_DECLARED;
    }
    for (uint32_t l = 0; l < table->layer_count; l++) {
        const struct layer_facts *from = &table->layers[l];
        struct instance_layer *layer = &instance->layers[l];
        layer->name = instance_text(instance, from->name);
        layer->kind = instance_text(instance, from->kind);
        layer->in_bytes = from->in_bytes;
        layer->weight_bytes = from->weight_bytes;
        layer->dense_bytes = from->dense_bytes;
        layer->row_bytes = from->row_bytes;
        layer->cut_bytes = from->cut_bytes;
        layer->tied_before = from->tied_before;
        layer->tied_behind = from->tied_behind;
        layer->is_end = from->is_end;
        for (uint32_t t = 0; t < cluster->type_count; t++)
            instance->times[(size_t)l * cluster->type_count + t] = estimate_time(from, &cluster->types[t].rates, batch);
    }
}

status estimate(struct instance *instance, const struct layer_table *table, const struct cluster *cluster, double batch)
{
    *instance = (struct instance){0};
    TRY(rates_check(cluster));
    TRY(instance_make(instance, table->layer_count, cluster->type_count));
    instance_fill(instance, table, cluster, batch);
    status st = instance_check(instance);
    if (st != ST_OK) instance_free(instance);
    return st;
}
