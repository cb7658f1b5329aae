/* Starts a model from the values of another (engine/warm_start.h). Called at most once a start, on files of any origin:
 *
 *     open, verify ──▶ match by name and shape ──▶ room for the rows? ──▶ copy ──▶ say what came of it
 *
 * Nothing is copied before the last file has been looked at. */
#include "engine/warm_start.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/log.h"
#include "engine/model_saved.h"
#include "engine/session.h"

#define KEYS_NAME    "keys"
#define VECTORS_NAME "vectors"
#define KEY_BYTES    sizeof(uint64_t)
/* Rows between two forgettings of what they were copied from: it is no part of the memory plan. */
#define FORGET_ROWS 16384
/* Names that a line lists before it only counts. */
#define NAMES_MAX 12

/* Rows for a table of the graph: of a saved model (`rows`) or of an exported file (`keys` and `vectors`). */
struct source_table {
    bool is_there, is_taken;
    uint32_t dim;
    uint64_t row_count;
    const struct file_map *map;
    const struct row_file *rows;
    uint32_t floats; /* of a row that are copied: its span, or its vector */
    const uint8_t *keys, *vectors;
    struct file_map own_map;
    struct safetensors own_file;
    char *path;
};

struct warm_start {
    struct model *model;
    const char *path;
    struct model_saved saved;                /* of a model's directory                       */
    struct file_map dense_map;               /* of an exported directory, or the file itself */
    struct safetensors dense_file;           /* likewise                                     */
    const struct safetensors *dense;         /* whichever it is, or NULL                    */
    struct model_arrays arrays;              /* of the model                                 */
    const struct safetensors_tensor **taken; /* [arrays.count]: NULL where nothing fits */
    uint32_t taken_count;
    struct source_table *tables; /* [table_count] of the graph */
};

static void warm_start_close(struct warm_start *w)
{
    for (uint32_t t = 0; w->tables != NULL && t < w->model->graph->table_count; t++) {
        safetensors_close(&w->tables[t].own_file);
        file_map_close(&w->tables[t].own_map);
        free(w->tables[t].path);
    }
    free(w->tables);
    free(w->taken);
    model_arrays_free(&w->arrays);
    safetensors_close(&w->dense_file);
    file_map_close(&w->dense_map);
    model_saved_close(&w->saved);
}

/* --- a model's directory ---------------------------------------------------------------------- */

static void saved_table_match(struct warm_start *w, uint32_t table)
{
    const struct graph *g = w->model->graph;
    const struct graph_table *have = &g->tables[table];
    struct source_table *source = &w->tables[table];
    const struct manifest *m = &w->saved.manifest;
    for (uint32_t i = 0; i < m->table_count; i++) {
        const struct manifest_table *saved = &m->tables[i];
        if (strcmp(saved->name, graph_string(g, have->name)) != 0) continue;
        const char *optimizer = optimizer_table[g->optimizers[have->optimizer].kind].name;
        /* A manifest that does not name the optimizer is of a program whose optimizers all had spans of their own length. */
        bool has_state = saved->span_floats == have->span_floats &&
                         (saved->optimizer == NULL || strcmp(saved->optimizer, optimizer) == 0);
        source->is_there = true;
        source->dim = saved->dim;
        source->row_count = saved->rows;
        source->rows = &w->saved.rows[i];
        source->map = &w->saved.table_map[i];
        source->floats = has_state ? have->span_floats : have->dim;
    }
}

static status saved_open(struct warm_start *w)
{
    TRY(model_saved_open(&w->saved, w->path));
    TRY(model_saved_verify(&w->saved));
    w->dense = &w->saved.dense;
    for (uint32_t t = 0; t < w->model->graph->table_count; t++) saved_table_match(w, t);
    return ST_OK;
}

/* --- files of named arrays -------------------------------------------------------------------- */

static status file_open(const char *path, struct file_map *map, struct safetensors *file)
{
    TRY(file_map_open(map, path));
    return safetensors_open(file, path, map->data, map->bytes);
}

static status exported_table_open(struct source_table *source, uint32_t dim)
{
    TRY(file_open(source->path, &source->own_map, &source->own_file));
    const struct safetensors_tensor *keys = safetensors_find(&source->own_file, KEYS_NAME),
                                    *vectors = safetensors_find(&source->own_file, VECTORS_NAME);
    if (keys == NULL || vectors == NULL || keys->type != SAFETENSORS_U64 || keys->rank != 1 ||
        vectors->type != SAFETENSORS_F32 || vectors->rank != 2 || vectors->shape[0] != keys->shape[0] ||
        vectors->shape[1] > UINT32_MAX)
        FAIL(INVALID, "%s: expected \"" KEYS_NAME "\" U64 [rows] and \"" VECTORS_NAME "\" F32 [rows, dim]",
             source->path);
    source->is_there = true;
    source->dim = (uint32_t)vectors->shape[1];
    source->row_count = keys->shape[0];
    source->keys = keys->data;
    source->vectors = vectors->data;
    source->map = &source->own_map;
    source->floats = dim;
    return ST_OK;
}

static bool is_there(const char *path)
{
    struct stat ignored;
    return stat(path, &ignored) == 0;
}

static status exported_open(struct warm_start *w)
{
    const struct graph *g = w->model->graph;
    char *dense_name = model_export_name(g, GRAPH_NONE), *dense_path = file_path_join(w->path, dense_name);
    bool is_any = is_there(dense_path);
    status st = is_any ? file_open(dense_path, &w->dense_map, &w->dense_file) : ST_OK;
    if (st == ST_OK && is_any) w->dense = &w->dense_file;
    for (uint32_t t = 0; t < g->table_count && st == ST_OK; t++) {
        char *name = model_export_name(g, t);
        w->tables[t].path = file_path_join(w->path, name);
        free(name);
        if (!is_there(w->tables[t].path)) continue;
        is_any = true;
        st = exported_table_open(&w->tables[t], g->tables[t].dim);
    }
    if (st == ST_OK && !is_any)
        st =
            status_fail(ST_INVALID, __FILE__, __LINE__, "%s: holds neither a saved model (%s) nor an exported one (%s)",
                        w->path, MANIFEST_NAME, dense_name);
    free(dense_path);
    free(dense_name);
    return st;
}

static status source_open(struct warm_start *w)
{
    struct stat stat_of_path;
    size_t bytes = strlen(w->path);
    bool is_directory = stat(w->path, &stat_of_path) == 0 && S_ISDIR(stat_of_path.st_mode);
    bool is_manifest = bytes > 5 && strcmp(w->path + bytes - 5, ".json") == 0;
    char *manifest_path = file_path_join(w->path, MANIFEST_NAME);
    bool is_saved = is_directory ? is_there(manifest_path) : is_manifest;
    free(manifest_path);
    if (is_saved) return saved_open(w);
    if (is_directory) return exported_open(w);
    TRY(file_open(w->path, &w->dense_map, &w->dense_file));
    w->dense = &w->dense_file;
    return ST_OK;
}

/* --- what fits -------------------------------------------------------------------------------- */

static const struct safetensors_tensor *tensor_of(const struct warm_start *w, const struct model_array *a)
{
    return w->dense ? safetensors_find(w->dense, a->name) : NULL;
}

static bool fits(const struct safetensors_tensor *t, const struct model_array *a)
{
    if (t->type != SAFETENSORS_F32) return false;
    if (t->rank == 2) return t->shape[0] == a->rows && t->shape[1] == a->cols;
    return t->rank == 1 && a->rows == 1 && t->shape[0] == a->cols;
}

static status match(struct warm_start *w)
{
    const struct graph *g = w->model->graph;
    for (uint32_t i = 0; i < w->arrays.count; i++) {
        const struct safetensors_tensor *t = tensor_of(w, &w->arrays.items[i]);
        if (t == NULL || !fits(t, &w->arrays.items[i])) continue;
        w->taken[i] = t;
        w->taken_count++;
    }
    for (uint32_t t = 0; t < g->table_count; t++) {
        struct source_table *source = &w->tables[t];
        source->is_taken = source->is_there && source->dim == g->tables[t].dim;
        uint64_t row_max = store_row_max(w->model->store, t);
        if (source->is_taken && source->row_count > row_max)
            FAIL(FULL, "%s: %" PRIu64 " rows of table %s, where its budget has room for %" PRIu64 "; raise store.ram",
                 w->path, source->row_count, graph_string(g, g->tables[t].name), row_max);
    }
    return ST_OK;
}

/* --- copying ---------------------------------------------------------------------------------- */

static status rows_copy(struct warm_start *w, uint32_t table)
{
    const struct source_table *source = &w->tables[table];
    const size_t vector_bytes = source->dim * sizeof(float);
    for (uint64_t row = 0; row < source->row_count; row++) {
        float *span;
        uint64_t key;
        if (source->rows != NULL)
            key = row_file_key(source->rows, row);
        else
            memcpy(&key, source->keys + row * KEY_BYTES, KEY_BYTES);
        status st = store_insert(w->model->store, table, key, &span);
        if (st == ST_INVALID)
            FAIL(INVALID, "%s: row %" PRIu64 " of table %s has the key %016" PRIx64 " of an earlier row", w->path, row,
                 graph_string(w->model->graph, w->model->graph->tables[table].name), key);
        TRY(st);
        if (source->floats == source->dim) model_row_init(w->model, table, key, span);
        if (source->rows != NULL)
            row_file_read(source->rows, row, span, source->floats);
        else
            memcpy(span, source->vectors + row * vector_bytes, vector_bytes);
        if (row % FORGET_ROWS == FORGET_ROWS - 1) file_map_forget(source->map);
    }
    file_map_forget(source->map);
    return ST_OK;
}

static status copy(struct warm_start *w)
{
    for (uint32_t t = 0; t < w->model->graph->table_count; t++)
        if (w->tables[t].is_taken) TRY(rows_copy(w, t));
    for (uint32_t i = 0; i < w->arrays.count; i++)
        if (w->taken[i] != NULL) model_array_set(&w->arrays.items[i], w->taken[i]->data);
    return ST_OK;
}

/* --- what came of it -------------------------------------------------------------------------- */

/* A list of texts behind a heading; of long ones the first NAMES_MAX and how many more. */
struct names {
    char text[2048];
    uint32_t count;
};

static void PRINTF_LIKE(2, 3) names_add(struct names *names, const char *format, ...)
{
    size_t end = strlen(names->text);
    if (names->count++ >= NAMES_MAX) return;
    va_list arguments;
    va_start(arguments, format);
    end += (size_t)snprintf(names->text + end, sizeof names->text - end, names->count > 1 ? ", " : "");
    vsnprintf(names->text + end, sizeof names->text - end, format, arguments);
    va_end(arguments);
}

static void names_end(struct names *names)
{
    size_t end = strlen(names->text);
    if (names->count > NAMES_MAX)
        snprintf(names->text + end, sizeof names->text - end, " and %u more", names->count - NAMES_MAX);
}

static void shape_text(char *text, size_t bytes, const struct safetensors_tensor *t)
{
    size_t end = (size_t)snprintf(text, bytes, "%s", t->rank == 0 ? "a number" : "");
    for (uint32_t i = 0; i < t->rank && end < bytes; i++)
        end += (size_t)snprintf(text + end, bytes - end, "%s%" PRIu64, i ? "x" : "", t->shape[i]);
}

/* What keeps its initial values, and why. */
static void untaken_list(const struct warm_start *w, struct names *names)
{
    const struct graph *g = w->model->graph;
    for (uint32_t i = 0; i < w->arrays.count; i++) {
        const struct model_array *a = &w->arrays.items[i];
        const struct safetensors_tensor *t = tensor_of(w, a);
        char shape[100];
        if (w->taken[i] != NULL) continue;
        if (t == NULL) {
            names_add(names, "%.100s (absent)", a->name);
        } else if (t->type != SAFETENSORS_F32) {
            names_add(names, "%.100s (%s there, not F32)", a->name, safetensors_type_name(t->type));
        } else {
            shape_text(shape, sizeof shape, t);
            names_add(names, "%.100s (%s there, %ux%u here)", a->name, shape, a->rows, a->cols);
        }
    }
    for (uint32_t t = 0; t < g->table_count; t++) {
        const char *name = graph_string(g, g->tables[t].name);
        if (w->tables[t].is_taken) continue;
        if (w->tables[t].is_there)
            names_add(names, "table %.100s (dim %u there, %u here)", name, w->tables[t].dim, g->tables[t].dim);
        else
            names_add(names, "table %.100s (absent)", name);
    }
}

static void tell(const struct warm_start *w)
{
    const struct graph *g = w->model->graph;
    struct names rows = {.count = 0}, untaken = {.count = 0};
    for (uint32_t t = 0; t < g->table_count; t++) {
        const struct source_table *source = &w->tables[t];
        char count[27];
        if (!source->is_taken) continue;
        bool has_state = source->floats == g->tables[t].span_floats;
        names_add(&rows, "%s rows of %.100s%s", session_count_text(count, source->row_count),
                  graph_string(g, g->tables[t].name), has_state ? "" : " (their vectors only)");
    }
    names_end(&rows);
    untaken_list(w, &untaken);
    names_end(&untaken);
    log_info("init     from %s: %u of %u tensors%s%s%s%s", w->path, w->taken_count, w->arrays.count,
             rows.count ? ", " : "", rows.text, untaken.count ? "; initial values: " : "", untaken.text);
}

static status nothing_fits(const struct warm_start *w)
{
    struct names untaken = {.count = 0};
    untaken_list(w, &untaken);
    names_end(&untaken);
    FAIL(INVALID, "%s: nothing in it has the name and shape of a part of this model: %s", w->path, untaken.text);
}

static status warm_start_run(struct warm_start *w)
{
    const uint32_t table_count = w->model->graph->table_count;
    TRY(model_arrays_list(&w->arrays, w->model, false));
    w->taken = calloc((size_t)w->arrays.count + 1, sizeof *w->taken);
    w->tables = calloc((size_t)table_count + 1, sizeof *w->tables);
    if (w->taken == NULL || w->tables == NULL) FAIL(MEMORY, "%s: no memory to compare it with the model", w->path);
    TRY(source_open(w));
    TRY(match(w));
    bool is_any = w->taken_count != 0;
    for (uint32_t t = 0; t < table_count; t++) is_any = is_any || w->tables[t].is_taken;
    if (!is_any) return nothing_fits(w);
    TRY(copy(w));
    tell(w);
    return ST_OK;
}

status warm_start(struct model *model, const char *path)
{
    struct warm_start w = {.model = model, .path = path};
    for (uint32_t t = 0; t < model->graph->table_count; t++) CHECK(store_row_count(model->store, t) == 0);
    status st = warm_start_run(&w);
    warm_start_close(&w);
    return st;
}
