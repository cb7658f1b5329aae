/* heterps-run eval: measures a saved model on a data set. */
#include "engine/cmd/command.h"
#include "engine/evaluate.h"
#include "engine/stop.h"

struct eval_options {
    const char *model, *data, *isa;
    uint32_t threads;
    bool held_out;
    struct flag_list set;
};
static const struct flag flags[] = {
    {"--model", FLAG_TEXT, "DIR", "the saved model; DIR/manifest.STEP.json: an older save of it",
     offsetof(struct eval_options, model), 0, 0, true},
    {"--data", FLAG_TEXT, "FILE", "labelled data: files separated by commas, .gz or not; - is standard input",
     offsetof(struct eval_options, data), 0, 0, true},
    {"--held-out", FLAG_SWITCH, NULL, "only of the lines that data.eval_fraction holds out of training",
     offsetof(struct eval_options, held_out), 0, 0, false},
    {"--threads", FLAG_U32, "N", "computing threads; never changes the result", offsetof(struct eval_options, threads),
     1, 1024, false},
    {"--isa", FLAG_TEXT, "NAME", "instruction set: base, avx2, avx512, avx512bf16; default: the best here",
     offsetof(struct eval_options, isa), 0, 0, false},
    {"--set", FLAG_LIST, "SECTION.KEY=VALUE", "override a setting of the graph; may be repeated",
     offsetof(struct eval_options, set), 0, 0, false},
};

static status eval(struct session *s, const struct eval_options *o)
{
    struct feed *feed = NULL;
    if (o->held_out && s->settings.data_eval_fraction == 0)
        FAIL(USAGE, "--held-out: no line is held out, for data.eval_fraction is 0; leave one or set the other");
    TRY(evaluate_open(
        s, &(struct evaluate_options){.paths = o->data, .lines = o->held_out ? READER_HELD_OUT : READER_ALL}, &feed));
    struct heads heads = {0};
    status st = heads_open(&heads, &s->graph);
    if (st == ST_OK) st = heads_rank(&heads, s);
    if (st == ST_OK) st = session_memory_check(s);
    if (st == ST_OK) st = model_load(&s->model, o->model);
    stop_listen(feed_wake, feed);
    if (st == ST_OK) st = evaluate_measure(s, feed, &heads);
    stop_listen(NULL, NULL);
    heads_close(&heads);
    feed_close(feed);
    return st;
}

static status run(const char *const *positionals, const void *options_pointer)
{
    const struct eval_options *o = options_pointer;
    struct session session;
    TRY(session_open(&session, &(struct session_options){.graph_path = positionals[0],
                                                         .set = o->set.item,
                                                         .set_count = o->set.count,
                                                         .threads = o->threads,
                                                         .isa = o->isa}));
    status st = eval(&session, o);
    session_close(&session);
    return st;
}

const struct command command_eval = {
    .name = "eval",
    .positionals = "GRAPH",
    .summary = "measure a saved model: every loss by its kind (AUC, log loss, …), every metric",
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(struct eval_options),
    .uses_cards = true,
    .run = run};
