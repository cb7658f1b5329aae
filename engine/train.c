/* One stage on all cores: the whole list of ops runs on one micro-batch after another. */
#include "engine/train.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/evaluate.h"
#include "engine/report.h"
#include "engine/stop.h"

#define LANES_MAX 1024 /* as in cfg/keys.def; the graph's validation holds it too */

struct trainer {
    struct session *session;
    const struct train_options *options;
    const struct graph *graph;
    struct feed *feed, *eval_feed;
    /* sums of gradients, a lane each; zero between steps */
    struct arena arena;
    float **param_grad;  /* [lanes] of [param_floats]                                     */
    float **table_grad;  /* [lanes, table_count] of [step rows, dim]                      */
    uint64_t *row_count; /* [table_count]: rows that exist after the last step, whatever is read ahead */
    /* the step under way */
    double step_loss;
    /* since the last report */
    double loss_sum;
    uint64_t loss_examples;
    struct metrics metrics; /* of evaluations: empty between them                          */
    struct report report;
    uint64_t saved_step; /* of the last save, or UINT64_MAX                              */
    uint64_t eval_step;  /* of the last evaluation, or UINT64_MAX                        */
};

/* --- memory ----------------------------------------------------------------------------------- */

static status gradients_take(struct trainer *t)
{
    const struct graph *g = t->graph;
    struct batch_shape shape = graph_batch(g);
    size_t param_bytes = arena_bytes(g->header->param_floats * sizeof(float)), bytes = 0;
    bytes += arena_bytes(shape.lanes * sizeof *t->param_grad) +
             arena_bytes((size_t)shape.lanes * g->table_count * sizeof *t->table_grad);
    bytes += arena_bytes(g->table_count * sizeof *t->row_count) + shape.lanes * param_bytes;
    for (uint32_t i = 0; i < g->table_count; i++) {
        size_t rows = (size_t)shape.batch * g->tables[i].key_count_max;
        size_t table_bytes = shape.lanes * arena_bytes(rows * g->tables[i].dim * sizeof(float)); /* under 2^60 */
        if (__builtin_add_overflow(bytes, table_bytes, &bytes))
            FAIL(MEMORY,
                 "the gradients of %u lanes need more bytes than any machine has; lower train.batch or train.lanes",
                 shape.lanes);
    }
    TRY(arena_open(&t->arena, "gradients", bytes));
    t->param_grad = arena_take(&t->arena, shape.lanes * sizeof *t->param_grad);
    t->table_grad = arena_take(&t->arena, (size_t)shape.lanes * g->table_count * sizeof *t->table_grad);
    t->row_count = arena_take(&t->arena, g->table_count * sizeof *t->row_count);
    for (uint32_t lane = 0; lane < shape.lanes; lane++) {
        t->param_grad[lane] = arena_take(&t->arena, g->header->param_floats * sizeof(float));
        for (uint32_t i = 0; i < g->table_count; i++)
            t->table_grad[lane * g->table_count + i] = arena_take(
                &t->arena, (size_t)shape.batch * g->tables[i].key_count_max * g->tables[i].dim * sizeof(float));
    }
    return ST_OK;
}

/* --- failure ---------------------------------------------------------------------------------- */

static bool is_finite_view(struct view v)
{
    for (uint32_t r = 0; r < v.rows; r++)
        for (uint32_t i = 0; i < v.cols; i++)
            if (!isfinite(v.data[(size_t)r * v.stride + i])) return false;
    return true;
}

/* Runs the forward list again, op by op, and describes the first whose output is not finite. */
static status diverged(struct trainer *t, const struct op_context *c)
{
    const struct graph *g = t->graph;
    const char *op = "loss", *kind = "";
    for (uint32_t i = 0; i < g->forward_count; i++) {
        TRY(device_submit(t->session->device, c, &g->nodes[i], 1));
        if (is_finite_view(op_out(c, &g->nodes[i]))) continue;
        op = graph_string(g, g->nodes[i].name);
        kind = op_table[g->nodes[i].op].section;
        break;
    }
    char back[512];
    if (t->saved_step != UINT64_MAX)
        snprintf(back, sizeof back, "the model in %s is from step %" PRIu64, t->options->out, t->saved_step);
    else
        snprintf(back, sizeof back, "nothing was saved%s",
                 t->options->out ? " yet; set checkpoint.every" : ": give --out DIR and checkpoint.every");
    FAIL(DIVERGED,
         "step %" PRIu64 ": the loss is not finite; the first such value is in the output of [%s %s]; a lower learning "
         "rate may help; %s",
         c->batch->step, kind, op, back);
}

/* --- a micro-batch and a step ----------------------------------------------------------------- */

static struct op_context context_of(const struct trainer *t, struct slot *slot)
{
    const struct graph *g = t->graph;
    uint32_t lane = batch_lane_of(graph_batch(g), slot->batch.micro_index);
    return (struct op_context){.graph = g,
                               .tensor = slot->tensor,
                               .batch = &slot->batch,
                               .ticket = &slot->ticket,
                               .table_grad = t->table_grad + lane * g->table_count,
                               .seed = g->header->seed,
                               .example_begin = slot->batch.micro_index * g->header->micro,
                               .training = true};
}

/* The forward list, and the sum of the examples' losses; DIVERGED if it is not finite. */
static status forward_run(struct trainer *t, struct slot *slot, double *loss_sum)
{
    const struct graph *g = t->graph;
    struct op_context c = context_of(t, slot);
    TRY(device_submit(t->session->device, &c, g->nodes, g->forward_count));
    struct view loss = slot->tensor[g->header->loss_tensor];
    double sum = 0;
    for (uint32_t b = 0; b < slot->batch.example_count; b++) sum += loss.data[(size_t)b * loss.stride];
    if (!isfinite(sum)) return diverged(t, &c);
    *loss_sum = sum;
    return ST_OK;
}

static status micro_run(struct trainer *t, struct slot *slot)
{
    const struct graph *g = t->graph;
    uint32_t lane = batch_lane_of(graph_batch(g), slot->batch.micro_index);
    for (uint32_t i = 0; i < g->tensor_count; i++)
        if (g->tensors[i].kind == TENSOR_PARAM_GRAD) slot->tensor[i].data = t->param_grad[lane] + g->tensors[i].offset;
    double loss_sum;
    TRY(forward_run(t, slot, &loss_sum));
    t->step_loss += loss_sum;
    struct op_context c = context_of(t, slot);
    return device_submit(t->session->device, &c, g->nodes + g->forward_count, g->node_count - g->forward_count);
}

static status step_update(struct trainer *t, const struct slot *slot)
{
    const struct graph *g = t->graph;
    struct model *model = &t->session->model;
    struct device *device = t->session->device;
    uint32_t lanes = g->header->lanes;
    float scale = 1.0f / (float)slot->batch.step_example_count;
    for (uint32_t i = 0; i < g->update_count; i++) {
        const struct graph_update *u = &g->updates[i];
        const struct graph_optimizer *o = &g->optimizers[u->optimizer];
        if (u->table == GRAPH_NONE) {
            struct param_update update = {.optimizer = o,
                                          .weight = model->param + u->param_offset,
                                          .state = model->state + model->state_offset[i],
                                          .grad = t->param_grad,
                                          .lanes = lanes,
                                          .count = u->param_count,
                                          .scale = scale,
                                          .t = slot->batch.step + 1};
            CHECK(u->param_offset == 0);
            TRY(device->vt->update_params(device, &update));
            continue;
        }
        float *grad[LANES_MAX];
        for (uint32_t lane = 0; lane < lanes; lane++) grad[lane] = t->table_grad[lane * g->table_count + u->table];
        const struct step_rows *rows = &slot->step_rows[u->table];
        struct table_update update = {.table = &g->tables[u->table],
                                      .optimizer = o,
                                      .row_count = rows->row_count,
                                      .span = rows->span,
                                      .grad = grad,
                                      .lanes = lanes,
                                      .scale = scale};
        TRY(device->vt->update_rows(device, &update));
        t->row_count[u->table] = slot->ticket.table[u->table].row_count;
    }
    struct progress *p = &model->progress;
    if (slot->batch.epoch != p->epoch) {
        p->epoch = slot->batch.epoch;
        p->epoch_examples = 0;
    }
    p->step = slot->batch.step + 1;
    p->epoch_examples += slot->batch.step_example_count;
    p->examples += slot->batch.step_example_count;
    t->loss_sum += t->step_loss;
    t->loss_examples += slot->batch.step_example_count;
    t->step_loss = 0;
    return ST_OK;
}

/* --- between steps ---------------------------------------------------------------------------- */

/* A model that has just diverged must not replace a good save: its parameters are finite, and so, where a slot of the step is at
 * hand, are the losses that it gives. */
static status model_check(struct trainer *t, struct slot *slot)
{
    const struct model *model = &t->session->model;
    const struct graph *g = t->graph;
    double loss_sum;
    for (uint64_t i = 0; i < g->header->param_floats; i++)
        if (!isfinite(model->param[i]))
            FAIL(DIVERGED,
                 "step %" PRIu64 ": its update made a parameter that is not finite; a lower learning rate may help",
                 model->progress.step - 1);
    return slot && slot->batch.example_count ? forward_run(t, slot, &loss_sum) : ST_OK;
}

static status save(struct trainer *t, struct slot *slot)
{
    const struct model *model = &t->session->model;
    if (t->options->out == NULL || t->saved_step == model->progress.step) return ST_OK;
    uint64_t begin = clock_ns();
    TRY(model_check(t, slot));
    TRY(model_save(model, t->row_count, t->options->out));
    t->saved_step = model->progress.step;
    report_saved(&t->report, t->options->out, &model->progress, t->row_count, (double)(clock_ns() - begin) * 1e-6);
    return ST_OK;
}

/* After a failure that leaves the model as it was at the last finished step: saves it, and returns the failure. */
static status save_and_fail(struct trainer *t, status failure)
{
    char *message = strdup(status_message());
    status st = save(t, NULL);
    if (st != ST_OK) log_warning("the model could not be saved: %s", status_message());
    st = status_adopt(failure, message ? message : "");
    free(message);
    return st;
}

static status evaluate(struct trainer *t)
{
    if (t->options->eval == NULL || t->eval_step == t->session->model.progress.step) return ST_OK;
    t->eval_step = t->session->model.progress.step;
    uint64_t begin = clock_ns();
    if (t->eval_feed == NULL) TRY(evaluate_open(t->session, t->options->eval, false, false, &t->eval_feed));
    struct metrics_result result;
    stop_listen(feed_wake, t->eval_feed);
    status st = evaluate_measure(t->session, t->eval_feed, &t->metrics, &result);
    stop_listen(feed_wake, t->feed);
    feed_close(t->eval_feed);
    t->eval_feed = NULL;
    report_pause(&t->report, clock_ns() - begin);
    if (st == ST_OK && !isfinite(result.logloss))
        FAIL(DIVERGED, "step %" PRIu64 ": the evaluation's log loss is not finite; a lower learning rate may help",
             t->eval_step);
    return st == ST_STOPPED ? ST_OK : st; /* the caller sees the signal too, and saves first */
}

static status step_done(struct trainer *t, struct slot *slot)
{
    const struct settings *settings = &t->session->settings;
    uint64_t step = t->session->model.progress.step;
    if (report_is_due(&t->report)) {
        report_progress(&t->report, &t->session->model.progress, t->loss_sum / (double)t->loss_examples,
                        feed_counts(t->feed));
        t->loss_sum = 0;
        t->loss_examples = 0;
    }
    if (settings->checkpoint_every && step % settings->checkpoint_every == 0) TRY(save(t, slot));
    if (settings->eval_every && step % settings->eval_every == 0) {
        status st = evaluate(t);
        if (st != ST_OK) return st == ST_DIVERGED ? st : save_and_fail(t, st);
    }
    return ST_OK;
}

static status loop(struct trainer *t)
{
    const struct progress from = t->session->model.progress;
    TRY(feed_start(t->feed, &from));
    stop_listen(feed_wake, t->feed);
    status st = ST_OK;
    for (bool is_stopped = false; !is_stopped && st == ST_OK;) {
        struct slot *slot;
        st = feed_next(t->feed, &slot);
        if (st != ST_OK && stop_requested()) {
            /* Ctrl-C reaches whoever feeds our pipe too, and what it leaves behind may be half a line. */
            log_warning("%s; ignored, since a signal asks to stop", status_message());
            return ST_OK;
        }
        if (st == ST_FULL) st = save_and_fail(t, st);
        if (st != ST_OK || slot == NULL) break;
        if (slot->batch.example_count) st = micro_run(t, slot);
        if (st == ST_OK && slot->batch.is_last) {
            st = step_update(t, slot);
            if (st == ST_OK) st = step_done(t, slot);
            is_stopped = stop_requested();
        }
        feed_release(t->feed, slot);
    }
    return st;
}

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
    const struct settings *s = &t->session->settings;
    if (feed_is_stream(t->feed) && s->train_epochs > 1)
        FAIL(INVALID,
             "%s is a stream and can be read once, but train.epochs = %" PRIu64
             "; give a file, or --set train.epochs=1",
             t->options->data, (uint64_t)s->train_epochs);
    if (t->eval_feed && feed_is_stream(t->eval_feed) && s->eval_every)
        FAIL(INVALID,
             "%s is a stream and can be read once, but eval.every = %" PRIu64 "; give a file, or --set eval.every=0",
             t->options->eval, s->eval_every);
    return ST_OK;
}

/* Settings that ask for what cannot be seen. */
static void settings_check(const struct trainer *t)
{
    const struct settings *s = &t->session->settings;
    struct batch_shape shape = graph_batch(t->graph);
    if (s->checkpoint_every && t->options->out == NULL)
        log_warning("checkpoint.every = %" PRIu64 " saves nothing without --out DIR", s->checkpoint_every);
    if (s->eval_every && t->options->eval == NULL)
        log_warning("eval.every = %" PRIu64 " measures nothing without --eval FILE", s->eval_every);
    if (s->train_micro == 0 && shape.micro < 32 && shape.micro < shape.batch / shape.lanes)
        log_warning(
            "batch / lanes = %u has no divisor from 32 to 256, so micro-batches have %u examples and are slow; choose "
            "another train.batch",
            shape.batch / shape.lanes, shape.micro);
}

static status train(struct trainer *t)
{
    struct session *s = t->session;
    struct feed_options feed = session_feed_options(s, t->options->data);
    feed.training = true;
    feed.epochs = s->settings.train_epochs;
    feed.steps_max = s->settings.train_steps_max;
    feed.reader.shuffle = s->settings.data_shuffle;
    if (t->options->eval && names_stdin(t->options->data) && names_stdin(t->options->eval))
        FAIL(USAGE, "--data and --eval both read standard input; give one of them a file");
    TRY(gradients_take(t));
    TRY(feed_open(&t->feed, &feed));
    if (t->options->eval) {
        TRY(evaluate_open(s, t->options->eval, false, false, &t->eval_feed));
        TRY(evaluate_reserve(t->eval_feed, &t->metrics));
    }
    TRY(streams_check(t));
    settings_check(t);
    session_memory_plan(s);
    TRY(session_memory_check(s));
    if (t->options->resume)
        TRY(model_load(&s->model, t->options->resume));
    else
        model_init(&s->model);
    for (uint32_t i = 0; i < t->graph->table_count; i++) t->row_count[i] = store_row_count(s->model.store, i);
    const uint64_t first_step = s->model.progress.step;
    report_start(&t->report, s);
    status st = loop(t);
    if (st != ST_OK) return st;
    if (s->model.progress.examples == 0 && s->settings.train_epochs > 0 && !stop_requested())
        FAIL(INVALID, "%s: no examples%s", t->options->data,
             feed_counts(t->feed).bad_count ? ": every line is malformed" : "");
    if (t->loss_examples)
        report_progress(&t->report, &s->model.progress, t->loss_sum / (double)t->loss_examples, feed_counts(t->feed));
    report_done(&t->report, &s->model.progress, t->row_count, feed_counts(t->feed));
    if (s->model.progress.step == first_step && first_step && !stop_requested()) {
        log_warning("nothing to train: the model has finished %" PRIu64
                    " passes, and train.epochs = %u, train.steps_max = %" PRIu64,
                    s->model.progress.epoch + 1, s->settings.train_epochs, s->settings.train_steps_max);
        return evaluate(t);
    }
    TRY(save(t, NULL));
    if (!stop_requested()) TRY(evaluate(t));
    if (!stop_requested()) return ST_OK;
    if (t->options->out)
        FAIL(STOPPED, "stopped after step %" PRIu64 "; the model is saved; go on with: %s", s->model.progress.step,
             t->options->resume_command);
    FAIL(STOPPED, "stopped after step %" PRIu64 "; nothing was saved, because --out DIR was not given",
         s->model.progress.step);
}

status train_run(struct session *session, const struct train_options *options)
{
    struct trainer t = {.session = session,
                        .options = options,
                        .graph = &session->graph,
                        .saved_step = UINT64_MAX,
                        .eval_step = UINT64_MAX};
    status st = train(&t);
    stop_listen(NULL, NULL);
    feed_close(t.eval_feed);
    feed_close(t.feed);
    metrics_free(&t.metrics);
    arena_close(&t.arena);
    return st;
}
