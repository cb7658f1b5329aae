/* Makes lines from tensors, and tensors from lines. A request is read within its bounds: shapes are compared
 * with what has come before any element is taken. */
#include "engine/serve/inference.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 100 /* of names in messages */

/* --- inputs ----------------------------------------------------------------------------------- */

enum datatype {
    TYPE_BOOL,
    TYPE_UINT8,
    TYPE_UINT16,
    TYPE_UINT32,
    TYPE_UINT64,
    TYPE_INT8,
    TYPE_INT16,
    TYPE_INT32,
    TYPE_INT64,
    TYPE_FP32,
    TYPE_FP64,
    TYPE_BYTES,
    TYPE_COUNT
};
static const struct {
    const char *name;
    uint32_t bytes; /* of an element; 0: each element begins with its number of bytes */
} types[TYPE_COUNT] = {
    [TYPE_BOOL] = {"BOOL", 1},     [TYPE_UINT8] = {"UINT8", 1},   [TYPE_UINT16] = {"UINT16", 2},
    [TYPE_UINT32] = {"UINT32", 4}, [TYPE_UINT64] = {"UINT64", 8}, [TYPE_INT8] = {"INT8", 1},
    [TYPE_INT16] = {"INT16", 2},   [TYPE_INT32] = {"INT32", 4},   [TYPE_INT64] = {"INT64", 8},
    [TYPE_FP32] = {"FP32", 4},     [TYPE_FP64] = {"FP64", 8},     [TYPE_BYTES] = {"BYTES", 0},
};

struct tensor {
    const char *name;
    uint32_t column;
    enum datatype type;
    uint64_t width;          /* elements of an example                     */
    const json_t *row;       /* in JSON: the array that holds the elements … */
    size_t next;             /* … of which this is the next; or …           */
    const uint8_t *at, *end; /* … in binary: what is left                   */
    bool is_nested;          /* in JSON: an array an example               */
    char *text;              /* for the keys of a list, or for a number */
    size_t text_max;
};

/* All that belongs to a request while it is read. */
struct reading {
    struct inference *in;
    const struct lines *lines;
    struct tensor *tensors; /* [tensor_count] */
    uint32_t tensor_count;
    struct line_value *values; /* [lines->count] */
    const uint8_t *binary, *binary_end;
};

static status type_read(const json_t *input, struct tensor *t)
{
    const char *name = json_string_value(json_object_get(input, "datatype"));
    for (uint32_t i = 0; name && i < TYPE_COUNT; i++) {
        if (strcmp(types[i].name, name) != 0) continue;
        t->type = (enum datatype)i;
        return ST_OK;
    }
    FAIL(INVALID,
         "input %.*s: expected a datatype: BOOL, INT8 to INT64, UINT8 to UINT64, FP32, FP64 or BYTES, found %.40s",
         NAME_BYTES, t->name, name ? name : "none");
}

/* Reads a shape, [examples] or [examples, width]; all inputs have the same number of examples. */
static status shape_read(struct reading *r, const json_t *input, struct tensor *t)
{
    const json_t *shape = json_object_get(input, "shape");
    const size_t rank = json_array_size(shape);
    const json_int_t examples = json_integer_value(json_array_get(shape, 0));
    const json_int_t width = rank == 2 ? json_integer_value(json_array_get(shape, 1)) : 1;
    bool is_whole = true;
    for (size_t i = 0; i < rank; i++) is_whole &= json_is_integer(json_array_get(shape, i));
    if (!is_whole || rank < 1 || rank > 2 || examples < 0 || examples > INT32_MAX || width < 1 || width > 65536)
        FAIL(INVALID, "input %.*s: expected a shape [examples] or [examples, keys] of whole numbers", NAME_BYTES,
             t->name);
    if (width > 1 && !r->lines->column[t->column].is_list)
        FAIL(INVALID, "input %.*s: expected a shape [examples] or [examples, 1]: the column has one value, no list",
             NAME_BYTES, t->name);
    if (t != r->tensors && (uint32_t)examples != r->in->example_count)
        FAIL(INVALID, "input %.*s: expected %u examples, as the inputs before it have, found %" JSON_INTEGER_FORMAT,
             NAME_BYTES, t->name, r->in->example_count, examples);
    r->in->example_count = (uint32_t)examples;
    t->width = (uint64_t)width;
    return ST_OK;
}

/* Takes the tensor's part of the bytes behind the JSON. */
static status binary_take(struct reading *r, const json_t *size, struct tensor *t)
{
    const uint64_t left = (uint64_t)(r->binary_end - r->binary), elements = r->in->example_count * t->width;
    const json_int_t bytes = json_integer_value(size);
    if (!json_is_integer(size) || bytes < 0 || (uint64_t)bytes > left)
        FAIL(INVALID, "input %.*s: binary_data_size is more than what follows the JSON", NAME_BYTES, t->name);
    if (types[t->type].bytes && (uint64_t)bytes != elements * types[t->type].bytes)
        FAIL(INVALID, "input %.*s: expected %" PRIu64 " bytes by its shape, found %" JSON_INTEGER_FORMAT, NAME_BYTES,
             t->name, elements * types[t->type].bytes, bytes);
    t->at = r->binary;
    t->end = r->binary += bytes;
    return ST_OK;
}

static status data_read(struct reading *r, const json_t *input, struct tensor *t)
{
    const json_t *size = json_object_get(json_object_get(input, "parameters"), "binary_data_size");
    if (size) return binary_take(r, size, t);
    const json_t *data = json_object_get(input, "data");
    const uint64_t count = json_array_size(data), examples = r->in->example_count;
    t->is_nested = json_is_array(json_array_get(data, 0));
    if (!json_is_array(data) || count != (t->is_nested ? examples : examples * t->width))
        FAIL(INVALID, "input %.*s: expected data of %" PRIu64 " elements by its shape", NAME_BYTES, t->name,
             examples * t->width);
    t->row = data;
    return ST_OK;
}

static status input_read(struct reading *r, const json_t *input, struct tensor *t)
{
    t->name = json_string_value(json_object_get(input, "name"));
    if (t->name == NULL) FAIL(INVALID, "expected inputs, each an object with a name");
    t->column = lines_find(r->lines, t->name);
    if (t->column == LINE_NONE)
        FAIL(INVALID, "input %.*s: the model reads no column of that name", NAME_BYTES, t->name);
    for (const struct tensor *before = r->tensors; before < t; before++)
        if (before->column == t->column) FAIL(INVALID, "input %.*s: given twice", NAME_BYTES, t->name);
    TRY(type_read(input, t));
    TRY(shape_read(r, input, t));
    return data_read(r, input, t);
}

/* --- elements --------------------------------------------------------------------------------- */

/* Appends an element to the example's text. */
static status text_add(struct tensor *t, size_t *length, const char *text, size_t bytes)
{
    if (*length + bytes > t->text_max) {
        const size_t max = 2 * (*length + bytes);
        char *grown = realloc(t->text, max);
        if (grown == NULL) FAIL(MEMORY, "no memory for %zu bytes of an input", max);
        t->text = grown;
        t->text_max = max;
    }
    if (bytes) memcpy(t->text + *length, text, bytes);
    *length += bytes;
    return ST_OK;
}

static status number_add(struct tensor *t, size_t *length, const char *format, double value)
{
    char text[40];
    return text_add(t, length, text, (size_t)snprintf(text, sizeof text, format, value));
}

static status integer_add(struct tensor *t, size_t *length, bool is_negative, uint64_t magnitude)
{
    char text[40];
    return text_add(t, length, text,
                    (size_t)snprintf(text, sizeof text, "%s%" PRIu64, is_negative ? "-" : "", magnitude));
}

/* Appends the next element of a tensor in JSON: number, text, or nothing. */
static status json_element(struct tensor *t, const json_t *element, size_t *length)
{
    if (json_is_string(element)) return text_add(t, length, json_string_value(element), json_string_length(element));
    if (json_is_integer(element)) {
        const json_int_t value = json_integer_value(element);
        return integer_add(t, length, value < 0, value < 0 ? -(uint64_t)value : (uint64_t)value);
    }
    if (json_is_real(element)) return number_add(t, length, "%.17g", json_real_value(element));
    if (json_is_boolean(element)) return integer_add(t, length, false, json_is_true(element));
    if (json_is_null(element)) return ST_OK;
    FAIL(INVALID, "input %.*s: expected numbers or texts as its data", NAME_BYTES, t->name);
}

/* The integer of `bytes` bytes, lowest first. */
static uint64_t little(const uint8_t *at, uint32_t bytes)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < bytes; i++) value |= (uint64_t)at[i] << 8 * i;
    return value;
}

static status binary_text(struct tensor *t, size_t *length)
{
    const uint64_t left = (uint64_t)(t->end - t->at);
    const uint64_t bytes = left >= 4 ? little(t->at, 4) : 0;
    if (left < 4 || bytes > left - 4)
        FAIL(INVALID, "input %.*s: its binary data end in the middle of a text", NAME_BYTES, t->name);
    const char *text = (const char *)t->at + 4;
    t->at += 4 + bytes;
    return text_add(t, length, text, bytes);
}

static status binary_element(struct tensor *t, size_t *length)
{
    const uint32_t bytes = types[t->type].bytes;
    if (bytes == 0) return binary_text(t, length);
    const uint64_t value = little(t->at, bytes); /* binary_take() has checked that the bytes are there */
    t->at += bytes;
    if (t->type == TYPE_FP32) {
        const uint32_t word = (uint32_t)value;
        float number;
        memcpy(&number, &word, sizeof number);
        return number_add(t, length, "%.9g", (double)number);
    }
    if (t->type == TYPE_FP64) {
        double number;
        memcpy(&number, &value, sizeof number);
        return number_add(t, length, "%.17g", number);
    }
    const bool is_signed = t->type >= TYPE_INT8 && t->type <= TYPE_INT64,
               is_negative = is_signed && value >> (8 * bytes - 1);
    const uint64_t mask = bytes == 8 ? UINT64_MAX : ((uint64_t)1 << 8 * bytes) - 1;
    return integer_add(t, length, is_negative, is_negative ? -value & mask : value);
}

/* Makes the example's text: its elements, with the separator of lists between them. */
static status example_text(const struct reading *r, struct tensor *t, uint32_t example, size_t *length)
{
    const json_t *row = t->is_nested ? json_array_get(t->row, example) : t->row;
    if (t->is_nested && json_array_size(row) != t->width)
        FAIL(INVALID, "input %.*s: expected %" PRIu64 " elements of each example by its shape", NAME_BYTES, t->name,
             t->width);
    if (t->is_nested) t->next = 0;
    const char between = r->lines->setup->schema.reader.list_separator;
    for (uint64_t k = 0; k < t->width; k++) {
        if (k) TRY(text_add(t, length, &between, 1));
        const size_t before = *length;
        if (t->row)
            TRY(json_element(t, json_array_get(row, t->next++), length));
        else
            TRY(binary_element(t, length));
        if (t->width > 1 && *length > before && memchr(t->text + before, between, *length - before))
            FAIL(INVALID, "input %.*s: expected elements without '%c', which is between keys of the column's lists",
                 NAME_BYTES, t->name, between);
    }
    return ST_OK;
}

static status example_put(const struct reading *r, uint32_t example, struct evbuffer *to)
{
    for (uint32_t i = 0; i < r->tensor_count; i++) {
        struct tensor *t = &r->tensors[i];
        size_t length = 0;
        TRY(example_text(r, t, example, &length));
        r->values[t->column] = (struct line_value){t->text ? t->text : "", length};
    }
    return lines_put(r->lines, r->values, to);
}

/* --- requests --------------------------------------------------------------------------------- */

static bool flag_of(const json_t *object, const char *name)
{
    return json_is_true(json_object_get(json_object_get(object, "parameters"), name));
}

static status outputs_read(struct inference *in)
{
    const json_t *wanted = json_object_get(in->json, "outputs");
    for (uint32_t i = 0; i < in->output_count; i++) {
        in->outputs[i].is_wanted = json_array_size(wanted) == 0;
        in->outputs[i].is_binary = flag_of(in->json, "binary_data_output");
    }
    for (size_t k = 0; k < json_array_size(wanted); k++) {
        const json_t *output = json_array_get(wanted, k);
        const char *name = json_string_value(json_object_get(output, "name"));
        const json_t *is_binary = json_object_get(json_object_get(output, "parameters"), "binary_data");
        uint32_t i = 0;
        while (name && i < in->output_count && strcmp(in->outputs[i].name, name) != 0) i++;
        if (name == NULL || i == in->output_count)
            FAIL(INVALID, "output %.*s: the model predicts nothing of that name", NAME_BYTES, name ? name : "");
        in->outputs[i].is_wanted = true;
        if (is_binary) in->outputs[i].is_binary = json_is_true(is_binary);
    }
    return ST_OK;
}

/* Checks, by shapes alone, how many values are to be read and written: of each example those of the inputs,
 * an absent one of every other column, and those of the outputs. */
static status values_check(const struct reading *r)
{
    const uint64_t max = r->lines->setup->settings.serve_values;
    uint64_t width = r->lines->count - r->tensor_count;
    for (uint32_t i = 0; i < r->tensor_count; i++) width += r->tensors[i].width;
    for (uint32_t i = 0; i < r->in->output_count; i++) width += r->in->outputs[i].is_wanted * r->in->outputs[i].width;
    if (r->in->example_count * width > max)
        FAIL(FULL,
             "a request has at most serve.values = %" PRIu64 " values, this one %" PRIu64 ": %u examples of %" PRIu64
             ", those of all columns and outputs; send fewer examples at once",
             max, r->in->example_count * width, r->in->example_count, width);
    return ST_OK;
}

static status inputs_read(struct reading *r, struct evbuffer *to)
{
    const json_t *inputs = json_object_get(r->in->json, "inputs");
    r->tensors = calloc(r->tensor_count, sizeof *r->tensors);
    r->values = calloc(r->lines->count + 1, sizeof *r->values);
    if (r->tensors == NULL || r->values == NULL) FAIL(MEMORY, "no memory for %u inputs", r->tensor_count);
    for (uint32_t i = 0; i < r->tensor_count; i++) TRY(input_read(r, json_array_get(inputs, i), &r->tensors[i]));
    if (r->binary != r->binary_end) FAIL(INVALID, "more bytes follow the JSON than its inputs have");
    TRY(values_check(r));
    if (r->in->example_count == 0) return ST_OK;
    TRY(lines_names_put(r->lines, to));
    const uint64_t max = r->lines->setup->settings.serve_body;
    for (uint32_t e = 0; e < r->in->example_count; e++) {
        TRY(example_put(r, e, to));
        if (evbuffer_get_length(to) > max)
            FAIL(INVALID,
                 "written as lines, the examples have more than serve.body = %" PRIu64 " bytes; send fewer at once",
                 max);
    }
    for (uint32_t i = 0; i < r->tensor_count; i++)
        if (r->tensors[i].at != r->tensors[i].end)
            FAIL(INVALID, "input %.*s: its binary data go on behind its last text", NAME_BYTES, r->tensors[i].name);
    return ST_OK;
}

status inference_read(struct inference *in, const struct lines *lines, struct inference_output *outputs,
                      uint32_t output_count, const uint8_t *body, size_t bytes, size_t json_bytes, struct evbuffer *to)
{
    json_error_t error;
    *in = (struct inference){.outputs = outputs, .output_count = output_count};
    if (json_bytes > bytes) FAIL(INVALID, "Inference-Header-Content-Length is more than the request has");
    if (json_bytes > INFERENCE_JSON_BYTES)
        FAIL(INVALID, "the JSON of a request has at most %zu bytes, this one %zu; send larger tensors in binary",
             INFERENCE_JSON_BYTES, json_bytes);
    in->json = json_loadb((const char *)body, json_bytes, JSON_REJECT_DUPLICATES, &error);
    if (in->json == NULL) FAIL(INVALID, "line %d, column %d: %s", error.line, error.column, error.text);
    in->id = json_string_value(json_object_get(in->json, "id"));
    struct reading r = {.in = in,
                        .lines = lines,
                        .binary = body + json_bytes,
                        .binary_end = body + bytes,
                        .tensor_count = (uint32_t)json_array_size(json_object_get(in->json, "inputs"))};
    if (r.tensor_count == 0) FAIL(INVALID, "expected inputs, each an object with a name");
    if (r.tensor_count > lines->count)
        FAIL(INVALID, "expected at most %u inputs, one a column, found %u", lines->count, r.tensor_count);
    TRY(outputs_read(in));
    status st = inputs_read(&r, to);
    for (uint32_t i = 0; r.tensors && i < r.tensor_count; i++) free(r.tensors[i].text);
    free(r.tensors);
    free(r.values);
    return st;
}

void inference_free(struct inference *in)
{
    json_decref(in->json);
    in->json = NULL;
}

/* --- answers ---------------------------------------------------------------------------------- */

/* Bytes of the UTF-8 character that begins at `at`; 0: none does. */
static size_t character_bytes(const uint8_t *at, size_t left)
{
    const size_t count = *at < 0x80                  ? 1
                         : *at >= 0xc2 && *at < 0xe0 ? 2
                         : (*at & 0xf0) == 0xe0      ? 3
                         : *at >= 0xf0 && *at < 0xf5 ? 4
                                                     : 0;
    if (count > left) return 0;
    for (size_t i = 1; i < count; i++)
        if ((at[i] & 0xc0) != 0x80) return 0;
    const bool is_long = (*at == 0xe0 && at[1] < 0xa0) || (*at == 0xf0 && at[1] < 0x90);
    const bool is_none = (*at == 0xed && at[1] > 0x9f) || (*at == 0xf4 && at[1] > 0x8f);
    return is_long || is_none ? 0 : count;
}

void inference_text_put(struct evbuffer *to, const char *text, size_t bytes)
{
    const uint8_t *at = (const uint8_t *)text, *end = at + bytes;
    evbuffer_add(to, "\"", 1);
    while (at < end) {
        const size_t count = character_bytes(at, (size_t)(end - at));
        if (*at < 0x20)
            evbuffer_add_printf(to, "\\u%04x", *at);
        else if (*at == '"' || *at == '\\')
            evbuffer_add_printf(to, "\\%c", *at);
        else
            evbuffer_add(to, count ? (const char *)at : "?", count ? count : 1);
        at += count ? count : 1;
    }
    evbuffer_add(to, "\"", 1);
}

/* Where one output is written. */
struct column {
    struct evbuffer *json, *binary;
    const struct inference_output *output;
    uint64_t count;
};

static void element_put(struct column *c, const char *text, size_t bytes)
{
    if (!c->output->is_binary && c->count) evbuffer_add(c->json, ",", 1);
    c->count++;
    if (c->output->is_texts && c->output->is_binary) {
        const uint32_t length = (uint32_t)bytes;
        evbuffer_add(c->binary, &length, sizeof length);
        evbuffer_add(c->binary, text, bytes);
    } else if (c->output->is_texts) {
        inference_text_put(c->json, text, bytes);
    } else if (c->output->is_binary) {
        const float number = strtof(text, NULL); /* up to the separator */
        evbuffer_add(c->binary, &number, sizeof number);
    } else {
        const float number = strtof(text, NULL);
        if (isfinite(number))
            evbuffer_add(c->json, text, bytes);
        else
            evbuffer_add(c->json, "null", 4);
    }
}

/* Writes an output's elements for an example. An output of texts takes the whole line; an
 * element that is missing is empty. */
static void example_answer(struct column *c, uint32_t index, const char *line, const char *end)
{
    const char between = c->output->is_texts ? '\t' : ' ';
    for (uint32_t i = 0; i < index && !c->output->is_texts; i++) {
        const char *tab = memchr(line, '\t', (size_t)(end - line));
        line = tab ? tab + 1 : end;
    }
    const char *tab = memchr(line, '\t', (size_t)(end - line));
    if (tab && !c->output->is_texts) end = tab;
    for (uint32_t k = 0; k < c->output->width; k++) {
        const char *stop = memchr(line, between, (size_t)(end - line));
        element_put(c, line, (size_t)((stop ? stop : end) - line));
        line = stop ? stop + 1 : end;
    }
}

static void output_put(const struct inference *in, uint32_t index, const char *text, size_t bytes,
                       struct evbuffer *json, struct evbuffer *binary)
{
    const struct inference_output *o = &in->outputs[index];
    struct column c = {.json = json, .binary = binary, .output = o};
    const size_t before = evbuffer_get_length(binary);
    evbuffer_add_printf(json, "{\"name\":");
    inference_text_put(json, o->name, strlen(o->name));
    evbuffer_add_printf(json, ",\"datatype\":\"%s\",\"shape\":[%u", o->is_texts ? "BYTES" : "FP32", in->example_count);
    if (o->width > 1 || o->is_texts) evbuffer_add_printf(json, ",%u", o->width);
    evbuffer_add_printf(json, "]%s", o->is_binary ? "" : ",\"data\":[");
    for (const char *at = text, *end = text + bytes; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (stop == NULL) stop = end;
        example_answer(&c, index, at, stop);
        at = stop + 1;
    }
    if (o->is_binary)
        evbuffer_add_printf(json, ",\"parameters\":{\"binary_data_size\":%zu}}", evbuffer_get_length(binary) - before);
    else
        evbuffer_add_printf(json, "]}");
}

status inference_answer(const struct inference *in, const char *model, const char *version, const char *text,
                        size_t bytes, struct evbuffer *json, struct evbuffer *binary)
{
    const char *before = "";
    evbuffer_add_printf(json, "{\"model_name\":");
    inference_text_put(json, model, strlen(model));
    evbuffer_add_printf(json, ",\"model_version\":\"%s\"", version);
    if (in->id) {
        evbuffer_add_printf(json, ",\"id\":");
        inference_text_put(json, in->id, strlen(in->id));
    }
    evbuffer_add_printf(json, ",\"outputs\":[");
    for (uint32_t i = 0; i < in->output_count; i++) {
        if (!in->outputs[i].is_wanted) continue;
        evbuffer_add_printf(json, "%s", before);
        output_put(in, i, text, bytes, json, binary);
        before = ",";
    }
    if (evbuffer_add_printf(json, "]}") < 0) FAIL(MEMORY, "no memory for an answer");
    return ST_OK;
}
