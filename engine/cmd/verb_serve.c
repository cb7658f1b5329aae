/* heterps-run serve: predictions of saved models over HTTP. */
#include "engine/serve/serve.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/heap.h"
#include "engine/cmd/saved.h"

struct serve_flags {
    const char *listen, *token_file, *isa;
    bool insecure, learn;
    uint32_t connections, idle_s, patience_s, threads, learn_threads;
    struct flag_list model, set;
};
static const struct flag flags[] = {
    {.name = "--model",
     .type = FLAG_LIST,
     .value = "DIR",
     .meaning = "the saved model, or an older save of it, DIR/manifest.STEP.json; default: that of GRAPH, if it has "
                "one; without GRAPH one or several NAME=GRAPH:DIR, or NAME=FILE of a graph that has its model",
     .offset = offsetof(struct serve_flags, model)},
    {.name = "--listen",
     .type = FLAG_TEXT,
     .value = "ADDR:PORT",
     .meaning = "where to listen, in numbers; port 0: a free one, which is printed",
     .offset = offsetof(struct serve_flags, listen),
     .is_required = true},
    {.name = "--token-file",
     .type = FLAG_TEXT,
     .value = "FILE",
     .meaning = "tokens, one a line: only clients that send one may ask",
     .offset = offsetof(struct serve_flags, token_file)},
    {.name = "--insecure",
     .type = FLAG_SWITCH,
     .meaning = "let everybody who reaches the address ask, from other machines, too",
     .offset = offsetof(struct serve_flags, insecure)},
    {.name = "--connections",
     .type = FLAG_U32,
     .value = "N",
     .meaning = "most connections open at once; default: 16384, or as many as descriptors allow",
     .offset = offsetof(struct serve_flags, connections),
     .min = 1,
     .max = 1e6},
    {.name = "--idle",
     .type = FLAG_U32,
     .value = "SECONDS",
     .meaning = "close a connection that has no request for this time; default: 60",
     .offset = offsetof(struct serve_flags, idle_s),
     .min = 1,
     .max = 86400},
    {.name = "--patience",
     .type = FLAG_U32,
     .value = "SECONDS",
     .meaning = "time that a client may take to send a request once it has begun, and to read an answer; "
                "the server's end waits as long; default: 30",
     .offset = offsetof(struct serve_flags, patience_s),
     .min = 1,
     .max = 86400},
    {.name = "--learn",
     .type = FLAG_SWITCH,
     .meaning = "learn from labelled lines that are sent to /learn, and save into DIR every serve.publish steps",
     .offset = offsetof(struct serve_flags, learn)},
    {.name = "--learn-threads",
     .type = FLAG_U32,
     .value = "N",
     .meaning = "computing threads that learn; default: half of the processors",
     .offset = offsetof(struct serve_flags, learn_threads),
     .min = 1,
     .max = 1024},
    {.name = "--threads",
     .type = FLAG_U32,
     .value = "N",
     .meaning = "computing threads of each model; never changes the result",
     .offset = offsetof(struct serve_flags, threads),
     .min = 1,
     .max = 1024},
    {.name = "--isa",
     .type = FLAG_TEXT,
     .value = "NAME",
     .meaning = "instruction set: base, avx2, avx512, avx512bf16, amx; default: the best here",
     .offset = offsetof(struct serve_flags, isa)},
    {.name = "--set",
     .type = FLAG_LIST,
     .value = "SECTION.KEY=VALUE",
     .meaning = "override a setting of the graphs; may be repeated",
     .offset = offsetof(struct serve_flags, set)},
};
static const struct serve_flags defaults = {.idle_s = 60, .patience_s = 30};

/* Parses "NAME=GRAPH:DIR", or "NAME=FILE" with a graph that has its model, into a copy that is cut up. The
 * graph's path ends at the first colon. */
static status model_parse(const char *text, char **copy, struct serve_model *model)
{
    TRY(heap_text(copy, "%s", text));
    char *equals = strchr(*copy, '='), *colon = equals ? strchr(equals, ':') : NULL;
    const size_t name_bytes = equals ? (size_t)(equals - *copy) : 0;
    const bool is_file = equals && colon == NULL && equals[1];
    bool is_whole = is_file || (colon && colon > equals + 1 && colon[1]);
    is_whole = is_whole && name_bytes > 0 &&
               strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == name_bytes;
    if (!is_whole)
        FAIL(USAGE,
             "--model: expected NAME=GRAPH:DIR, where NAME has letters, digits, '-', '_' and '.', found \"%s\"; "
             "or give the graph before it, and --model DIR",
             text);
    *equals = 0;
    if (colon) *colon = 0;
    *model = (struct serve_model){.name = *copy, .graph = equals + 1, .model = colon ? colon + 1 : equals + 1};
    if (is_file) TRY(saved_model(model->graph, NULL, &model->model));
    return ST_OK;
}

/* The model of a single graph. */
static status model_alone(const char *graph, const struct flag_list *list, struct serve_model *model)
{
    if (list->count > 1) FAIL(USAGE, "--model is given twice; give each of several models as NAME=GRAPH:DIR");
    *model = (struct serve_model){.name = "model", .graph = graph};
    return saved_model(graph, list->count ? list->item[0] : NULL, &model->model);
}

static status models_parse(const char *graph, const struct flag_list *list, char **copies, struct serve_model *models)
{
    if (graph) return model_alone(graph, list, &models[0]);
    if (list->count > SERVE_MODELS_MAX) FAIL(USAGE, "--model: expected at most %u models", SERVE_MODELS_MAX);
    if (list->count == 0) FAIL(USAGE, "--model is needed: GRAPH --model DIR, or several NAME=GRAPH:DIR");
    for (uint32_t i = 0; i < list->count; i++) {
        TRY(model_parse(list->item[i], &copies[i], &models[i]));
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(models[k].name, models[i].name) == 0)
                FAIL(USAGE, "--model: two models are called %s", models[i].name);
    }
    return ST_OK;
}

static status run(const char *const *positionals, const void *options)
{
    const struct serve_flags *f = options;
    char *copies[SERVE_MODELS_MAX] = {0};
    struct serve_model models[SERVE_MODELS_MAX];
    if (f->learn_threads > 0 && !f->learn) FAIL(USAGE, "--learn-threads is for --learn: give --learn, too");
    status st = models_parse(positionals[0], &f->model, copies, models);
    if (st == ST_OK)
        st = serve_run(&(struct serve_options){.listen = f->listen,
                                               .models = models,
                                               .model_count = positionals[0] ? 1 : f->model.count,
                                               .token_file = f->token_file,
                                               .insecure = f->insecure,
                                               .connections = f->connections,
                                               .idle_s = f->idle_s,
                                               .patience_s = f->patience_s,
                                               .set = f->set.item,
                                               .set_count = f->set.count,
                                               .threads = f->threads,
                                               .learn = f->learn,
                                               .learn_threads = f->learn_threads,
                                               .isa = f->isa});
    for (uint32_t i = 0; i < SERVE_MODELS_MAX; i++) free(copies[i]);
    return st;
}

const struct command command_serve = {
    .name = "serve",
    .positionals = "[GRAPH]",
    .opens_positionals = true,
    .summary = "answer requests over HTTP with a saved model's predictions",
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(struct serve_flags),
    .defaults = &defaults,
    .run = run,
    .help =
        "POST /predict     lines of the data's format, as a file has them; "
        "the answer is what `predict` writes of that\n"
        "                  file, with nan in place for malformed lines, the first of which Heterps-Bad-Line names:\n"
        "                      curl --data-binary @new.tsv http://127.0.0.1:8080/predict\n"
        "                  /predict/NAME asks the model of that name, as NAME does below\n"
        "/v2/…             the Open Inference Protocol, version 2, with tensors in JSON or binary\n"
        "POST /v2/models/NAME/top?k=20\n"
        "                  of a model that predicts words: the k best of the vocabulary for each line\n"
        "GET /version      the version that answers, and older saves; /version/NAME\n"
        "POST /version     another version: a save's step, which is held, or newest\n"
        "POST /learn       with --learn: labelled lines of the data's format; "
        "the answer has a line an example, its sequence\n"
        "                  number, or nan of a malformed line. /learn/NAME; "
        "?after=N: refused (409) unless N is the last number\n"
        "POST /predict?id=ID, then POST /learn?id=ID: labels, a line each, for the lines of that request\n"
        "GET /learn/position   the last sequence number that is saved: "
        "a client that repeats from there loses and doubles nothing\n"
        "GET /             a page with the model, a form of its columns, and figures; /page/NAME\n"
        "GET /metrics      figures in Prometheus's text format\n"
        "GET /healthz      200 as long as the process works\n"
        "GET /readyz       200, or 503 when the server is ending\n\n"
        "Requests of all connections are computed together, as micro-batches: "
        "one goes when it is full, when its oldest\n"
        "request has waited for serve.wait, or when every open connection has a request that waits. "
        "Where too much waits\n"
        "the answer is 503 with Retry-After. A new save in DIR takes the place of the one that answers, "
        "and no request is\n"
        "lost. At SIGTERM or SIGINT serve takes no further connections, answers the requests that have come, and ends.",
};
