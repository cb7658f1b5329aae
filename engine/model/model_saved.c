/* Finds, maps and verifies the files of a saved model (engine/model/model_saved.h). */
#include "engine/model/model_saved.h"

#include "engine/base/heap.h"
#include "engine/base/inputs.h"
#include "io/store/admission.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

/* A save between reading the manifest and opening its files may remove them. A load that
 * meets this many saves fails. */
#define ATTEMPTS_MAX 100
#define MANIFEST_END ".json"

/* --- the path --------------------------------------------------------------------------------- */

static bool ends_in(const char *text, const char *end)
{
    size_t bytes = strlen(text), end_bytes = strlen(end);
    return bytes >= end_bytes && strcmp(text + bytes - end_bytes, end) == 0;
}

static bool is_directory(const char *path)
{
    struct stat stat_of_path;
    return stat(path, &stat_of_path) == 0 && S_ISDIR(stat_of_path.st_mode);
}

status model_dir_of(const char *path, char **directory)
{
    const char *slash = strrchr(path, '/');
    if (is_directory(path) || !ends_in(path, MANIFEST_END)) return heap_text(directory, "%s", path);
    if (slash == NULL) return heap_text(directory, ".");
    return heap_text(directory, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

/* The manifest that a path leads to. */
static const char *manifest_path_of(char manifest[FILE_PATH_BYTES], const char *path)
{
    return is_directory(path) ? file_path_join(manifest, path, MANIFEST_NAME) : path;
}

status model_dir_find(const char *path)
{
    struct stat stat_of_path;
    if (stat(path, &stat_of_path) != 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            FAIL(INVALID, "%s: holds no model: there is no such %s", path,
                 ends_in(path, MANIFEST_END) ? "save" : "directory");
        FAIL(IO, "%s: %s", path, strerror(errno));
    }
    if (!S_ISDIR(stat_of_path.st_mode)) {
        if (ends_in(path, MANIFEST_END)) return ST_OK;
        FAIL(INVALID, "%s: holds no model: expected a model's directory, or a manifest in one (DIR/manifest.STEP.json)",
             path);
    }
    char manifest_path[FILE_PATH_BYTES];
    if (stat(manifest_path_of(manifest_path, path), &stat_of_path) != 0 && errno == ENOENT)
        FAIL(INVALID, "%s: holds no model: there is no %s", path, MANIFEST_NAME);
    return ST_OK;
}

/* --- opening ---------------------------------------------------------------------------------- */

void model_saved_close(struct model_saved *s)
{
    for (uint32_t t = 0; s->rows != NULL && t < s->manifest.table_count; t++) model_rows_close(&s->rows[t]);
    free(s->rows);
    for (uint32_t t = 0; s->admission != NULL && t < s->manifest.table_count; t++) {
        free(s->admission[t].path);
        file_map_close(&s->admission[t].map);
    }
    free(s->admission);
    safetensors_close(&s->dense);
    file_map_close(&s->dense_map);
    free(s->dense_path);
    free(s->manifest_path);
    free(s->directory);
    manifest_free(&s->manifest);
    *s = (struct model_saved){0};
}

static status manifest_open(struct model_saved *s, const char *path, uint64_t *hash)
{
    struct file_map map;
    TRY(model_dir_find(path));
    char manifest_path[FILE_PATH_BYTES];
    TRY(model_dir_of(path, &s->directory));
    TRY(heap_text(&s->manifest_path, "%s", manifest_path_of(manifest_path, path)));
    TRY(file_map_read(&map, s->manifest_path));
    *hash = XXH3_64bits(map.data, map.bytes);
    status st = manifest_read(&s->manifest, s->manifest_path, map.data, map.bytes);
    file_map_close(&map);
    return st;
}

static status files_open(struct model_saved *s)
{
    uint32_t table_count = s->manifest.table_count;
    s->rows = calloc((size_t)table_count + 1, sizeof *s->rows);
    s->admission = calloc((size_t)table_count + 1, sizeof *s->admission);
    if (s->rows == NULL || s->admission == NULL) FAIL(MEMORY, "%s: no memory for %u tables", s->directory, table_count);
    char path[FILE_PATH_BYTES];
    TRY(heap_text(&s->dense_path, "%s", file_path_join(path, s->directory, s->manifest.dense.name)));
    TRY(file_map_open(&s->dense_map, s->dense_path));
    for (uint32_t t = 0; t < table_count; t++) {
        const char *admission = s->manifest.tables[t].admission.name;
        TRY(model_rows_open(&s->rows[t], s->directory, &s->manifest.tables[t]));
        if (admission == NULL) continue;
        TRY(heap_text(&s->admission[t].path, "%s", file_path_join(path, s->directory, admission)));
        TRY(file_map_open(&s->admission[t].map, s->admission[t].path));
    }
    return ST_OK;
}

/* After a failure: *is_replaced says whether the manifest has changed since. Returns the failure. */
static status replaced_look(const struct model_saved *s, uint64_t hash, status st, bool *is_replaced)
{
    struct file_map map;
    struct failure failure;
    failure_keep(&failure, st);
    *is_replaced = file_map_read(&map, s->manifest_path) == ST_OK && XXH3_64bits(map.data, map.bytes) != hash;
    file_map_close(&map);
    return failure_adopt(&failure);
}

status model_saved_open(struct model_saved *s, const char *path)
{
    for (int attempt = 1;; attempt++) {
        *s = (struct model_saved){0};
        uint64_t hash = 0;
        bool was_replaced = false;
        status st = manifest_open(s, path, &hash);
        if (st == ST_OK) {
            st = files_open(s);
            if (st == ST_OK) return ST_OK;
            if (st == ST_IO) st = replaced_look(s, hash, st, &was_replaced);
        }
        model_saved_close(s);
        if (!was_replaced || attempt == ATTEMPTS_MAX) return st;
    }
}

static status adopt(struct model_saved *s, struct model_source *source)
{
    TRY(heap_text(&s->directory, "%s", source->name));
    TRY(heap_text(&s->manifest_path, "%s", source->name));
    TRY(manifest_read(&s->manifest, source->name, source->manifest.data, source->manifest.bytes));
    const uint32_t table_count = s->manifest.table_count;
    if (table_count != source->table_count)
        FAIL(MISMATCH, "%s: it has %u tables, the graph %u", source->name, table_count, source->table_count);
    s->rows = calloc((size_t)table_count + 1, sizeof *s->rows);
    s->admission = calloc((size_t)table_count + 1, sizeof *s->admission);
    if (s->rows == NULL || s->admission == NULL) FAIL(MEMORY, "%s: no memory for %u tables", s->directory, table_count);
    TRY(heap_text(&s->dense_path, "%s of %s", s->manifest.dense.name, source->name));
    s->dense_map = source->dense;
    source->dense = (struct file_map){0};
    for (uint32_t t = 0; t < table_count; t++) {
        s->rows[t].said = &s->manifest.tables[t];
        if (s->manifest.tables[t].admission.name == NULL) continue;
        TRY(heap_text(&s->admission[t].path, "%s of %s", s->manifest.tables[t].admission.name, source->name));
        s->admission[t].map = source->admission[t];
        source->admission[t] = (struct file_map){0};
    }
    return ST_OK;
}

status model_saved_adopt(struct model_saved *s, struct model_source *source)
{
    *s = (struct model_saved){0};
    const status st = adopt(s, source);
    if (st != ST_OK) model_saved_close(s);
    return st;
}

status model_manifest_hash(const char *path, uint64_t *hash)
{
    struct file_map map;
    char manifest_path[FILE_PATH_BYTES];
    TRY(model_dir_find(path));
    TRY(file_map_read(&map, manifest_path_of(manifest_path, path)));
    *hash = XXH3_64bits(map.data, map.bytes);
    file_map_close(&map);
    return ST_OK;
}

status model_manifest_note(const char *path)
{
    char manifest_path[FILE_PATH_BYTES];
    return inputs_add(NULL, manifest_path_of(manifest_path, path));
}

status model_saved_note(const struct model_saved *s)
{
    TRY(inputs_add(NULL, s->dense_path));
    for (uint32_t t = 0; t < s->manifest.table_count; t++) {
        for (uint32_t i = 0; i < s->rows[t].part_count; i++) TRY(inputs_add(NULL, s->rows[t].part[i].path));
        if (s->admission[t].path != NULL) TRY(inputs_add(NULL, s->admission[t].path));
    }
    return ST_OK;
}

/* --- verifying -------------------------------------------------------------------------------- */

static status bytes_verify(const struct model_saved *s, const char *path, const struct file_map *map,
                           const struct manifest_file *file)
{
    if (map->bytes != file->bytes)
        FAIL(CORRUPT, "%s: the file has %zu bytes, %s says %" PRIu64, path, map->bytes, s->manifest_path, file->bytes);
    if (XXH3_64bits(map->data, map->bytes) != file->xxh3)
        FAIL(CORRUPT, "%s: its %zu bytes do not match the checksum in %s", path, map->bytes, s->manifest_path);
    return ST_OK;
}

static status dense_verify(struct model_saved *s)
{
    const struct manifest *m = &s->manifest;
    TRY(bytes_verify(s, s->dense_path, &s->dense_map, &m->dense));
    TRY(safetensors_open(&s->dense, s->dense_path, s->dense_map.data, s->dense_map.bytes));
    if (s->dense.tensor_count != m->tensor_count)
        FAIL(MISMATCH, "%s: %u tensors, where %s says %u", s->dense_path, s->dense.tensor_count, s->manifest_path,
             m->tensor_count);
    for (uint32_t i = 0; i < m->tensor_count; i++) {
        const struct safetensors_tensor *found = &s->dense.tensors[i];
        const struct manifest_tensor *said = &m->tensors[i];
        if (strcmp(found->name, said->name) != 0 || found->type != SAFETENSORS_F32 || found->rank != 2 ||
            found->shape[0] != said->shape[0] || found->shape[1] != said->shape[1])
            FAIL(MISMATCH, "%s: tensor %u is \"%.120s\", not the F32 [%" PRIu64 ", %" PRIu64 "] %.120s of %s",
                 s->dense_path, i, found->name, said->shape[0], said->shape[1], said->name, s->manifest_path);
    }
    return ST_OK;
}

static status files_check(const struct model_saved *s)
{
    if (s->dense_path != NULL) TRY(file_map_check(&s->dense_map, s->dense_path));
    for (uint32_t t = 0; s->rows != NULL && t < s->manifest.table_count; t++) {
        TRY(model_rows_check(&s->rows[t]));
        if (s->admission[t].path != NULL) TRY(file_map_check(&s->admission[t].map, s->admission[t].path));
    }
    return ST_OK;
}

status model_saved_check(const struct model_saved *s, status st)
{
    TRY(files_check(s));
    return st;
}

static status files_verify(struct model_saved *s)
{
    TRY(dense_verify(s));
    file_map_forget(&s->dense_map);
    for (uint32_t t = 0; t < s->manifest.table_count; t++) {
        const struct model_admission *a = &s->admission[t];
        TRY(model_rows_verify(&s->rows[t], s->manifest_path));
        if (a->path == NULL) continue;
        TRY(bytes_verify(s, a->path, &a->map, &s->manifest.tables[t].admission));
        TRY(admission_file_check(a->path, a->map.data, a->map.bytes));
    }
    return ST_OK;
}

status model_saved_verify(struct model_saved *s) { return model_saved_check(s, files_verify(s)); }
