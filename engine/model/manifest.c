/* Reads and writes the manifest of a model directory (its keys are in the header);
 * once a checkpoint, once a start. */
#include "engine/base/file.h"
#include "engine/base/heap.h"
#include "engine/base/json_text.h"
#include "engine/model/manifest.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define VECTORS_BF16 "bf16"
#define FORMAT       "heterps-model"
#define HASH_DIGITS  16
/* The first version in which tables are lists of parts. */
#define MANIFEST_WITH_PARTS 3
/* The first version in which segments have checksums. */
#define MANIFEST_WITH_SEGMENT_HASHES 4

/* The end of a manifest, from the comma before the last key on. */
#define END_BEFORE ",\n  \"xxh3\": \""
#define END_AFTER  "\"\n}\n"
#define END_BYTES  (sizeof END_BEFORE - 1 + HASH_DIGITS + sizeof END_AFTER - 1)

static void hash_print(char text[HASH_DIGITS + 1], uint64_t hash)
{
    snprintf(text, HASH_DIGITS + 1, "%016" PRIx64, hash);
}

/* Exactly 16 digits 0-9a-f. */
static bool hash_parse(const char *text, uint64_t *hash)
{
    *hash = 0;
    for (int i = 0; i < HASH_DIGITS; i++) {
        const char *digits = "0123456789abcdef", *digit = text[i] ? strchr(digits, text[i]) : NULL;
        if (digit == NULL) return false;
        *hash = *hash << 4 | (uint64_t)(digit - digits);
    }
    return text[HASH_DIGITS] == 0;
}

status manifest_make(struct manifest *manifest, uint32_t table_count, uint32_t tensor_count)
{
    *manifest = (struct manifest){.table_count = table_count, .tensor_count = tensor_count};
    manifest->tables = calloc((size_t)table_count + 1, sizeof *manifest->tables);
    manifest->tensors = calloc((size_t)tensor_count + 1, sizeof *manifest->tensors);
    if (manifest->tables != NULL && manifest->tensors != NULL) return ST_OK;
    manifest_free(manifest);
    FAIL(MEMORY, "no memory for a manifest of %u tables and %u tensors", table_count, tensor_count);
}

void manifest_free(struct manifest *manifest)
{
    for (uint32_t table = 0; manifest->tables != NULL && table < manifest->table_count; table++)
        free(manifest->tables[table].part);
    free(manifest->tables);
    free(manifest->tensors);
    model_data_close(&manifest->data);
    json_decref(manifest->json);
    *manifest = (struct manifest){0};
}

status manifest_part_add(struct manifest_table *table, const struct manifest_part *part)
{
    TRY(heap_room(&table->part, table->part_count + 1, sizeof *table->part, "files of a table"));
    table->part[table->part_count++] = *part;
    return ST_OK;
}

status manifest_data_set(struct manifest *manifest, const struct model_data *data)
{
    manifest->data = *data;
    manifest->data.names = NULL;
    manifest->data.file = malloc((data->file_count + 1) * sizeof *data->file);
    if (manifest->data.file == NULL) FAIL(MEMORY, "no memory for the names of %u files", data->file_count);
    for (uint32_t i = 0; i < data->file_count; i++) manifest->data.file[i] = data->file[i];
    return ST_OK;
}

uint64_t manifest_table_bytes(const struct manifest_table *table)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < table->part_count; i++) sum += table->part[i].file.bytes;
    return sum;
}

/* --- writing ---------------------------------------------------------------------------------- */

static json_t *best_json(const struct best *b)
{
    return json_pack("{s:s, s:f, s:I, s:I, s:I}", "figure", b->figure, "value", b->value, "step", (json_int_t)b->step,
                     "evaluated_step", (json_int_t)b->evaluated_step, "evaluations_since",
                     (json_int_t)b->evaluations_since);
}

/* NULL: there is no such file. */
static json_t *file_json(const struct manifest_file *file)
{
    char hash[HASH_DIGITS + 1];
    hash_print(hash, file->xxh3);
    return file->name == NULL
               ? NULL
               : json_pack("{s:s, s:I, s:s}", "file", file->name, "bytes", (json_int_t)file->bytes, "xxh3", hash);
}

static json_t *part_json(const struct manifest_part *p)
{
    char hash[HASH_DIGITS + 1];
    hash_print(hash, p->file.xxh3);
    if (p->number == 0)
        return json_pack("{s:s, s:I, s:s, s:I}", "file", p->file.name, "bytes", (json_int_t)p->file.bytes, "xxh3", hash,
                         "rows", (json_int_t)p->rows);
    return json_pack("{s:s, s:I, s:s, s:I, s:I, s:[I, I]}", "file", p->file.name, "bytes", (json_int_t)p->file.bytes,
                     "xxh3", hash, "number", (json_int_t)p->number, "block_bytes", (json_int_t)p->block_bytes, "blocks",
                     (json_int_t)p->block_begin, (json_int_t)p->block_end);
}

/* NULL: no memory, or a name is not UTF-8. */
static json_t *table_json(const struct manifest_table *t)
{
    json_t *parts = json_array();
    for (uint32_t i = 0; i < t->part_count; i++) json_array_append_new(parts, part_json(&t->part[i]));
    if (json_array_size(parts) != t->part_count) {
        json_decref(parts);
        return NULL;
    }
    return json_pack("{s:s, s:s*, s:I, s:I, s:I, s:s*, s:o, s:o*}", "name", t->name, "optimizer", t->optimizer, "dim",
                     (json_int_t)t->dim, "span_floats", (json_int_t)t->span_floats, "rows", (json_int_t)t->rows,
                     "vectors", t->store == TABLE_BF16 ? VECTORS_BF16 : NULL, "parts", parts, "admission",
                     file_json(&t->admission));
}

/* NULL: the stream has no mark yet. */
static json_t *stream_json(const struct model_data *d)
{
    char hash[HASH_DIGITS + 1];
    const struct reader_mark *mark = d->mark_count ? &d->mark[d->mark_count - 1] : NULL;
    if (mark == NULL || !mark->is_hashed) return NULL;
    hash_print(hash, mark->xxh3);
    return json_pack("{s:[I, I, s]}", "stream", (json_int_t)mark->example, (json_int_t)mark->byte, hash);
}

/* NULL: the data are not known. Names of files may be any bytes, too. */
static json_t *data_json(const struct model_data *d)
{
    char hash[HASH_DIGITS + 1];
    if (d->file_count == 0) return stream_json(d);
    json_t *files = json_array(), *marks = json_array();
    for (uint32_t i = 0; i < d->file_count; i++) {
        json_t *path = json_string(d->file[i].name);
        hash_print(hash, d->file[i].xxh3);
        json_array_append_new(files, json_pack("{s:o, s:I, s:s}", "path", path ? path : json_string(""), "bytes",
                                               (json_int_t)d->file[i].bytes, "xxh3", hash));
    }
    for (uint32_t i = 0; i < d->mark_count; i++) {
        const struct reader_mark *mark = &d->mark[i];
        json_array_append_new(marks,
                              json_pack("[I, I, I, I, I, I, I]", (json_int_t)mark->example, (json_int_t)mark->path,
                                        (json_int_t)mark->byte, (json_int_t)mark->line, (json_int_t)mark->bad_count,
                                        (json_int_t)mark->cut_count, (json_int_t)mark->unknown_count));
    }
    return json_pack("{s:o, s:o}", "files", files, "marks", marks);
}

/* NULL: no memory, or a name is not UTF-8. */
static json_t *manifest_json(const struct manifest *m)
{
    char hash[HASH_DIGITS + 1];
    json_t *tables = json_array(), *tensors = json_array();
    for (uint32_t i = 0; i < m->table_count; i++) json_array_append_new(tables, table_json(&m->tables[i]));
    for (uint32_t i = 0; i < m->tensor_count; i++) {
        const struct manifest_tensor *tensor = &m->tensors[i];
        json_array_append_new(tensors, json_pack("{s:s, s:[I, I]}", "name", tensor->name, "shape",
                                                 (json_int_t)tensor->shape[0], (json_int_t)tensor->shape[1]));
    }
    if (json_array_size(tables) != m->table_count || json_array_size(tensors) != m->tensor_count) {
        json_decref(tables);
        json_decref(tensors);
        return NULL;
    }
    char model_hash[HASH_DIGITS + 1];
    hash_print(model_hash, m->model_hash);
    hash_print(hash, m->dense.xxh3);
    /* Model texts, with the model's name, may be any bytes: a text that JSON cannot hold
     * or give back is left out. */
    json_t *model = json_string(m->model);
    if (model == NULL) model = json_string("");
    bool is_text = m->text != NULL && memchr(m->text, 0, m->text_bytes) == NULL;
    json_t *text = is_text ? json_stringn(m->text, m->text_bytes) : NULL;
    json_t *best = m->best.figure[0] == 0 ? NULL : best_json(&m->best);
    return json_pack("{s:s, s:i, s:s, s:o, s:s, s:I, s:{s:I, s:I, s:I, s:I, s:I, s:I, s:I}, s:o*, s:o*, s:o, s:{s:s, "
                     "s:I, s:s}, s:o, s:o*}",
                     "format", FORMAT, "version", MANIFEST_VERSION, "heterps", HETERPS_VERSION, "model", model,
                     "model_hash", model_hash, "save", (json_int_t)m->save, "progress", "step",
                     (json_int_t)m->progress.step, "epoch", (json_int_t)m->progress.epoch, "epoch_examples",
                     (json_int_t)m->progress.epoch_examples, "examples", (json_int_t)m->progress.examples,
                     "pass_examples", (json_int_t)m->progress.pass_examples, "first_epoch",
                     (json_int_t)m->progress.first_epoch, "first_step", (json_int_t)m->progress.first_step, "data",
                     data_json(&m->data), "best", best, "tables", tables, "dense", "file", m->dense.name, "bytes",
                     (json_int_t)m->dense.bytes, "xxh3", hash, "tensors", tensors, "text", text);
}

status manifest_put(const struct manifest *manifest, struct file_writer *writer)
{
    json_t *json = manifest_json(manifest);
    char *text = json_text(json, JSON_INDENT(2));
    json_decref(json);
    if (text == NULL)
        FAIL(INVALID, "%s: a table or tensor has a name that is not UTF-8, or there is no memory", writer->path);
    /* The text ends in "\n}", which makes room for the last key. */
    size_t bytes = strlen(text) - 2;
    char hash[HASH_DIGITS + 1];
    hash_print(hash, XXH3_64bits(text, bytes));
    status st = file_writer_put(writer, text, bytes);
    if (st == ST_OK) st = file_writer_put(writer, END_BEFORE, sizeof END_BEFORE - 1);
    if (st == ST_OK) st = file_writer_put(writer, hash, HASH_DIGITS);
    if (st == ST_OK) st = file_writer_put(writer, END_AFTER, sizeof END_AFTER - 1);
    free(text);
    return st;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Checks the checksum in the last line. */
static status checksum_check(const char *path, const uint8_t *text, size_t bytes)
{
    char digits[HASH_DIGITS + 1] = {0};
    uint64_t hash;
    const uint8_t *end = text + (bytes < END_BYTES ? 0 : bytes - END_BYTES);
    const uint8_t *end_hash = end + sizeof END_BEFORE - 1;
    if (bytes < END_BYTES || memcmp(end, END_BEFORE, sizeof END_BEFORE - 1) != 0 ||
        memcmp(end_hash + HASH_DIGITS, END_AFTER, sizeof END_AFTER - 1) != 0)
        FAIL(INVALID, "%s: not the manifest of a model, or cut short: it does not end in its checksum", path);
    memcpy(digits, end_hash, HASH_DIGITS);
    if (!hash_parse(digits, &hash) || hash != XXH3_64bits(text, (size_t)(end - text)))
        FAIL(CORRUPT, "%s: its %zu bytes do not match the checksum in its last line", path, bytes);
    return ST_OK;
}

/* Numbers are natural, and so far below the maximum of their type that counting on does not reach it. */
static bool natural(json_int_t value, uint64_t max, uint64_t *number)
{
    *number = (uint64_t)value;
    return value >= 0 && *number <= max;
}
#define COUNT_MAX ((uint64_t)INT64_MAX / 2)

static bool file_read(struct manifest_file *file, const char *name, json_int_t bytes, const char *hash)
{
    file->name = name;
    bool is_plain = name[0] != 0 && strchr(name, '/') == NULL && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
    return is_plain && natural(bytes, INT64_MAX, &file->bytes) && hash_parse(hash, &file->xxh3);
}

/* Reads a part of a table, or, before version 3, the whole table. */
static status part_read(struct manifest_part *p, const char *path, json_t *json, size_t index, json_int_t version)
{
    json_error_t error;
    json_int_t bytes, rows = 0, number = 0, block_bytes = 0, begin = 0, end = 0;
    const char *file, *hash = "0000000000000000";
    uint64_t block_bytes_u64, begin_u64, end_u64;
    bool is_segment = json_object_get(json, "number") != NULL;
    p->is_hashed = is_segment && version >= MANIFEST_WITH_SEGMENT_HASHES;
    const char *segment_members =
        p->is_hashed ? "{s:s, s:I, s:I, s:I, s:[I, I!], s:s}" : "{s:s, s:I, s:I, s:I, s:[I, I!]}";
    if (is_segment ? json_unpack_ex(json, &error, 0, segment_members, "file", &file, "bytes", &bytes, "number", &number,
                                    "block_bytes", &block_bytes, "blocks", &begin, &end, "xxh3", &hash) != 0
                   : json_unpack_ex(json, &error, 0, "{s:s, s:I, s:s, s:I}", "file", &file, "bytes", &bytes, "xxh3",
                                    &hash, "rows", &rows) != 0)
        FAIL(INVALID, "%s: table %zu: %s", path, index, error.text);
    if (!file_read(&p->file, file, bytes, hash) || !natural(rows, COUNT_MAX, &p->rows) ||
        !natural(number, COUNT_MAX, &p->number) || !natural(block_bytes, UINT32_MAX, &block_bytes_u64) ||
        !natural(begin, UINT32_MAX, &begin_u64) || !natural(end, UINT32_MAX, &end_u64) || begin_u64 > end_u64 ||
        p->file.bytes < (end_u64 - begin_u64) * block_bytes_u64 || (is_segment && (number == 0 || block_bytes == 0)))
        FAIL(INVALID, "%s: table %zu: a number, checksum or file name is impossible", path, index);
    p->block_bytes = (uint32_t)block_bytes_u64;
    p->block_begin = (uint32_t)begin_u64;
    p->block_end = (uint32_t)end_u64;
    return ST_OK;
}

static status table_read(struct manifest_table *t, const char *path, json_t *json, size_t index, json_int_t version)
{
    json_error_t error;
    json_int_t dim, span_floats, rows;
    uint64_t dim_u64, span_u64;
    json_int_t admission_bytes;
    const char *admission, *admission_hash, *vectors = NULL;
    json_t *parts = NULL, *counted = NULL;
    if (json_unpack_ex(json, &error, 0, "{s:s, s?s, s:I, s:I, s:I, s?s, s?o, s?o}", "name", &t->name, "optimizer",
                       &t->optimizer, "dim", &dim, "span_floats", &span_floats, "rows", &rows, "vectors", &vectors,
                       "parts", &parts, "admission", &counted) != 0)
        FAIL(INVALID, "%s: table %zu: %s", path, index, error.text);
    if (vectors != NULL && strcmp(vectors, VECTORS_BF16) != 0)
        FAIL(INVALID, "%s: table %zu: its \"vectors\" are not \"" VECTORS_BF16 "\"", path, index);
    t->store = vectors ? TABLE_BF16 : TABLE_F32;
    if (!natural(dim, UINT32_MAX, &dim_u64) || !natural(span_floats, UINT32_MAX, &span_u64) ||
        !natural(rows, COUNT_MAX, &t->rows))
        FAIL(INVALID, "%s: table %zu: a number is impossible", path, index);
    if (counted != NULL && json_unpack_ex(counted, &error, 0, "{s:s, s:I, s:s}", "file", &admission, "bytes",
                                          &admission_bytes, "xxh3", &admission_hash) != 0)
        FAIL(INVALID, "%s: table %zu: %s", path, index, error.text);
    if (counted != NULL && !file_read(&t->admission, admission, admission_bytes, admission_hash))
        FAIL(INVALID, "%s: table %zu: a number, checksum or file name of its admission is impossible", path, index);
    t->dim = (uint32_t)dim_u64;
    t->span_floats = (uint32_t)span_u64;
    if (t->span_floats < row_vector_floats(&(struct graph_table){.dim = t->dim, .store = (uint16_t)t->store}))
        FAIL(INVALID, "%s: table %zu: rows of %u floats are too few for a vector of %u numbers", path, index,
             t->span_floats, t->dim);
    if (version >= MANIFEST_WITH_PARTS && !json_is_array(parts))
        FAIL(INVALID, "%s: table %zu: \"parts\" is no list", path, index);
    size_t count = version >= MANIFEST_WITH_PARTS ? json_array_size(parts) : 1;
    for (size_t i = 0; i < count; i++) {
        struct manifest_part part = {0};
        TRY(part_read(&part, path, version >= MANIFEST_WITH_PARTS ? json_array_get(parts, i) : json, index, version));
        TRY(manifest_part_add(t, &part));
    }
    return ST_OK;
}

static status tensor_read(struct manifest_tensor *tensor, const char *path, json_t *json, size_t index)
{
    json_error_t error;
    json_int_t rows, cols;
    if (json_unpack_ex(json, &error, 0, "{s:s, s:[I, I!]}", "name", &tensor->name, "shape", &rows, &cols) != 0)
        FAIL(INVALID, "%s: tensor %zu: %s", path, index, error.text);
    if (!natural(rows, UINT32_MAX, &tensor->shape[0]) || !natural(cols, UINT32_MAX, &tensor->shape[1]))
        FAIL(INVALID, "%s: tensor %zu: its shape is impossible", path, index);
    return ST_OK;
}

static status best_read(struct best *b, const char *path, json_t *json)
{
    json_error_t error;
    json_int_t step, evaluated_step, evaluations_since;
    const char *figure;
    if (json == NULL) return ST_OK;
    if (json_unpack_ex(json, &error, 0, "{s:s, s:F, s:I, s:I, s:I}", "figure", &figure, "value", &b->value, "step",
                       &step, "evaluated_step", &evaluated_step, "evaluations_since", &evaluations_since) != 0)
        FAIL(INVALID, "%s: \"best\": %s", path, error.text);
    if (!natural(step, COUNT_MAX, &b->step) || !natural(evaluated_step, COUNT_MAX, &b->evaluated_step) ||
        !natural(evaluations_since, COUNT_MAX, &b->evaluations_since) || strlen(figure) >= sizeof b->figure)
        FAIL(INVALID, "%s: \"best\": a number or a name is impossible", path);
    snprintf(b->figure, sizeof b->figure, "%s", figure);
    return ST_OK;
}

static status data_file_read(struct model_data_file *f, const char *path, json_t *json)
{
    json_error_t error;
    const char *hash;
    json_int_t bytes;
    if (json_unpack_ex(json, &error, 0, "{s:s, s:I, s:s}", "path", &f->name, "bytes", &bytes, "xxh3", &hash) != 0)
        FAIL(INVALID, "%s: \"data\": %s", path, error.text);
    if (!natural(bytes, INT64_MAX, &f->bytes) || !hash_parse(hash, &f->xxh3))
        FAIL(INVALID, "%s: \"data\": a number or checksum of %.120s is impossible", path, f->name);
    return ST_OK;
}

/* `before`: the mark before this one, or NULL. */
static status mark_read(struct reader_mark *mark, const char *path, json_t *json, const struct reader_mark *before,
                        uint32_t file_count)
{
    json_error_t error;
    json_int_t example, file, byte, line, bad, cut, unknown;
    uint64_t file_u64;
    if (json_unpack_ex(json, &error, 0, "[I, I, I, I, I, I, I!]", &example, &file, &byte, &line, &bad, &cut,
                       &unknown) != 0)
        FAIL(INVALID, "%s: \"marks\": %s", path, error.text);
    if (!natural(example, COUNT_MAX, &mark->example) || !natural(file, file_count - 1, &file_u64) ||
        !natural(byte, COUNT_MAX, &mark->byte) || !natural(line, COUNT_MAX, &mark->line) ||
        !natural(bad, COUNT_MAX, &mark->bad_count) || !natural(cut, COUNT_MAX, &mark->cut_count) ||
        !natural(unknown, COUNT_MAX, &mark->unknown_count) || (before != NULL && before->example >= mark->example))
        FAIL(INVALID, "%s: \"marks\": a number is impossible", path);
    mark->path = (uint32_t)file_u64;
    return ST_OK;
}

static status stream_read(struct model_data *d, const char *path, json_t *json)
{
    json_error_t error;
    json_int_t example, byte;
    const char *hash;
    struct reader_mark *mark = &d->mark[0];
    if (json_unpack_ex(json, &error, 0, "[I, I, s!]", &example, &byte, &hash) != 0)
        FAIL(INVALID, "%s: \"stream\": %s", path, error.text);
    if (!natural(example, COUNT_MAX, &mark->example) || !natural(byte, COUNT_MAX, &mark->byte) ||
        !hash_parse(hash, &mark->xxh3))
        FAIL(INVALID, "%s: \"stream\": a number or checksum is impossible", path);
    mark->is_hashed = true;
    d->mark_count = 1;
    return ST_OK;
}

static status data_read(struct model_data *d, const char *path, json_t *json)
{
    json_error_t error;
    json_t *files, *marks, *stream;
    if (json == NULL) return ST_OK;
    if (json_unpack(json, "{s:o}", "stream", &stream) == 0) return stream_read(d, path, stream);
    if (json_unpack_ex(json, &error, 0, "{s:o, s:o}", "files", &files, "marks", &marks) != 0)
        FAIL(INVALID, "%s: \"data\": %s", path, error.text);
    if (!json_is_array(files) || !json_is_array(marks) || json_array_size(files) == 0 ||
        json_array_size(files) > GRAPH_COUNT_MAX || json_array_size(marks) > MODEL_MARKS_MAX)
        FAIL(INVALID, "%s: \"files\" and \"marks\" are not lists, or too long", path);
    const uint32_t file_count = (uint32_t)json_array_size(files);
    d->file = calloc(file_count, sizeof *d->file);
    if (d->file == NULL) FAIL(MEMORY, "%s: no memory for the names of %u files", path, file_count);
    for (; d->file_count < file_count; d->file_count++)
        TRY(data_file_read(&d->file[d->file_count], path, json_array_get(files, d->file_count)));
    for (; d->mark_count < json_array_size(marks); d->mark_count++)
        TRY(mark_read(&d->mark[d->mark_count], path, json_array_get(marks, d->mark_count),
                      d->mark_count ? &d->mark[d->mark_count - 1] : NULL, file_count));
    return ST_OK;
}

static status members_read(struct manifest *m, const char *path, json_t *json)
{
    json_error_t error;
    const char *format, *model_hash, *dense, *dense_hash;
    json_int_t version, step, epoch, epoch_examples, examples, dense_bytes, save = 0, pass_examples = 0,
                                                                            first_epoch = 0, first_step = 0;
    json_t *tables, *tensors, *text = NULL, *best = NULL, *data = NULL;
    if (json_unpack_ex(json, &error, 0, "{s:s, s:I}", "format", &format, "version", &version) != 0 ||
        strcmp(format, FORMAT) != 0)
        FAIL(INVALID, "%s: its \"format\" is not \"%s\"", path, FORMAT);
    if (version < 1 || version > MANIFEST_VERSION)
        FAIL(INVALID, "%s: version %" JSON_INTEGER_FORMAT ", where this program reads 1 to %d: %s", path, version,
             MANIFEST_VERSION, version < 1 ? "there is none below" : "saved by a newer heterps-run");
    if (json_unpack_ex(
            json, &error, 0,
            "{s:s, s:s, s?I, s:{s:I, s:I, s:I, s:I, s?I, s?I, s?I}, s?o, s?o, s:o, s:{s:s, s:I, s:s}, s:o, s?o}",
            "model", &m->model, "model_hash", &model_hash, "save", &save, "progress", "step", &step, "epoch", &epoch,
            "epoch_examples", &epoch_examples, "examples", &examples, "pass_examples", &pass_examples, "first_epoch",
            &first_epoch, "first_step", &first_step, "data", &data, "best", &best, "tables", &tables, "dense", "file",
            &dense, "bytes", &dense_bytes, "xxh3", &dense_hash, "tensors", &tensors, "text", &text) != 0)
        FAIL(INVALID, "%s: %s", path, error.text);
    TRY(best_read(&m->best, path, best));
    TRY(data_read(&m->data, path, data));
    if (text != NULL && !json_is_string(text)) FAIL(INVALID, "%s: \"text\" is not a text", path);
    m->text = text ? json_string_value(text) : NULL;
    m->text_bytes = text ? json_string_length(text) : 0;
    if (!hash_parse(model_hash, &m->model_hash) || !natural(step, COUNT_MAX, &m->progress.step) ||
        !natural(epoch, COUNT_MAX, &m->progress.epoch) ||
        !natural(epoch_examples, COUNT_MAX, &m->progress.epoch_examples) ||
        !natural(examples, COUNT_MAX, &m->progress.examples) ||
        !natural(pass_examples, COUNT_MAX, &m->progress.pass_examples) ||
        !natural(first_epoch, m->progress.epoch, &m->progress.first_epoch) ||
        !natural(first_step, m->progress.step, &m->progress.first_step) || !natural(save, COUNT_MAX, &m->save) ||
        !file_read(&m->dense, dense, dense_bytes, dense_hash))
        FAIL(INVALID, "%s: a number, checksum or file name is impossible", path);
    if (!json_is_array(tables) || !json_is_array(tensors) || json_array_size(tables) > GRAPH_COUNT_MAX ||
        json_array_size(tensors) > GRAPH_COUNT_MAX)
        FAIL(INVALID, "%s: \"tables\" and \"tensors\" are not lists, or too long", path);

    struct manifest lists;
    TRY(manifest_make(&lists, (uint32_t)json_array_size(tables), (uint32_t)json_array_size(tensors)));
    m->tables = lists.tables;
    m->table_count = lists.table_count;
    m->tensors = lists.tensors;
    m->tensor_count = lists.tensor_count;
    for (uint32_t i = 0; i < m->table_count; i++)
        TRY(table_read(&m->tables[i], path, json_array_get(tables, i), i, version));
    for (uint32_t i = 0; i < m->tensor_count; i++)
        TRY(tensor_read(&m->tensors[i], path, json_array_get(tensors, i), i));
    return ST_OK;
}

status manifest_read(struct manifest *manifest, const char *path, const uint8_t *text, size_t bytes)
{
    *manifest = (struct manifest){0};
    TRY(checksum_check(path, text, bytes));
    json_error_t error;
    json_t *json = json_text_load((const char *)text, bytes, &error);
    if (json == NULL && errno == ENOMEM) FAIL(MEMORY, "%s: no memory to read its %zu bytes", path, bytes);
    if (json == NULL) FAIL(INVALID, "%s:%d: %s", path, error.line, error.text);
    manifest->json = json;
    status st = members_read(manifest, path, json);
    if (st != ST_OK) manifest_free(manifest);
    return st;
}
