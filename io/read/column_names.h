/* Names of columns in a list, as data.columns has them: "id, I1..I13, label". */
#ifndef HETERPS_IO_READ_COLUMN_NAMES_H
#define HETERPS_IO_READ_COLUMN_NAMES_H

#include <stddef.h>

#include "engine/base/status.h"

/* Calls `name` for each name of the list, in order; a range of numbers, PREFIX M..PREFIX N, stands for all of
 * its names. Spaces around a name do not count. The text ends with a NUL and is valid for the call. Returns
 * what `name` fails with. INVALID: an empty name, one of more than COLUMN_NAME_BYTES_MAX bytes; the message
 * begins with `giver`, the setting or flag that gives the list. */
#define COLUMN_NAME_BYTES_MAX 4096u
MUST_USE status column_names_each(const char *giver, const char *list,
                                  status (*name)(void *to, const char *text, size_t bytes), void *to);

#endif
