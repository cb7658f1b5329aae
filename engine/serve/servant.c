/* Opens a saved model, and answers a desk's texts. */
#include "engine/serve/servant.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/scope.h"
#include "engine/base/thread.h"
#include "engine/eval/evaluate.h"
#include "engine/eval/prediction.h"
#include "engine/eval/rank.h"

/* The most words that a request can ask for; as of eval.top. */
#define SERVANT_TOP_MAX 1000u
#define HTTP_THREADS    1u

struct servant {
    struct scope *scope;
    struct setup setup;
    struct crew crew;
    struct desk *desk;
    struct feed *feed;
    struct prediction prediction;
    /* where words are predicted */
    struct rank *rank;
    struct worded { /* examples whose lines have not come yet */
        struct desk_example example;
        bool has_line;
    } * worded; /* [micro] */
    uint32_t worded_begin, worded_end;
    uint32_t
        line_count; /* examples of the micro-batch at hand that are lines, and do not stand for a text without any */
    pthread_t thread;
    bool is_started;
    /* written by the thread before shared_is_over */
    struct failure result;
    _Atomic bool shared_is_over;
    _Atomic uint64_t shared_batches, shared_examples;
};

/* --- work ------------------------------------------------------------------------------------- */

static void line_put(struct servant *s, const struct desk_example *example, const char *line, size_t bytes)
{
    char *to = desk_room(s->desk);
    if (bytes) memcpy(to, line, bytes);
    desk_wrote(s->desk, example, bytes);
}

static void numbers_answer(struct servant *s, const struct slot *slot)
{
    for (uint32_t b = 0; b < slot->input->batch.example_count; b++) {
        const struct desk_example example = desk_next(s->desk);
        char *line = desk_room(s->desk);
        size_t bytes = 0;
        s->line_count += !example.is_extra;
        if (!example.is_extra) {
            bytes = prediction_write(&s->prediction, slot, b, line);
            line[bytes++] = '\n';
        }
        desk_wrote(s->desk, &example, bytes);
    }
}

/* Answers the next examples, as far as they have no line of their own. */
static void worded_pass(struct servant *s)
{
    for (; s->worded_begin < s->worded_end && !s->worded[s->worded_begin].has_line; s->worded_begin++)
        line_put(s, &s->worded[s->worded_begin].example, "", 0);
}

/* Takes a line of words, for struct rank_lines. */
static status words_take(void *context, uint64_t example, const char *line, size_t bytes)
{
    struct servant *s = context;
    (void)example;
    worded_pass(s);
    CHECK(s->worded_begin < s->worded_end);
    line_put(s, &s->worded[s->worded_begin++].example, line, bytes);
    return ST_OK;
}

static status words_answer(struct servant *s, const struct slot *slot)
{
    const uint32_t usual = s->setup.settings.eval_top;
    s->worded_begin = s->worded_end = 0;
    for (uint32_t b = 0; b < slot->input->batch.example_count; b++) {
        struct worded *w = &s->worded[s->worded_end];
        *w = (struct worded){.example = desk_next(s->desk)};
        const struct ask_wants wants = w->example.ask->wants;
        s->worded_end++; /* before the example's line may come */
        w->has_line = !w->example.is_extra;
        s->line_count += w->has_line;
        if (w->has_line) TRY(rank_add_example(s->rank, slot, b, wants.top ? wants.top : usual, &w->has_line));
        if (w->example.is_last || wants.each) rank_groups_anew(s->rank);
    }
    TRY(rank_flush(s->rank));
    worded_pass(s);
    return ST_OK;
}

static status sink(void *context, const struct slot *slot)
{
    struct servant *s = context;
    s->line_count = 0;
    if (s->rank)
        TRY(words_answer(s, slot));
    else
        numbers_answer(s, slot);
    /* Relaxed: figures for people. */
    atomic_fetch_add_explicit(&s->shared_batches, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->shared_examples, s->line_count, memory_order_relaxed);
    desk_flush(s->desk);
    return ST_OK;
}

static void *servant_main(void *context)
{
    struct servant *s = context;
    failure_keep(&s->result, evaluate_run(&s->crew, s->feed, sink, s));
    /* Release pairs with the acquire in servant_is_over(). */
    atomic_store_explicit(&s->shared_is_over, true, memory_order_release);
    desk_tell(s->desk);
    return NULL;
}

/* --- opening ---------------------------------------------------------------------------------- */

static status desk_make(struct servant *s)
{
    const struct settings *settings = &s->setup.settings;
    const uint32_t micro = s->setup.graph.header->micro;
    const struct desk_options options = {.ask_max = settings->serve_queue,
                                         .example_max = pipeline_input_count(s->crew.pipeline) * micro,
                                         .micro = micro,
                                         .line_bytes_max =
                                             s->rank ? rank_line_bytes_max(s->rank) : s->prediction.line_bytes_max,
                                         .wait_ns = (uint64_t)((double)settings->serve_wait * 1e6)};
    return desk_open(&s->desk, &options);
}

static status words_open(struct servant *s)
{
    const struct rank_lines lines = {s, words_take, SERVANT_TOP_MAX};
    s->worded = calloc(s->setup.graph.header->micro, sizeof *s->worded);
    if (s->worded == NULL) FAIL(MEMORY, "no memory for examples");
    return rank_open(&s->rank, &s->crew, &lines);
}

struct reading {
    struct model *model;
    const char *path;
    struct failure failure;
};

static void *reading_main(void *context)
{
    struct reading *r = context;
    thread_step_back();
    memory_small_pages_set(true);
    failure_keep(&r->failure, model_load(r->model, r->path));
    memory_small_pages_set(false);
    return NULL;
}

/* Reads the model, which is nearly all of opening, on a thread of low priority that never has a processor
 * for long. The caller starts the threads that compute answers, so they keep their priority. */
static status model_load_beside(struct model *model, const char *path)
{
    struct reading r = {.model = model, .path = path};
    pthread_t thread;
    const int error = thread_start(&thread, reading_main, &r);
    if (error) FAIL(SYSTEM, "cannot start a thread that reads a model: %s", strerror(error));
    pthread_join(thread, NULL);
    return failure_adopt(&r.failure);
}

/* Opens all parts, in the servant's scope. */
static status parts_open(struct servant *s, const struct servant_options *o)
{
    TRY(setup_open(
        &s->setup,
        &(struct setup_options){.graph_path = o->graph, .set = o->set, .set_count = o->set_count, .model = o->model}));
    TRY(crew_open(&s->crew, &s->setup,
                  &(struct crew_options){.threads = o->threads, .isa = o->isa, .beside = HTTP_THREADS}));
    TRY(prediction_open(&s->prediction, &s->setup.graph));
    if (prediction_is_words(&s->setup.graph)) TRY(words_open(s));
    TRY(desk_make(s));
    TRY(evaluate_open(&s->crew,
                      &(struct evaluate_options){.paths = "requests",
                                                 .lines = READER_ALL,
                                                 .label_optional = true,
                                                 .bad_keep = true,
                                                 .texts = desk_texts(s->desk)},
                      &s->feed));
    TRY(setup_memory_check(&s->setup));
    TRY((o->is_beside ? model_load_beside : model_load)(&s->setup.model, o->model));
    if (s->rank) TRY(rank_begin(s->rank));
    int error = thread_start(&s->thread, servant_main, s);
    if (error) FAIL(SYSTEM, "cannot start a model's thread: %s", strerror(error));
    s->is_started = true;
    return ST_OK;
}

status servant_open(struct servant **out, const struct servant_options *o)
{
    const enum log_format format = log_format();
    const int verbosity = log_verbosity();
    struct servant *s = calloc(1, sizeof *s);
    *out = NULL;
    if (s == NULL) FAIL(MEMORY, "no memory for a model at work");
    status st = scope_open(&s->scope);
    if (st == ST_OK) {
        struct scope *before = scope_enter(s->scope);
        log_open(format, verbosity);
        st = parts_open(s, o);
        scope_enter(before);
    }
    if (st != ST_OK)
        servant_close(s, NULL);
    else
        *out = s;
    return st;
}

static void answers_drop(const struct answers *a, void (*drop)(void *owner))
{
    for (uint32_t i = 0; i < a->count; i++)
        if (a->piece[i].is_last) drop(a->piece[i].ask->owner);
}

/* Takes all answers, until no more will come: the micro-batches at work are the last, whatever waits. */
static void work_end(struct servant *s, void (*drop)(void *owner))
{
    struct answers *a;
    desk_reader_stop(s->desk, true);
    feed_interrupt(s->feed);
    desk_end(s->desk);
    for (bool is_over = false; !is_over;) {
        struct pollfd wanted = {.fd = desk_fd(s->desk), .events = POLLIN};
        if (!servant_is_over(s)) (void)poll(&wanted, 1, -1);
        is_over = servant_is_over(s); /* looked at first: what came before it is taken below */
        desk_quiet(s->desk);
        while (desk_take(s->desk, &a)) {
            answers_drop(a, drop);
            desk_give_back(s->desk, a);
        }
    }
    pthread_join(s->thread, NULL);
    desk_clear(s->desk, drop);
}

void servant_close(struct servant *s, void (*drop)(void *owner))
{
    if (s == NULL) return;
    if (s->is_started) work_end(s, drop);
    if (s->scope) {
        struct scope *before = scope_enter(s->scope);
        feed_close(s->feed);
        rank_close(s->rank);
        free(s->worded);
        desk_close(s->desk);
        prediction_close(&s->prediction);
        crew_close(&s->crew);
        setup_close(&s->setup);
        scope_enter(before);
        scope_close(s->scope);
    }
    free(s);
}

uint32_t servant_top_max(const struct servant *s) { return s->rank ? SERVANT_TOP_MAX : 0; }
struct desk *servant_desk(const struct servant *s) { return s->desk; }
const struct setup *servant_setup(const struct servant *s) { return &s->setup; }

bool servant_is_over(const struct servant *s)
{
    /* Acquire pairs with the release in servant_main(): the result comes before it. */
    return atomic_load_explicit(&s->shared_is_over, memory_order_acquire);
}

status servant_result(const struct servant *s) { return failure_adopt(&s->result); }

struct servant_counts servant_counts(const struct servant *s)
{
    return (struct servant_counts){
        .batches = atomic_load_explicit(&s->shared_batches, memory_order_relaxed),
        .examples = atomic_load_explicit(&s->shared_examples, memory_order_relaxed),
        .bad_lines = feed_counts(s->feed).bad_count,
    };
}
