/* Starts a model from values made elsewhere (engine/model/warm_start.h). Called at most once a
 * start, on files of any origin:
 *
 *     open, verify ──▶ match by name, type and shape ──▶ room for the rows? all finite? ──▶ copy ──▶ say what came
 *
 * Nothing is copied before all files are checked. */
#include "engine/model/warm_start.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cfg/ini.h"
#include "engine/base/heap.h"
#include "engine/base/log.h"
#include "engine/base/words.h"
#include "engine/model/model_saved.h"
#include "engine/model/tensor_source.h"
#include "engine/model/warm_keys.h"
#include "io/store/store_rows.h"

#define KEY_BYTES sizeof(uint64_t)
/* Rows after which pages that have been copied are let go: the memory plan has no part for them. */
#define FORGET_ROWS 16384
/* Names that a line lists; the rest are counted. */
#define NAMES_MAX 8
/* Names come from files: a message shows this many bytes of a name. */
#define NAME_SHOWN ".100s"

/* The outcome for a parameter. */
enum fit { FIT_ABSENT, FIT_TAKEN, FIT_TYPE, FIT_SHAPE };
struct source_param {
    enum fit fit;
    bool is_transposed; /* --transpose says that PATH has the tensor so */
    struct source_tensor *tensor;
};

/* Rows for a table of the graph: a saved model's (`rows`) or tensors (`vectors`, and `keys` or `words`). */
struct source_table {
    bool is_there, is_taken;
    uint32_t dim;
    uint64_t row_count;
    bool has_state;       /* whole rows come, not vectors alone */
    uint32_t counters_at; /* of a saved row: where its counters are; 0: it has none */
    const struct model_rows *rows;
    const struct source_tensor *keys, *words, *vectors;
    struct warm_words hashed; /* turns its words into keys */
};

struct warm_start {
    struct model *model;
    const struct warm_start_options *o;
    bool is_saved;            /* PATH is a model's directory                  */
    struct model_saved saved; /* if is_saved                                  */
    struct name_map map;
    struct tensor_source tensors;
    struct model_arrays arrays;  /* of the model         */
    const char **names;          /* the graph's names, NULL at the end: of arrays, then TABLE.keys, … */
    struct source_param *params; /* [arrays.count]       */
    struct source_table *tables; /* [table_count] of the graph */
    uint32_t taken_count;
};

static const char *const table_parts[] = {"keys", "words", "vectors"};
enum { PART_KEYS, PART_WORDS, PART_VECTORS, PART_COUNT };

static void warm_start_close(struct warm_start *w)
{
    uint32_t table_count = w->model->graph->table_count;
    for (uint32_t i = 0; w->names != NULL && i < PART_COUNT * table_count; i++)
        free((char *)(uintptr_t)w->names[w->arrays.count + i]);
    for (uint32_t t = 0; w->tables != NULL && t < table_count; t++) warm_words_close(&w->tables[t].hashed);
    free(w->names);
    free(w->tables);
    free(w->params);
    model_arrays_free(&w->arrays);
    tensor_source_close(&w->tensors);
    name_map_free(&w->map);
    model_saved_close(&w->saved);
}

/* --- what the graph has ----------------------------------------------------------------------- */

static status parts_list(struct warm_start *w)
{
    const struct graph *g = w->model->graph;
    TRY(model_arrays_list(&w->arrays, w->model, false));
    const uint32_t count = w->arrays.count;
    w->params = calloc((size_t)count + 1, sizeof *w->params);
    w->tables = calloc((size_t)g->table_count + 1, sizeof *w->tables);
    w->names = calloc((size_t)count + PART_COUNT * (size_t)g->table_count + 1, sizeof *w->names);
    if (w->params == NULL || w->tables == NULL || w->names == NULL)
        FAIL(MEMORY, "%s: no memory to compare it with the model", w->o->path);
    for (uint32_t i = 0; i < count; i++) w->names[i] = w->arrays.items[i].name;
    for (uint32_t i = 0; i < PART_COUNT * g->table_count; i++) {
        char *name;
        const char *table = graph_string(g, g->tables[i / PART_COUNT].name);
        TRY(heap_text(&name, "%s.%s", table, table_parts[i % PART_COUNT]));
        w->names[count + i] = name;
    }
    return ST_OK;
}

/* "; did you mean h1.weight?" into text, or nothing. */
static const char *near_text(char *text, size_t bytes, const char *name, const char *const *names)
{
    const char *near = strlen(name) < INI_NAME_BYTES_MAX ? ini_nearest(name, names) : NULL;
    *text = '\0';
    if (near != NULL) snprintf(text, bytes, "; did you mean %" NAME_SHOWN "?", near);
    return text;
}

/* --- options ---------------------------------------------------------------------------------- */

/* Transposes the weights of fc. Parameters are listed in the order of the graph's tensors, each once,
 * however many layers share it. */
static void transpose_all(struct warm_start *w)
{
    const struct graph *g = w->model->graph;
    for (uint32_t n = 0; n < g->forward_count; n++) {
        const struct graph_node *node = &g->nodes[n];
        if (node->op != OP_ID_fc) continue;
        const uint32_t weight = g->args[node->arg_begin + node->input_count];
        uint32_t index = 0;
        if (g->tensors[weight].is_alias) continue;
        for (uint32_t t = 0; t < weight; t++) index += g->tensors[t].kind == TENSOR_PARAM && !g->tensors[t].is_alias;
        w->params[index].is_transposed = true;
    }
}

static status transpose_read(struct warm_start *w)
{
    const char *names = w->o->transpose;
    if (names == NULL) return ST_OK;
    if (strcmp(names, "all") == 0) {
        transpose_all(w);
        return ST_OK;
    }
    while (*names) {
        char name[256], near[128];
        size_t bytes = strcspn(names, ",");
        snprintf(name, sizeof name, "%.*s", bytes < sizeof name ? (int)bytes : (int)sizeof name - 1, names);
        uint32_t i = 0;
        while (i < w->arrays.count && strcmp(w->arrays.items[i].name, name) != 0) i++;
        if (i == w->arrays.count)
            FAIL(USAGE, "--transpose: the graph has no parameter \"%" NAME_SHOWN "\"%s", name,
                 near_text(near, sizeof near, name, w->names));
        w->params[i].is_transposed = true;
        names += bytes + (names[bytes] == ',');
    }
    return ST_OK;
}

static status map_read(struct warm_start *w)
{
    struct file_map text;
    if (w->o->map == NULL) return ST_OK;
    TRY(file_map_read(&text, w->o->map));
    status st = name_map_parse(&w->map, w->o->map, (const char *)text.data, text.bytes);
    file_map_close(&text);
    TRY(st);
    for (uint32_t i = 0; i < w->map.count; i++) {
        const struct name_pair *pair = &w->map.pairs[i];
        char near[128];
        const char *const *name = w->names;
        while (*name != NULL && strcmp(*name, pair->ours) != 0) name++;
        if (*name == NULL)
            FAIL(INVALID, "%s:%u: the graph has no \"%" NAME_SHOWN "\"%s", w->o->map, pair->line, pair->ours,
                 near_text(near, sizeof near, pair->ours, w->names));
    }
    return ST_OK;
}

static status fields_check(const struct warm_start *w)
{
    const struct graph *g = w->model->graph;
    for (uint32_t i = 0; i < w->o->field_count; i++) {
        uint32_t f = 0;
        while (f < g->field_count && strcmp(graph_string(g, g->fields[f].name), w->o->field[i]) != 0) f++;
        if (f == g->field_count)
            FAIL(USAGE, "--field: the graph has no sparse field \"%" NAME_SHOWN "\"", w->o->field[i]);
    }
    return ST_OK;
}

/* --- opening ---------------------------------------------------------------------------------- */

/* The floats of a span behind its vector. */
static uint32_t state_floats(const struct graph_table *table, uint32_t span_floats)
{
    return span_floats - row_vector_floats(table);
}

/* The optimizer of that name; NULL, of a manifest that was written when every optimizer
 * had another length of spans: `own`. OPTIMIZER_ID_COUNT: not known. */
static uint32_t optimizer_kind(const char *name, uint32_t own)
{
    uint32_t kind = 0;
    if (name == NULL) return own;
    while (kind < OPTIMIZER_ID_COUNT && strcmp(optimizer_table[kind].name, name) != 0) kind++;
    return kind;
}

static void saved_table_match(struct warm_start *w, uint32_t table)
{
    const struct graph *g = w->model->graph;
    const struct graph_table *have = &g->tables[table];
    struct source_table *source = &w->tables[table];
    const struct manifest *m = &w->saved.manifest;
    for (uint32_t i = 0; i < m->table_count; i++) {
        const struct manifest_table *saved = &m->tables[i];
        if (strcmp(saved->name, graph_string(g, have->name)) != 0) continue;
        const uint32_t own = g->optimizers[have->optimizer].kind;
        const struct graph_optimizer optimizer = {.kind = optimizer_kind(saved->optimizer, own)};
        const struct graph_table was = {.dim = saved->dim, .store = (uint16_t)saved->store, .life = {.counts = 1}};
        const bool counts =
            optimizer.kind < OPTIMIZER_ID_COUNT && saved->span_floats == optimizer_table_floats(&optimizer, &was);
        source->has_state = saved->dim == have->dim && optimizer.kind == own &&
                            state_floats(&was, saved->span_floats) == state_floats(have, have->span_floats);
        source->counters_at = counts ? saved->span_floats - ROW_COUNTER_FLOATS : 0;
        source->is_there = true;
        source->dim = saved->dim;
        source->row_count = saved->rows;
        source->rows = &w->saved.rows[i];
    }
}

static status saved_open(struct warm_start *w)
{
    if (w->o->is_import)
        FAIL(INVALID,
             "%s: a saved model, not tensors made elsewhere; it is used as it is (--model), goes on by --resume, "
             "and starts another by --init",
             w->o->path);
    TRY(model_saved_open(&w->saved, w->o->path));
    TRY(model_saved_note(&w->saved));
    if (w->o->only_looks) return ST_OK;
    TRY(model_saved_verify(&w->saved));
    TRY(tensor_source_wrap(&w->tensors, w->saved.dense_path, &w->saved.dense_map, &w->saved.dense));
    for (uint32_t t = 0; t < w->model->graph->table_count; t++) saved_table_match(w, t);
    return ST_OK;
}

static bool is_there(const char *path)
{
    struct stat ignored;
    return stat(path, &ignored) == 0;
}

static status source_open(struct warm_start *w)
{
    struct stat stat_of_path;
    const char *path = w->o->path;
    size_t bytes = strlen(path);
    bool is_directory = stat(path, &stat_of_path) == 0 && S_ISDIR(stat_of_path.st_mode);
    char manifest_path[FILE_PATH_BYTES];
    w->is_saved = is_directory ? is_there(file_path_join(manifest_path, path, MANIFEST_NAME))
                               : bytes > 5 && strcmp(path + bytes - 5, ".json") == 0;
    if (w->is_saved) return saved_open(w);
    TRY(tensor_source_open(&w->tensors, path));
    return w->o->map ? tensor_source_rename(&w->tensors, w->o->map, &w->map) : ST_OK;
}

/* --- what fits -------------------------------------------------------------------------------- */

static struct source_tensor *tensor_named(const struct warm_start *w, const char *name)
{
    struct source_tensor *tensor = tensor_source_find(&w->tensors, name);
    if (tensor != NULL) tensor->is_used = true;
    return tensor;
}

static enum fit param_fit(const struct source_param *p, const struct model_array *a)
{
    const struct safetensors_tensor *array = &p->tensor->npy.array;
    const uint32_t rows = p->is_transposed ? a->cols : a->rows, cols = p->is_transposed ? a->rows : a->cols;
    if (!source_tensor_is_float(p->tensor)) return FIT_TYPE;
    bool is_same = array->rank == 2 && array->shape[0] == rows && array->shape[1] == cols;
    bool is_same_row = array->rank == 1 && !p->is_transposed && rows == 1 && array->shape[0] == cols;
    return is_same || is_same_row ? FIT_TAKEN : FIT_SHAPE;
}

static const char *type_text(const struct source_tensor *tensor)
{
    return tensor->is_words ? "text" : safetensors_type_name(tensor->npy.array.type);
}

/* Refuses an import that does not fit. */
static status param_refuse(const struct warm_start *w, uint32_t index)
{
    const struct model_array *a = &w->arrays.items[index];
    const struct source_param *p = &w->params[index];
    const struct safetensors_tensor *array = &p->tensor->npy.array;
    const char *path = source_tensor_path(&w->tensors, p->tensor), *theirs = p->tensor->theirs;
    char shape[SHAPE_TEXT_BYTES];
    source_tensor_shape(p->tensor, shape);
    if (p->fit == FIT_TYPE)
        FAIL(INVALID, "%s: %" NAME_SHOWN ": expected elements of type F32, F64, F16 or BF16, found %s", path, theirs,
             type_text(p->tensor));
    if (p->is_transposed)
        FAIL(MISMATCH, "%s: %" NAME_SHOWN ": expected %ux%u, which --transpose makes the graph's %ux%u, found %s", path,
             theirs, a->cols, a->rows, a->rows, a->cols, shape);
    bool is_turned = array->rank == 2 && array->shape[0] == a->cols && array->shape[1] == a->rows;
    FAIL(MISMATCH, "%s: %" NAME_SHOWN ": expected %ux%u, as the graph has it, found %s%s%" NAME_SHOWN, path, theirs,
         a->rows, a->cols, shape,
         is_turned ? "; if its rows are the outputs, as PyTorch has them, give --transpose " : "",
         is_turned ? a->name : "");
}

static status params_match(struct warm_start *w)
{
    for (uint32_t i = 0; i < w->arrays.count; i++) {
        struct source_param *p = &w->params[i];
        p->tensor = tensor_named(w, w->arrays.items[i].name);
        if (p->tensor != NULL) p->fit = param_fit(p, &w->arrays.items[i]);
        if (w->o->is_import && p->fit != FIT_ABSENT && p->fit != FIT_TAKEN) return param_refuse(w, i);
        w->taken_count += p->fit == FIT_TAKEN;
    }
    return ST_OK;
}

/* Whether keys (or words) and vectors are there, in types and shapes that make rows of any dim. */
static bool is_table(const struct source_table *s)
{
    if (s->vectors == NULL || (s->keys == NULL) == (s->words == NULL)) return false;
    const struct safetensors_tensor *vectors = &s->vectors->npy.array;
    const struct safetensors_tensor *keys = s->keys ? &s->keys->npy.array : &s->words->npy.array;
    bool has_keys = s->keys ? !s->keys->is_words && (keys->type == SAFETENSORS_U64 || keys->type == SAFETENSORS_I64)
                            : s->words->is_words;
    return has_keys && source_tensor_is_float(s->vectors) && keys->rank == 1 && vectors->rank == 2 &&
           vectors->shape[0] == keys->shape[0] && vectors->shape[1] <= UINT32_MAX;
}

static status table_refuse(const struct warm_start *w, const struct source_table *s, const char *name)
{
    char text[3][SHAPE_TEXT_BYTES + 32], shape[SHAPE_TEXT_BYTES];
    const struct source_tensor *const parts[PART_COUNT] = {s->keys, s->words, s->vectors};
    for (uint32_t i = 0; i < PART_COUNT; i++)
        snprintf(text[i], sizeof text[i], "%s%s%s", parts[i] ? type_text(parts[i]) : "none", parts[i] ? " " : "",
                 parts[i] ? source_tensor_shape(parts[i], shape) : "");
    FAIL(INVALID,
         "%s: table %s: expected %s.vectors F32, F64, F16 or BF16 [rows, dim], "
         "and either %s.keys U64 or I64 [rows] or %s.words.txt of as many lines; found vectors %s, keys %s, words %s",
         w->o->path, name, name, name, name, text[PART_VECTORS], text[PART_KEYS], text[PART_WORDS]);
}

static status table_match(struct warm_start *w, uint32_t table)
{
    const struct graph *g = w->model->graph;
    const char *name = graph_string(g, g->tables[table].name);
    const char *const *names = &w->names[w->arrays.count + PART_COUNT * table];
    struct source_table *s = &w->tables[table];
    s->keys = tensor_named(w, names[PART_KEYS]);
    s->words = tensor_named(w, names[PART_WORDS]);
    s->vectors = tensor_named(w, names[PART_VECTORS]);
    if (s->keys == NULL && s->words == NULL && s->vectors == NULL) return ST_OK;
    if (!is_table(s)) return table_refuse(w, s, name);
    s->is_there = true;
    s->row_count = s->vectors->npy.array.shape[0];
    s->dim = (uint32_t)s->vectors->npy.array.shape[1];
    if (w->o->is_import && s->dim != g->tables[table].dim)
        FAIL(MISMATCH, "%s: table %s: expected vectors of %u numbers, as the graph has them, found %u", w->o->path,
             name, g->tables[table].dim, s->dim);
    return s->words ? warm_words_open(&s->hashed, g, table, w->o->field, w->o->field_count) : ST_OK;
}

static status match(struct warm_start *w)
{
    const struct graph *g = w->model->graph;
    TRY(params_match(w));
    for (uint32_t t = 0; t < g->table_count; t++) {
        struct source_table *source = &w->tables[t];
        if (!w->is_saved) TRY(table_match(w, t));
        source->is_taken = source->is_there && source->dim == g->tables[t].dim;
        if (w->is_saved && source->is_taken && source->row_count)
            TRY(warm_keys_check(w->saved.manifest_path, &w->saved.manifest, g, t));
        const uint64_t row_max = store_row_max(w->model->store, t);
        if (source->is_taken && source->row_count > row_max && w->model->share.owner_count == 0)
            FAIL(FULL, "%s: %" PRIu64 " rows of table %s, where its budget has room for %" PRIu64 "; raise store.ram",
                 w->o->path, source->row_count, graph_string(g, g->tables[t].name), row_max);
    }
    return ST_OK;
}

/* Checks values made elsewhere; values that training has saved are taken as they are. */
static status finite_check(const struct warm_start *w)
{
    for (uint32_t i = 0; i < w->arrays.count; i++)
        if (w->params[i].fit == FIT_TAKEN) TRY(source_tensor_finite(&w->tensors, w->params[i].tensor, false));
    for (uint32_t t = 0; t < w->model->graph->table_count; t++) {
        if (!w->tables[t].is_taken) continue;
        TRY(source_tensor_finite(&w->tensors, w->tables[t].vectors, w->model->graph->tables[t].store == TABLE_BF16));
        source_tensor_forget(&w->tensors, w->tables[t].vectors);
    }
    return ST_OK;
}

/* --- copying ---------------------------------------------------------------------------------- */

/* Begins the counters of a row anew, in a table that counts. */
static void counters_begin(const struct warm_start *w, uint32_t table, float *span, bool has_vector)
{
    const struct graph_table *declared = &w->model->graph->tables[table];
    if (declared->life.counts) row_counters_begin(span + graph_table_rule_floats(declared), has_vector);
}

/* Copies a saved row, whose vector may have another format. Of a row without a vector, only the first column
 * has been trained; in a table that gives rows their vectors at once, the others begin. */
static void row_copy(const struct warm_start *w, uint32_t table, uint64_t key, const float *from, float *span)
{
    const struct source_table *source = &w->tables[table];
    const struct graph *g = w->model->graph;
    const struct graph_table *to = &g->tables[table];
    const struct graph_table was = {.dim = source->dim, .store = (uint16_t)source->rows->said->store};
    const uint32_t floats = row_vector_floats(to);
    const bool had_vector = source->counters_at == 0 || row_counters_get(from + source->counters_at).has_vector,
               has_vector = had_vector || !(to->life.vector_score > 0);
    if (!source->has_state) model_row_init(w->model, table, key, span);
    if (has_vector && !had_vector)
        row_vector_begin(to, span, to->dim, random_stream(g->header->seed, RANDOM_ROW, table), key);
    for (uint32_t i = 0; i < (had_vector == has_vector ? to->dim : 1); i++)
        row_vector_put(to, span, i, row_vector_get(&was, from, i));
    if (source->has_state)
        memcpy(span + floats, from + row_vector_floats(&was), state_floats(to, to->span_floats) * sizeof *span);
    counters_begin(w, table, span, has_vector);
}

/* Copies a saved model's rows of a table, and lets go pages that have been read. */
static status saved_rows_copy(struct warm_start *w, uint32_t table)
{
    const struct source_table *source = &w->tables[table];
    struct model_rows_walk walk = {0};
    uint64_t key;
    for (const float *from; model_rows_next(source->rows, &walk, &key, &from);) {
        float *span;
        if (!model_share_has(&w->model->share, table, key)) continue;
        TRY(store_put(w->model->store, table, key, &span));
        row_copy(w, table, key, from, span);
    }
    model_rows_forget(source->rows);
    return ST_OK;
}

/* The key of the next row; `words` moves to the next line. */
static status row_key(const struct warm_start *w, const struct source_table *s, uint64_t row, const char **words,
                      uint64_t *key)
{
    if (s->keys != NULL) {
        memcpy(key, s->keys->npy.array.data + row * KEY_BYTES, KEY_BYTES);
        return ST_OK;
    }
    const char *begin = *words, *end = (const char *)s->words->npy.array.data + s->words->npy.array.bytes;
    const char *stop = memchr(begin, '\n', (size_t)(end - begin));
    if (stop == NULL) stop = end;
    *words = stop + (stop < end);
    stop -= stop > begin && stop[-1] == '\r';
    return warm_words_key(&s->hashed, source_tensor_path(&w->tensors, s->words), row + 1, begin, (size_t)(stop - begin),
                          key);
}

/* Checks the field that each line of words names. */
static status words_check(const struct warm_start *w)
{
    for (uint32_t t = 0; t < w->model->graph->table_count; t++) {
        const struct source_table *s = &w->tables[t];
        const char *words = s->hashed.serves && s->is_taken ? (const char *)s->words->npy.array.data : NULL;
        uint64_t key;
        for (uint64_t row = 0; words != NULL && row < s->row_count; row++) TRY(row_key(w, s, row, &words, &key));
    }
    return ST_OK;
}

static void row_values(const struct source_table *s, const struct graph_table *to, uint64_t row, float *span)
{
    const uint64_t step = s->vectors->npy.is_fortran ? s->row_count : 1;
    const uint64_t first = s->vectors->npy.is_fortran ? row : row * s->dim;
    for (uint32_t d = 0; d < s->dim; d++)
        row_vector_put(to, span, d, source_tensor_float(s->vectors, first + d * step));
}

static void rows_forget(const struct warm_start *w, const struct source_table *s)
{
    if (s->keys != NULL) source_tensor_forget(&w->tensors, s->keys);
    if (s->words != NULL) source_tensor_forget(&w->tensors, s->words);
    if (s->vectors != NULL) source_tensor_forget(&w->tensors, s->vectors);
}

static status rows_copy(struct warm_start *w, uint32_t table)
{
    const struct source_table *source = &w->tables[table];
    if (source->rows != NULL) return saved_rows_copy(w, table);
    const char *words = source->words ? (const char *)source->words->npy.array.data : NULL;
    for (uint64_t row = 0; row < source->row_count; row++) {
        float *span;
        uint64_t key;
        TRY(row_key(w, source, row, &words, &key));
        if (!model_share_has(&w->model->share, table, key)) continue;
        status st = store_insert(w->model->store, table, key, &span);
        if (st == ST_INVALID)
            FAIL(INVALID, "%s: row %" PRIu64 " of table %s has the key %016" PRIx64 " of an earlier row", w->o->path,
                 row, graph_string(w->model->graph, w->model->graph->tables[table].name), key);
        TRY(st);
        model_row_init(w->model, table, key, span);
        row_values(source, &w->model->graph->tables[table], row, span);
        counters_begin(w, table, span, true);
        if (row % FORGET_ROWS == FORGET_ROWS - 1) rows_forget(w, source);
    }
    rows_forget(w, source);
    return ST_OK;
}

/* A transposed row-major tensor is a column-major tensor of the graph's shape, and the other way round. */
static void param_copy(const struct model_array *a, const struct source_param *p)
{
    const bool by_columns = p->tensor->npy.is_fortran != p->is_transposed;
    for (uint64_t row = 0; row < a->rows; row++)
        for (uint64_t col = 0; col < a->cols; col++)
            a->data[row * a->stride + col] =
                source_tensor_float(p->tensor, by_columns ? col * a->rows + row : row * a->cols + col);
}

/* Returns IO if bytes of the files could not be read, else `st`. */
static status files_check(const struct warm_start *w, status st)
{
    return tensor_source_check(&w->tensors, model_saved_check(&w->saved, st));
}

static status copy(struct warm_start *w)
{
    for (uint32_t t = 0; t < w->model->graph->table_count; t++)
        if (w->tables[t].is_taken) TRY(rows_copy(w, t));
    for (uint32_t i = 0; i < w->arrays.count; i++)
        if (w->params[i].fit == FIT_TAKEN) param_copy(&w->arrays.items[i], &w->params[i]);
    return ST_OK;
}

/* --- what came of it -------------------------------------------------------------------------- */

/* A list of texts after a heading; of a long list the first NAMES_MAX and how many more. */
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

/* Lists the parts that keep their initial values, and why. */
static void untaken_list(const struct warm_start *w, struct names *names)
{
    const struct graph *g = w->model->graph;
    *names = (struct names){.count = 0};
    for (uint32_t i = 0; i < w->arrays.count; i++) {
        const struct model_array *a = &w->arrays.items[i];
        const struct source_param *p = &w->params[i];
        char shape[SHAPE_TEXT_BYTES];
        if (p->fit == FIT_ABSENT) names_add(names, "%" NAME_SHOWN " (absent)", a->name);
        if (p->fit == FIT_TYPE) names_add(names, "%" NAME_SHOWN " (%s there, not F32)", a->name, type_text(p->tensor));
        if (p->fit == FIT_SHAPE)
            names_add(names, "%" NAME_SHOWN " (%s there, %ux%u here)", a->name, source_tensor_shape(p->tensor, shape),
                      a->rows, a->cols);
    }
    for (uint32_t t = 0; t < g->table_count; t++) {
        const char *name = graph_string(g, g->tables[t].name);
        if (w->tables[t].is_taken) continue;
        if (w->tables[t].is_there)
            names_add(names, "table %" NAME_SHOWN " (dim %u there, %u here)", name, w->tables[t].dim, g->tables[t].dim);
        else
            names_add(names, "table %" NAME_SHOWN " (absent)", name);
    }
    names_end(names);
}

/* Whether the name is of optimizer state in a saved model, NAME.state0, …,
 * which is not looked for by name. */
static bool is_state(const struct warm_start *w, const char *name)
{
    const char *dot = strrchr(name, '.');
    return w->is_saved && dot != NULL && strncmp(dot, ".state", 6) == 0;
}

static bool graph_has_table(const struct graph *g, const char *name)
{
    for (uint32_t t = 0; t < g->table_count; t++)
        if (strcmp(graph_string(g, g->tables[t].name), name) == 0) return true;
    return false;
}

/* Lists tensors that PATH has and the graph lacks. */
static void unused_list(const struct warm_start *w, struct names *names)
{
    *names = (struct names){.count = 0};
    for (uint32_t i = 0; i < w->tensors.tensor_count; i++) {
        const struct source_tensor *tensor = &w->tensors.tensors[i];
        if (!tensor->is_used && !is_state(w, tensor->name)) names_add(names, "%" NAME_SHOWN, tensor->theirs);
    }
    for (uint32_t t = 0; w->is_saved && t < w->saved.manifest.table_count; t++) {
        const char *name = w->saved.manifest.tables[t].name;
        if (!graph_has_table(w->model->graph, name)) names_add(names, "table %" NAME_SHOWN, name);
    }
    names_end(names);
}

/* Lists how many tensors of each type were converted. */
static void converted_list(const struct warm_start *w, struct names *names)
{
    uint32_t counts[SAFETENSORS_TYPE_COUNT] = {0};
    *names = (struct names){.count = 0};
    for (uint32_t i = 0; i < w->arrays.count; i++)
        if (w->params[i].fit == FIT_TAKEN) counts[w->params[i].tensor->npy.array.type]++;
    for (uint32_t t = 0; t < w->model->graph->table_count; t++)
        if (w->tables[t].is_taken && w->tables[t].vectors) counts[w->tables[t].vectors->npy.array.type]++;
    for (enum safetensors_type type = 0; type < SAFETENSORS_TYPE_COUNT; type++)
        if (counts[type] && type != SAFETENSORS_F32)
            names_add(names, "%u of %s", counts[type], safetensors_type_name(type));
}

static void tell(const struct warm_start *w, const struct names *untaken, const struct names *unused)
{
    const struct graph *g = w->model->graph;
    struct names rows = {.count = 0}, converted;
    for (uint32_t t = 0; t < g->table_count; t++) {
        const struct source_table *source = &w->tables[t];
        char count[27];
        const bool lacks_state = !source->has_state && row_vector_floats(&g->tables[t]) < g->tables[t].span_floats;
        if (!source->is_taken) continue;
        names_add(&rows, "%s rows of %" NAME_SHOWN "%s", words_whole(count, source->row_count),
                  graph_string(g, g->tables[t].name), lacks_state ? " (their vectors only)" : "");
    }
    names_end(&rows);
    converted_list(w, &converted);
    log_info("%s from %s: %u of %u tensors%s%s%s%s%s%s%s", w->o->is_import ? "import  " : "init    ", w->o->path,
             w->taken_count, w->arrays.count, rows.count ? ", " : "", rows.text, converted.count ? "; " : "",
             converted.text, converted.count ? " converted to F32" : "", untaken->count ? "; initial values: " : "",
             untaken->text);
    if (unused->count) log_info("         not in the graph: %s", unused->text);
}

static status judge(const struct warm_start *w, const struct names *untaken, const struct names *unused)
{
    bool is_any = w->taken_count != 0;
    for (uint32_t t = 0; t < w->model->graph->table_count; t++) is_any = is_any || w->tables[t].is_taken;
    if (!is_any)
        FAIL(INVALID, "%s: nothing in it has the name and shape of a part of this model: %s", w->o->path,
             untaken->text);
    if (w->o->strict && untaken->count + unused->count != 0)
        FAIL(MISMATCH, "%s: --strict: %s%s%s%s%s", w->o->path, untaken->count ? "only in the graph: " : "",
             untaken->text, untaken->count && unused->count ? "; " : "", unused->count ? "not in the graph: " : "",
             unused->text);
    return ST_OK;
}

static status warm_start_run(struct warm_start *w)
{
    struct names untaken, unused;
    TRY(parts_list(w));
    TRY(transpose_read(w));
    TRY(fields_check(w));
    TRY(map_read(w));
    TRY(source_open(w));
    if (w->o->only_looks && w->is_saved) return ST_OK;
    TRY(match(w));
    untaken_list(w, &untaken);
    unused_list(w, &unused);
    TRY(judge(w, &untaken, &unused));
    if (w->o->only_looks) return ST_OK;
    TRY(files_check(w, w->is_saved ? ST_OK : finite_check(w)));
    TRY(files_check(w, words_check(w)));
    TRY(files_check(w, copy(w)));
    tell(w, &untaken, &unused);
    return ST_OK;
}

status warm_start(struct model *model, const struct warm_start_options *options)
{
    struct warm_start w = {.model = model, .o = options};
    for (uint32_t t = 0; t < model->graph->table_count; t++) CHECK(store_row_count(model->store, t) == 0);
    status st = warm_start_run(&w);
    warm_start_close(&w);
    return st;
}
