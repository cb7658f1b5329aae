/* heterps-run eval: measures a saved model on a data set. */
#include "engine/base/log.h"
#include "engine/cmd/saved.h"
#include "engine/eval/by_value.h"
#include "engine/eval/evaluate.h"
#include "engine/base/stop.h"

struct eval_options {
    struct saved_options saved; /* first */
    bool held_out, bins;
    const char *by;
    uint32_t by_max;
};
static const struct eval_options defaults = {.by_max = 20};
static const struct flag flags[] = {
    SAVED_FLAG_MODEL,
    {"--data", FLAG_READ, "FILE", "labelled data: files separated by commas, .gz, .zst or plain; - is standard input",
     offsetof(struct saved_options, data), 0, 0, true},
    {"--held-out", FLAG_SWITCH, NULL, "only of the lines that data.eval_fraction holds out of training",
     offsetof(struct eval_options, held_out), 0, 0, false},
    {"--bins", FLAG_SWITCH, NULL, "also print calibration by bins: ten of predicted probability",
     offsetof(struct eval_options, bins), 0, 0, false},
    {"--by", FLAG_TEXT, "COLUMN",
     "also measure by the values of a column of the data: of csv by its name, or label, I1..I13, C1..C26 of criteo",
     offsetof(struct eval_options, by), 0, 0, false},
    {"--by-max", FLAG_U32, "N",
     "of so many values, those with the most examples, and of all others together; default: 20",
     offsetof(struct eval_options, by_max), 1, 1000000, false},
    SAVED_FLAGS,
};

static status eval(struct crew *crew, const struct saved_options *options)
{
    struct setup *s = crew->setup;
    const struct eval_options *o = (const struct eval_options *)options;
    struct feed *feed = NULL;
    if (o->held_out && s->settings.data_eval_fraction == 0)
        FAIL(USAGE, "--held-out: no line is held out, for data.eval_fraction is 0; leave one or set the other");
    struct columns *columns = NULL;
    struct by_value *by = NULL;
    struct heads heads = {0};
    status st = heads_open(&heads, &s->graph);
    if (st == ST_OK && o->by) st = columns_open(&columns, s, o->by);
    if (st == ST_OK && columns && columns_count(columns) != 1)
        st = status_fail(ST_USAGE, __FILE__, __LINE__, "--by takes one column, found %u", columns_count(columns));
    if (st == ST_OK && o->by) st = by_value_open(&by, &s->graph, columns, o->by_max);
    if (st == ST_OK)
        st = evaluate_open(crew,
                           &(struct evaluate_options){.paths = o->saved.data,
                                                      .lines = o->held_out ? READER_HELD_OUT : READER_ALL,
                                                      .listener = columns ? columns_listener(columns) : NULL},
                           &feed);
    if (st == ST_OK) st = evaluate_reserve(crew, feed, &heads);
    if (st == ST_OK) st = setup_memory_check(s);
    if (st == ST_OK) st = model_load(&s->model, o->saved.model);
    if (st == ST_OK) stop_listen(feed_wake, feed);
    if (st == ST_OK) st = evaluate_measure_by(crew, feed, &heads, by);
    if (st == ST_OK && o->bins) evaluate_bins_tell(&heads);
    stop_listen(NULL, NULL);
    heads_close(&heads);
    by_value_close(by);
    feed_close(feed);
    if (!stop_requested()) columns_close(columns); /* else a thread that waits for a pipe may be left behind with it */
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
    .defaults = &defaults,
    .uses_cards = true,
    .run = run};
