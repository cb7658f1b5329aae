/* JSON as text, whole or not at all (engine/base/json_text.h). */
#include "engine/base/json_text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

char *json_text(const json_t *json, size_t flags)
{
    const size_t bytes = json ? json_dumpb(json, NULL, 0, flags) : 0;
    char *text = bytes > 0 ? malloc(bytes + 1) : NULL;
    if (text == NULL) return NULL;
    if (json_dumpb(json, text, bytes, flags) == bytes) {
        text[bytes] = 0;
        return text;
    }
    free(text);
    return NULL;
}

static _Thread_local bool has_lacked;

static void *jansson_malloc(size_t bytes)
{
    void *block = malloc(bytes);
    if (block == NULL) has_lacked = true;
    return block;
}
__attribute__((constructor)) static void hook(void) { json_set_alloc_funcs(jansson_malloc, free); }

json_t *json_text_load(const char *text, size_t bytes, json_error_t *error)
{
    has_lacked = false;
    json_t *json = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, error);
    if (has_lacked) json_decref(json);
    errno = has_lacked ? ENOMEM : 0;
    return has_lacked ? NULL : json;
}
