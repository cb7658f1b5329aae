/* heterps-run export: a saved model's values as safetensors or .npy files, for other tools. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/inputs.h"
#include "engine/base/stop.h"
#include "engine/base/words.h"
#include "engine/cmd/run.h"
#include "engine/crew/crew.h"
#include "engine/eval/evaluate.h"
#include "engine/model/lean.h"
#include "engine/node/sorted.h"
#include "engine/node/talk.h"
#include "engine/onnx/onnx.h"

struct export_options {
    const char *model, *output, *format, *purpose, *store, *eval;
    double score; /* NaN: none */
    struct flag_list set;
    struct run_nodes nodes;
    struct run_shown shown;
    bool again;
};
#define NONE RUN_NONE
static const struct export_options defaults = {
    .score = (double)NAN, .nodes = {.rank = NONE, .key_fd = NONE, .listen_fd = NONE, .roster_fd = NONE}};
static const struct flag flags[] = {
    {.name = "--model",
     .type = FLAG_TEXT,
     .value = "DIR",
     .meaning = "the saved model; DIR/manifest.STEP.json: an older save of it",
     .offset = offsetof(struct export_options, model),
     .is_required = true},
    {.name = "-o",
     .type = FLAG_TEXT,
     .value = "DIR",
     .meaning = "where to write: a directory, made if absent; with --for and for onnx a file",
     .offset = offsetof(struct export_options, output),
     .is_required = true},
    {.name = "--format",
     .type = FLAG_TEXT,
     .value = "NAME",
     .meaning = "safetensors (default); npy: a NumPy file for each array; "
                "onnx: one file with a net that other programs predict with",
     .offset = offsetof(struct export_options, format)},
    {.name = "--for",
     .type = FLAG_TEXT,
     .value = "PURPOSE",
     .meaning = "serving: one file of graph and model, without what only training needs; "
                "serve, predict and eval take it as GRAPH",
     .offset = offsetof(struct export_options, purpose)},
    {.name = "--score",
     .type = FLAG_F64,
     .value = "S",
     .meaning = "with --for: leaves out rows whose score is below S",
     .offset = offsetof(struct export_options, score),
     .max = 1e30},
    {.name = "--store",
     .type = FLAG_TEXT,
     .value = "NAME",
     .meaning = "with --for: how vectors are kept: f32 (default), bf16, or int8 with a scale for each row",
     .offset = offsetof(struct export_options, store)},
    {.name = "--eval",
     .type = FLAG_READ,
     .value = "FILE",
     .meaning = "with --for: labelled data to measure the model on, as it was and as it is in the file",
     .offset = offsetof(struct export_options, eval)},
    {.name = "--set",
     .type = FLAG_LIST,
     .value = "SECTION.KEY=VALUE",
     .meaning = "override a setting of the graph; may be repeated",
     .offset = offsetof(struct export_options, set)},
    RUN_NODES_FLAGS(struct export_options, nodes,
                    "export from several nodes, each of which has a part of the tables, and node 0 writes",
                    "; with --metrics: whoever reaches the address may ask"),
    RUN_USE_FLAGS(struct export_options, nodes, again, shown),
};

static status format_read(const struct export_options *o, enum model_export_format *format)
{
    const bool is_npy = o->format != NULL && strcmp(o->format, "npy") == 0;
    if (o->format != NULL && !is_npy && strcmp(o->format, "safetensors") != 0)
        FAIL(USAGE, "--format: expected safetensors, npy or onnx, found \"%s\"", o->format);
    *format = is_npy ? MODEL_EXPORT_NPY : MODEL_EXPORT_SAFETENSORS;
    return ST_OK;
}

static void exported_tell(const struct export_options *o, const struct model_exported *done)
{
    char bytes_text[16], rows_text[27];
    log_info("exported %s, %s rows, %s -> %s", words_plural(WORDS, done->files, "file"),
             words_whole(rows_text, done->rows), words_size(bytes_text, done->bytes), o->output);
}

static status export(struct model *model, const struct export_options *o)
{
    enum model_export_format format = MODEL_EXPORT_SAFETENSORS;
    struct model_exported done;
    TRY(format_read(o, &format));
    TRY(model_manifest_note(o->model));
    TRY(model_load(model, o->model));
    stop_listen(NULL, NULL);
    TRY(model_export(model, o->output, format, &done));
    exported_tell(o, &done);
    return ST_OK;
}

/* --- for serving ------------------------------------------------------------------------------ */

/* A loss's main figure: AUC, where there is one. */
struct figure {
    const char *text;
    int digits;
    double value;
};

static struct figure figure_take(const struct heads *heads)
{
    uint32_t head = 0, k = 0;
    if (!heads_figure_find(heads, "auc", &head, &k)) k = head_main_figure(&heads->items[head]);
    const struct figure_kind *kind = &heads->items[head].figures[k];
    return (struct figure){kind->text, kind->digits, heads->items[head].values[k]};
}

static status crew_measure(struct crew *crew, const char *model, const char *name, const char *data,
                           struct figure *figure)
{
    struct heads heads = {0};
    struct feed *feed = NULL;
    status st = heads_open(&heads, &crew->setup->graph);
    if (st == ST_OK) st = evaluate_open(crew, &(struct evaluate_options){.paths = data, .lines = READER_ALL}, &feed);
    if (st == ST_OK) st = evaluate_reserve(crew, feed, &heads);
    if (st == ST_OK) st = setup_memory_check(crew->setup);
    if (st == ST_OK) st = model_load(&crew->setup->model, model);
    if (st == ST_OK) stop_listen(feed_wake, feed);
    if (st == ST_OK) st = evaluate_measure_as(crew, feed, &heads, name, NULL);
    stop_listen(NULL, NULL);
    if (st == ST_OK) *figure = figure_take(&heads);
    heads_close(&heads);
    feed_close(feed);
    return st;
}

/* Loads the model into the set-up; with data, measures it, too. */
static status setup_load(struct setup *setup, const char *model, const char *name, const char *data,
                         struct figure *figure)
{
    struct crew crew;
    if (data == NULL) {
        TRY(setup_memory_check(setup));
        TRY(model_load(&setup->model, model));
        stop_listen(NULL, NULL);
        return ST_OK;
    }
    TRY(crew_open(&crew, setup, &(struct crew_options){0}));
    const status st = crew_measure(&crew, model, name, data, figure);
    crew_close(&crew);
    return st;
}

static status lean_options_read(const struct export_options *o, struct lean_options *lean)
{
    *lean = (struct lean_options){.path = o->output, .has_score = !isnan(o->score), .score = (float)o->score};
    if (o->format) FAIL(USAGE, "--format and --for exclude each other");
    if (strcmp(o->purpose, "serving") != 0) FAIL(USAGE, "--for: expected serving, found \"%s\"", o->purpose);
    for (uint32_t i = 0; o->store; i++) {
        if (lean_stores[i] == NULL) FAIL(USAGE, "--store: expected f32, bf16 or int8, found \"%s\"", o->store);
        lean->store = i;
        if (strcmp(o->store, lean_stores[i]) == 0) break;
    }
    return ST_OK;
}

static void lean_tell(const struct lean_options *options, const struct lean_written *w, const struct figure *full,
                      const struct figure *lean)
{
    char bytes[16], rows[27], left_out[27], vectors[16];
    log_info("exported %s rows, vectors as %s of %s (%.3f of float32), %s rows below the score; %s -> %s",
             words_whole(rows, w->row_count), lean_stores[options->store], words_size(vectors, w->vector_bytes),
             w->f32_bytes ? (double)w->vector_bytes / (double)w->f32_bytes : 1.0, words_whole(left_out, w->left_out),
             words_size(bytes, w->bytes), options->path);
    if (full->text)
        log_info("%-8s %.*f, as it was; %.*f in the file: %+.6f", full->text, full->digits, full->value, lean->digits,
                 lean->value, lean->value - full->value);
    log_event_begin("exported");
    log_event_text("path", options->path);
    log_event_u64("bytes", w->bytes);
    log_event_u64("rows", w->row_count);
    log_event_u64("left_out", w->left_out);
    log_event_u64("vector_bytes", w->vector_bytes);
    if (full->text) log_event_f64("before", full->value);
    if (full->text) log_event_f64("after", lean->value);
    log_event_end();
}

/* Checks that an output file is no input and no file of a model, except a file that this verb writes. */
static status output_check(const struct export_options *o)
{
    TRY(inputs_spare(o->output));
    return model_spare(o->output, o->purpose ? MODEL_SPARE_BUT_LEAN : MODEL_SPARE_ALL);
}

static status export_lean(const char *graph, const struct export_options *o)
{
    struct setup setup;
    struct lean_options options;
    struct lean_written written;
    struct figure full = {0}, lean = {0};
    TRY(lean_options_read(o, &options));
    TRY(output_check(o));
    TRY(model_manifest_note(o->model));
    TRY(setup_open(&setup,
                   &(struct setup_options){.graph_path = graph, .set = o->set.item, .set_count = o->set.count}));
    status st = setup_load(&setup, o->model, "full", o->eval, &full);
    if (st == ST_OK) st = lean_write(&setup.model, &options, &written);
    setup_close(&setup);
    TRY(st);
    if (o->eval) {
        TRY(setup_open(&setup, &(struct setup_options){.graph_path = o->output}));
        st = setup_load(&setup, o->output, "file", o->eval, &lean);
        setup_close(&setup);
        TRY(st);
    }
    lean_tell(&options, &written, &full, &lean);
    return ST_OK;
}

/* --- as a net --------------------------------------------------------------------------------- */

static status export_onnx(const char *graph, const struct export_options *o)
{
    struct setup setup;
    struct onnx_exported done = {0};
    char bytes[16], rows[27];
    TRY(output_check(o));
    TRY(model_manifest_note(o->model));
    TRY(setup_open(&setup,
                   &(struct setup_options){.graph_path = graph, .set = o->set.item, .set_count = o->set.count}));
    status st = setup_load(&setup, o->model, NULL, NULL, NULL);
    if (st == ST_OK) st = onnx_export(&setup, o->output, &done);
    setup_close(&setup);
    if (st == ST_OK)
        log_info("exported %s rows, %s -> %s", words_whole(rows, done.row_count), words_size(bytes, done.bytes),
                 o->output);
    return st;
}

/* --- from several nodes ----------------------------------------------------------------------- */

static status nodes_open(void *options_pointer, struct session *session, struct eval_feeds *feeds)
{
    const struct export_options *o = options_pointer;
    enum model_export_format format = MODEL_EXPORT_SAFETENSORS;
    struct lean_options lean;
    (void)session;
    (void)feeds;
    if (o->purpose == NULL) return format_read(o, &format);
    TRY(lean_options_read(o, &lean));
    return output_check(o);
}

/* Called on node 0. */
static status sorted_export(struct sorted_nodes *rows, const struct model *model, const struct export_options *o)
{
    struct lean_options lean;
    struct lean_written written;
    enum model_export_format format = MODEL_EXPORT_SAFETENSORS;
    struct model_exported done;
    const struct figure none = {0};
    if (o->purpose == NULL) {
        TRY(format_read(o, &format));
        TRY(model_export_sorted(model, &rows->sorted, o->output, format, &done));
        exported_tell(o, &done);
    } else {
        TRY(lean_options_read(o, &lean));
        TRY(lean_write_sorted(model, &rows->sorted, &lean, &written));
        lean_tell(&lean, &written, &none, &none);
    }
    return sorted_nodes_end(rows);
}

static status nodes_run(void *options, struct session *session, struct eval_feeds *feeds)
{
    struct reduce *reduce = session->crew.nodes;
    const struct model *model = &session->setup.model;
    (void)feeds;
    if (reduce_rank(reduce) != 0) return sorted_serve(reduce, model);
    struct sorted_nodes *rows = malloc(sizeof *rows);
    if (rows == NULL) FAIL(MEMORY, "no memory to merge rows");
    status st = sorted_nodes_open(rows, reduce, model);
    if (st == ST_OK) st = sorted_export(rows, model, options);
    sorted_nodes_close(rows);
    free(rows);
    return st;
}

static void nodes_close(void *options) { (void)options; }

static status nodes_export(const char *graph, const struct export_options *o)
{
    struct export_options options = *o;
    const struct train_use use = {
        .context = &options, .verb = "export", .open = nodes_open, .run = nodes_run, .close = nodes_close};
    if (o->eval) FAIL(USAGE, "--eval measures on one node: leave it out, and measure the file by `heterps-run eval`");
    if (o->format && strcmp(o->format, "onnx") == 0)
        FAIL(USAGE, "--format onnx: a net has at most 2 GB, which one node holds: export it from one node");
    return run_use(graph, &(struct run_options){.resume = o->model,
                                                .again = o->again,
                                                .use = &use,
                                                .nodes = o->nodes,
                                                .trace = o->shown.trace,
                                                .metrics = o->shown.metrics,
                                                .token_file = o->shown.token_file,
                                                .set = o->set});
}

static status run(const char *const *positionals, const void *options_pointer)
{
    const struct export_options *o = options_pointer;
    struct setup setup;
    struct node_place place;
    TRY(run_place_find(&place, &(struct run_options){.nodes = o->nodes, .metrics = o->shown.metrics}));
    if (o->purpose == NULL && (o->store || o->eval || !isnan(o->score)))
        FAIL(USAGE, "--store, --score and --eval need --for serving");
    if (place.count > 0) return nodes_export(positionals[0], o);
    TRY(run_shown_check(&o->shown));
    if (o->purpose) return export_lean(positionals[0], o);
    if (o->format && strcmp(o->format, "onnx") == 0) return export_onnx(positionals[0], o);
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
    .defaults = &defaults,
    .run = run,
    .help = "Writes dense.safetensors (the parameters by name) and, for each table, TABLE.safetensors: "
            "\"keys\" (U64, ascending) and\n"
            "\"vectors\" (F32, one a key); with --format npy NAME.npy of each parameter, "
            "TABLE.keys.npy and TABLE.vectors.npy. Equal values give equal bytes.\n"
            "`heterps-run import` reads both.\n\n"
            "With --for serving -o is one file: the graph, parameters, and of each row key and vector, for\n"
            "    heterps-run serve FILE --listen ADDR:PORT        heterps-run predict FILE --data NEW\n"
            "A row that is left out, or was never there, reads as its table's `unseen` says.\n\n"
            "With --format onnx -o is one file, too. Its inputs are the columns. "
            "Numbers are as in the data, NaN where absent.\n"
            "Fields have keys as int64 [examples, ids_max], 0 where absent, and NAME.value if keys have values; "
            "a key is its text's xxh3_64,\n"
            "with the seed that the file notes under heterps.seed.NAME. "
            "Its outputs are the losses, as `predict` writes them."};
