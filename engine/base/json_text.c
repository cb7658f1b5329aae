/* JSON as text, whole or not at all (engine/base/json_text.h). */
#include "engine/base/json_text.h"

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
