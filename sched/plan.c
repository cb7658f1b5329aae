/* Reads plans: once a start, from a file that the scheduler, a person or anybody else has written, so every value in it is
 * checked, and a wrong one is named by its place. Unknown keys are the scheduler's figures and pass. */
#include "sched/plan.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/log.h"

#define FORMAT         "heterps-solution-1"
#define FILE_BYTES_MAX ((size_t)64 << 20)
/* Values of a plan's text, figures included. A value takes up to 200 bytes once read, so this bounds the memory. */
#define VALUES_MAX     ((size_t)1 << 21)
#define TYPES_MAX      1024u
#define TEXT_BYTES_MAX 127u /* of a name or a method */
#define HASH_DIGITS    16
#define ELLIPSIS       "…"

static const char *layer_name(const struct graph *graph, uint32_t layer)
{
    return graph_string(graph, graph->layers[layer].name);
}

/* --- what is wrong, and where ----------------------------------------------------------------- */

/* An object of the file, with its place: "stages[1]", or "" for the whole. */
struct part {
    const char *path;
    json_t *object;
    char place[32];
};

#define FOUND_BYTES 96

/* A value as a message tells it: numbers and the beginning of texts as they are, of the rest what it is. */
static const char *found_text(const json_t *value, char found[FOUND_BYTES])
{
    enum { EXCERPT_BYTES = 60 };
    switch (value == NULL ? JSON_NULL : json_typeof(value)) {
    case JSON_STRING: {
        const char *text = json_string_value(value);
        int cut = EXCERPT_BYTES;
        while (strlen(text) > EXCERPT_BYTES && cut > 0 && (text[cut] & 0xC0) == 0x80) cut--;
        snprintf(found, FOUND_BYTES, "\"%.*s%s\"", cut, text, strlen(text) > EXCERPT_BYTES ? ELLIPSIS : "");
        for (char *at = found; *at; at++)
            if ((uint8_t)*at < 0x20 || *at == 0x7F) *at = '?';
        break;
    }
    case JSON_INTEGER: snprintf(found, FOUND_BYTES, "%" JSON_INTEGER_FORMAT, json_integer_value(value)); break;
    case JSON_REAL: snprintf(found, FOUND_BYTES, "%.15g", json_real_value(value)); break;
    case JSON_TRUE: return "true";
    case JSON_FALSE: return "false";
    case JSON_ARRAY: snprintf(found, FOUND_BYTES, "a list of %zu", json_array_size(value)); break;
    case JSON_OBJECT: return "an object";
    case JSON_NULL: return value == NULL ? "nothing" : "null";
    }
    return found;
}

PRINTF_LIKE(4, 5)
static status wrong(const struct part *part, const char *key, const json_t *value, const char *expected_format, ...)
{
    char expected[512], found[FOUND_BYTES];
    va_list arguments;
    va_start(arguments, expected_format);
    vsnprintf(expected, sizeof expected, expected_format, arguments);
    va_end(arguments);
    FAIL(INVALID, "%s: %s%s%s: expected %s, found %s", part->path, part->place, part->place[0] && key[0] ? "." : "",
         key, expected, found_text(value, found));
}

/* --- values ----------------------------------------------------------------------------------- */

/* A natural number, also one written 2.0. */
static bool natural(const json_t *value, uint64_t *number)
{
    if (json_is_integer(value) && json_integer_value(value) >= 0) {
        *number = (uint64_t)json_integer_value(value);
        return true;
    }
    /* Up to 2^53 a double holds every whole number. */
    if (!json_is_real(value) || !(json_real_value(value) >= 0 && json_real_value(value) <= 0x1p53)) return false;
    *number = (uint64_t)json_real_value(value);
    return (double)*number == json_real_value(value);
}

enum need { OPTIONAL, REQUIRED };

/* Leaves *number as it is where an optional key is not given. */
static status number_read(const struct part *part, const char *key, enum need need, uint64_t min, uint64_t max,
                          uint64_t *number)
{
    const json_t *value = json_object_get(part->object, key);
    uint64_t read;
    if (value == NULL && need == OPTIONAL) return ST_OK;
    if (!natural(value, &read) || read < min || read > max)
        return wrong(part, key, value, "a whole number from %" PRIu64 " to %" PRIu64, min, max);
    *number = read;
    return ST_OK;
}

static status number_u32_read(const struct part *part, const char *key, enum need need, uint32_t min, uint32_t max,
                              uint32_t *number)
{
    uint64_t read = *number;
    TRY(number_read(part, key, need, min, max, &read));
    *number = (uint32_t)read;
    return ST_OK;
}

/* A figure of at least 0. */
static status real_read(const struct part *part, const char *key, double *number)
{
    const json_t *value = json_object_get(part->object, key);
    if (value == NULL) return ST_OK;
    if (!json_is_number(value) || !(json_number_value(value) >= 0))
        return wrong(part, key, value, "a number of at least 0");
    *number = json_number_value(value);
    return ST_OK;
}

/* Copies a text into cell[TEXT_BYTES_MAX + 1], which *text then is. */
static status text_read(const struct part *part, const char *key, enum need need, char *cell, const char **text)
{
    const json_t *value = json_object_get(part->object, key);
    if (value == NULL && need == OPTIONAL) return ST_OK;
    size_t min = need == REQUIRED ? 1 : 0;
    const char *read = json_string_value(value);
    if (read == NULL || strlen(read) < min || strlen(read) > TEXT_BYTES_MAX)
        return wrong(part, key, value, "a text of %zu to %u bytes", min, TEXT_BYTES_MAX);
    for (const char *at = read; *at; at++)
        if ((uint8_t)*at < 0x20 || *at == 0x7F)
            return wrong(part, key, value, "a text without control characters (0x%02x at its byte %zu)", (uint8_t)*at,
                         (size_t)(at - read));
    memcpy(cell, read, strlen(read) + 1);
    *text = cell;
    return ST_OK;
}

static status list_read(const struct part *part, const char *key, uint32_t count_max, json_t **list)
{
    *list = json_object_get(part->object, key);
    if (!json_is_array(*list) || json_array_size(*list) < 1 || json_array_size(*list) > count_max)
        return wrong(part, key, *list, "a list of 1 to %u objects", count_max);
    return ST_OK;
}

static status part_read(const struct part *whole, const char *key, json_t *list, uint32_t index, struct part *part)
{
    *part = (struct part){.path = whole->path, .object = json_array_get(list, index)};
    snprintf(part->place, sizeof part->place, "%s[%u]", key, index);
    if (!json_is_object(part->object)) return wrong(part, "", part->object, "an object");
    return ST_OK;
}

/* --- which graph it is for -------------------------------------------------------------------- */

static status hash_read(struct plan *plan, const struct part *whole)
{
    const json_t *value = json_object_get(whole->object, "graph_hash");
    if (value == NULL) return ST_OK;
    const char *text = json_string_value(value);
    if (text == NULL || strlen(text) != HASH_DIGITS || strspn(text, "0123456789abcdef") != HASH_DIGITS)
        return wrong(whole, "graph_hash", value, "%d digits 0-9a-f", HASH_DIGITS);
    plan->graph_hash = strtoull(text, NULL, 16);
    plan->has_graph_hash = true;
    return ST_OK;
}

static status layers_check(const struct part *whole, const struct graph *graph, const json_t *list)
{
    size_t count = json_array_size(list);
    if (!json_is_array(list)) return wrong(whole, "layers", list, "a list of names");
    for (uint32_t l = 0; l < count && l < graph->layer_count; l++) {
        char key[32];
        const json_t *value = json_array_get(list, l);
        snprintf(key, sizeof key, "layers[%u]", l);
        if (!json_is_string(value) || strcmp(json_string_value(value), layer_name(graph, l)) != 0)
            return wrong(whole, key, value, "\"%.200s\", the graph's layer", layer_name(graph, l));
    }
    if (count < graph->layer_count)
        return wrong(whole, "layers", list,
                     "%u names, as the graph has layers (\"%.200s\" is the first that is missing)", graph->layer_count,
                     layer_name(graph, (uint32_t)count));
    if (count > graph->layer_count)
        return wrong(whole, "layers", list, "%u names, as the graph has layers (up to \"%.200s\")", graph->layer_count,
                     layer_name(graph, graph->layer_count - 1));
    return ST_OK;
}

static status graph_check(struct plan *plan, const struct part *whole, const struct graph *graph)
{
    const json_t *layers = json_object_get(whole->object, "layers");
    TRY(hash_read(plan, whole));
    if (layers != NULL) return layers_check(whole, graph, layers);
    if (plan->has_graph_hash && plan->graph_hash != graph->header->model_hash)
        FAIL(MISMATCH,
             "%s: graph_hash: expected %016" PRIx64 ", this graph's, found %016" PRIx64
             ": the plan is for another graph, and without \"layers\" nothing says that it fits this one",
             whole->path, graph->header->model_hash, plan->graph_hash);
    return ST_OK;
}

/* --- types and stages ------------------------------------------------------------------------- */

static status types_read(struct plan *plan, const struct part *whole, json_t *list, char (*cells)[TEXT_BYTES_MAX + 1])
{
    for (uint32_t t = 0; t < plan->type_count; t++) {
        struct resource_type *type = &plan->types[t];
        struct part part;
        TRY(part_read(whole, "types", list, t, &part));
        const json_t *name = json_object_get(part.object, "name"), *device = json_object_get(part.object, "device");
        TRY(text_read(&part, "name", REQUIRED, cells[t], &type->name));
        for (uint32_t other = 0; other < t; other++)
            if (strcmp(plan->types[other].name, type->name) == 0)
                return wrong(&part, "name", name, "another name than that of types[%u]", other);
        if (!json_is_string(device) || !resource_device_parse(json_string_value(device), type))
            return wrong(&part, "device", device, "%s", RESOURCE_DEVICES_TEXT);
        TRY(real_read(&part, "price_per_hour", &type->price_per_hour));
        TRY(number_u32_read(&part, "limit", OPTIONAL, 1, UINT32_MAX, &type->limit));
    }
    return ST_OK;
}

/* The stage's layers begin at `next`, and stay within the graph. */
static status stage_layers_read(struct plan_stage *stage, const struct part *part, const struct graph *graph,
                                uint32_t index, uint32_t next)
{
    uint32_t last_layer = graph->layer_count - 1;
    const json_t *first = json_object_get(part->object, "first"), *last = json_object_get(part->object, "last");
    TRY(number_u32_read(part, "first", REQUIRED, 0, GRAPH_COUNT_MAX, &stage->first_layer));
    TRY(number_u32_read(part, "last", REQUIRED, 0, GRAPH_COUNT_MAX, &stage->last_layer));
    if (next > last_layer)
        return wrong(part, "first", first,
                     "no further stage, as stages[%u] ends with the graph's last layer, %u (\"%.200s\")", index - 1,
                     last_layer, layer_name(graph, last_layer));
    if (index == 0 && stage->first_layer != 0)
        return wrong(part, "first", first, "0, the graph's first layer (\"%.200s\")", layer_name(graph, 0));
    if (stage->first_layer > next)
        return wrong(part, "first", first, "%u: that layer (\"%.200s\") follows stages[%u], and would be in no stage",
                     next, layer_name(graph, next), index - 1);
    if (stage->first_layer < next)
        return wrong(part, "first", first, "%u (\"%.200s\"), as stages[%u] has the layers up to %u", next,
                     layer_name(graph, next), index - 1, next - 1);
    if (stage->last_layer < stage->first_layer || stage->last_layer > last_layer)
        return wrong(part, "last", last, "a layer from %u (\"%.200s\") to %u (\"%.200s\"), the graph's last",
                     stage->first_layer, layer_name(graph, stage->first_layer), last_layer,
                     layer_name(graph, last_layer));
    return ST_OK;
}

static status stage_units_read(struct plan_stage *stage, const struct part *part, const struct plan *plan,
                               uint64_t *unit_counts)
{
    TRY(number_u32_read(part, "type", REQUIRED, 0, plan->type_count - 1, &stage->type));
    TRY(number_u32_read(part, "k", REQUIRED, 1, PLAN_UNITS_MAX, &stage->k));
    const struct resource_type *type = &plan->types[stage->type];
    const json_t *k = json_object_get(part->object, "k"), *replicas = json_object_get(part->object, "replicas");
    if (type->limit > 0 && stage->k > type->limit - unit_counts[stage->type])
        return wrong(part, "k", k,
                     "at most %" PRIu64 ": the limit of \"%s\" is %u, of which earlier stages have %" PRIu64,
                     type->limit - unit_counts[stage->type], type->name, type->limit, unit_counts[stage->type]);
    unit_counts[stage->type] += stage->k;

    stage->replicas = type->device == RESOURCE_CPU ? 1 : stage->k;
    TRY(number_u32_read(part, "replicas", OPTIONAL, 1, PLAN_UNITS_MAX, &stage->replicas));
    if (type->device != RESOURCE_CPU && stage->replicas != stage->k)
        return wrong(part, "replicas", replicas, "none, or %u as k: on \"%s\" every unit is a replica", stage->k,
                     type->name);
    if (stage->k % stage->replicas != 0) return wrong(part, "replicas", replicas, "a divisor of k, %u", stage->k);
    return ST_OK;
}

static status stages_read(struct plan *plan, const struct part *whole, const struct graph *graph, json_t *list)
{
    uint64_t unit_counts[TYPES_MAX] = {0};
    uint32_t next = 0;
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        struct plan_stage *stage = &plan->stages[s];
        struct part part;
        TRY(part_read(whole, "stages", list, s, &part));
        TRY(stage_layers_read(stage, &part, graph, s, next));
        TRY(stage_units_read(stage, &part, plan, unit_counts));
        TRY(real_read(&part, "et", &stage->et));
        TRY(number_read(&part, "cut_bytes", OPTIONAL, 0, INT64_MAX, &stage->cut_bytes));
        next = stage->last_layer + 1;
    }
    if (next < graph->layer_count)
        FAIL(INVALID,
             "%s: stages[%u].last: expected %u (\"%s\"), the graph's last layer, in the last stage, found %u (\"%s\")",
             whole->path, plan->stage_count - 1, graph->layer_count - 1, layer_name(graph, graph->layer_count - 1),
             next - 1, layer_name(graph, next - 1));
    return ST_OK;
}

/* "plan", a type a layer, says what the stages say. */
static status layer_types_check(const struct plan *plan, const struct part *whole, const struct graph *graph)
{
    const json_t *list = json_object_get(whole->object, "plan");
    if (list == NULL) return ST_OK;
    if (!json_is_array(list) || json_array_size(list) != graph->layer_count)
        return wrong(whole, "plan", list, "a list of %u types, one for each layer of the graph", graph->layer_count);
    for (uint32_t s = 0; s < plan->stage_count; s++)
        for (uint32_t l = plan->stages[s].first_layer; l <= plan->stages[s].last_layer; l++) {
            char key[32];
            uint64_t type;
            const json_t *value = json_array_get(list, l);
            if (natural(value, &type) && type == plan->stages[s].type) continue;
            snprintf(key, sizeof key, "plan[%u]", l);
            return wrong(whole, key, value, "%u, as stages[%u] says of layer \"%.200s\"", plan->stages[s].type, s,
                         layer_name(graph, l));
        }
    return ST_OK;
}

/* --- the whole -------------------------------------------------------------------------------- */

/* One block for types, stages, and a cell for each type's name and the method. */
static status plan_make(struct plan *plan, uint32_t type_count, uint32_t stage_count,
                        char (**cells)[TEXT_BYTES_MAX + 1])
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
    *cells = (char(*)[TEXT_BYTES_MAX + 1])(memory + types_bytes + stages_bytes);
    return ST_OK;
}
_Static_assert(sizeof(struct resource_type) % _Alignof(struct plan_stage) == 0, "stages stand behind types");

static status members_read(struct plan *plan, const struct part *whole, const struct graph *graph)
{
    const json_t *format = json_object_get(whole->object, "format"),
                 *feasible = json_object_get(whole->object, "feasible");
    if (!json_is_string(format) || strcmp(json_string_value(format), FORMAT) != 0)
        return wrong(whole, "format", format, "\"%s\"", FORMAT);
    if (feasible != NULL && !json_is_true(feasible))
        return wrong(whole, "feasible", feasible, "true: a plan that misses its goal is not run");
    TRY(graph_check(plan, whole, graph));

    json_t *types, *stages;
    char(*cells)[TEXT_BYTES_MAX + 1] = NULL;
    if (json_object_get(whole->object, "types") == NULL)
        return wrong(whole, "types", NULL,
                     "the types of resources that the stages are on, as [{\"name\": \"cpu\", \"device\": \"cpu\"}] "
                     "(the solution of an instance has none; a plan needs them)");
    TRY(list_read(whole, "types", TYPES_MAX, &types));
    TRY(list_read(whole, "stages", graph->layer_count, &stages));
    TRY(plan_make(plan, (uint32_t)json_array_size(types), (uint32_t)json_array_size(stages), &cells));
    TRY(types_read(plan, whole, types, cells));
    TRY(stages_read(plan, whole, graph, stages));
    TRY(layer_types_check(plan, whole, graph));
    TRY(text_read(whole, "method", OPTIONAL, cells[plan->type_count], &plan->method));
    return number_u32_read(whole, "service_cores", OPTIONAL, 0, PLAN_UNITS_MAX, &plan->service_cores);
}

/* Before anything is made of the text: how many values it can hold. */
static status size_check(const char *path, const char *text, size_t bytes)
{
    if (bytes > FILE_BYTES_MAX)
        FAIL(INVALID, "%s: expected a plan of at most %zu bytes, found %zu", path, FILE_BYTES_MAX, bytes);
    size_t value_count = 0;
    for (size_t i = 0; i < bytes; i++) value_count += text[i] == ',' || text[i] == '[' || text[i] == '{';
    if (value_count > VALUES_MAX)
        FAIL(INVALID, "%s: expected a plan of at most %zu values, found about %zu", path, VALUES_MAX, value_count);
    return ST_OK;
}

status plan_parse(struct plan *plan, const struct graph *graph, const char *path, const char *text, size_t bytes)
{
    *plan = (struct plan){0};
    CHECK(graph->layer_count > 0);
    TRY(size_check(path, text, bytes));
    json_error_t error;
    json_t *json = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (json == NULL && json_error_code(&error) == json_error_out_of_memory)
        FAIL(MEMORY, "%s: no memory to read its %zu bytes", path, bytes);
    if (json == NULL) FAIL(INVALID, "%s:%d:%d: %s", path, error.line, error.column, error.text);
    struct part whole = {.path = path, .object = json};
    status st = json_is_object(json) ? members_read(plan, &whole, graph) : wrong(&whole, "the file", json, "an object");
    json_decref(json);
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
    TRY(file_map_open(&map, path));
    status st = plan_parse(plan, graph, path, (const char *)map.data, map.bytes);
    file_map_close(&map);
    return st;
}

status plan_single(struct plan *plan, const struct graph *graph, uint32_t k)
{
    char(*cells)[TEXT_BYTES_MAX + 1];
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

/* A text that grows while it is written. */
struct draft {
    FILE *stream;
    char *text;
    size_t bytes;
};

static void draft_begin(struct draft *draft)
{
    *draft = (struct draft){0};
    draft->stream = open_memstream(&draft->text, &draft->bytes);
    CHECK(draft->stream != NULL);
}

/* Puts the text into the buffer, cut between characters where it is too long. */
static char *draft_end(struct draft *draft, char *buffer, size_t bytes)
{
    CHECK(fclose(draft->stream) == 0 && draft->text != NULL);
    if (draft->bytes < bytes) {
        memcpy(buffer, draft->text, draft->bytes + 1);
    } else if (bytes > 0) {
        const char *ellipsis = bytes > strlen(ELLIPSIS) ? ELLIPSIS : "";
        size_t kept = bytes - 1 - strlen(ellipsis);
        while (kept > 0 && (draft->text[kept] & 0xC0) == 0x80) kept--;
        snprintf(buffer, bytes, "%.*s%s", (int)kept, draft->text, ellipsis);
    }
    free(draft->text);
    return buffer;
}

static void stage_name_put(FILE *stream, const struct plan_stage *stage, const struct graph *graph)
{
    fputs(layer_name(graph, stage->first_layer), stream);
    if (stage->last_layer > stage->first_layer) fprintf(stream, "..%s", layer_name(graph, stage->last_layer));
}

char *plan_stage_name(const struct plan *plan, const struct graph *graph, uint32_t stage, char *buffer, size_t bytes)
{
    struct draft draft;
    CHECK(stage < plan->stage_count);
    draft_begin(&draft);
    stage_name_put(draft.stream, &plan->stages[stage], graph);
    return draft_end(&draft, buffer, bytes);
}

char *plan_text(const struct plan *plan, const struct graph *graph, char *buffer, size_t bytes)
{
    struct draft draft;
    draft_begin(&draft);
    FILE *stream = draft.stream;
    fprintf(stream, "%u stage%s", plan->stage_count, plan->stage_count == 1 ? "" : "s");
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        const struct resource_type *type = &plan->types[stage->type];
        fputs(s == 0 ? ": " : " | ", stream);
        stage_name_put(stream, stage, graph);
        fprintf(stream, " on %u %s", stage->k, type->name);
        if (type->device == RESOURCE_CPU && stage->replicas > 1) fprintf(stream, " as %u replicas", stage->replicas);
    }
    return draft_end(&draft, buffer, bytes);
}
