/* Writes a model's values for other tools: no optimizer state, no progress, and no trace of the order
 * in which rows were created, so that two runs with equal values export equal bytes. A file is a name
 * and a function that puts its bytes:
 *
 *   safetensors: dense.safetensors     h1.weight [429, 512], h1.bias [1, 512], …
 *                TABLE.safetensors     keys U64 [n], ascending | vectors F32 [n, dim], vector i of key i
 *   npy:         h1.weight.npy, …      one array each
 *                TABLE.keys.npy, TABLE.vectors.npy */
#include "engine/model/model_sorted.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/heap.h"
#include "engine/base/stop.h"
#include "engine/model/manifest.h"
#include "io/npy.h"

#define DENSE_NAME "dense"

struct exporter {
    const struct model *model;
    struct model_sorted *sorted;
    const char *directory;
    enum model_export_format format;
    struct model_exported done;
    struct file_writer *files; /* [done.files]: written; files get their names when all are written */
};

typedef status content_put(struct file_writer *writer, const void *content);

/* Writes STEM.END; `stem` comes from model_file_stem. */
static status file_export(struct exporter *e, const char *stem, const char *end, content_put *put, const void *content)
{
    char path[FILE_PATH_BYTES];
    const size_t used = strlen(file_path_join(path, e->directory, stem));
    snprintf(path + used, sizeof path - used, ".%s", end);
    TRY(heap_room(&e->files, e->done.files + 1, sizeof *e->files, "exported files"));
    struct file_writer *writer = &e->files[e->done.files++];
    TRY(file_writer_open(writer, path));
    TRY(put(writer, content));
    e->done.bytes += writer->written_bytes;
    return file_writer_finish(writer);
}

/* Gives the files their names, or, after a failure, removes them. */
static status files_end(struct exporter *e, status st)
{
    if (st == ST_OK) st = file_writers_commit(e->files, e->done.files);
    for (uint32_t i = 0; st != ST_OK && i < e->done.files; i++) file_writer_abort(&e->files[i]);
    free(e->files);
    return st;
}

/* --- tables ----------------------------------------------------------------------------------- */

struct table_content {
    struct model_sorted *sorted;
    uint32_t table, dim;
    uint64_t row_count;
};

static struct safetensors_tensor keys_tensor(const struct table_content *t)
{
    return (struct safetensors_tensor){.name = "keys", .type = SAFETENSORS_U64, .rank = 1, .shape = {t->row_count}};
}

static struct safetensors_tensor vectors_tensor(const struct table_content *t)
{
    return (struct safetensors_tensor){
        .name = "vectors", .type = SAFETENSORS_F32, .rank = 2, .shape = {t->row_count, t->dim}};
}

static status keys_put(struct file_writer *writer, const struct table_content *t)
{
    uint64_t key;
    TRY(t->sorted->vt->begin(t->sorted, t->table, false));
    for (uint64_t i = 0; i < t->row_count; i++) {
        TRY(t->sorted->vt->next(t->sorted, &key, NULL));
        TRY(file_writer_put(writer, &key, sizeof key));
    }
    return ST_OK;
}

static status vectors_put(struct file_writer *writer, const struct table_content *t)
{
    uint64_t key;
    const float *vector;
    TRY(t->sorted->vt->begin(t->sorted, t->table, true));
    for (uint64_t i = 0; i < t->row_count; i++) {
        if (i % MODEL_SORTED_AT_ONCE == 0 && stop_requested())
            FAIL(STOPPED, "stopped by a signal; %s is not written", writer->path);
        TRY(t->sorted->vt->next(t->sorted, &key, &vector));
        TRY(file_writer_put(writer, vector, t->dim * sizeof *vector));
    }
    return ST_OK;
}

static status table_put(struct file_writer *writer, const void *content)
{
    const struct safetensors_tensor tensors[] = {keys_tensor(content), vectors_tensor(content)};
    uint64_t file_bytes;
    TRY(safetensors_header_put(writer, tensors, 2, &file_bytes));
    TRY(keys_put(writer, content));
    TRY(vectors_put(writer, content));
    CHECK(writer->written_bytes == file_bytes);
    return ST_OK;
}

static status keys_npy_put(struct file_writer *writer, const void *content)
{
    const struct safetensors_tensor tensor = keys_tensor(content);
    uint64_t file_bytes;
    TRY(npy_header_put(writer, &tensor, &file_bytes));
    TRY(keys_put(writer, content));
    CHECK(writer->written_bytes == file_bytes);
    return ST_OK;
}

static status vectors_npy_put(struct file_writer *writer, const void *content)
{
    const struct safetensors_tensor tensor = vectors_tensor(content);
    uint64_t file_bytes;
    TRY(npy_header_put(writer, &tensor, &file_bytes));
    TRY(vectors_put(writer, content));
    CHECK(writer->written_bytes == file_bytes);
    return ST_OK;
}

static status table_files(struct exporter *e, const char *stem, const struct table_content *t)
{
    if (e->format == MODEL_EXPORT_NPY) {
        TRY(file_export(e, stem, "keys.npy", keys_npy_put, t));
        return file_export(e, stem, "vectors.npy", vectors_npy_put, t);
    }
    /* A table has the name of the dense part: its first letter becomes a code, so there are two files. */
    if (strcmp(stem, DENSE_NAME) == 0) return file_export(e, "%64ense", "safetensors", table_put, t);
    return file_export(e, stem, "safetensors", table_put, t);
}

static status table_export(struct exporter *e, uint32_t table)
{
    const struct graph_table *declared = &e->model->graph->tables[table];
    struct model_sorted *sorted = e->sorted;
    char *stem = NULL;
    status st = sorted->vt->open(sorted, table, &(struct model_sorted_filter){0});
    const struct table_content content = {sorted, table, declared->dim, sorted->table[table].row_count};
    if (st == ST_OK) st = model_file_stem(&stem, graph_string(e->model->graph, declared->name));
    if (st == ST_OK) st = table_files(e, stem, &content);
    free(stem);
    sorted->vt->close(sorted, table);
    return st;
}

/* --- parameters ------------------------------------------------------------------------------- */

static status dense_put(struct file_writer *writer, const void *content) { return model_arrays_put(content, writer); }

static status array_npy_put(struct file_writer *writer, const void *content)
{
    const struct model_array *a = content;
    const struct safetensors_tensor tensor = {.type = SAFETENSORS_F32, .rank = 2, .shape = {a->rows, a->cols}};
    uint64_t file_bytes;
    TRY(npy_header_put(writer, &tensor, &file_bytes));
    TRY(model_array_put(a, writer));
    CHECK(writer->written_bytes == file_bytes);
    return ST_OK;
}

static status arrays_npy_export(struct exporter *e, const struct model_arrays *arrays)
{
    for (uint32_t i = 0; i < arrays->count; i++) {
        char *stem;
        TRY(model_file_stem(&stem, arrays->items[i].name));
        status st = file_export(e, stem, "npy", array_npy_put, &arrays->items[i]);
        free(stem);
        TRY(st);
    }
    return ST_OK;
}

static status dense_export(struct exporter *e)
{
    struct model_arrays arrays;
    TRY(model_arrays_list(&arrays, e->model, false));
    status st = e->format == MODEL_EXPORT_NPY ? arrays_npy_export(e, &arrays)
                                              : file_export(e, DENSE_NAME, "safetensors", dense_put, &arrays);
    model_arrays_free(&arrays);
    return st;
}

status model_export_sorted(const struct model *model, struct model_sorted *sorted, const char *path,
                           enum model_export_format format, struct model_exported *exported)
{
    struct exporter e = {.model = model, .sorted = sorted, .directory = path, .format = format};
    struct stat ignored;
    TRY(file_directory_make(path));
    char manifest_path[FILE_PATH_BYTES];
    if (stat(file_path_join(manifest_path, path, MANIFEST_NAME), &ignored) == 0)
        FAIL(INVALID, "%s: the directory of a saved model; give another to export to", path);
    status st = dense_export(&e);
    for (uint32_t table = 0; table < model->graph->table_count && st == ST_OK; table++) st = table_export(&e, table);
    for (uint32_t table = 0; table < model->graph->table_count; table++) e.done.rows += sorted->table[table].row_count;
    st = files_end(&e, st);
    if (st == ST_OK && exported != NULL) *exported = e.done;
    return st;
}

status model_export(const struct model *model, const char *path, enum model_export_format format,
                    struct model_exported *exported)
{
    struct model_sorted_own own;
    status st = model_sorted_own_open(&own, model);
    if (st == ST_OK) st = model_export_sorted(model, &own.sorted, path, format, exported);
    model_sorted_own_close(&own);
    return st;
}
