/* The forward pass over a feed. */
#include "engine/evaluate.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/stop.h"

status evaluate_open(struct session *s, const char *paths, enum reader_part lines, bool label_optional, bool bad_keep,
                     struct feed **feed)
{
    struct feed_options options = session_feed_options(s, paths);
    options.reader.lines = lines;
    options.reader.label_optional = label_optional;
    options.reader.bad_keep = bad_keep;
    TRY(feed_open(feed, &options));
    feed_bell_set(*feed, pipeline_feed_bell(s->pipeline));
    return ST_OK;
}

/* What the next path of the list is; false at its end. *is_file: it can be opened by others too. */
static bool path_next(const char **paths, struct stat *file, bool *is_file)
{
    char path[PATH_MAX];
    if (**paths == 0) return false;
    size_t bytes = strcspn(*paths, ",");
    *is_file = false;
    if (bytes < sizeof path) {
        memcpy(path, *paths, bytes);
        path[bytes] = 0;
        *is_file = stat(path, file) == 0 && S_ISREG(file->st_mode);
    }
    *paths += bytes + ((*paths)[bytes] == ',');
    return true;
}

enum reader_part evaluate_lines(const struct session *s, const char *paths, const char *data)
{
    struct stat file, other;
    bool is_file, is_other;
    if (s->settings.data_eval_fraction == 0) return READER_ALL;
    while (path_next(&paths, &file, &is_file))
        for (const char *at = data; is_file && path_next(&at, &other, &is_other);)
            if (is_other && file.st_dev == other.st_dev && file.st_ino == other.st_ino) return READER_HELD_OUT;
    return READER_ALL;
}

static bool stop_tick(void *context)
{
    (void)context;
    return stop_requested();
}

status evaluate_run(struct session *s, struct feed *feed, forward_sink *sink, void *context)
{
    TRY(feed_start(feed, NULL));
    return pipeline_forward(s->pipeline, feed, sink, stop_tick, context);
}

struct measure {
    const struct graph *graph;
    struct metrics *metrics;
};
static status measure_sink(void *context, const struct slot *slot)
{
    const struct measure *m = context;
    const struct graph *g = m->graph;
    const struct graph_node *n = &g->nodes[graph_loss_next(g, 0)];
    if (n->op != OP_ID_bce_logits) FAIL(INVALID, "expected a first loss of kind bce, found %s", op_table[n->op].kind);
    struct view logit = slot->tensor[g->args[n->arg_begin]], label = slot->tensor[g->args[n->arg_begin + 1]];
    return metrics_add(m->metrics, logit.data, logit.stride, label.data, slot->batch.example_count);
}

status evaluate_reserve(const struct feed *feed, struct metrics *metrics)
{
    uint64_t estimate = feed_example_estimate(feed);
    return metrics_reserve(metrics, estimate + estimate / 10);
}

status evaluate_measure(struct session *s, struct feed *feed, struct metrics *metrics, struct metrics_result *result)
{
    uint64_t begin = clock_ns();
    struct measure measure = {&s->graph, metrics};
    status st = evaluate_run(s, feed, measure_sink, &measure);
    struct feed_counts counts = feed_counts(feed);
    if (st == ST_OK && metrics->example_count == 0)
        st = status_fail(ST_INVALID, __FILE__, __LINE__, "%s: no examples to evaluate%s", feed_paths(feed),
                         counts.bad_count ? ": every line is malformed" : "");
    if (st == ST_OK) st = metrics_finish(metrics, result);
    TRY(st);
    double seconds = (double)(clock_ns() - begin) * 1e-9;
    char count[27];
    log_info("eval     step %" PRIu64
             ": AUC %.5f, log loss %.5f, normalised entropy %.4f, calibration %.4f (%s examples, %.1f s)",
             s->model.progress.step, result->auc, result->logloss, result->ne, result->calibration,
             session_count_text(count, result->example_count), seconds);
    if (counts.bad_count)
        log_warning("%" PRIu64 " malformed lines of the evaluation data were skipped", counts.bad_count);
    log_event_begin("eval");
    log_event_u64("step", s->model.progress.step);
    log_event_f64("auc", result->auc);
    log_event_f64("logloss", result->logloss);
    log_event_f64("ne", result->ne);
    log_event_f64("calibration", result->calibration);
    log_event_u64("samples", result->example_count);
    log_event_u64("bad_lines", counts.bad_count);
    log_event_f64("seconds", seconds);
    log_event_end();
    return ST_OK;
}
