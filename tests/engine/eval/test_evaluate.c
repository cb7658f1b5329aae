/* What an evaluation says besides its figures, and what part of a budget its data has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <math.h>

#include "engine/eval/eval_sets.h"
#include "engine/eval/evaluate.h"
#include "tests/engine/run/session_fixture.h"

#define GOOD 60u

static void evaluate_measure__malformed_lines__are_counted_in_the_event(void **state)
{
    (void)state;
    static const char *const set[] = {"data.bad_lines=skip", NULL};
    struct opened o;
    struct feed *feed;
    struct heads heads;
    char path[256];
    snprintf(path, sizeof path, "%s", fixture_path("bad.tsv"));
    fixture_data(path, 0, GOOD, "no line\nand no line\n0\n");
    opened_begin(&o, set, LOG_JSON);
    assert_ok(heads_open(&heads, &o.session.setup.graph));
    assert_ok(evaluate_open(&o.session.crew, &(struct evaluate_options){.paths = path, .lines = READER_ALL}, &feed));
    assert_ok(evaluate_measure(&o.session.crew, feed, &heads));
    feed_close(feed);
    heads_close(&heads);
    opened_end(&o);
    assert_int_equal(event_number(&o, "eval", "samples"), GOOD);
    assert_int_equal(event_number(&o, "eval", "bad_lines"), 3);
    assert_int_equal(event_number(&o, "eval", "left_out"), 0);
    assert_non_null(strstr(event_text(&o, "warning", "text"), "skipped 3 malformed lines of the evaluation data"));
    opened_close(&o);
}

static const char *bytes_put(const char *name, size_t bytes)
{
    const char *path = fixture_path(name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (size_t i = 0; i < bytes; i++) fputc('\n', file);
    assert_int_equal(fclose(file), 0);
    return path;
}

/* Of a file of which a quarter is held out, evaluation reads a quarter and training the rest. */
static void evaluate_shares__by_the_text_that_is_read(void **state)
{
    (void)state;
    static struct setup s;
    double share[2];
    const char *data = bytes_put("data", 4000), *other = bytes_put("other", 1000);
    struct evaluate_options options[2] = {{.paths = data, .lines = READER_HELD_OUT},
                                          {.paths = other, .lines = READER_ALL}};
    s.settings.data_eval_fraction = 0.25;
    evaluate_shares(&s, options, 1, data, share);
    assert_true(fabs(share[0] - 0.25) < 1e-12);
    evaluate_shares(&s, options, 2, data, share);
    assert_true(fabs(share[0] - 0.2) < 1e-12 && fabs(share[1] - 0.2) < 1e-12);
    s.settings.data_eval_fraction = 0;
    evaluate_shares(&s, options + 1, 1, data, share);
    assert_true(fabs(share[0] - 0.2) < 1e-12);
    /* A tenth for all where it cannot be told. */
    options[1].paths = "-";
    evaluate_shares(&s, options, 2, data, share);
    assert_true(share[0] == 0.05 && share[1] == 0.05);
}

/* Evaluates data of `rows` clicks from `first` on, as a set called `set` and with its bins if
 * they are told; keeps the head. */
static void measured(struct opened *o, enum log_format format, uint64_t first, uint32_t rows, const char *set,
                     bool tells_bins, struct head *kept)
{
    struct feed *feed;
    struct heads heads;
    char path[256];
    snprintf(path, sizeof path, "%s", fixture_path("set.tsv"));
    unlink(path);
    fixture_data(path, first, rows, NULL);
    opened_begin(o, NULL, format);
    assert_ok(heads_open(&heads, &o->session.setup.graph));
    assert_ok(evaluate_open(&o->session.crew, &(struct evaluate_options){.paths = path, .lines = READER_ALL}, &feed));
    assert_ok(evaluate_reserve(&o->session.crew, feed, &heads));
    assert_ok(evaluate_measure_as(&o->session.crew, feed, &heads, set, NULL));
    if (tells_bins) evaluate_bins_tell(&heads);
    *kept = heads.items[0];
    feed_close(feed);
    heads_close(&heads);
    opened_end(o);
}

static const json_t *event_of(const struct opened *o, const char *name)
{
    for (size_t i = 0; i < json_array_size(o->events); i++) {
        const json_t *event = json_array_get(o->events, i);
        if (strcmp(json_string_value(json_object_get(event, "event")), name) == 0) return event;
    }
    fail_msg("no event %s", name);
    return NULL;
}

static void evaluate_measure_as__a_set__event_with_heads_and_bins(void **state)
{
    (void)state;
    struct opened o;
    struct head head;
    measured(&o, LOG_JSON, 0, 500, "tuesday", false, &head);
    const json_t *event = event_of(&o, "eval"), *heads = json_object_get(event, "heads"),
                 *only = json_array_get(heads, 0);
    assert_string_equal(json_string_value(json_object_get(event, "set")), "tuesday");
    assert_int_equal(event_number(&o, "eval", "step"), 0);
    assert_int_equal(event_number(&o, "eval", "samples"), 500);
    assert_int_equal(event_number(&o, "eval", "bad_lines"), 0);
    assert_true(json_number_value(json_object_get(event, "seconds")) > 0);
    assert_int_equal(json_array_size(heads), 1);
    assert_string_equal(json_string_value(json_object_get(only, "name")), "bce");
    assert_string_equal(json_string_value(json_object_get(only, "section")), "loss");
    for (uint32_t k = 0; k < head.figure_count; k++) {
        const json_t *of_event = json_object_get(event, head.figures[k].key),
                     *of_head = json_object_get(only, head.figures[k].key);
        if (isnan(head.values[k])) continue;
        assert_true(json_number_value(of_event) == head.values[k] && json_number_value(of_head) == head.values[k]);
    }
    const json_t *bins = json_object_get(only, "bins");
    double samples = 0, labels = 0;
    assert_int_equal(json_array_size(bins), METRICS_BINS);
    for (uint32_t i = 0; i < METRICS_BINS; i++) {
        const json_t *bin = json_array_get(bins, i);
        assert_int_equal(json_integer_value(json_object_get(bin, "samples")), head.bins[i].example_count);
        if (head.bins[i].example_count == 0) continue;
        assert_true(json_number_value(json_object_get(bin, "prediction")) == head.bins[i].prediction);
        assert_true(json_number_value(json_object_get(bin, "label")) == head.bins[i].label);
        assert_true(head.bins[i].prediction >= i / 10.0 && head.bins[i].prediction <= (i + 1) / 10.0);
        samples += (double)head.bins[i].example_count;
        labels += (double)head.bins[i].example_count * head.bins[i].label;
    }
    assert_true(samples == 500 && labels > 50 && labels < 450);
    opened_close(&o);
    measured(&o, LOG_JSON, 0, 10, NULL, false, &head);
    assert_null(json_object_get(event_of(&o, "eval"), "set"));
    opened_close(&o);
}

static void evaluate_measure_as__a_set__line_and_bins(void **state)
{
    (void)state;
    struct opened o;
    struct head head;
    char expected[512], figures[256], line[160];
    measured(&o, LOG_TEXT, 0, 500, "tuesday", true, &head);
    evaluate_figures_text(&head, false, figures, sizeof figures);
    assert_memory_equal(figures, "AUC 0.", 6);
    snprintf(expected, sizeof expected, "eval     tuesday step 0: %s (500 examples, ", figures);
    assert_non_null(strstr(o.text, expected));
    assert_non_null(strstr(o.text, "bins     bce: predicted      examples  mean prediction  mean label\n"));
    uint32_t lines = 0, filled = 0;
    for (const char *at = o.text; (at = strstr(at, "bins     ")) != NULL; at++) lines++;
    for (uint32_t i = 0; i < METRICS_BINS; i++) {
        const struct metrics_bin *bin = &head.bins[i];
        if (bin->example_count == 0) continue;
        filled++;
        snprintf(line, sizeof line, "bins          %.1f to %.1f  %12u  %15.5f  %10.5f\n", i / 10.0, (i + 1) / 10.0,
                 (unsigned)bin->example_count, bin->prediction, bin->label);
        assert_non_null(strstr(o.text, line));
    }
    assert_int_equal(lines, filled + 1);
    opened_close(&o);
    /* One example has one label. */
    measured(&o, LOG_TEXT, 3, 1, NULL, false, &head);
    assert_non_null(strstr(o.text, "eval     step 0: log loss "));
    assert_non_null(strstr(o.text, "; no AUC: all labels are the same (1 examples, "));
    opened_close(&o);
}

/* Figures of both kinds in turn: each text has its own. What is undefined is left out but for the loss. */
static void evaluate_figures_text__of_both_kinds__each_has_its_own(void **state)
{
    (void)state;
    static const struct figure_kind figures[] = {{.key = "one", .text = "one", .digits = 1},
                                                 {.key = "two", .text = "two", .digits = 2, .of_known = true},
                                                 {.key = "loss", .text = "loss", .digits = 3, .is_loss = true},
                                                 {.key = "four", .text = "four", .digits = 0, .of_known = true},
                                                 {.key = "five", .text = "five", .digits = 1}};
    struct head head = {.figures = figures, .figure_count = 5, .values = {1, 2, 3, 4, 5, 6, 7}};
    char text[100];
    assert_string_equal(evaluate_figures_text(&head, false, text, sizeof text), "one 1.0, loss 3.000, five 5.0");
    assert_string_equal(evaluate_figures_text(&head, true, text, sizeof text), "two 2.00, four 4");
    head.values[0] = head.values[2] = head.values[3] = (double)NAN;
    assert_string_equal(evaluate_figures_text(&head, false, text, sizeof text), "loss nan, five 5.0");
    assert_string_equal(evaluate_figures_text(&head, true, text, sizeof text), "two 2.00");
    assert_string_equal(evaluate_figures_text(&head, false, text, 6), "loss ");
    head.figure_count = 0;
    assert_string_equal(evaluate_figures_text(&head, false, text, sizeof text), "");
}

static void evaluate_measure__nothing_to_evaluate__says_why(void **state)
{
    (void)state;
    static const char *const set[] = {"data.bad_lines=skip", NULL};
    struct opened o;
    struct feed *feed;
    struct heads heads;
    char path[256];
    for (int bad = 0; bad < 2; bad++) {
        snprintf(path, sizeof path, "%s", fixture_path("none.tsv"));
        FILE *file = fopen(path, "w");
        if (bad) fputs("no line\n", file);
        fclose(file);
        opened_begin(&o, set, LOG_TEXT);
        assert_ok(heads_open(&heads, &o.session.setup.graph));
        assert_ok(
            evaluate_open(&o.session.crew, &(struct evaluate_options){.paths = path, .lines = READER_ALL}, &feed));
        assert_int_equal(evaluate_measure(&o.session.crew, feed, &heads), ST_INVALID);
        struct failure failure;
        failure_keep(&failure, ST_INVALID);
        feed_close(feed);
        heads_close(&heads);
        opened_end(&o);
        assert_non_null(strstr(failure.message, bad ? "none.tsv: no examples to evaluate: every line is malformed"
                                                    : "none.tsv: no examples to evaluate"));
        assert_int_equal(strstr(failure.message, "malformed") != NULL, bad);
        opened_close(&o);
    }
}

/* Sets in turn, each with a cache of its own name. */
static void eval_feeds__sets__are_opened_and_measured_in_turn(void **state)
{
    (void)state;
    struct opened o;
    struct heads heads;
    struct eval_sets sets;
    struct eval_feeds f;
    char texts[2][300];
    for (int i = 0; i < 2; i++) {
        snprintf(texts[i], sizeof texts[i], "%s=%s", i ? "large" : "small", fixture_path(i ? "l.tsv" : "s.tsv"));
        fixture_data(strchr(texts[i], '=') + 1, 0, i ? 3000 : 20, NULL);
    }
    const char *const of[] = {texts[0], texts[1]};
    assert_ok(eval_sets_parse(&sets, "--eval", of, 2));
    assert_false(eval_sets_name_stdin(&sets));
    opened_begin(&o, NULL, LOG_JSON);
    const size_t planned = memory_planned_bytes();
    eval_feeds_begin(&f, &sets);
    assert_string_equal(f.suffix[0], ".eval.small");
    assert_string_equal(f.suffix[1], ".eval.large");
    assert_string_equal(f.options[0].cache.suffix, ".eval.small");
    assert_ptr_equal(f.options[1].cache_kept, &f.cache[1]);
    assert_string_equal(f.options[1].paths, strchr(texts[1], '=') + 1);
    assert_ok(heads_open(&heads, &o.session.setup.graph));
    assert_ok(eval_feeds_reserve(&f, &o.session.crew, &heads));
    assert_true(f.feed != NULL && f.at < 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_ok(eval_feeds_open(&f, &o.session.crew, i));
        const struct feed *feed = f.feed;
        assert_ok(eval_feeds_open(&f, &o.session.crew, i)); /* the feed is open already */
        assert_ptr_equal(f.feed, feed);
        assert_ok(eval_feeds_measure(&f, &o.session.crew, &heads, NULL));
    }
    eval_feeds_shut(&f);
    assert_null(f.feed);
    eval_feeds_close(&f);
    heads_close(&heads);
    assert_int_equal(memory_planned_bytes(), planned);
    opened_end(&o);
    uint32_t seen = 0;
    for (size_t i = 0; i < json_array_size(o.events); i++) {
        const json_t *event = json_array_get(o.events, i);
        if (strcmp(json_string_value(json_object_get(event, "event")), "eval") != 0) continue;
        assert_string_equal(json_string_value(json_object_get(event, "set")), seen ? "large" : "small");
        assert_int_equal(json_integer_value(json_object_get(event, "samples")), seen ? 3000 : 20);
        seen++;
    }
    assert_int_equal(seen, 2);
    opened_close(&o);
    sets = eval_sets_of("-");
    assert_true(eval_sets_name_stdin(&sets));
    eval_feeds_begin(&f, &sets);
    assert_string_equal(f.suffix[0], ".eval");
    eval_feeds_close(&f);
    /* One alone stays open, for a stream cannot be opened again; several are refused. */
    for (int i = 0; i < 2; i++) {
        const int saved = dup(STDIN_FILENO), file = open(strchr(texts[0], '=') + 1, O_RDONLY | O_CLOEXEC);
        assert_true(saved >= 0 && file >= 0 && dup2(file, STDIN_FILENO) == STDIN_FILENO);
        close(file);
        assert_ok(eval_sets_parse(&sets, "--eval", (const char *const[]){"a=-", texts[1]}, i ? 2 : 1));
        opened_begin(&o, NULL, LOG_JSON);
        eval_feeds_begin(&f, &sets);
        assert_ok(heads_open(&heads, &o.session.setup.graph));
        if (i == 0) {
            assert_ok(eval_feeds_reserve(&f, &o.session.crew, &heads));
            const struct feed *feed = f.feed;
            assert_ok(eval_feeds_open(&f, &o.session.crew, 0));
            assert_true(feed != NULL && f.feed == feed);
        } else {
            assert_int_equal(eval_feeds_reserve(&f, &o.session.crew, &heads), ST_INVALID);
            assert_message("the set a is a stream, which can be opened once, and several sets are opened in turn");
        }
        eval_feeds_close(&f);
        heads_close(&heads);
        opened_end(&o);
        opened_close(&o);
        dup2(saved, STDIN_FILENO);
        close(saved);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evaluate_measure__malformed_lines__are_counted_in_the_event),
        cmocka_unit_test(evaluate_shares__by_the_text_that_is_read),
        cmocka_unit_test(evaluate_measure_as__a_set__event_with_heads_and_bins),
        cmocka_unit_test(evaluate_measure_as__a_set__line_and_bins),
        cmocka_unit_test(evaluate_figures_text__of_both_kinds__each_has_its_own),
        cmocka_unit_test(evaluate_measure__nothing_to_evaluate__says_why),
        cmocka_unit_test(eval_feeds__sets__are_opened_and_measured_in_turn),
    };
    return cmocka_run_group_tests(tests, session_fixture_open, session_fixture_close) ? 1 : 0;
}
