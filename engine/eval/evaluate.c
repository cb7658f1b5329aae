/* The forward pass over a feed. */
#include "engine/eval/evaluate.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/paths.h"
#include "engine/base/stop.h"
#include "engine/base/trace.h"
#include "engine/base/words.h"
#include "engine/eval/by_value.h"
#include "engine/eval/eval_nodes.h"
#include "engine/eval/rank.h"

status evaluate_open(struct crew *c, const struct evaluate_options *o, struct feed **feed)
{
    const uint32_t head = rank_head(&c->setup->graph);
    if (head != GRAPH_NONE && c->options.exchange && c->options.exchange->stages)
        FAIL(INVALID,
             "%s: the model ranks words, of which node 0 computes the list alone, but the plan's stages lie on several "
             "nodes: give a plan without nodes, or train without evaluation data and measure the saved model by "
             "`heterps-run eval`",
             o->paths);
    struct feed_options options = crew_feed_options(c, o->paths);
    options.reader.lines = o->lines;
    options.reader.label_optional = o->label_optional;
    options.reader.bad_keep = o->bad_keep;
    options.reader.listener = o->listener;
    options.reader.texts = o->texts;
    if (head != GRAPH_NONE && !o->label_optional) {
        options.reader.unknown_keep = true;
        options.reader.words_field = rank_field(&c->setup->graph, head);
    }
    options.reader.gives_early = o->gives_early;
    TRY(crew_histories(c, &options.reader.histories));
    const bool needs_histories = crew_history(c) != GRAPH_NONE && !o->label_optional;
    options.reader.histories_alone = needs_histories;
    if (needs_histories && options.reader.histories == NULL)
        FAIL(INVALID,
             "%s: the model reads users' histories, and an evaluated line must not tell them: "
             "give the data that does by --set eval.exclude=TRAIN",
             o->paths);
    /* A cache would keep old histories when histories change. */
    if (options.reader.histories == NULL) {
        options.cache = o->cache;
        options.cache_kept = o->cache_kept;
    }
    TRY(feed_open(feed, &options));
    feed_bell_set(*feed, pipeline_feed_bell(c->pipeline));
    return ST_OK;
}

/* Looks at the list's next path; false at its end. *is_file: other code can open it, too. An address has no
 * size, and a hash of its shown text in place of a file's number. */
static bool path_next(const char **paths, struct stat *file, bool *is_file)
{
    char path[PATH_MAX];
    const char *name;
    size_t bytes;
    if (!paths_next(paths, &name, &bytes)) return false;
    *is_file = path_is_address(name, bytes);
    if (*is_file) {
        *file = (struct stat){.st_ino = XXH3_64bits(name, path_shown_bytes(name, bytes)), .st_size = -1};
        return true;
    }
    *is_file = stat(path_copy(path, name, bytes), file) == 0 && S_ISREG(file->st_mode);
    return true;
}

/* Whether the file is one of `paths`. */
static bool path_is_among(const struct stat *file, const char *paths)
{
    struct stat other;
    for (bool is_file; path_next(&paths, &other, &is_file);)
        if (is_file && file->st_dev == other.st_dev && file->st_ino == other.st_ino) return true;
    return false;
}

status evaluate_lines(const struct setup *s, const char *paths, const char *data, enum reader_part *lines)
{
    const char *at = paths;
    struct stat file;
    uint32_t count = 0, of_training = 0;
    *lines = READER_ALL;
    if (s->settings.data_eval_fraction == 0) return ST_OK;
    for (bool is_file; path_next(&at, &file, &is_file); count++) of_training += is_file && path_is_among(&file, data);
    if (of_training > 0 && of_training < count)
        FAIL(INVALID,
             "%s: %u of %u files are training data, of which the lines that data.eval_fraction = %g holds out are "
             "evaluated; the others are evaluated whole: give them as sets of their own, --eval A=FILE --eval B=FILE",
             paths, of_training, count, (double)s->settings.data_eval_fraction);
    if (of_training > 0) *lines = READER_HELD_OUT;
    return ST_OK;
}

/* Bytes of all paths; 0: not known. */
static double paths_bytes(const char *paths)
{
    struct stat file;
    bool is_file;
    double sum = 0;
    while (path_next(&paths, &file, &is_file)) {
        if (!is_file || file.st_size < 0) return 0;
        sum += (double)file.st_size;
    }
    return sum;
}

void evaluate_shares(const struct setup *s, const struct evaluate_options *o, uint32_t count, const char *data,
                     double *share)
{
    double held_out = s->settings.data_eval_fraction, train = paths_bytes(data) * (1 - held_out), eval = 0;
    bool is_known = train > 0;
    for (uint32_t i = 0; i < count; i++) {
        share[i] = paths_bytes(o[i].paths);
        if (o[i].lines == READER_HELD_OUT) share[i] *= held_out;
        is_known = is_known && share[i] > 0;
        eval += share[i];
    }
    for (uint32_t i = 0; i < count; i++) share[i] = is_known ? share[i] / (eval + train) : 0.1 / count;
}

/* A trace's rings would be full before a long evaluation ends. Only a thread that is traced drains them:
 * the one that trains, and none that serves. */
static bool go_on_tick(void *context)
{
    (void)context;
    if (trace_is_on()) trace_tell();
    return false;
}

static bool stop_tick(void *context) { return go_on_tick(context) || stop_requested(); }

status evaluate_run(struct crew *c, struct feed *feed, forward_sink *sink, void *context)
{
    TRY(feed_start(feed, NULL));
    /* On nodes that train, a signal waits: after this pass they all stop at a step on which they agree. */
    const bool heeds_stop = c->options.exchange == NULL || c->heeds_stop;
    return pipeline_forward(c->pipeline, feed, sink, heeds_stop ? stop_tick : go_on_tick, context);
}

/* Takes the results of an evaluation. */
struct measuring {
    struct heads *heads;
    struct by_value *by;
    struct eval_nodes *nodes; /* or NULL */
};

static status measure_sink(void *context, const struct slot *slot)
{
    struct measuring *m = context;
    if (m->nodes) return eval_nodes_add(m->nodes, slot);
    TRY(heads_add(m->heads, slot));
    return m->by ? by_value_add(m->by, slot, m->heads->rank) : ST_OK;
}

status evaluate_reserve(struct crew *c, const struct feed *feed, struct heads *heads)
{
    if (c->nodes && reduce_rank(c->nodes) != 0) return ST_OK; /* rank 0 has all terms */
    TRY(heads_rank(heads, c));
    uint64_t estimate = feed_example_estimate(feed);
    return heads_reserve(heads, estimate + estimate / 10);
}

char *evaluate_figures_text(const struct head *head, bool of_known, char *buffer, size_t bytes)
{
    buffer[0] = 0;
    for (uint32_t k = 0, end = 0; k < head->figure_count && end < bytes; k++) {
        if (head->figures[k].of_known != of_known) continue;
        if (isnan(head->values[k]) && k != head_main_figure(head)) continue;
        end += (uint32_t)snprintf(buffer + end, bytes - end, "%s%s %.*f", end ? ", " : "", head->figures[k].text,
                                  head->figures[k].digits, head->values[k]);
    }
    return buffer;
}

/* Text that says why AUC is missing: it needs examples of both labels. */
static const char *figures_missing(const struct head *head)
{
    bool is_missing = strcmp(head->figures[0].key, "auc") == 0 && isnan(head->values[0]);
    return is_missing && !isnan(head->values[head_main_figure(head)]) ? "; no AUC: all labels are the same" : "";
}

void evaluate_figures_event(const struct head *head)
{
    for (uint32_t k = 0; k < head->figure_count; k++) log_event_f64(head->figures[k].key, head->values[k]);
}

/* Tells how many targets are no words, and the figures without them. */
static void unknown_tell(const char *prefix, const struct heads *heads)
{
    char unknown[27], all[27], text[512];
    const struct rank_result *r = heads->ranking;
    if (r->unknown_count == 0) return;
    evaluate_figures_text(heads->ranked, true, text, sizeof text);
    log_result("eval     %s%s of %s targets are no words of the vocabulary, and count as not found%s%s", prefix,
               words_whole(unknown, r->unknown_count), words_whole(all, r->target_count),
               *text ? "; over the others: " : "", text);
}

static void ranking_tell(const char *prefix, const struct heads *heads)
{
    const struct rank_result *r = heads->ranking;
    for (uint32_t k = 0; k < r->cutoff_count; k++) {
        if (r->has_groups)
            log_result("eval     %sat %u: recall %.5f, hit rate %.5f, NDCG %.5f", prefix, r->cutoff[k], r->at[k].recall,
                       r->at[k].hit_rate, r->at[k].ndcg);
        else
            log_result("eval     %sat %u: hit rate %.5f", prefix, r->cutoff[k], r->at[k].hit_rate);
    }
    unknown_tell(prefix, heads);
}

static void ranking_event(const struct rank_result *r)
{
    log_event_u64("queries", r->query_count);
    log_event_u64("targets", r->target_count);
    log_event_u64("targets_unknown", r->unknown_count);
    log_event_open_array("cutoffs");
    for (uint32_t k = 0; k < r->cutoff_count; k++) {
        log_event_open(NULL);
        log_event_u64("k", r->cutoff[k]);
        if (r->has_groups) log_event_f64("recall", r->at[k].recall);
        log_event_f64("hit_rate", r->at[k].hit_rate);
        if (r->has_groups) log_event_f64("ndcg", r->at[k].ndcg);
        log_event_close();
    }
    log_event_close_array();
}

/* Calibration by bins, as an array of the event. */
static void bins_event(const struct head *head)
{
    if (!head_is_binary(head)) return;
    log_event_open_array("bins");
    for (uint32_t i = 0; i < METRICS_BINS; i++) {
        log_event_open(NULL);
        log_event_u64("samples", head->bins[i].example_count);
        log_event_f64("prediction", head->bins[i].prediction);
        log_event_f64("label", head->bins[i].label);
        log_event_close();
    }
    log_event_close_array();
    log_event_open_array("tenths");
    for (uint32_t i = 0; i < METRICS_BINS; i++) {
        const struct metrics_tenth *tenth = &head->tenths[i];
        if (tenth->means.example_count == 0) continue;
        log_event_open(NULL);
        log_event_u64("samples", tenth->means.example_count);
        log_event_f64("from", tenth->first);
        log_event_f64("to", tenth->last);
        log_event_f64("prediction", tenth->means.prediction);
        log_event_f64("label", tenth->means.label);
        log_event_close();
    }
    log_event_close_array();
}

/* The last two columns of a row; examples of weight 0 alone have no means. */
static const char *means_text(const struct metrics_bin *means, char *buffer, size_t bytes)
{
    if (means->weight > 0)
        snprintf(buffer, bytes, "%15.5f  %10.5f", means->prediction, means->label);
    else
        snprintf(buffer, bytes, "%15s  %10s", "-", "-");
    return buffer;
}

/* Calibration by tenths of the examples, as a table. */
static void tenths_tell(const struct head *head)
{
    log_result("tenths   %s: predicted          examples  mean prediction  mean label", head->name);
    for (uint32_t i = 0; i < METRICS_BINS; i++) {
        char count[27], means[64];
        const struct metrics_tenth *tenth = &head->tenths[i];
        if (tenth->means.example_count == 0) continue;
        log_result("tenths   %*s  %.5f to %.5f  %8s  %s", (int)strlen(head->name), "", tenth->first, tenth->last,
                   words_whole(count, tenth->means.example_count), means_text(&tenth->means, means, sizeof means));
    }
}

void evaluate_bins_tell(const struct heads *heads)
{
    for (uint32_t h = 0; h < heads->count; h++) {
        const struct head *head = &heads->items[h];
        if (!head_is_binary(head)) continue;
        log_result("bins     %s: predicted      examples  mean prediction  mean label", head->name);
        for (uint32_t i = 0; i < METRICS_BINS; i++) {
            char count[27], means[64];
            const struct metrics_bin *bin = &head->bins[i];
            if (bin->example_count == 0) continue;
            log_result("bins     %*s  %.1f to %.1f  %12s  %s", (int)strlen(head->name), "", i / 10.0, (i + 1) / 10.0,
                       words_whole(count, bin->example_count), means_text(bin, means, sizeof means));
        }
        tenths_tell(head);
    }
}

/* Logs the result; `set`: the set's name, or "". */
static void result_tell(const struct setup *s, const char *set, const struct heads *heads, uint64_t example_count,
                        struct feed_counts counts, double seconds)
{
    uint64_t step = s->model.progress.step;
    char count[27], text[512], prefix[80];
    const char *space = *set ? " " : "";
    snprintf(prefix, sizeof prefix, "%s%s", set, space);
    words_whole(count, example_count);
    for (uint32_t i = 0; i < heads->count; i++) {
        const struct head *head = &heads->items[i];
        log_result("eval     %sstep %" PRIu64 "%s%s: %s%s (%s examples, %.1f s)", prefix, step,
                   heads->count > 1 ? ", " : "", heads->count > 1 ? head->name : "",
                   evaluate_figures_text(head, false, text, sizeof text), figures_missing(head), count, seconds);
    }
    if (heads->rank) ranking_tell(prefix, heads);
    if (counts.bad_count)
        log_warning("skipped %s of the evaluation data%s%s", words_plural(WORDS, counts.bad_count, "malformed line"),
                    space, set);
    if (counts.unknown_count)
        log_warning("%" PRIu64 " examples of the evaluation data%s%s whose label or target is no word of its "
                    "vocabulary were left out",
                    counts.unknown_count, space, set);
    log_event_begin("eval");
    if (*set) log_event_text("set", set);
    log_event_u64("step", step);
    evaluate_figures_event(heads_main(heads));
    log_event_u64("samples", example_count);
    log_event_u64("bad_lines", counts.bad_count);
    log_event_u64("left_out", counts.unknown_count);
    if (heads->rank) ranking_event(heads->ranking);
    log_event_f64("seconds", seconds);
    log_event_open_array("heads");
    for (uint32_t i = 0; i < heads->count; i++) {
        log_event_open(NULL);
        log_event_text("name", heads->items[i].name);
        log_event_text("section", heads->items[i].section);
        log_event_text("kind", heads->items[i].kind);
        evaluate_figures_event(&heads->items[i]);
        bins_event(&heads->items[i]);
        log_event_close();
    }
    log_event_close_array();
    log_event_end();
}

status evaluate_measure(struct crew *c, struct feed *feed, struct heads *heads)
{
    return evaluate_measure_as(c, feed, heads, NULL, NULL);
}

/* Finds the figures of heads that have all examples. */
static status figures_find(const struct feed *feed, struct heads *heads, uint64_t *example_count)
{
    *example_count = heads->items[0].example_count;
    if (*example_count == 0)
        FAIL(INVALID, "%s: no examples to evaluate%s", feed_paths(feed),
             feed_counts(feed).bad_count == 0 && rank_is_begun(heads->rank) ? ": no target is a word of the vocabulary"
                                                                            : feed_nothing_text(feed));
    if (!heads_have_weight(heads))
        FAIL(INVALID, "%s: all %" PRIu64 " examples have weight 0, so there are no means: give data with weights",
             feed_paths(feed), *example_count);
    return heads_finish(heads);
}

/* Makes the heads of rank 0, or of the only node, ready for an evaluation. */
static status rank_ready(struct crew *c, struct heads *heads)
{
    if (c->nodes && reduce_rank(c->nodes) != 0) return ST_OK;
    TRY(heads_rank(heads, c));
    return heads->rank ? rank_begin(heads->rank) : ST_OK;
}

/* Measures on several nodes; rank 0 finds the figures. */
static status nodes_measure(struct crew *c, struct feed *feed, struct heads *heads, struct by_value *by,
                            uint64_t *example_count)
{
    struct eval_nodes nodes;
    TRY(eval_nodes_begin(&nodes, c->nodes, heads, by));
    bool by_stages = false;
    status st = rank_ready(c, heads);
    if (st == ST_OK) st = eval_nodes_start(&nodes, c->pipeline, &by_stages);
    const bool computes = exchange_computes(c->options.exchange);
    if (st == ST_OK && computes)
        st = evaluate_run(c, feed, by_stages ? NULL : measure_sink, &(struct measuring){.nodes = &nodes});
    st = eval_nodes_end(&nodes, st);
    if (reduce_rank(c->nodes) == 0 && st == ST_OK) st = figures_find(feed, heads, example_count);
    return eval_nodes_tell(&nodes, st, example_count);
}

status evaluate_measure_as(struct crew *c, struct feed *feed, struct heads *heads, const char *set, struct by_value *by)
{
    struct measuring measuring = {.heads = heads, .by = by};
    uint64_t begin = clock_ns(), example_count = 0;
    if (c->nodes) {
        TRY(nodes_measure(c, feed, heads, by, &example_count));
        if (reduce_rank(c->nodes) != 0) return ST_OK; /* rank 0 tells */
    } else {
        TRY(rank_ready(c, heads));
        TRY(evaluate_run(c, feed, measure_sink, &measuring));
        TRY(figures_find(feed, heads, &example_count));
    }
    result_tell(c->setup, set ? set : "", heads, example_count, feed_counts(feed), (double)(clock_ns() - begin) * 1e-9);
    return by ? by_value_tell(by, set) : ST_OK;
}
