/* Trains: runs the pipeline in jobs, each up to the next step at which something is due,
 * and then does what is due. */
#include "engine/run/train.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/doing.h"
#include "engine/base/log.h"
#include "engine/base/stop.h"
#include "engine/base/trace.h"
#include "engine/node/stream.h"
#include "engine/node/tables.h"
#include "engine/node/talk.h"
#include "engine/run/first_read.h"
#include "engine/run/train_internal.h"
#include "io/event_file.h"
#include "io/store/store_ticket.h"
#include "io/store/store_touch.h"

/* How often a plan that was made for a cluster is compared with what the pipeline does. */
#define LOOK_SECONDS     1.0
#define LOOK_EVERY_FIRST 16 /* steps */

/* --- while the pipeline runs ------------------------------------------------------------------ */

/* Whether several nodes tell together how training goes: all after the same step, which rank 0 has marked. */
static bool joins(const struct trainer *t) { return t->node && t->progressive; }

/* Writes down how training goes. */
static void standing_take(struct trainer *t)
{
    struct standing *standing = &t->standing;
    standing->progress = t->session->setup.model.progress;
    standing->loss_sum = t->loss_sum;
    standing->ns = clock_ns();
    if (t->progressive) progressive_keep(t->progressive);
    /* Release pairs with standing_look(). */
    atomic_store_explicit(&standing->shared_state, STANDING_THERE, memory_order_release);
}

/* The time of recovery ends: the first step after the save is done. */
static void recovery_end(struct trainer *t)
{
    if (t->recovers) doing_end(DOING_recovery);
    t->recovers = 0;
}

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
    recovery_end(t);
    p->epoch_examples += done->example_count;
    p->examples += done->example_count;
    t->loss_sum += done->loss_sum;
    for (uint32_t i = 0; i < t->graph->table_count; i++) t->row_count[i] = done->row_count[i];
    t->ticket = done->ticket;

    if (t->progressive) progressive_step(t->progressive, done);
    const struct train_watch *watch = t->options->watch;
    if (watch) watch->step_done(watch->context, p, t->row_count);
    /* Acquire pairs with standing_look(): what stood there has been read. */
    const bool is_wanted = atomic_load_explicit(&t->standing.shared_state, memory_order_acquire) == STANDING_WANTED;
    if (joins(t) ? reduce_marked(node_reduce(t->node)) == p->step : is_wanted) standing_take(t);
}

/* A worker has predicted a micro-batch. */
static void forward_done(void *context, const struct slot *slot)
{
    progressive_take(((struct trainer *)context)->progressive, slot);
}

/* Reports what has been done since the last time, if anything. */
static void progress_tell(struct trainer *t)
{
    const struct standing *standing = &t->standing;
    uint64_t examples = standing->progress.examples - t->examples_reported;
    if (standing->progress.step == 0 || examples == 0) return;
    struct report_progress now = {.progress = &standing->progress,
                                  .ns = standing->ns,
                                  .loss = (standing->loss_sum - t->loss_reported) / (double)examples,
                                  .counts = feed_counts(t->feed),
                                  .is_over = t->is_over};
    if (t->progressive) now.window = progressive_measure(t->progressive, &now.heads);
    now.rate = report_progress(&t->report, &now);
    const struct train_watch *watch = t->options->watch;
    if (watch) watch->told(watch->context, &now);
    t->loss_reported = standing->loss_sum;
    t->examples_reported = standing->progress.examples;
}

/* Tells the standing that has come; all nodes join their figures here. */
static status standing_tell(struct trainer *t)
{
    if (joins(t)) TRY(progressive_join(t->progressive));
    progress_tell(t);
    /* Release pairs with step_done(): the standing has been read. */
    atomic_store_explicit(&t->standing.shared_state, STANDING_NONE, memory_order_release);
    return joins(t) ? progressive_joined(t->progressive) : ST_OK;
}

/* Tells the standing, if one has come, or asks for one, if it is time. */
static void standing_look(struct trainer *t)
{
    _Atomic uint32_t *state = &t->standing.shared_state;
    /* Acquire pairs with standing_take(). */
    uint32_t is = atomic_load_explicit(state, memory_order_acquire);
    if (failure_is(&t->standing_failure)) return;
    if (is == STANDING_THERE) {
        const status st = standing_tell(t);
        if (st != ST_OK) failure_keep(&t->standing_failure, st);
    }
    if (is != STANDING_NONE || !report_is_due(&t->report) || (joins(t) && node_index(t->node) > 0)) return;
    /* Release pairs with step_done(). On several nodes the mark may have brought a
     * standing by now, which then stays. */
    if (atomic_compare_exchange_strong_explicit(state, &is, STANDING_WANTED, memory_order_release,
                                                memory_order_relaxed) &&
        joins(t))
        reduce_mark(node_reduce(t->node));
}

/* Tells the follower where the time has gone. */
static void look_tell(const struct trainer *t, bool is_over)
{
    const struct train_watch *watch = t->options->watch;
    struct train_look look = {.pause_ns = t->report.pause_ns, .is_over = is_over};
    if (watch == NULL || watch->looked == NULL) return;
    pipeline_times(t->session->crew.pipeline, &look.times);
    watch->looked(watch->context, &look);
}

/* --- between jobs ----------------------------------------------------------------------------- */

/* The main thread's look, some times a second. A save that has failed, or that makes way for another one,
 * ends the job after the step under way. */
static bool tick(void *context)
{
    struct trainer *t = context;
    standing_look(t);
    look_tell(t, false);
    trace_tell();
    bool is_over = train_saves_look(t);
    return stop_requested() || is_over || failure_is(&t->standing_failure);
}

/* On one node a signal wakes a feed that is stuck; of several nodes none may end before the others. */
static void feed_listen(const struct trainer *t, struct feed *feed) { stop_listen(t->node ? NULL : feed_wake, feed); }

/* Judges by a set's evaluation whether losses are finite and, by the first set's,
 * whether the model is the best. */
static status evaluation_judge(struct trainer *t, bool is_first, bool *is_better)
{
    for (uint32_t i = 0; i < t->heads.count; i++) {
        const struct head *head = &t->heads.items[i];
        uint32_t k = head_main_figure(head);
        if (!head->figures[k].is_loss || isfinite(head->values[k])) continue;
        return train_fail_unsaved(
            t, status_fail(ST_DIVERGED, __FILE__, __LINE__,
                           "step %" PRIu64
                           ": the evaluation's %s of [%s %s] is not finite; a lower learning rate may help",
                           t->eval_step, head->figures[k].text, head->section, head->name));
    }
    return t->stop.head && is_first ? early_stop_take(&t->stop, t->eval_step, is_better) : ST_OK;
}

/* Numbers of rows after the last step, where this node finds rows itself; NULL: owners find them. */
static const uint64_t *rows_here(const struct trainer *t)
{
    if (t->node == NULL) return t->row_count;
    struct reduce *reduce = node_reduce(t->node);
    return exchange_of_rows(reduce_exchange(reduce)) ? NULL : reduce_own_rows(reduce);
}

static status evaluate_set(struct trainer *t, uint32_t i, bool *is_better)
{
    uint64_t begin = clock_ns();
    TRY(eval_feeds_open(&t->eval, &t->session->crew, i));
    feed_listen(t, t->eval.feed);
    status st = feed_hold(t->feed);
    struct store *store = t->session->setup.model.store;
    const uint64_t *rows = rows_here(t);
    if (st == ST_OK && rows) st = store_sees_until(store, rows, t->ticket);
    doing_begin(DOING_eval);
    if (st == ST_OK) st = eval_feeds_measure(&t->eval, &t->session->crew, &t->heads, NULL);
    doing_end(DOING_eval);
    if (st == ST_OK) report_eval(&t->report, t->eval.sets.item[i].name, &t->heads, t->eval_step);
    feed_listen(t, t->feed);
    eval_feeds_shut(&t->eval); /* until then their threads use the store */
    if (rows) store_sees_all(store);
    feed_let_go(t->feed);
    trace_span(TRACE_EVAL, "eval", begin, clock_ns(), t->eval_step, 0);
    trace_tell();
    if (st == ST_OK) st = evaluation_judge(t, i == 0, is_better);
    report_pause(&t->report, clock_ns() - begin);
    return st;
}

/* Evaluates every set, unless this has been done after this step. Several nodes do it together, with the same
 * result. */
static status evaluate(struct trainer *t)
{
    if (t->eval_step == t->session->setup.model.progress.step) return ST_OK;
    t->eval_step = t->session->setup.model.progress.step;
    status st = ST_OK;
    for (uint32_t i = 0; i < t->eval.sets.count && st == ST_OK; i++) {
        bool is_better = false;
        st = evaluate_set(t, i, &is_better);
        if (is_better) TRY(train_best_save(t));
    }
    return st == ST_STOPPED ? ST_OK : st; /* the caller sees the signal too, and saves first */
}

/* The first step after `step` that is a multiple of `every`; 0: never. */
static uint64_t next_multiple(uint64_t step, uint64_t every) { return every ? (step / every + 1) * every : UINT64_MAX; }

static status evaluate_due(struct trainer *t)
{
    status st = evaluate(t);
    return st == ST_OK || st == ST_DIVERGED ? st : train_save_and_fail(t, st);
}

static status due(struct trainer *t)
{
    const struct settings *settings = &t->session->setup.settings;
    uint64_t step = t->session->setup.model.progress.step;
    TRY(train_save_due(t));
    if (settings->eval_every && step % settings->eval_every == 0) TRY(evaluate_due(t));
    return ST_OK;
}

/* Evaluates if an evaluation was due at the save's step: it decides about stopping, and the run that made the
 * save may have ended before it. */
static status due_at_resume(struct trainer *t)
{
    uint64_t step = t->session->setup.model.progress.step, every = t->session->setup.settings.eval_every;
    bool is_due =
        t->stop.head && step && every && step % every == 0 && t->session->setup.model.best.evaluated_step != step;
    return is_due ? evaluate_due(t) : ST_OK;
}

/* Collects the accounts of tables, on all nodes; numbers of rows are exact from here on. */
static status tables_count(struct trainer *t)
{
    struct model *model = &t->session->setup.model;
    status st = feed_hold(t->feed);
    if (st == ST_OK)
        st = t->node ? reduce_tables_count(node_reduce(t->node), t->accounts)
                     : model_tables_count(model, t->row_count, t->ticket, t->accounts);
    feed_let_go(t->feed);
    for (uint32_t i = 0; i < t->graph->table_count && st == ST_OK; i++) t->row_count[i] = t->accounts[i].row_count;
    return st;
}

/* Saves a model of several nodes that begins a new pass: after a loss they go on from the last save with
 * --resume, which has to be of this pass. */
static status continued_save(struct trainer *t)
{
    if (t->node == NULL || !t->options->is_new_pass || t->options->out == NULL) return ST_OK;
    TRY(tables_count(t));
    return train_save(t, SAVE_UNCHECKED);
}

/* After a pass that others follow: evaluates. */
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

/* Compares the plan with what the pipeline has done, and changes to a better plan where there is one. */
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
        if (st != ST_OK) return train_save_and_fail(t, st);
        report_replan(&t->report, p->step, why, is_changed);
        report_pause(&t->report, clock_ns() - begin);
    }
    double every = (double)(p->step - t->look_step) * LOOK_SECONDS / (seconds > 1e-3 ? seconds : 1e-3);
    t->look_every = every < 1 ? 1 : every > 1e9 ? 1000000000 : (uint64_t)every;
    look_begin(t);
    return ST_OK;
}

/* At the feed's end: unless a bound or a signal has ended it, notes how many examples a whole pass has. */
static void pass_note(struct trainer *t)
{
    const struct settings *settings = &t->session->setup.settings;
    struct progress *p = &t->session->setup.model.progress;
    bool is_bounded = settings->train_steps_max && p->step - p->first_step >= settings->train_steps_max;
    bool is_last = p->epoch - p->first_epoch + 1 == settings->train_epochs;
    if (!train_is_stopped(t) && !is_bounded && is_last) p->pass_examples = p->epoch_examples;
}

static status loop(struct trainer *t)
{
    const struct settings *settings = &t->session->setup.settings;
    const struct progress *progress = &t->session->setup.model.progress, from = *progress;
    TRY(feed_start(t->feed, &from));
    feed_listen(t, t->feed);
    t->look_every = LOOK_EVERY_FIRST;
    look_begin(t);
    t->save_ns = t->look_ns;
    if (t->stop.head && settings->eval_every == 0) t->epoch_until = from.epoch + 1;
    TRY(continued_save(t));
    TRY(due_at_resume(t));
    const struct train_watch *watch = t->options->watch;
    if (watch) watch->begun(watch->context, t->feed, &from);
    for (bool is_end = false; !is_end && !train_is_stopped(t) && !early_stop_is_over(&t->stop);) {
        uint64_t step = progress->step, save_step = next_multiple(step, settings->checkpoint_every),
                 eval_step = next_multiple(step, settings->eval_every),
                 until = save_step < eval_step ? save_step : eval_step;
        if (t->session->replanner && t->look_step + t->look_every < until) until = t->look_step + t->look_every;
        struct train_job job = {.feed = t->feed,
                                .step_until = until,
                                .epoch_until = t->epoch_until,
                                .forward_done = t->progressive ? forward_done : NULL,
                                .step_done = step_done,
                                .tick = tick,
                                .context = t};
        t->is_woken = false;
        status st = pipeline_train(t->session->crew.pipeline, &job, &is_end);
        /* Before nodes talk of anything else: rank 0 may wait for the others' part of the standing. */
        if (st == ST_OK) standing_look(t);
        if (st == ST_OK && is_end) st = train_nodes_reading(t);
        if (t->node == NULL) t->save_is_timed = train_saves_time(t);
        if (st == ST_OK) st = train_nodes_job_end(t, &is_end);
        if (st != ST_OK) return train_fail_unsaved(t, st);
        look_tell(t, false);
        if (failure_is(&t->standing_failure)) return train_fail_unsaved(t, failure_adopt(&t->standing_failure));
        if (t->save_result != ST_OK) return train_fail_unsaved(t, t->save_result);
        if (is_end) st = train_nodes_data_end(t);
        if (st != ST_OK && stop_requested() && t->node == NULL) {
            /* Ctrl-C also reaches the program that writes to our pipe, which may leave half a line. */
            log_warning("%s; ignored, since a signal asks to stop", status_message());
            return ST_OK;
        }
        if (st != ST_OK) return progress->step > from.step ? train_save_and_fail(t, st) : st;
        if (is_end) pass_note(t);
        t->is_woken |= t->save_is_timed;
        if (progress->step > step || t->is_woken) TRY(due(t));
        bool is_pass_over = t->epoch_until && !is_end && !train_is_stopped(t) && !t->is_woken && progress->step < until;
        if (is_pass_over) TRY(pass_due(t));
        if (!is_end && !train_is_stopped(t)) TRY(plan_look(t));
    }
    return ST_OK;
}

/* --- a run ------------------------------------------------------------------------------------ */

/* In place of training: uses the model. */
static status use(struct trainer *t)
{
    const struct train_use *use = t->options->use;
    const struct train_watch *watch = t->options->watch;
    if (watch) watch->begun(watch->context, NULL, &t->session->setup.model.progress);
    stop_listen(NULL, NULL); /* forward passes and writers look for signals by themselves */
    doing_begin(DOING_eval);
    const status st = use->run(use->context, t->session, &t->eval);
    doing_end(DOING_eval);
    if (st == ST_STOPPED) FAIL(AGAIN, "stopped by a signal before all was done");
    return st;
}

/* Ends a training that had nothing left to train, as it would have ended. Whoever gives the same command
 * again, as nodes do that have lost one behind the last save, has not expected more. */
static status nothing_left(struct trainer *t, uint64_t first_pass_examples)
{
    const struct settings *settings = &t->session->setup.settings;
    const struct progress *p = &t->session->setup.model.progress;
    const bool is_early = early_stop_is_over(&t->stop);
    if (t->options->is_again)
        log_info("complete the training had come to its end, at step %" PRIu64, p->step);
    else if (is_early)
        log_warning("nothing to train: the model has stopped early, and train.patience = %u", settings->train_patience);
    else
        log_warning("nothing to train: the model is at step %" PRIu64 ", in pass %" PRIu64
                    " of its data, and train.epochs = %u, train.steps_max = %" PRIu64
                    "; give more of one of them by --set, or, for other data or one more pass, --continue %s",
                    p->step, p->epoch - p->first_epoch + 1, settings->train_epochs, settings->train_steps_max,
                    t->options->resume);
    uint32_t is_due = !is_early && p->pass_examples != first_pass_examples; /* or --out is another directory */
    if (t->options->out && model_dir_find(t->options->out) != ST_OK) is_due = true;
    if (t->node) TRY(reduce_tell(node_reduce(t->node), &is_due, sizeof is_due));
    if (is_due) TRY(train_save(t, SAVE_AND_WAIT));
    TRY(evaluate(t));
    if (is_early || t->options->is_again) train_best_tell(t);
    return ST_OK;
}

static status train(struct trainer *t)
{
    struct session *s = t->session;
    TRY(train_open(t));
    if (t->options->dry_run) return ST_OK;
    TRY(train_best_open(t));
    if (t->options->look) return t->options->look(t->options->look_context, s, t->options, &t->eval.sets);
    t->recovers = t->options->resume != NULL && t->options->use == NULL;
    if (t->recovers) doing_begin(DOING_recovery);
    TRY(train_model_fill(t));
    train_best_look(t);
    doing_begin(DOING_handshake);
    const status st = train_nodes_begin(t);
    doing_end(DOING_handshake);
    TRY(st);
    if (t->options->use) return use(t);
    const uint64_t first_step = s->setup.model.progress.step,
                   first_pass_examples = s->setup.model.progress.pass_examples;
    report_start(&t->report, s);
    const bool has_board = t->options->tensorboard && (t->node == NULL || node_index(t->node) == 0);
    if (has_board) TRY(report_scalars_open(&t->report, t->options->tensorboard, first_step + 1));
    if (!t->options->out) report_unsaved("the model goes when the run ends, for --out DIR is not given");
    TRY(store_touch_start(s->setup.model.store, feed_example_estimate(t->feed)));
    const status done = loop(t);
    recovery_end(t); /* if there was no step left */
    TRY(done);
    look_tell(t, true);
    if (t->node) TRY(reduce_agree(node_reduce(t->node), ST_OK));
    const struct progress *progress = &s->setup.model.progress;
    bool is_begin = progress->step == progress->first_step && progress->epoch_examples == 0;
    if (is_begin && s->setup.settings.train_epochs > 0 && !train_is_stopped(t))
        FAIL(INVALID, "%s: no examples%s", feed_paths(t->feed), feed_nothing_text(t->feed));
    if (s->setup.model.progress.step > first_step) {
        t->is_over = !train_is_stopped(t);
        standing_take(t);
        TRY(standing_tell(t));
    }
    TRY(train_save_settle(t));
    TRY(tables_count(t));
    report_done(&t->report, &s->setup.model.progress, t->accounts, feed_counts(t->feed));
    TRY(train_nodes_tell(t, progress->step - first_step));
    if (progress->step == first_step && first_step && (early_stop_is_over(&t->stop) || !train_is_stopped(t)))
        return nothing_left(t, first_pass_examples);
    TRY(train_save(t, SAVE_AND_WAIT));
    if (!train_is_stopped(t) && !t->options->out) report_unsaved("nothing is kept; with --out DIR the model would be");
    if (!train_is_stopped(t)) TRY(evaluate(t));
    if (!train_is_stopped(t)) train_best_tell(t);
    if (!train_is_stopped(t)) return ST_OK;
    if (t->node) return train_nodes_stopped(t);
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
                        .node = session->node,
                        .begun_step = UINT64_MAX,
                        .saved_step = UINT64_MAX,
                        .eval_step = UINT64_MAX};
    struct failure failure;
    failure_keep(&failure, train(&t));
    /* A node's links end after the feed's thread, which sends by them, and before the
     * feed's memory, which they send. */
    if (t.node) reduce_stream_end(node_reduce(t.node));
    if (t.node) feed_end(t.feed);
    const status st = session_end(session, failure_adopt(&failure));
    stop_listen(NULL, NULL);
    if (options->watch) options->watch->ending(options->watch->context);
    saver_close(t.saver);
    trace_tell(); /* while the names in the trace exist */
    eval_feeds_close(&t.eval);
    pipeline_forget(session->crew.pipeline);
    feed_close(t.feed);
    progressive_close(t.progressive);
    heads_close(&t.heads);
    if (options->use) options->use->close(options->use->context);
    event_file_close(t.report.scalars);
    free(t.best_path);
    arena_close(&t.arena);
    first_rows_close(t.first_rows);
    return st;
}
