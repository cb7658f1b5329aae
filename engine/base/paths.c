/* Takes lists of files apart. */
#include "engine/base/paths.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

/* Whether a comma of a name is written here. */
static bool is_comma(const char *at) { return at[0] == '\\' && at[1] == ','; }

bool paths_next(const char **paths, const char **name, size_t *bytes)
{
    const char *at = *paths;
    if (at == NULL) return false;
    const char *end = at;
    while (*end && *end != ',') end += is_comma(end) ? 2 : 1;
    *paths = *end ? end + 1 : NULL;
    while (at < end && is_blank(*at)) at++;
    while (end > at && is_blank(end[-1])) end--;
    *name = at;
    *bytes = (size_t)(end - at);
    return true;
}

uint32_t paths_count(const char *paths)
{
    uint32_t count = 0;
    const char *name;
    size_t bytes;
    while (paths_next(&paths, &name, &bytes)) count++;
    return count;
}

char *path_take(char *to, const char *name, size_t bytes)
{
    for (const char *end = name + bytes; name < end; name++) {
        if (end - name > 1 && is_comma(name)) name++;
        *to++ = *name;
    }
    return to;
}

const char *path_copy(char path[PATH_MAX], const char *name, size_t bytes)
{
    *path_take(path, name, bytes < PATH_MAX - 1 ? bytes : PATH_MAX - 1) = 0;
    return path;
}

/* Bytes of "SCHEME://" in front (RFC 3986, 3.1), whichever the scheme is; 0: it is a file's name. */
static size_t scheme_bytes(const char *name, size_t bytes)
{
    size_t at = 0;
    while (at < bytes &&
           (isalpha((uint8_t)name[at]) || (at > 0 && (isdigit((uint8_t)name[at]) || memchr("+-.", name[at], 3)))))
        at++;
    return at && at + 3 <= bytes && memcmp(name + at, "://", 3) == 0 ? at + 3 : 0;
}

bool path_is_address(const char *name, size_t bytes) { return scheme_bytes(name, bytes) > 0; }

bool paths_have_address(const char *paths)
{
    const char *name;
    size_t bytes;
    while (paths_next(&paths, &name, &bytes))
        if (path_is_address(name, bytes)) return true;
    return false;
}

size_t path_shown_bytes(const char *name, size_t bytes)
{
    const size_t scheme = scheme_bytes(name, bytes);
    size_t shown = scheme;
    if (scheme == 0) return bytes;
    while (shown < bytes && !memchr("/?#", name[shown], 3))
        if (name[shown++] == '@') return scheme;
    while (shown < bytes && name[shown] != '?' && name[shown] != '#') shown++;
    return shown;
}

/* What ends a word of a model's text. */
static bool is_between(char c) { return memchr(" \t\r\n,", c, 5) != NULL; }

status text_shown(char **shown, const char *text, size_t *bytes)
{
    char *to = *shown = malloc(*bytes + 1);
    if (to == NULL) FAIL(MEMORY, "no memory for a text of %zu bytes", *bytes);
    for (const char *at = text, *end = text + *bytes, *stop; at < end; at = stop) {
        for (stop = at; stop < end && !is_between(*stop);) stop++;
        const size_t kept = path_shown_bytes(at, (size_t)(stop - at));
        memcpy(to, at, kept);
        to += kept;
        while (stop < end && is_between(*stop)) *to++ = *stop++;
    }
    *bytes = (size_t)(to - *shown);
    *to = 0;
    return ST_OK;
}

bool path_has_query(const char *name, size_t bytes)
{
    return path_is_address(name, bytes) && memchr(name, '?', bytes) != NULL;
}

const char *paths_shown(char text[PATHS_SHOWN_BYTES], const char *paths)
{
    const char *rest = paths, *name;
    size_t bytes, at = 0;
    bool has_query = false;
    if (!paths_have_address(paths)) return paths;
    for (uint32_t i = 0; paths_next(&rest, &name, &bytes); i++) {
        const bool may_be_query = has_query && bytes > 1 && !path_is_address(name, bytes);
        if (path_is_address(name, bytes)) has_query = path_has_query(name, bytes);
        if (may_be_query) {
            name = "…";
            bytes = strlen(name);
        }
        if (i && at + 1 < PATHS_SHOWN_BYTES) text[at++] = ',';
        bytes = path_shown_bytes(name, bytes);
        if (bytes > PATHS_SHOWN_BYTES - 1 - at) bytes = PATHS_SHOWN_BYTES - 1 - at;
        memcpy(text + at, name, bytes);
        at += bytes;
    }
    text[at] = 0;
    return text;
}

static bool is_stdin(const char *name, size_t bytes) { return bytes == 1 && *name == '-'; }

bool paths_name_stdin(const char *paths)
{
    const char *name;
    size_t bytes;
    while (paths_next(&paths, &name, &bytes))
        if (is_stdin(name, bytes)) return true;
    return false;
}

bool paths_have_stream(const char *paths)
{
    char path[PATH_MAX];
    const char *name;
    size_t bytes;
    struct stat about;
    if (paths_name_stdin(paths)) return true;
    while (paths_next(&paths, &name, &bytes))
        if (stat(path_copy(path, name, bytes), &about) == 0 && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode))
            return true;
    return false;
}

/* Whoever gives a name from the working directory is told where it is looked for. */
static status beside_check(const char *file, const char *list, const char *beside)
{
    char here[PATH_MAX], there[PATH_MAX];
    const char *name;
    size_t bytes;
    struct stat about;
    while (paths_next(&list, &name, &bytes)) {
        path_copy(here, name, bytes);
        if (paths_next(&beside, &name, &bytes)) path_copy(there, name, bytes);
        if (stat(here, &about) != 0 || stat(there, &about) == 0 || errno != ENOENT) continue;
        FAIL(IO,
             "%s: %s; %s is taken relative to the folder of %s; to read that of the working directory, give its whole "
             "path",
             there, strerror(ENOENT), here, file);
    }
    return ST_OK;
}

status paths_beside(char **paths, const char *file, const char *list)
{
    const char *slash = strrchr(file, '/'), *name;
    size_t folder_bytes = slash ? (size_t)(slash - file) + 1 : 0, bytes;
    const size_t bytes_max = strlen(list) + 2 * paths_count(list) * folder_bytes + 1;
    const char *const names = list;
    char *end = *paths = malloc(bytes_max);
    if (end == NULL) FAIL(MEMORY, "no memory for the paths %s, %zu bytes", list, bytes_max);
    while (paths_next(&list, &name, &bytes)) {
        bool is_relative = bytes && *name != '/' && !is_stdin(name, bytes) && !path_is_address(name, bytes);
        for (size_t i = 0; is_relative && i < folder_bytes; i++) {
            if (file[i] == ',') *end++ = '\\';
            *end++ = file[i];
        }
        end = mempcpy(end, name, bytes);
        if (list) *end++ = ',';
    }
    *end = 0;
    status st = beside_check(file, names, *paths);
    if (st == ST_OK) return ST_OK;
    free(*paths);
    *paths = NULL;
    return st;
}
