/* Saves a model into a directory so that a kill or a failure at any moment leaves whole saves there, and only such.
 *
 *     before                   new files, older name        manifest renamed             too old removed (keep = 2)
 *     manifest.json ─▶ 200     manifest.json ─▶ 200         manifest.json ─▶ 300         manifest.json ─▶ 300
 *                              manifest.200.json ─▶ 200     manifest.200.json ─▶ 200     manifest.200.json ─▶ 200
 *     manifest.100.json ─▶ 100 manifest.100.json ─▶ 100     manifest.100.json ─▶ 100
 *     dense.100, emb.100       dense.100, emb.100           dense.100, emb.100
 *     dense.200, emb.200       dense.200, emb.200           dense.200, emb.200           dense.200, emb.200
 *                              dense.300, emb.300           dense.300, emb.300           dense.300, emb.300
 *
 * Every file is fsynced before its name appears; manifests that are too old go before the files that they name, with an fsync of the
 * directory between. A file that no manifest names is a leftover: the next save that succeeds removes it. Called once a checkpoint. */
#include "engine/manifest.h"
#include "engine/model.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/model_dir.h"
#include "engine/model_names.h"
#include "engine/model_saves.h"
#include "io/row_file.h"

struct save {
    const struct model *model;
    const char *path;
    struct model_arrays arrays;
    struct older_saves older;
    struct store_walk walk[GRAPH_TABLES_MAX]; /* of each table's rows */
    struct manifest manifest;                 /* of this save */
    char *dense_name, **table_name;
    const char *linked_name; /* that the save before this one got from this one, or NULL */
    uint64_t bytes;
};

static status save_names(struct save *s)
{
    const struct graph *g = s->model->graph;
    uint64_t step = s->model->progress.step;
    s->table_name = calloc((size_t)g->table_count + 1, sizeof *s->table_name);
    if (s->table_name == NULL) FAIL(MEMORY, "%s: no memory for the names of %u tables", s->path, g->table_count);
    /* The first generation of which nothing is there, not even an older save that cannot be read. */
    bool is_taken = true;
    for (uint32_t generation = 0; is_taken; generation++) {
        free(s->dense_name);
        s->dense_name = model_data_name(DENSE_NAME, step, generation, DENSE_END);
        char *older = model_data_name(MANIFEST_STEM, step, generation, MANIFEST_END);
        is_taken = model_file_is_there(s->path, s->dense_name) || model_file_is_there(s->path, older);
        free(older);
        for (uint32_t t = 0; t < g->table_count; t++) {
            char *stem = model_file_stem(graph_string(g, g->tables[t].name));
            free(s->table_name[t]);
            s->table_name[t] = model_data_name(stem, step, generation, ROWS_END);
            free(stem);
            is_taken = is_taken || model_file_is_there(s->path, s->table_name[t]);
        }
        if (generation == UINT32_MAX) FAIL(IO, "%s: no free name for step %" PRIu64, s->path, step);
    }
    return ST_OK;
}

static status save_describe(struct save *s, const struct model_save_options *o)
{
    const struct graph *g = s->model->graph;
    TRY(older_saves_list(&s->older, s->path));
    TRY(model_arrays_list(&s->arrays, s->model, true));
    TRY(manifest_make(&s->manifest, g->table_count, s->arrays.count));
    for (uint32_t t = 0; t < g->table_count; t++) {
        uint64_t row_count = o->row_count ? o->row_count[t] : store_row_count(s->model->store, t);
        TRY(store_walk_open(&s->walk[t], s->model->store, t, row_count, o->ticket));
    }
    TRY(save_names(s));
    struct manifest *m = &s->manifest;
    m->model = graph_string(g, g->header->name);
    m->model_hash = g->header->model_hash;
    m->progress = s->model->progress;
    m->best = s->model->best;
    m->text = g->text;
    m->text_bytes = g->text_bytes;
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
                                    .rows = s->walk[t].row_count,
                                    .file.name = s->table_name[t]};
    for (uint32_t i = 0; i < m->tensor_count; i++)
        m->tensors[i] = (struct manifest_tensor){.name = s->arrays.items[i].name,
                                                 .shape = {s->arrays.items[i].rows, s->arrays.items[i].cols}};
    return ST_OK;
}

enum { SAVE_DENSE = -1, SAVE_MANIFEST = -2 };

static status content_put(struct save *s, struct file_writer *writer, int64_t what)
{
    if (what == SAVE_MANIFEST) return manifest_put(&s->manifest, writer);
    if (what == SAVE_DENSE) return model_arrays_put(&s->arrays, writer);
    const struct manifest_table *t = &s->manifest.tables[what];
    return row_file_put(writer, t->name, t->dim, t->span_floats, &s->walk[what]);
}

/* Writes table `what`, the dense file or the manifest, and notes bytes and checksum. */
static status save_file(struct save *s, const char *name, int64_t what, struct manifest_file *file)
{
    struct file_writer writer = {0};
    char *path = file_path_join(s->path, name);
    status st = file_writer_open(&writer, path);
    if (st == ST_OK) st = content_put(s, &writer, what);
    if (st == ST_OK && file != NULL) {
        file->bytes = writer.written_bytes;
        file->xxh3 = file_writer_hash(&writer);
    }
    uint64_t bytes = writer.written_bytes;
    if (st == ST_OK) st = file_writer_commit(&writer);
    if (st == ST_OK)
        s->bytes += bytes;
    else
        file_writer_abort(&writer);
    free(path);
    return st;
}

static status file_copy(const char *from, const char *to)
{
    struct file_map map;
    struct file_writer writer = {0};
    TRY(file_map_open(&map, from));
    status st = file_writer_open(&writer, to);
    if (st == ST_OK) st = file_writer_put(&writer, map.data, map.bytes);
    if (st == ST_OK) st = file_writer_commit(&writer);
    if (st != ST_OK) file_writer_abort(&writer);
    file_map_close(&map);
    return st;
}

/* Gives manifest.json its second name. If another file has the name, it is of a save that was killed here, or was put there: it is
 * replaced. */
static status newest_link(struct save *s, const char *name)
{
    char *from = file_path_join(s->path, MANIFEST_NAME), *to = file_path_join(s->path, name);
    status st = ST_OK;
    bool was_there = model_file_is_there(s->path, name);
    if (linkat(AT_FDCWD, from, AT_FDCWD, to, AT_SYMLINK_FOLLOW) == 0)
        st = model_dir_sync(s->path);
    else /* the name is taken, or the file system knows no links */
        st = file_copy(from, to);
    if (!was_there) s->linked_name = name;
    free(from);
    free(to);
    return st;
}

static status save_files(struct save *s, uint32_t keep)
{
    struct manifest *m = &s->manifest;
    TRY(save_file(s, m->dense.name, SAVE_DENSE, &m->dense));
    for (uint32_t t = 0; t < m->table_count; t++) TRY(save_file(s, m->tables[t].file.name, t, &m->tables[t].file));
    for (uint32_t i = 0; i < s->older.count && keep > 1; i++)
        if (s->older.items[i].is_newest) TRY(newest_link(s, s->older.items[i].name));
    return save_file(s, MANIFEST_NAME, SAVE_MANIFEST, NULL);
}

/* After a failure: removes what this save wrote, unless the directory's manifest may already be the new one (its
 * rename was done, and the directory's fsync failed). This thread's last failure stays what it was. */
static void save_undo(struct save *s)
{
    struct manifest present;
    char *message = strdup(status_message());
    bool is_old = !model_file_is_there(s->path, MANIFEST_NAME);
    if (!is_old && manifest_load(&present, s->path, MANIFEST_NAME) == ST_OK) {
        is_old = !manifest_names(&present, s->dense_name);
        manifest_free(&present);
    }
    if (is_old && s->linked_name != NULL) model_file_remove(s->path, s->linked_name);
    for (int64_t t = SAVE_DENSE; is_old && t < s->manifest.table_count; t++)
        model_file_remove(s->path, t == SAVE_DENSE ? s->dense_name : s->table_name[t]);
    (void)status_adopt(ST_OK, message ? message : "");
    free(message);
}

status model_save(const struct model *model, const struct model_save_options *o, uint64_t *bytes)
{
    TRY(model_dir_check(model->graph, o->path));
    struct save s = {.model = model, .path = o->path};
    status st = save_describe(&s, o);
    if (st == ST_OK) {
        st = save_files(&s, o->keep);
        if (st == ST_OK)
            older_saves_thin(o->path, &s.older, &s.manifest, o->keep);
        else
            save_undo(&s);
    }
    if (bytes != NULL) *bytes = s.bytes;
    for (uint32_t t = 0; t < model->graph->table_count; t++) store_walk_close(&s.walk[t]);
    for (uint32_t t = 0; s.table_name != NULL && t < model->graph->table_count; t++) free(s.table_name[t]);
    free(s.table_name);
    free(s.dense_name);
    manifest_free(&s.manifest);
    model_arrays_free(&s.arrays);
    older_saves_free(&s.older);
    return st;
}
