/* Loads a model directory: everything is mapped and verified first, then copied. Called once a start, on directories
 * that another process may be saving to, that were copied by hand, or that were damaged. */
#include "engine/manifest.h"
#include "engine/model.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "io/row_file.h"
#include "io/safetensors.h"

/* A save that comes between reading the manifest and opening its files removes them. Who saves more often than this
 * while a model is loaded is not loaded from. */
#define ATTEMPTS_MAX 100

struct load {
    const char *path; /* the directory */
    struct manifest manifest;
    uint64_t manifest_hash;
    char *manifest_path, *dense_path, **table_path;
    struct file_map dense_map, *table_map;
    struct safetensors dense;
    struct row_file *rows;
    struct model_arrays arrays;
};

static void load_close(struct load *l)
{
    for (uint32_t t = 0; t < l->manifest.table_count; t++) {
        if (l->table_map != NULL) file_map_close(&l->table_map[t]);
        if (l->table_path != NULL) free(l->table_path[t]);
    }
    free(l->table_map);
    free(l->table_path);
    free(l->rows);
    safetensors_close(&l->dense);
    file_map_close(&l->dense_map);
    free(l->dense_path);
    free(l->manifest_path);
    manifest_free(&l->manifest);
    model_arrays_free(&l->arrays);
    *l = (struct load){.path = l->path};
}

/* --- opening ---------------------------------------------------------------------------------- */

status model_dir_find(const char *path)
{
    struct stat ignored;
    char *manifest_path = file_path_join(path, MANIFEST_NAME);
    bool is_absent = stat(manifest_path, &ignored) != 0 && errno == ENOENT;
    free(manifest_path);
    if (is_absent) FAIL(INVALID, "%s: holds no model: there is no %s", path, MANIFEST_NAME);
    return ST_OK;
}

static status manifest_open(struct load *l)
{
    struct file_map map;
    TRY(model_dir_find(l->path));
    l->manifest_path = file_path_join(l->path, MANIFEST_NAME);
    TRY(file_map_open(&map, l->manifest_path));
    l->manifest_hash = XXH3_64bits(map.data, map.bytes);
    status st = manifest_read(&l->manifest, l->manifest_path, map.data, map.bytes);
    file_map_close(&map);
    return st;
}

static status files_open(struct load *l)
{
    uint32_t table_count = l->manifest.table_count;
    l->table_path = calloc((size_t)table_count + 1, sizeof *l->table_path);
    l->table_map = calloc((size_t)table_count + 1, sizeof *l->table_map);
    l->rows = calloc((size_t)table_count + 1, sizeof *l->rows);
    if (l->table_path == NULL || l->table_map == NULL || l->rows == NULL)
        FAIL(MEMORY, "%s: no memory for %u tables", l->path, table_count);
    l->dense_path = file_path_join(l->path, l->manifest.dense.name);
    TRY(file_map_open(&l->dense_map, l->dense_path));
    for (uint32_t t = 0; t < table_count; t++) {
        l->table_path[t] = file_path_join(l->path, l->manifest.tables[t].file.name);
        TRY(file_map_open(&l->table_map[t], l->table_path[t]));
    }
    return ST_OK;
}

/* Whether the directory's manifest is another one by now. */
static bool is_replaced(const struct load *l)
{
    struct file_map map;
    if (file_map_open(&map, l->manifest_path) != ST_OK) return false;
    bool answer = XXH3_64bits(map.data, map.bytes) != l->manifest_hash;
    file_map_close(&map);
    return answer;
}

/* --- what differs ----------------------------------------------------------------------------- */

static status mismatch_tensor(const struct load *l, const char *name, const struct model_array *graph,
                              const struct manifest_tensor *saved)
{
    char graph_text[64] = "none", saved_text[64] = "none";
    if (graph) snprintf(graph_text, sizeof graph_text, "[%u, %u]", graph->rows, graph->cols);
    if (saved) snprintf(saved_text, sizeof saved_text, "[%" PRIu64 ", %" PRIu64 "]", saved->shape[0], saved->shape[1]);
    FAIL(MISMATCH, "%s: %.120s: the graph has %s, %s has %s", l->manifest_path, name, graph_text, l->path, saved_text);
}

static uint32_t saved_find(const struct manifest *m, const char *name, uint32_t guess)
{
    if (guess < m->tensor_count && strcmp(m->tensors[guess].name, name) == 0) return guess;
    for (uint32_t i = 0; i < m->tensor_count; i++)
        if (strcmp(m->tensors[i].name, name) == 0) return i;
    return GRAPH_NONE;
}

static bool graph_has(const struct model_arrays *arrays, const char *name)
{
    for (uint32_t i = 0; i < arrays->count; i++)
        if (strcmp(arrays->items[i].name, name) == 0) return true;
    return false;
}

/* By name first, so that an array more or less is not taken for a change of all behind it; the same arrays in
 * another order come last. */
static status tensors_compare(const struct load *l)
{
    const struct manifest *m = &l->manifest;
    bool is_in_order = m->tensor_count == l->arrays.count;
    for (uint32_t i = 0; i < l->arrays.count; i++) {
        const struct model_array *a = &l->arrays.items[i];
        uint32_t k = saved_find(m, a->name, i);
        if (k == GRAPH_NONE) return mismatch_tensor(l, a->name, a, NULL);
        if (m->tensors[k].shape[0] != a->rows || m->tensors[k].shape[1] != a->cols)
            return mismatch_tensor(l, a->name, a, &m->tensors[k]);
        is_in_order = is_in_order && k == i;
    }
    for (uint32_t i = 0; i < m->tensor_count && !is_in_order; i++)
        if (!graph_has(&l->arrays, m->tensors[i].name))
            return mismatch_tensor(l, m->tensors[i].name, NULL, &m->tensors[i]);
    if (!is_in_order) FAIL(MISMATCH, "%s: the graph has the same parameters in another order", l->manifest_path);
    return ST_OK;
}

static status tables_compare(const struct load *l, const struct graph *g)
{
    const struct manifest *m = &l->manifest;
    for (uint32_t t = 0; t < g->table_count || t < m->table_count; t++) {
        const char *graph_name = t < g->table_count ? graph_string(g, g->tables[t].name) : "none";
        const char *saved_name = t < m->table_count ? m->tables[t].name : "none";
        if (t >= g->table_count || t >= m->table_count || strcmp(graph_name, saved_name) != 0)
            FAIL(MISMATCH, "%s: table %u: the graph has %s, %s has %.120s", l->manifest_path, t, graph_name, l->path,
                 saved_name);
        if (g->tables[t].dim != m->tables[t].dim)
            FAIL(MISMATCH, "%s: table %s: the graph has dim %u, %s has %u", l->manifest_path, graph_name,
                 g->tables[t].dim, l->path, m->tables[t].dim);
        if (g->tables[t].span_floats != m->tables[t].span_floats)
            FAIL(MISMATCH,
                 "%s: table %s: a row of the graph has %u floats (vector and optimizer state), of %s %u: its optimizer "
                 "differs",
                 l->manifest_path, graph_name, g->tables[t].span_floats, l->path, m->tables[t].span_floats);
    }
    return ST_OK;
}

static status graph_compare(const struct load *l, const struct graph *g)
{
    TRY(tables_compare(l, g));
    TRY(tensors_compare(l));
    if (l->manifest.model_hash != g->header->model_hash)
        FAIL(MISMATCH,
             "%s: the graph has the same tables and parameters, but another model hash (%016" PRIx64
             ", %s has %016" PRIx64 "): its columns, ops, optimizers or seed differ",
             l->manifest_path, g->header->model_hash, l->path, l->manifest.model_hash);
    return ST_OK;
}

/* --- verifying -------------------------------------------------------------------------------- */

static status bytes_verify(const struct load *l, const char *path, const struct file_map *map,
                           const struct manifest_file *file)
{
    if (map->bytes != file->bytes)
        FAIL(CORRUPT, "%s: the file has %zu bytes, %s says %" PRIu64, path, map->bytes, l->manifest_path, file->bytes);
    if (XXH3_64bits(map->data, map->bytes) != file->xxh3)
        FAIL(CORRUPT, "%s: its %zu bytes do not match the checksum in %s", path, map->bytes, l->manifest_path);
    return ST_OK;
}

static status dense_verify(struct load *l)
{
    TRY(bytes_verify(l, l->dense_path, &l->dense_map, &l->manifest.dense));
    TRY(safetensors_open(&l->dense, l->dense_path, l->dense_map.data, l->dense_map.bytes));
    if (l->dense.tensor_count != l->arrays.count)
        FAIL(MISMATCH, "%s: %u tensors, where %s says %u", l->dense_path, l->dense.tensor_count, l->manifest_path,
             l->arrays.count);
    for (uint32_t i = 0; i < l->arrays.count; i++) {
        const struct safetensors_tensor *t = &l->dense.tensors[i];
        const struct model_array *a = &l->arrays.items[i];
        if (strcmp(t->name, a->name) != 0 || t->type != SAFETENSORS_F32 || t->rank != 2 || t->shape[0] != a->rows ||
            t->shape[1] != a->cols)
            FAIL(MISMATCH, "%s: tensor %u is \"%.120s\", not the F32 [%u, %u] %s of %s", l->dense_path, i, t->name,
                 a->rows, a->cols, a->name, l->manifest_path);
    }
    return ST_OK;
}

static status table_verify(struct load *l, uint32_t t)
{
    const struct manifest_table *saved = &l->manifest.tables[t];
    struct row_file *rows = &l->rows[t];
    /* Blocks before the whole: they say where the damage is. */
    TRY(row_file_open(rows, l->table_path[t], l->table_map[t].data, l->table_map[t].bytes));
    TRY(row_file_verify(rows));
    TRY(bytes_verify(l, l->table_path[t], &l->table_map[t], &saved->file));
    if (!row_file_is_of(rows, saved->name) || rows->header.dim != saved->dim ||
        rows->header.span_floats != saved->span_floats || rows->header.row_count != saved->rows)
        FAIL(MISMATCH,
             "%s: %" PRIu64 " rows of %u floats, dim %u, where %s says %" PRIu64 " of %u, dim %u, of table %s",
             l->table_path[t], rows->header.row_count, rows->header.span_floats, rows->header.dim, l->manifest_path,
             saved->rows, saved->span_floats, saved->dim, saved->name);
    return ST_OK;
}

static status load_open_once(struct load *l, const struct model *model, bool *was_replaced)
{
    TRY(manifest_open(l));
    TRY(model_arrays_list(&l->arrays, model, true));
    TRY(graph_compare(l, model->graph));
    status st = files_open(l);
    if (st == ST_IO) {
        char *message = strdup(status_message());
        *was_replaced = is_replaced(l);
        (void)status_adopt(st, message ? message : "");
        free(message);
    }
    return st;
}

static status load_open(struct load *l, const struct model *model)
{
    for (int attempt = 1;; attempt++) {
        bool was_replaced = false;
        status st = load_open_once(l, model, &was_replaced);
        if (st == ST_OK) break;
        if (!was_replaced || attempt == ATTEMPTS_MAX) return st;
        load_close(l);
    }
    TRY(dense_verify(l));
    file_map_forget(&l->dense_map);
    for (uint32_t t = 0; t < l->manifest.table_count; t++) {
        TRY(table_verify(l, t));
        file_map_forget(&l->table_map[t]);
    }
    return ST_OK;
}

/* --- copying ---------------------------------------------------------------------------------- */

#define FORGET_ROWS 16384

static status rows_copy(const struct load *l, struct model *model, uint32_t table)
{
    const struct row_file *rows = &l->rows[table];
    for (uint64_t row = 0; row < rows->header.row_count; row++) {
        float *span;
        uint64_t key = row_file_key(rows, row);
        status st = store_insert(model->store, table, key, &span);
        if (st == ST_INVALID)
            FAIL(INVALID, "%s: row %" PRIu64 " has the key %016" PRIx64 " of an earlier row", rows->path, row, key);
        TRY(st);
        row_file_read(rows, row, span);
        /* The copies grow into the plan; what they were copied from is no part of it. */
        if (row % FORGET_ROWS == FORGET_ROWS - 1) file_map_forget(&l->table_map[table]);
    }
    return ST_OK;
}

static status load_copy(const struct load *l, struct model *model)
{
    for (uint32_t t = 0; t < l->manifest.table_count; t++) TRY(rows_copy(l, model, t));
    for (uint32_t i = 0; i < l->arrays.count; i++) {
        const struct model_array *a = &l->arrays.items[i];
        size_t row_bytes = a->cols * sizeof(float);
        for (uint32_t row = 0; row < a->rows; row++)
            memcpy(a->data + (size_t)row * a->stride, l->dense.tensors[i].data + row * row_bytes, row_bytes);
    }
    model->progress = l->manifest.progress;
    return ST_OK;
}

status model_load(struct model *model, const char *path)
{
    struct load l = {.path = path};
    for (uint32_t t = 0; t < model->graph->table_count; t++) CHECK(store_row_count(model->store, t) == 0);
    status st = load_open(&l, model);
    if (st == ST_OK) st = load_copy(&l, model);
    load_close(&l);
    if (st == ST_MISMATCH)
        st = status_fail(st, __FILE__, __LINE__, "%s (a model trained with --set needs the same --set here)",
                         status_message());
    return st;
}
