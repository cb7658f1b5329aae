/* Compares paths from a graph with the graph's folder, as the file system resolves them.
 * Called a few times a start. */
#include "engine/base/trust.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/file.h"
#include "engine/base/paths.h"

static struct {
    bool is_narrow;
    const char *const *set;
    uint32_t count;
} trust;

void trust_only(const char *const *set, uint32_t count)
{
    trust.is_narrow = true;
    trust.set = set;
    trust.count = count;
}

bool trust_is_whole(void) { return !trust.is_narrow; }

static bool is_set(const char *key)
{
    const size_t bytes = strlen(key);
    for (uint32_t i = 0; i < trust.count; i++)
        if (strncmp(trust.set[i], key, bytes) == 0 && (trust.set[i][bytes] == '=' || trust.set[i][bytes] == ' '))
            return true;
    return false;
}

/* The folder of a path. */
static void parent_of(char folder[FILE_PATH_BYTES], const char *path)
{
    const char *slash = strrchr(path, '/');
    const size_t bytes = slash == NULL ? 1 : slash == path ? 1 : (size_t)(slash - path);
    const char *from = slash == NULL ? "." : path;
    memcpy(folder, from, bytes);
    folder[bytes] = '\0';
}

/* Resolves the longest existing front of a path. False: unknown, because the rest, which does not exist yet,
 * goes up again (".."), or because a link leads to something that does not exist. */
static bool resolve(const char *path, char resolved[PATH_MAX])
{
    char front[FILE_PATH_BYTES], folder[FILE_PATH_BYTES];
    struct stat ignored;
    const size_t bytes = strlen(path);
    if (bytes == 0 || bytes >= sizeof front) return false;
    memcpy(front, path, bytes);
    front[bytes] = '\0';
    for (size_t end = strlen(front); end > 1 && front[end - 1] == '/'; end--) front[end - 1] = '\0';
    while (realpath(front, resolved) == NULL) {
        const char *slash = strrchr(front, '/'), *name = slash ? slash + 1 : front;
        if (errno != ENOENT || lstat(front, &ignored) == 0 || strcmp(name, "..") == 0 || strcmp(name, ".") == 0)
            return false;
        parent_of(folder, front);
        strcpy(front, folder);
    }
    return true;
}

static bool is_below(const char *path, const char *folder)
{
    const size_t bytes = strlen(folder);
    return strcmp(folder, "/") == 0 ||
           (strncmp(path, folder, bytes) == 0 && (path[bytes] == '/' || path[bytes] == '\0'));
}

status trust_sources_check(const char *key, const char *paths, const char *graph)
{
    char shown[PATHS_SHOWN_BYTES];
    if (!trust.is_narrow || is_set(key) || !paths_have_address(paths)) return ST_OK;
    FAIL(USAGE,
         "%s: its %s would make this machine ask a server, %s; the graph may be a stranger's, so you have to allow it: "
         "--trust-paths, or --set %s=ADDRESS",
         graph, key, paths_shown(shown, paths), key);
}

status trust_check(const char *key, const char *path, const char *graph)
{
    char folder[FILE_PATH_BYTES], home[PATH_MAX], resolved[PATH_MAX];
    if (!trust.is_narrow || is_set(key)) return ST_OK;
    if (strlen(graph) >= sizeof folder) FAIL(IO, "%.64s…: %s", graph, strerror(ENAMETOOLONG));
    parent_of(folder, graph);
    if (realpath(folder, home) == NULL) FAIL(IO, "%s: %s", folder, strerror(errno));
    if (resolve(path, resolved) && is_below(resolved, home)) return ST_OK;
    FAIL(USAGE,
         "%s: its %s would write to %s, outside its own folder %s; "
         "the graph may be a stranger's, so you have to allow it: --trust-paths, or --set %s=PATH",
         graph, key, path, home, key);
}
