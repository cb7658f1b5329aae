/* heterps-run export: a saved model's values as safetensors or .npy files, for other tools. */
#include <string.h>

#include "engine/base/log.h"
#include "engine/cmd/command.h"
#include "engine/crew/setup.h"
#include "engine/base/stop.h"
#include "engine/base/words.h"
#include "io/store/store_rows.h"

struct export_options {
    const char *model, *output, *format;
    struct flag_list set;
};
static const struct flag flags[] = {
    {"--model", FLAG_TEXT, "DIR", "the saved model; DIR/manifest.STEP.json: an older save of it",
     offsetof(struct export_options, model), 0, 0, true},
    {"-o", FLAG_TEXT, "DIR", "where to write: a directory, made if absent", offsetof(struct export_options, output), 0,
     0, true},
    {"--format", FLAG_TEXT, "NAME", "safetensors (default) or npy: a file of NumPy's an array",
     offsetof(struct export_options, format), 0, 0, false},
    {"--set", FLAG_LIST, "SECTION.KEY=VALUE", "override a setting of the graph; may be repeated",
     offsetof(struct export_options, set), 0, 0, false},
};

static status export(struct model *model, const struct export_options *o)
{
    bool is_npy = o->format != NULL && strcmp(o->format, "npy") == 0;
    if (o->format != NULL && !is_npy && strcmp(o->format, "safetensors") != 0)
        FAIL(USAGE, "--format: expected safetensors or npy, found \"%s\"", o->format);
    struct model_exported done;
    TRY(model_manifest_note(o->model));
    TRY(model_load(model, o->model));
    stop_listen(NULL, NULL);
    TRY(model_export(model, o->output, is_npy ? MODEL_EXPORT_NPY : MODEL_EXPORT_SAFETENSORS, &done));
    uint64_t row_count = 0;
    for (uint32_t t = 0; t < model->graph->table_count; t++) row_count += store_row_count(model->store, t);
    char bytes_text[16], rows_text[27];
    log_info("exported %s, %s rows, %s -> %s", words_plural(WORDS, done.files, "file"),
             words_whole(rows_text, row_count), words_size(bytes_text, done.bytes), o->output);
    return ST_OK;
}

static status run(const char *const *positionals, const void *options_pointer)
{
    const struct export_options *o = options_pointer;
    struct setup setup;
    TRY(setup_open(
        &setup, &(struct setup_options){.graph_path = positionals[0], .set = o->set.item, .set_count = o->set.count}));
    status st = export(&setup.model, o);
    setup_close(&setup);
    return st;
}

const struct command command_export = {
    .name = "export",
    .positionals = "GRAPH",
    .opens_positionals = true,
    .summary = "write a saved model's values as safetensors or .npy files",
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(struct export_options),
    .run = run,
    .help = "Writes dense.safetensors (the parameters by name) and, for each table, "
            "TABLE.safetensors: \"keys\" (U64, ascending) and\n"
            "\"vectors\" (F32, one a key); with --format npy NAME.npy of each parameter, "
            "TABLE.keys.npy and TABLE.vectors.npy. Equal values give equal bytes.\n"
            "`heterps-run import` reads both."};
