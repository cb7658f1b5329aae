/* What an evaluation says besides its figures, and what part of a budget its data has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

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
    struct evaluate_options o[2] = {{.paths = data, .lines = READER_HELD_OUT}, {.paths = other, .lines = READER_ALL}};
    s.settings.data_eval_fraction = 0.25;
    evaluate_shares(&s, o, 1, data, share);
    assert_true(fabs(share[0] - 0.25) < 1e-12);
    evaluate_shares(&s, o, 2, data, share);
    assert_true(fabs(share[0] - 0.2) < 1e-12 && fabs(share[1] - 0.2) < 1e-12);
    s.settings.data_eval_fraction = 0;
    evaluate_shares(&s, o + 1, 1, data, share);
    assert_true(fabs(share[0] - 0.2) < 1e-12);
    /* A tenth for all where it cannot be told. */
    o[1].paths = "-";
    evaluate_shares(&s, o, 2, data, share);
    assert_true(share[0] == 0.05 && share[1] == 0.05);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evaluate_measure__malformed_lines__are_counted_in_the_event),
        cmocka_unit_test(evaluate_shares__by_the_text_that_is_read),
    };
    return cmocka_run_group_tests(tests, session_fixture_open, session_fixture_close) ? 1 : 0;
}
