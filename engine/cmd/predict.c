/* heterps-run predict: one probability a line, in the order of the input. */
#include <stdio.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/fmath.h"
#include "engine/base/log.h"
#include "engine/cmd/command.h"
#include "engine/evaluate.h"
#include "engine/stop.h"

struct predict_options {
    const char *model, *data, *output, *isa;
    uint32_t threads;
    struct flag_list set;
};
static const struct flag flags[] = {
    {"--model", FLAG_TEXT, "DIR", "the saved model; DIR/manifest.STEP.json: an older save of it",
     offsetof(struct predict_options, model), 0, 0, true},
    {"--data", FLAG_TEXT, "FILE",
     "data, the label may be absent: files separated by commas, .gz or not; - is standard input",
     offsetof(struct predict_options, data), 0, 0, true},
    {"-o", FLAG_TEXT, "FILE", "where to write; default, and -: standard output",
     offsetof(struct predict_options, output), 0, 0, false},
    {"--threads", FLAG_U32, "N", "computing threads; never changes the result",
     offsetof(struct predict_options, threads), 1, 1024, false},
    {"--isa", FLAG_TEXT, "NAME", "instruction set: base, avx2, avx512; default: the best here",
     offsetof(struct predict_options, isa), 0, 0, false},
    {"--set", FLAG_LIST, "SECTION.KEY=VALUE", "override a setting of the graph; may be repeated",
     offsetof(struct predict_options, set), 0, 0, false},
};

struct predictions {
    const struct graph *graph;
    struct file_writer *writer;
};
static status sink(void *context, const struct slot *slot)
{
    const struct predictions *p = context;
    struct file_writer *writer = p->writer;
    const struct micro_batch *m = &slot->batch;
    const struct graph_node *n = &p->graph->nodes[graph_loss_next(p->graph, 0)];
    struct view logit = slot->tensor[p->graph->args[n->arg_begin]];
    for (uint32_t b = 0; b < m->example_count; b++) {
        char line[40];
        int bytes = m->is_bad[b] ? snprintf(line, sizeof line, "nan\n")
                                 : snprintf(line, sizeof line, "%.9g\n",
                                            fmath_sigmoid((double)logit.data[(size_t)b * logit.stride]));
        TRY(file_writer_put(writer, line, (size_t)bytes));
    }
    return ST_OK;
}

static status predict(struct session *s, const struct predict_options *o)
{
    const char *output = o->output ? o->output : "-";
    if (log_format() == LOG_JSON && (strcmp(output, "-") == 0 || strcmp(output, "/dev/stdout") == 0))
        FAIL(USAGE, "predict: --log json and the predictions both write to standard output; give -o FILE");
    struct feed *feed = NULL;
    struct file_writer writer = {0};
    TRY(evaluate_open(s, o->data, READER_ALL, true, true, &feed));
    status st = session_memory_check(s);
    if (st == ST_OK) st = model_load(&s->model, o->model);
    stop_listen(feed_wake, feed);
    if (st == ST_OK) st = file_writer_open(&writer, output);
    if (st == ST_OK) st = evaluate_run(s, feed, sink, &(struct predictions){&s->graph, &writer});
    if (st == ST_OK) st = file_writer_commit(&writer);
    stop_listen(NULL, NULL);
    file_writer_abort(&writer);
    struct feed_counts counts = feed_counts(feed);
    feed_close(feed);
    if (st == ST_OK && counts.bad_count)
        log_warning("%llu malformed lines: their predictions are nan", (unsigned long long)counts.bad_count);
    return st;
}

static status run(const char *const *positionals, const void *options_pointer)
{
    const struct predict_options *o = options_pointer;
    struct session session;
    TRY(session_open(&session, &(struct session_options){.graph_path = positionals[0],
                                                         .set = o->set.item,
                                                         .set_count = o->set.count,
                                                         .threads = o->threads,
                                                         .isa = o->isa}));
    status st = predict(&session, o);
    session_close(&session);
    return st;
}

const struct command command_predict = {
    .name = "predict",
    .positionals = "GRAPH",
    .summary = "predict with a saved model: one probability a line",
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(struct predict_options),
    .run = run,
    .help = "With --set data.bad_lines=skip a malformed line gives `nan`, so that lines still align."};
