/* Writes messages of onnx.proto; the schema gives the numbers of fields. */
#include "engine/onnx/onnx_net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/heap.h"

#define IR_VERSION  9
#define SET_VERSION 17
#define ML_VERSION  4
#define ML_DOMAIN   "ai.onnx.ml"
#define NAME_BYTES  24
/* Begins names of values that are neither inputs nor outputs. */
#define NAME_INNER "value:"

enum {
    MODEL_IR = 1,
    MODEL_PRODUCER = 2,
    MODEL_PRODUCER_VERSION = 3,
    MODEL_GRAPH = 7,
    MODEL_SETS = 8,
    MODEL_NOTES = 14
};
enum { SET_DOMAIN = 1, SET_NUMBER = 2 };
enum { NOTE_KEY = 1, NOTE_VALUE = 2 };
enum { GRAPH_NODES = 1, GRAPH_NAME = 2, GRAPH_CONSTANTS = 5, GRAPH_INPUTS = 11, GRAPH_OUTPUTS = 12 };
enum { NODE_IN = 1, NODE_OUT = 2, NODE_TYPE = 4, NODE_ATTR = 5, NODE_DOMAIN = 7 };
enum { ATTR_NAME = 1, ATTR_F = 2, ATTR_I = 3, ATTR_T = 5, ATTR_INTS = 8, ATTR_TYPE = 20 };
enum { ATTR_IS_FLOAT = 1, ATTR_IS_INT = 2, ATTR_IS_TENSOR = 4, ATTR_IS_INTS = 7 };
enum { TENSOR_DIM = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_DATA = 9 };
enum { VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_TENSOR = 1, TENSOR_ELEMENT = 1, TENSOR_SHAPE = 2, SHAPE_DIM = 1 };
enum { DIM_NUMBER = 1, DIM_NAME = 2 };

void onnx_close(struct onnx *o)
{
    struct protobuf *const all[] = {&o->nodes, &o->constants, &o->inputs, &o->outputs,
                                    &o->notes, &o->part,      &o->inner,  &o->deep};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) protobuf_free(all[i]);
    for (uint32_t i = 0; i < o->named_count; i++) free(o->names[i]);
    free(o->names);
    free(o->named);
    *o = (struct onnx){0};
}

/* --- names ------------------------------------------------------------------------------------ */

static const char *name_of(const struct onnx *o, uint32_t value, char text[NAME_BYTES])
{
    for (uint32_t i = 0; i < o->named_count; i++)
        if (o->named[i] == value) return o->names[i];
    snprintf(text, NAME_BYTES, NAME_INNER "%u", value);
    return text;
}

static status name_add(struct onnx *o, const char *name, uint32_t value)
{
    if (strncmp(name, NAME_INNER, strlen(NAME_INNER)) == 0)
        FAIL(INVALID, "onnx: %.100s: inner values have names like " NAME_INNER "N: rename this column or loss", name);
    for (uint32_t i = 0; i < o->named_count; i++)
        if (strcmp(o->names[i], name) == 0)
            FAIL(INVALID,
                 "onnx: two inputs or outputs would be called %.100s: inputs have names of columns, outputs of losses; "
                 "rename one",
                 name);
    TRY(heap_room(&o->names, o->named_count + 1, sizeof *o->names, "names"));
    TRY(heap_room(&o->named, o->named_count + 1, sizeof *o->named, "names"));
    TRY(heap_text(&o->names[o->named_count], "%s", name));
    o->named[o->named_count++] = value;
    return ST_OK;
}

/* Describes an input or an output, [examples, cols]. */
static void value_put(struct onnx *o, struct protobuf *to, uint32_t field, const char *name, enum onnx_type type,
                      uint32_t cols)
{
    struct protobuf *dim = &o->deep, *shape = &o->inner, *tensor = &o->part;
    struct protobuf message = {0};
    protobuf_clear(shape);
    protobuf_clear(dim);
    protobuf_text(dim, DIM_NAME, "examples");
    protobuf_message(shape, SHAPE_DIM, dim);
    protobuf_clear(dim);
    protobuf_u64(dim, DIM_NUMBER, cols);
    protobuf_message(shape, SHAPE_DIM, dim);
    protobuf_clear(tensor);
    protobuf_u64(tensor, TENSOR_ELEMENT, type);
    protobuf_message(tensor, TENSOR_SHAPE, shape);
    protobuf_clear(dim);
    protobuf_message(dim, TYPE_TENSOR, tensor);
    protobuf_text(&message, VALUE_NAME, name);
    protobuf_message(&message, VALUE_TYPE, dim);
    protobuf_message(to, field, &message);
    protobuf_free(&message);
}

status onnx_input(struct onnx *o, const char *name, enum onnx_type type, uint32_t cols, uint32_t *value)
{
    *value = ++o->value_count;
    TRY(name_add(o, name, *value));
    value_put(o, &o->inputs, GRAPH_INPUTS, name, type, cols);
    return ST_OK;
}

status onnx_output(struct onnx *o, uint32_t value, const char *name, uint32_t cols)
{
    const uint32_t out = ++o->value_count;
    char text[NAME_BYTES];
    TRY(name_add(o, name, out));
    protobuf_clear(&o->part);
    protobuf_text(&o->part, NODE_IN, name_of(o, value, text));
    protobuf_text(&o->part, NODE_OUT, name);
    protobuf_text(&o->part, NODE_TYPE, "Identity");
    protobuf_message(&o->nodes, GRAPH_NODES, &o->part);
    value_put(o, &o->outputs, GRAPH_OUTPUTS, name, ONNX_FLOAT, cols);
    return ST_OK;
}

/* --- constants -------------------------------------------------------------------------------- */

static uint64_t count_of(const uint64_t *shape, uint32_t rank)
{
    uint64_t count = 1;
    for (uint32_t i = 0; i < rank; i++) count *= shape[i];
    return count;
}

static void tensor_head(struct protobuf *p, enum onnx_type type, const uint64_t *shape, uint32_t rank)
{
    protobuf_clear(p);
    for (uint32_t i = 0; i < rank; i++) protobuf_u64(p, TENSOR_DIM, shape[i]);
    protobuf_u64(p, TENSOR_TYPE, type);
}

/* A constant of `bytes` bytes; *room: where they go. */
static uint32_t constant(struct onnx *o, enum onnx_type type, const uint64_t *shape, uint32_t rank, size_t bytes,
                         void **room)
{
    char text[NAME_BYTES];
    const uint32_t value = ++o->value_count;
    struct protobuf *head = &o->part;
    tensor_head(head, type, shape, rank);
    protobuf_text(head, TENSOR_NAME, name_of(o, value, text));
    protobuf_open(head, TENSOR_DATA, bytes); /* without the bytes: a table is never in memory twice */
    uint8_t *to = protobuf_room(&o->constants, GRAPH_CONSTANTS, head->bytes + bytes);
    o->constants.is_cut |= head->is_cut;
    *room = to && !head->is_cut ? mempcpy(to, head->data, head->bytes) : NULL;
    return value;
}

uint32_t onnx_floats(struct onnx *o, const float *numbers, const uint64_t *shape, uint32_t rank, float **place)
{
    void *room;
    const size_t bytes = count_of(shape, rank) * sizeof *numbers;
    const uint32_t value = constant(o, ONNX_FLOAT, shape, rank, bytes, &room);
    if (numbers && room && bytes) memcpy(room, numbers, bytes);
    if (place) *place = room;
    return value;
}

uint32_t onnx_ints(struct onnx *o, const int64_t *numbers, const uint64_t *shape, uint32_t rank)
{
    void *room;
    const size_t bytes = count_of(shape, rank) * sizeof *numbers;
    const uint32_t value = constant(o, ONNX_INT64, shape, rank, bytes, &room);
    if (room && bytes) memcpy(room, numbers, bytes);
    return value;
}

uint32_t onnx_float(struct onnx *o, float number)
{
    static const uint64_t one = 1;
    return onnx_floats(o, &number, &one, 1, NULL);
}

/* --- operators -------------------------------------------------------------------------------- */

static void attr_put(struct onnx *o, const struct onnx_attr *attr)
{
    struct protobuf *p = &o->inner;
    protobuf_clear(p);
    protobuf_text(p, ATTR_NAME, attr->name);
    if (attr->is_float) protobuf_f32(p, ATTR_F, attr->f);
    if (!attr->is_float) protobuf_u64(p, ATTR_I, (uint64_t)attr->i);
    protobuf_u64(p, ATTR_TYPE, attr->is_float ? ATTR_IS_FLOAT : ATTR_IS_INT);
    protobuf_message(&o->part, NODE_ATTR, p);
}

static uint32_t node_begin(struct onnx *o, const char *type, const uint32_t *in, uint32_t in_count)
{
    char text[NAME_BYTES];
    const uint32_t value = ++o->value_count;
    protobuf_clear(&o->part);
    for (uint32_t i = 0; i < in_count; i++) protobuf_text(&o->part, NODE_IN, name_of(o, in[i], text));
    protobuf_text(&o->part, NODE_OUT, name_of(o, value, text));
    protobuf_text(&o->part, NODE_TYPE, type);
    return value;
}

uint32_t onnx_op(struct onnx *o, const char *type, const struct onnx_attr *attrs, const uint32_t *in, uint32_t in_count)
{
    const uint32_t value = node_begin(o, type, in, in_count);
    for (; attrs && attrs->name; attrs++) attr_put(o, attrs);
    protobuf_message(&o->nodes, GRAPH_NODES, &o->part);
    return value;
}

uint32_t onnx_slice(struct onnx *o, uint32_t value, uint32_t axis, int64_t begin, int64_t end)
{
    static const uint64_t one = 1;
    const int64_t along = axis;
    const uint32_t begins = onnx_ints(o, &begin, &one, 1), ends = onnx_ints(o, &end, &one, 1),
                   axes = onnx_ints(o, &along, &one, 1);
    return onnx_op(o, "Slice", NULL, ONNX_IN(value, begins, ends, axes));
}

uint32_t onnx_reshape(struct onnx *o, uint32_t value, uint32_t a, uint32_t b)
{
    const uint64_t rank = b ? 3 : 2;
    const uint32_t shape = onnx_ints(o, (const int64_t[]){0, a, b}, &rank, 1);
    return onnx_op(o, "Reshape", NULL, ONNX_IN(value, shape));
}

static void ints_attr_put(struct onnx *o, const char *name, const int64_t *numbers, uint32_t count)
{
    protobuf_clear(&o->inner);
    protobuf_text(&o->inner, ATTR_NAME, name);
    for (uint32_t i = 0; i < count; i++) protobuf_u64(&o->inner, ATTR_INTS, (uint64_t)numbers[i]);
    protobuf_u64(&o->inner, ATTR_TYPE, ATTR_IS_INTS);
    protobuf_message(&o->part, NODE_ATTR, &o->inner);
}

uint32_t onnx_transpose(struct onnx *o, uint32_t value)
{
    const uint32_t out = node_begin(o, "Transpose", &value, 1);
    ints_attr_put(o, "perm", (const int64_t[]){0, 2, 1}, 3);
    protobuf_message(&o->nodes, GRAPH_NODES, &o->part);
    return out;
}

/* In this set of operators the axes are an attribute. */
uint32_t onnx_max(struct onnx *o, uint32_t value, int64_t axis)
{
    const uint32_t out = node_begin(o, "ReduceMax", &value, 1);
    ints_attr_put(o, "axes", &axis, 1);
    attr_put(o, &(struct onnx_attr){.name = "keepdims", .i = 0});
    protobuf_message(&o->nodes, GRAPH_NODES, &o->part);
    return out;
}

static void tensor_attr_put(struct onnx *o, const char *name, const void *numbers, uint64_t count)
{
    struct protobuf *tensor = &o->deep, *p = &o->inner;
    tensor_head(tensor, ONNX_INT64, &count, 1);
    protobuf_bytes(tensor, TENSOR_DATA, numbers, count * sizeof(int64_t));
    protobuf_clear(p);
    protobuf_text(p, ATTR_NAME, name);
    protobuf_message(p, ATTR_T, tensor);
    protobuf_u64(p, ATTR_TYPE, ATTR_IS_TENSOR);
    protobuf_message(&o->part, NODE_ATTR, p);
}

uint32_t onnx_lookup(struct onnx *o, uint32_t value, const uint64_t *keys, uint64_t count)
{
    static const uint64_t no_key = 0;
    const uint64_t known = count ? count : 1; /* the operator takes no empty list */
    int64_t *numbers = malloc(known * sizeof *numbers);
    if (numbers == NULL) o->nodes.is_cut = true;
    for (uint64_t i = 0; numbers && i < known; i++) numbers[i] = (int64_t)i;
    const int64_t absent = (int64_t)count;
    const uint32_t out = node_begin(o, "LabelEncoder", &value, 1);
    protobuf_text(&o->part, NODE_DOMAIN, ML_DOMAIN);
    tensor_attr_put(o, "keys_tensor", count ? keys : &no_key, known);
    if (numbers) tensor_attr_put(o, "values_tensor", numbers, known);
    tensor_attr_put(o, "default_tensor", &absent, 1);
    protobuf_message(&o->nodes, GRAPH_NODES, &o->part);
    free(numbers);
    return out;
}

/* --- the file --------------------------------------------------------------------------------- */

void onnx_note(struct onnx *o, const char *key, const char *value)
{
    protobuf_clear(&o->part);
    protobuf_text(&o->part, NOTE_KEY, key);
    protobuf_text(&o->part, NOTE_VALUE, value);
    protobuf_message(&o->notes, MODEL_NOTES, &o->part);
}

size_t onnx_bytes(const struct onnx *o)
{
    return o->nodes.bytes + o->constants.bytes + o->inputs.bytes + o->outputs.bytes + o->notes.bytes;
}

static void set_put(struct protobuf *to, const char *domain, uint64_t version)
{
    struct protobuf set = {0};
    protobuf_text(&set, SET_DOMAIN, domain);
    protobuf_u64(&set, SET_NUMBER, version);
    protobuf_message(to, MODEL_SETS, &set);
    protobuf_free(&set);
}

static status parts_write(const struct onnx *o, struct protobuf *head, const char *name, struct file_writer *writer)
{
    struct protobuf *const parts[] = {(struct protobuf *)&o->nodes, (struct protobuf *)&o->constants,
                                      (struct protobuf *)&o->inputs, (struct protobuf *)&o->outputs};
    struct protobuf title = {0};
    size_t bytes = 0;
    protobuf_text(&title, GRAPH_NAME, name);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) bytes += parts[i]->bytes;
    protobuf_u64(head, MODEL_IR, IR_VERSION);
    protobuf_text(head, MODEL_PRODUCER, "heterps-run");
    protobuf_text(head, MODEL_PRODUCER_VERSION, HETERPS_VERSION);
    set_put(head, "", SET_VERSION);
    set_put(head, ML_DOMAIN, ML_VERSION);
    protobuf_append(head, &o->notes);
    protobuf_open(head, MODEL_GRAPH, bytes + title.bytes);
    bool is_cut = head->is_cut || title.is_cut;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) is_cut |= parts[i]->is_cut;
    if (is_cut) {
        protobuf_free(&title);
        FAIL(MEMORY, "%s: no memory for the net", writer->path);
    }
    status st = file_writer_put(writer, head->data, head->bytes);
    if (st == ST_OK) st = file_writer_put(writer, title.data, title.bytes);
    for (size_t i = 0; i < sizeof parts / sizeof *parts && st == ST_OK; i++)
        st = file_writer_put(writer, parts[i]->data, parts[i]->bytes);
    protobuf_free(&title);
    return st;
}

status onnx_write(struct onnx *o, const char *path, const char *name, size_t *bytes)
{
    struct file_writer writer = {0};
    struct protobuf head = {0};
    status st = file_writer_open(&writer, path);
    if (st == ST_OK) st = parts_write(o, &head, name, &writer);
    *bytes = writer.written_bytes;
    if (st == ST_OK) st = file_writer_commit(&writer);
    if (st != ST_OK) file_writer_abort(&writer);
    protobuf_free(&head);
    return st;
}
