/* The loop of a training: at which steps it saves and evaluates, where it goes on and where it ends, and what
 * is left of a run that fails. Ten steps of 32 examples are a pass. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/run/train_fixture.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "engine/base/file.h"
#include "engine/base/stop.h"
#include "engine/run/report.h"

/* The clock of this program and of what is linked to it: behind by that, and each look at it makes up a part
 * of it; 0: as it is. Never ahead, for the kernel waits by its own. */
#define LOOK_NS INT64_C(100000000)
static _Atomic int64_t shared_lag_ns;
static _Atomic uint64_t shared_main_looks; /* how often the main thread has looked at it */
int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (syscall(SYS_clock_gettime, clock, now) != 0) return -1;
    if (syscall(SYS_gettid) == getpid()) atomic_fetch_add(&shared_main_looks, 1);
    int64_t lag_ns = clock == CLOCK_MONOTONIC ? atomic_load(&shared_lag_ns) : 0;
    if (lag_ns <= 0) return 0;
    atomic_compare_exchange_strong(&shared_lag_ns, &lag_ns, lag_ns > LOOK_NS ? lag_ns - LOOK_NS : 0);
    const int64_t ns = now->tv_sec * INT64_C(1000000000) + now->tv_nsec - lag_ns;
    *now = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    return 0;
}

/* --- what falls due when ------------------------------------------------------------------------ */

static void train_run__checkpoint_and_eval_every__at_multiples_and_at_the_end(void **state)
{
    (void)state;
    static const char *const set[] = {"checkpoint.every=3", "checkpoint.wait=yes", "checkpoint.keep=2", "eval.every=4",
                                      NULL};
    struct opened o;
    const char *out = fixture_path("due");
    assert_ok(trained(&o, &(struct train_options){.eval = eval_sets_of(eval_path), .out = out}, set));
    assert_string_equal(event_steps(&o, "checkpoint"), "3 6 9 10");
    assert_string_equal(event_steps(&o, "eval"), "4 8 10");
    assert_string_equal(event_steps(&o, "done"), "10");
    assert_int_equal(event_number(&o, "done", "samples"), STEPS * BATCH);
    assert_int_equal(event_number(&o, "done", "saves"), 3); /* the last save comes after the event */
    assert_int_equal(event_number(&o, "done", "saves_late"), 0);
    assert_int_equal(saved_progress(out).step, 10);
    opened_close(&o);
}

/* What is due at the last step anyway is done once. */
static void train_run__last_step_is_a_multiple__saved_and_evaluated_once(void **state)
{
    (void)state;
    static const char *const set[] = {"checkpoint.every=5", "checkpoint.wait=yes", "eval.every=5", NULL};
    struct opened o;
    assert_ok(trained(&o, &(struct train_options){.eval = eval_sets_of(eval_path), .out = fixture_path("once")}, set));
    assert_string_equal(event_steps(&o, "checkpoint"), "5 10");
    assert_string_equal(event_steps(&o, "eval"), "5 10");
    opened_close(&o);
}

static void train_run__nothing_asked_for__one_save_and_evaluation_at_the_end(void **state)
{
    (void)state;
    struct opened o;
    assert_ok(trained(&o, &(struct train_options){.eval = eval_sets_of(eval_path), .out = fixture_path("end")}, NULL));
    assert_string_equal(event_steps(&o, "checkpoint"), "10");
    assert_string_equal(event_steps(&o, "eval"), "10");
    opened_close(&o);
}

/* Each of the three warnings where there is reason to, and only there. */
static void train_run__settings_that_come_to_nothing__are_warned_of(void **state)
{
    (void)state;
    static const struct {
        const char *set[4];
        bool out, eval;
        const char *told; /* NULL: nothing */
    } cases[] = {
        {{NULL}, false, false, NULL},
        {{"checkpoint.every=3", NULL}, false, false, "checkpoint.every = 3 saves nothing without --out DIR"},
        {{"checkpoint.every=3", NULL}, true, false, NULL},
        {{"checkpoint.seconds=2.5", NULL}, false, false, "checkpoint.seconds = 2.5 saves nothing without --out DIR"},
        {{"eval.every=4", NULL}, false, false, "eval.every = 4 measures nothing without --eval FILE"},
        {{"eval.every=4", NULL}, false, true, NULL},
        {{"train.batch=521", "train.lanes=1", NULL},
         false,
         false,
         "batch / lanes = 521 has no divisor from 32 to 512, so micro-batches have 1 examples and are slow; "
         "choose another train.batch"},
        {{"train.batch=521", "train.lanes=1", "train.micro=1", NULL}, false, false, NULL},
        {{"train.batch=31", "train.lanes=1", NULL}, false, false, NULL}, /* one micro-batch */
        {{"train.batch=544", "train.lanes=1", NULL}, false, false, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct opened o;
        const struct train_options options = {.out = cases[i].out ? fixture_path("warned") : NULL,
                                              .eval = cases[i].eval ? eval_sets_of(eval_path)
                                                                    : (struct eval_sets){.count = 0}};
        assert_ok(trained(&o, &options, cases[i].set));
        size_t index, count = 0;
        json_t *event;
        json_array_foreach(o.events, index, event)
        {
            if (strcmp(json_string_value(json_object_get(event, "event")), "warning") != 0) continue;
            const char *text = json_string_value(json_object_get(event, "text"));
            if (cases[i].told == NULL || strcmp(text, cases[i].told) != 0) fail_msg("case %zu: warning: %s", i, text);
            count++;
        }
        assert_int_equal(count, cases[i].told != NULL);
        opened_close(&o);
    }
}

/* --- where it begins and ends -------------------------------------------------------------------- */

static void train_run__steps_max__ends_there_in_whatever_pass(void **state)
{
    (void)state;
    static const char *const set[] = {"train.steps_max=13", "train.epochs=3", NULL};
    struct opened o;
    const char *out = fixture_path("bound");
    assert_ok(trained(&o, &(struct train_options){.out = out}, set));
    assert_string_equal(event_steps(&o, "done"), "13");
    const struct progress p = saved_progress(out);
    assert_int_equal(p.step, 13);
    assert_int_equal(p.epoch, 1);
    assert_int_equal(p.epoch_examples, 3 * BATCH);
    assert_int_equal(p.examples, 13 * BATCH);
    assert_int_equal(p.pass_examples, STEPS * BATCH);
    opened_close(&o);
}

/* The files of a save hold the same, but for the recipe's text: values, rows in their order, progress. */
static void assert_same_model(const char *path, const char *other)
{
    struct model_saved a, b;
    assert_ok(model_saved_open(&a, path));
    assert_ok(model_saved_open(&b, other));
    assert_ok(model_saved_verify(&a));
    assert_ok(model_saved_verify(&b));
    assert_memory_equal(&a.manifest.progress, &b.manifest.progress, sizeof a.manifest.progress);
    assert_int_equal(a.dense_map.bytes, b.dense_map.bytes);
    assert_memory_equal(a.dense_map.data, b.dense_map.data, a.dense_map.bytes);
    assert_int_equal(a.manifest.table_count, 1);
    assert_int_equal(b.manifest.table_count, 1);
    assert_int_equal(a.manifest.tables[0].part[0].file.xxh3, b.manifest.tables[0].part[0].file.xxh3);
    assert_true(a.manifest.tables[0].rows > 100);
    model_saved_close(&a);
    model_saved_close(&b);
}

static void train_run__resumed__goes_on_behind_the_save_and_ends_as_one_run_would(void **state)
{
    (void)state;
    static const char *const first[] = {"train.steps_max=4", "train.epochs=2", NULL},
                             *const rest[] = {"train.epochs=2", "eval.every=9", NULL},
                             *const whole[] = {"train.epochs=2", NULL};
    char out[256], all[256];
    struct opened o;
    snprintf(out, sizeof out, "%s", fixture_path("resumed"));
    snprintf(all, sizeof all, "%s", fixture_path("whole"));
    assert_ok(trained(&o, &(struct train_options){.out = out}, first));
    opened_close(&o);
    assert_ok(trained(&o, &(struct train_options){.out = out, .resume = out, .eval = eval_sets_of(eval_path)}, rest));
    assert_string_equal(event_steps(&o, "start"), "4");
    assert_string_equal(event_steps(&o, "eval"), "9 18 20");
    assert_int_equal(event_number(&o, "done", "samples"), 16 * BATCH);
    opened_close(&o);
    assert_ok(trained(&o, &(struct train_options){.out = all}, whole));
    opened_close(&o);
    assert_same_model(out, all);
}

/* Within a pass the order of what is left of it must stay.
 * After a pass it may change, whichever pass that was. */
static void train_run__resumed_with_another_order__refused_within_a_pass_only(void **state)
{
    (void)state;
    static const struct {
        const char *steps;
        status expected;
    } cases[] = {{"train.steps_max=13", ST_INVALID}, {"train.steps_max=20", ST_OK}, {"train.steps_max=27", ST_INVALID}};
    static const char *const other[] = {"train.epochs=3", "data.shuffle=50", NULL};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const set[] = {"train.epochs=3", cases[i].steps, NULL};
        char out[256];
        struct opened o;
        snprintf(out, sizeof out, "%s", fixture_path(cases[i].steps));
        assert_ok(trained(&o, &(struct train_options){.out = out}, set));
        opened_close(&o);
        assert_int_equal(saved_progress(out).pass_examples, STEPS * BATCH);
        assert_int_equal(trained(&o, &(struct train_options){.out = out, .resume = out}, other), cases[i].expected);
        if (cases[i].expected != ST_OK) assert_message("data.shuffle was 0");
        opened_close(&o);
    }
}

static void train_run__resumed_at_its_end__trains_nothing_and_says_so(void **state)
{
    (void)state;
    struct opened o;
    const char *out = fixture_path("ended");
    assert_ok(trained(&o, &(struct train_options){.out = out}, NULL));
    opened_close(&o);
    assert_ok(trained(&o, &(struct train_options){.out = out, .resume = out, .eval = eval_sets_of(eval_path)}, NULL));
    assert_string_equal(event_steps(&o, "checkpoint"), "");
    assert_string_equal(event_steps(&o, "eval"), "10");
    assert_non_null(strstr(event_text(&o, "warning", "text"), "nothing to train"));
    opened_close(&o);
    /* by the same command: it has come to its end, as expected */
    const struct train_options again = {.out = out, .resume = out, .is_again = true, .eval = eval_sets_of(eval_path)};
    assert_ok(trained(&o, &again, NULL));
    assert_string_equal(event_steps(&o, "checkpoint"), "");
    assert_string_equal(event_steps(&o, "eval"), "10");
    assert_string_equal(event_steps(&o, "warning"), "");
    opened_close(&o);
}

/* What one who follows a training hears, and in which order: begun, the rest, ending. */
struct follower {
    uint32_t begun, ending, saved, steps, looks, told, wrong;
    uint64_t rows, saved_step;
    double loss[64], rate[64];
    struct train_look last;
};
static void on_begun(void *context, struct feed *feed, const struct progress *from)
{
    struct follower *f = context;
    f->wrong += feed == NULL || from->step != 0 || f->steps > 0;
    f->begun++;
}
static void on_ending(void *context) { ((struct follower *)context)->ending++; }
static void on_saved(void *context, const struct progress *progress, double seconds)
{
    struct follower *f = context;
    f->wrong += !(seconds > 0) || f->begun != 1;
    f->saved_step = progress->step;
    f->saved++;
}
static void on_told(void *context, const struct report_progress *progress)
{
    struct follower *f = context;
    f->wrong += f->told >= 64 || f->ending > 0;
    f->loss[f->told % 64] = progress->loss;
    f->rate[f->told++ % 64] = progress->rate;
}
static void on_step(void *context, const struct progress *progress, const uint64_t *row_count)
{
    struct follower *f = context;
    f->wrong += progress->step != ++f->steps || progress->examples != (uint64_t)f->steps * BATCH || f->begun != 1;
    f->wrong += *row_count < f->rows;
    f->rows = *row_count;
}
static void on_looked(void *context, const struct train_look *look)
{
    struct follower *f = context;
    f->wrong += look->times.wall_ns < f->last.times.wall_ns || f->last.is_over;
    f->last = *look;
    f->looks++;
}

/* The model stays as it is, and the data are those of the evaluation: whenever progress is told, all that has
 * been told comes to the evaluation's loss. */
static void train_run__progress__is_the_mean_loss_since_the_last_one(void **state)
{
    (void)state;
    static const char *const set[] = {"train.optimizer=sgd 1e-30", "emb.optimizer=sgd 1e-30", "emb.unseen=init",
                                      "train.epochs=12",           "eval.every=10",           NULL};
    struct opened o;
    struct timespec now;
    char same[256];
    snprintf(same, sizeof same, "%s", fixture_path("same.tsv"));
    fixture_data(same, 0, STEPS * BATCH, NULL);
    clock_gettime(CLOCK_MONOTONIC, &now);
    atomic_store(&shared_lag_ns, (int64_t)now.tv_sec * 500000000);
    struct follower f = {0};
    const struct train_watch watch = {&f, NULL, on_begun, on_ending, on_saved, on_told, on_step, on_looked};
    const char *out = fixture_path("followed");
    status st = trained(&o, &(struct train_options){.eval = eval_sets_of(same), .out = out, .watch = &watch}, set);
    atomic_store(&shared_lag_ns, 0);
    assert_ok(st);
    const json_t *head = json_array_get(json_object_get(event_last(&o, "eval"), "heads"), 0);
    const double loss = json_number_value(json_object_get(head, "logloss"));
    assert_true(loss > 0.1 && loss < 10);
    size_t index, told = 0;
    json_int_t samples_before = 0;
    double sum = 0;
    json_t *event;
    json_array_foreach(o.events, index, event)
    {
        if (strcmp(json_string_value(json_object_get(event, "event")), "progress") != 0) continue;
        const json_int_t samples = json_integer_value(json_object_get(event, "samples"));
        sum += json_number_value(json_object_get(event, "loss")) * (double)(samples - samples_before);
        samples_before = samples;
        assert_true(f.loss[told % 64] == json_number_value(json_object_get(event, "loss")));
        assert_true(f.rate[told % 64] == json_number_value(json_object_get(event, "samples_per_s")));
        told++;
    }
    assert_true(told >= 3);
    assert_int_equal(f.told, told);
    assert_int_equal(f.wrong, 0);
    assert_true(f.begun == 1 && f.ending == 1 && f.steps == 12 * STEPS && f.rows > 100);
    assert_true(f.saved == 1 && f.saved_step == 12 * STEPS);
    assert_true(f.looks > 0 && f.last.is_over && f.last.times.wall_ns > 0 && f.last.times.worker_count > 0);
    assert_true(f.last.pause_ns > 0);
    assert_int_equal(samples_before, 12 * STEPS * BATCH);
    sum /= (double)samples_before;
    if (!(fabs(sum - loss) < 1e-6))
        fail_msg("the losses of %zu reports come to %g, those of all to %g", told, sum, loss);
    opened_close(&o);
}

/* With a learning rate of nearly nothing no evaluation is better than the first, that of step 2. */
static void train_run__no_better_for_the_patience__stops_early_with_the_best_kept(void **state)
{
    (void)state;
    /* Unseen: or each row that comes into being changes a figure. */
    static const char *const set[] = {"train.optimizer=sgd 1e-30",
                                      "emb.optimizer=sgd 1e-30",
                                      "emb.unseen=init",
                                      "train.stop=logloss",
                                      "train.patience=3",
                                      "eval.every=2",
                                      NULL};
    char out[256], best[300];
    struct opened o;
    snprintf(out, sizeof out, "%s", fixture_path("stopped"));
    snprintf(best, sizeof best, "%s/best", out);
    assert_ok(trained(&o, &(struct train_options){.eval = eval_sets_of(eval_path), .out = out}, set));
    assert_string_equal(event_steps(&o, "eval"), "2 4 6 8");
    assert_string_equal(event_steps(&o, "done"), "8");
    assert_int_equal(event_number(&o, "best", "step"), 2);
    assert_int_equal(event_number(&o, "best", "stopped"), 1);
    assert_int_equal(event_number(&o, "best", "evaluations_since"), 3);
    assert_string_equal(event_text(&o, "best", "path"), best);
    assert_int_equal(saved_progress(best).step, 2);
    assert_int_equal(saved_progress(out).step, 8);
    opened_close(&o);
}

/* Patience counts on over saves: a training that is resumed twice stops where one run would. */
static void train_run__resumed_twice__stops_early_as_one_run_would(void **state)
{
    (void)state;
    static const char *const last[] = {"4", "6", "100"}, *const evaluated[] = {"2 4", "6", "8"};
    char out[256], best[300];
    struct opened o;
    snprintf(out, sizeof out, "%s", fixture_path("twice"));
    snprintf(best, sizeof best, "%s/best", out);
    for (int run = 0; run < 3; run++) {
        char steps[64];
        snprintf(steps, sizeof steps, "train.steps_max=%s", last[run]);
        const char *const set[] = {"train.optimizer=sgd 1e-30",
                                   "emb.optimizer=sgd 1e-30",
                                   "emb.unseen=init",
                                   "train.stop=logloss",
                                   "train.patience=3",
                                   "eval.every=2",
                                   steps,
                                   NULL};
        const struct train_options options = {.eval = eval_sets_of(eval_path), .out = out, .resume = run ? out : NULL};
        assert_ok(trained(&o, &options, set));
        assert_string_equal(event_steps(&o, "eval"), evaluated[run]);
        assert_int_equal(event_number(&o, "best", "step"), 2);
        assert_int_equal(event_number(&o, "best", "stopped"), run == 2);
        assert_int_equal(event_number(&o, "best", "evaluations_since"), run + 1);
        opened_close(&o);
    }
    assert_int_equal(saved_progress(best).step, 2);
    assert_int_equal(saved_progress(out).step, 8);
}

/* Without eval.every a training that stops early is evaluated after each pass. */
static void train_run__stop_without_eval_every__evaluates_after_each_pass(void **state)
{
    (void)state;
    static const char *const set[] = {"train.stop=auc", "train.patience=100", "train.epochs=3", NULL};
    struct opened o;
    assert_ok(trained(&o, &(struct train_options){.eval = eval_sets_of(eval_path)}, set));
    assert_string_equal(event_steps(&o, "eval"), "10 20 30");
    opened_close(&o);
}

/* A save may lack the evaluation that was due at its step: one that may stop the training makes it first. */
static void train_run__resumed_where_an_evaluation_is_due__is_made_if_it_may_stop(void **state)
{
    (void)state;
    static const char *const first[] = {"train.steps_max=4", NULL}, *const judged[] = {
                                                                        "train.steps_max=4", "train.stop=auc",
                                                                        "train.patience=100", "eval.every=2", NULL};
    static const struct {
        bool is_judged; /* what the first run has done */
        const char *set[4], *evaluated;
    } cases[] = {
        {false, {"train.stop=auc", "train.patience=100", "eval.every=2"}, "4 6 8 10"},
        {true, {"train.stop=auc", "train.patience=100", "eval.every=2"}, "6 8 10"},
        {false, {"train.stop=auc", "train.patience=100", "eval.every=3"}, "6 9 10"},
        {false, {"train.stop=auc", "train.patience=100"}, "10"},
        {false, {"eval.every=2"}, "6 8 10"},
    };
    const struct eval_sets sets = eval_sets_of(eval_path);
    struct opened o;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const bool is_judged = cases[i].is_judged;
        char out[256];
        snprintf(out, sizeof out, "%s", fixture_path(is_judged ? "judged" : "unjudged"));
        assert_ok(trained(&o, &(struct train_options){.out = out, .eval = sets}, is_judged ? judged : first));
        opened_close(&o);
        assert_ok(trained(&o, &(struct train_options){.resume = out, .eval = sets}, cases[i].set));
        assert_string_equal(event_steps(&o, "start"), "4");
        assert_string_equal(event_steps(&o, "eval"), cases[i].evaluated);
        opened_close(&o);
    }
}

static void train_run__asked_to_stop__saves_and_says_how_to_go_on(void **state)
{
    (void)state;
    static const char *const set[] = {"train.epochs=1000", NULL};
    struct opened o;
    struct train_options options = {.data = data_path, .out = fixture_path("asked"), .resume_command = "this way"};
    opened_begin(&o, set, LOG_JSON);
    stop_ask(o.scope, SIGTERM);
    status st = train_run(&o.session, &options);
    opened_end(&o);
    assert_int_equal(st, ST_STOPPED);
    assert_message("the model is saved; go on with: this way");
    assert_string_equal(event_steps(&o, "checkpoint"), event_steps(&o, "done"));
    opened_close(&o);
}

/* Whoever asks to stop while there is nothing to read. */
struct asker {
    const char *pipe, *data;
    struct scope *scope;
    const uint64_t *step; /* of the run */
};
static void nap(long ms) { nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL); }
static void *asker_main(void *context)
{
    const struct asker *asker = context;
    struct file_map map;
    int fd = open(asker->pipe, O_WRONLY);
    CHECK(fd >= 0 && file_map_open(&map, asker->data) == ST_OK);
    for (size_t at = 0; at < map.bytes;) at += (size_t)write(fd, map.data + at, map.bytes - at);
    file_map_close(&map);
    /* Two minutes at most: a run that has failed does nothing more. */
    for (int ms = 0; ms < 120000 && __atomic_load_n(asker->step, __ATOMIC_RELAXED) < 4; ms++) nap(1);
    /* The main thread looks up now and then, and ends the run if it has been asked to:
     * the feed is to end before. */
    uint64_t looks = atomic_load(&shared_main_looks);
    for (int ms = 0; ms < 1000 && atomic_load(&shared_main_looks) == looks; ms++) nap(1);
    nap(4);
    stop_ask(asker->scope, SIGTERM);
    for (int i = 0; i < 3; i++, nap(3)) kill(getpid(), SIGALRM); /* as one that comes of itself after a second */
    close(fd);
    return NULL;
}

/* The feed ends, but neither the data nor the pass does. */
static void train_run__asked_to_stop_while_a_pipe_is_dry__knows_no_length_of_a_pass(void **state)
{
    (void)state;
    struct opened o;
    pthread_t thread;
    char out[256], data[256], pipe[256];
    snprintf(out, sizeof out, "%s", fixture_path("dry"));
    snprintf(data, sizeof data, "%s", fixture_path("dry.tsv"));
    snprintf(pipe, sizeof pipe, "%s", fixture_path("dry.pipe"));
    fixture_data(data, 0, 4 * BATCH, NULL);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    opened_begin(&o, NULL, LOG_JSON);
    assert_ok(model_dir_check(&o.session.setup.graph, out));
    struct asker asker = {pipe, data, o.scope, &o.session.setup.model.progress.step};
    sigset_t all, before; /* signals are the main thread's */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    assert_int_equal(pthread_create(&thread, NULL, asker_main, &asker), 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    status st = train_run(&o.session, &(struct train_options){.data = pipe, .out = out, .resume_command = "this way"});
    pthread_join(thread, NULL);
    opened_end(&o);
    assert_int_equal(st, ST_STOPPED);
    opened_close(&o);
    assert_int_equal(saved_progress(out).step, 4);
    assert_int_equal(saved_progress(out).pass_examples, 0);
}

/* --- what fails ---------------------------------------------------------------------------------- */

static void train_run__data_fails_midway__saves_the_last_step_and_names_the_save(void **state)
{
    (void)state;
    char path[256], out[256], expected[600];
    struct opened o;
    snprintf(path, sizeof path, "%s", fixture_path("broken.tsv"));
    snprintf(out, sizeof out, "%s", fixture_path("broken"));
    fixture_data(path, 0, 6 * BATCH, "no line of clicks\n");
    assert_int_equal(trained(&o, &(struct train_options){.data = path, .out = out}, NULL), ST_INVALID);
    snprintf(expected, sizeof expected, "; the model in %s is from step 6", out);
    assert_message("broken.tsv:193");
    assert_message(expected);
    assert_string_equal(event_steps(&o, "checkpoint"), "6");
    assert_string_equal(event_steps(&o, "done"), "");
    assert_int_equal(saved_progress(out).step, 6);
    opened_close(&o);
}

static void train_run__data_fails_before_a_step__saves_nothing(void **state)
{
    (void)state;
    char path[256], out[256];
    struct opened o;
    snprintf(path, sizeof path, "%s", fixture_path("none.tsv"));
    snprintf(out, sizeof out, "%s", fixture_path("none"));
    fixture_data(path, 0, 0, "no line of clicks\n");
    assert_int_equal(trained(&o, &(struct train_options){.data = path, .out = out}, NULL), ST_INVALID);
    assert_message("none.tsv:1");
    assert_null(strstr(status_message(), "the model in"));
    assert_string_equal(event_steps(&o, "checkpoint"), "");
    opened_close(&o);
}

static void train_run__diverges__names_the_save_to_return_to(void **state)
{
    (void)state;
    static const char *const set[] = {"train.optimizer=sgd 1e6", "checkpoint.every=1", "checkpoint.wait=yes", NULL},
                             *const unsaved[] = {"train.optimizer=sgd 1e6", NULL};
    struct opened o;
    assert_int_equal(trained(&o, &(struct train_options){.out = fixture_path("diverged")}, unsaved), ST_DIVERGED);
    assert_message("nothing was saved yet; set checkpoint.every");
    assert_string_equal(event_steps(&o, "checkpoint"), "");
    opened_close(&o);
    assert_int_equal(trained(&o, &(struct train_options){.out = fixture_path("diverged")}, set), ST_DIVERGED);
    const char *steps = event_steps(&o, "checkpoint"), *last = strrchr(steps, ' ');
    char expected[600];
    assert_true(*steps);
    snprintf(expected, sizeof expected, "; the model in %s is from step %s", fixture_path("diverged"),
             last ? last + 1 : steps);
    assert_message(expected);
    opened_close(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(train_run__checkpoint_and_eval_every__at_multiples_and_at_the_end),
        cmocka_unit_test(train_run__last_step_is_a_multiple__saved_and_evaluated_once),
        cmocka_unit_test(train_run__nothing_asked_for__one_save_and_evaluation_at_the_end),
        cmocka_unit_test(train_run__settings_that_come_to_nothing__are_warned_of),
        cmocka_unit_test(train_run__steps_max__ends_there_in_whatever_pass),
        cmocka_unit_test(train_run__resumed__goes_on_behind_the_save_and_ends_as_one_run_would),
        cmocka_unit_test(train_run__resumed_with_another_order__refused_within_a_pass_only),
        cmocka_unit_test(train_run__resumed_at_its_end__trains_nothing_and_says_so),
        cmocka_unit_test(train_run__progress__is_the_mean_loss_since_the_last_one),
        cmocka_unit_test(train_run__no_better_for_the_patience__stops_early_with_the_best_kept),
        cmocka_unit_test(train_run__resumed_twice__stops_early_as_one_run_would),
        cmocka_unit_test(train_run__stop_without_eval_every__evaluates_after_each_pass),
        cmocka_unit_test(train_run__resumed_where_an_evaluation_is_due__is_made_if_it_may_stop),
        cmocka_unit_test(train_run__asked_to_stop__saves_and_says_how_to_go_on),
        cmocka_unit_test(train_run__asked_to_stop_while_a_pipe_is_dry__knows_no_length_of_a_pass),
        cmocka_unit_test(train_run__data_fails_midway__saves_the_last_step_and_names_the_save),
        cmocka_unit_test(train_run__data_fails_before_a_step__saves_nothing),
        cmocka_unit_test(train_run__diverges__names_the_save_to_return_to),
    };
    return cmocka_run_group_tests(tests, group_open, session_fixture_close) ? 1 : 0;
}
