/* A net's inputs, from columns, and constants, from tables. */
#include "engine/onnx/exporter.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/base/words.h"
#include "engine/onnx/onnx.h"
#include "graph/row_vector.h"
#include "io/read/reader.h"
#include "io/store/store_rows.h"

#define PART_KEYS    "order of rows"
#define ROWS_AT_ONCE 4096u
#define NAME_BYTES   224u

static status notes_put(struct exporter *e)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, e->setup->model.progress.step);
    onnx_note(&e->net, "heterps.step", text);
    onnx_note(&e->net, "heterps.keys", "xxh3_64 of the text's bytes with heterps.seed.NAME as seed; 0: no key");
    return ST_OK;
}

status exporter_open(struct exporter *e)
{
    const struct graph *g = e->graph;
    e->value = calloc((size_t)g->tensor_count + 1, sizeof *e->value);
    e->field = calloc((size_t)g->field_count + 1, sizeof *e->field);
    e->rows = calloc((size_t)g->table_count * g->field_count + 1, sizeof *e->rows);
    if (!e->value || !e->field || !e->rows) FAIL(MEMORY, "no memory for a net of %u tensors", g->tensor_count);
    return notes_put(e);
}

void exporter_close(struct exporter *e)
{
    onnx_close(&e->net);
    free(e->value);
    free(e->field);
    free(e->rows);
}

/* --- numbers ---------------------------------------------------------------------------------- */

static uint32_t two(struct exporter *e, const char *type, uint32_t a, uint32_t b)
{
    return onnx_op(&e->net, type, NULL, ONNX_IN(a, b));
}

/* Transforms numbers as readers do: log1p, then (x - mean) * scale;
 * an absent number becomes one of its own. */
static uint32_t transformed(struct exporter *e, uint32_t raw, const float *mean, const float *scale, uint64_t count)
{
    const struct reader_schema *s = &e->setup->schema.reader;
    const uint64_t shape[] = {1, count};
    uint32_t x = raw;
    if (s->log1p) {
        const uint32_t size = two(e, "Add", onnx_op(&e->net, "Abs", NULL, ONNX_IN(x)), onnx_float(&e->net, 1));
        x = two(e, "Mul", onnx_op(&e->net, "Sign", NULL, ONNX_IN(x)), onnx_op(&e->net, "Log", NULL, ONNX_IN(size)));
    }
    x = two(e, "Sub", x, onnx_floats(&e->net, mean, shape, 2, NULL));
    x = two(e, "Mul", x, onnx_floats(&e->net, scale, shape, 2, NULL));
    const uint32_t is_absent = onnx_op(&e->net, "IsNaN", NULL, ONNX_IN(raw)),
                   instead = onnx_float(&e->net, s->missing_value);
    return onnx_op(&e->net, "Where", NULL, ONNX_IN(is_absent, instead, x));
}

static status numbers_make(struct exporter *e)
{
    const struct reader_schema *s = &e->setup->schema.reader;
    const uint32_t count = s->example.dense_count;
    uint32_t *part = calloc((size_t)count + 1, sizeof *part);
    float *mean = calloc((size_t)count * 2 + 1, sizeof *mean), *scale = mean ? mean + count : NULL;
    status st = part && mean ? ST_OK : status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for %u columns", count);
    for (uint32_t i = 0; i < count && st == ST_OK; i++) {
        mean[i] = s->dense[i].mean;
        scale[i] = s->dense[i].scale;
        st = onnx_input(&e->net, s->dense[i].name, ONNX_FLOAT, 1, &part[i]);
    }
    if (st == ST_OK) {
        const uint32_t all = onnx_op(&e->net, "Concat", ONNX_ATTR({.name = "axis", .i = 1}), part, count);
        e->numbers = transformed(e, all, mean, scale, count);
    }
    free(part);
    free(mean);
    return st;
}

status exporter_numbers(struct exporter *e, uint32_t tensor)
{
    const struct graph_tensor *dense = &e->graph->tensors[tensor];
    const uint32_t count = e->setup->schema.reader.example.dense_count;
    if (dense->offset + dense->cols > count) return ST_OK; /* numbers that readers draw: no client has them */
    if (e->numbers == 0) TRY(numbers_make(e));
    const bool is_all = dense->offset == 0 && dense->cols == count;
    e->value[tensor] =
        is_all ? e->numbers
               : onnx_slice(&e->net, e->numbers, 1, (int64_t)dense->offset, (int64_t)dense->offset + dense->cols);
    return ST_OK;
}

/* --- keys ------------------------------------------------------------------------------------- */

static uint32_t op_over(struct exporter *e, const char *type, uint32_t value, int64_t axis)
{
    static const uint64_t one = 1;
    const uint32_t axes = onnx_ints(&e->net, &axis, &one, 1);
    return onnx_op(&e->net, type, NULL, ONNX_IN(value, axes));
}

/* The name of the field's inputs: the field's or, if a numeric column has the same name, NAME.keys. */
static void field_name(const struct exporter *e, uint32_t field, char name[NAME_BYTES])
{
    const struct reader_schema *s = &e->setup->schema.reader;
    const char *own = graph_string(e->graph, e->graph->fields[field].name);
    bool is_twice = false;
    for (uint32_t i = 0; i < s->example.dense_count; i++) is_twice |= strcmp(s->dense[i].name, own) == 0;
    snprintf(name, NAME_BYTES, "%.200s%s", own, is_twice ? ".keys" : "");
}

/* Whether each key is there, as BOOL; 0 is none. */
static uint32_t present_of(struct exporter *e, uint32_t keys)
{
    static const uint64_t one = 1;
    static const int64_t no_key = 0;
    const uint32_t zero = onnx_ints(&e->net, &no_key, &one, 1);
    return onnx_op(&e->net, "Not", NULL, ONNX_IN(two(e, "Equal", keys, zero)));
}

static uint32_t mask_of(struct exporter *e, uint32_t present)
{
    return onnx_op(&e->net, "Cast", ONNX_ATTR({.name = "to", .i = ONNX_FLOAT}), ONNX_IN(present));
}

/* Lets only keys of a vocabulary's words stay: as readers do, gives any other text the key of the unknown
 * word, or none. */
static status words_keep(struct exporter *e, const struct graph_field *f, const char *name, uint32_t *keys)
{
    static const uint64_t one = 1;
    static const int64_t no_key = 0;
    if (f->vocabulary >= e->graph->vocabulary_count) return ST_OK;
    const struct reader_vocabulary *v = &e->setup->schema.reader.vocabulary[f->vocabulary];
    if (v->unknown == READER_NONE && f->ids_max > 1)
        FAIL(INVALID,
             "onnx: field %s is a list of words of a vocabulary, from which readers leave out other texts: this has no "
             "equivalent; let them have a word of their own (unknown of [vocabulary %s])",
             name, graph_string(e->graph, e->graph->vocabularies[f->vocabulary].name));
    const uint64_t count = (uint64_t)v->word_count + 1;
    uint64_t *key = malloc(count * sizeof *key);
    if (key == NULL) FAIL(MEMORY, "no memory for %u words", v->word_count);
    for (uint32_t i = 0; i < v->word_count; i++) key[i] = reader_key(f->seed, v->text[i], strlen(v->text[i]));
    key[v->word_count] = v->unknown == READER_NONE ? 0 : key[v->unknown];
    const uint32_t number = onnx_lookup(&e->net, *keys, key, v->word_count),
                   of_words = onnx_ints(&e->net, (const int64_t *)key, &count, 1),
                   zero = onnx_ints(&e->net, &no_key, &one, 1);
    const uint32_t known = onnx_op(&e->net, "Gather", ONNX_ATTR({.name = "axis", .i = 0}), ONNX_IN(of_words, number));
    *keys = onnx_op(&e->net, "Where", NULL, ONNX_IN(present_of(e, *keys), known, zero));
    free(key);
    return ST_OK;
}

/* Where absent texts have a key (data.missing = key): gives it, with the value 1, to a field without keys. */
static status missing_fill(struct exporter *e, const struct graph_field *f, struct exporter_field *inputs)
{
    const uint64_t shape[] = {1, f->ids_max};
    if (!e->setup->schema.reader.missing_is_key) return ST_OK;
    int64_t *key = calloc(f->ids_max, sizeof *key);
    float *value = calloc(f->ids_max, sizeof *value);
    if (key && value) {
        key[0] = (int64_t)reader_key(f->seed, "", 0);
        value[0] = 1;
        const uint32_t mask = mask_of(e, present_of(e, inputs->keys)),
                       is_any = two(e, "Greater", op_over(e, "ReduceSum", mask, 1), onnx_float(&e->net, 0)),
                       alone = onnx_ints(&e->net, key, shape, 2);
        inputs->keys = onnx_op(&e->net, "Where", NULL, ONNX_IN(is_any, inputs->keys, alone));
        if (inputs->values)
            inputs->values = onnx_op(&e->net, "Where", NULL,
                                     ONNX_IN(is_any, inputs->values, onnx_floats(&e->net, value, shape, 2, NULL)));
    }
    const status st = key && value ? ST_OK : status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for a field's keys");
    free(key);
    free(value);
    return st;
}

status exporter_keys(struct exporter *e, uint32_t field)
{
    const struct graph_field *f = &e->graph->fields[field];
    struct exporter_field *inputs = &e->field[field];
    char name[NAME_BYTES], key[NAME_BYTES + 16], seed[24];
    if (inputs->keys) return ST_OK;
    field_name(e, field, name);
    if (f->negative_count)
        FAIL(INVALID, "onnx: field %s is of candidates that are drawn, which has no equivalent", name);
    TRY(onnx_input(&e->net, name, ONNX_INT64, f->ids_max, &inputs->keys));
    snprintf(key, sizeof key, "heterps.seed.%s", name);
    snprintf(seed, sizeof seed, "%" PRIu64, f->seed);
    onnx_note(&e->net, key, seed);
    snprintf(key, sizeof key, "%s.value", name);
    if (e->setup->schema.reader.example.has_value)
        TRY(onnx_input(&e->net, key, ONNX_FLOAT, f->ids_max, &inputs->values));
    TRY(words_keep(e, f, name, &inputs->keys));
    TRY(missing_fill(e, f, inputs));
    inputs->present = present_of(e, inputs->keys);
    inputs->mask = mask_of(e, inputs->present);
    return ST_OK;
}

/* --- tables ----------------------------------------------------------------------------------- */

/* Bytes of a table as constants: its vectors and one of zeros, and each key with its number. */
static uint64_t table_bytes(const struct graph_table *t, uint64_t row_count)
{
    return (row_count + 1) * t->dim * sizeof(float) + row_count * 2 * sizeof(uint64_t);
}

status exporter_tables_fit(const struct graph *g, const uint64_t *row_count)
{
    uint64_t all = 0, most = 0;
    uint32_t largest = 0;
    for (uint32_t table = 0; table < g->table_count; table++) {
        const uint64_t bytes = row_count[table] ? table_bytes(&g->tables[table], row_count[table]) : 0;
        all += bytes;
        if (bytes > most) largest = table;
        if (bytes > most) most = bytes;
    }
    if (all <= ONNX_BYTES_MAX) return ST_OK;
    char own[16], together[16], room[16];
    FAIL(INVALID,
         "onnx: table %s has %" PRIu64 " rows of %u numbers, %s with their keys, and all tables %s; "
         "a file of a net has at most %s: export with --for serving in place of --format onnx, "
         "which has no such bound, or train with fewer rows (rows of [table %s])",
         graph_string(g, g->tables[largest].name), row_count[largest], g->tables[largest].dim, words_size(own, most),
         words_size(together, all), words_size(room, ONNX_BYTES_MAX), graph_string(g, g->tables[largest].name));
}

/* Writes the vectors in the order of their keys, and one of zeros. */
static status vectors_put(struct exporter *e, uint32_t table, const uint64_t *key, uint64_t count, uint32_t *value)
{
    const struct graph_table *t = &e->graph->tables[table];
    float *room, *spans = malloc((size_t)ROWS_AT_ONCE * t->span_floats * sizeof *spans);
    if (spans == NULL) FAIL(MEMORY, "no memory for %u rows", ROWS_AT_ONCE);
    *value = onnx_floats(&e->net, NULL, (const uint64_t[]){count + 1, t->dim}, 2, &room);
    status st = ST_OK;
    for (uint64_t begin = 0; begin < count && st == ST_OK && room; begin += ROWS_AT_ONCE) {
        const uint32_t some = count - begin < ROWS_AT_ONCE ? (uint32_t)(count - begin) : ROWS_AT_ONCE;
        st = store_copy(e->setup->model.store, table, key + begin, some, spans);
        for (uint32_t i = 0; i < some; i++)
            row_vector_read(t, spans + (size_t)i * t->span_floats, room + (size_t)(begin + i) * t->dim);
    }
    if (room) memset(room + (size_t)count * t->dim, 0, t->dim * sizeof *room);
    free(spans);
    return st;
}

/* Looks up the keys of all fields of a table: *rows [examples, keys of all fields, dim]. */
static status table_look_up(struct exporter *e, uint32_t table, uint32_t keys, uint32_t *rows)
{
    struct store *store = e->setup->model.store;
    const uint64_t count = store_row_count(store, table);
    const char *name = graph_string(e->graph, e->graph->tables[table].name);
    uint32_t vectors = 0;
    void *block;
    TRY(memory_take(PART_KEYS, count * sizeof(uint64_t), &block));
    uint64_t *key = block;
    status st = store_keys(store, table, key);
    if (st == ST_OK && count && key[0] == 0)
        st = status_fail(ST_INVALID, __FILE__, __LINE__,
                         "onnx: a row of table %s has the key 0, which stands for no key there", name);
    if (st == ST_OK) st = vectors_put(e, table, key, count, &vectors);
    if (st == ST_OK) {
        const uint32_t number = onnx_lookup(&e->net, keys, key, count);
        *rows = onnx_op(&e->net, "Gather", ONNX_ATTR({.name = "axis", .i = 0}), ONNX_IN(vectors, number));
    }
    e->row_count += count;
    memory_give(PART_KEYS, block, count * sizeof *key);
    return st;
}

static status unseen_check(const struct exporter *e, uint32_t table)
{
    struct table_settings settings;
    const char *name = graph_string(e->graph, e->graph->tables[table].name);
    const struct ini *ini = &e->setup->ini;
    TRY(settings_read_named(ini, ini_find(ini, "table", name), "table", &settings));
    if (settings.unseen != UNSEEN_ZEROS)
        FAIL(INVALID,
             "onnx: table %s reads keys without a row as their initial values (unseen = init), which has no equivalent",
             name);
    return ST_OK;
}

/* Makes one look-up for all fields of the table, so that the net has the table's keys
 * once; then takes each field's part. */
static status table_make(struct exporter *e, uint32_t table)
{
    const struct graph *g = e->graph;
    uint8_t *serves = calloc((size_t)g->field_count + 1, 1);
    uint32_t *part = calloc((size_t)g->field_count + 1, sizeof *part), count = 0, all = 0;
    status st =
        serves && part ? unseen_check(e, table) : status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for fields");
    if (st == ST_OK) graph_table_serves(g, table, serves);
    for (uint32_t field = 0; field < g->field_count && st == ST_OK; field++) {
        if (!serves[field]) continue;
        st = exporter_keys(e, field);
        part[count++] = e->field[field].keys;
    }
    if (st == ST_OK) {
        const uint32_t keys = onnx_op(&e->net, "Concat", ONNX_ATTR({.name = "axis", .i = 1}), part, count);
        st = table_look_up(e, table, keys, &all);
    }
    int64_t begin = 0;
    for (uint32_t field = 0; field < g->field_count && st == ST_OK; field++) {
        if (!serves[field]) continue;
        const int64_t end = begin + g->fields[field].ids_max;
        uint32_t rows = onnx_slice(&e->net, all, 1, begin, end);
        if (e->field[field].values) rows = two(e, "Mul", rows, op_over(e, "Unsqueeze", e->field[field].values, 2));
        e->rows[(size_t)table * g->field_count + field] = rows;
        begin = end;
    }
    free(serves);
    free(part);
    return st;
}

status exporter_rows(struct exporter *e, uint32_t table, uint32_t field, uint32_t *rows)
{
    const size_t at = (size_t)table * e->graph->field_count + field;
    if (e->rows[at] == 0) TRY(table_make(e, table));
    *rows = e->rows[at];
    return ST_OK;
}
