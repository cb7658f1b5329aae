/* Writes a model's values for other tools: no optimizer state, no progress, and no trace of the order in which rows were
 * created, so that two runs with equal values export equal bytes.
 *
 *   dense.safetensors     h1.weight [429, 512], h1.bias [1, 512], …
 *   TABLE.safetensors     keys U64 [n], ascending | vectors F32 [n, dim], vector i of key i                               */
#include "engine/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/manifest.h"
#include "io/safetensors.h"

#define DENSE_NAME "dense"
#define PART_ORDER "order of rows"

struct keyed_row {
    uint64_t key, row;
};

static int keyed_row_compare(const void *a, const void *b)
{
    uint64_t x = ((const struct keyed_row *)a)->key, y = ((const struct keyed_row *)b)->key;
    return (x > y) - (x < y);
}

static status table_put(struct file_writer *writer, struct store *store, uint32_t table, uint32_t dim,
                        struct keyed_row *rows, uint64_t row_count)
{
    for (uint64_t i = 0; i < row_count; i++) rows[i] = (struct keyed_row){store_key(store, table, i), i};
    qsort(rows, row_count, sizeof *rows, keyed_row_compare);
    const struct safetensors_tensor tensors[] = {
        {.name = "keys", .type = SAFETENSORS_U64, .rank = 1, .shape = {row_count}},
        {.name = "vectors", .type = SAFETENSORS_F32, .rank = 2, .shape = {row_count, dim}},
    };
    uint64_t file_bytes;
    TRY(safetensors_header_put(writer, tensors, 2, &file_bytes));
    for (uint64_t i = 0; i < row_count; i++) TRY(file_writer_put(writer, &rows[i].key, sizeof rows[i].key));
    for (uint64_t i = 0; i < row_count; i++)
        TRY(file_writer_put(writer, store_span(store, table, rows[i].row), dim * sizeof(float)));
    CHECK(writer->written_bytes == file_bytes);
    return ST_OK;
}

static status table_export(struct file_writer *writer, const struct model *model, uint32_t table)
{
    uint64_t row_count = store_row_count(model->store, table);
    void *rows;
    TRY(memory_take(PART_ORDER, row_count * sizeof(struct keyed_row), &rows));
    status st = table_put(writer, model->store, table, model->graph->tables[table].dim, rows, row_count);
    memory_give(PART_ORDER, rows, row_count * sizeof(struct keyed_row));
    return st;
}

static status dense_export(struct file_writer *writer, const struct model *model)
{
    struct model_arrays arrays;
    TRY(model_arrays_list(&arrays, model, false));
    status st = model_arrays_put(&arrays, writer);
    model_arrays_free(&arrays);
    return st;
}

char *model_export_name(const struct graph *graph, uint32_t table)
{
    char *stem =
        table == GRAPH_NONE ? strdup(DENSE_NAME) : model_file_stem(graph_string(graph, graph->tables[table].name));
    char *name = NULL;
    bool collides = table != GRAPH_NONE && stem != NULL && strcmp(stem, DENSE_NAME) == 0;
    CHECK(stem != NULL && asprintf(&name, collides ? "%%64%s.safetensors" : "%s.safetensors", stem + collides) >= 0);
    free(stem);
    return name;
}

/* Writes the dense file (table GRAPH_NONE) or a table's, and adds to *bytes. */
static status export_file(const struct model *model, const char *directory, uint32_t table, uint64_t *bytes)
{
    char *name = model_export_name(model->graph, table);
    char *path = file_path_join(directory, name);
    struct file_writer writer = {0};
    status st = file_writer_open(&writer, path);
    if (st == ST_OK) st = table == GRAPH_NONE ? dense_export(&writer, model) : table_export(&writer, model, table);
    uint64_t file_bytes = writer.written_bytes;
    if (st == ST_OK) st = file_writer_commit(&writer);
    if (st == ST_OK)
        *bytes += file_bytes;
    else
        file_writer_abort(&writer);
    free(path);
    free(name);
    return st;
}

status model_export(const struct model *model, const char *path, uint64_t *bytes)
{
    uint64_t written_bytes = 0;
    struct stat ignored;
    TRY(file_directory_make(path));
    char *manifest_path = file_path_join(path, MANIFEST_NAME);
    bool is_model = stat(manifest_path, &ignored) == 0;
    free(manifest_path);
    if (is_model) FAIL(INVALID, "%s: the directory of a saved model; give another to export to", path);
    TRY(export_file(model, path, GRAPH_NONE, &written_bytes));
    for (uint32_t t = 0; t < model->graph->table_count; t++) TRY(export_file(model, path, t, &written_bytes));
    if (bytes != NULL) *bytes = written_bytes;
    return ST_OK;
}
