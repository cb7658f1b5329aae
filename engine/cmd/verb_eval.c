/* heterps-run eval: measures a saved model on a data set. */
#include "engine/base/log.h"
#include "engine/base/stop.h"
#include "engine/cmd/run.h"
#include "engine/cmd/saved.h"
#include "engine/eval/by_value.h"
#include "engine/eval/eval_sets.h"
#include "engine/node/talk.h"

struct eval_options {
    struct saved_options saved; /* first */
    struct flag_list data;
    bool held_out, bins;
    const char *by;
    uint32_t by_max; /* 0: not given */
    struct run_nodes nodes;
    struct run_shown shown;
    bool again;
};
#define NONE   RUN_NONE
#define BY_MAX 20u /* values that --by prints, unless --by-max says how many */
static const struct eval_options defaults = {
    .nodes = {.rank = NONE, .key_fd = NONE, .listen_fd = NONE, .roster_fd = NONE}};
static const struct flag flags[] = {
    SAVED_FLAG_MODEL,
    {.name = "--data",
     .type = FLAG_SETS,
     .value = "FILE",
     .meaning = "labelled data: files separated by commas (in a name: \\,), .gz, .zst or plain; - is standard input; "
                "http://HOST/PATH is read from a server; given several times, as NAME=FILE: several sets",
     .offset = offsetof(struct eval_options, data),
     .is_required = true},
    {.name = "--held-out",
     .type = FLAG_SWITCH,
     .meaning = "measure only the lines that data.eval_fraction holds out of training",
     .offset = offsetof(struct eval_options, held_out)},
    {.name = "--bins",
     .type = FLAG_SWITCH,
     .meaning =
         "also print calibration by ten bins of predicted probability, and by tenths of the examples, sorted by it",
     .offset = offsetof(struct eval_options, bins)},
    {.name = "--by",
     .type = FLAG_TEXT,
     .value = "COLUMN",
     .meaning =
         "also measure by the values of a column of the data: of csv by its name, or label, I1..I13, C1..C26 of criteo",
     .offset = offsetof(struct eval_options, by)},
    {.name = "--by-max",
     .type = FLAG_U32,
     .value = "N",
     .meaning = "with --by: print the N values with the most examples, and all others together; default: 20",
     .offset = offsetof(struct eval_options, by_max),
     .min = 1,
     .max = 1000000},
    SAVED_FLAGS,
    RUN_NODES_FLAGS(struct eval_options, nodes, "measure on several nodes, each of which has a part of the tables",
                    "; with --metrics: whoever reaches the address may ask"),
    RUN_USE_FLAGS(struct eval_options, nodes, again, shown),
};

/* Measures a set for each value of a column. */
struct by {
    struct columns *columns;
    struct by_value *value;
};

static void by_close(struct by *by)
{
    by_value_close(by->value);
    /* After a signal a thread that waits for a pipe may still use the columns. */
    if (!stop_requested()) columns_close(by->columns);
    *by = (struct by){0};
}

/* Opens what --by needs, and adds it to the set's options; without --by does nothing.
 * USAGE, INVALID: the column. */
static status by_open(struct by *by, const struct setup *s, const struct eval_options *o, struct evaluate_options *set)
{
    if (o->by == NULL) return ST_OK;
    TRY(columns_open(&by->columns, s, "--by", o->by));
    if (columns_count(by->columns) != 1) FAIL(USAGE, "--by takes one column, found %u", columns_count(by->columns));
    set->listener = columns_listener(by->columns);
    return by_value_open(&by->value, &s->graph, by->columns, o->by_max > 0 ? o->by_max : BY_MAX);
}

/* Of several nodes only the first measures by values: it reads all examples. */
static bool has_by(const struct crew *crew) { return crew->nodes == NULL || reduce_rank(crew->nodes) == 0; }

static status set_measure(struct crew *crew, const struct eval_options *o, struct eval_feeds *feeds, uint32_t i,
                          struct heads *heads, struct by *by)
{
    if (feeds->sets.count > 1) { /* a single set is open already, and may be a stream */
        eval_feeds_shut(feeds);
        by_close(by);
        if (has_by(crew)) TRY(by_open(by, crew->setup, o, &feeds->options[i]));
    }
    TRY(eval_feeds_open(feeds, crew, i));
    if (crew->nodes == NULL) stop_listen(feed_wake, feeds->feed);
    status st = eval_feeds_measure(feeds, crew, heads, by->value);
    stop_listen(NULL, NULL);
    if (st == ST_OK && o->bins && has_by(crew)) evaluate_bins_tell(heads);
    return st;
}

/* Opens the feeds of all sets, and for the first one what --by needs. */
static status sets_open(struct crew *crew, const struct eval_options *o, struct eval_feeds *feeds, struct heads *heads,
                        struct by *by)
{
    const struct setup *s = crew->setup;
    if (o->held_out && s->settings.data_eval_fraction == 0)
        FAIL(USAGE, "--held-out: no line is held out, because data.eval_fraction is 0; "
                    "leave --held-out out, or give --set data.eval_fraction=F");
    for (uint32_t i = 0; i < feeds->sets.count; i++)
        feeds->options[i].lines = o->held_out ? READER_HELD_OUT : READER_ALL;
    TRY(heads_open(heads, &s->graph));
    if (has_by(crew)) TRY(by_open(by, s, o, &feeds->options[0]));
    return eval_feeds_reserve(feeds, crew, heads);
}

static status eval(struct crew *crew, const struct saved_options *options)
{
    struct setup *s = crew->setup;
    const struct eval_options *o = (const struct eval_options *)options;
    struct eval_sets sets;
    struct eval_feeds feeds;
    struct by by = {0};
    struct heads heads = {0};
    TRY(eval_sets_parse(&sets, "--data", o->data.item, o->data.count));
    eval_feeds_begin(&feeds, &sets);
    status st = sets_open(crew, o, &feeds, &heads, &by);
    if (st == ST_OK) st = setup_memory_check(s);
    if (st == ST_OK) st = model_load(&s->model, o->saved.model);
    for (uint32_t i = 0; i < sets.count && st == ST_OK; i++) st = set_measure(crew, o, &feeds, i, &heads, &by);
    heads_close(&heads);
    eval_feeds_close(&feeds);
    by_close(&by);
    return st;
}

/* --- on several nodes ------------------------------------------------------------------------- */

struct nodes_eval {
    const struct eval_options *options;
    struct heads heads;
    struct by by;
};

static status nodes_open(void *context, struct session *session, struct eval_feeds *feeds)
{
    struct nodes_eval *e = context;
    return sets_open(&session->crew, e->options, feeds, &e->heads, &e->by);
}

static status nodes_run(void *context, struct session *session, struct eval_feeds *feeds)
{
    struct nodes_eval *e = context;
    for (uint32_t i = 0; i < feeds->sets.count; i++)
        TRY(set_measure(&session->crew, e->options, feeds, i, &e->heads, &e->by));
    eval_feeds_shut(feeds); /* until then their threads pass lines to the columns */
    return ST_OK;
}

static void nodes_close(void *context)
{
    struct nodes_eval *e = context;
    heads_close(&e->heads);
    by_close(&e->by);
}

static status nodes_eval(const char *graph, const struct eval_options *o)
{
    struct nodes_eval e = {.options = o};
    const struct train_use use = {
        .context = &e, .verb = "eval", .prints = true, .open = nodes_open, .run = nodes_run, .close = nodes_close};
    if (o->data.count == 0) FAIL(USAGE, "no data to measure on: give --data FILE");
    return run_use(graph, &(struct run_options){.resume = o->saved.model,
                                                .isa = o->saved.isa,
                                                .threads = o->saved.threads,
                                                .again = o->again,
                                                .use = &use,
                                                .nodes = o->nodes,
                                                .trace = o->shown.trace,
                                                .metrics = o->shown.metrics,
                                                .token_file = o->shown.token_file,
                                                .eval = o->data,
                                                .set = o->saved.set});
}

static status run(const char *const *positionals, const void *options)
{
    struct eval_options o = *(const struct eval_options *)options;
    struct node_place place;
    if (o.by_max > 0 && o.by == NULL) FAIL(USAGE, "--by-max counts values of a column: give --by COLUMN, too");
    TRY(run_place_find(&place, &(struct run_options){.nodes = o.nodes, .metrics = o.shown.metrics}));
    if (place.count > 0) return nodes_eval(positionals[0], &o);
    TRY(run_shown_check(&o.shown));
    log_results_to_output();
    TRY(saved_model(positionals[0], o.saved.model, &o.saved.model));
    return saved_run(positionals[0], &o.saved, eval);
}

const struct command command_eval = {
    .name = "eval",
    .positionals = "GRAPH",
    .opens_positionals = true,
    .summary = "measure a saved model: every loss by its kind (AUC, log loss, …), every metric",
    .help = EVAL_SETS_HELP,
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(struct eval_options),
    .defaults = &defaults,
    .run = run};
