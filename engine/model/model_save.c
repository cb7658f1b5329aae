/* Saves a model into a directory so that after a kill or a failure at any moment the directory's
 * manifests name whole saves only.
 *
 *     before                   new files, older name        manifest renamed             too old removed (keep = 2)
 *     manifest.json ─▶ 200     manifest.json ─▶ 200         manifest.json ─▶ 300         manifest.json ─▶ 300
 *                              manifest.200.json ─▶ 200     manifest.200.json ─▶ 200     manifest.200.json ─▶ 200
 *     manifest.100.json ─▶ 100 manifest.100.json ─▶ 100     manifest.100.json ─▶ 100
 *     dense.100, emb.100       dense.100, emb.100           dense.100, emb.100
 *     dense.200, emb.200       dense.200, emb.200           dense.200, emb.200           dense.200, emb.200
 *                              dense.300, emb.300           dense.300, emb.300           dense.300, emb.300
 *
 * Every file is fsynced before its name appears; manifests that are too old go before the files that they
 * name, with an fsync of the directory between. A file that no manifest names is a leftover: the next save
 * that succeeds removes it. Called once a checkpoint. */
#include "engine/model/model_save.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/heap.h"
#include "engine/base/paths.h"
#include "engine/model/model_dir.h"
#include "engine/model/model_names.h"
#include "io/store/admission.h"
#include "io/store/store_life.h"
#include "io/store/store_rows.h"

/* --- names ------------------------------------------------------------------------------------ */

static uint32_t table_count_of(const struct save *s) { return s->model->graph->table_count; }

/* Whether a file in the directory has the tag of this older manifest's name, or the name itself. */
static status tag_find(const struct save *s, const char *manifest, bool *is_taken)
{
    DIR *directory = opendir(s->path);
    if (directory == NULL) FAIL(IO, "%s: %s", s->path, strerror(errno));
    *is_taken = model_file_is_there(s->path, manifest);
    for (struct dirent *entry; !*is_taken && (entry = readdir(directory)) != NULL;)
        *is_taken = model_name_kind(entry->d_name) == MODEL_NAME_DATA && model_name_has_tag_of(manifest, entry->d_name);
    closedir(directory);
    return ST_OK;
}

/* The name of a table's file: STEM.STEP[-GENERATION].END; for owners but the first
 * STEM+OWNER.STEP…, a byte that no stem has. malloc'd. */
static status table_data_name(const struct save *s, uint32_t table, const char *end, char **name)
{
    const struct graph *g = s->model->graph;
    const uint32_t owner = s->model->share.owner;
    char *stem, *owned = NULL;
    *name = NULL;
    TRY(model_file_stem(&stem, graph_string(g, g->tables[table].name)));
    status st = owner == 0 ? ST_OK : heap_text(&owned, "%s+%u", stem, owner);
    if (st == ST_OK) st = model_data_name(name, owned ? owned : stem, s->model->progress.step, s->generation, end);
    free(owned);
    free(stem);
    return st;
}

status save_begin(struct save *s)
{
    const struct graph *g = s->model->graph;
    uint64_t step = s->model->progress.step;
    s->table_name = calloc((size_t)g->table_count + 1, sizeof *s->table_name);
    if (s->table_name == NULL) FAIL(MEMORY, "%s: no memory for the names of %u tables", s->path, g->table_count);
    /* Takes the first generation that no file has, not even an older save that cannot be read. */
    bool is_taken = !s->has_generation;
    for (uint32_t generation = 0; is_taken; generation++) {
        s->generation = generation;
        char *older;
        TRY(model_data_name(&older, MANIFEST_STEM, step, generation, MANIFEST_END));
        status st = tag_find(s, older, &is_taken);
        free(older);
        TRY(st);
        if (is_taken && generation == UINT32_MAX) FAIL(IO, "%s: no free name for step %" PRIu64, s->path, step);
    }
    TRY(model_data_name(&s->dense_name, DENSE_NAME, step, s->generation, DENSE_END));
    for (uint32_t t = 0; t < g->table_count; t++) TRY(table_data_name(s, t, ROWS_END, &s->table_name[t]));
    return ST_OK;
}

void save_end(struct save *s)
{
    for (uint32_t t = 0; s->table_name != NULL && t < table_count_of(s); t++) free(s->table_name[t]);
    for (uint32_t t = 0; s->admission != NULL && t < table_count_of(s); t++)
        free((char *)(uintptr_t)s->admission[t].name);
    free(s->admission);
    free(s->table_name);
    free(s->dense_name);
    manifest_free(&s->manifest);
    free(s->text);
    model_arrays_free(&s->arrays);
    older_saves_free(&s->older);
}

/* --- content ---------------------------------------------------------------------------------- */

static status save_describe(struct save *s)
{
    const struct graph *g = s->model->graph;
    if (s->sink == NULL) TRY(older_saves_list(&s->older, s->path));
    TRY(model_arrays_list(&s->arrays, s->model, true));
    TRY(manifest_make(&s->manifest, g->table_count, s->arrays.count));
    struct manifest *m = &s->manifest;
    m->model = graph_string(g, g->header->name);
    m->model_hash = g->header->model_hash;
    m->progress = s->model->progress;
    m->best = s->model->best;
    TRY(manifest_data_set(m, &s->model->data));
    m->text_bytes = g->text_bytes;
    TRY(text_shown(&s->text, g->text, &m->text_bytes)); /* saves keep no secrets */
    m->text = s->text;
    m->save = 1;
    for (uint32_t i = 0; i < s->older.count; i++)
        if (s->older.items[i].manifest.save >= m->save) m->save = s->older.items[i].manifest.save + 1;
    m->dense.name = s->dense_name;
    for (uint32_t t = 0; t < g->table_count; t++)
        m->tables[t] =
            (struct manifest_table){.name = graph_string(g, g->tables[t].name),
                                    .optimizer = optimizer_table[g->optimizers[g->tables[t].optimizer].kind].name,
                                    .dim = g->tables[t].dim,
                                    .span_floats = g->tables[t].span_floats,
                                    .store = g->tables[t].store,
                                    .admission = s->admission ? s->admission[t] : (struct manifest_file){0}};
    for (uint32_t i = 0; i < m->tensor_count; i++)
        m->tensors[i] = (struct manifest_tensor){.name = s->arrays.items[i].name,
                                                 .shape = {s->arrays.items[i].rows, s->arrays.items[i].cols}};
    return ST_OK;
}

/* Completes a written file, and notes its bytes and checksum. */
static status file_commit(struct save *s, struct file_writer *writer, struct manifest_file *file)
{
    uint64_t bytes = writer->written_bytes;
    if (file != NULL) {
        file->bytes = bytes;
        file->xxh3 = file_writer_hash(writer);
    }
    TRY(file_writer_commit(writer));
    s->bytes += bytes;
    return ST_OK;
}

/* Writes the dense file, or, without `file`, the manifest. */
static status save_file(struct save *s, const char *name, struct manifest_file *file)
{
    struct file_writer writer = {0};
    char path[FILE_PATH_BYTES];
    status st = file_writer_open(&writer, file_path_join(path, s->path, name));
    if (st == ST_OK) st = file != NULL ? model_arrays_put(&s->arrays, &writer) : manifest_put(&s->manifest, &writer);
    if (st == ST_OK) st = file_commit(s, &writer, file);
    if (st != ST_OK) file_writer_abort(&writer);
    return st;
}

/* Removes data files with this save's tag; without memory for the name they stay until the next save. */
static void tagged_remove(const struct save *s)
{
    char *tag;
    if (model_data_name(&tag, MANIFEST_STEM, s->model->progress.step, s->generation, MANIFEST_END) != ST_OK) return;
    DIR *directory = opendir(s->path);
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;)
        if (model_name_kind(entry->d_name) == MODEL_NAME_DATA && model_name_has_tag_of(tag, entry->d_name))
            unlinkat(dirfd(directory), entry->d_name, 0);
    if (directory != NULL) closedir(directory);
    free(tag);
}

static status admission_save(struct save *s, struct admission *admission, struct manifest_file *file)
{
    struct file_writer writer = {0};
    char path[FILE_PATH_BYTES];
    status st = file_writer_open(&writer, file_path_join(path, s->path, file->name));
    if (st == ST_OK) st = admission_put(admission, &writer);
    if (st == ST_OK) st = file_commit(s, &writer, file);
    if (st != ST_OK) file_writer_abort(&writer);
    return st;
}

/* Writes the counts of tables that admit keys by counts: after save_begin, while nobody else uses the store.
 * One owner's counts are as of the ticket's step. */
static status save_admissions(struct save *s, const struct model_save_options *o)
{
    const struct graph *g = s->model->graph;
    s->admission = calloc((size_t)g->table_count + 1, sizeof *s->admission);
    if (s->admission == NULL) FAIL(MEMORY, "%s: no memory for the names of %u tables", s->path, g->table_count);
    for (uint32_t t = 0; t < g->table_count; t++) {
        struct admission *admission = o->others == NULL ? store_admission(s->model->store, t)
                                      : o->admission    ? o->admission[t]
                                                        : NULL;
        if (admission == NULL) continue;
        char *name;
        status st = table_data_name(s, t, ADMISSION_END, &name);
        s->admission[t].name = name;
        if (o->others == NULL) admission_turn_back(admission, o->ticket);
        if (st == ST_OK) st = admission_save(s, admission, &s->admission[t]);
        admission_turn_forth(admission);
        if (st != ST_OK) tagged_remove(s);
        TRY(st);
    }
    return ST_OK;
}

status save_rows_open(struct save *s, uint32_t table, struct save_rows *rows, uint64_t row_count, void *block,
                      size_t block_bytes)
{
    const struct manifest_table *entry = &s->manifest.tables[table];
    char path[FILE_PATH_BYTES];
    TRY(s->sink ? file_writer_open_sink(&rows->file, s->table_name[table], s->sink)
                : file_writer_open(&rows->file, file_path_join(path, s->path, s->table_name[table])));
    const struct row_file_shape shape = {entry->name, entry->dim, entry->span_floats,
                                         entry->store == TABLE_BF16 ? ROW_FILE_BF16 : ROW_FILE_F32};
    return row_writer_begin(&rows->rows, &rows->file, &shape, row_count, block, block_bytes);
}

status save_rows_commit(struct save *s, uint32_t table, struct save_rows *rows)
{
    struct manifest_part part = {.file.name = s->table_name[table], .rows = rows->rows.row_count};
    TRY(row_writer_end(&rows->rows));
    TRY(file_commit(s, &rows->file, &part.file));
    return manifest_part_add(&s->manifest.tables[table], &part);
}

void save_rows_abort(struct save_rows *rows) { file_writer_abort(&rows->file); }

static status file_copy(const char *from, const char *to)
{
    struct file_map map;
    struct file_writer writer = {0};
    TRY(file_map_read(&map, from));
    status st = file_writer_open(&writer, to);
    if (st == ST_OK) st = file_writer_put(&writer, map.data, map.bytes);
    if (st == ST_OK) st = file_writer_commit(&writer);
    if (st != ST_OK) file_writer_abort(&writer);
    file_map_close(&map);
    return st;
}

/* Gives manifest.json its second name, and replaces a file that has the name: a save killed here
 * left it, or a user put it there. */
static status newest_link(struct save *s, const char *name)
{
    char from[FILE_PATH_BYTES], to[FILE_PATH_BYTES];
    file_path_join(from, s->path, MANIFEST_NAME);
    file_path_join(to, s->path, name);
    status st = ST_OK;
    bool was_there = model_file_is_there(s->path, name);
    if (linkat(AT_FDCWD, from, AT_FDCWD, to, AT_SYMLINK_FOLLOW) == 0)
        st = model_dir_sync(s->path);
    else /* the name is taken, or the file system knows no links */
        st = file_copy(from, to);
    if (!was_there) s->linked_name = name;
    return st;
}

static status save_files(struct save *s)
{
    TRY(s->rows_put(s->context, s));
    TRY(save_file(s, s->manifest.dense.name, &s->manifest.dense));
    for (uint32_t i = 0; i < s->older.count && s->keep > 1; i++)
        if (s->older.items[i].is_newest) TRY(newest_link(s, s->older.items[i].name));
    return save_file(s, MANIFEST_NAME, NULL);
}

/* After a failure: removes what this save wrote, unless the directory's manifest may already be the new one
 * (its rename was done, and the directory's fsync failed). Returns the failure. */
static status save_undo(struct save *s, status st)
{
    struct manifest present;
    struct failure failure;
    failure_keep(&failure, st);
    bool is_old = !model_file_is_there(s->path, MANIFEST_NAME);
    if (!is_old && manifest_load(&present, s->path, MANIFEST_NAME) == ST_OK) {
        is_old = !manifest_names(&present, s->dense_name);
        manifest_free(&present);
    }
    if (is_old && s->linked_name != NULL) model_file_remove(s->path, s->linked_name);
    if (is_old) tagged_remove(s);
    return failure_adopt(&failure);
}

status save_run(struct save *s)
{
    status st = save_describe(s);
    if (st == ST_OK) st = save_files(s);
    if (st != ST_OK) return save_undo(s, st);
    older_saves_thin(s->path, &s->older, &s->manifest, s->keep);
    return ST_OK;
}

/* --- in one piece ----------------------------------------------------------------------------- */

/* Writes a table as one file of all its rows. */
static status table_put(const struct model_save_options *o, struct save *s, uint32_t t)
{
    struct manifest_table *table = &s->manifest.tables[t];
    struct save_rows rows = {0};
    struct store_walk walk;
    size_t block_bytes = row_writer_block_bytes(table->span_floats, SIZE_MAX);
    void *block = malloc(block_bytes);
    if (block == NULL) FAIL(MEMORY, "%s: no memory for a block of %zu bytes", s->path, block_bytes);
    table->rows = o->row_count ? o->row_count[t] : store_row_count(s->model->store, t);
    status st = store_walk_open(&walk, s->model->store, t, table->rows, o->ticket);
    if (st == ST_OK) table->rows = walk.row_count;
    if (st == ST_OK) st = save_rows_open(s, t, &rows, table->rows, block, block_bytes);
    if (st == ST_OK) st = row_writer_walk(&rows.rows, &walk);
    if (st == ST_OK) st = save_rows_commit(s, t, &rows);
    if (st != ST_OK) save_rows_abort(&rows);
    store_walk_close(&walk);
    free(block);
    return st;
}

/* Writes every table's own rows, then adds the parts that other owners have written. */
static status rows_put(void *context, struct save *s)
{
    const struct model_save_options *o = context;
    const uint32_t owners = s->model->share.owner_count;
    for (uint32_t t = 0; t < table_count_of(s); t++) {
        TRY(table_put(o, s, t));
        for (uint32_t i = 0; o->others && i + 1 < owners; i++) {
            const struct manifest_part *part = &o->others[(size_t)i * table_count_of(s) + t];
            TRY(manifest_part_add(&s->manifest.tables[t], part));
            s->manifest.tables[t].rows += part->rows;
        }
    }
    return ST_OK;
}

status model_save_claim(const struct model *model, const char *path, uint32_t *generation)
{
    struct save s = {.model = model, .path = path};
    TRY(model_dir_check(model->graph, path));
    const status st = save_begin(&s);
    *generation = s.generation;
    save_end(&s);
    return st;
}

void model_save_drop(const struct model *model, const struct model_save_options *o)
{
    tagged_remove(&(struct save){.model = model, .path = o->path, .generation = o->generation});
}

void model_parts_free(struct manifest_part *parts, uint32_t part_count)
{
    for (uint32_t i = 0; i < part_count; i++) free((char *)(uintptr_t)parts[i].file.name);
    memset(parts, 0, part_count * sizeof *parts);
}

/* Copies the parts that a save has written, with their names. */
static status parts_take(const struct save *s, struct manifest_part *parts)
{
    for (uint32_t t = 0; t < table_count_of(s); t++) {
        char *name;
        parts[t] = s->manifest.tables[t].part[0];
        const status st = heap_text(&name, "%s", parts[t].file.name);
        parts[t].file.name = name;
        if (st == ST_OK) continue;
        model_parts_free(parts, t);
        return st;
    }
    return ST_OK;
}

status model_save_rows(const struct model *model, const struct model_save_options *o, struct manifest_part *parts)
{
    struct save s = {
        .model = model, .path = o->path, .has_generation = true, .generation = o->generation, .sink = o->sink};
    memset(parts, 0, model->graph->table_count * sizeof *parts);
    status st = save_begin(&s);
    if (st == ST_OK) st = save_describe(&s);
    for (uint32_t t = 0; t < table_count_of(&s) && st == ST_OK; t++) st = table_put(o, &s, t);
    if (st == ST_OK) st = parts_take(&s, parts);
    for (uint32_t t = 0; t < table_count_of(&s) && st != ST_OK && s.sink == NULL && s.table_name && s.table_name[t];
         t++)
        model_file_remove(o->path, s.table_name[t]);
    save_end(&s);
    return st;
}

status model_save(const struct model *model, const struct model_save_options *o, uint64_t *bytes)
{
    TRY(model_dir_check(model->graph, o->path));
    struct model_save_options options = *o;
    struct save s = {.model = model,
                     .path = o->path,
                     .keep = o->keep,
                     .has_generation = o->others != NULL,
                     .generation = o->generation,
                     .rows_put = rows_put,
                     .context = &options};
    status st = save_begin(&s);
    if (st == ST_OK) st = save_admissions(&s, o);
    if (st == ST_OK) st = save_run(&s);
    if (bytes != NULL) *bytes = s.bytes;
    save_end(&s);
    return st;
}
