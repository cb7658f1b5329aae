/* Checks of JSON values, one by one. */
#include "engine/base/json_text.h"
#include "sched/json_read.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HASH_DIGITS 16
#define FOUND_BYTES 96
#define ELLIPSIS    "…"

/* --- what is wrong, and where ----------------------------------------------------------------- */

/* A value as messages show it: numbers and the beginning of texts as they are, of other values the kind. */
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

status json_part_wrong(const struct json_part *part, const char *key, const json_t *value, const char *expected_format,
                       ...)
{
    char expected[512], found[FOUND_BYTES];
    va_list arguments;
    va_start(arguments, expected_format);
    vsnprintf(expected, sizeof expected, expected_format, arguments);
    va_end(arguments);
    FAIL(INVALID, "%s: %s%s%s: expected %s, found %s", part->path, part->place, part->place[0] && key[0] ? "." : "",
         key, expected, found_text(value, found));
}

/* --- the whole -------------------------------------------------------------------------------- */

/* Bounds the values of a text before it is parsed. */
static status size_check(const char *path, const char *text, size_t bytes, const char *noun)
{
    if (bytes > JSON_FILE_BYTES_MAX)
        FAIL(INVALID, "%s: expected %s of at most %zu bytes, found %zu", path, noun, JSON_FILE_BYTES_MAX, bytes);
    size_t value_count = 0;
    for (size_t i = 0; i < bytes; i++) value_count += text[i] == ',' || text[i] == '[' || text[i] == '{';
    if (value_count > JSON_VALUES_MAX)
        FAIL(INVALID, "%s: expected %s of at most %zu values, found about %zu", path, noun, JSON_VALUES_MAX,
             value_count);
    return ST_OK;
}

static status whole_check(const struct json_part *whole, const char *format, const char *other)
{
    if (!json_is_object(whole->object)) return json_part_wrong(whole, "the file", whole->object, "an object");
    const json_t *found = json_object_get(whole->object, "format");
    const char *text = json_is_string(found) ? json_string_value(found) : "";
    if (strcmp(text, format) == 0 || (other && strcmp(text, other) == 0)) return ST_OK;
    if (other == NULL) return json_part_wrong(whole, "format", found, "\"%s\"", format);
    return json_part_wrong(whole, "format", found, "\"%s\" or \"%s\"", format, other);
}

status json_part_open(struct json_part *whole, const char *path, const char *text, size_t bytes, const char *noun,
                      const char *format, const char *other_format)
{
    json_error_t error;
    *whole = (struct json_part){.path = path};
    TRY(size_check(path, text, bytes, noun));
    json_t *json = json_text_load(text, bytes, &error);
    if (json == NULL && errno == ENOMEM) FAIL(MEMORY, "%s: no memory to read its %zu bytes", path, bytes);
    if (json == NULL) FAIL(INVALID, "%s:%d:%d: %s", path, error.line, error.column, error.text);
    whole->object = json;
    status st = whole_check(whole, format, other_format);
    if (st != ST_OK) json_part_close(whole);
    return st;
}

void json_part_close(struct json_part *whole)
{
    json_decref(whole->object);
    whole->object = NULL;
}

/* --- values ----------------------------------------------------------------------------------- */

bool json_is_natural(const json_t *value, uint64_t *number)
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

status json_part_u64(const struct json_part *part, const char *key, enum json_need need, uint64_t min, uint64_t max,
                     uint64_t *number)
{
    const json_t *value = json_object_get(part->object, key);
    uint64_t read;
    if (value == NULL && need == JSON_OPTIONAL) return ST_OK;
    if (!json_is_natural(value, &read) || read < min || read > max)
        return json_part_wrong(part, key, value, "a whole number from %" PRIu64 " to %" PRIu64, min, max);
    *number = read;
    return ST_OK;
}

status json_part_u32(const struct json_part *part, const char *key, enum json_need need, uint32_t min, uint32_t max,
                     uint32_t *number)
{
    uint64_t read = *number;
    TRY(json_part_u64(part, key, need, min, max, &read));
    *number = (uint32_t)read;
    return ST_OK;
}

status json_value_real(const struct json_part *part, const char *key, const json_t *value, double min, double max,
                       double *number)
{
    char range[64];
    double read = json_number_value(value); /* 0 if the value is no number */
    if (json_is_number(value) && read >= min && read <= max) {
        *number = read;
        return ST_OK;
    }
    if (max < RESOURCE_FIGURE_MAX || read > max)
        snprintf(range, sizeof range, "from %.15g to %.15g", min, max);
    else if (min == RESOURCE_FIGURE_MIN)
        snprintf(range, sizeof range, "above 0");
    else
        snprintf(range, sizeof range, "of at least %.15g", min);
    return json_part_wrong(part, key, value, "a number %s", range);
}

status json_part_real(const struct json_part *part, const char *key, enum json_need need, double min, double max,
                      double *number)
{
    const json_t *value = json_object_get(part->object, key);
    if (value == NULL && need == JSON_OPTIONAL) return ST_OK;
    return json_value_real(part, key, value, min, max, number);
}

/* The first control character, or the end. */
static const char *control_find(const char *text)
{
    while (*text && (uint8_t)*text >= 0x20 && *text != 0x7F) text++;
    return text;
}

bool json_is_plain(const char *text)
{
    json_t *json = json_string(text); /* NULL if it is not UTF-8 */
    json_decref(json);
    return json != NULL && *control_find(text) == 0;
}

status json_part_text(const struct json_part *part, const char *key, enum json_need need, uint32_t bytes_max,
                      char *buffer)
{
    const json_t *value = json_object_get(part->object, key);
    if (value == NULL && need == JSON_OPTIONAL) return ST_OK;
    size_t min = need == JSON_REQUIRED ? 1 : 0;
    const char *read = json_string_value(value);
    if (read == NULL || strlen(read) < min || strlen(read) > bytes_max)
        return json_part_wrong(part, key, value, "a text of %zu to %u bytes", min, bytes_max);
    const char *control = control_find(read);
    if (*control)
        return json_part_wrong(part, key, value, "a text without control characters (0x%02x at its byte %zu)",
                               (uint8_t)*control, (size_t)(control - read));
    memcpy(buffer, read, strlen(read) + 1);
    return ST_OK;
}

status json_part_hash(const struct json_part *part, const char *key, bool *is_given, uint64_t *hash)
{
    const json_t *value = json_object_get(part->object, key);
    if (value == NULL) return ST_OK;
    const char *text = json_string_value(value);
    if (text == NULL || strlen(text) != HASH_DIGITS || strspn(text, "0123456789abcdef") != HASH_DIGITS)
        return json_part_wrong(part, key, value, "%d digits 0-9a-f", HASH_DIGITS);
    *hash = strtoull(text, NULL, 16);
    *is_given = true;
    return ST_OK;
}

status json_part_list(const struct json_part *part, const char *key, uint32_t count_max, json_t **list)
{
    *list = json_object_get(part->object, key);
    if (!json_is_array(*list) || json_array_size(*list) < 1 || json_array_size(*list) > count_max)
        return json_part_wrong(part, key, *list, "a list of 1 to %u objects", count_max);
    return ST_OK;
}

status json_part_item(const struct json_part *whole, const char *key, json_t *list, uint32_t index,
                      struct json_part *part)
{
    *part = (struct json_part){.path = whole->path, .object = json_array_get(list, index)};
    snprintf(part->place, sizeof part->place, "%s[%u]", key, index);
    if (!json_is_object(part->object)) return json_part_wrong(part, "", part->object, "an object");
    return ST_OK;
}

status json_part_member(const struct json_part *whole, const char *key, struct json_part *part)
{
    *part = (struct json_part){.path = whole->path, .object = json_object_get(whole->object, key)};
    snprintf(part->place, sizeof part->place, "%s", key);
    if (part->object != NULL && !json_is_object(part->object))
        return json_part_wrong(part, "", part->object, "an object");
    return ST_OK;
}

/* Adds a node to those before it. */
static status node_add(const struct json_part *part, const char *key, const json_t *value, uint32_t count,
                       uint64_t *nodes)
{
    uint64_t node;
    const uint32_t least = *nodes ? 64 - (uint32_t)__builtin_clzll(*nodes) : 0;
    if (least >= count) return json_part_wrong(part, key, value, "nothing: all nodes up to %u are there", count - 1);
    if (!json_is_natural(value, &node) || node < least || node >= count)
        return json_part_wrong(part, key, value, "a whole number from %u to %u", least, count - 1);
    *nodes |= UINT64_C(1) << node;
    return ST_OK;
}

status json_part_nodes(const struct json_part *part, uint32_t count, uint64_t *nodes)
{
    const json_t *node = json_object_get(part->object, "node"), *list = json_object_get(part->object, "nodes");
    *nodes = 0;
    if (node && list) return json_part_wrong(part, "nodes", list, "none beside \"node\"");
    if (node) return node_add(part, "node", node, count, nodes);
    if (list == NULL) return ST_OK;
    if (!json_is_array(list) || json_array_size(list) == 0)
        return json_part_wrong(part, "nodes", list, "a list of nodes in ascending order");
    for (uint32_t i = 0; i < json_array_size(list); i++) {
        char place[32];
        snprintf(place, sizeof place, "nodes[%u]", i);
        TRY(node_add(part, place, json_array_get(list, i), count, nodes));
    }
    return ST_OK;
}

bool json_nodes_put(json_t *object, uint64_t nodes)
{
    const bool is_one = (nodes & (nodes - 1)) == 0;
    json_t *list = is_one ? NULL : json_array();
    bool is_whole = true;
    if (is_one) return json_object_set_new(object, "node", json_integer(__builtin_ctzll(nodes))) == 0;
    for (uint64_t left = nodes; left; left &= left - 1)
        is_whole = json_array_append_new(list, json_integer(__builtin_ctzll(left))) == 0 && is_whole;
    return json_object_set_new(object, "nodes", list) == 0 && is_whole;
}

status json_part_slow(const struct json_part *part, struct resource_slow *slow)
{
    char text[RESOURCE_SLOW_BYTES + 1] = "";
    TRY(json_part_text(part, "slow", JSON_OPTIONAL, RESOURCE_SLOW_BYTES, text));
    TRY(json_part_u64(part, "slow_from", JSON_OPTIONAL, 0, INT64_MAX, &slow->from_step));
    TRY(json_part_u64(part, "slow_for", JSON_OPTIONAL, 0, INT64_MAX, &slow->for_steps));
    TRY(json_part_u64(part, "slow_every", JSON_OPTIONAL, 0, INT64_MAX, &slow->every_steps));
    if (resource_slow_parse(text, slow) == ST_OK && resource_slow_turns_check(slow) == ST_OK) return ST_OK;
    FAIL(INVALID, "%s: %s.slow: %s", part->path, part->place, status_message());
}

bool json_slow_put(json_t *object, const struct resource_slow *slow)
{
    char text[RESOURCE_SLOW_BYTES + 1];
    if (!resource_is_slowed(slow)) return true;
    resource_slow_text(slow, text, sizeof text);
    if (json_object_set_new(object, "slow", json_string(text)) != 0 ||
        json_object_set_new(object, "slow_from", json_integer((json_int_t)slow->from_step)) != 0)
        return false;
    if (slow->for_steps == 0) return true;
    return json_object_set_new(object, "slow_for", json_integer((json_int_t)slow->for_steps)) == 0 &&
           json_object_set_new(object, "slow_every", json_integer((json_int_t)slow->every_steps)) == 0;
}

json_t *json_resource(const struct resource_type *type, uint32_t limit)
{
    char device[32];
    json_t *object = json_pack("{s:s, s:s, s:f, s:I}", "name", type->name, "device",
                               resource_device_text(type, device, sizeof device), "price_per_hour",
                               type->price_per_hour, "limit", (json_int_t)limit);
    CHECK(json_slow_put(object, &type->slow));
    return object;
}

json_t *json_figure(double number)
{
    bool is_whole = number >= -0x1p53 && number <= 0x1p53 && (double)(json_int_t)number == number;
    return is_whole ? json_integer((json_int_t)number) : json_real(number);
}
