/* Lists of files, as flags and settings have them: names separated by commas. Blanks around a name do not count, so
 * that "a.csv, b.csv" is what it looks like; a name that begins with one is given as "./ name". "-" is standard input,
 * wherever a list is of data to read, and "http://HOST/…" what a server has; a comma in such an address is written as
 * %2C. */
#ifndef HETERPS_BASE_PATHS_H
#define HETERPS_BASE_PATHS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"

/* Takes the next name off the list at *paths, which is NULL behind the last one; false: there was none. A name may be
 * empty ("a,,b", ""). */
bool paths_next(const char **paths, const char **name, size_t *bytes);
uint32_t paths_count(const char *paths);
/* A name that paths_next has given, with its final 0, cut where it is longer than any path. */
const char *path_copy(char path[PATH_MAX], const char *name, size_t bytes);
/* Whether a name is an address of the web, "http://…" or "https://…", and no file. */
bool path_is_address(const char *name, size_t bytes);
/* Whether one of the names is an address. */
bool paths_have_address(const char *paths);
/* Bytes of a name that may be shown and kept: of an address all before its query, which may have what opens it to
 * whoever holds it (an address signed for a time); of one with a name and a password, "http://" alone. */
size_t path_shown_bytes(const char *name, size_t bytes);
/* Whether a name is an address with a query: what follows its comma may be more of it, and not a file. */
bool path_has_query(const char *name, size_t bytes);
/* The list for messages: itself, or, where it has addresses, what may be shown of each name, in `text`, which cuts
 * it. A file behind an address with a query may be more of the query, and is "…". */
#define PATHS_SHOWN_BYTES 512u
const char *paths_shown(char text[PATHS_SHOWN_BYTES], const char *paths);
/* Whether one of the names is "-". */
bool paths_name_stdin(const char *paths);
/* Whether one of them can be read only once: "-", or a file that is there and is none of a regular one and a folder. Of
 * addresses it is not asked. */
bool paths_have_stream(const char *paths);

/* The list with each name taken relative to the folder of `file`; "-" and addresses stay. malloc'd: yours, NULL after
 * a failure (MEMORY). */
MUST_USE status paths_beside(char **paths, const char *file, const char *list);

#endif
