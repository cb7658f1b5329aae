/* Reads plans, once a start. Anybody may have written the file, so every value is checked, and a wrong one is
 * named by its place. Unknown keys are the scheduler's figures and pass. */
#include "sched/plan.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/words.h"
#include "sched/json_read.h"

#define ELLIPSIS "…"

static const char *layer_name(const struct graph *graph, uint32_t layer)
{
    return graph_string(graph, graph->layers[layer].name);
}

/* --- which graph a plan is for ---------------------------------------------------------------- */

static status layers_check(const struct json_part *whole, const struct graph *graph, const json_t *list)
{
    size_t count = json_array_size(list);
    if (!json_is_array(list)) return json_part_wrong(whole, "layers", list, "a list of names");
    for (uint32_t l = 0; l < count && l < graph->layer_count; l++) {
        char key[32];
        const json_t *value = json_array_get(list, l);
        snprintf(key, sizeof key, "layers[%u]", l);
        if (!json_is_string(value) || strcmp(json_string_value(value), layer_name(graph, l)) != 0)
            return json_part_wrong(whole, key, value, "\"%.200s\", the graph's layer", layer_name(graph, l));
    }
    if (count < graph->layer_count)
        return json_part_wrong(whole, "layers", list,
                               "%u names, as the graph has layers (\"%.200s\" is the first that is missing)",
                               graph->layer_count, layer_name(graph, (uint32_t)count));
    if (count > graph->layer_count)
        return json_part_wrong(whole, "layers", list, "%u names, as the graph has layers (up to \"%.200s\")",
                               graph->layer_count, layer_name(graph, graph->layer_count - 1));
    return ST_OK;
}

static status graph_check(struct plan *plan, const struct json_part *whole, const struct graph *graph)
{
    const json_t *layers = json_object_get(whole->object, "layers");
    TRY(json_part_hash(whole, "graph_hash", &plan->has_graph_hash, &plan->graph_hash));
    if (layers != NULL) return layers_check(whole, graph, layers);
    if (plan->has_graph_hash && plan->graph_hash != graph->header->model_hash)
        FAIL(MISMATCH,
             "%s: graph_hash: expected %016" PRIx64 ", this graph's, found %016" PRIx64
             ": the plan is for another graph, and without \"layers\" nothing says that it fits this one",
             whole->path, graph->header->model_hash, plan->graph_hash);
    return ST_OK;
}

/* --- types and stages ------------------------------------------------------------------------- */

static status types_read(struct plan *plan, const struct json_part *whole, json_t *list,
                         char (*cells)[RESOURCE_NAME_BYTES + 1])
{
    for (uint32_t t = 0; t < plan->type_count; t++) {
        struct resource_type *type = &plan->types[t];
        struct json_part part;
        TRY(json_part_item(whole, "types", list, t, &part));
        const json_t *name = json_object_get(part.object, "name"), *device = json_object_get(part.object, "device");
        TRY(json_part_text(&part, "name", JSON_REQUIRED, RESOURCE_NAME_BYTES, cells[t]));
        type->name = cells[t];
        for (uint32_t other = 0; other < t; other++)
            if (strcmp(plan->types[other].name, type->name) == 0)
                return json_part_wrong(&part, "name", name, "another name than that of types[%u]", other);
        if (!json_is_string(device) || !resource_device_parse(json_string_value(device), type))
            return json_part_wrong(&part, "device", device, "%s", RESOURCE_DEVICES_TEXT);
        TRY(json_part_real(&part, "price_per_hour", JSON_OPTIONAL, 0, RESOURCE_FIGURE_MAX, &type->price_per_hour));
        TRY(json_part_u32(&part, "limit", JSON_OPTIONAL, 1, UINT32_MAX, &type->limit));
        TRY(json_part_slow(&part, &type->slow));
    }
    return ST_OK;
}

/* Checks that the stage's layers begin at `next` and stay within the graph. */
static status stage_layers_read(struct plan_stage *stage, const struct json_part *part, const struct graph *graph,
                                uint32_t index, uint32_t next)
{
    uint32_t last_layer = graph->layer_count - 1;
    const json_t *first = json_object_get(part->object, "first"), *last = json_object_get(part->object, "last");
    TRY(json_part_u32(part, "first", JSON_REQUIRED, 0, GRAPH_COUNT_MAX, &stage->first_layer));
    TRY(json_part_u32(part, "last", JSON_REQUIRED, 0, GRAPH_COUNT_MAX, &stage->last_layer));
    if (next > last_layer)
        return json_part_wrong(part, "first", first,
                               "no further stage, as stages[%u] ends with the graph's last layer, %u (\"%.200s\")",
                               index - 1, last_layer, layer_name(graph, last_layer));
    if (index == 0 && stage->first_layer != 0)
        return json_part_wrong(part, "first", first, "0, the graph's first layer (\"%.200s\")", layer_name(graph, 0));
    if (stage->first_layer > next)
        return json_part_wrong(part, "first", first,
                               "%u: that layer (\"%.200s\") follows stages[%u], and would be in no stage", next,
                               layer_name(graph, next), index - 1);
    if (stage->first_layer < next)
        return json_part_wrong(part, "first", first, "%u (\"%.200s\"), as stages[%u] has the layers up to %u", next,
                               layer_name(graph, next), index - 1, next - 1);
    if (stage->last_layer < stage->first_layer || stage->last_layer > last_layer)
        return json_part_wrong(part, "last", last, "a layer from %u (\"%.200s\") to %u (\"%.200s\"), the graph's last",
                               stage->first_layer, layer_name(graph, stage->first_layer), last_layer,
                               layer_name(graph, last_layer));
    return ST_OK;
}

/* Whether several units take a micro-batch together. */
static bool is_in_gangs(const struct resource_type *type)
{
    return type->device == RESOURCE_CPU || resource_is_imitated(type->device);
}

static status stage_units_read(struct plan_stage *stage, const struct json_part *part, const struct plan *plan,
                               uint64_t *unit_counts)
{
    TRY(json_part_u32(part, "type", JSON_REQUIRED, 0, plan->type_count - 1, &stage->type));
    TRY(json_part_u32(part, "k", JSON_REQUIRED, 1, PLAN_UNITS_MAX, &stage->k));
    const struct resource_type *type = &plan->types[stage->type];
    const json_t *units = json_object_get(part->object, "k"), *replicas = json_object_get(part->object, "replicas");
    const uint64_t nodes = stage->nodes ? (uint64_t)__builtin_popcountll(stage->nodes) : 1;
    if (type->limit > 0 && stage->k * nodes > type->limit - unit_counts[stage->type])
        return json_part_wrong(
            part, "k", units, "at most %" PRIu64 "%s: the limit of \"%s\" is %u, of which earlier stages have %" PRIu64,
            (type->limit - unit_counts[stage->type]) / nodes, nodes > 1 ? " on each of its nodes" : "", type->name,
            type->limit, unit_counts[stage->type]);
    unit_counts[stage->type] += stage->k * nodes;

    stage->replicas = is_in_gangs(type) ? 1 : stage->k;
    TRY(json_part_u32(part, "replicas", JSON_OPTIONAL, 1, PLAN_REPLICAS_MAX, &stage->replicas));
    if (!is_in_gangs(type) && stage->replicas != stage->k)
        return json_part_wrong(part, "replicas", replicas, "none, or %u as k: on \"%s\" every unit is a replica",
                               stage->k, type->name);
    if (stage->k % stage->replicas != 0)
        return json_part_wrong(part, "replicas", replicas, "a divisor of k, %u", stage->k);
    return ST_OK;
}

/* All stages say where they lie, or none does: on a node, or on several. */
static status stage_nodes_read(struct plan_stage *stage, const struct json_part *part, struct plan *plan,
                               uint32_t index)
{
    const json_t *node = json_object_get(part->object, "node"), *nodes = json_object_get(part->object, "nodes");
    const char *key = nodes ? "nodes" : "node";
    if (index > 0 && (node || nodes) != (plan->node_count > 0))
        return json_part_wrong(part, key, nodes ? nodes : node,
                               plan->node_count ? "a node, as stages[0] has one" : "none, as stages[0] has none");
    TRY(json_part_nodes(part, PLAN_NODES_MAX, &stage->nodes));
    const uint32_t end = stage->nodes ? 64 - (uint32_t)__builtin_clzll(stage->nodes) : 0;
    if (end > plan->node_count) plan->node_count = end;
    return ST_OK;
}

/* Checks that every node has a stage. */
static status nodes_check(const struct plan *plan, const struct json_part *whole)
{
    uint64_t nodes = 0;
    for (uint32_t s = 0; s < plan->stage_count; s++) nodes |= plan->stages[s].nodes;
    for (uint32_t n = 0; n < plan->node_count; n++)
        if (!(nodes >> n & 1))
            FAIL(INVALID, "%s: stages[].node: expected a stage on each of the nodes 0 to %u, found none on node %u",
                 whole->path, plan->node_count - 1, n);
    return ST_OK;
}

static status stages_read(struct plan *plan, const struct json_part *whole, const struct graph *graph, json_t *list)
{
    uint64_t unit_counts[RESOURCE_TYPES_MAX] = {0};
    uint32_t next = 0;
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        struct plan_stage *stage = &plan->stages[s];
        struct json_part part;
        TRY(json_part_item(whole, "stages", list, s, &part));
        TRY(stage_layers_read(stage, &part, graph, s, next));
        TRY(stage_nodes_read(stage, &part, plan, s));
        TRY(stage_units_read(stage, &part, plan, unit_counts));
        TRY(json_part_real(&part, "et", JSON_OPTIONAL, 0, RESOURCE_FIGURE_MAX, &stage->et));
        TRY(json_part_real(&part, "sim_et", JSON_OPTIONAL, 0, RESOURCE_FIGURE_MAX, &stage->sim_et));
        TRY(json_part_u64(&part, "cut_bytes", JSON_OPTIONAL, 0, INT64_MAX, &stage->cut_bytes));
        next = stage->last_layer + 1;
    }
    if (next < graph->layer_count)
        FAIL(INVALID,
             "%s: stages[%u].last: expected %u (\"%s\"), the graph's last layer, in the last stage, found %u (\"%s\")",
             whole->path, plan->stage_count - 1, graph->layer_count - 1, layer_name(graph, graph->layer_count - 1),
             next - 1, layer_name(graph, next - 1));
    return nodes_check(plan, whole);
}

/* Checks that "plan", a type for each layer, agrees with the stages. */
static status layer_types_check(const struct plan *plan, const struct json_part *whole, const struct graph *graph)
{
    const json_t *list = json_object_get(whole->object, "plan");
    if (list == NULL) return ST_OK;
    if (!json_is_array(list) || json_array_size(list) != graph->layer_count)
        return json_part_wrong(whole, "plan", list, "a list of %u types, one for each layer of the graph",
                               graph->layer_count);
    for (uint32_t s = 0; s < plan->stage_count; s++)
        for (uint32_t l = plan->stages[s].first_layer; l <= plan->stages[s].last_layer; l++) {
            char key[32];
            uint64_t type;
            const json_t *value = json_array_get(list, l);
            if (json_is_natural(value, &type) && type == plan->stages[s].type) continue;
            snprintf(key, sizeof key, "plan[%u]", l);
            return json_part_wrong(whole, key, value, "%u, as stages[%u] says of layer \"%.200s\"",
                                   plan->stages[s].type, s, layer_name(graph, l));
        }
    return ST_OK;
}

/* --- the whole -------------------------------------------------------------------------------- */

/* Takes one block for types, stages, and a cell for each type's name and the method. */
static status plan_make(struct plan *plan, uint32_t type_count, uint32_t stage_count,
                        char (**cells)[RESOURCE_NAME_BYTES + 1])
{
    size_t types_bytes = type_count * sizeof *plan->types, stages_bytes = stage_count * sizeof *plan->stages;
    uint8_t *memory = calloc(1, types_bytes + stages_bytes + (type_count + (size_t)1) * sizeof **cells);
    if (memory == NULL) FAIL(MEMORY, "no memory for a plan of %u types and %u stages", type_count, stage_count);
    plan->memory = memory;
    plan->types = (struct resource_type *)memory;
    plan->stages = (struct plan_stage *)(memory + types_bytes);
    plan->type_count = type_count;
    plan->stage_count = stage_count;
    plan->method = "";
    plan->time_scale = 1;
    *cells = (char(*)[RESOURCE_NAME_BYTES + 1])(memory + types_bytes + stages_bytes);
    return ST_OK;
}
_Static_assert(sizeof(struct resource_type) % _Alignof(struct plan_stage) == 0, "stages stand behind types");

static status members_read(struct plan *plan, const struct json_part *whole, const struct graph *graph)
{
    const json_t *feasible = json_object_get(whole->object, "feasible");
    if (feasible != NULL && !json_is_true(feasible))
        return json_part_wrong(whole, "feasible", feasible, "true: a plan that misses its goal is not run");
    TRY(graph_check(plan, whole, graph));

    json_t *types, *stages;
    char(*cells)[RESOURCE_NAME_BYTES + 1] = NULL;
    if (json_object_get(whole->object, "types") == NULL)
        return json_part_wrong(
            whole, "types", NULL,
            "the types of resources that the stages are on, as [{\"name\": \"cpu\", \"device\": \"cpu\"}] "
            "(the solution of an instance has none; a plan needs them)");
    TRY(json_part_list(whole, "types", RESOURCE_TYPES_MAX, &types));
    TRY(json_part_list(whole, "stages", graph->layer_count, &stages));
    TRY(plan_make(plan, (uint32_t)json_array_size(types), (uint32_t)json_array_size(stages), &cells));
    TRY(types_read(plan, whole, types, cells));
    TRY(stages_read(plan, whole, graph, stages));
    TRY(layer_types_check(plan, whole, graph));
    TRY(json_part_text(whole, "method", JSON_OPTIONAL, RESOURCE_NAME_BYTES, cells[plan->type_count]));
    plan->method = cells[plan->type_count];
    TRY(json_part_real(whole, "time_scale", JSON_OPTIONAL, RESOURCE_FIGURE_MIN, RESOURCE_FIGURE_MAX,
                       &plan->time_scale));
    return json_part_u32(whole, "service_cores", JSON_OPTIONAL, 0, PLAN_REPLICAS_MAX, &plan->service_cores);
}

status plan_parse(struct plan *plan, const struct graph *graph, const char *path, const char *text, size_t bytes)
{
    *plan = (struct plan){0};
    CHECK(graph->layer_count > 0);
    struct json_part whole;
    TRY(json_part_open(&whole, path, text, bytes, "a plan", PLAN_FORMAT, NULL));
    status st = members_read(plan, &whole, graph);
    json_part_close(&whole);
    if (st != ST_OK) {
        plan_free(plan);
        return st;
    }
    if (plan->has_graph_hash && plan->graph_hash != graph->header->model_hash)
        log_warning("%s: its graph_hash is %016" PRIx64 ", this graph's %016" PRIx64
                    ": the layers have the same names, so the plan is used, but its figures are of another graph",
                    path, plan->graph_hash, graph->header->model_hash);
    return ST_OK;
}

status plan_read(struct plan *plan, const struct graph *graph, const char *path)
{
    struct file_map map;
    *plan = (struct plan){0};
    TRY(file_map_read(&map, path));
    status st = plan_parse(plan, graph, path, (const char *)map.data, map.bytes);
    file_map_close(&map);
    return st;
}

status plan_single(struct plan *plan, const struct graph *graph, uint32_t k)
{
    char(*cells)[RESOURCE_NAME_BYTES + 1];
    *plan = (struct plan){0};
    CHECK(graph->layer_count > 0 && k > 0);
    TRY(plan_make(plan, 1, 1, &cells));
    plan->types[0] = (struct resource_type){.name = "cpu", .device = RESOURCE_CPU};
    plan->stages[0] = (struct plan_stage){.last_layer = graph->layer_count - 1, .k = k, .replicas = 1};
    return ST_OK;
}

void plan_free(struct plan *plan)
{
    free(plan->memory);
    *plan = (struct plan){0};
}

uint32_t plan_cpu_cores(const struct plan *plan)
{
    uint64_t core_count = plan->service_cores;
    for (uint32_t s = 0; s < plan->stage_count; s++)
        if (plan->types[plan->stages[s].type].device == RESOURCE_CPU) core_count += plan->stages[s].k;
    return core_count < UINT32_MAX ? (uint32_t)core_count : UINT32_MAX;
}

/* --- for people ------------------------------------------------------------------------------- */

/* A text in a caller's buffer. Bytes beyond the buffer are counted and left out. */
struct draft {
    char *buffer;
    size_t bytes, used_bytes;
};

static void draft_put(struct draft *draft, const char *format, ...) PRINTF_LIKE(2, 3);
static void draft_put(struct draft *draft, const char *format, ...)
{
    const size_t left = draft->used_bytes < draft->bytes ? draft->bytes - draft->used_bytes : 0;
    va_list arguments;
    va_start(arguments, format);
    draft->used_bytes += (size_t)vsnprintf(left ? draft->buffer + draft->used_bytes : NULL, left, format, arguments);
    va_end(arguments);
}

/* Ends the text; cuts it between characters if it is too long. */
static char *draft_end(const struct draft *draft)
{
    if (draft->used_bytes < draft->bytes || draft->bytes == 0) return draft->buffer;
    size_t kept = draft->bytes - 1;
    if (kept >= strlen(ELLIPSIS)) {
        kept -= strlen(ELLIPSIS);
        while (kept > 0 && (draft->buffer[kept] & 0xC0) == 0x80) kept--;
        strcpy(draft->buffer + kept, ELLIPSIS);
    } else {
        while (kept > 0 && (draft->buffer[kept - 1] & 0x80)) kept--;
        draft->buffer[kept] = 0;
    }
    return draft->buffer;
}

static void stage_name_put(struct draft *draft, const struct plan_stage *stage, const struct graph *graph)
{
    draft_put(draft, "%s", layer_name(graph, stage->first_layer));
    if (stage->last_layer > stage->first_layer) draft_put(draft, "..%s", layer_name(graph, stage->last_layer));
}

char *plan_stage_name(const struct plan *plan, const struct graph *graph, uint32_t stage, char *buffer, size_t bytes)
{
    struct draft draft = {.buffer = buffer, .bytes = bytes};
    CHECK(stage < plan->stage_count);
    stage_name_put(&draft, &plan->stages[stage], graph);
    return draft_end(&draft);
}

char *plan_nodes_text(uint64_t nodes, const char *between, char *buffer, size_t bytes)
{
    struct draft draft = {.buffer = buffer, .bytes = bytes};
    for (uint64_t left = nodes; left; left &= left - 1)
        draft_put(&draft, "%s%d", left == nodes ? "" : between, __builtin_ctzll(left));
    return draft_end(&draft);
}

char *plan_text(const struct plan *plan, const struct graph *graph, char *buffer, size_t bytes)
{
    struct draft draft = {.buffer = buffer, .bytes = bytes};
    draft_put(&draft, "%u stage%s", plan->stage_count, words_s(plan->stage_count));
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        const struct resource_type *type = &plan->types[stage->type];
        draft_put(&draft, s == 0 ? ": " : " | ");
        stage_name_put(&draft, stage, graph);
        draft_put(&draft, " on %u %s", stage->k, type->name);
        if (is_in_gangs(type) && stage->replicas > 1) draft_put(&draft, " as %u replicas", stage->replicas);
        char nodes[4 * PLAN_NODES_MAX] = "";
        if (plan->node_count > 0)
            draft_put(&draft, ", node%s %s", words_s((uint32_t)__builtin_popcountll(stage->nodes)),
                      plan_nodes_text(stage->nodes, ", ", nodes, sizeof nodes));
    }
    return draft_end(&draft);
}
