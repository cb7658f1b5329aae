/* Looks at a file that an output would replace: once per output, before any work. */
#include "engine/model/model_spare.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/model/lean.h"
#include "engine/model/model_dir.h"
#include "engine/model/model_names.h"
#include "graph/graph.h"
#include "io/store/admission.h"
#include "io/store/row_file.h"

/* "": the file is shorter than a magic, or cannot be read. */
static void magic_read(char magic[9], const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    memset(magic, 0, 9);
    if (fd < 0) return;
    if (pread(fd, magic, 8, 0) != 8) *magic = 0;
    close(fd);
}

/* The kind that name and neighbours of a file tell. NULL: none. */
static const char *kind_by_name(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash + 1;
    const bool is_manifest = strcmp(name, MANIFEST_NAME) == 0 || model_name_kind(name) == MODEL_NAME_MANIFEST;
    const bool is_lock = strcmp(name, MODEL_LOCK_NAME) == 0;
    char folder[FILE_PATH_BYTES];
    struct manifest manifest;
    if (!is_manifest && !is_lock && model_name_kind(name) != MODEL_NAME_DATA) return NULL;
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    if (!is_manifest) return !model_file_is_there(folder, MANIFEST_NAME) ? NULL : is_lock ? "the lock" : "a file";
    if (manifest_load(&manifest, folder, name) != ST_OK) return NULL;
    manifest_free(&manifest);
    return "the manifest";
}

static const char *kind_of(const char *path, enum model_spare but)
{
    char magic[9];
    magic_read(magic, path);
    if (strcmp(magic, ROW_FILE_MAGIC) == 0) return "rows of a model";
    if (strcmp(magic, ADMISSION_MAGIC) == 0) return "a file of a model";
    if (strcmp(magic, GRAPH_MAGIC) != 0) return NULL;
    if (lean_is(path)) return but == MODEL_SPARE_BUT_LEAN ? NULL : "a graph with its model";
    return but == MODEL_SPARE_BUT_GRAPH ? NULL : "a graph";
}

status model_spare(const char *path, enum model_spare but)
{
    struct stat about;
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode)) return ST_OK;
    char *real = realpath(path, NULL);
    if (real == NULL) return ST_OK; /* its opening will say why */
    const char *kind = kind_of(real, but), *of = "";
    if (kind == NULL) kind = kind_by_name(real), of = " of a saved model";
    free(real);
    if (kind == NULL) return ST_OK;
    FAIL(USAGE, "%s is to be written, and is %s%s, which would be lost; give another name, or remove the file first",
         path, kind, of);
}
