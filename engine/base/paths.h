/* Lists of files, as flags and settings have them: names separated by commas. Blanks around a name do not count, so that "a.csv, b.csv" is what it
 * looks like; a name that begins with one is given as "./ name". "-" is standard input, wherever a list is of data to read. */
#ifndef HETERPS_BASE_PATHS_H
#define HETERPS_BASE_PATHS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"

/* Takes the next name off the list at *paths, which is NULL behind the last one; false: there was none. A name may be empty ("a,,b", ""). */
bool paths_next(const char **paths, const char **name, size_t *bytes);
uint32_t paths_count(const char *paths);
/* A name that paths_next has given, with its final 0, cut where it is longer than any path. */
const char *path_copy(char path[PATH_MAX], const char *name, size_t bytes);
/* Whether one of the names is "-". */
bool paths_name_stdin(const char *paths);

/* The list with each name taken relative to the folder of `file`; "-" stays. malloc'd: yours, NULL after a failure (MEMORY). */
MUST_USE status paths_beside(char **paths, const char *file, const char *list);

#endif
