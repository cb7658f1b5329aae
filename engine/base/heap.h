/* Small pieces of the heap: texts, and lists that grow. A want of memory is a failure like any other. Large
 * blocks, and all that is planned, come from engine/base/memory.h. */
#ifndef HETERPS_BASE_HEAP_H
#define HETERPS_BASE_HEAP_H

#include <stdarg.h>
#include <stddef.h>

#include "engine/base/status.h"

/* Formats a text into malloc'd memory: yours, NULL after a failure. MEMORY: says how many bytes. */
MUST_USE status heap_text(char **text, const char *format, ...) PRINTF_LIKE(2, 3);
MUST_USE status heap_text_of(char **text, const char *format, va_list arguments) PRINTF_LIKE(2, 0);

/* Gives the list to which the pointer at `items` points room for `count` items in all. MEMORY: the list stays
 * as it is; says of what, how many, bytes. */
MUST_USE status heap_room(void *items, size_t count, size_t item_bytes, const char *what);

#endif
