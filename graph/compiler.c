/* The compiler's growing lists. */
#include "graph/compiler.h"

#include <stdlib.h>
#include <string.h>

status list_add(struct list *list, void *record)
{
    if (list->count == list->max) {
        uint32_t max = list->max ? 2 * list->max : 64;
        uint32_t count_max = list->item_bytes == 1 ? GRAPH_STRINGS_BYTES_MAX : GRAPH_COUNT_MAX;
        void *items = list->count >= count_max ? NULL : realloc(list->items, max * list->item_bytes);
        if (items == NULL)
            FAIL(MEMORY, "the model needs more than %u records of one kind, or more memory than there is", list->count);
        list->items = items;
        list->max = max;
    }
    uint8_t *item = (uint8_t *)list->items + list->count++ * list->item_bytes;
    memset(item, 0, list->item_bytes);
    memcpy(record, &item, sizeof item);
    return ST_OK;
}

status compiler_string_add(struct compiler *c, const char *text, uint32_t *offset)
{
    /* The text may lie in `strings`, which moves as it grows. */
    char copy[INI_VALUE_BYTES_MAX + 1];
    size_t bytes = strlen(text) + 1;
    CHECK(bytes <= sizeof copy);
    memcpy(copy, text, bytes);
    *offset = c->strings.count;
    for (size_t i = 0; i < bytes; i++) {
        char *byte = NULL;
        TRY(list_add(&c->strings, &byte));
        *byte = copy[i];
    }
    return ST_OK;
}
