/* When a training saves and what it says of it, with a saver that is made up: which saves are put off, made
 * or owed, what is told of those that are complete, and what failures say about the save to return to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/run/session_fixture.h"

#include "engine/node/save.h"
#include "engine/run/train_internal.h"

/* In place of the saver, the feed and the pipeline. */
static struct {
    bool is_busy, is_done;
    uint32_t begun, waited, held, let_go;
    struct saver_done done;
    status taken, begins, holds, checked;
} fake;
static status fake_status(status st) { return st == ST_OK ? ST_OK : status_fail(st, __FILE__, __LINE__, "made up"); }
static status fake_begin(void)
{
    if (fake.begins != ST_OK) return fake_status(fake.begins);
    fake.begun++;
    fake.is_busy = true;
    return ST_OK;
}
static status fake_take(struct saver_done *done)
{
    *done = fake.done;
    fake.is_busy = fake.is_done = false;
    return fake_status(fake.taken);
}
static const struct reader_mark *fake_marks(uint32_t *count)
{
    *count = 0;
    return NULL;
}
#define saver_is_busy(saver)              fake.is_busy
#define saver_is_done(saver)              fake.is_done
#define saver_wait(saver)                 (fake.waited++)
#define saver_take(saver, done)           fake_take(done)
#define saver_begin(saver, rows, ticket)  fake_begin()
#define feed_hold(feed)                   (fake.held++, fake_status(fake.holds))
#define feed_let_go(feed)                 (fake.let_go++)
#define feed_marks(feed, count)           fake_marks(count)
#define model_data_mark(data, mark, n, p) ((void)(data), (void)(mark))
#define pipeline_check(pipeline)          fake_status(fake.checked)
#include "engine/run/train_saves.c"

static struct opened told;
static struct graph_header header;
static struct session session;
static struct train_options options;
static struct trainer t;
static float parameters[2];

static void begin(enum log_format format)
{
    memset(&told, 0, sizeof told);
    memset(&fake, 0, sizeof fake);
    memset(&session, 0, sizeof session);
    memset(&t, 0, sizeof t);
    options = (struct train_options){.out = "/models/m"};
    header = (struct graph_header){.param_floats = 2};
    parameters[0] = parameters[1] = 1;
    session.setup.graph.header = &header;
    session.setup.model.param = parameters;
    t = (struct trainer){.session = &session,
                         .options = &options,
                         .graph = &session.setup.graph,
                         .begun_step = UINT64_MAX,
                         .saved_step = UINT64_MAX};
    t.saver = (struct saver *)&fake; /* that there is one */
    assert_ok(scope_open(&told.scope));
    told.before = scope_enter(told.scope);
    log_open(format, 0);
    opened_keep(&told);
}
static void end(void)
{
    opened_end(&told);
    scope_enter(told.before);
    scope_close(told.scope);
    json_decref(told.events);
}

static uint32_t count_of(const char *text, const char *part)
{
    uint32_t count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++) count++;
    return count;
}

/* --- when --------------------------------------------------------------------------------------- */

static void train_save_due__by_step_and_saver__made_put_off_or_not(void **state)
{
    (void)state;
    static const struct {
        uint64_t every, step;
        bool has_saver, is_owed, is_busy, is_done, waits, is_begun, owes;
    } cases[] = {
        {.every = 0, .step = 6, .has_saver = true},
        {.every = 3, .step = 5, .has_saver = true},
        {.every = 3, .step = 6, .has_saver = true, .is_begun = true},
        {.every = 3, .step = 5, .has_saver = true, .is_owed = true, .is_begun = true},
        {.every = 3, .step = 6, .has_saver = true, .is_busy = true, .owes = true},
        {.every = 3, .step = 6, .has_saver = true, .is_busy = true, .is_done = true, .is_begun = true},
        {.every = 3, .step = 6, .has_saver = true, .is_busy = true, .waits = true, .is_begun = true},
        {.every = 3, .step = 5, .has_saver = true, .is_owed = true, .is_busy = true, .owes = true},
        {.every = 3, .step = 5, .has_saver = true, .is_busy = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(LOG_TEXT);
        session.setup.settings.checkpoint_every = cases[i].every;
        session.setup.settings.checkpoint_wait = cases[i].waits;
        session.setup.model.progress.step = cases[i].step;
        t.save_is_owed = cases[i].is_owed;
        fake.is_busy = cases[i].is_busy;
        fake.is_done = cases[i].is_done;
        const status st = train_save_due(&t);
        end();
        assert_ok(st);
        if (fake.begun != cases[i].is_begun || t.save_is_owed != cases[i].owes)
            fail_msg("case %zu: %u begun, owed %d", i, fake.begun, t.save_is_owed);
        assert_int_equal(t.begun_step, cases[i].is_begun ? cases[i].step : UINT64_MAX);
        assert_int_equal(fake.waited, cases[i].is_begun && cases[i].is_busy);
        assert_int_equal(fake.held, fake.let_go);
    }
}

/* Said at the first that comes late, and counted for each;
 * those that come while one is owed are one with it. */
static void train_save_due__saves_fall_due_while_one_is_written__told_once_and_counted(void **state)
{
    (void)state;
    begin(LOG_TEXT);
    session.setup.settings.checkpoint_every = 5;
    fake.is_busy = true;
    status st = ST_OK;
    for (uint64_t step = 8; step <= 20 && st == ST_OK; step++) {
        session.setup.model.progress.step = step;
        st = train_save_due(&t);
    }
    end();
    assert_ok(st);
    assert_int_equal(t.report.save_late_count, 3);
    assert_int_equal(t.report.save_merged_count, 2);
    assert_int_equal(count_of(told.text, "saves    the save of step"), 1);
    assert_told(&told, "saves    the save of step 10 follows when the one before it is written; training goes on "
                       "meanwhile, and with checkpoint.wait = yes it would wait (checkpoint.every = 5)\n");
    assert_int_equal(fake.begun, 0);
}

/* A step is saved once, whoever asks; who asks for the end waits for it. */
static void train_save__same_step_again__nothing_or_waits(void **state)
{
    (void)state;
    begin(LOG_TEXT);
    session.setup.model.progress.step = 7;
    assert_ok(train_save(&t, SAVE_BESIDE));
    const uint32_t first = fake.waited;
    assert_ok(train_save(&t, SAVE_BESIDE));
    const uint32_t second = fake.waited;
    assert_ok(train_save(&t, SAVE_AND_WAIT));
    end();
    assert_int_equal(fake.begun, 1);
    assert_int_equal(first, 0);
    assert_int_equal(second, 0);
    assert_int_equal(fake.waited, 1);
    begin(LOG_TEXT);
    session.setup.model.progress.step = 7;
    assert_ok(train_save(&t, SAVE_AND_WAIT));
    end();
    assert_int_equal(fake.begun, 1);
    assert_int_equal(fake.waited, 1);
    begin(LOG_TEXT);
    options.out = NULL;
    assert_ok(train_save(&t, SAVE_AND_WAIT));
    end();
    assert_int_equal(fake.begun, 0);
}

/* What has diverged is not saved, unless a failure wants what there is. */
static void train_save__diverged__not_saved(void **state)
{
    (void)state;
    static const struct {
        float last;
        status checked;
        enum save_how how;
        status st;
    } cases[] = {{1, ST_OK, SAVE_BESIDE, ST_OK},
                 {NAN, ST_OK, SAVE_BESIDE, ST_DIVERGED},
                 {INFINITY, ST_OK, SAVE_AND_WAIT, ST_DIVERGED},
                 {1, ST_DIVERGED, SAVE_AND_WAIT, ST_DIVERGED},
                 {NAN, ST_DIVERGED, SAVE_UNCHECKED, ST_OK}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(LOG_TEXT);
        session.setup.model.progress.step = 9;
        parameters[1] = cases[i].last;
        fake.checked = cases[i].checked;
        const status st = train_save(&t, cases[i].how);
        end();
        if (st != cases[i].st) fail_msg("case %zu: %s", i, status_message());
        assert_int_equal(fake.begun, st == ST_OK);
        if (st != ST_OK && !isfinite(cases[i].last))
            assert_message("step 8: its update made a parameter that is not finite; a lower learning rate may help");
    }
}

static void train_saves_look__by_what_the_saver_does__ends_the_job(void **state)
{
    (void)state;
    static const struct {
        bool is_busy, is_done, is_owed, is_woken;
        status taken;
        bool wants;
    } cases[] = {
        {.is_busy = true},
        {.is_busy = true, .is_done = true},
        {.is_busy = true, .is_done = true, .taken = ST_IO, .wants = true},
        {.is_busy = true, .is_owed = true},
        {.is_busy = true, .is_done = true, .is_owed = true, .wants = true},
        {.is_owed = true, .wants = true},
        {.is_woken = true, .wants = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(LOG_JSON);
        fake.is_busy = cases[i].is_busy;
        fake.is_done = cases[i].is_done;
        fake.taken = cases[i].taken;
        t.save_is_owed = cases[i].is_owed;
        t.is_woken = cases[i].is_woken;
        const bool wants = train_saves_look(&t);
        end();
        if (wants != cases[i].wants) fail_msg("case %zu", i);
        assert_int_equal(t.save_result, cases[i].taken);
    }
    begin(LOG_JSON);
    t.saver = NULL;
    fake.is_done = true;
    assert_false(train_saves_look(&t));
    end();
    assert_int_equal(fake.waited, 0);
}

/* --- what is told ------------------------------------------------------------------------------- */

static struct {
    uint64_t step;
    double seconds;
    uint32_t count;
} heard;
static void on_saved(void *context, const struct progress *progress, double seconds)
{
    assert_ptr_equal(context, &heard);
    heard.step = progress->step;
    heard.seconds = seconds;
    heard.count++;
}

static void train_save_settle__complete__each_figure_by_its_name(void **state)
{
    (void)state;
    const struct train_watch watch = {.context = &heard, .saved = on_saved};
    memset(&heard, 0, sizeof heard);
    begin(LOG_JSON);
    options.watch = &watch;
    fake.is_busy = true;
    fake.done = (struct saver_done){.progress = {.step = 40},
                                    .row_count = 11,
                                    .written_count = 12,
                                    .bytes = 13,
                                    .linked_bytes = 14,
                                    .ms = 1500,
                                    .wait_ms = 16};
    t.save_pause_ms = 17;
    status st = train_save_settle(&t);
    if (st == ST_OK) st = train_save_settle(&t); /* nothing is under way any more */
    opened_end(&told);
    assert_ok(st);
    assert_int_equal(t.saved_step, 40);
    assert_int_equal(heard.count, 1);
    assert_int_equal(heard.step, 40);
    assert_true(heard.seconds == 1.5);
    assert_string_equal(event_steps(&told, "checkpoint"), "40");
    assert_string_equal(event_text(&told, "checkpoint", "path"), "/models/m");
    static const char *const names[] = {"rows", "rows_written", "bytes", "bytes_linked", "ms", "wait_ms", "pause_ms"};
    static const double values[] = {11, 12, 13, 14, 1500, 16, 17};
    for (int i = 0; i < 7; i++) assert_true(event_number(&told, "checkpoint", names[i]) == values[i]);
    assert_int_equal(t.report.save_count, 1);
    scope_enter(told.before);
    scope_close(told.scope);
    json_decref(told.events);
}

static void train_fail_unsaved__with_and_without_a_save__says_where_to_return_to(void **state)
{
    (void)state;
    static const struct {
        const char *out;
        uint64_t every, saved;
        const char *message;
    } cases[] = {
        {NULL, 0, UINT64_MAX, "made up; nothing was saved: give --out DIR and checkpoint.every"},
        {"/models/m", 0, UINT64_MAX, "made up; nothing was saved yet; set checkpoint.every or checkpoint.seconds"},
        {"/models/m", 5, UINT64_MAX, "made up; nothing was saved yet"},
        {"/models/m", 5, 10, "made up; the model in /models/m is from step 10"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(LOG_TEXT);
        options.out = cases[i].out;
        session.setup.settings.checkpoint_every = cases[i].every;
        t.saved_step = cases[i].saved;
        const status st = train_fail_unsaved(&t, fake_status(ST_FULL));
        end();
        assert_int_equal(st, ST_FULL);
        assert_string_equal(status_message(), cases[i].message);
    }
    /* A save that is under way counts, and one that fails is a warning. */
    begin(LOG_TEXT);
    fake.is_busy = true;
    fake.done.progress.step = 30;
    status st = train_fail_unsaved(&t, fake_status(ST_FULL));
    end();
    assert_int_equal(st, ST_FULL);
    assert_string_equal(status_message(), "made up; the model in /models/m is from step 30");
    begin(LOG_TEXT);
    fake.is_busy = true;
    fake.taken = ST_IO;
    session.setup.settings.checkpoint_every = 1;
    st = train_fail_unsaved(&t, fake_status(ST_FULL));
    end();
    assert_int_equal(st, ST_FULL);
    assert_string_equal(status_message(), "made up; nothing was saved yet");
    assert_told(&told, "warning: the last save has failed: made up\n");
}

static void train_save_and_fail__saves_what_there_is__says_which_step(void **state)
{
    (void)state;
    begin(LOG_TEXT);
    session.setup.model.progress.step = 12;
    fake.done.progress.step = 12;
    parameters[0] = NAN; /* unchecked */
    status st = train_save_and_fail(&t, fake_status(ST_FULL));
    end();
    assert_int_equal(st, ST_FULL);
    assert_string_equal(status_message(), "made up; the model in /models/m is from step 12");
    assert_int_equal(fake.begun, 1);
    begin(LOG_TEXT);
    fake.begins = ST_IO;
    st = train_save_and_fail(&t, fake_status(ST_FULL));
    end();
    assert_int_equal(st, ST_FULL);
    assert_string_equal(status_message(), "made up");
    assert_told(&told, "warning: the model could not be saved: made up\n");
    assert_int_equal(fake.held, fake.let_go);
}

static void train_best_tell__stopped_or_not__line_and_event(void **state)
{
    (void)state;
    static const struct figure_kind figures[] = {{.text = "AUC", .key = "auc", .digits = 4}};
    static struct head head = {.name = "bce", .figures = figures};
    for (int i = 0; i < 5; i++) {
        const bool is_kept = i != 1, is_over = i != 2;
        char kept[] = "/models/m/best";
        begin(i == 3 ? LOG_JSON : LOG_TEXT);
        session.setup.model.progress.step = 50;
        session.setup.model.best = (struct best){
            .figure = "bce.auc", .value = 0.75, .step = 20, .evaluated_step = 50, .evaluations_since = is_over ? 3 : 2};
        t.stop = (struct early_stop){.head = &head, .patience = 3, .best = &session.setup.model.best};
        t.best_path = is_kept ? kept : NULL;
        t.has_best = is_kept && i != 4; /* 4: the directory has another one, or none */
        train_best_tell(&t);
        opened_end(&told);
        static const char *const texts[] = {
            "stop     step 50: no better than AUC 0.7500 of step 20 in 3 evaluations\n"
            "best     step 20: AUC 0.7500 in /models/m/best\n",
            "stop     step 50: no better than AUC 0.7500 of step 20 in 3 evaluations\nbest     step 20: AUC 0.7500\n",
            "best     step 20: AUC 0.7500 in /models/m/best\n", ""};
        assert_string_equal(told.text, texts[i % 4 + (i == 4)]);
        if (i == 3) {
            assert_string_equal(event_steps(&told, "best"), "20");
            assert_string_equal(event_text(&told, "best", "figure"), "bce.auc");
            assert_string_equal(event_text(&told, "best", "path"), "/models/m/best");
            assert_true(event_number(&told, "best", "value") == 0.75);
            assert_true(event_number(&told, "best", "evaluations_since") == 3);
            assert_true(event_number(&told, "best", "stopped") == 1);
        }
        scope_enter(told.before);
        scope_close(told.scope);
        json_decref(told.events);
    }
    /* Nothing was looked for, or found. */
    for (int i = 0; i < 2; i++) {
        begin(LOG_TEXT);
        if (i == 0) snprintf(session.setup.model.best.figure, sizeof session.setup.model.best.figure, "bce.auc");
        t.stop = (struct early_stop){.head = i ? &head : NULL, .best = &session.setup.model.best};
        train_best_tell(&t);
        end();
        assert_string_equal(told.text, "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(train_save_due__by_step_and_saver__made_put_off_or_not),
        cmocka_unit_test(train_save_due__saves_fall_due_while_one_is_written__told_once_and_counted),
        cmocka_unit_test(train_save__same_step_again__nothing_or_waits),
        cmocka_unit_test(train_save__diverged__not_saved),
        cmocka_unit_test(train_saves_look__by_what_the_saver_does__ends_the_job),
        cmocka_unit_test(train_save_settle__complete__each_figure_by_its_name),
        cmocka_unit_test(train_fail_unsaved__with_and_without_a_save__says_where_to_return_to),
        cmocka_unit_test(train_save_and_fail__saves_what_there_is__says_which_step),
        cmocka_unit_test(train_best_tell__stopped_or_not__line_and_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
