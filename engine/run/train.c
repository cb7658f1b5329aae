/* Trains: runs the pipeline from one step at which something is due to the next, and does there what is due. */
#include "engine/run/train.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/thread.h"
#include "engine/eval/early_stop.h"
#include "engine/eval/evaluate.h"
#include "io/cache/data_cache.h"
#include "engine/run/report.h"
#include "engine/model/saver.h"
#include "engine/base/stop.h"
#include "engine/base/trace.h"
#include "engine/model/warm_start.h"
#include "io/store/store_touch.h"

/* A plan that was made for a cluster is held against what the pipeline does about so often. */
#define LOOK_SECONDS     1.0
#define LOOK_EVERY_FIRST 16 /* steps */

/* How training goes, for the main thread to print while workers go on. Written after every step by whoever ends it, one at
 * a time; read by the main thread, which reads again if a step ended meanwhile. */
struct standing {
    _Atomic uint64_t shared_version; /* odd while it is written */
    _Atomic uint64_t shared_step, shared_epoch, shared_examples, shared_loss_bits;
};

struct trainer {
    struct session *session;
    const struct train_options *options;
    const struct graph *graph;
    struct feed *feed, *eval_feed;
    const char *eval; /* what is evaluated; NULL: nothing */
    struct evaluate_options eval_options;
    struct data_cache *eval_cache; /* between evaluations: what they have read once, or NULL */
    struct arena arena;
    uint64_t *row_count; /* [table_count]: rows that exist after the last step, whatever is read ahead */
    uint32_t ticket;     /* the last one of that step                                                  */
    double loss_sum;     /* of all examples of this run; written where steps end */
    struct standing standing;
    /* at the last report */
    double loss_reported;
    uint64_t examples_reported;
    struct heads heads; /* of evaluations: empty between them                              */
    struct early_stop stop;
    char *best_path;      /* OUT/best; NULL: nothing is kept                                 */
    uint64_t epoch_until; /* the pass at whose end is an evaluation, 0: none                 */
    struct report report;
    /* at the last look at the plan */
    uint64_t look_ns, look_step, look_examples;
    uint64_t look_every;  /* steps from look to look: about LOOK_SECONDS                  */
    struct saver *saver;  /* saves beside training; NULL: it stands still               */
    double save_pause_ms; /* that the save under way has cost                           */
    status save_result;   /* of one that has ended beside training; its message is this thread's last */
    bool save_is_owed;    /* one fell due while another was being written                */
    bool is_woken;        /* by tick, for the save that is owed                          */
    uint64_t begun_step;  /* of the last save, or UINT64_MAX                            */
    uint64_t saved_step;  /* of the last one that is complete, or UINT64_MAX            */
    uint64_t eval_step;   /* of the last evaluation, or UINT64_MAX                        */
};

/* --- while the pipeline runs ------------------------------------------------------------------ */

/* A step has ended: the only place where progress moves. */
static void step_done(void *context, const struct step_done *done)
{
    struct trainer *t = context;
    struct progress *p = &t->session->setup.model.progress;
    if (done->epoch != p->epoch) {
        p->pass_examples = p->epoch_examples;
        p->epoch = done->epoch;
        p->epoch_examples = 0;
    }
    p->step++;
    p->epoch_examples += done->example_count;
    p->examples += done->example_count;
    t->loss_sum += done->loss_sum;
    for (uint32_t i = 0; i < t->graph->table_count; i++) t->row_count[i] = done->row_count[i];
    t->ticket = done->ticket;

    struct standing *s = &t->standing;
    uint64_t bits, version = atomic_load_explicit(&s->shared_version, memory_order_relaxed);
    memcpy(&bits, &t->loss_sum, sizeof bits);
    /* Acquire and release: what is written below is seen only after the odd version … */
    atomic_exchange_explicit(&s->shared_version, version + 1, memory_order_acq_rel);
    atomic_store_explicit(&s->shared_step, p->step, memory_order_release);
    atomic_store_explicit(&s->shared_epoch, p->epoch, memory_order_release);
    atomic_store_explicit(&s->shared_examples, p->examples, memory_order_release);
    atomic_store_explicit(&s->shared_loss_bits, bits, memory_order_release);
    /* … and all of it before the even one. */
    atomic_store_explicit(&s->shared_version, version + 2, memory_order_release);
}

static void standing_read(struct standing *s, struct progress *progress, double *loss_sum)
{
    uint64_t bits, begin, end;
    do {
        /* Acquire, all: each value is as new as the version before it, and the version after as new as each value. */
        begin = atomic_load_explicit(&s->shared_version, memory_order_acquire);
        progress->step = atomic_load_explicit(&s->shared_step, memory_order_acquire);
        progress->epoch = atomic_load_explicit(&s->shared_epoch, memory_order_acquire);
        progress->examples = atomic_load_explicit(&s->shared_examples, memory_order_acquire);
        bits = atomic_load_explicit(&s->shared_loss_bits, memory_order_acquire);
        end = atomic_load_explicit(&s->shared_version, memory_order_relaxed);
    } while (begin != end || begin % 2);
    memcpy(loss_sum, &bits, sizeof bits);
}

/* Reports what has been done since the last time, if anything. */
static void progress_tell(struct trainer *t)
{
    struct progress now = {0};
    double loss_sum;
    standing_read(&t->standing, &now, &loss_sum);
    uint64_t examples = now.examples - t->examples_reported;
    if (now.step == 0 || examples == 0) return;
    report_progress(&t->report, &now, (loss_sum - t->loss_reported) / (double)examples, feed_counts(t->feed));
    t->loss_reported = loss_sum;
    t->examples_reported = now.examples;
}

static void trace_tell(void)
{
    status st = trace_drain();
    if (st != ST_OK) log_warning("the trace ends here: %s", status_message());
}

/* --- between jobs ----------------------------------------------------------------------------- */

/* A model that has just diverged must not replace a good save: its parameters are finite, and so, where a slot of the last step is
 * at hand, are the losses that it gives. */
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

/* Waits for the save under way, if there is one, and tells of it. */
static status save_settle(struct trainer *t)
{
    struct saver_done done;
    if (t->saver == NULL || !saver_is_busy(t->saver)) return ST_OK;
    saver_wait(t->saver);
    TRY(saver_take(t->saver, &done));
    t->saved_step = done.progress.step;
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

/* The main thread looks up. A save that has failed ends training; one that makes way for another ends the job, behind the step under way. */
static bool tick(void *context)
{
    struct trainer *t = context;
    if (report_is_due(&t->report)) progress_tell(t);
    trace_tell();
    if (t->saver && saver_is_done(t->saver)) t->save_result = save_settle(t);
    t->is_woken |= t->save_is_owed && !saver_is_busy(t->saver);
    return stop_requested() || t->save_result != ST_OK || t->is_woken;
}

/* Ends training with a failure after which the model is not worth saving: the message names the save to return to. */
static status fail_unsaved(struct trainer *t, status failure)
{
    char *message = strdup(status_message());
    const char *what = message ? message : "";
    if (save_settle(t) != ST_OK) log_warning("the last save has failed: %s", status_message());
    if (t->saved_step != UINT64_MAX)
        failure = status_fail(failure, __FILE__, __LINE__, "%s; the model in %s is from step %" PRIu64, what,
                              t->options->out, t->saved_step);
    else
        failure = status_fail(failure, __FILE__, __LINE__, "%s; nothing was saved%s", what,
                              t->options->out ? " yet; set checkpoint.every" : ": give --out DIR and checkpoint.every");
    free(message);
    return failure;
}

/* Rows of tables whose rows come and go, as of the last step: those that are dead and still on disk, found by nobody, do not count. While the
 * feed is held. */
static status lives_count(struct trainer *t)
{
    struct store *store = t->session->setup.model.store;
    TRY(store_purge(store));
    for (uint32_t i = 0; i < t->graph->table_count; i++)
        if (store_lives(store, i)) t->row_count[i] = store_row_count_at(store, i, t->row_count[i], t->ticket);
    return ST_OK;
}

/* Saves the model as it is after the last step, with the rows that it has touched, while training stands still. */
static status model_put(struct trainer *t, const char *path, uint32_t keep, uint64_t *bytes)
{
    const struct model_save_options options = {
        .path = path, .row_count = t->row_count, .ticket = t->ticket, .keep = keep};
    status st = feed_hold(t->feed);
    if (st == ST_OK) st = lives_count(t);
    if (st == ST_OK) st = model_save(&t->session->setup.model, &options, bytes);
    feed_let_go(t->feed);
    return st;
}

enum save_how { SAVE_BESIDE, SAVE_AND_WAIT, SAVE_UNCHECKED };

static status save_begin(struct trainer *t)
{
    TRY(save_settle(t));
    status st = feed_hold(t->feed);
    if (st == ST_OK) st = saver_begin(t->saver, t->row_count, t->ticket);
    feed_let_go(t->feed);
    return st;
}

static status save_whole(struct trainer *t, uint64_t begin)
{
    const struct model *model = &t->session->setup.model;
    struct report_save report = {.path = t->options->out, .progress = &model->progress};
    TRY(model_put(t, t->options->out, t->session->setup.settings.checkpoint_keep, &report.bytes));
    t->saved_step = model->progress.step;
    for (uint32_t i = 0; i < t->graph->table_count; i++) report.row_count += t->row_count[i];
    report.written_count = report.row_count;
    report.ms = report.pause_ms = (double)(clock_ns() - begin) * 1e-6;
    report_saved(&t->report, &report);
    return ST_OK;
}

/* Saves the model as it is after the last step, unless that has been done: beside training, where that is possible, or to the end. */
static status save(struct trainer *t, enum save_how how)
{
    const struct model *model = &t->session->setup.model;
    if (t->options->out == NULL) return ST_OK;
    if (t->begun_step == model->progress.step) return how == SAVE_BESIDE ? ST_OK : save_settle(t);
    uint64_t begin = clock_ns();
    status st = how == SAVE_UNCHECKED ? ST_OK : model_check(t);
    if (st != ST_OK) return fail_unsaved(t, st);
    if (t->saver == NULL) {
        TRY(save_whole(t, begin));
    } else {
        TRY(save_begin(t));
        t->save_pause_ms = (double)(clock_ns() - begin) * 1e-6;
        if (how != SAVE_BESIDE) TRY(save_settle(t));
    }
    t->begun_step = model->progress.step;
    report_pause(&t->report, clock_ns() - begin);
    trace_span(TRACE_SAVE, "save", begin, clock_ns(), model->progress.step, 0);
    return ST_OK;
}

/* One save at a time: what falls due meanwhile becomes one save, as soon as that one is written. */
static void save_put_off(struct trainer *t)
{
    const uint64_t step = t->session->setup.model.progress.step, every = t->session->setup.settings.checkpoint_every;
    if (step % every != 0) return;
    if (t->report.save_late_count == 0)
        log_info("saves    that of step %" PRIu64
                 " is made when the one before it is written, and training goes on meanwhile; with "
                 "checkpoint.wait = yes it would wait (checkpoint.every = %" PRIu64 ")",
                 step, every);
    report_save_late(&t->report, t->save_is_owed);
    t->save_is_owed = true;
}

/* Behind a step: the save that falls due with it, or is owed. */
static status save_due(struct trainer *t)
{
    const struct settings *s = &t->session->setup.settings;
    const bool is_due = s->checkpoint_every && t->session->setup.model.progress.step % s->checkpoint_every == 0;
    if (!is_due && !t->save_is_owed) return ST_OK;
    if (t->saver != NULL && !s->checkpoint_wait && saver_is_busy(t->saver) && !saver_is_done(t->saver)) {
        save_put_off(t);
        return ST_OK;
    }
    t->save_is_owed = false;
    return save(t, SAVE_BESIDE);
}

/* After a failure that leaves the model as it was at the last finished step: saves it, and returns the failure, whose message names the save. */
static status save_and_fail(struct trainer *t, status failure)
{
    char *message = strdup(status_message());
    const char *what = message ? message : "";
    status st = save(t, SAVE_UNCHECKED);
    if (st != ST_OK) log_warning("the model could not be saved: %s", status_message());
    if (t->saved_step == UINT64_MAX)
        st = status_adopt(failure, what);
    else
        st = status_fail(failure, __FILE__, __LINE__, "%s; the model in %s is from step %" PRIu64, what,
                         t->options->out, t->saved_step);
    free(message);
    return st;
}

/* The model is the best so far. */
static status best_save(struct trainer *t)
{
    const struct model *model = &t->session->setup.model;
    char text[64];
    if (t->best_path == NULL) return ST_OK;
    status st = model_check(t);
    if (st != ST_OK) return fail_unsaved(t, st);
    TRY(model_put(t, t->best_path, 1, NULL));
    log_info("best     step %" PRIu64 ": %s, saved as %s", model->best.step,
             early_stop_text(&t->stop, text, sizeof text), t->best_path);
    return ST_OK;
}

/* What an evaluation says: whether the model is still one, and whether training should go on. */
static status evaluation_judge(struct trainer *t)
{
    for (uint32_t i = 0; i < t->heads.count; i++) {
        const struct head *head = &t->heads.items[i];
        uint32_t k = head_main_figure(head);
        if (!head->figures[k].is_loss || isfinite(head->values[k])) continue;
        return fail_unsaved(
            t, status_fail(ST_DIVERGED, __FILE__, __LINE__,
                           "step %" PRIu64
                           ": the evaluation's %s of [%s %s] is not finite; a lower learning rate may help",
                           t->eval_step, head->figures[k].text, head->section, head->name));
    }
    bool is_better = false;
    if (t->stop.head) TRY(early_stop_take(&t->stop, t->eval_step, &is_better));
    return is_better ? best_save(t) : ST_OK;
}

static status evaluate(struct trainer *t)
{
    if (t->eval == NULL || t->eval_step == t->session->setup.model.progress.step) return ST_OK;
    t->eval_step = t->session->setup.model.progress.step;
    uint64_t begin = clock_ns();
    if (t->eval_feed == NULL) TRY(evaluate_open(&t->session->crew, &t->eval_options, &t->eval_feed));
    stop_listen(feed_wake, t->eval_feed);
    status st = feed_hold(t->feed);
    if (st == ST_OK) st = evaluate_measure(&t->session->crew, t->eval_feed, &t->heads);
    stop_listen(feed_wake, t->feed);
    feed_close(t->eval_feed); /* its thread uses the store till then */
    t->eval_feed = NULL;
    feed_let_go(t->feed);
    trace_span(TRACE_EVAL, "eval", begin, clock_ns(), t->eval_step, 0);
    trace_tell();
    if (st == ST_OK) st = evaluation_judge(t);
    report_pause(&t->report, clock_ns() - begin);
    return st == ST_STOPPED ? ST_OK : st; /* the caller sees the signal too, and saves first */
}

/* The first step after `step` that is a multiple of `every`; never if that is 0. */
static uint64_t next_multiple(uint64_t step, uint64_t every) { return every ? (step / every + 1) * every : UINT64_MAX; }

static status evaluate_due(struct trainer *t)
{
    status st = evaluate(t);
    return st == ST_OK || st == ST_DIVERGED ? st : save_and_fail(t, st);
}

static status due(struct trainer *t)
{
    const struct settings *settings = &t->session->setup.settings;
    uint64_t step = t->session->setup.model.progress.step;
    TRY(save_due(t));
    if (settings->eval_every && step % settings->eval_every == 0) TRY(evaluate_due(t));
    return ST_OK;
}

/* An evaluation that was due where a save ended decides about stopping; the run that made the save may not have come to it. */
static status due_at_resume(struct trainer *t)
{
    uint64_t step = t->session->setup.model.progress.step, every = t->session->setup.settings.eval_every;
    bool is_due =
        t->stop.head && step && every && step % every == 0 && t->session->setup.model.best.evaluated_step != step;
    return is_due ? evaluate_due(t) : ST_OK;
}

/* A pass is over, and others follow. */
static status pass_due(struct trainer *t)
{
    struct progress *p = &t->session->setup.model.progress;
    p->pass_examples = p->epoch_examples;
    t->epoch_until++;
    return t->session->setup.model.best.evaluated_step == p->step ? ST_OK : evaluate_due(t);
}

static void look_begin(struct trainer *t)
{
    const struct progress *p = &t->session->setup.model.progress;
    t->look_ns = clock_ns();
    t->look_step = p->step;
    t->look_examples = p->examples;
}

/* Holds the plan against what the pipeline has done, and takes a better one where there is one. */
static status plan_look(struct trainer *t)
{
    struct session *s = t->session;
    const struct progress *p = &s->setup.model.progress;
    char why[512];
    if (s->replanner == NULL || p->step < t->look_step + t->look_every) return ST_OK;
    double seconds = (double)(clock_ns() - t->look_ns) * 1e-9;
    struct pipeline_figures figures;
    pipeline_figures(s->crew.pipeline, &figures);
    if (replanner_look(s->replanner, &figures, p->examples - t->look_examples, why, sizeof why)) {
        uint64_t begin = clock_ns();
        bool is_changed;
        status st = session_replan(s, &is_changed);
        if (st != ST_OK) return save_and_fail(t, st);
        report_replan(&t->report, p->step, why, is_changed);
        report_pause(&t->report, clock_ns() - begin);
    }
    double every = (double)(p->step - t->look_step) * LOOK_SECONDS / (seconds > 1e-3 ? seconds : 1e-3);
    t->look_every = every < 1 ? 1 : every > 1e9 ? 1000000000 : (uint64_t)every;
    look_begin(t);
    return ST_OK;
}

/* The feed has come to its end. Unless a bound or a signal has ended it, as many examples are a whole pass. */
static void pass_note(struct trainer *t)
{
    const struct settings *s = &t->session->setup.settings;
    struct progress *p = &t->session->setup.model.progress;
    bool is_bounded = s->train_steps_max && p->step >= s->train_steps_max;
    if (!stop_requested() && !is_bounded && p->epoch + 1 == s->train_epochs) p->pass_examples = p->epoch_examples;
}

static status loop(struct trainer *t)
{
    const struct settings *settings = &t->session->setup.settings;
    const struct progress *progress = &t->session->setup.model.progress, from = *progress;
    TRY(feed_start(t->feed, &from));
    stop_listen(feed_wake, t->feed);
    t->look_every = LOOK_EVERY_FIRST;
    look_begin(t);
    if (t->stop.head && settings->eval_every == 0) t->epoch_until = from.epoch + 1;
    TRY(due_at_resume(t));
    for (bool is_end = false; !is_end && !stop_requested() && !early_stop_is_over(&t->stop);) {
        uint64_t step = progress->step, save_step = next_multiple(step, settings->checkpoint_every),
                 eval_step = next_multiple(step, settings->eval_every),
                 until = save_step < eval_step ? save_step : eval_step;
        if (t->session->replanner && t->look_step + t->look_every < until) until = t->look_step + t->look_every;
        struct train_job job = {.feed = t->feed,
                                .step_until = until,
                                .epoch_until = t->epoch_until,
                                .step_done = step_done,
                                .tick = tick,
                                .context = t};
        t->is_woken = false;
        status st = pipeline_train(t->session->crew.pipeline, &job, &is_end);
        if (st != ST_OK) return fail_unsaved(t, st);
        if (t->save_result != ST_OK) return fail_unsaved(t, t->save_result);
        if (is_end) st = feed_result(t->feed);
        if (st != ST_OK && stop_requested()) {
            /* Ctrl-C reaches whoever feeds our pipe too, and what it leaves behind may be half a line. */
            log_warning("%s; ignored, since a signal asks to stop", status_message());
            return ST_OK;
        }
        if (st != ST_OK) return progress->step > from.step ? save_and_fail(t, st) : st;
        if (is_end) pass_note(t);
        if (progress->step > step || t->is_woken) TRY(due(t));
        bool is_pass_over = t->epoch_until && !is_end && !stop_requested() && !t->is_woken && progress->step < until;
        if (is_pass_over) TRY(pass_due(t));
        if (!is_end && !stop_requested()) TRY(plan_look(t));
    }
    return ST_OK;
}

/* --- a run ------------------------------------------------------------------------------------ */

/* Whether a list of paths holds "-". */
static bool names_stdin(const char *paths)
{
    for (const char *at = paths; *at; at += strcspn(at, ","), at += *at == ',')
        if (*at == '-' && (at[1] == 0 || at[1] == ',')) return true;
    return false;
}

/* A stream can be read once, so what would read it twice is refused before the first step. */
static status streams_check(const struct trainer *t)
{
    const struct settings *s = &t->session->setup.settings;
    if (feed_is_stream(t->feed) && s->train_epochs > 1 && s->cache_ram == 0 && s->cache_ssd == 0)
        FAIL(INVALID,
             "%s is a stream and can be read once, but train.epochs = %" PRIu64
             "; give a file, or a data cache (--set cache.ram=1GiB), or --set train.epochs=1",
             t->options->data, (uint64_t)s->train_epochs);
    if (t->eval_feed && feed_is_stream(t->eval_feed) && (s->eval_every || t->stop.head))
        FAIL(INVALID,
             "%s is a stream and can be read once, but eval.every = %" PRIu64
             ", train.stop = %s; give a file, or --set eval.every=0 --set train.stop=none",
             t->eval, s->eval_every, s->train_stop);
    if (t->eval == t->options->data && feed_is_stream(t->feed) && !t->options->dry_run)
        FAIL(INVALID,
             "%s is a stream and can be read once, but data.eval_fraction = %g holds lines of it out for evaluation; "
             "give a file, --eval FILE, or --set data.eval_fraction=0",
             t->options->data, (double)s->data_eval_fraction);
    return ST_OK;
}

/* Settings that ask for what cannot be seen. */
static void settings_check(const struct trainer *t)
{
    const struct settings *s = &t->session->setup.settings;
    struct batch_shape shape = graph_batch(t->graph);
    if (s->checkpoint_every && t->options->out == NULL)
        log_warning("checkpoint.every = %" PRIu64 " saves nothing without --out DIR", s->checkpoint_every);
    if (s->eval_every && t->eval == NULL)
        log_warning("eval.every = %" PRIu64 " measures nothing without --eval FILE", s->eval_every);
    if (s->train_micro == 0 && shape.micro < 32 && shape.micro < shape.batch / shape.lanes)
        log_warning(
            "batch / lanes = %u has no divisor from 32 to 512, so micro-batches have %u examples and are slow; choose "
            "another train.batch",
            shape.batch / shape.lanes, shape.micro);
}

/* What is evaluated, and the data caches of training and evaluation, which share the budgets. Memory serves further passes of the run only, a
 * file further runs, too. */
static void caches_share(struct trainer *t, struct data_cache_budget *train)
{
    const struct settings *s = &t->session->setup.settings;
    bool is_again = s->train_epochs > 1, is_eval_again = s->eval_every || t->stop.head;
    *train = (struct data_cache_budget){.ram_bytes = is_again ? s->cache_ram : 0,
                                        .ssd_bytes = s->cache_ssd,
                                        .path = s->cache_path,
                                        .window = is_again && s->cache_shuffle == CACHE_BLOCKS ? s->cache_window : 0,
                                        .is_bounded = s->train_steps_max > 0};
    if (t->eval == NULL) return;
    bool is_part = t->eval == t->options->data;
    struct evaluate_options *o = &t->eval_options;
    *o = (struct evaluate_options){.paths = t->eval,
                                   .lines = is_part ? READER_HELD_OUT
                                                    : evaluate_lines(&t->session->setup, t->eval, t->options->data),
                                   .cache = {.ram_bytes = is_eval_again ? s->cache_ram : 0,
                                             .ssd_bytes = s->cache_ssd,
                                             .path = s->cache_path,
                                             .suffix = ".eval"},
                                   .cache_kept = &t->eval_cache};
    double share = evaluate_share(&t->session->setup, o, t->options->data);
    uint64_t ssd = (uint64_t)((double)s->cache_ssd * share), ram = (uint64_t)((double)s->cache_ram * share);
    train->ssd_bytes -= ssd;
    o->cache.ssd_bytes = ssd;
    if (train->ram_bytes == 0 || o->cache.ram_bytes == 0) return;
    train->ram_bytes -= ram;
    o->cache.ram_bytes = ram;
}

/* Everything that takes memory, so that the plan is whole. */
static status memory_plan(struct trainer *t)
{
    struct session *s = t->session;
    struct feed_options feed = crew_feed_options(&s->crew, t->options->data);
    feed.training = true;
    feed.epochs = s->setup.settings.train_epochs;
    feed.steps_max = s->setup.settings.train_steps_max;
    feed.reader.shuffle = s->setup.settings.data_shuffle;
    feed.reader.lines = s->setup.settings.data_eval_fraction > 0 ? READER_TRAIN : READER_ALL;
    t->eval = t->options->eval;
    if (t->eval == NULL && s->setup.settings.data_eval_fraction > 0) t->eval = t->options->data;
    if (t->options->eval && names_stdin(t->options->data) && names_stdin(t->options->eval))
        FAIL(USAGE, "--data and --eval both read standard input; give one of them a file");
    TRY(heads_open(&t->heads, t->graph));
    TRY(early_stop_open(&t->stop, &t->heads, s->setup.settings.train_stop, s->setup.settings.train_patience,
                        &s->setup.model.best));
    if (t->stop.head && t->eval == NULL && !t->options->dry_run)
        FAIL(INVALID, "train.stop = %s needs evaluation data; give --eval FILE, data.eval or data.eval_fraction",
             s->setup.settings.train_stop);
    size_t row_bytes = t->graph->table_count * sizeof *t->row_count;
    TRY(arena_open(&t->arena, "pipeline", arena_bytes(row_bytes)));
    t->row_count = arena_take(&t->arena, row_bytes);
    caches_share(t, &feed.cache);
    TRY(feed_open(&t->feed, &feed));
    feed_bell_set(t->feed, pipeline_feed_bell(s->crew.pipeline));
    if (t->eval) {
        TRY(evaluate_open(&s->crew, &t->eval_options, &t->eval_feed));
        TRY(evaluate_reserve(&s->crew, t->eval_feed, &t->heads));
    }
    /* Under wsp and asp a step's end is not the end of all that it touches, and rows that may die are not marked: training stands still to
     * save. */
    bool lives = false;
    for (uint32_t i = 0; i < t->graph->table_count; i++) lives |= store_lives(s->setup.model.store, i);
    if (t->options->out && s->setup.settings.checkpoint_every && s->setup.settings.train_sync == SYNC_BSP && !lives)
        TRY(saver_open(&t->saver, &(struct saver_options){.model = &s->setup.model,
                                                          .path = t->options->out,
                                                          .keep = s->setup.settings.checkpoint_keep,
                                                          .buffer_bytes = s->setup.settings.checkpoint_buffer}));
    TRY(streams_check(t));
    settings_check(t);
    memory_note("threads", THREAD_STACK_BYTES); /* the one that touches rows' memory ahead */
    if (t->options->look) return ST_OK;
    setup_memory_plan(&s->setup, t->options->dry_run);
    return setup_memory_check(&s->setup);
}

static status model_fill(struct trainer *t)
{
    struct model *model = &t->session->setup.model;
    if (t->options->resume)
        TRY(model_resume(model, t->options->resume));
    else
        model_init(model);
    if (t->options->init) TRY(warm_start(model, &(struct warm_start_options){.path = t->options->init}));
    for (uint32_t i = 0; i < t->graph->table_count; i++) t->row_count[i] = store_row_count(model->store, i);
    t->examples_reported = model->progress.examples;
    return ST_OK;
}

/* Where the best model is kept: claimed before the work begins. */
static status best_open(struct trainer *t)
{
    if (t->stop.head == NULL || t->options->out == NULL) return ST_OK;
    t->best_path = file_path_join(t->options->out, MODEL_BEST_NAME);
    return model_dir_check(t->graph, t->best_path);
}

static void best_tell(const struct trainer *t)
{
    const struct best *best = &t->session->setup.model.best;
    char text[64];
    if (t->stop.head == NULL || best->figure[0] == 0) return;
    early_stop_text(&t->stop, text, sizeof text);
    if (early_stop_is_over(&t->stop))
        log_info("stop     step %" PRIu64 ": no better than %s of step %" PRIu64 " in %" PRIu64 " evaluations",
                 t->session->setup.model.progress.step, text, best->step, best->evaluations_since);
    log_info("best     step %" PRIu64 ": %s%s%s", best->step, text, t->best_path ? " in " : "",
             t->best_path ? t->best_path : "");
    log_event_begin("best");
    log_event_u64("step", best->step);
    log_event_text("figure", best->figure);
    log_event_f64("value", best->value);
    log_event_u64("evaluations_since", best->evaluations_since);
    log_event_u64("stopped", early_stop_is_over(&t->stop));
    if (t->best_path) log_event_text("path", t->best_path);
    log_event_end();
}

static status train(struct trainer *t)
{
    struct session *s = t->session;
    TRY(memory_plan(t));
    if (t->options->dry_run) return ST_OK;
    TRY(best_open(t));
    if (t->options->look) return t->options->look(t->options->look_context, s, t->options, t->eval);
    TRY(model_fill(t));
    const uint64_t first_step = s->setup.model.progress.step,
                   first_pass_examples = s->setup.model.progress.pass_examples;
    report_start(&t->report, s);
    TRY(store_touch_start(s->setup.model.store, feed_example_estimate(t->feed)));
    TRY(loop(t));
    if (s->setup.model.progress.examples == 0 && s->setup.settings.train_epochs > 0 && !stop_requested())
        FAIL(INVALID, "%s: no examples%s", t->options->data,
             feed_counts(t->feed).bad_count ? ": every line is malformed" : "");
    if (s->setup.model.progress.step > first_step) progress_tell(t);
    TRY(save_settle(t));
    status held = feed_hold(t->feed);
    if (held == ST_OK) held = lives_count(t);
    report_done(&t->report, &s->setup.model.progress, t->row_count, t->ticket, feed_counts(t->feed));
    feed_let_go(t->feed);
    TRY(held);
    if (s->setup.model.progress.step == first_step && first_step && early_stop_is_over(&t->stop)) {
        log_warning("nothing to train: the model has stopped early, and train.patience = %u",
                    s->setup.settings.train_patience);
        best_tell(t);
        return evaluate(t);
    }
    if (s->setup.model.progress.step == first_step && first_step && !stop_requested()) {
        log_warning("nothing to train: the model has finished %" PRIu64
                    " passes, and train.epochs = %u, train.steps_max = %" PRIu64,
                    s->setup.model.progress.epoch + 1, s->setup.settings.train_epochs,
                    s->setup.settings.train_steps_max);
        if (s->setup.model.progress.pass_examples != first_pass_examples) TRY(save(t, SAVE_AND_WAIT));
        return evaluate(t);
    }
    TRY(save(t, SAVE_AND_WAIT));
    if (!stop_requested()) TRY(evaluate(t));
    if (!stop_requested()) best_tell(t);
    if (!stop_requested()) return ST_OK;
    if (t->options->out)
        FAIL(STOPPED, "stopped after step %" PRIu64 "; the model is saved; go on with: %s",
             s->setup.model.progress.step, t->options->resume_command);
    FAIL(STOPPED, "stopped after step %" PRIu64 "; nothing was saved, because --out DIR was not given",
         s->setup.model.progress.step);
}

status train_run(struct session *session, const struct train_options *options)
{
    struct trainer t = {.session = session,
                        .options = options,
                        .graph = &session->setup.graph,
                        .begun_step = UINT64_MAX,
                        .saved_step = UINT64_MAX,
                        .eval_step = UINT64_MAX};
    status st = train(&t);
    stop_listen(NULL, NULL);
    saver_close(t.saver);
    trace_tell(); /* while the names in it are there */
    feed_close(t.eval_feed);
    data_cache_close(t.eval_cache);
    pipeline_forget(session->crew.pipeline);
    feed_close(t.feed);
    heads_close(&t.heads);
    free(t.best_path);
    arena_close(&t.arena);
    return st;
}
