/* Takes lists of files apart. */
#include "engine/base/paths.h"

#include <stdlib.h>
#include <string.h>

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

bool paths_next(const char **paths, const char **name, size_t *bytes)
{
    const char *at = *paths;
    if (at == NULL) return false;
    const char *end = at + strcspn(at, ",");
    *paths = *end ? end + 1 : NULL;
    while (at < end && is_blank(*at)) at++;
    while (end > at && is_blank(end[-1])) end--;
    *name = at;
    *bytes = (size_t)(end - at);
    return true;
}

uint32_t paths_count(const char *paths)
{
    uint32_t count = 1;
    for (; *paths; paths++) count += *paths == ',';
    return count;
}

const char *path_copy(char path[PATH_MAX], const char *name, size_t bytes)
{
    if (bytes > PATH_MAX - 1) bytes = PATH_MAX - 1;
    memcpy(path, name, bytes);
    path[bytes] = 0;
    return path;
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

status paths_beside(char **paths, const char *file, const char *list)
{
    const char *slash = strrchr(file, '/'), *name;
    size_t folder_bytes = slash ? (size_t)(slash - file) + 1 : 0, bytes;
    const size_t bytes_max = strlen(list) + paths_count(list) * folder_bytes + 1;
    char *end = *paths = malloc(bytes_max);
    if (end == NULL) FAIL(MEMORY, "no memory for the paths %s, %zu bytes", list, bytes_max);
    while (paths_next(&list, &name, &bytes)) {
        bool is_relative = bytes && *name != '/' && !is_stdin(name, bytes);
        if (is_relative) end = mempcpy(end, file, folder_bytes);
        end = mempcpy(end, name, bytes);
        if (list) *end++ = ',';
    }
    *end = 0;
    return ST_OK;
}
