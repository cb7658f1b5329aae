/* heterps-run predict: prints a line for each example, in the order of the input,
 * with a column for each loss. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/stop.h"
#include "engine/base/words.h"
#include "engine/cmd/run.h"
#include "engine/cmd/saved.h"
#include "engine/eval/columns.h"
#include "engine/eval/evaluate.h"
#include "engine/eval/gather.h"
#include "engine/eval/prediction.h"
#include "engine/eval/rank.h"

struct predict_options {
    struct saved_options saved; /* first */
    const char *data, *output, *with;
    bool header, tree_nodes, again;
    struct run_nodes nodes;
    struct run_shown shown;
};
#define NONE RUN_NONE
static const struct predict_options defaults = {
    .nodes = {.rank = NONE, .key_fd = NONE, .listen_fd = NONE, .roster_fd = NONE}};
static const struct flag flags[] = {
    SAVED_FLAG_MODEL,
    {.name = "--data",
     .type = FLAG_READ,
     .value = "FILE",
     .meaning = "data, the label may be absent: files separated by commas (in a name: \\,), .gz, .zst or plain; "
                "- is standard input; http://HOST/PATH is read from a server",
     .offset = offsetof(struct predict_options, data),
     .is_required = true},
    {.name = "-o",
     .type = FLAG_WRITE,
     .value = "FILE",
     .meaning = "where to write; default, and -: standard output; of several nodes node 0 writes",
     .offset = offsetof(struct predict_options, output)},
    {.name = "--header",
     .type = FLAG_SWITCH,
     .meaning = "begin with a line that names the columns: the losses, and those of --with",
     .offset = offsetof(struct predict_options, header)},
    {.name = "--with",
     .type = FLAG_TEXT,
     .value = "COLUMNS",
     .meaning = "columns of the data to write behind the predictions, as they are: "
                "csv's names; label, I1..I13, C1..C26 of criteo; label, features of libsvm, libfm and libffm, "
                "and qid of libsvm, F1, F2, … of libfm",
     .offset = offsetof(struct predict_options, with)},
    {.name = "--tree-nodes",
     .type = FLAG_SWITCH,
     .meaning = "for a model whose loss is softmax_nodes: a line for each node of a tree: "
                "example and node, each from 0, the root last, and the prediction",
     .offset = offsetof(struct predict_options, tree_nodes)},
    SAVED_FLAGS,
    RUN_NODES_FLAGS(struct predict_options, nodes, "predict on several nodes, each of which has a part of the tables",
                    "; with --metrics: whoever reaches the address may ask"),
    RUN_USE_FLAGS(struct predict_options, nodes, again, shown),
};

struct predictions {
    const struct predict_options *options;
    struct crew *crew;
    const struct graph *graph;
    struct feed *feed; /* NULL: a node without lanes */
    struct file_writer writer;
    struct rank *rank; /* where words are predicted, else NULL */
    struct prediction prediction;
    char *line;           /* [prediction.line_bytes_max] */
    bool is_stream;       /* the writer of the data may wait for an answer before it goes on */
    uint64_t example;     /* index in the data of the next example */
    struct columns *with; /* of the data, or NULL     */
    struct column_text *texts;
    /* of several nodes */
    struct gather gather;
    struct file_sink pieces;       /* on another node than 0: its lines, which go to node 0 */
    struct rank_query_shape query; /* or, where words are predicted, its queries */
    uint64_t step;                 /* on another node than 0: the step of what the writer has not passed on yet */
};

/* Writes a tab and the text of each column of --with, for the present example. */
static status texts_put(struct predictions *p)
{
    for (uint32_t i = 0; p->with && i < columns_count(p->with); i++) {
        TRY(file_writer_put(&p->writer, "\t", 1));
        TRY(columns_text_put(p->with, p->texts[i], &p->writer));
    }
    return ST_OK;
}

/* Writes a line for each node of an example's tree, with the columns behind it. */
static status tree_nodes_put(struct predictions *p, const struct slot *slot, uint32_t b)
{
    const uint32_t count = prediction_node_count(&p->prediction, slot, b);
    char begin[64];
    for (uint32_t i = 0; i < count; i++) {
        const int bytes = snprintf(begin, sizeof begin, "%" PRIu64 "\t%" PRIu32 "\t", p->example, i);
        TRY(file_writer_put(&p->writer, begin, (size_t)bytes));
        TRY(file_writer_put(&p->writer, p->line,
                            prediction_node_write(&p->prediction, slot, b, count - 1 - i, p->line)));
        TRY(texts_put(p));
        TRY(file_writer_put(&p->writer, "\n", 1));
    }
    return ST_OK;
}

/* Skips other nodes' examples up to `until`, whose texts this node has read, too. */
static status examples_pass(struct predictions *p, uint64_t until)
{
    for (; p->with && p->example < until; p->example++) TRY(columns_next(p->with, p->texts));
    p->example = until;
    return ST_OK;
}

static status lines_put(struct predictions *p, const struct slot *slot)
{
    for (uint32_t b = 0; b < slot->input->batch.example_count; b++, p->example++) {
        if (p->with) TRY(columns_next(p->with, p->texts));
        if (p->options->tree_nodes) {
            TRY(tree_nodes_put(p, slot, b));
            continue;
        }
        TRY(file_writer_put(&p->writer, p->line, prediction_write(&p->prediction, slot, b, p->line)));
        TRY(texts_put(p));
        TRY(file_writer_put(&p->writer, "\n", 1));
    }
    return ST_OK;
}

static status sink(void *context, const struct slot *slot)
{
    struct predictions *p = context;
    if (p->rank) {
        TRY(rank_add(p->rank, slot));
        if (p->is_stream) TRY(rank_flush(p->rank));
    } else {
        TRY(lines_put(p, slot));
    }
    return p->is_stream ? file_writer_flush(&p->writer) : ST_OK;
}

/* The names of the losses and columns. */
static status header_put(struct predictions *p)
{
    const struct graph *g = p->graph;
    const char *before = p->options->tree_nodes ? "example\tnode\t" : "";
    for (uint32_t i = graph_loss_next(g, 0); i < g->forward_count; i = graph_loss_next(g, i + 1), before = "\t") {
        const char *name = graph_string(g, g->nodes[i].name);
        TRY(file_writer_put(&p->writer, before, strlen(before)));
        TRY(file_writer_put(&p->writer, name, strlen(name)));
    }
    for (uint32_t i = 0; p->with && i < columns_count(p->with); i++) {
        const char *name = columns_name(p->with, i);
        TRY(file_writer_put(&p->writer, "\t", 1));
        TRY(columns_text_put(p->with, (struct column_text){name, strlen(name)}, &p->writer));
    }
    return file_writer_put(&p->writer, "\n", 1);
}

static status words_take(void *context, uint64_t example, const char *line, size_t bytes)
{
    struct predictions *p = context;
    if (p->with == NULL) return file_writer_put(&p->writer, line, bytes);
    TRY(examples_pass(p, example));
    TRY(columns_next(p->with, p->texts));
    p->example++;
    TRY(file_writer_put(&p->writer, line, bytes - 1));
    TRY(texts_put(p));
    return file_writer_put(&p->writer, "\n", 1);
}

/* Of several nodes the first one ranks words, and writes. */
static bool is_first(const struct crew *crew) { return crew->nodes == NULL || reduce_rank(crew->nodes) == 0; }

/* Opens the ranking of words, if words are predicted. */
static status rank_open_alone(struct predictions *p)
{
    const struct setup *s = p->crew->setup;
    const struct rank_lines lines = {p, words_take, s->settings.eval_top};
    if (!prediction_is_words(p->graph)) return ST_OK;
    p->query = rank_query_shape_lines(p->crew, rank_head(p->graph));
    if (p->crew->nodes && rank_query_bytes(&p->query) > GATHER_PIECE_BYTES)
        FAIL(INVALID, "a query of this model has more than %u bytes; predict on one node", GATHER_PIECE_BYTES);
    return is_first(p->crew) ? rank_open(&p->rank, p->crew, &lines) : ST_OK;
}

/* Opens the columns of --with: where words are predicted, on the node that writes. */
static status with_open(struct predictions *p)
{
    const char *names = p->options->with;
    if (names == NULL || (prediction_is_words(p->graph) && !is_first(p->crew))) return ST_OK;
    if (!columns_have_names(p->crew->setup))
        FAIL(USAGE,
             "--with takes columns of csv, criteo, libsvm, libfm and libffm; leave it out: lines come in the order %s, "
             "and `paste` puts these beside",
             prediction_is_words(p->graph) && graph_example(p->graph).has_group
                 ? "in which the data first names each user"
                 : "of the data's examples");
    TRY(columns_open(&p->with, p->crew->setup, "--with", names));
    p->texts = calloc(columns_count(p->with), sizeof *p->texts);
    if (p->texts == NULL) FAIL(MEMORY, "no memory for %u columns", columns_count(p->with));
    return ST_OK;
}

static status feed_take(struct predictions *p)
{
    if (!exchange_computes(p->crew->options.exchange)) return ST_OK;
    TRY(evaluate_open(p->crew,
                      &(struct evaluate_options){.paths = p->options->data,
                                                 .lines = READER_ALL,
                                                 .label_optional = true,
                                                 .bad_keep = true,
                                                 .gives_early = p->crew->nodes == NULL,
                                                 .listener = p->with ? columns_listener(p->with) : NULL},
                      &p->feed));
    p->is_stream = feed_is_stream(p->feed);
    return ST_OK;
}

/* The memory is zero, except for the options. */
static status predictions_open(struct predictions *p, struct crew *crew)
{
    const struct predict_options *o = p->options;
    const char *output = o->output ? o->output : "-";
    p->crew = crew;
    p->graph = &crew->setup->graph;
    if (log_format() == LOG_JSON && (strcmp(output, "-") == 0 || strcmp(output, "/dev/stdout") == 0))
        FAIL(USAGE, "predict: --log json and the predictions both write to standard output; give -o FILE");
    if (o->tree_nodes && !prediction_is_of_nodes(p->graph))
        FAIL(USAGE, "--tree-nodes: expected a model whose only loss is [loss] kind = softmax_nodes, found another");
    TRY(with_open(p));
    TRY(feed_take(p));
    TRY(rank_open_alone(p));
    TRY(prediction_open(&p->prediction, p->graph));
    p->line = malloc(p->prediction.line_bytes_max);
    if (p->line == NULL) FAIL(MEMORY, "no memory for a line of %zu bytes", p->prediction.line_bytes_max);
    return ST_OK;
}

static void predictions_close(struct predictions *p)
{
    rank_close(p->rank);
    prediction_close(&p->prediction);
    free(p->line);
    file_writer_abort(&p->writer);
    feed_close(p->feed);
    if (!stop_requested()) columns_close(p->with); /* after a signal a thread that waits for a pipe may still use it */
    free(p->texts);
}

/* Begins the file, with the lines before all others; the file is whole when predictions_commit returns. */
static status predictions_begin(struct predictions *p)
{
    const char *output = p->options->output ? p->options->output : "-";
    TRY(file_writer_open(&p->writer, output));
    if (p->options->header) TRY(header_put(p));
    return p->rank ? rank_begin(p->rank) : ST_OK;
}

static status predictions_commit(struct predictions *p)
{
    struct rank_result nothing;
    if (p->rank) TRY(rank_end(p->rank, &nothing));
    return file_writer_commit(&p->writer);
}

static void bad_tell(const struct predictions *p)
{
    const uint64_t bad_count = p->feed ? feed_counts(p->feed).bad_count : 0;
    if (bad_count) log_warning("%s: predicted as nan", words_plural(WORDS, bad_count, "malformed line"));
}

static status predict(struct crew *crew, const struct saved_options *options)
{
    struct setup *s = crew->setup;
    struct predictions p = {.options = (const struct predict_options *)options};
    status st = predictions_open(&p, crew);
    if (st == ST_OK) st = setup_memory_check(s);
    if (st == ST_OK) st = model_manifest_note(options->model);
    if (st == ST_OK) st = model_load(&s->model, options->model);
    if (st == ST_OK) stop_listen(feed_wake, p.feed);
    if (st == ST_OK) st = predictions_begin(&p);
    if (st == ST_OK) st = evaluate_run(crew, p.feed, sink, &p);
    if (st == ST_OK) st = predictions_commit(&p);
    stop_listen(NULL, NULL);
    if (st == ST_OK) bad_tell(&p);
    predictions_close(&p);
    return st;
}

/* --- on several nodes ------------------------------------------------------------------------- */

/* Each node predicts the examples of its lanes, and node 0 writes all lines in the order of the data. Where
 * words are predicted, node 0 gets queries in place of lines, and finds the best words. */

static status pieces_open(struct file_sink *sink, const char *name)
{
    (void)sink;
    (void)name;
    return ST_OK;
}

static status pieces_put(struct file_sink *sink, const void *data, size_t bytes)
{
    struct predictions *p = (struct predictions *)(void *)((char *)sink - offsetof(struct predictions, pieces));
    const uint8_t *from = data;
    while (bytes > 0) {
        uint8_t *at;
        uint32_t room;
        TRY(gather_place(&p->gather, p->step, 1, &at, &room));
        const uint32_t count = bytes < room ? (uint32_t)bytes : room;
        memcpy(at, from, count);
        gather_put(&p->gather, count);
        from += count;
        bytes -= count;
    }
    return ST_OK;
}

static status pieces_close(struct file_sink *sink)
{
    (void)sink;
    return ST_OK;
}

/* On node 0: takes lines or queries of another node. */
static status piece_take(void *context, const void *piece, uint32_t bytes)
{
    struct predictions *p = context;
    const size_t query_bytes = p->rank ? rank_query_bytes(&p->query) : 0;
    if (p->rank == NULL) return file_writer_put(&p->writer, piece, bytes);
    if (bytes != query_bytes)
        FAIL(INVALID, "a node has sent bytes that are no query: not all nodes run the same program");
    return rank_query_add(p->rank, piece);
}

static status queries_say(struct predictions *p, const struct slot *slot)
{
    const uint32_t bytes = (uint32_t)rank_query_bytes(&p->query);
    uint32_t room;
    for (uint32_t e = 0; e < slot->input->batch.example_count; e++) {
        uint8_t *at;
        TRY(gather_place(&p->gather, p->step, bytes, &at, &room));
        rank_query_write(&p->query, slot, e, at);
        gather_put(&p->gather, bytes);
    }
    return ST_OK;
}

/* Sends what has been written of a step. */
static status step_say(struct predictions *p)
{
    TRY(file_writer_flush(&p->writer));
    gather_step_end(&p->gather, p->step);
    return ST_OK;
}

static status nodes_sink(void *context, const struct slot *slot)
{
    struct predictions *p = context;
    const struct micro_batch *m = &slot->input->batch;
    const struct batch_shape shape = graph_batch(p->graph);
    if (!prediction_is_words(p->graph))
        TRY(examples_pass(p, m->step * shape.batch + (uint64_t)m->micro_index * shape.micro));
    if (is_first(p->crew)) {
        TRY(gather_until(&p->gather, m->step));
        return sink(p, slot);
    }
    if (m->step != p->step) TRY(step_say(p));
    p->step = m->step;
    TRY(prediction_is_words(p->graph) ? queries_say(p, slot) : lines_put(p, slot));
    return m->is_last ? step_say(p) : ST_OK;
}

static status nodes_open(void *context, struct session *session, struct eval_feeds *feeds)
{
    struct predictions *p = context;
    (void)feeds;
    TRY(predictions_open(p, &session->crew));
    const char *output = p->options->output ? p->options->output : "-";
    if (p->options->again && is_first(p->crew) && strcmp(output, "-") == 0)
        FAIL(INVALID, "a node was lost, and lines that have gone to standard output cannot be taken back: "
                      "give -o FILE, which is written anew, or begin again");
    return ST_OK;
}

static status nodes_run(void *context, struct session *session, struct eval_feeds *feeds)
{
    struct predictions *p = context;
    struct crew *crew = &session->crew;
    (void)feeds;
    p->pieces = (struct file_sink){pieces_open, pieces_put, pieces_close};
    gather_begin(&p->gather, crew->nodes, piece_take, p);
    status st = is_first(crew) ? predictions_begin(p) : file_writer_open_sink(&p->writer, "predictions", &p->pieces);
    if (st == ST_OK && p->feed) st = evaluate_run(crew, p->feed, nodes_sink, p);
    if (st == ST_OK && !is_first(crew)) st = file_writer_flush(&p->writer);
    st = gather_end(&p->gather, st);
    if (is_first(crew) && st == ST_OK) st = predictions_commit(p);
    TRY(reduce_agree(crew->nodes, st));
    if (is_first(crew)) bad_tell(p);
    return ST_OK;
}

static void nodes_close(void *context) { predictions_close(context); }

static status nodes_predict(const char *graph, const struct predict_options *o)
{
    struct predictions p = {.options = o};
    const struct train_use use = {.context = &p,
                                  .verb = "predict",
                                  .needs_data = true,
                                  .open = nodes_open,
                                  .run = nodes_run,
                                  .close = nodes_close};
    return run_use(graph, &(struct run_options){.resume = o->saved.model,
                                                .data = o->data,
                                                .isa = o->saved.isa,
                                                .threads = o->saved.threads,
                                                .again = o->again,
                                                .use = &use,
                                                .nodes = o->nodes,
                                                .trace = o->shown.trace,
                                                .metrics = o->shown.metrics,
                                                .token_file = o->shown.token_file,
                                                .set = o->saved.set});
}

static status run(const char *const *positionals, const void *options)
{
    struct predict_options o = *(const struct predict_options *)options;
    struct node_place place;
    TRY(run_place_find(&place, &(struct run_options){.nodes = o.nodes, .metrics = o.shown.metrics}));
    if (place.count > 0) return nodes_predict(positionals[0], &o);
    TRY(run_shown_check(&o.shown));
    TRY(saved_model(positionals[0], o.saved.model, &o.saved.model));
    return saved_run(positionals[0], &o.saved, predict);
}

const struct command command_predict = {
    .name = "predict",
    .positionals = "GRAPH",
    .opens_positionals = true,
    .summary = "predict with a saved model: a line for each example, a column for each loss",
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(struct predict_options),
    .defaults = &defaults,
    .run = run,
    .help = "A loss of kind bce gives the probability of label 1, softmax that of class 1 of two classes, "
            "or of every class with spaces\n"
            "between them, squared its value, hinge the score of its first input, "
            "nce and sampled_softmax behind a match, and\n"
            "shared_softmax, alone in the model, the eval.top best words of the vocabulary with tabs between them, "
            "once for a user of pairs; else the logit of the target.\n"
            "Several losses are columns in the order of the model, with tabs between them.\n\n"
            "From a pipe an example is answered when its line has come and no other line waits.\n\n"
            "With --set data.bad_lines=skip a malformed line gives `nan`, so that lines still align."};
