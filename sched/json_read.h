/* Reads JSON that anybody may have written: plans and instances. Every value is checked; the error names the
 * file, the place (stages[1].k), what was expected and found. Once a start. */
#ifndef HETERPS_SCHED_JSON_READ_H
#define HETERPS_SCHED_JSON_READ_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sched/resource.h"

#define JSON_FILE_BYTES_MAX ((size_t)64 << 20)
/* Values of a text, unknown ones included. A value takes up to 200 bytes once read,
 * so this bounds the memory. */
#define JSON_VALUES_MAX ((size_t)1 << 21)

/* An object of the file, with its place in it: "stages[1]", or "" for the whole. */
struct json_part {
    const char *path;
    json_t *object;
    char place[32];
};

/* Parses a text that is an object with this "format", or with the other one if that is not NULL; `noun` is
 * for messages ("a plan"). INVALID, with line and column, if the text is no JSON or has a key twice. All
 * parts borrow from the whole; after a success, json_part_close frees it. */
MUST_USE status json_part_open(struct json_part *whole, const char *path, const char *text, size_t bytes,
                               const char *noun, const char *format, const char *other_format);
void json_part_close(struct json_part *whole);

/* Always returns INVALID: "PATH: PLACE.KEY: expected …, found VALUE". value NULL: the key is absent. */
PRINTF_LIKE(4, 5)
MUST_USE status json_part_wrong(const struct json_part *part, const char *key, const json_t *value,
                                const char *expected_format, ...);

/* A natural number, also one written 2.0. */
bool json_is_natural(const json_t *value, uint64_t *number);

/* Whether a text can be written and read back: UTF-8 without control characters. */
bool json_is_plain(const char *text);

enum json_need { JSON_OPTIONAL, JSON_REQUIRED };

/* Each function below leaves its output as it is if an optional key is absent. */
MUST_USE status json_part_u64(const struct json_part *part, const char *key, enum json_need need, uint64_t min,
                              uint64_t max, uint64_t *number);
MUST_USE status json_part_u32(const struct json_part *part, const char *key, enum json_need need, uint32_t min,
                              uint32_t max, uint32_t *number);
/* Messages say "at least" for max RESOURCE_FIGURE_MAX, and "above 0" for min RESOURCE_FIGURE_MIN. */
MUST_USE status json_part_real(const struct json_part *part, const char *key, enum json_need need, double min,
                               double max, double *number);
/* The same for a value that was read already. */
MUST_USE status json_value_real(const struct json_part *part, const char *key, const json_t *value, double min,
                                double max, double *number);
/* Copies a text without control characters into buffer[bytes_max + 1]: up to bytes_max bytes, at least one if
 * required. */
MUST_USE status json_part_text(const struct json_part *part, const char *key, enum json_need need, uint32_t bytes_max,
                               char *buffer);
/* 16 digits 0-9a-f; optional. */
MUST_USE status json_part_hash(const struct json_part *part, const char *key, bool *is_given, uint64_t *hash);
/* A list of 1 to count_max objects; and an object of the list as a part. */
MUST_USE status json_part_list(const struct json_part *part, const char *key, uint32_t count_max, json_t **list);
MUST_USE status json_part_item(const struct json_part *whole, const char *key, json_t *list, uint32_t index,
                               struct json_part *part);
/* An optional object; part->object is NULL if it is absent. */
MUST_USE status json_part_member(const struct json_part *whole, const char *key, struct json_part *part);

/* "node": 0, or "nodes": [0, 2] in ascending order; bit n is set for node n < count. Neither is given: 0. */
MUST_USE status json_part_nodes(const struct json_part *part, uint32_t count, uint64_t *nodes);
/* Puts the one that fits; false: memory is short. */
bool json_nodes_put(json_t *object, uint64_t nodes);

/* "slow", "slow_from", "slow_for" and "slow_every" of a type; optional. */
MUST_USE status json_part_slow(const struct json_part *part, struct resource_slow *slow);
/* Puts them into an object if something is slowed; false: memory is short. */
bool json_slow_put(json_t *object, const struct resource_slow *slow);

/* A type of a plan. */
json_t *json_resource(const struct resource_type *type, uint32_t limit);

/* For writing: a whole number without point or exponent, as people write it; any other with all digits of a
 * double (json_text with JSON_REAL_PRECISION(17)). */
json_t *json_figure(double number);

#endif
