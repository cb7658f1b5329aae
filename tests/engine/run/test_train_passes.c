/* Passes of a training over its data: how long one is, as saves know it, and what resumed and continued
 * trainings make of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>

#include "tests/engine/run/train_fixture.h"

/* Where a bound has ended a pass together with its data, the resumed run sees that the pass is whole. */
static void train_run__resumed_at_a_bound_at_the_end__keeps_the_length_it_finds(void **state)
{
    (void)state;
    static const char *const bound[] = {"train.steps_max=10", NULL};
    struct opened o;
    const char *out = fixture_path("bound_at_end");
    assert_ok(trained(&o, &(struct train_options){.out = out}, bound));
    opened_close(&o);
    assert_int_equal(saved_progress(out).pass_examples, 0);
    assert_ok(trained(&o, &(struct train_options){.out = out, .resume = out}, NULL));
    assert_string_equal(event_steps(&o, "checkpoint"), "10");
    opened_close(&o);
    assert_int_equal(saved_progress(out).pass_examples, STEPS * BATCH);
}

/* What a resumed run with fewer passes finds done already says nothing of how long a pass is. */
static void train_run__resumed_with_fewer_passes__keeps_the_length_of_a_pass(void **state)
{
    (void)state;
    static const char *const two[] = {"train.epochs=2", "train.steps_max=13", NULL}, *const one[] = {"train.epochs=1",
                                                                                                     NULL};
    struct opened o;
    const char *out = fixture_path("fewer");
    assert_ok(trained(&o, &(struct train_options){.out = out}, two));
    opened_close(&o);
    assert_int_equal(saved_progress(out).pass_examples, STEPS * BATCH);
    assert_ok(trained(&o, &(struct train_options){.out = out, .resume = out}, one));
    assert_int_equal(o.session.setup.model.progress.pass_examples, STEPS * BATCH);
    assert_string_equal(event_steps(&o, "checkpoint"), "");
    opened_close(&o);
    assert_int_equal(saved_progress(out).pass_examples, STEPS * BATCH);
}

/* A pass that a bound has cut short has no length. */
static void train_run__steps_max_within_the_last_pass__knows_no_length_of_a_pass(void **state)
{
    (void)state;
    static const char *const set[] = {"train.steps_max=4", NULL};
    struct opened o;
    const char *out = fixture_path("short");
    assert_ok(trained(&o, &(struct train_options){.out = out}, set));
    opened_close(&o);
    assert_int_equal(saved_progress(out).epoch_examples, 4 * BATCH);
    assert_int_equal(saved_progress(out).pass_examples, 0);
}

/* An evaluation that follows a pass sees the whole pass done: so does the best model that it keeps, which may
 * then go on with other data or in another order. */
static void train_run__best_after_a_pass__knows_the_length_of_a_pass(void **state)
{
    (void)state;
    static const char *const set[] = {"train.optimizer=sgd 1e-30",
                                      "emb.optimizer=sgd 1e-30",
                                      "emb.unseen=init",
                                      "train.stop=logloss",
                                      "train.patience=2",
                                      "train.epochs=9",
                                      NULL};
    char out[256], best[300];
    struct opened o;
    snprintf(out, sizeof out, "%s", fixture_path("passes"));
    snprintf(best, sizeof best, "%s/best", out);
    assert_ok(trained(&o, &(struct train_options){.eval = eval_sets_of(eval_path), .out = out}, set));
    assert_string_equal(event_steps(&o, "eval"), "10 20 30");
    opened_close(&o);
    const struct progress p = saved_progress(best);
    assert_true(p.step == 10 && p.epoch == 0);
    assert_int_equal(p.epoch_examples, STEPS * BATCH);
    assert_int_equal(p.pass_examples, STEPS * BATCH);
}

/* Where a save has a pass's end, and the evaluation that follows it, the resumed run has neither again. */
static void train_run__resumed_after_a_pass__evaluates_it_once(void **state)
{
    (void)state;
    static const char *const one[] = {"train.stop=auc", "train.patience=100", NULL},
                             *const unjudged[] = {"train.epochs=1", NULL},
                             *const three[] = {"train.stop=auc", "train.patience=100", "train.epochs=3", NULL};
    const struct eval_sets sets = eval_sets_of(eval_path);
    struct opened o;
    char out[256], best[300];
    snprintf(out, sizeof out, "%s", fixture_path("pass"));
    snprintf(best, sizeof best, "%s/best", out);
    assert_ok(trained(&o, &(struct train_options){.out = out, .eval = sets}, one));
    assert_string_equal(event_steps(&o, "eval"), "10");
    opened_close(&o);
    /* The best save is made as the evaluation is judged; that of the end is older than its own evaluation. */
    assert_ok(trained(&o, &(struct train_options){.resume = best, .eval = sets}, three));
    assert_string_equal(event_steps(&o, "eval"), "20 30");
    opened_close(&o);
    assert_ok(trained(&o, &(struct train_options){.out = out, .eval = sets}, unjudged));
    opened_close(&o);
    assert_ok(trained(&o, &(struct train_options){.resume = out, .eval = sets}, three));
    assert_string_equal(event_steps(&o, "eval"), "10 20 30");
    opened_close(&o);
}

/* The evaluation at the end follows the save, and may find the best model: a run that goes on from the save
 * does not look for that model elsewhere. */
static void train_run__best_is_newer_than_the_save__is_not_missed(void **state)
{
    (void)state;
    static const char *const two[] = {"train.stop=logloss", "train.optimizer=adam 1e-4", "train.epochs=2", NULL},
                             *const three[] = {"train.stop=logloss", "train.optimizer=adam 1e-4", "train.epochs=3",
                                               NULL};
    const struct eval_sets sets = eval_sets_of(eval_path);
    struct opened o;
    char out[256], best[300], other[256];
    snprintf(out, sizeof out, "%s", fixture_path("newer"));
    snprintf(best, sizeof best, "%s/best", out);
    snprintf(other, sizeof other, "%s", fixture_path("newer.other"));
    assert_ok(trained(&o, &(struct train_options){.out = out, .eval = sets}, two));
    assert_string_equal(event_steps(&o, "eval"), "10 20");
    opened_close(&o);
    assert_int_equal(saved_progress(best).step, 20);
    assert_ok(trained(&o, &(struct train_options){.out = other, .resume = out, .eval = sets}, three));
    assert_non_null(strstr(event_text(&o, "warning", "text"), "the best model so far, of step 10, is not in "));
    opened_close(&o);
    assert_ok(trained(&o, &(struct train_options){.out = out, .resume = out, .eval = sets}, three));
    assert_string_equal(event_steps(&o, "eval"), "20 30");
    assert_string_equal(event_steps(&o, "warning"), "");
    opened_close(&o);
}

/* Held-out lines cannot be read from a stream beside the others: training says so, and does not take the
 * stream's bytes for the first line of what is held out. */
static void train_run__held_out_lines_of_a_pipe__are_refused(void **state)
{
    (void)state;
    enum { BYTES = 1 << 19 };
    static const char *const set[] = {"data.eval_fraction=0.99", NULL};
    static char text[BYTES], path[64];
    int ends[2], file = open(data_path, O_RDONLY | O_CLOEXEC);
    struct opened o;
    assert_true(file >= 0 && pipe2(ends, O_CLOEXEC) == 0 && fcntl(ends[1], F_SETPIPE_SZ, BYTES) >= BYTES);
    const ssize_t bytes = read(file, text, sizeof text);
    assert_true(bytes > 0);
    for (size_t sent = 0; sent + (size_t)bytes <= BYTES; sent += (size_t)bytes)
        assert_int_equal(write(ends[1], text, (size_t)bytes), bytes);
    close(ends[1]);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    assert_int_equal(trained(&o, &(struct train_options){.data = path}, set), ST_INVALID);
    assert_non_null(strstr(status_message(), "can be read once, but data.eval_fraction = 0.99 holds lines of it out"));
    opened_close(&o);
    close(ends[0]);
    close(file);
}

/* A new pass over other data has bounds and a length of its own. */
static void train_run__continued__counts_steps_and_passes_from_there(void **state)
{
    (void)state;
    static const struct {
        const char *set[3];
        uint64_t step, pass_examples;
    } cases[] = {
        {{"train.steps_max=12"}, 20, STEPS * BATCH},
        {{"train.steps_max=10"}, 20, 0}, /* perhaps its bound has ended it */
        {{"train.steps_max=4"}, 14, 0},
        {{"train.epochs=2", "train.steps_max=13"}, 23, STEPS * BATCH},
        {{"train.epochs=2"}, 30, STEPS * BATCH},
    };
    struct opened o;
    char out[256], next[256];
    snprintf(out, sizeof out, "%s", fixture_path("day1"));
    snprintf(next, sizeof next, "%s", fixture_path("day2"));
    assert_ok(trained(&o, &(struct train_options){.out = out}, NULL));
    opened_close(&o);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct train_options options = {.out = next, .resume = out, .is_new_pass = true};
        assert_ok(trained(&o, &options, cases[i].set));
        assert_string_equal(event_steps(&o, "start"), "10");
        opened_close(&o);
        const struct progress p = saved_progress(next);
        assert_int_equal(p.step, cases[i].step);
        assert_true(p.first_step == 10 && p.first_epoch == 1);
        assert_int_equal(p.pass_examples, cases[i].pass_examples);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(train_run__resumed_at_a_bound_at_the_end__keeps_the_length_it_finds),
        cmocka_unit_test(train_run__resumed_with_fewer_passes__keeps_the_length_of_a_pass),
        cmocka_unit_test(train_run__steps_max_within_the_last_pass__knows_no_length_of_a_pass),
        cmocka_unit_test(train_run__best_after_a_pass__knows_the_length_of_a_pass),
        cmocka_unit_test(train_run__resumed_after_a_pass__evaluates_it_once),
        cmocka_unit_test(train_run__best_is_newer_than_the_save__is_not_missed),
        cmocka_unit_test(train_run__held_out_lines_of_a_pipe__are_refused),
        cmocka_unit_test(train_run__continued__counts_steps_and_passes_from_there),
    };
    return cmocka_run_group_tests(tests, group_open, session_fixture_close) ? 1 : 0;
}
