/* Writes a model's values for other tools: no optimizer state, no progress, and no trace of the order in which rows were
 * created, so that two runs with equal values export equal bytes. A file is a name and a way to put its bytes:
 *
 *   safetensors: dense.safetensors     h1.weight [429, 512], h1.bias [1, 512], …
 *                TABLE.safetensors     keys U64 [n], ascending | vectors F32 [n, dim], vector i of key i
 *   npy:         h1.weight.npy, …      one array each
 *                TABLE.keys.npy, TABLE.vectors.npy */
#include "engine/model/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/heap.h"
#include "engine/model/manifest.h"
#include "engine/base/stop.h"
#include "io/npy.h"
#include "io/store/store_rows.h"

#define DENSE_NAME   "dense"
#define PART_ORDER   "order of rows"
#define ROWS_AT_ONCE 4096u

struct exporter {
    const struct model *model;
    const char *directory;
    enum model_export_format format;
    struct model_exported done;
    struct file_writer *files; /* [done.files]: written, and without their names until all are */
};

typedef status content_put(struct file_writer *writer, const void *content);

/* Writes STEM.END; stem is as model_file_stem gives it. */
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
    struct store *store;
    uint32_t table, dim, span_floats;
    const uint64_t *key; /* [row_count], ascending */
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
    for (uint64_t i = 0; i < t->row_count; i++) TRY(file_writer_put(writer, &t->key[i], sizeof t->key[i]));
    return ST_OK;
}

static status vectors_put(struct file_writer *writer, const struct table_content *t)
{
    float *spans = malloc((size_t)ROWS_AT_ONCE * t->span_floats * sizeof *spans);
    if (spans == NULL) FAIL(MEMORY, "%s: no memory for %u rows", writer->path, ROWS_AT_ONCE);
    status st = ST_OK;
    for (uint64_t begin = 0; begin < t->row_count && st == ST_OK; begin += ROWS_AT_ONCE) {
        uint64_t left = t->row_count - begin;
        uint32_t count = left < ROWS_AT_ONCE ? (uint32_t)left : ROWS_AT_ONCE;
        st = store_copy(t->store, t->table, t->key + begin, count, spans);
        if (stop_requested())
            st = status_fail(ST_STOPPED, __FILE__, __LINE__, "stopped by a signal; %s is not written", writer->path);
        for (uint32_t i = 0; i < count && st == ST_OK; i++)
            st = file_writer_put(writer, spans + (size_t)i * t->span_floats, t->dim * sizeof *spans);
    }
    free(spans);
    return st;
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
    /* Of a table called as the dense part is: the first letter as a code, so that there are two files. */
    if (strcmp(stem, DENSE_NAME) == 0) return file_export(e, "%64ense", "safetensors", table_put, t);
    return file_export(e, stem, "safetensors", table_put, t);
}

static status table_export(struct exporter *e, uint32_t table)
{
    const struct graph_table *t = &e->model->graph->tables[table];
    struct store *store = e->model->store;
    const uint64_t row_count = store_row_count(store, table);
    void *block;
    TRY(memory_take(PART_ORDER, row_count * sizeof(uint64_t), &block));
    uint64_t *key = block;
    status st = store_keys(store, table, key);
    const struct table_content content = {store, table, t->dim, t->span_floats, key, row_count};
    char *stem = NULL;
    if (st == ST_OK) st = model_file_stem(&stem, graph_string(e->model->graph, t->name));
    if (st == ST_OK) st = table_files(e, stem, &content);
    free(stem);
    memory_give(PART_ORDER, block, row_count * sizeof *key);
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

status model_export(const struct model *model, const char *path, enum model_export_format format,
                    struct model_exported *exported)
{
    struct exporter e = {.model = model, .directory = path, .format = format};
    struct stat ignored;
    TRY(file_directory_make(path));
    char manifest_path[FILE_PATH_BYTES];
    if (stat(file_path_join(manifest_path, path, MANIFEST_NAME), &ignored) == 0)
        FAIL(INVALID, "%s: the directory of a saved model; give another to export to", path);
    status st = dense_export(&e);
    for (uint32_t t = 0; t < model->graph->table_count && st == ST_OK; t++) st = table_export(&e, t);
    st = files_end(&e, st);
    if (st == ST_OK && exported != NULL) *exported = e.done;
    return st;
}
