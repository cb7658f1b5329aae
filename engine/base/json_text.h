/* JSON as text. jansson's own json_dumps goes on when its buffer cannot grow in the middle of an object, and
 * returns a text with a hole; here memory is taken once, before anything is written. */
#ifndef HETERPS_BASE_JSON_TEXT_H
#define HETERPS_BASE_JSON_TEXT_H

#include <jansson.h>

/* The text that json_dumps(json, flags) would give; malloc'd: yours.
 * NULL: `json` is NULL, or there is no memory. */
char *json_text(const json_t *json, size_t flags);

/* As json_loadb(text, bytes, JSON_REJECT_DUPLICATES, error), but NULL and errno ENOMEM
 * wherever memory was short. jansson itself may then say anything in *error, or nothing, or go
 * on with a text that lacks a character. */
json_t *json_text_load(const char *text, size_t bytes, json_error_t *error);

#endif
