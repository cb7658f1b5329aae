/* Saves of a training: when one is made, whether beside training or while training stands still, and what
 * happens if one fails; and the best model, which has a directory of its own. A run makes a few saves. All
 * here is for the main thread, between two jobs of the pipeline, except train_saves_look. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/doing.h"
#include "engine/base/heap.h"
#include "engine/base/log.h"
#include "engine/base/trace.h"
#include "engine/model/model_dir.h"
#include "engine/node/save.h"
#include "engine/run/train_internal.h"
#include "io/store/store_life.h"
#include "io/store/store_rows.h"

status train_saver_open(struct trainer *t)
{
    const struct settings *s = &t->session->setup.settings;
    const struct model *model = &t->session->setup.model;
    bool lives = false;
    for (uint32_t i = 0; i < t->graph->table_count; i++) lives |= store_lives(model->store, i);
    const bool is_due = s->checkpoint_every > 0 || s->checkpoint_seconds > 0;
    if (t->options->out == NULL || !is_due || !sync_by_lane(s->train_sync) || lives || t->node) return ST_OK;
    return saver_open(&t->saver, &(struct saver_options){.model = model,
                                                         .path = t->options->out,
                                                         .keep = s->checkpoint_keep,
                                                         .buffer_bytes = s->checkpoint_buffer});
}

/* Notes for the next save how a run goes on in the data. */
static void data_mark(struct trainer *t)
{
    struct model *model = &t->session->setup.model;
    uint32_t count;
    const struct reader_mark *mark = feed_marks(t->feed, &count);
    model_data_mark(&model->data, mark, count, model->progress.epoch_examples);
}

/* Keeps a model that has just diverged from replacing a good save: checks that its parameters are finite and,
 * where a slot of the last step is at hand, its losses. */
static status model_check(struct trainer *t)
{
    const struct model *model = &t->session->setup.model;
    for (uint64_t i = 0; i < t->graph->header->param_floats; i++)
        if (!isfinite(model->param[i]))
            FAIL(DIVERGED,
                 "step %" PRIu64 ": its update made a parameter that is not finite; a lower learning rate may help",
                 model->progress.step - 1);
    return pipeline_check(t->session->crew.pipeline);
}

static void saved_tell(struct trainer *t, const struct progress *progress, double ms)
{
    const struct train_watch *watch = t->options->watch;
    t->saved_step = progress->step;
    if (watch) watch->saved(watch->context, progress, ms * 1e-3);
}

status train_save_settle(struct trainer *t)
{
    struct saver_done done;
    if (t->saver == NULL || !saver_is_busy(t->saver)) return ST_OK;
    saver_wait(t->saver);
    TRY(saver_take(t->saver, &done));
    saved_tell(t, &done.progress, done.ms);
    report_saved(&t->report, &(struct report_save){.path = t->options->out,
                                                   .progress = &done.progress,
                                                   .row_count = done.row_count,
                                                   .written_count = done.written_count,
                                                   .bytes = done.bytes,
                                                   .linked_bytes = done.linked_bytes,
                                                   .ms = done.ms,
                                                   .pause_ms = t->save_pause_ms,
                                                   .wait_ms = done.wait_ms,
                                                   .is_beside = true});
    return ST_OK;
}

/* Whether the last save began checkpoint.seconds ago, and is written. */
static bool is_time(const struct trainer *t)
{
    const float seconds = t->session->setup.settings.checkpoint_seconds;
    if (seconds == 0 || t->options->out == NULL || (t->saver && saver_is_busy(t->saver))) return false;
    return (double)(clock_ns() - t->save_ns) >= (double)seconds * 1e9;
}

bool train_saves_look(struct trainer *t)
{
    if (t->saver && saver_is_done(t->saver)) t->save_result = train_save_settle(t);
    t->is_woken |= t->save_is_owed && !saver_is_busy(t->saver);
    if (t->node && node_index(t->node) == 0 && is_time(t)) reduce_job_cut(node_reduce(t->node));
    if (t->node == NULL) t->is_woken |= is_time(t);
    return t->save_result != ST_OK || t->is_woken;
}

bool train_saves_time(struct trainer *t)
{
    const bool is_due = is_time(t);
    if (is_due) t->save_ns = clock_ns();
    return is_due;
}

/* Returns the failure, with words about the save to return to. */
static status fail_saved(const struct trainer *t, const struct failure *failure)
{
    return status_fail(failure->code, __FILE__, __LINE__, "%s; the model in %s is from step %" PRIu64, failure->message,
                       t->options->out, t->saved_step);
}

status train_fail_unsaved(struct trainer *t, status failure)
{
    struct failure first;
    failure_keep(&first, failure);
    if (train_save_settle(t) != ST_OK) log_warning("the last save has failed: %s", status_message());
    if (t->saved_step != UINT64_MAX) return fail_saved(t, &first);
    const struct settings *s = &t->session->setup.settings;
    return status_fail(first.code, __FILE__, __LINE__, "%s; nothing was saved%s", first.message,
                       t->options->out == NULL ? ": give --out DIR and checkpoint.every"
                       : s->checkpoint_every || s->checkpoint_seconds > 0
                           ? " yet"
                           : " yet; set checkpoint.every or checkpoint.seconds");
}

/* Counts rows of tables whose rows come and go, as of the last step, without dead rows that are still
 * on disk. While the feed is held. */
static status lives_count(struct trainer *t)
{
    struct store *store = t->session->setup.model.store;
    TRY(store_purge(store));
    for (uint32_t i = 0; i < t->graph->table_count; i++)
        if (store_lives(store, i)) t->row_count[i] = store_row_count_at(store, i, t->row_count[i], t->ticket);
    return ST_OK;
}

/* Saves the model as it is after the last step, with the rows that finished steps have
 * touched, while training stands still. */
static status model_put(struct trainer *t, const char *path, uint32_t keep, uint64_t *bytes)
{
    const struct model_save_options options = {
        .path = path, .row_count = t->row_count, .ticket = t->ticket, .keep = keep};
    status st = feed_hold(t->feed);
    data_mark(t);
    if (st == ST_OK && t->node) st = reduce_save(node_reduce(t->node), path, keep, bytes, t->row_count);
    if (st == ST_OK && !t->node) st = lives_count(t);
    if (st == ST_OK && !t->node) st = model_save(&t->session->setup.model, &options, bytes);
    feed_let_go(t->feed);
    return st;
}

static status save_begin(struct trainer *t)
{
    TRY(train_save_settle(t));
    status st = feed_hold(t->feed);
    data_mark(t);
    if (st == ST_OK) st = saver_begin(t->saver, t->row_count, t->ticket);
    feed_let_go(t->feed);
    return st;
}

static status save_whole(struct trainer *t, uint64_t begin)
{
    const struct model *model = &t->session->setup.model;
    struct report_save report = {.path = t->options->out, .progress = &model->progress};
    TRY(model_put(t, t->options->out, t->session->setup.settings.checkpoint_keep, &report.bytes));
    for (uint32_t i = 0; i < t->graph->table_count; i++) report.row_count += t->row_count[i];
    report.written_count = report.row_count;
    report.ms = report.pause_ms = (double)(clock_ns() - begin) * 1e-6;
    saved_tell(t, &model->progress, report.ms);
    report_saved(&t->report, &report);
    return ST_OK;
}

status train_save(struct trainer *t, enum save_how how)
{
    const struct model *model = &t->session->setup.model;
    if (t->options->out == NULL) return ST_OK;
    if (t->begun_step == model->progress.step) return how == SAVE_BESIDE ? ST_OK : train_save_settle(t);
    uint64_t begin = clock_ns();
    status st = how == SAVE_UNCHECKED ? ST_OK : model_check(t);
    if (st != ST_OK) return train_fail_unsaved(t, st);
    doing_begin(DOING_save);
    st = t->saver ? save_begin(t) : save_whole(t, begin);
    if (st == ST_OK && t->saver) {
        t->save_pause_ms = (double)(clock_ns() - begin) * 1e-6;
        if (how != SAVE_BESIDE) st = train_save_settle(t);
    }
    doing_end(DOING_save);
    if (st != ST_OK) return st;
    t->begun_step = model->progress.step;
    report_pause(&t->report, clock_ns() - begin);
    trace_span(TRACE_SAVE, "save", begin, clock_ns(), model->progress.step, 0);
    return ST_OK;
}

/* One save at a time: saves that fall due meanwhile become one, which follows
 * as soon as this one is written. */
static void save_put_off(struct trainer *t)
{
    const uint64_t step = t->session->setup.model.progress.step, every = t->session->setup.settings.checkpoint_every;
    if (every == 0 || step % every != 0) return;
    if (t->report.save_late_count == 0)
        log_info("saves    the save of step %" PRIu64
                 " follows when the one before it is written; training goes on meanwhile, "
                 "and with checkpoint.wait = yes it would wait (checkpoint.every = %" PRIu64 ")",
                 step, every);
    report_save_late(&t->report, t->save_is_owed);
    t->save_is_owed = true;
}

status train_save_due(struct trainer *t)
{
    const struct settings *s = &t->session->setup.settings;
    const bool is_due = s->checkpoint_every && t->session->setup.model.progress.step % s->checkpoint_every == 0;
    if (!is_due && !t->save_is_owed && !t->save_is_timed) return ST_OK;
    if (t->saver != NULL && !s->checkpoint_wait && saver_is_busy(t->saver) && !saver_is_done(t->saver)) {
        save_put_off(t);
        return ST_OK;
    }
    t->save_is_owed = false;
    t->save_ns = clock_ns();
    return train_save(t, SAVE_BESIDE);
}

status train_save_and_fail(struct trainer *t, status failure)
{
    struct failure first;
    failure_keep(&first, failure);
    if (t->node)
        return t->saved_step == UINT64_MAX ? failure_adopt(&first)
                                           : fail_saved(t, &first); /* the other nodes do not know yet */
    status st = train_save(t, SAVE_UNCHECKED);
    if (st != ST_OK) log_warning("the model could not be saved: %s", status_message());
    return t->saved_step == UINT64_MAX ? failure_adopt(&first) : fail_saved(t, &first);
}

/* --- the best model ----------------------------------------------------------------------------- */

status train_best_open(struct trainer *t)
{
    if (t->stop.head == NULL || t->options->out == NULL) return ST_OK;
    char path[FILE_PATH_BYTES];
    TRY(heap_text(&t->best_path, "%s", file_path_join(path, t->options->out, MODEL_BEST_NAME)));
    if (t->node && node_index(t->node) > 0) return ST_OK;
    return model_dir_check(t->graph, t->best_path);
}

void train_best_look(struct trainer *t)
{
    const struct best *best = &t->session->setup.model.best;
    uint64_t step = 0; /* of the best model there */
    struct manifest manifest;
    if (t->best_path == NULL || best->figure[0] == 0 || (t->node && node_index(t->node) > 0)) return;
    if (model_file_is_there(t->best_path, MANIFEST_NAME) &&
        manifest_load(&manifest, t->best_path, MANIFEST_NAME) == ST_OK) {
        step = manifest.progress.step;
        manifest_free(&manifest);
    }
    t->has_best = step == best->step;
    if (t->has_best) return;
    /* The last evaluation of a run follows its last save, which does not know of it. */
    if (step > best->step)
        log_info("best     step %" PRIu64 " in %s was evaluated after the save that this run goes on from, whose best "
                 "is step %" PRIu64 ": the next that is better than that takes its place",
                 step, t->best_path, best->step);
    else
        log_warning("the best model so far, of step %" PRIu64 ", is not in %s: the run that found it has kept it "
                    "elsewhere; this run keeps the next that is better",
                    best->step, t->best_path);
}

status train_best_save(struct trainer *t)
{
    const struct model *model = &t->session->setup.model;
    char text[64];
    if (t->best_path == NULL) return ST_OK;
    status st = model_check(t);
    if (st != ST_OK) return train_fail_unsaved(t, st);
    TRY(model_put(t, t->best_path, 1, NULL));
    t->has_best = true;
    log_info("best     step %" PRIu64 ": %s, saved as %s", model->best.step,
             early_stop_text(&t->stop, text, sizeof text), t->best_path);
    return ST_OK;
}

void train_best_tell(const struct trainer *t)
{
    const struct best *best = &t->session->setup.model.best;
    char text[64];
    if (t->stop.head == NULL || best->figure[0] == 0) return;
    early_stop_text(&t->stop, text, sizeof text);
    if (early_stop_is_over(&t->stop))
        log_info("stop     step %" PRIu64 ": no better than %s of step %" PRIu64 " in %" PRIu64 " evaluations",
                 t->session->setup.model.progress.step, text, best->step, best->evaluations_since);
    const char *path = t->has_best ? t->best_path : NULL;
    log_info("best     step %" PRIu64 ": %s%s%s", best->step, text, path ? " in " : "", path ? path : "");
    log_event_begin("best");
    log_event_u64("step", best->step);
    log_event_text("figure", best->figure);
    log_event_f64("value", best->value);
    log_event_u64("evaluations_since", best->evaluations_since);
    log_event_u64("stopped", early_stop_is_over(&t->stop));
    if (path) log_event_text("path", path);
    log_event_end();
}
