/* heterps-run export: a saved model's values as safetensors files, for other tools. */
#include <inttypes.h>

#include "engine/base/log.h"
#include "engine/cmd/command.h"
#include "engine/session.h"

struct export_options {
    const char *model, *output;
    struct flag_list set;
};
static const struct flag flags[] = {
    {"--model", FLAG_TEXT, "DIR", "the saved model; DIR/manifest.STEP.json: an older save of it",
     offsetof(struct export_options, model), 0, 0, true},
    {"-o", FLAG_TEXT, "DIR", "where to write: a directory, made if absent", offsetof(struct export_options, output), 0,
     0, true},
    {"--set", FLAG_LIST, "SECTION.KEY=VALUE", "override a setting of the graph; may be repeated",
     offsetof(struct export_options, set), 0, 0, false},
};

static status export(struct model *model, const struct export_options *o)
{
    TRY(model_load(model, o->model));
    uint64_t bytes, row_count = 0;
    TRY(model_export(model, o->output, &bytes));
    uint32_t table_count = model->graph->table_count;
    for (uint32_t t = 0; t < table_count; t++) row_count += store_row_count(model->store, t);
    char bytes_text[16], rows_text[27];
    log_info("%s: %u files, %s rows, %s", o->output, table_count + 1, session_count_text(rows_text, row_count),
             cfg_bytes_text(bytes_text, sizeof bytes_text, bytes));
    return ST_OK;
}

static status run(const char *const *positionals, const void *options_pointer)
{
    const struct export_options *o = options_pointer;
    struct session session;
    TRY(session_model_open(&session, &(struct session_options){
                                         .graph_path = positionals[0], .set = o->set.item, .set_count = o->set.count}));
    status st = export(&session.model, o);
    session_close(&session);
    return st;
}

const struct command command_export = {.name = "export",
                                       .positionals = "GRAPH",
                                       .summary = "write a saved model's values as safetensors files",
                                       .flags = flags,
                                       .flag_count = sizeof flags / sizeof *flags,
                                       .options_bytes = sizeof(struct export_options),
                                       .run = run,
                                       .help = "Writes dense.safetensors (the parameters by name) and, for each table, "
                                               "TABLE.safetensors: \"keys\" (U64, ascending) and\n"
                                               "\"vectors\" (F32, one a key). Equal values give equal bytes."};
