/* What a training says of itself: lines and events, byte by byte where they hang on nothing but what is
 * handed over, and of rates and times to a hundredth, for clocks that are set back by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/run/session_fixture.h"

#include <math.h>

#include "engine/base/clock.h"
#include "engine/run/report.h"
#include "io/store/store_internal.h"

#define SECOND UINT64_C(1000000000)

/* Within a hundredth, which the machine may be late by. */
static void assert_near(double value, double expected)
{
    if (!(fabs(value - expected) <= 0.01 * fabs(expected))) fail_msg("%g is not near %g", value, expected);
}

/* What a report says under either format. */
static struct opened o;
static struct report r;
static void said(enum log_format format, const char *const *set, void (*say)(void))
{
    opened_begin(&o, set, format);
    report_start(&r, &o.session);
    say();
    opened_end(&o);
}

/* --- the start ----------------------------------------------------------------------------------- */

static void nothing_more(void) {}

static void report_start__new_model__line_and_event(void **state)
{
    (void)state;
    static const char *const set[] = {"store.ram=2MiB", NULL};
    said(LOG_TEXT, set, nothing_more);
    assert_string_equal(o.text, "train    small: 106 parameters, batch 32 in micro-batches of 32, 2 threads\n");
    opened_close(&o);

    said(LOG_JSON, set, nothing_more);
    assert_string_equal(o.text, "");
    assert_string_equal(event_text(&o, "start", "graph"), o.graph_path);
    assert_string_equal(event_text(&o, "start", "version"), HETERPS_VERSION);
    assert_int_equal(event_number(&o, "start", "params"), 106);
    assert_int_equal(event_number(&o, "start", "step"), 0);
    assert_int_equal(event_number(&o, "start", "rows_budget_bytes"), 2 << 20);
    assert_int_equal(event_number(&o, "start", "threads"), 2);
    assert_int_equal(event_number(&o, "start", "memory_bytes"), memory_planned_bytes());
    const json_t *memory = json_object_get(event_last(&o, "start"), "memory");
    struct memory_part part;
    size_t count = 0;
    for (; memory_part_get(count, &part); count++)
        assert_int_equal(json_integer_value(json_object_get(memory, part.name)), part.planned_bytes);
    assert_int_equal(json_object_size(memory), count);
    assert_true(count > 5);
    char plan[256];
    assert_string_equal(event_text(&o, "start", "devices"), "cpu");
    assert_string_equal(event_text(&o, "start", "plan"),
                        plan_text(&o.session.crew.plan, &o.session.setup.graph, plan, sizeof plan));
    opened_close(&o);
}

static void report_start__model_of_some_steps__says_where_it_goes_on(void **state)
{
    (void)state;
    opened_begin(&o, NULL, LOG_TEXT);
    o.session.setup.model.progress = (struct progress){.step = 12, .examples = 384};
    report_start(&r, &o.session);
    opened_end(&o);
    assert_told(&o, "\nresume   after step 12\n");
    assert_int_equal(r.examples_at_begin, 384);
    opened_close(&o);
}

/* Reading again takes time where 100,000 examples or more lie behind the last mark of the text, if there is
 * one, and there is no cache. */
static void report_start__within_a_pass__says_what_is_read_again(void **state)
{
    (void)state;
    static const struct {
        const char *set[2];
        uint64_t mark, epoch_examples;
        const char *again; /* NULL: nothing is told */
    } cases[] = {{{NULL}, 0, 99999, NULL},       {{NULL}, 0, 100000, "100,000"},
                 {{NULL}, 500000, 599999, NULL}, {{NULL}, 500000, 1600000, "1,100,000"},
                 {{NULL}, 500000, 400000, NULL}, {{"cache.ram=1MiB"}, 0, 100000, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char expected[200];
        opened_begin(&o, cases[i].set, LOG_TEXT);
        struct model *model = &o.session.setup.model;
        const struct model_data data = model->data;
        model->progress = (struct progress){.step = 12, .epoch_examples = cases[i].epoch_examples};
        model->data.mark_count = cases[i].mark > 0;
        model->data.mark[0].example = cases[i].mark;
        report_start(&r, &o.session);
        model->data = data;
        opened_end(&o);
        snprintf(expected, sizeof expected,
                 "\nresume   reads %s examples again that this pass has done: "
                 "their place in the text is unknown (packed files and standard input have no marks)\n",
                 cases[i].again ? cases[i].again : "");
        if (cases[i].again) assert_told(&o, expected);
        if (!cases[i].again) assert_null(strstr(o.text, "again"));
        opened_close(&o);
    }
}

/* --- progress ------------------------------------------------------------------------------------ */

/* Ten seconds ago it began, four ago was the last report, at 1,000 examples; two of these have gone to an
 * evaluation. */
static void clocks_set_back(void)
{
    const uint64_t now = clock_ns();
    r.begin_ns = now - 10 * SECOND;
    r.last_ns = now - 4 * SECOND;
    r.examples_at_last = 1000;
    r.pause_at_last = 1 * SECOND;
    r.pause_ns = 1 * SECOND;
    report_pause(&r, 2 * SECOND);
}

/* As it is now. */
static void tell(const struct progress *p, double loss, struct feed_counts counts)
{
    report_progress(&r, &(struct report_progress){.progress = p, .ns = clock_ns(), .loss = loss, .counts = counts});
}

static void progress_of_a_quarter(void)
{
    const struct progress p = {.step = 25, .epoch = 1, .examples = 4000};
    clocks_set_back();
    /* A tenth by the bytes, of two passes. */
    tell(&p, 0.6789, (struct feed_counts){.byte_count = 200, .size_bytes = 1000});
}

static void report_progress__quarter_of_the_steps__rate_without_pauses_and_time_left(void **state)
{
    (void)state;
    static const char *const set[] = {"train.steps_max=100", "train.epochs=2", NULL};
    said(LOG_JSON, set, progress_of_a_quarter);
    assert_int_equal(event_number(&o, "progress", "step"), 25);
    assert_int_equal(event_number(&o, "progress", "epoch"), 1);
    assert_int_equal(event_number(&o, "progress", "samples"), 4000);
    assert_true(event_number(&o, "progress", "loss") == 0.6789);
    assert_near(event_number(&o, "progress", "samples_per_s"), 1500);
    assert_near(event_number(&o, "progress", "eta_s"), 30);
    assert_int_equal(r.examples_at_last, 4000);
    assert_int_equal(r.pause_at_last, 3 * SECOND);
    assert_false(report_is_due(&r));
    opened_close(&o);

    said(LOG_TEXT, set, progress_of_a_quarter);
    assert_told(&o, "\nprogress  25% step 25: 1,4");
    assert_told(&o, " samples/s, loss 0.67890, ETA 0:30\n");
    opened_close(&o);
}

static void progress_by_bytes(void)
{
    const struct progress p = {.step = 1, .examples = 1000 + 2};
    clocks_set_back();
    tell(&p, 1, (struct feed_counts){.byte_count = 1000, .size_bytes = 1000});
}

static void report_progress__half_of_the_bytes__share_of_all_passes(void **state)
{
    (void)state;
    static const char *const set[] = {"train.epochs=2", NULL};
    said(LOG_JSON, set, progress_by_bytes);
    assert_near(event_number(&o, "progress", "samples_per_s"), 1);
    assert_near(event_number(&o, "progress", "eta_s"), 10);
    opened_close(&o);
}

static void progress_of_all_bytes(void)
{
    const struct progress p = {.step = 9, .examples = 1000};
    clocks_set_back();
    tell(&p, 1, (struct feed_counts){.byte_count = 1000, .size_bytes = 1000});
}
static void progress_of_almost_all_steps(void)
{
    const struct progress p = {.step = 999, .examples = 1000};
    clocks_set_back();
    tell(&p, 1, (struct feed_counts){0});
}
static void progress_of_all_steps(void)
{
    const struct progress p = {.step = 1000, .examples = 1000};
    clocks_set_back();
    tell(&p, 1, (struct feed_counts){0});
}

static void report_progress__before_the_last_step_is_done__not_all(void **state)
{
    (void)state;
    static const char *const set[] = {"train.steps_max=1000", NULL};
    said(LOG_TEXT, NULL, progress_of_all_bytes);
    assert_told(&o, "\nprogress  99% step 9: ");
    opened_close(&o);
    said(LOG_TEXT, set, progress_of_almost_all_steps);
    assert_told(&o, "\nprogress  99% step 999: ");
    opened_close(&o);
    said(LOG_TEXT, set, progress_of_all_steps);
    assert_told(&o, "\nprogress 100% step 1000: ");
    opened_close(&o);
}

/* Six tenths are done, and the run, which went on at a half, has taken ten seconds for the last
 * of these: four more take forty. */
static void report_progress__resumed__time_left_by_what_this_run_has_done(void **state)
{
    (void)state;
    static const struct {
        const char *set[3];
        struct progress begin, now;
        struct feed_counts counts;
        double eta;
    } cases[] = {
        {{"train.steps_max=100"}, {.step = 50, .examples = 1600}, {.step = 60, .examples = 1920}, {0}, 40},
        {{"train.steps_max=100"},
         {.step = 1050, .first_step = 1000, .examples = 3e4},
         {.step = 1060, .first_step = 1000, .examples = 4e4},
         {0},
         40},
        /* The second of two passes, a fifth of which is read. */
        {{"train.epochs=2"},
         {.step = 50, .epoch = 1, .examples = 1600},
         {.step = 60, .epoch = 1, .examples = 1920},
         {.byte_count = 20, .size_bytes = 100},
         40},
        /* Any number of passes: only steps are counted. */
        {{"train.steps_max=100", "train.epochs=0"},
         {.step = 50, .examples = 1600},
         {.step = 60, .examples = 1920},
         {.byte_count = 20, .size_bytes = 100},
         40},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        opened_begin(&o, cases[i].set, LOG_JSON);
        o.session.setup.model.progress = cases[i].begin;
        report_start(&r, &o.session);
        r.begin_ns = clock_ns() - 10 * SECOND;
        tell(&cases[i].now, 1, cases[i].counts);
        opened_end(&o);
        assert_near(event_number(&o, "progress", "eta_s"), cases[i].eta);
        opened_close(&o);
    }
}

static void progress_of_a_stream(void)
{
    clocks_set_back();
    r.begin_ns -= 7200 * SECOND;
    tell(&(struct progress){.step = 3, .examples = 1000}, 1, (struct feed_counts){.byte_count = 5});
}

static void report_progress__end_unknown__no_share_and_no_time(void **state)
{
    (void)state;
    said(LOG_TEXT, NULL, progress_of_a_stream);
    assert_told(&o, "\nprogress  step 3: 0 samples/s, loss 1.00000, ETA ?\n");
    opened_close(&o);
    said(LOG_JSON, NULL, progress_of_a_stream);
    assert_true(json_is_null(json_object_get(event_last(&o, "progress"), "eta_s")));
    opened_close(&o);
}

/* Nothing is read of a file yet that has been counted: no share of it says when it ends. */
static void progress_of_nothing_read(void)
{
    clocks_set_back();
    tell(&(struct progress){.step = 3, .examples = 1000}, 1, (struct feed_counts){.byte_count = 0, .size_bytes = 100});
}

static void report_progress__nothing_read_yet__no_time_left(void **state)
{
    (void)state;
    said(LOG_TEXT, NULL, progress_of_nothing_read);
    assert_told(&o, "\nprogress   0% step 3: ");
    assert_told(&o, ", ETA ?\n");
    opened_close(&o);
}

/* Of the last examples: AUC 0.75, log loss 0.5, normalised entropy 0.9, and no more. */
static void progress_of_a_window(void)
{
    const struct progress p = {.step = 3, .examples = 1000};
    struct heads heads;
    assert_ok(heads_open(&heads, o.session.setup.model.graph));
    const double values[] = {0.75, 0.5, 0.9};
    for (uint32_t k = 0; k < HEAD_FIGURES_MAX; k++) heads.items[0].values[k] = k < 3 ? values[k] : (double)NAN;
    clocks_set_back();
    report_progress(
        &r, &(struct report_progress){.progress = &p, .ns = clock_ns(), .loss = 1, .heads = &heads, .window = 65536});
    heads_close(&heads);
}

static void report_progress__window__figures_of_the_losses(void **state)
{
    (void)state;
    said(LOG_JSON, NULL, progress_of_a_window);
    assert_int_equal(event_number(&o, "progress", "window"), 65536);
    assert_true(event_number(&o, "progress", "auc") == 0.75 && event_number(&o, "progress", "logloss") == 0.5);
    assert_null(json_object_get(event_last(&o, "progress"), "pr_auc"));
    const json_t *heads = json_object_get(event_last(&o, "progress"), "heads");
    json_t *expected = json_pack("[{s:s, s:f, s:f, s:f}]", "name", "bce", "auc", 0.75, "logloss", 0.5, "ne", 0.9);
    assert_true(json_equal(heads, expected));
    json_decref(expected);
    opened_close(&o);

    said(LOG_TEXT, NULL, progress_of_a_window);
    assert_told(&o, ", loss 1.00000, last 65,536: AUC 0.75000, log loss 0.50000, ETA ?\n");
    opened_close(&o);
}

static void report_is_due__by_format__after_its_time(void **state)
{
    (void)state;
    static const struct {
        enum log_format format;
        uint64_t early_ns, late_ns;
    } times[] = {{LOG_TEXT, 4 * SECOND, 5 * SECOND}, {LOG_JSON, SECOND / 2, SECOND}};
    for (int i = 0; i < 2; i++) {
        said(times[i].format, NULL, nothing_more);
        r.last_ns = clock_ns() - times[i].early_ns;
        assert_false(report_is_due(&r));
        r.last_ns = clock_ns() - times[i].late_ns;
        assert_true(report_is_due(&r));
        opened_close(&o);
    }
}

/* --- saves --------------------------------------------------------------------------------------- */

static const struct progress at_step_7 = {.step = 7};

static void two_saves(void)
{
    report_saved(&r, &(struct report_save){.path = "out",
                                           .progress = &at_step_7,
                                           .row_count = 12345,
                                           .written_count = 678,
                                           .bytes = 3 << 20,
                                           .linked_bytes = 2048,
                                           .ms = 41.4,
                                           .pause_ms = 2.25,
                                           .wait_ms = 3,
                                           .is_beside = true});
    report_saved(
        &r, &(struct report_save){.path = "out", .progress = &at_step_7, .row_count = 1, .ms = 9, .pause_ms = 1.5});
}

static void report_saved__beside_and_standing_still__lines_and_the_longest_pause(void **state)
{
    (void)state;
    said(LOG_TEXT, NULL, two_saves);
    assert_told(
        &o, "\nsaved    out at step 7 (678 of 12,345 rows, 3 MiB, 2 KiB linked, 41 ms beside training; stall 2.2 ms; "
            "threads waited 3 ms for checkpoint.buffer)\n"
            "saved    out at step 7 (1 rows, 2 ms)\n");
    assert_int_equal(r.save_count, 2);
    assert_true(r.save_pause_ms_max == 2.25);
    opened_close(&o);

    said(LOG_JSON, NULL, two_saves);
    assert_string_equal(event_steps(&o, "checkpoint"), "7 7");
    json_t *expected = json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:i}", "event", "checkpoint", "path",
                                 "out", "step", 7, "rows", 12345, "rows_written", 678, "bytes", 3 << 20, "bytes_linked",
                                 2048, "ms", 41.4, "pause_ms", 2.25, "wait_ms", 3);
    assert_non_null(expected);
    assert_int_equal(json_equal(json_array_get(o.events, 1), expected), 1);
    json_decref(expected);
    opened_close(&o);
}

/* --- the end ------------------------------------------------------------------------------------- */

static void end_of_ten_seconds(void)
{
    const struct table_account account = {.row_count = 4321, .used_bytes = 765};
    two_saves();
    report_save_late(&r, false);
    report_save_late(&r, true);
    r.begin_ns = clock_ns() - 12 * SECOND;
    r.pause_ns = 2 * SECOND;
    r.examples_at_begin = 100;
    report_done(&r, &(struct progress){.step = 99, .examples = 20100}, &account,
                (struct feed_counts){.bad_count = 1, .cut_count = 2, .unknown_count = 3});
}

static void report_done__ten_seconds_but_pauses__rates_rows_saves_and_what_was_left_out(void **state)
{
    (void)state;
    said(LOG_TEXT, NULL, end_of_ten_seconds);
    assert_told(&o, "\ndone     20,000 samples in 10.0 s: ");
    assert_told(&o, "\nrows     emb: 4,321\n");
    assert_told(&o, "\nsaves    2 so far: training stood still for 2.2 ms at most; "
                    "2 fell due while another was being written and came later, 1 of these with the next\n");
    assert_told(&o, "warning: skipped 1 malformed line of the training data\n");
    assert_told(&o, "warning: 2 lists of keys were longer than data.ids_max and were cut\n");
    assert_told(&o, "warning: 3 examples whose label or target is no word of its vocabulary were left out\n");
    opened_close(&o);

    said(LOG_JSON, NULL, end_of_ten_seconds);
    assert_near(event_number(&o, "done", "seconds"), 10);
    assert_near(event_number(&o, "done", "samples_per_s"), 2000);
    assert_int_equal(event_number(&o, "done", "step"), 99);
    assert_int_equal(event_number(&o, "done", "samples"), 20000);
    assert_int_equal(event_number(&o, "done", "bad_lines"), 1);
    assert_int_equal(event_number(&o, "done", "saves"), 2);
    assert_int_equal(event_number(&o, "done", "saves_late"), 2);
    assert_true(event_number(&o, "done", "save_pause_ms_max") == 2.25);
    assert_int_equal(event_number(&o, "done", "memory_bytes"), memory_planned_bytes());
    const json_t *store = json_object_get(event_last(&o, "done"), "store");
    assert_int_equal(json_integer_value(json_object_get(store, "emb")), 4321);
    assert_int_equal(json_integer_value(json_object_get(store, "used_bytes")), 765);
    opened_close(&o);
}

/* Every figure is another number, so that none stands for its neighbour. */
static void end_of_rows_that_go_and_return(void)
{
    static struct home some;
    const struct table_account account = {.row_count = 4321,
                                          .vector_count = 1010,
                                          .life = {.admitted = 5001,
                                                   .refused = 602,
                                                   .died = {[ROW_DEAD_SCORE] = 73, [ROW_DEAD_AGE] = 84},
                                                   .evicted = 195,
                                                   .evictions = 6,
                                                   .eviction_ns = 2 * SECOND},
                                          .store = {.ram_rows = 33,
                                                    .disk_rows = 1234,
                                                    .touched = 8000,
                                                    .disk = {.fetched = 2000,
                                                             .read_count = 1777,
                                                             .read_bytes = 7 << 20,
                                                             .put = 4096, /* rows of 32 bytes: 128 KiB */
                                                             .cleaned = 99,
                                                             .write_bytes = 160 << 10}}};
    struct store *store = o.session.setup.model.store;
    struct store_table *table = &store->table[0];
    struct home *home = store->home;
    table->life.counts = true;
    store->home = &some; /* is asked for nothing */
    report_done(&r, &(struct progress){.step = 1}, &account, (struct feed_counts){0});
    store->home = home;
    table->life.counts = false;
}

static void report_done__rows_that_go_and_return__each_figure_by_its_name(void **state)
{
    (void)state;
    static const struct {
        const char *section, *name;
        double value;
    } figures[] = {
        {"life", "rows_made", 5001},
        {"life", "occurrences_not_admitted", 602},
        {"life", "rows_died_by_score", 73},
        {"life", "rows_died_by_age", 84},
        {"life", "rows_evicted", 195},
        {"life", "evictions", 6},
        {"life", "eviction_s", 2},
        {"disk", "disk_rows", 1234},
        {"disk", "rows_touched", 8000},
        {"disk", "rows_fetched", 2000},
        {"disk", "reads", 1777},
        {"disk", "read_bytes", 7 << 20},
        {"disk", "rows_put", 4096},
        {"disk", "rows_cleaned", 99},
        {"disk", "write_bytes", 160 << 10},
        {"disk", "ram_rows", 33},
    };
    said(LOG_JSON, NULL, end_of_rows_that_go_and_return);
    size_t count = 0;
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        const json_t *table = json_object_get(json_object_get(event_last(&o, "done"), figures[i].section), "emb");
        const json_t *value = json_object_get(table, figures[i].name);
        if (!json_is_number(value) || json_number_value(value) != figures[i].value)
            fail_msg("%s.%s is %g", figures[i].section, figures[i].name, json_number_value(value));
        if (i == 0 || strcmp(figures[i].section, figures[i - 1].section) != 0) count += json_object_size(table);
    }
    assert_int_equal(count, sizeof figures / sizeof *figures); /* and none besides */
    opened_close(&o);

    said(LOG_TEXT, NULL, end_of_rows_that_go_and_return);
    assert_told(&o, "\nlife     emb: 5,001 rows made, 602 occurrences of keys not admitted; "
                    "73 rows died by score, 84 by age; 195 evicted\n");
    assert_told(&o, " rows 6 times: finding those of the least scores took 2.0 s\n");
    assert_told(&o, "\ndisk     emb: 1,234 rows on disk; 75.00% of rows were found in RAM; 1,777 reads, 7 MiB; "
                    "written 160 KiB, 1.25 times what left RAM\n");
    opened_close(&o);
}

static void end_without_a_save(void)
{
    report_done(&r, &(struct progress){0}, &(struct table_account){0}, (struct feed_counts){0});
}

static void report_done__nothing_to_complain_of__no_warning_and_no_saves(void **state)
{
    (void)state;
    said(LOG_TEXT, NULL, end_without_a_save);
    assert_told(&o, "\ndone     0 samples in 0.0 s: 0 samples/s\n");
    assert_null(strstr(o.text, "warning"));
    assert_null(strstr(o.text, "saves"));
    opened_close(&o);
}

/* Fewer than a hundred steps of a pass: the largest power of two that leaves a hundred,
 * unless the batch is as small. */
static void report_batch_smaller__few_steps__is_one_that_leaves_enough(void **state)
{
    (void)state;
    static const struct {
        uint64_t examples;
        uint32_t batch, smaller;
    } cases[] = {
        {0, 64, 0},        {6400, 64, 0},      {6337, 64, 0},  {6336, 64, 32}, {3200, 64, 32},
        {3199, 64, 16},    {100, 64, 16},      {1584, 16, 0},  {100, 17, 16},  {100, 16, 0},
        {12799, 4096, 64}, {12800, 4096, 128}, {3168, 32, 16}, {1, 1, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (report_batch_smaller(cases[i].examples, cases[i].batch) != cases[i].smaller)
            fail_msg("%u examples, batch %u: %u", (uint32_t)cases[i].examples, cases[i].batch,
                     report_batch_smaller(cases[i].examples, cases[i].batch));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(report_start__new_model__line_and_event),
        cmocka_unit_test(report_start__model_of_some_steps__says_where_it_goes_on),
        cmocka_unit_test(report_start__within_a_pass__says_what_is_read_again),
        cmocka_unit_test(report_progress__quarter_of_the_steps__rate_without_pauses_and_time_left),
        cmocka_unit_test(report_progress__half_of_the_bytes__share_of_all_passes),
        cmocka_unit_test(report_progress__before_the_last_step_is_done__not_all),
        cmocka_unit_test(report_progress__resumed__time_left_by_what_this_run_has_done),
        cmocka_unit_test(report_progress__end_unknown__no_share_and_no_time),
        cmocka_unit_test(report_progress__nothing_read_yet__no_time_left),
        cmocka_unit_test(report_progress__window__figures_of_the_losses),
        cmocka_unit_test(report_is_due__by_format__after_its_time),
        cmocka_unit_test(report_saved__beside_and_standing_still__lines_and_the_longest_pause),
        cmocka_unit_test(report_done__ten_seconds_but_pauses__rates_rows_saves_and_what_was_left_out),
        cmocka_unit_test(report_done__rows_that_go_and_return__each_figure_by_its_name),
        cmocka_unit_test(report_done__nothing_to_complain_of__no_warning_and_no_saves),
        cmocka_unit_test(report_batch_smaller__few_steps__is_one_that_leaves_enough),
    };
    return cmocka_run_group_tests(tests, session_fixture_open, session_fixture_close) ? 1 : 0;
}
