/* Lists of files, as flags and settings have them: names separated by commas. Blanks around a name do not
 * count, so that "a.csv, b.csv" is what it looks like; a name that begins with one is given as "./ name". A
 * comma of a name is written as "\,", and any other backslash means itself; a name that ends in one has a
 * blank behind it: "a\ ,b". "-" is standard input, wherever a list is of data to read, and "http://HOST/…"
 * what a server has; a comma in such an address is written as %2C. */
#ifndef HETERPS_BASE_PATHS_H
#define HETERPS_BASE_PATHS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"

/* Takes the next name off the list at *paths, which becomes NULL after the last name; false: there was none.
 * The name is as the list has it: path_take and path_copy make a file's name of it. A name may be empty
 * ("a,,b", ""). */
bool paths_next(const char **paths, const char **name, size_t *bytes);
uint32_t paths_count(const char *paths);
/* Writes the file's name of a name that paths_next has given, or of its front, without a final 0. Returns its
 * end; it has at most `bytes`. */
char *path_take(char *to, const char *name, size_t bytes);
/* The same, with a final 0, cut where it is longer than any path. */
const char *path_copy(char path[PATH_MAX], const char *name, size_t bytes);
/* Whether a name is an address, SCHEME://…, and no file. io/net/web_address.h refuses addresses that
 * are not http's, with a sentence. */
bool path_is_address(const char *name, size_t bytes);
/* Whether one of the names is an address. */
bool paths_have_address(const char *paths);
/* Bytes of a name that may be shown and kept. Of an address: all before its query, because the query may give
 * access (an address signed for a time). Of an address with a name and a password: "http://" alone. */
size_t path_shown_bytes(const char *name, size_t bytes);
/* A copy of a model's text of *bytes bytes, in which each address has its shown bytes alone; malloc'd, *bytes
 * long. MEMORY. */
MUST_USE status text_shown(char **shown, const char *text, size_t *bytes);
/* Whether a name is an address with a query: what follows its comma may be more of it, and not a file. */
bool path_has_query(const char *name, size_t bytes);
/* The list as messages may show it: the list itself; or, if it has addresses, what may be shown
 * of each name, in `text`, cut to its size. A file after an address with a query may be more of
 * the query, and is shown as "…". */
#define PATHS_SHOWN_BYTES 512u
const char *paths_shown(char text[PATHS_SHOWN_BYTES], const char *paths);
/* Whether one of the names is "-". */
bool paths_name_stdin(const char *paths);
/* Whether one of the names can be read only once: "-", or a file that is neither a regular file nor a
 * folder. Addresses are not looked at. */
bool paths_have_stream(const char *paths);

/* The list with each name taken relative to the folder of `file`, whose commas are written as a list has
 * them; "-" and addresses stay. malloc'd: yours, NULL after a failure. MEMORY. IO: a file is not there, but
 * in the working directory, by the same name. */
MUST_USE status paths_beside(char **paths, const char *file, const char *list);

#endif
