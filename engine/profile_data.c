/* Finds the data of a profile. */
#include "engine/profile_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/log.h"
#include "engine/session.h"

/* Whether one of the paths, separated by commas, can be read only once. */
static bool has_stream(const char *paths)
{
    char path[4096];
    struct stat about;
    for (;; paths++) {
        size_t bytes = strcspn(paths, ",");
        if (bytes < sizeof path) {
            memcpy(path, paths, bytes);
            path[bytes] = 0;
            if (strcmp(path, "-") == 0) return true;
            if (stat(path, &about) == 0 && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode)) return true;
        }
        paths += bytes;
        if (*paths == 0) return false;
    }
}

static status paths_find(struct profile_data *d, const struct profile_options *o)
{
    const struct session place = {.graph_path = o->graph_path};
    if (o->data == NULL && *d->settings.data_path == 0) return ST_OK;
    d->paths = o->data ? strdup(o->data) : session_paths(&place, d->settings.data_path);
    if (d->paths == NULL) FAIL(MEMORY, "no memory for a path");
    if (!has_stream(d->paths)) return ST_OK;
    log_info("profile  %s can be read only once: measured with generated rows", d->paths);
    free(d->paths);
    d->paths = NULL;
    return ST_OK;
}

status profile_data_open(struct profile_data *d, const struct profile_options *o)
{
    *d = (struct profile_data){0};
    status st = ini_parse(&d->ini, o->graph_path, o->graph->text, o->graph->text_bytes);
    if (st == ST_OK) st = settings_read(&d->ini, &d->settings);
    if (st == ST_OK) st = paths_find(d, o);
    if (st != ST_OK) profile_data_close(d);
    return st;
}

void profile_data_close(struct profile_data *d)
{
    free(d->paths);
    ini_free(&d->ini);
    *d = (struct profile_data){0};
}

char *profile_stored_path(const struct cluster *cluster, const struct cluster_type *type)
{
    const char *slash = strrchr(cluster->path, '/');
    char *path = NULL;
    int folder_bytes = slash && type->profile[0] != '/' ? (int)(slash + 1 - cluster->path) : 0;
    return asprintf(&path, "%.*s%s", folder_bytes, cluster->path, type->profile) < 0 ? NULL : path;
}
