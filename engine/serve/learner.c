/* Learns from texts, and answers them with sequence numbers. */
#include "engine/serve/learner.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cores.h"
#include "engine/base/log.h"
#include "engine/base/scope.h"
#include "engine/base/stop.h"
#include "engine/base/thread.h"
#include "engine/model/model_saved.h"
#include "engine/run/report.h"
#include "engine/run/train.h"

/* "18446744073709551615\n", and a 0 */
#define LINE_BYTES 24u
#define BAD_LINE   "nan\n"
/* Examples of a piece of an answer, and between reader and answerer; the reader itself is the answerer. */
#define PIECE_EXAMPLES 512u

struct learner {
    struct learner_options options;
    struct scope *scope;
    struct desk *desk;
    struct reader_texts texts;
    struct train_watch watch;
    struct session session;
    pthread_t thread;
    bool is_started;
    /* the reader's */
    uint64_t read;
    bool is_inside, is_bad; /* inside: within a text; bad: the present example's line is malformed */
    /* under the lock */
    pthread_mutex_t lock;
    pthread_cond_t has_begun;
    bool is_begun, is_over;
    struct feed *feed; /* NULL: not open yet, or no more */
    struct learner_state state;
    struct learner_figure *figure; /* [figure_max] */
    uint32_t figure_count;
    struct failure failure;
    /* set once */
    uint32_t batch, figure_max;
    /* seen by all */
    _Atomic uint64_t shared_read, shared_learned, shared_saved, shared_bad, shared_step;
    _Atomic bool shared_has_ended; /* learning has ended */
    _Atomic bool shared_is_over;   /* the thread no longer reads the desk, either */
};

/* --- texts, for the reader -------------------------------------------------------------------- */

/* Answers the last example that the desk was given. */
static void example_answer(struct learner *l, const char *line)
{
    const struct desk_example example = desk_next(l->desk);
    char *to = desk_room(l->desk);
    const size_t bytes = example.is_extra ? 0 : strlen(line);
    memcpy(to, line, bytes);
    desk_wrote(l->desk, &example, bytes);
    if (example.is_last) desk_flush(l->desk);
}

/* Ends a text that is refused: what is left of it has no lines. */
static void text_end(struct learner *l)
{
    const struct reader_texts *desk = desk_texts(l->desk);
    desk->example(desk->context, true, true);
    example_answer(l, "");
}

static bool texts_next(void *context, const char **text, size_t *bytes)
{
    struct learner *l = context;
    const struct reader_texts *desk = desk_texts(l->desk);
    char why[DESK_WHY_BYTES];
    while (desk->next(desk->context, text, bytes)) {
        const struct ask_wants wants = desk_reading(l->desk)->wants;
        l->is_inside = true;
        if (!wants.has_after || wants.after == l->read) return true;
        snprintf(why, sizeof why, "expected to follow sequence number %" PRIu64 ", found %" PRIu64 " as the last one",
                 wants.after, l->read);
        desk_misplace(l->desk, why);
        text_end(l);
    }
    l->is_inside = false;
    return false;
}

/* Never dry: a step waits for its lines, however late they come. */
static bool texts_is_dry(void *context)
{
    (void)context;
    return false;
}

static void texts_example(void *context, bool is_last, bool is_extra)
{
    struct learner *l = context;
    const struct reader_texts *desk = desk_texts(l->desk);
    char line[LINE_BYTES] = BAD_LINE;
    if (!is_extra && !l->is_bad) snprintf(line, sizeof line, "%" PRIu64 "\n", ++l->read);
    l->is_bad = false;
    l->is_inside = !is_last;
    /* Relaxed, here and below: figures; a thread that waits for a value looks again. */
    atomic_store_explicit(&l->shared_read, l->read, memory_order_relaxed);
    desk->example(desk->context, is_last, is_extra);
    example_answer(l, line);
}

static void texts_bad(void *context, uint64_t number, const char *why, bool is_whole)
{
    struct learner *l = context;
    const struct reader_texts *desk = desk_texts(l->desk);
    l->is_bad = !is_whole;
    atomic_fetch_add_explicit(&l->shared_bad, 1, memory_order_relaxed);
    desk->bad(desk->context, number, why, is_whole);
}

/* --- what the training tells ------------------------------------------------------------------ */

static void on_step(void *context, const struct progress *progress, const uint64_t *row_count)
{
    struct learner *l = context;
    (void)row_count;
    atomic_store_explicit(&l->shared_step, progress->step, memory_order_relaxed);
    atomic_store_explicit(&l->shared_learned, progress->examples, memory_order_relaxed);
}

static void on_saved(void *context, const struct progress *progress, double seconds)
{
    struct learner *l = context;
    (void)seconds;
    /* Release pairs with the acquire in learner_look(): a thread that sees the figure finds the save. */
    atomic_store_explicit(&l->shared_saved, progress->examples, memory_order_release);
}

static void on_begun(void *context, struct feed *feed, const struct progress *from)
{
    struct learner *l = context;
    pthread_mutex_lock(&l->lock);
    l->feed = feed;
    l->is_begun = true;
    on_saved(l, from, 0);
    on_step(l, from, NULL);
    atomic_store_explicit(&l->shared_read, from->examples, memory_order_relaxed);
    pthread_cond_signal(&l->has_begun);
    pthread_mutex_unlock(&l->lock);
}

static void on_ending(void *context)
{
    struct learner *l = context;
    pthread_mutex_lock(&l->lock);
    l->feed = NULL;
    pthread_mutex_unlock(&l->lock);
    desk_reader_stop(l->desk, true); /* else the feed's thread would wait for texts */
}

static void on_told(void *context, const struct report_progress *progress)
{
    struct learner *l = context;
    const struct heads *heads = progress->heads;
    if (pthread_mutex_trylock(&l->lock) != 0) return; /* no thread waits in steady state: told the next time */
    l->state.window = progress->window;
    l->figure_count = 0;
    for (uint32_t h = 0; progress->window && h < heads->count; h++)
        for (uint32_t k = 0; k < heads->items[h].figure_count; k++) {
            CHECK(l->figure_count < l->figure_max);
            struct learner_figure *f = &l->figure[l->figure_count++];
            snprintf(f->head, sizeof f->head, "%s", heads->items[h].name);
            snprintf(f->key, sizeof f->key, "%s", heads->items[h].figures[k].key);
            f->value = heads->items[h].values[k];
        }
    pthread_mutex_unlock(&l->lock);
}

/* --- the training ----------------------------------------------------------------------------- */

/* Changes settings with which a training would do other than one pass over lines as they come. All others
 * stay, so that the saves are those of such a pass over a file. */
static void settings_adapt(struct settings *s)
{
    s->train_epochs = 1;
    s->train_steps_max = 0;
    s->train_stop = "none";
    s->eval_every = 0;
    s->data_shuffle = 0;
    s->data_eval_fraction = 0;
    s->cache_ram = s->cache_ssd = 0;
    s->checkpoint_every = s->serve_publish;
    s->checkpoint_seconds = 0;
}

/* Whether the save was made within a pass over lines, which then goes on; else another pass begins. */
static status pass_look(const char *model, bool *goes_on)
{
    struct model_saved saved;
    TRY(model_saved_open(&saved, model));
    const struct progress *p = &saved.manifest.progress;
    *goes_on = saved.manifest.data.file_count == 0 && p->epoch_examples > 0 && p->pass_examples != p->epoch_examples;
    model_saved_close(&saved);
    return ST_OK;
}

static status learn(struct learner *l)
{
    const struct learner_options *o = &l->options;
    struct settings *settings = &l->session.setup.settings;
    struct train_options options = {
        .data = "requests", .watch = &l->watch, .out = o->model, .resume = o->model, .resume_command = "--continue"};
    bool goes_on;
    TRY(pass_look(o->model, &goes_on));
    options.is_new_pass = !goes_on;
    settings_adapt(settings);
    TRY(model_resume_check(&l->session.setup.model, o->model, options.is_new_pass));
    TRY(model_dir_check(&l->session.setup.graph, o->model));
    return train_run(&l->session, &options);
}

/* After a failure: refuses all texts, until no more will come. */
static void texts_refuse(struct learner *l, const char *why)
{
    const struct reader_texts *desk = desk_texts(l->desk);
    const char *text;
    size_t bytes;
    desk_reader_stop(l->desk, false);
    for (bool is_inside = l->is_inside; is_inside || desk->next(desk->context, &text, &bytes); is_inside = false) {
        desk_give_up(l->desk, why); /* before the asker gets the last piece */
        text_end(l);
    }
}

static void *learner_main(void *context)
{
    struct learner *l = context;
    char why[DESK_WHY_BYTES];
    status st = learn(l);
    if (st == ST_STOPPED) st = ST_OK;
    session_close(&l->session);
    snprintf(why, sizeof why, "learning has ended%s%.300s", st == ST_OK ? "" : ": ",
             st == ST_OK ? "" : status_message());
    atomic_store_explicit(&l->shared_has_ended, true, memory_order_relaxed);
    pthread_mutex_lock(&l->lock);
    failure_keep(&l->failure, st);
    l->is_over = true;
    const bool was_begun = l->is_begun;
    pthread_cond_signal(&l->has_begun);
    pthread_mutex_unlock(&l->lock);
    if (st != ST_OK && was_begun) log_error("%s", why);
    texts_refuse(l, why);
    /* Release pairs with the acquire in learner_close(). */
    atomic_store_explicit(&l->shared_is_over, true, memory_order_release);
    desk_tell(l->desk);
    return NULL;
}

/* --- opening and closing ---------------------------------------------------------------------- */

static status session_make(struct learner *l)
{
    const struct learner_options *o = &l->options;
    struct cores cores;
    cores_allowed(&cores);
    const uint32_t half = cores.count / 2 ? cores.count / 2 : 1;
    return session_open(
        &l->session, &(struct session_options){
                         .setup = {.graph_path = o->graph, .set = o->set, .set_count = o->set_count, .training = true},
                         .crew = {.threads = o->threads ? o->threads : half, .isa = o->isa}});
}

static status figures_make(struct learner *l)
{
    const struct graph *g = &l->session.setup.graph;
    for (uint32_t i = graph_head_next(g, 0); i < g->forward_count; i = graph_head_next(g, i + 1))
        l->figure_max += HEAD_FIGURES_MAX;
    l->figure = calloc((size_t)l->figure_max + 1, sizeof *l->figure);
    if (l->figure == NULL) FAIL(MEMORY, "no memory for the figures of learning");
    return ST_OK;
}

/* Opens the training, in the learner's scope. The learner's thread closes the session. */
static status parts_open(struct learner *l)
{
    TRY(session_make(l));
    const struct settings *settings = &l->session.setup.settings;
    l->batch = l->session.setup.graph.header->batch;
    status st = figures_make(l);
    if (st == ST_OK)
        st = desk_open(&l->desk, &(struct desk_options){.ask_max = settings->serve_queue,
                                                        .example_max = 2,
                                                        .micro = PIECE_EXAMPLES,
                                                        .line_bytes_max = LINE_BYTES});
    if (st == ST_OK) {
        const int error = thread_start(&l->thread, learner_main, l);
        l->is_started = error == 0;
        if (error) st = status_fail(ST_SYSTEM, __FILE__, __LINE__, "cannot start learning: %s", strerror(error));
    }
    if (st != ST_OK) session_close(&l->session);
    return st;
}

/* Waits until the first step may begin, or never will. */
static status begin_await(struct learner *l)
{
    pthread_mutex_lock(&l->lock);
    while (!l->is_begun && !l->is_over) pthread_cond_wait(&l->has_begun, &l->lock);
    const status st = l->is_begun ? ST_OK : failure_adopt(&l->failure);
    if (st == ST_OK) l->read = atomic_load_explicit(&l->shared_read, memory_order_relaxed);
    pthread_mutex_unlock(&l->lock);
    return st;
}

status learner_open(struct learner **out, const struct learner_options *o)
{
    const enum log_format format = log_format();
    const int verbosity = log_verbosity();
    *out = NULL;
    struct learner *l = aligned_alloc(_Alignof(struct learner), sizeof *l);
    if (l == NULL) FAIL(MEMORY, "no memory for learning");
    memset(l, 0, sizeof *l);
    l->options = *o;
    l->texts = (struct reader_texts){l, texts_next, texts_is_dry, texts_example, texts_bad};
    l->watch = (struct train_watch){l, &l->texts, on_begun, on_ending, on_saved, on_told, on_step, NULL};
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->has_begun, NULL);
    status st = scope_open(&l->scope);
    if (st == ST_OK) {
        struct scope *before = scope_enter(l->scope);
        log_open(format, verbosity - 1);
        st = parts_open(l);
        if (st == ST_OK) st = begin_await(l);
        scope_enter(before);
    }
    if (st == ST_OK) {
        *out = l;
        return ST_OK;
    }
    struct failure failure;
    failure_keep(&failure, st);
    st = learner_close(l, NULL);
    return failure_adopt(&failure);
}

static void answers_drop(const struct answers *a, void (*drop)(void *owner))
{
    for (uint32_t i = 0; i < a->count; i++)
        if (a->piece[i].is_last && drop) drop(a->piece[i].ask->owner);
}

static bool is_over(const struct learner *l) { return atomic_load_explicit(&l->shared_is_over, memory_order_acquire); }

/* Takes all answers, until no more will come. */
static void work_end(struct learner *l, void (*drop)(void *owner))
{
    struct answers *a;
    stop_ask(l->scope, SIGTERM);
    pthread_mutex_lock(&l->lock);
    if (l->feed) feed_interrupt(l->feed); /* before the reader's end, which would end the last step, too */
    pthread_mutex_unlock(&l->lock);
    desk_end(l->desk);
    for (bool was_over = false; !was_over;) {
        struct pollfd wanted = {.fd = desk_fd(l->desk), .events = POLLIN};
        was_over = is_over(l);
        if (!was_over) (void)poll(&wanted, 1, -1);
        desk_quiet(l->desk);
        while (desk_take(l->desk, &a)) {
            answers_drop(a, drop);
            desk_give_back(l->desk, a);
        }
    }
    pthread_join(l->thread, NULL);
}

status learner_close(struct learner *l, void (*drop)(void *owner))
{
    if (l == NULL) return ST_OK;
    if (l->is_started) work_end(l, drop);
    const status st = failure_adopt(&l->failure);
    if (l->scope) {
        struct scope *before = scope_enter(l->scope);
        desk_close(l->desk);
        scope_enter(before);
        scope_close(l->scope);
    }
    pthread_cond_destroy(&l->has_begun);
    pthread_mutex_destroy(&l->lock);
    free(l->figure);
    free(l);
    return st;
}

struct desk *learner_desk(const struct learner *l) { return l->desk; }

void learner_look(struct learner *l, struct learner_state *state)
{
    pthread_mutex_lock(&l->lock);
    *state = l->state;
    state->is_learning = !l->is_over;
    pthread_mutex_unlock(&l->lock);
    state->saved = atomic_load_explicit(&l->shared_saved, memory_order_acquire);
    state->read = atomic_load_explicit(&l->shared_read, memory_order_relaxed);
    state->learned = atomic_load_explicit(&l->shared_learned, memory_order_relaxed);
    state->step = atomic_load_explicit(&l->shared_step, memory_order_relaxed);
    state->bad_lines = atomic_load_explicit(&l->shared_bad, memory_order_relaxed);
}

uint32_t learner_figure_max(const struct learner *l) { return l->figure_max; }

uint32_t learner_figures(struct learner *l, struct learner_figure *to)
{
    pthread_mutex_lock(&l->lock);
    const uint32_t count = l->figure_count;
    memcpy(to, l->figure, count * sizeof *to);
    pthread_mutex_unlock(&l->lock);
    return count;
}

bool learner_is_idle(const struct learner *l)
{
    const uint64_t read = atomic_load_explicit(&l->shared_read, memory_order_relaxed),
                   learned = atomic_load_explicit(&l->shared_learned, memory_order_relaxed);
    return read < learned + l->batch || atomic_load_explicit(&l->shared_has_ended, memory_order_relaxed);
}
