/* heterps-run predict: a line an example, in the order of the input, with a column for each loss. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/cmd/saved.h"
#include "engine/eval/columns.h"
#include "engine/eval/evaluate.h"
#include "engine/eval/prediction.h"
#include "engine/eval/rank.h"
#include "engine/base/stop.h"
#include "engine/base/words.h"

struct predict_options {
    struct saved_options saved; /* first */
    const char *data, *output, *with;
    bool header, nodes;
};
static const struct flag flags[] = {
    SAVED_FLAG_MODEL,
    {"--data", FLAG_READ, "FILE",
     "data, the label may be absent: files separated by commas, .gz, .zst or plain; - is standard input; "
     "http://HOST/PATH what a server has",
     offsetof(struct predict_options, data), 0, 0, true},
    {"-o", FLAG_WRITE, "FILE", "where to write; default, and -: standard output",
     offsetof(struct predict_options, output), 0, 0, false},
    {"--header", FLAG_SWITCH, NULL, "begin with a line that names the columns: the losses, and those of --with",
     offsetof(struct predict_options, header), 0, 0, false},
    {"--with", FLAG_TEXT, "COLUMNS",
     "columns of the data behind the predictions, as they are there: csv's names, or label, I1..I13, C1..C26 of criteo",
     offsetof(struct predict_options, with), 0, 0, false},
    {"--nodes", FLAG_SWITCH, NULL,
     "a line a node of a model whose loss is softmax_nodes: example and node, each from 0, the root last, and what is "
     "predicted",
     offsetof(struct predict_options, nodes), 0, 0, false},
    SAVED_FLAGS,
};

struct predictions {
    const struct graph *graph;
    struct file_writer *writer;
    struct rank *rank; /* words are predicted, or NULL */
    struct prediction prediction;
    char *line;     /* [prediction.line_bytes_max] */
    bool is_stream; /* somebody may wait for the answer before he writes on */
    bool of_nodes;
    uint64_t example;     /* of nodes: the next      */
    struct columns *with; /* of the data, or NULL     */
    struct column_text *texts;
};

/* A tab and the text of each column that is asked for, of the present example. */
static status texts_put(const struct predictions *p)
{
    for (uint32_t i = 0; p->with && i < columns_count(p->with); i++) {
        TRY(file_writer_put(p->writer, "\t", 1));
        TRY(file_writer_put(p->writer, p->texts[i].text, p->texts[i].bytes));
    }
    return ST_OK;
}

/* Of an example: a line a node, the columns behind each. */
static status nodes_put(struct predictions *p, const struct slot *slot, uint32_t b)
{
    const uint32_t count = prediction_node_count(&p->prediction, slot, b);
    char begin[64];
    if (p->with) TRY(columns_next(p->with, p->texts));
    for (uint32_t i = 0; i < count; i++) {
        const int bytes = snprintf(begin, sizeof begin, "%" PRIu64 "\t%" PRIu32 "\t", p->example, i);
        TRY(file_writer_put(p->writer, begin, (size_t)bytes));
        TRY(file_writer_put(p->writer, p->line,
                            prediction_node_write(&p->prediction, slot, b, count - 1 - i, p->line)));
        TRY(texts_put(p));
        TRY(file_writer_put(p->writer, "\n", 1));
    }
    p->example++;
    return ST_OK;
}

static status sink(void *context, const struct slot *slot)
{
    struct predictions *p = context;
    if (p->rank) {
        TRY(rank_add(p->rank, slot));
        if (p->is_stream) TRY(rank_flush(p->rank));
        return p->is_stream ? file_writer_flush(p->writer) : ST_OK;
    }
    for (uint32_t b = 0; b < slot->input->batch.example_count; b++) {
        if (p->of_nodes) {
            TRY(nodes_put(p, slot, b));
            continue;
        }
        TRY(file_writer_put(p->writer, p->line, prediction_write(&p->prediction, slot, b, p->line)));
        if (p->with) TRY(columns_next(p->with, p->texts));
        TRY(texts_put(p));
        TRY(file_writer_put(p->writer, "\n", 1));
    }
    return p->is_stream ? file_writer_flush(p->writer) : ST_OK;
}

/* The names of the losses and columns. */
static status header_put(const struct predictions *p)
{
    const struct graph *g = p->graph;
    const char *before = p->of_nodes ? "example\tnode\t" : "";
    for (uint32_t i = graph_loss_next(g, 0); i < g->forward_count; i = graph_loss_next(g, i + 1), before = "\t") {
        const char *name = graph_string(g, g->nodes[i].name);
        TRY(file_writer_put(p->writer, before, strlen(before)));
        TRY(file_writer_put(p->writer, name, strlen(name)));
    }
    for (uint32_t i = 0; p->with && i < columns_count(p->with); i++) {
        const char *name = columns_name(p->with, i);
        TRY(file_writer_put(p->writer, "\t", 1));
        TRY(file_writer_put(p->writer, name, strlen(name)));
    }
    return file_writer_put(p->writer, "\n", 1);
}

static status words_take(void *writer, const char *line, size_t bytes) { return file_writer_put(writer, line, bytes); }

/* The best words of all, if they are predicted. */
static status rank_open_alone(struct crew *crew, struct file_writer *writer, struct rank **rank)
{
    const struct setup *s = crew->setup;
    const struct rank_lines lines = {writer, words_take, s->settings.eval_top};
    *rank = NULL;
    return prediction_is_words(&s->graph) ? rank_open(rank, crew, &lines) : ST_OK;
}

/* The columns that are asked for. */
static status with_open(struct predictions *p, const struct setup *s, const char *names)
{
    if (names == NULL) return ST_OK;
    if (prediction_is_words(p->graph))
        FAIL(USAGE, "--with: this model predicts words, a line a query, and not a line an example");
    TRY(columns_open(&p->with, s, names));
    p->texts = calloc(columns_count(p->with), sizeof *p->texts);
    if (p->texts == NULL) FAIL(MEMORY, "no memory for %u columns", columns_count(p->with));
    return ST_OK;
}

/* Room for a line. */
static status line_open(struct predictions *p)
{
    TRY(prediction_open(&p->prediction, p->graph));
    p->line = malloc(p->prediction.line_bytes_max);
    if (p->line == NULL) FAIL(MEMORY, "no memory for a line of %zu bytes", p->prediction.line_bytes_max);
    return ST_OK;
}

static status predictions_write(struct crew *crew, struct feed *feed, struct predictions *p)
{
    struct rank_result nothing;
    if (p->rank) TRY(rank_begin(p->rank));
    TRY(evaluate_run(crew, feed, sink, p));
    return p->rank ? rank_end(p->rank, &nothing) : ST_OK;
}

static status predict(struct crew *crew, const struct saved_options *options)
{
    struct setup *s = crew->setup;
    const struct predict_options *o = (const struct predict_options *)options;
    const char *output = o->output ? o->output : "-";
    if (log_format() == LOG_JSON && (strcmp(output, "-") == 0 || strcmp(output, "/dev/stdout") == 0))
        FAIL(USAGE, "predict: --log json and the predictions both write to standard output; give -o FILE");
    struct feed *feed = NULL;
    struct file_writer writer = {0};
    struct predictions predictions = {.graph = &s->graph, .writer = &writer, .of_nodes = o->nodes};
    if (o->nodes && !prediction_is_of_nodes(&s->graph))
        FAIL(USAGE, "--nodes: expected a model whose only loss is [loss] kind = softmax_nodes, found another");
    status st = with_open(&predictions, s, o->with);
    if (st == ST_OK)
        st = evaluate_open(
            crew,
            &(struct evaluate_options){.paths = o->data,
                                       .lines = READER_ALL,
                                       .label_optional = true,
                                       .bad_keep = true,
                                       .gives_early = true,
                                       .listener = predictions.with ? columns_listener(predictions.with) : NULL},
            &feed);
    if (st == ST_OK) predictions.is_stream = feed_is_stream(feed);
    if (st == ST_OK) st = rank_open_alone(crew, &writer, &predictions.rank);
    if (st == ST_OK) st = line_open(&predictions);
    if (st == ST_OK) st = setup_memory_check(s);
    if (st == ST_OK) st = model_manifest_note(o->saved.model);
    if (st == ST_OK) st = model_load(&s->model, o->saved.model);
    if (st == ST_OK) stop_listen(feed_wake, feed);
    if (st == ST_OK) st = file_writer_open(&writer, output);
    if (st == ST_OK && o->header) st = header_put(&predictions);
    if (st == ST_OK) st = predictions_write(crew, feed, &predictions);
    if (st == ST_OK) st = file_writer_commit(&writer);
    stop_listen(NULL, NULL);
    rank_close(predictions.rank);
    prediction_close(&predictions.prediction);
    free(predictions.line);
    file_writer_abort(&writer);
    struct feed_counts counts = feed ? feed_counts(feed) : (struct feed_counts){0};
    feed_close(feed);
    if (!stop_requested())
        columns_close(predictions.with); /* else a thread that waits for a pipe may be left behind with it */
    free(predictions.texts);
    if (st == ST_OK && counts.bad_count)
        log_warning("%s: nan is predicted there", words_plural(WORDS, counts.bad_count, "malformed line"));
    return st;
}

static status run(const char *const *positionals, const void *options)
{
    struct predict_options o = *(const struct predict_options *)options;
    TRY(saved_model(positionals[0], o.saved.model, &o.saved.model));
    return saved_run(positionals[0], &o.saved, predict);
}

const struct command command_predict = {
    .name = "predict",
    .positionals = "GRAPH",
    .opens_positionals = true,
    .summary = "predict with a saved model: a line an example, a column a loss",
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(struct predict_options),
    .uses_cards = true,
    .run = run,
    .help = "A loss of kind bce gives the probability of label 1, softmax that of class 1 of two classes, or of every "
            "class with spaces\n"
            "between them, squared its value, hinge the score of its first input, nce and sampled_softmax behind a "
            "match, and\n"
            "shared_softmax, alone in the model, the eval.top best words of the vocabulary with tabs between them, once for a user of pairs; "
            "else the logit "
            "of the target.\n"
            "Several losses are columns in the order of the model, with tabs between them.\n\n"
            "Of a pipe an example is answered when its line has come and no more is there.\n\n"
            "With --set data.bad_lines=skip a malformed line gives `nan`, so that lines still align."};
