/* Small blocks of the heap; a want of memory is a status (engine/base/heap.h). */
#include "engine/base/heap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

status heap_text_of(char **text, const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    const int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    CHECK(length >= 0);
    *text = malloc((size_t)length + 1);
    if (*text == NULL) FAIL(MEMORY, "no memory for a text of %d bytes", length);
    vsnprintf(*text, (size_t)length + 1, format, arguments);
    return ST_OK;
}

status heap_text(char **text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const status st = heap_text_of(text, format, arguments);
    va_end(arguments);
    return st;
}

status heap_room(void *items, size_t count, size_t item_bytes, const char *what)
{
    size_t bytes;
    void *list;
    memcpy(&list, items, sizeof list);
    list = __builtin_mul_overflow(count, item_bytes, &bytes) ? NULL : realloc(list, bytes);
    if (list == NULL) FAIL(MEMORY, "no memory for %zu %s of %zu bytes each", count, what, item_bytes);
    memcpy(items, &list, sizeof list);
    return ST_OK;
}
