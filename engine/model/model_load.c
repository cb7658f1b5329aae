/* Loads a saved model into a graph's: everything is compared and verified first,
 * then copied. Called once a start. */
#include "engine/model/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cfg/settings.h"
#include "engine/base/log.h"
#include "engine/base/words.h"
#include "engine/model/lean.h"
#include "engine/model/model_names.h"
#include "engine/model/model_saved.h"
#include "engine/model/recipe.h"
#include "io/store/admission.h"
#include "io/store/shard.h"
#include "io/store/store_life.h"
#include "io/store/store_rows.h"

struct load {
    struct model_saved saved;
    struct model_source *source; /* gives the rows; NULL: the save does */
    struct model_arrays arrays;  /* of the model that is filled */
};

/* --- what differs ----------------------------------------------------------------------------- */

static status mismatch_tensor(const struct load *l, const char *name, const struct model_array *graph,
                              const struct manifest_tensor *saved)
{
    char graph_text[64] = "none", saved_text[64] = "none";
    if (graph) snprintf(graph_text, sizeof graph_text, "[%u, %u]", graph->rows, graph->cols);
    if (saved) snprintf(saved_text, sizeof saved_text, "[%" PRIu64 ", %" PRIu64 "]", saved->shape[0], saved->shape[1]);
    FAIL(MISMATCH, "%s: %.120s: the graph has %s, %s has %s", l->saved.manifest_path, name, graph_text,
         l->saved.directory, saved_text);
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

/* Compares by name first, so that one array more or less does not count as a change of all after it; the
 * order of arrays is compared last. */
static status tensors_compare(const struct load *l)
{
    const struct manifest *m = &l->saved.manifest;
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
    if (!is_in_order) FAIL(MISMATCH, "%s: the graph has the same parameters in another order", l->saved.manifest_path);
    return ST_OK;
}

static status tables_compare(const struct load *l, const struct graph *g)
{
    const struct manifest *m = &l->saved.manifest;
    for (uint32_t t = 0; t < g->table_count || t < m->table_count; t++) {
        const char *graph_name = t < g->table_count ? graph_string(g, g->tables[t].name) : "none";
        const char *saved_name = t < m->table_count ? m->tables[t].name : "none";
        if (t >= g->table_count || t >= m->table_count || strcmp(graph_name, saved_name) != 0)
            FAIL(MISMATCH, "%s: table %u: the graph has %s, %s has %.120s", l->saved.manifest_path, t, graph_name,
                 l->saved.directory, saved_name);
        if (g->tables[t].dim != m->tables[t].dim)
            FAIL(MISMATCH, "%s: table %s: the graph has dim %u, %s has %u", l->saved.manifest_path, graph_name,
                 g->tables[t].dim, l->saved.directory, m->tables[t].dim);
        if (g->tables[t].store != m->tables[t].store)
            FAIL(MISMATCH,
                 "%s: table %s: the graph stores vectors as %s, %s as %s; "
                 "a training of this graph may begin with the saved values (--init)",
                 l->saved.manifest_path, graph_name, cfg_row_stores[g->tables[t].store], l->saved.directory,
                 cfg_row_stores[m->tables[t].store]);
        if (g->tables[t].span_floats != m->tables[t].span_floats)
            FAIL(MISMATCH,
                 "%s: table %s: a row of the graph has %u floats (vector and optimizer state), of %s %u: "
                 "its optimizer or its life differs",
                 l->saved.manifest_path, graph_name, g->tables[t].span_floats, l->saved.directory,
                 m->tables[t].span_floats);
    }
    return ST_OK;
}

/* The rules by which the model was trained; the graph's if the save does not tell. */
static uint32_t saved_rules(const struct model_saved *s, const struct graph *g)
{
    const struct manifest *m = &s->manifest;
    struct ini ini;
    if (m->text == NULL || ini_parse(&ini, s->manifest_path, m->text, m->text_bytes) != ST_OK)
        return g->header->version;
    const uint32_t rules = rules_of(&ini);
    ini_free(&ini);
    return rules;
}

static status hash_compare(const struct model_saved *s, const struct graph *g)
{
    if (s->manifest.model_hash == g->header->model_hash) return ST_OK;
    const uint32_t rules = saved_rules(s, g);
    if (rules != g->header->version)
        FAIL(MISMATCH,
             "%s: it was trained by the rules of version %u, and the graph is of version %u; "
             "compile the model text with --set model.rules=%u",
             s->manifest_path, rules, g->header->version, rules);
    FAIL(MISMATCH,
         "%s: the graph has the same tables and parameters, but another model hash (%016" PRIx64 ", %s has %016" PRIx64
         "): its columns, ops, optimizers or seed differ",
         s->manifest_path, g->header->model_hash, s->directory, s->manifest.model_hash);
}

/* --- copying ---------------------------------------------------------------------------------- */

/* Rows stay in the save's files: notes their places. */
static status rows_find(const struct load *l, struct home *home, uint32_t table)
{
    const struct model_rows *rows = &l->saved.rows[table];
    struct model_rows_walk walk = {0};
    uint32_t part = UINT32_MAX;
    uint64_t key;
    for (const float *ignored; model_rows_next(rows, &walk, &key, &ignored);) {
        if (walk.part != part) {
            struct filed_part place = model_rows_place(rows, part = walk.part);
            TRY(file_map_descriptor(&rows->part[part].map, place.path, &place.fd));
            TRY(filed_part_add(home, table, &place));
        }
        TRY(filed_row(home, table, model_rows_row(rows, &walk), key));
    }
    model_rows_forget(rows);
    const uint64_t count = home_counts(home, table).row_count;
    if (count != rows->said->rows)
        FAIL(INVALID, "%s: table %s has %" PRIu64 " rows, and its files have %" PRIu64 " keys", l->saved.manifest_path,
             rows->said->name, rows->said->rows, count);
    return ST_OK;
}

static status rows_copy(const struct load *l, struct model *model, uint32_t table)
{
    const struct model_rows *rows = &l->saved.rows[table];
    struct model_rows_walk walk = {0};
    uint64_t key;
    const struct model_share *share = &model->share;
    const uint32_t floats = model_row_floats(model, table);
    for (const float *from; model_rows_next(rows, &walk, &key, &from);) {
        float *span;
        if (!model_share_has(share, table, key)) continue;
        TRY(store_put(model->store, table, key, &span));
        memcpy(span, from, floats * sizeof *span);
    }
    model_rows_forget(rows);
    /* One of several owners does not see which of the other owners' keys occur twice. */
    if (share->owner_count == 0 && store_row_count(model->store, table) != rows->said->rows)
        FAIL(INVALID, "%s: table %s has %" PRIu64 " rows, and its files have %" PRIu64 " keys", l->saved.manifest_path,
             rows->said->name, rows->said->rows, store_row_count(model->store, table));
    return ST_OK;
}

/* Copies the own rows as they come; the sender has compared their number with the manifest's. */
static status rows_come(const struct load *l, struct model *model, uint32_t table)
{
    const uint32_t floats = model_row_floats(model, table);
    uint64_t key;
    const float *row;
    for (;;) {
        float *span;
        TRY(l->source->row_next(l->source, table, &key, &row));
        if (row == NULL) return ST_OK;
        if (!model_share_has(&model->share, table, key))
            FAIL(INVALID, "%s: table %s: a row that is not this node's", l->source->name,
                 l->saved.rows[table].said->name);
        TRY(store_put(model->store, table, key, &span));
        memcpy(span, row, floats * sizeof *span);
    }
}

/* Fills an array from rows * cols floats, row after row, of any alignment. */
static void array_set(const struct model_array *a, const uint8_t *data)
{
    size_t row_bytes = a->cols * sizeof(float);
    for (uint32_t row = 0; row < a->rows; row++)
        memcpy(a->data + (size_t)row * a->stride, data + row * row_bytes, row_bytes);
}

/* The tag is the middle of the manifest's second name. */
static status tag_copy(const struct load *l, struct model *model)
{
    char *name;
    TRY(manifest_older_name(&name, &l->saved.manifest));
    const char *tag = name + sizeof MANIFEST_STEM; /* behind the '.' */
    snprintf(model->tag, sizeof model->tag, "%.*s", (int)(strlen(tag) - strlen(MANIFEST_END)), tag);
    free(name);
    return ST_OK;
}

static status load_copy(const struct load *l, struct model *model)
{
    for (uint32_t t = 0; t < l->saved.manifest.table_count; t++) {
        struct admission *admission = store_admission(model->store, t);
        const struct model_admission *saved = &l->saved.admission[t];
        if (admission != NULL && saved->path != NULL)
            TRY(admission_read(admission, saved->path, saved->map.data, saved->map.bytes));
        if (l->source) {
            TRY(rows_come(l, model, t));
            continue;
        }
        TRY(filed_is(store_home(model->store)) ? rows_find(l, store_home(model->store), t) : rows_copy(l, model, t));
    }
    for (uint32_t i = 0; i < l->arrays.count; i++) array_set(&l->arrays.items[i], l->saved.dense.tensors[i].data);
    TRY(tag_copy(l, model));
    model->progress = l->saved.manifest.progress;
    model->best = l->saved.manifest.best;
    memcpy(model->data.mark, l->saved.manifest.data.mark, sizeof model->data.mark);
    model->data.mark_count = l->saved.manifest.data.mark_count;
    store_period_set(model->store, model_period(model->graph, model->progress.step));
    return ST_OK;
}

/* --- loading ---------------------------------------------------------------------------------- */

/* A new pass begins where the saved one is left. */
static void pass_begin(struct model *model)
{
    struct progress *p = &model->progress;
    p->first_epoch = p->epoch + (p->epoch_examples > 0);
    p->first_step = p->step;
    p->epoch = p->first_epoch;
    p->epoch_examples = p->pass_examples = 0;
    model->best = (struct best){0};
    model->data.mark_count = 0;
}

static status load_run(struct load *l, struct model *model, const char *path, enum model_purpose purpose)
{
    const struct manifest *m = &l->saved.manifest;
    TRY(l->source ? model_saved_adopt(&l->saved, l->source) : model_saved_open(&l->saved, path));
    if (l->source == NULL) TRY(model_saved_note(&l->saved));
    TRY(model_arrays_list(&l->arrays, model, true));
    TRY(tables_compare(l, model->graph));
    TRY(tensors_compare(l));
    if (purpose == MODEL_TO_RESUME) TRY(model_data_compare(l->saved.manifest_path, &m->data, &model->data));
    if (purpose == MODEL_TO_RESUME && m->progress.epoch_examples > 0 &&
        (m->data.file_count == 0) != (model->data.file_count == 0))
        log_info("resume   %s does not tell in which data its training has stopped: not compared with these",
                 m->data.file_count == 0 ? l->saved.manifest_path : "a stream");
    /* Before the hash, which cannot tell the setting that differs. */
    if (purpose != MODEL_TO_USE)
        TRY(recipe_check(l->saved.manifest_path, m, model->graph, purpose == MODEL_TO_CONTINUE));
    TRY(hash_compare(&l->saved, model->graph));
    TRY(model_saved_verify(&l->saved));
    TRY(load_copy(l, model));
    if (purpose == MODEL_TO_CONTINUE) pass_begin(model);
    return ST_OK;
}

/* Returns the failure; to MISMATCH it adds the setting that differs. */
static status differs_tell(const struct model_saved *s, const struct graph *g, status st)
{
    struct failure failure;
    char what[RECIPE_WHAT_BYTES];
    if (st != ST_MISMATCH) return st;
    failure_keep(&failure, st);
    const bool is_told = recipe_differs(s->manifest_path, &s->manifest, g, what);
    FAIL(MISMATCH, "%s%s%s (a model trained with --set needs the same --set here)", failure.message,
         is_told ? ": " : "", is_told ? what : "");
}

static status load(struct model *model, struct model_source *source, const char *path, enum model_purpose purpose)
{
    struct load l = {.source = source};
    for (uint32_t t = 0; t < model->graph->table_count; t++) CHECK(store_row_count(model->store, t) == 0);
    status st = load_run(&l, model, path, purpose);
    st = differs_tell(&l.saved, model->graph, model_saved_check(&l.saved, st));
    model_saved_close(&l.saved);
    model_arrays_free(&l.arrays);
    return st;
}

status model_load(struct model *model, const char *path)
{
    return lean_is(path) ? lean_load(model, path) : load(model, NULL, path, MODEL_TO_USE);
}

status model_load_for(struct model *model, const char *path, enum model_purpose purpose)
{
    return purpose == MODEL_TO_USE ? model_load(model, path) : load(model, NULL, path, purpose);
}

status model_resume(struct model *model, const char *path) { return load(model, NULL, path, MODEL_TO_RESUME); }

status model_continue(struct model *model, const char *path) { return load(model, NULL, path, MODEL_TO_CONTINUE); }

void model_source_close(struct model_source *source)
{
    file_map_close(&source->manifest);
    file_map_close(&source->dense);
    for (uint32_t t = 0; t < source->table_count; t++) file_map_close(&source->admission[t]);
}

status model_load_from(struct model *model, struct model_source *source, enum model_purpose purpose)
{
    return load(model, source, NULL, purpose);
}

static bool pass_is_complete(const struct progress *p)
{
    return p->epoch_examples == 0 || p->epoch_examples == p->pass_examples;
}

/* Warns of a new pass over the save's own data: they are trained on once more, or the rest
 * of the saved pass is left out. */
static void same_data_tell(const struct model_saved *saved, const struct model *model)
{
    const struct manifest *m = &saved->manifest;
    const struct progress *p = &m->progress;
    char count[27];
    if (m->data.file_count == 0 || model->data.file_count == 0) return;
    if (model_data_compare(saved->manifest_path, &m->data, &model->data) != ST_OK) return;
    if (pass_is_complete(p)) {
        log_warning("%s has been trained on this very data (%s): --continue trains on it once more", saved->directory,
                    m->data.file[0].name);
        return;
    }
    const bool is_known = p->pass_examples > p->epoch_examples;
    log_warning("%s has stopped training in this very data (%s): %s %s examples of its pass, which are not trained on; "
                "--resume in place of --continue would go on with them",
                saved->directory, m->data.file[0].name,
                is_known ? "--continue begins it anew, and leaves out the last"
                         : "--continue begins it anew, and leaves out what follows the first",
                words_whole(count, is_known ? p->pass_examples - p->epoch_examples : p->epoch_examples));
}

status model_data_is_saved(const struct model *model, const char *path, bool *is_saved)
{
    struct model_saved saved;
    TRY(model_saved_open(&saved, path));
    const struct model_data *was = &saved.manifest.data, *is = &model->data;
    *is_saved =
        (was->file_count == 0) == (is->file_count == 0) && model_data_compare(saved.manifest_path, was, is) == ST_OK;
    /* Nothing is known of a stream before it is read: within a pass it has to be the saved one. */
    if (was->file_count == 0 && pass_is_complete(&saved.manifest.progress)) *is_saved = false;
    model_saved_close(&saved);
    return ST_OK;
}

status model_resume_check(const struct model *model, const char *path, bool is_new_pass)
{
    struct model_saved saved;
    TRY(model_saved_open(&saved, path));
    const struct manifest *m = &saved.manifest;
    status st = is_new_pass ? ST_OK : model_data_compare(saved.manifest_path, &m->data, &model->data);
    if (st == ST_OK) st = recipe_refuse(saved.manifest_path, m, model->graph, is_new_pass);
    if (st == ST_OK) st = differs_tell(&saved, model->graph, hash_compare(&saved, model->graph));
    if (st == ST_OK && is_new_pass) same_data_tell(&saved, model);
    model_saved_close(&saved);
    return st;
}
