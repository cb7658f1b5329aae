/* heterps-run eval: measures a saved model on a data set. */
#include "engine/base/log.h"
#include "engine/cmd/saved.h"
#include "engine/eval/evaluate.h"
#include "engine/base/stop.h"

struct eval_options {
    struct saved_options saved; /* first */
    bool held_out, bins;
};
static const struct flag flags[] = {
    SAVED_FLAG_MODEL,
    {"--data", FLAG_READ, "FILE", "labelled data: files separated by commas, .gz, .zst or plain; - is standard input",
     offsetof(struct saved_options, data), 0, 0, true},
    {"--held-out", FLAG_SWITCH, NULL, "only of the lines that data.eval_fraction holds out of training",
     offsetof(struct eval_options, held_out), 0, 0, false},
    {"--bins", FLAG_SWITCH, NULL, "also print calibration by bins: ten of predicted probability",
     offsetof(struct eval_options, bins), 0, 0, false},
    SAVED_FLAGS,
};

static status eval(struct crew *crew, const struct saved_options *options)
{
    struct setup *s = crew->setup;
    const struct eval_options *o = (const struct eval_options *)options;
    struct feed *feed = NULL;
    if (o->held_out && s->settings.data_eval_fraction == 0)
        FAIL(USAGE, "--held-out: no line is held out, for data.eval_fraction is 0; leave one or set the other");
    TRY(evaluate_open(
        crew, &(struct evaluate_options){.paths = o->saved.data, .lines = o->held_out ? READER_HELD_OUT : READER_ALL},
        &feed));
    struct heads heads = {0};
    status st = heads_open(&heads, &s->graph);
    if (st == ST_OK) st = evaluate_reserve(crew, feed, &heads);
    if (st == ST_OK) st = setup_memory_check(s);
    if (st == ST_OK) st = model_load(&s->model, o->saved.model);
    stop_listen(feed_wake, feed);
    if (st == ST_OK) st = evaluate_measure(crew, feed, &heads);
    if (st == ST_OK && o->bins) evaluate_bins_tell(&heads);
    stop_listen(NULL, NULL);
    heads_close(&heads);
    feed_close(feed);
    return st;
}

static status run(const char *const *positionals, const void *options)
{
    log_results_to_output();
    return saved_run(positionals[0], options, eval);
}

const struct command command_eval = {
    .name = "eval",
    .positionals = "GRAPH",
    .opens_positionals = true,
    .summary = "measure a saved model: every loss by its kind (AUC, log loss, …), every metric",
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(struct eval_options),
    .uses_cards = true,
    .run = run};
