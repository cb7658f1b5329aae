/* Makes, reads, checks and writes instances. Once a start;
 * texts come from the user, or from another machine. */
#include "sched/instance.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/json_text.h"
#include "sched/instance_nodes.h"
#include "sched/json_read.h"

#define FORMAT       "heterps-instance-1"
#define FORMAT_NEWER "heterps-instance-2"
#define HASH_DIGITS  16

const char *const instance_source_names[INSTANCE_SOURCE_COUNT + 1] = {
    [INSTANCE_GIVEN] = "given",
    [INSTANCE_MEASURED] = "measured",
    [INSTANCE_STORED] = "stored",
    [INSTANCE_DECLARED] = "declared",
    NULL,
};

/* --- memory ----------------------------------------------------------------------------------- */

/* One block: this struct, types, layers, times, and a cell for each name. */
struct instance_memory {
    uint32_t text_count, text_room;
    char (*texts)[INSTANCE_NAME_BYTES + 1];
};
_Static_assert(sizeof(struct instance_memory) % 8 == 0 && sizeof(struct instance_type) % 8 == 0 &&
                   sizeof(struct instance_layer) % 8 == 0 && sizeof(struct instance_time) % 8 == 0,
               "what stands behind them is aligned");

status instance_make(struct instance *instance, uint32_t layer_count, uint32_t type_count)
{
    *instance = (struct instance){0};
    if (layer_count < 1 || layer_count > INSTANCE_LAYERS_MAX || type_count < 1 || type_count > RESOURCE_TYPES_MAX ||
        (size_t)layer_count * type_count > INSTANCE_CELLS_MAX)
        FAIL(INVALID,
             "an instance of %u layers and %u types: expected 1 to %u layers, 1 to %u types, "
             "and at most %zu pairs of them",
             layer_count, type_count, INSTANCE_LAYERS_MAX, RESOURCE_TYPES_MAX, INSTANCE_CELLS_MAX);
    uint32_t text_room = 2 * layer_count + type_count + 1;
    size_t types_at = sizeof(struct instance_memory), layers_at = types_at + type_count * sizeof *instance->types,
           times_at = layers_at + layer_count * sizeof *instance->layers,
           texts_at = times_at + (size_t)layer_count * type_count * sizeof *instance->times;
    uint8_t *block = calloc(1, texts_at + (size_t)text_room * (INSTANCE_NAME_BYTES + 1));
    if (block == NULL) FAIL(MEMORY, "no memory for an instance of %u layers and %u types", layer_count, type_count);
    struct instance_memory *memory = (struct instance_memory *)block;
    memory->text_room = text_room;
    memory->texts = (char(*)[INSTANCE_NAME_BYTES + 1])(block + texts_at);
    *instance = (struct instance){
        .name = "",
        .layer_count = layer_count,
        .type_count = type_count,
        .types = (struct instance_type *)(block + types_at),
        .layers = (struct instance_layer *)(block + layers_at),
        .times = (struct instance_time *)(block + times_at),
        .memory = memory,
    };
    for (uint32_t t = 0; t < type_count; t++) instance->types[t].resource.name = "";
    for (uint32_t l = 0; l < layer_count; l++) instance->layers[l].name = instance->layers[l].kind = "";
    return ST_OK;
}

const char *instance_text(struct instance *instance, const char *text)
{
    struct instance_memory *memory = instance->memory;
    CHECK(memory->text_count < memory->text_room);
    char *cell = memory->texts[memory->text_count++];
    size_t bytes = strlen(text);
    if (bytes > INSTANCE_NAME_BYTES) {
        bytes = INSTANCE_NAME_BYTES;
        while (bytes > 0 && (text[bytes] & 0xC0) == 0x80) bytes--; /* between characters */
    }
    memcpy(cell, text, bytes);
    return cell;
}

status instance_copy(struct instance *to, const struct instance *from)
{
    struct instance made;
    *to = (struct instance){0};
    TRY(instance_make(&made, from->layer_count, from->type_count));
    status st = instance_nodes_copy(&made.nodes, from->nodes);
    if (st != ST_OK) {
        instance_free(&made);
        return st;
    }
    *to = *from;
    to->nodes = made.nodes;
    to->types = made.types;
    to->layers = made.layers;
    to->times = made.times;
    to->memory = made.memory;
    memcpy(to->types, from->types, to->type_count * sizeof *to->types);
    memcpy(to->layers, from->layers, to->layer_count * sizeof *to->layers);
    memcpy(to->times, from->times, (size_t)to->layer_count * to->type_count * sizeof *to->times);
    to->name = instance_text(to, from->name);
    for (uint32_t t = 0; t < to->type_count; t++)
        to->types[t].resource.name = instance_text(to, from->types[t].resource.name);
    for (uint32_t l = 0; l < to->layer_count; l++) {
        to->layers[l].name = instance_text(to, from->layers[l].name);
        to->layers[l].kind = instance_text(to, from->layers[l].kind);
    }
    return ST_OK;
}

void instance_free(struct instance *instance)
{
    instance_nodes_free(instance->nodes);
    free(instance->memory);
    *instance = (struct instance){0};
}

/* --- what the figures of a cell may be --------------------------------------------------------- */

/* A figure of a layer and type: a list in the layer's object, and a member of struct instance_time. */
struct figure {
    const char *key;
    enum json_need need;
    double min, max;
    size_t offset;
};
#define FIGURE(member, need, min, max)                                                                                 \
    {                                                                                                                  \
#member, need, min, max, offsetof(struct instance_time, member)                                                \
    }
static const struct figure figures[] = {
    FIGURE(oct, JSON_REQUIRED, RESOURCE_FIGURE_MIN, RESOURCE_FIGURE_MAX),
    FIGURE(alpha, JSON_REQUIRED, 0, 1),
    FIGURE(odt, JSON_REQUIRED, 0, RESOURCE_FIGURE_MAX),
    FIGURE(beta, JSON_REQUIRED, 0, 1),
    FIGURE(fixed, JSON_OPTIONAL, 0, RESOURCE_FIGURE_MAX),
    FIGURE(update, JSON_OPTIONAL, 0, RESOURCE_FIGURE_MAX),
    FIGURE(alpha_low, JSON_OPTIONAL, 0, 1),
    FIGURE(alpha_high, JSON_OPTIONAL, 0, 1),
};
#define FIGURE_COUNT (sizeof figures / sizeof *figures)

static double *figure_of(struct instance_time *time, const struct figure *figure)
{
    return (double *)((char *)time + figure->offset);
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Reads "L" and "T", the lengths of the lists. */
static status sizes_read(const struct json_part *whole, uint32_t *layer_count, uint32_t *type_count, json_t **layers,
                         json_t **types)
{
    TRY(json_part_u32(whole, "L", JSON_REQUIRED, 1, INSTANCE_LAYERS_MAX, layer_count));
    TRY(json_part_u32(whole, "T", JSON_REQUIRED, 1, RESOURCE_TYPES_MAX, type_count));
    if ((size_t)*layer_count * *type_count > INSTANCE_CELLS_MAX)
        return json_part_wrong(whole, "T", json_object_get(whole->object, "T"),
                               "at most %zu types, as L is %u and L * T at most %zu", INSTANCE_CELLS_MAX / *layer_count,
                               *layer_count, INSTANCE_CELLS_MAX);
    *layers = json_object_get(whole->object, "layers");
    *types = json_object_get(whole->object, "types");
    if (!json_is_array(*layers) || json_array_size(*layers) != *layer_count)
        return json_part_wrong(whole, "layers", *layers, "a list of %u objects, as L says", *layer_count);
    if (!json_is_array(*types) || json_array_size(*types) != *type_count)
        return json_part_wrong(whole, "types", *types, "a list of %u objects, as T says", *type_count);
    return ST_OK;
}

static status name_read(struct instance *instance, const struct json_part *part, const char *key, enum json_need need,
                        uint32_t bytes_max, const char **name)
{
    char text[INSTANCE_NAME_BYTES + 1] = "";
    TRY(json_part_text(part, key, need, bytes_max, text));
    *name = instance_text(instance, text);
    return ST_OK;
}

static status source_read(const struct json_part *part, enum instance_source *source)
{
    const json_t *value = json_object_get(part->object, "source");
    if (value == NULL) return ST_OK;
    for (int s = 0; json_is_string(value) && s < INSTANCE_SOURCE_COUNT; s++)
        if (strcmp(json_string_value(value), instance_source_names[s]) == 0) {
            *source = (enum instance_source)s;
            return ST_OK;
        }
    return json_part_wrong(part, "source", value, "\"given\", \"measured\", \"stored\" or \"declared\"");
}

/* Where the key is not given, the flag stays as it is. */
static status flag_read(const struct json_part *part, const char *key, bool *flag)
{
    const json_t *value = json_object_get(part->object, key);
    if (value && !json_is_boolean(value)) return json_part_wrong(part, key, value, "true or false");
    if (value) *flag = json_is_true(value);
    return ST_OK;
}

static status type_read(struct instance *instance, const struct json_part *part, uint32_t t)
{
    struct instance_type *type = &instance->types[t];
    struct resource_type *resource = &type->resource;
    const json_t *device = json_object_get(part->object, "device");
    TRY(name_read(instance, part, "name", JSON_REQUIRED, RESOURCE_NAME_BYTES, &resource->name));
    for (uint32_t other = 0; other < t; other++)
        if (strcmp(instance->types[other].resource.name, resource->name) == 0)
            return json_part_wrong(part, "name", json_object_get(part->object, "name"),
                                   "another name than that of types[%u]", other);
    TRY(json_part_real(part, "price_per_hour", JSON_REQUIRED, 0, RESOURCE_FIGURE_MAX, &resource->price_per_hour));
    TRY(json_part_u32(part, "limit", JSON_REQUIRED, 1, UINT32_MAX, &resource->limit));
    resource->device = RESOURCE_SIM;
    if (device != NULL && (!json_is_string(device) || !resource_device_parse(json_string_value(device), resource)))
        return json_part_wrong(part, "device", device, "%s", RESOURCE_DEVICES_TEXT);
    TRY(json_part_slow(part, &resource->slow));
    bool overlaps = true;
    TRY(flag_read(part, "overlaps", &overlaps));
    resource->adds_moves = !overlaps;
    TRY(instance_type_nodes_read(instance, part, resource));
    return source_read(part, &type->source);
}

/* Reads a list of a layer: a number for each type. */
static status figure_read(struct instance *instance, const struct json_part *part, uint32_t layer,
                          const struct figure *figure)
{
    const json_t *list = json_object_get(part->object, figure->key);
    if (list == NULL && figure->need == JSON_OPTIONAL) return ST_OK;
    if (!json_is_array(list) || json_array_size(list) != instance->type_count)
        return json_part_wrong(part, figure->key, list, "a list of %u numbers, one for each type",
                               instance->type_count);
    for (uint32_t t = 0; t < instance->type_count; t++) {
        char key[32];
        struct instance_time *time = &instance->times[(size_t)layer * instance->type_count + t];
        snprintf(key, sizeof key, "%s[%u]", figure->key, t);
        TRY(json_value_real(part, key, json_array_get(list, t), figure->min, figure->max, figure_of(time, figure)));
    }
    return ST_OK;
}

/* Checks figures of which one bounds another. */
static status bounds_check(const struct instance *instance, const struct json_part *part, uint32_t l)
{
    for (uint32_t t = 0; t < instance->type_count; t++) {
        const struct instance_time *time = instance_time(instance, l, t);
        const bool is_update = time->update > time->oct;
        if (!is_update && time->alpha_low <= time->alpha_high) continue;
        const char *name = is_update ? "update" : "alpha_high";
        char key[32];
        snprintf(key, sizeof key, "%s[%u]", name, t);
        json_t *value = json_array_get(json_object_get(part->object, name), t);
        if (is_update) return json_part_wrong(part, key, value, "at most oct, %.15g", time->oct);
        return json_part_wrong(part, key, value, "at least alpha_low, %.15g", time->alpha_low);
    }
    return ST_OK;
}

static status layer_read(struct instance *instance, const struct json_part *part, uint32_t l)
{
    struct instance_layer *layer = &instance->layers[l];
    TRY(name_read(instance, part, "name", JSON_REQUIRED, INSTANCE_NAME_BYTES, &layer->name));
    TRY(name_read(instance, part, "type", JSON_REQUIRED, INSTANCE_NAME_BYTES, &layer->kind));
    TRY(json_part_real(part, "in_bytes", JSON_REQUIRED, 0, RESOURCE_FIGURE_MAX, &layer->in_bytes));
    TRY(json_part_real(part, "weight_bytes", JSON_REQUIRED, 0, RESOURCE_FIGURE_MAX, &layer->weight_bytes));
    TRY(json_part_real(part, "cut_bytes", JSON_OPTIONAL, 0, RESOURCE_FIGURE_MAX, &layer->cut_bytes));
    const bool may_cross = instance->nodes && instance->nodes->count > 1 && l + 1 < instance->layer_count;
    if (may_cross && !(layer->cut_bytes > 0))
        return json_part_wrong(part, "cut_bytes", json_object_get(part->object, "cut_bytes"),
                               "the bytes of an example across the cut after the layer, above 0, as there are nodes");
    TRY(json_part_u32(part, "tied_before", JSON_OPTIONAL, 0, l, &layer->tied_before));
    TRY(json_part_u32(part, "tied_behind", JSON_OPTIONAL, 0, instance->layer_count - 1 - l, &layer->tied_behind));
    layer->dense_bytes = layer->weight_bytes;
    TRY(json_part_real(part, "dense_bytes", JSON_OPTIONAL, 0, layer->weight_bytes, &layer->dense_bytes));
    TRY(json_part_real(part, "row_bytes", JSON_OPTIONAL, 0, RESOURCE_FIGURE_MAX, &layer->row_bytes));
    TRY(flag_read(part, "end", &layer->is_end));
    for (size_t f = 0; f < FIGURE_COUNT; f++) TRY(figure_read(instance, part, l, &figures[f]));
    return bounds_check(instance, part, l);
}

static status services_read(struct instance *instance, const struct json_part *whole)
{
    struct json_part service, server, run;
    TRY(json_part_member(whole, "service", &service));
    TRY(json_part_member(whole, "run", &run));
    TRY(json_part_member(whole, "parameter_server", &server));
    if (service.object != NULL) {
        TRY(json_part_real(&service, "seconds", JSON_REQUIRED, 0, RESOURCE_FIGURE_MAX, &instance->service_seconds));
        TRY(json_part_u32(&service, "cores", JSON_REQUIRED, 0, INSTANCE_CORES_MAX, &instance->service_cores));
    }
    if (run.object != NULL) {
        TRY(json_part_u32(&run, "micros", JSON_REQUIRED, 1, INSTANCE_NEVER_DRAINED, &instance->run.micros));
        TRY(json_part_u32(&run, "cores", JSON_REQUIRED, 1, INSTANCE_CORES_MAX, &instance->run.cores));
    }
    if (server.object != NULL) {
        TRY(json_part_real(&server, "seconds", JSON_REQUIRED, 0, RESOURCE_FIGURE_MAX, &instance->server_seconds));
        TRY(json_part_real(&server, "price_per_hour", JSON_REQUIRED, 0, RESOURCE_FIGURE_MAX, &instance->server_price));
    }
    return ST_OK;
}

static status members_read(struct instance *instance, const struct json_part *whole)
{
    uint32_t layer_count = 0, type_count = 0;
    json_t *layers = NULL, *types = NULL;
    struct json_part part;
    TRY(sizes_read(whole, &layer_count, &type_count, &layers, &types));
    TRY(instance_make(instance, layer_count, type_count));
    TRY(name_read(instance, whole, "name", JSON_OPTIONAL, INSTANCE_NAME_BYTES, &instance->name));
    TRY(json_part_real(whole, "B_o", JSON_REQUIRED, RESOURCE_FIGURE_MIN, RESOURCE_FIGURE_MAX, &instance->batch));
    TRY(json_part_real(whole, "M", JSON_REQUIRED, RESOURCE_FIGURE_MIN, RESOURCE_FIGURE_MAX, &instance->examples));
    TRY(json_part_real(whole, "epochs", JSON_REQUIRED, RESOURCE_FIGURE_MIN, RESOURCE_FIGURE_MAX, &instance->epochs));
    TRY(json_part_real(whole, "throughput_limit", JSON_REQUIRED, 0, RESOURCE_FIGURE_MAX, &instance->throughput_limit));
    TRY(json_part_hash(whole, "graph_hash", &instance->has_graph_hash, &instance->graph_hash));
    const bool is_newer = strcmp(json_string_value(json_object_get(whole->object, "format")), FORMAT_NEWER) == 0;
    if (is_newer && json_object_get(whole->object, "nodes")) TRY(instance_nodes_read(instance, whole));
    for (uint32_t t = 0; t < type_count; t++) {
        TRY(json_part_item(whole, "types", types, t, &part));
        TRY(type_read(instance, &part, t));
    }
    for (uint32_t l = 0; l < layer_count; l++) {
        TRY(json_part_item(whole, "layers", layers, l, &part));
        TRY(layer_read(instance, &part, l));
    }
    return services_read(instance, whole);
}

status instance_parse(struct instance *instance, const char *path, const char *text, size_t bytes)
{
    struct json_part whole;
    *instance = (struct instance){0};
    TRY(json_part_open(&whole, path, text, bytes, "an instance", FORMAT, FORMAT_NEWER));
    status st = members_read(instance, &whole);
    json_part_close(&whole);
    if (st != ST_OK) instance_free(instance);
    return st;
}

status instance_read(struct instance *instance, const char *path)
{
    struct file_map map;
    *instance = (struct instance){0};
    TRY(file_map_read(&map, path));
    status st = instance_parse(instance, path, (const char *)map.data, map.bytes);
    file_map_close(&map);
    return st;
}

/* --- checking --------------------------------------------------------------------------------- */

#define EXPECT(condition, ...)                                                                                         \
    do {                                                                                                               \
        if (!(condition)) FAIL(INVALID, __VA_ARGS__);                                                                  \
    } while (0)

static bool is_within(double number, double min, double max) { return number >= min && number <= max; }

status instance_check(const struct instance *i)
{
    const double least = RESOURCE_FIGURE_MIN, most = RESOURCE_FIGURE_MAX;
    EXPECT(is_within(i->batch, least, most), "a batch of %g examples", i->batch);
    EXPECT(is_within(i->examples, least, most), "%g examples an epoch", i->examples);
    EXPECT(is_within(i->epochs, least, most), "%g epochs", i->epochs);
    EXPECT(is_within(i->throughput_limit, 0, most), "a throughput limit of %g examples/s", i->throughput_limit);
    EXPECT(is_within(i->service_seconds, 0, most), "%g service seconds an example", i->service_seconds);
    EXPECT(i->service_cores <= INSTANCE_CORES_MAX, "%u service cores", i->service_cores);
    EXPECT((i->run.micros > 0) == (i->run.cores > 0) && i->run.cores <= INSTANCE_CORES_MAX,
           "a run of %u micro-batches a step on %u cores", i->run.micros, i->run.cores);
    EXPECT(is_within(i->server_seconds, 0, most), "%g parameter server seconds an example", i->server_seconds);
    EXPECT(is_within(i->server_price, 0, most), "%g USD an hour for a parameter server's core", i->server_price);
    for (uint32_t t = 0; t < i->type_count; t++) {
        const struct resource_type *type = &i->types[t].resource;
        EXPECT(type->name[0] != 0 && json_is_plain(type->name), "type %u has no name, or one that is not UTF-8", t);
        EXPECT(is_within(type->price_per_hour, 0, most), "type \"%s\" at %g USD an hour", type->name,
               type->price_per_hour);
        EXPECT(type->limit > 0, "type \"%s\" has a limit of 0 units", type->name);
    }
    TRY(instance_nodes_check(i));
    for (uint32_t l = 0; l < i->layer_count; l++) {
        const struct instance_layer *layer = &i->layers[l];
        EXPECT(layer->name[0] != 0 && json_is_plain(layer->name), "layer %u has no name, or one that is not UTF-8", l);
        EXPECT(layer->kind[0] != 0 && json_is_plain(layer->kind), "layer %u has no kind, or one that is not UTF-8", l);
        EXPECT(is_within(layer->in_bytes, 0, most), "layer \"%s\" has %g bytes of input", layer->name, layer->in_bytes);
        EXPECT(is_within(layer->weight_bytes, 0, most), "layer \"%s\" has %g bytes of weights", layer->name,
               layer->weight_bytes);
        EXPECT(is_within(layer->dense_bytes, 0, layer->weight_bytes),
               "layer \"%s\" has %g bytes of weights beside tables, of %g", layer->name, layer->dense_bytes,
               layer->weight_bytes);
        EXPECT(is_within(layer->row_bytes, 0, most), "layer \"%s\" has %g bytes of rows", layer->name,
               layer->row_bytes);
        EXPECT(is_within(layer->cut_bytes, 0, most), "layer \"%s\" has %g bytes behind it", layer->name,
               layer->cut_bytes);
        EXPECT(layer->tied_before <= l && layer->tied_behind < i->layer_count - l,
               "layer \"%s\", %u of %u, is tied to %u before it and %u behind it", layer->name, l, i->layer_count,
               layer->tied_before, layer->tied_behind);
        for (uint32_t t = 0; t < i->type_count; t++) {
            struct instance_time time = *instance_time(i, l, t);
            for (size_t f = 0; f < FIGURE_COUNT; f++)
                EXPECT(is_within(*figure_of(&time, &figures[f]), figures[f].min, figures[f].max),
                       "layer \"%s\" on type \"%s\": %s is %g", layer->name, i->types[t].resource.name, figures[f].key,
                       *figure_of(&time, &figures[f]));
            EXPECT(time.alpha_low <= time.alpha_high, "layer \"%s\" on type \"%s\": alpha is from %g to %g",
                   layer->name, i->types[t].resource.name, time.alpha_low, time.alpha_high);
        }
    }
    return ST_OK;
}

/* --- writing ---------------------------------------------------------------------------------- */

/* Whether a figure is written: an optional one that no type has is left out. */
static bool is_known(const struct instance *i, uint32_t layer, const struct figure *figure)
{
    for (uint32_t t = 0; t < i->type_count; t++) {
        struct instance_time time = *instance_time(i, layer, t);
        if (*figure_of(&time, figure) != 0) return true;
    }
    return figure->need == JSON_REQUIRED;
}

/* json_object_set_new and functions like it fail with a value of NULL, so short memory shows at the end. */
static bool put(json_t *object, const char *key, json_t *value) { return json_object_set_new(object, key, value) == 0; }

static json_t *type_json(const struct instance_type *type)
{
    char device[32];
    const struct resource_type *resource = &type->resource;
    json_t *object = json_object();
    bool is_whole = put(object, "name", json_string(resource->name)) &&
                    put(object, "price_per_hour", json_figure(resource->price_per_hour)) &&
                    put(object, "limit", json_integer(resource->limit)) &&
                    put(object, "device", json_string(resource_device_text(resource, device, sizeof device))) &&
                    put(object, "source", json_string(instance_source_names[type->source])) &&
                    json_slow_put(object, &resource->slow) &&
                    (!resource->adds_moves || put(object, "overlaps", json_false())) &&
                    (resource->nodes == 0 || json_nodes_put(object, resource->nodes));
    if (is_whole) return object;
    json_decref(object);
    return NULL;
}

static json_t *figures_json(const struct instance *i, uint32_t layer, const struct figure *figure)
{
    json_t *list = json_array();
    for (uint32_t t = 0; t < i->type_count; t++) {
        struct instance_time time = *instance_time(i, layer, t);
        json_array_append_new(list, json_figure(*figure_of(&time, figure)));
    }
    if (json_array_size(list) == i->type_count) return list;
    json_decref(list);
    return NULL;
}

static json_t *layer_json(const struct instance *i, uint32_t l)
{
    const struct instance_layer *layer = &i->layers[l];
    json_t *object = json_object();
    bool is_whole =
        put(object, "name", json_string(layer->name)) && put(object, "type", json_string(layer->kind)) &&
        put(object, "in_bytes", json_figure(layer->in_bytes)) &&
        put(object, "weight_bytes", json_figure(layer->weight_bytes)) &&
        (layer->cut_bytes == 0 || put(object, "cut_bytes", json_figure(layer->cut_bytes))) &&
        (layer->dense_bytes == layer->weight_bytes || put(object, "dense_bytes", json_figure(layer->dense_bytes))) &&
        (layer->row_bytes == 0 || put(object, "row_bytes", json_figure(layer->row_bytes))) &&
        (!layer->is_end || put(object, "end", json_true())) &&
        (layer->tied_before == 0 || put(object, "tied_before", json_integer(layer->tied_before))) &&
        (layer->tied_behind == 0 || put(object, "tied_behind", json_integer(layer->tied_behind)));
    for (size_t f = 0; f < FIGURE_COUNT && is_whole; f++)
        if (is_known(i, l, &figures[f])) is_whole = put(object, figures[f].key, figures_json(i, l, &figures[f]));
    if (is_whole) return object;
    json_decref(object);
    return NULL;
}

static bool services_put(json_t *whole, const struct instance *i)
{
    bool has_service = i->service_seconds > 0 || i->service_cores > 0;
    bool has_server = i->server_seconds > 0 || i->server_price > 0;
    return (!has_service || put(whole, "service",
                                json_pack("{s:o, s:I}", "seconds", json_figure(i->service_seconds), "cores",
                                          (json_int_t)i->service_cores))) &&
           (i->run.micros == 0 ||
            put(whole, "run",
                json_pack("{s:I, s:I}", "micros", (json_int_t)i->run.micros, "cores", (json_int_t)i->run.cores))) &&
           (!has_server || put(whole, "parameter_server",
                               json_pack("{s:o, s:o}", "seconds", json_figure(i->server_seconds), "price_per_hour",
                                         json_figure(i->server_price))));
}

static json_t *instance_json(const struct instance *i)
{
    char hash[HASH_DIGITS + 1];
    json_t *whole = json_object(), *types = json_array(), *layers = json_array();
    bool is_newer = i->nodes != NULL;
    for (uint32_t t = 0; t < i->type_count; t++) is_newer = is_newer || i->types[t].resource.adds_moves;
    for (uint32_t t = 0; t < i->type_count; t++) json_array_append_new(types, type_json(&i->types[t]));
    for (uint32_t l = 0; l < i->layer_count; l++) json_array_append_new(layers, layer_json(i, l));
    bool is_whole = json_array_size(types) == i->type_count && json_array_size(layers) == i->layer_count;
    snprintf(hash, sizeof hash, "%016" PRIx64, i->graph_hash);
    /* A model's name may be any bytes: a name that JSON cannot hold is left out. */
    is_whole = put(whole, "format", json_string(is_newer ? FORMAT_NEWER : FORMAT)) &&
               put(whole, "name", json_string(json_is_plain(i->name) ? i->name : "")) &&
               (!i->has_graph_hash || put(whole, "graph_hash", json_string(hash))) &&
               put(whole, "L", json_integer(i->layer_count)) && put(whole, "T", json_integer(i->type_count)) &&
               put(whole, "B_o", json_figure(i->batch)) && put(whole, "M", json_figure(i->examples)) &&
               put(whole, "epochs", json_figure(i->epochs)) &&
               put(whole, "throughput_limit", json_figure(i->throughput_limit)) && services_put(whole, i) &&
               instance_nodes_put(whole, i) && is_whole;
    /* The object takes both lists, even after a failure. */
    is_whole = put(whole, "types", types) && is_whole;
    is_whole = put(whole, "layers", layers) && is_whole;
    if (is_whole) return whole;
    json_decref(whole);
    return NULL;
}

status instance_write(const struct instance *instance, const char *path)
{
    struct file_writer writer = {0};
    status st = instance_check(instance);
    json_t *json = st == ST_OK ? instance_json(instance) : NULL;
    char *text = json_text(json, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    json_decref(json);
    if (st != ST_OK) return st;
    if (text == NULL)
        FAIL(MEMORY, "%s: no memory to write an instance of %u layers and %u types", path, instance->layer_count,
             instance->type_count);
    TRY_GOTO(file_writer_open(&writer, path), end);
    TRY_GOTO(file_writer_put(&writer, text, strlen(text)), end);
    TRY_GOTO(file_writer_put(&writer, "\n", 1), end);
    st = file_writer_commit(&writer);
end:
    if (st != ST_OK) file_writer_abort(&writer);
    free(text);
    return st;
}
