/* Opens and closes the parts of a set-up, in the order in which they need each other. */
#include "engine/crew/setup.h"

#include <string.h>

#include "engine/base/log.h"
#include "engine/base/memory.h"
#include "engine/base/paths.h"
#include "engine/base/trust.h"
#include "engine/base/words.h"
#include "engine/image/image.h"
#include "engine/model/lean.h"
#include "engine/model/model_dir.h"
#include "engine/model/model_saved.h"
#include "engine/sync/sync.h"
#include "io/store/store_rows.h"

static status lives_check(const struct setup *s)
{
    for (uint32_t t = 0; t < s->graph.table_count; t++)
        if (s->training && row_life_is_on(&s->graph.tables[t].life) && !sync_by_lane(s->settings.train_sync))
            FAIL(USAGE,
                 "table %s: rows that come and go need train.sync = bsp: only there a step has an end at which they do",
                 graph_string(&s->graph, s->graph.tables[t].name));
    return ST_OK;
}

status setup_begin(struct setup *s, const struct setup_options *o)
{
    memset(s, 0, sizeof *s);
    s->graph_path = o->graph_path;
    s->training = o->training;
    s->saved = o->training ? NULL : o->model;
    memory_note("program", 0); /* the plan's first parts; their sizes are noted later */
    memory_note("threads", 0);
    TRY(graph_open_set(&s->graph, o->graph_path, o->set, o->set_count));
    TRY(ini_parse(&s->ini, o->graph_path, s->graph.text, s->graph.text_bytes));
    TRY(settings_read(&s->ini, &s->settings));
    TRY(settings_disk_check(&s->settings));
    if (o->joins_lanes && s->training && s->settings.train_sync == SYNC_BSP && s->settings.train_micro == 0 &&
        s->settings.train_reduce == REDUCE_F32)
        graph_lanes_join(&s->graph, o->graph_path);
    if (graph_joined(&s->graph) > 1)
        log_detail("lanes    %u of %u examples, %u at a time as one micro-batch", graph_lane_count(&s->graph),
                   graph_lane_micro(&s->graph), graph_joined(&s->graph));
    return lives_check(s);
}

static status table_budgets_read(const struct graph *graph, const struct ini *ini, const char *path,
                                 struct model_table_settings *budgets)
{
    for (uint32_t t = 0; t < graph->table_count; t++) {
        struct table_settings settings;
        const char *name = graph_string(graph, graph->tables[t].name);
        const struct ini_section *section = ini_find(ini, "table", name);
        if (section == NULL)
            FAIL(INVALID,
                 "%s: the graph has a table %s, of which the text that it carries has no section; "
                 "compile the model text again",
                 path, name);
        TRY(settings_read_named(ini, section, "table", &settings));
        budgets[t] = (struct model_table_settings){
            .ram_bytes = settings.ram, .disk_bytes = settings.ssd, .unseen_is_zeros = settings.unseen == UNSEEN_ZEROS};
    }
    return ST_OK;
}

status setup_text_check(const struct graph *graph, const char *path)
{
    struct model_table_settings tables[GRAPH_TABLES_MAX];
    struct settings settings;
    struct ini ini;
    TRY(ini_parse(&ini, path, graph->text, graph->text_bytes));
    status st = settings_read(&ini, &settings);
    if (st == ST_OK) st = table_budgets_read(graph, &ini, path, tables);
    ini_free(&ini);
    return st;
}

/* Whether a table of the saved model has more rows than the store has room for; fills rows[table_count]. A
 * damaged save is reported when it is loaded. */
static bool rows_are_many(const struct setup *s, uint64_t *rows)
{
    struct model_saved saved;
    bool are_many = false;
    if (s->saved == NULL || lean_is(s->saved) || model_saved_open(&saved, s->saved) != ST_OK) return false;
    const bool is_alike = saved.manifest.table_count == s->graph.table_count;
    for (uint32_t t = 0; is_alike && t < s->graph.table_count; t++) {
        rows[t] = saved.manifest.tables[t].rows;
        are_many |= rows[t] > store_row_max(s->model.store, t);
    }
    model_saved_close(&saved);
    return are_many;
}

/* Opens the model anew, with its rows in the files of the save. */
static status files_use(struct setup *s, const struct model_budget *budget, const uint64_t *rows)
{
    struct model_budget files = *budget;
    uint64_t sum = 0;
    char text[27], ram[16];
    for (uint32_t t = 0; t < s->graph.table_count; t++) sum += rows[t];
    files.rows = rows;
    model_close(&s->model);
    TRY(model_open(&s->model, &s->graph, &files));
    log_info("rows     %s rows are more than store.ram = %s has room for: they stay in the files of %s",
             words_whole(text, sum), words_size(ram, s->settings.store_ram), s->saved);
    return ST_OK;
}

status setup_finish(struct setup *s)
{
    uint64_t rows[GRAPH_TABLES_MAX];
    struct model_table_settings tables[GRAPH_TABLES_MAX];
    TRY(table_budgets_read(&s->graph, &s->ini, s->graph_path, tables));
    struct model_budget budget = {.ram_bytes = s->settings.store_ram,
                                  .table = tables,
                                  .disk_bytes = s->settings.store_ssd,
                                  .path = s->settings.store_path,
                                  .io_threads = s->settings.data_io == IO_THREADS,
                                  .lives = s->training};
    const bool is_on_disk = s->settings.store_ssd > 0;
    for (uint32_t t = 0; t < s->graph.table_count; t++)
        if (tables[t].disk_bytes > 0 && !is_on_disk)
            FAIL(USAGE, "%s.ssd is a part of store.ssd, which is 0: give --set store.ssd=SIZE, too, and store.path",
                 graph_string(&s->graph, s->graph.tables[t].name));
    budget.looks_up = s->saved != NULL && !is_on_disk; /* shorter rows on a disk would be more, with a larger index */
    if (is_on_disk) TRY(trust_check("store.path", s->settings.store_path, s->graph_path));
    if (is_on_disk && model_file_is_there(s->settings.store_path, MANIFEST_NAME)) /* its rows lie in segments, too */
        FAIL(INVALID, "store.path: %s has a saved model in it; give rows on disk a directory of their own",
             s->settings.store_path);
    TRY(model_open(&s->model, &s->graph, &budget));
    if (!is_on_disk && rows_are_many(s, rows)) TRY(files_use(s, &budget, rows));
    TRY(schema_open(&s->schema, &s->graph, &s->settings));
    /* The image that the program carries is not counted: a run that does not use it never reads it. */
    memory_note("program", memory_program_bytes() - (size_t)(image.end - image.begin) + s->graph.bytes);
    return ST_OK;
}

status setup_open(struct setup *s, const struct setup_options *o)
{
    status st = setup_begin(s, o);
    if (st == ST_OK) st = setup_finish(s);
    if (st != ST_OK) setup_close(s);
    return st;
}

void setup_close(struct setup *s)
{
    model_close(&s->model);
    schema_close(&s->schema);
    ini_free(&s->ini);
    graph_close(&s->graph);
    memset(s, 0, sizeof *s);
}

status setup_paths(const struct setup *s, const char *key, const char *value, char **paths)
{
    *paths = NULL;
    TRY(trust_sources_check(key, value, s->graph_path));
    return paths_beside(paths, s->graph_path, value);
}
