/* Writes and reads .npy files (the format is in the header). A model has tens of them, each read once a
 * start: the header is parsed in place, by hand, because it needs only five kinds of Python's literals. */
#include "io/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAGIC       "\x93NUMPY"
#define MAGIC_BYTES 6u
/* Magic, version, and the length of the header. */
#define START_BYTES(major) (MAGIC_BYTES + 2 + ((major) == 1 ? 2u : 4u))
/* The longest header that this file writes: eight dimensions of 20 digits. */
#define HEADER_ROOM 384u
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements and lengths are used as they lie in memory");

static const char *const descr[SAFETENSORS_TYPE_COUNT] = {
    [SAFETENSORS_BOOL] = "|b1", [SAFETENSORS_U8] = "|u1",  [SAFETENSORS_I8] = "|i1",   [SAFETENSORS_U16] = "<u2",
    [SAFETENSORS_I16] = "<i2",  [SAFETENSORS_F16] = "<f2", [SAFETENSORS_BF16] = "<V2", [SAFETENSORS_U32] = "<u4",
    [SAFETENSORS_I32] = "<i4",  [SAFETENSORS_F32] = "<f4", [SAFETENSORS_U64] = "<u8",  [SAFETENSORS_I64] = "<i8",
    [SAFETENSORS_F64] = "<f8",
};

/* --- reading ---------------------------------------------------------------------------------- */

struct cursor {
    const char *path;
    const uint8_t *file, *at, *end; /* of the header */
};

/* The byte at the cursor, for messages, as a text of 16 bytes. */
static const char *found(const struct cursor *c, char text[16])
{
    if (c->at == c->end)
        snprintf(text, 16, "the end");
    else if (*c->at >= ' ' && *c->at < 0x7f)
        snprintf(text, 16, "\"%c\"", *c->at);
    else
        snprintf(text, 16, "byte 0x%02x", *c->at);
    return text;
}

static status unexpected(const struct cursor *c, const char *expected)
{
    char text[16];
    FAIL(INVALID, "%s: byte %td: expected %s, found %s", c->path, c->at - c->file, expected, found(c, text));
}

static void spaces_skip(struct cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r')) c->at++;
}

/* Whether the next byte that is no space is `byte`; then passes over it. */
static bool is_next(struct cursor *c, char byte)
{
    spaces_skip(c);
    bool is = c->at < c->end && *c->at == (uint8_t)byte;
    c->at += is;
    return is;
}

/* A text in quotes of either kind, without escapes. */
static status text_read(struct cursor *c, const char *expected, const char **text, size_t *bytes)
{
    spaces_skip(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"')) return unexpected(c, expected);
    uint8_t quote = *c->at++;
    *text = (const char *)c->at;
    while (c->at < c->end && *c->at != quote && *c->at != '\\' && *c->at != '\n') c->at++;
    if (c->at == c->end || *c->at != quote) return unexpected(c, "the end of a text");
    *bytes = (size_t)((const char *)c->at++ - *text);
    return ST_OK;
}

static bool is_text(const char *text, size_t bytes, const char *word)
{
    return strlen(word) == bytes && memcmp(text, word, bytes) == 0;
}

static status type_read(struct cursor *c, enum safetensors_type *type)
{
    const char *text;
    size_t bytes;
    spaces_skip(c);
    const uint8_t *begin = c->at;
    if (c->at < c->end && (*c->at == '[' || *c->at == '('))
        return unexpected(c, "an element type such as '<f4', not a structured one");
    TRY(text_read(c, "an element type such as '<f4'", &text, &bytes));
    for (*type = 0; *type < SAFETENSORS_TYPE_COUNT; (*type)++)
        if (is_text(text, bytes, descr[*type])) return ST_OK;
    const int shown = bytes < 40 ? (int)bytes : 40;
    if (*text == '>')
        FAIL(INVALID,
             "%s: byte %td: expected little-endian elements, found the big-endian type '%.*s'; save it as '<%.*s'",
             c->path, begin - c->file, shown, text, shown - 1, text + 1);
    FAIL(INVALID,
         "%s: byte %td: expected an element type from '<f2' to '<f8', '<V2' (bfloat16), '|b1', "
         "or an integer from '|i1' to '<u8', found '%.*s'",
         c->path, begin - c->file, shown, text);
}

static status bool_read(struct cursor *c, bool *value)
{
    spaces_skip(c);
    size_t left = (size_t)(c->end - c->at);
    *value = left >= 4 && memcmp(c->at, "True", 4) == 0;
    if (!*value && (left < 5 || memcmp(c->at, "False", 5) != 0)) return unexpected(c, "True or False");
    c->at += *value ? 4 : 5;
    return ST_OK;
}

/* Digits; an L behind them, as Python 2 wrote it, is passed over. */
static status number_read(struct cursor *c, uint64_t *number)
{
    spaces_skip(c);
    if (c->at == c->end || *c->at < '0' || *c->at > '9') return unexpected(c, "a dimension");
    const uint8_t *begin = c->at;
    for (*number = 0; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (__builtin_mul_overflow(*number, (uint64_t)10, number) ||
            __builtin_add_overflow(*number, (uint64_t)(*c->at - '0'), number))
            FAIL(INVALID, "%s: byte %td: expected a dimension, found a number beyond 64 bits", c->path,
                 begin - c->file);
    if (c->at < c->end && *c->at == 'L') c->at++;
    return ST_OK;
}

/* "()", "(3,)", "(3, 4)", "(3, 4,)". */
static status shape_read(struct cursor *c, struct safetensors_tensor *array)
{
    bool has_comma = true;
    if (!is_next(c, '(')) return unexpected(c, "a shape such as (3, 4)");
    for (array->rank = 0; !is_next(c, ')');) {
        if (!has_comma) return unexpected(c, "\",\" or \")\"");
        if (array->rank == SAFETENSORS_RANK_MAX)
            FAIL(INVALID, "%s: byte %td: expected at most %u dimensions, found more", c->path, c->at - c->file,
                 SAFETENSORS_RANK_MAX);
        TRY(number_read(c, &array->shape[array->rank++]));
        has_comma = is_next(c, ',');
        /* (3) is a number, not a shape. */
        if (!has_comma && array->rank == 1) return unexpected(c, "\",\"");
    }
    return ST_OK;
}

enum key { KEY_DESCR, KEY_FORTRAN_ORDER, KEY_SHAPE, KEY_COUNT };
static const char *const key_names[KEY_COUNT] = {"descr", "fortran_order", "shape"};

static status header_read(struct cursor *c, struct npy *npy)
{
    bool is_read[KEY_COUNT] = {false}, has_comma = true;
    if (!is_next(c, '{')) return unexpected(c, "\"{\"");
    while (!is_next(c, '}')) {
        const char *text;
        size_t bytes;
        if (!has_comma) return unexpected(c, "\",\" or \"}\"");
        const uint8_t *begin = c->at;
        TRY(text_read(c, "a key in quotes, or \"}\"", &text, &bytes));
        enum key key = 0;
        while (key < KEY_COUNT && !is_text(text, bytes, key_names[key])) key++;
        if (key == KEY_COUNT || is_read[key])
            FAIL(INVALID, "%s: byte %td: expected the keys descr, fortran_order and shape, each once, found \"%.*s\"",
                 c->path, begin - c->file, bytes < 40 ? (int)bytes : 40, text);
        is_read[key] = true;
        if (!is_next(c, ':')) return unexpected(c, "\":\"");
        if (key == KEY_DESCR) TRY(type_read(c, &npy->array.type));
        if (key == KEY_FORTRAN_ORDER) TRY(bool_read(c, &npy->is_fortran));
        if (key == KEY_SHAPE) TRY(shape_read(c, &npy->array));
        has_comma = is_next(c, ',');
    }
    for (enum key key = 0; key < KEY_COUNT; key++)
        if (!is_read[key])
            FAIL(INVALID, "%s: byte %td: expected the key %s before the header ends", c->path, c->at - c->file - 1,
                 key_names[key]);
    spaces_skip(c);
    return c->at == c->end ? ST_OK : unexpected(c, "spaces up to the end of the header");
}

status npy_open(struct npy *npy, const char *path, const uint8_t *data, size_t bytes)
{
    *npy = (struct npy){0};
    if (bytes < MAGIC_BYTES || memcmp(data, MAGIC, MAGIC_BYTES) != 0)
        FAIL(INVALID, "%s: byte 0: expected the mark of a .npy file, 0x93 \"NUMPY\", found other bytes", path);
    if (bytes < START_BYTES(1)) FAIL(INVALID, "%s: %zu bytes are too few for a .npy file", path, bytes);
    const uint8_t major = data[MAGIC_BYTES], minor = data[MAGIC_BYTES + 1];
    if (major < 1 || major > 3 || minor != 0)
        FAIL(INVALID, "%s: byte %u: expected version 1.0, 2.0 or 3.0, found %u.%u", path, MAGIC_BYTES, major, minor);
    if (bytes < START_BYTES(major)) FAIL(INVALID, "%s: %zu bytes are too few for a .npy file", path, bytes);
    uint32_t header_bytes = 0;
    memcpy(&header_bytes, data + MAGIC_BYTES + 2, START_BYTES(major) - MAGIC_BYTES - 2);
    if (header_bytes > bytes - START_BYTES(major))
        FAIL(INVALID, "%s: byte %u: expected a header within the %zu bytes of the file, found one of %" PRIu32, path,
             MAGIC_BYTES + 2, bytes, header_bytes);

    struct cursor c = {.path = path, .file = data, .at = data + START_BYTES(major)};
    c.end = c.at + header_bytes;
    TRY(header_read(&c, npy));
    struct safetensors_tensor *array = &npy->array;
    array->data = c.end;
    if (!safetensors_tensor_bytes(array, &array->bytes))
        FAIL(INVALID, "%s: byte %u: expected a shape that a file can hold, found a larger one", path,
             START_BYTES(major));
    if (array->bytes != (uint64_t)(data + bytes - c.end))
        FAIL(INVALID, "%s: byte %td: expected the %" PRIu64 " bytes of its shape, found %td", path, c.end - data,
             array->bytes, data + bytes - c.end);
    npy->is_fortran = npy->is_fortran && array->rank > 1;
    return ST_OK;
}

/* --- writing ---------------------------------------------------------------------------------- */

status npy_header_put(struct file_writer *writer, const struct safetensors_tensor *array, uint64_t *file_bytes)
{
    CHECK(writer->written_bytes == 0 && (unsigned)array->type < SAFETENSORS_TYPE_COUNT &&
          array->rank <= SAFETENSORS_RANK_MAX);
    char text[HEADER_ROOM];
    size_t end =
        (size_t)snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr[array->type]);
    for (uint32_t i = 0; i < array->rank; i++)
        end += (size_t)snprintf(text + end, sizeof text - end, "%" PRIu64 "%s", array->shape[i],
                                array->rank == 1      ? ","
                                : i + 1 < array->rank ? ", "
                                                      : "");
    end += (size_t)snprintf(text + end, sizeof text - end, "), }");
    CHECK(end + 64 < sizeof text);
    /* Up to a multiple of 64, the last byte a line feed. */
    while ((START_BYTES(1) + end + 1) % 64 != 0) text[end++] = ' ';
    text[end++] = '\n';

    uint64_t data_bytes;
    if (!safetensors_tensor_bytes(array, &data_bytes))
        FAIL(INVALID, "%s: the array is larger than a file can be", writer->path);
    *file_bytes = START_BYTES(1) + end + data_bytes;
    const uint8_t start[] = {1, 0, (uint8_t)end, (uint8_t)(end >> 8)};
    TRY(file_writer_put(writer, MAGIC, MAGIC_BYTES));
    TRY(file_writer_put(writer, start, sizeof start));
    return file_writer_put(writer, text, end);
}
