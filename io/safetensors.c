/* Writes and reads safetensors files (the format is in the header). A model has tens of arrays and is written
 * once a checkpoint, so the header goes through jansson and nothing here is in a hurry. */
#include "io/safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json_text.h"

#define LENGTH_BYTES sizeof(uint64_t)
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "lengths are copied as they lie in memory");

static const struct {
    const char *name;
    uint32_t bytes;
} types[SAFETENSORS_TYPE_COUNT] = {
#define X(name, bytes) [SAFETENSORS_##name] = {#name, bytes},
    SAFETENSORS_TYPES(X)
#undef X
};

const char *safetensors_type_name(enum safetensors_type type) { return types[type].name; }

/* Names come from files: a message shows only this much of one. */
#define NAME_SHOWN ".120s"

bool safetensors_tensor_bytes(const struct safetensors_tensor *t, uint64_t *bytes)
{
    *bytes = types[t->type].bytes;
    for (uint32_t i = 0; i < t->rank; i++)
        if (__builtin_mul_overflow(*bytes, t->shape[i], bytes)) return false;
    return *bytes <= INT64_MAX;
}

/* --- writing ---------------------------------------------------------------------------------- */

static status header_add(json_t *header, const char *path, const struct safetensors_tensor *t, uint64_t *offset)
{
    uint64_t bytes;
    CHECK((unsigned)t->type < SAFETENSORS_TYPE_COUNT && t->rank <= SAFETENSORS_RANK_MAX);
    if (!safetensors_tensor_bytes(t, &bytes) || bytes > INT64_MAX - *offset)
        FAIL(INVALID, "%s: tensor \"%" NAME_SHOWN "\" is larger than a file can be", path, t->name);
    if (json_object_get(header, t->name) != NULL)
        FAIL(INVALID, "%s: two tensors would be named \"%" NAME_SHOWN "\"", path, t->name);
    json_t *entry = json_pack("{s:s, s:[], s:[I, I]}", "dtype", types[t->type].name, "shape", "data_offsets",
                              (json_int_t)*offset, (json_int_t)(*offset + bytes));
    json_t *shape = json_object_get(entry, "shape");
    for (uint32_t i = 0; i < t->rank; i++) json_array_append_new(shape, json_integer((json_int_t)t->shape[i]));
    if (json_array_size(shape) != t->rank || entry == NULL) {
        json_decref(entry);
        FAIL(MEMORY, "%s: no memory for the header", path);
    }
    if (json_object_set_new(header, t->name, entry) != 0)
        FAIL(INVALID, "%s: the name of tensor \"%" NAME_SHOWN "\" is not UTF-8", path, t->name);
    *offset += bytes;
    return ST_OK;
}

static status header_put(struct file_writer *writer, json_t *header, uint64_t *header_bytes)
{
    char *text = json_text(header, JSON_COMPACT | JSON_ENSURE_ASCII);
    if (text == NULL) FAIL(MEMORY, "%s: no memory for the header", writer->path);
    uint64_t text_bytes = strlen(text);
    uint64_t padded_bytes = ((LENGTH_BYTES + text_bytes + 63) & ~(uint64_t)63) - LENGTH_BYTES;
    static const char spaces[64] = "                                                                ";
    status st = ST_OK;
    if (padded_bytes > SAFETENSORS_HEADER_BYTES_MAX)
        st = status_fail(ST_INVALID, __FILE__, __LINE__,
                         "%s: the names and shapes take %" PRIu64 " bytes, more than %" PRIu64, writer->path,
                         padded_bytes, SAFETENSORS_HEADER_BYTES_MAX);
    if (st == ST_OK) st = file_writer_put(writer, &padded_bytes, LENGTH_BYTES);
    if (st == ST_OK) st = file_writer_put(writer, text, text_bytes);
    if (st == ST_OK) st = file_writer_put(writer, spaces, padded_bytes - text_bytes);
    free(text);
    *header_bytes = LENGTH_BYTES + padded_bytes;
    return st;
}

status safetensors_header_put(struct file_writer *writer, const struct safetensors_tensor *tensors,
                              uint32_t tensor_count, uint64_t *file_bytes)
{
    CHECK(writer->written_bytes == 0);
    uint64_t data_bytes = 0, header_bytes = 0;
    status st = ST_OK;
    json_t *header = json_pack("{s:{s:s}}", "__metadata__", "format", "heterps");
    if (header == NULL) FAIL(MEMORY, "%s: no memory for the header", writer->path);
    for (uint32_t i = 0; i < tensor_count && st == ST_OK; i++)
        st = header_add(header, writer->path, &tensors[i], &data_bytes);
    if (st == ST_OK) st = header_put(writer, header, &header_bytes);
    json_decref(header);
    *file_bytes = header_bytes + data_bytes;
    return st;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Takes a natural number that JSON can hold. */
static bool natural(const json_t *value, uint64_t *number)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
    *number = (uint64_t)json_integer_value(value);
    return true;
}

/* Fills in *t from its entry; `data` and `bytes`: the file's data. */
static status tensor_read(struct safetensors_tensor *t, const char *path, const char *name, const json_t *entry,
                          const uint8_t *data, uint64_t bytes)
{
    const json_t *dtype = json_object_get(entry, "dtype"), *shape = json_object_get(entry, "shape"),
                 *offsets = json_object_get(entry, "data_offsets");
    if (!json_is_object(entry) || json_object_size(entry) != 3 || !json_is_string(dtype) || !json_is_array(shape) ||
        json_array_size(offsets) != 2)
        FAIL(INVALID, "%s: tensor \"%" NAME_SHOWN "\" is not described by dtype, shape and data_offsets [begin, end]",
             path, name);

    t->name = name;
    t->type = 0;
    while (t->type < SAFETENSORS_TYPE_COUNT && strcmp(types[t->type].name, json_string_value(dtype)) != 0) t->type++;
    if (t->type == SAFETENSORS_TYPE_COUNT)
        FAIL(INVALID, "%s: tensor \"%" NAME_SHOWN "\" has the unknown dtype \"%.20s\"", path, name,
             json_string_value(dtype));

    if (json_array_size(shape) > SAFETENSORS_RANK_MAX)
        FAIL(INVALID, "%s: tensor \"%" NAME_SHOWN "\" has %zu dimensions, more than %u", path, name,
             json_array_size(shape), SAFETENSORS_RANK_MAX);
    t->rank = (uint32_t)json_array_size(shape);
    for (uint32_t i = 0; i < t->rank; i++)
        if (!natural(json_array_get(shape, i), &t->shape[i]))
            FAIL(INVALID, "%s: tensor \"%" NAME_SHOWN "\": dimension %u of its shape is not a natural number", path,
                 name, i);

    uint64_t begin, end;
    if (!natural(json_array_get(offsets, 0), &begin) || !natural(json_array_get(offsets, 1), &end) || begin > end ||
        end > bytes)
        FAIL(INVALID,
             "%s: tensor \"%" NAME_SHOWN "\": its data_offsets do not lie within the %" PRIu64 " bytes of data", path,
             name, bytes);
    if (!safetensors_tensor_bytes(t, &t->bytes) || t->bytes != end - begin)
        FAIL(INVALID,
             "%s: tensor \"%" NAME_SHOWN "\": its shape does not have the %" PRIu64 " bytes of its data_offsets", path,
             name, end - begin);
    t->data = data + begin;
    return ST_OK;
}

/* In the order of data; an empty array comes before the one that starts at the same byte. */
static int tensor_compare(const void *a, const void *b)
{
    const struct safetensors_tensor *x = a, *y = b;
    if (x->data != y->data) return x->data < y->data ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Checks that the sorted arrays fill the data exactly. */
static status coverage_check(const struct safetensors *file, const char *path, const uint8_t *data, uint64_t bytes)
{
    const uint8_t *end = data;
    for (uint32_t i = 0; i < file->tensor_count; i++) {
        const struct safetensors_tensor *t = &file->tensors[i];
        if (t->data != end)
            FAIL(INVALID, "%s: tensor \"%" NAME_SHOWN "\" begins at byte %td of the data, where %s ends at %td", path,
                 t->name, t->data - data, i ? "the one before it" : "the header", end - data);
        end += t->bytes;
    }
    if (end != data + bytes)
        FAIL(INVALID, "%s: the data has %" PRIu64 " bytes, its tensors %td", path, bytes, end - data);
    return ST_OK;
}

static status metadata_check(const char *path, const json_t *metadata)
{
    const char *key;
    json_t *value;
    if (!json_is_object(metadata)) FAIL(INVALID, "%s: __metadata__ is not an object", path);
    json_object_foreach((json_t *)metadata, key, value) if (!json_is_string(value))
        FAIL(INVALID, "%s: __metadata__: \"%" NAME_SHOWN "\" is not a text", path, key);
    return ST_OK;
}

static status tensors_read(struct safetensors *file, const char *path, const uint8_t *data, uint64_t bytes)
{
    const char *name;
    json_t *entry;
    size_t count = json_object_size(file->json);
    file->tensors = calloc(count ? count : 1, sizeof *file->tensors);
    if (file->tensors == NULL) FAIL(MEMORY, "%s: no memory for %zu tensors", path, count);
    json_object_foreach((json_t *)file->json, name, entry)
    {
        if (strcmp(name, "__metadata__") == 0)
            TRY(metadata_check(path, entry));
        else
            TRY(tensor_read(&file->tensors[file->tensor_count++], path, name, entry, data, bytes));
    }
    qsort(file->tensors, file->tensor_count, sizeof *file->tensors, tensor_compare);
    return coverage_check(file, path, data, bytes);
}

status safetensors_open(struct safetensors *file, const char *path, const uint8_t *data, size_t bytes)
{
    *file = (struct safetensors){0};
    uint64_t header_bytes;
    if (bytes < LENGTH_BYTES) FAIL(INVALID, "%s: %zu bytes are too few for a safetensors file", path, bytes);
    memcpy(&header_bytes, data, LENGTH_BYTES);
    if (header_bytes > bytes - LENGTH_BYTES || header_bytes > SAFETENSORS_HEADER_BYTES_MAX)
        FAIL(INVALID, "%s: byte 0: a header of %" PRIu64 " bytes, in a file of %zu; at most %" PRIu64 " are read", path,
             header_bytes, bytes, SAFETENSORS_HEADER_BYTES_MAX);

    json_error_t error;
    json_t *header = json_text_load((const char *)data + LENGTH_BYTES, header_bytes, &error);
    if (header == NULL) {
        if (errno == ENOMEM) FAIL(MEMORY, "%s: no memory for the header", path);
        FAIL(INVALID, "%s: byte %" PRIu64 ": %s", path, (uint64_t)LENGTH_BYTES + (uint64_t)error.position, error.text);
    }
    file->json = header;
    status st;
    if (json_is_object(header))
        st = tensors_read(file, path, data + LENGTH_BYTES + header_bytes, bytes - LENGTH_BYTES - header_bytes);
    else
        st = status_fail(ST_INVALID, __FILE__, __LINE__, "%s: byte %zu: expected an object", path, LENGTH_BYTES);
    if (st != ST_OK) safetensors_close(file);
    return st;
}

void safetensors_close(struct safetensors *file)
{
    free(file->tensors);
    json_decref(file->json);
    *file = (struct safetensors){0};
}
