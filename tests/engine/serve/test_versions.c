/* Saves of a model at work: which one answers, who asks for another, and what a new save
 * in the directory changes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/serve/served_test.h"

#define ASK "a,b,job\n1,2,x\n"
/* By the weights of save 10, 0.5 - 0.5 + 0.125, and of save 20, 1 + 4 - 3. */
#define OLD "0.531209373\n"
#define NEW "0.880797078\n"

static struct running start(const char *model)
{
    static struct serve_model m;
    struct serve_options o = served_options();
    m = (struct serve_model){"line", served_graph, model};
    o.models = &m;
    return served_start(&o);
}

static void is_at(const struct running *r, const char *state, const char *prediction)
{
    char expected[256];
    snprintf(expected, sizeof expected, "{\"model\":\"line\",%s}\n", state);
    served_check(served_ask(r, "GET /version", "", ""), 200, "Content-Type: application/json\r\n", expected);
    served_check(served_ask(r, "POST /predict", "", ASK), 200, NULL, prediction);
}

static void version_post__by_name__another_save_answers(void **state)
{
    (void)state;
    struct running r = start(served_directory);
    is_at(&r, "\"version\":\"20\",\"held\":false,\"older\":[\"10\"]", NEW);
    served_check(served_ask(&r, "POST /version", "", " 10"), 400, NULL,
                 "expected a save's step, such as 2000, or newest\n");
    served_check(served_ask(&r, "POST /version", "", "10 \r\n"), 200, "Heterps-Version: 10\r\n", "10\n");
    is_at(&r, "\"version\":\"10\",\"held\":true,\"older\":[\"10\"]", OLD);
    served_check(served_ask(&r, "POST /version", "", "newest"), 200, "Heterps-Version: 20\r\n", "20\n");
    is_at(&r, "\"version\":\"20\",\"held\":false,\"older\":[\"10\"]", NEW);
    served_check(served_ask(&r, "POST /version", "", "20"), 200, "Heterps-Version: 20\r\n", "20\n");
    is_at(&r, "\"version\":\"20\",\"held\":true,\"older\":[\"10\"]", NEW);
    assert_int_equal(served_end(&r), 0);
}

static void version_post__no_such_save__changes_nothing(void **state)
{
    (void)state;
    struct running r = start(served_directory);
    const char *answer = served_ask(&r, "POST /version", "", "7");
    served_check(answer, 409, "Heterps-Version: 20\r\n", NULL);
    served_has(answer, ": there is no save 7; version 20 stays\n");
    static const char *const none[] = {"", "\n", "ten", "1O", "newest1", "../10"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        served_check(served_ask(&r, "POST /version", "", none[i]), 400, NULL, NULL);
    is_at(&r, "\"version\":\"20\",\"held\":false,\"older\":[\"10\"]", NEW);
    assert_int_equal(served_end(&r), 0);
}

static void version_post__names_as_long_as_they_may_be__are_read(void **state)
{
    (void)state;
    char name[MODEL_TAG_BYTES + 1];
    struct running r = start(served_directory);
    memset(name, '1', sizeof name);
    name[MODEL_TAG_BYTES] = 0;
    served_check(served_ask(&r, "POST /version", "", name), 400, NULL, NULL);
    name[MODEL_TAG_BYTES - 1] = 0;
    served_check(served_ask(&r, "POST /version", "", name), 409, NULL, NULL);
    assert_int_equal(served_end(&r), 0);
}

/* Nobody may have looked at the newest save when a client asks for one that is not there. */
static void version_post__no_such_save__the_newest_is_taken_all_the_same(void **state)
{
    (void)state;
    char directory[512];
    snprintf(directory, sizeof directory, "%s", fixture_path("soon"));
    served_save(directory, 1, served_weights_old);
    struct running r = start(directory);
    served_save(directory, 2, served_weights_new);
    served_check(served_ask(&r, "POST /version", "", "12345"), 409, NULL, NULL);
    for (int i = 0; i < 500 && strstr(served_ask(&r, "GET /version", "", ""), "\"version\":\"1\""); i++) usleep(20000);
    is_at(&r, "\"version\":\"2\",\"held\":false,\"older\":[\"1\"]", NEW);
    assert_int_equal(served_end(&r), 0);
}

/* What has left is counted on. */
static void versions_counts__after_a_change__are_of_all_versions(void **state)
{
    (void)state;
    struct running r = start(served_directory);
    served_check(served_ask(&r, "POST /predict", "", ASK "0,0,\n0,z,\n"), 200, NULL, NULL);
    served_check(served_ask(&r, "POST /version", "", "10"), 200, NULL, NULL);
    served_check(served_ask(&r, "POST /predict", "", ASK), 200, NULL, OLD);
    for (int i = 0; i < 2; i++) { /* perhaps the one before is still there at first */
        const char *figures = served_ask(&r, "GET /metrics", "", "");
        served_has(figures, "\nheterps_examples_total{model=\"line\"} 4\n");
        served_has(figures, "\nheterps_batches_total{model=\"line\"} 2\n");
        served_has(figures, "\nheterps_bad_lines_total{model=\"line\"} 1\n");
        served_has(figures, "\nheterps_model_step{model=\"line\"} 10\n");
        served_has(figures, "\nheterps_requests_waiting{model=\"line\"} 0\n");
    }
    assert_int_equal(served_end(&r), 0);
}

/* A save that comes is taken by itself, unless one was asked for by its name, at the start or later. */
static void versions__a_new_save__is_taken_unless_one_is_held(void **state)
{
    (void)state;
    char directory[512], old[600];
    snprintf(directory, sizeof directory, "%s", fixture_path("grows"));
    snprintf(old, sizeof old, "%s/manifest.1.json", directory);
    served_save(directory, 1, served_weights_old);
    served_save(directory, 2, served_weights_old);
    struct running follows = start(directory), holds = start(old), asked = start(directory);
    is_at(&holds, "\"version\":\"1\",\"held\":true,\"older\":[\"1\"]", OLD);
    served_check(served_ask(&asked, "POST /version", "", "2"), 200, NULL, "2\n");
    served_save(directory, 3, served_weights_new);
    while (strstr(served_ask(&follows, "GET /version", "", ""), "\"version\":\"2\"")) usleep(20000);
    is_at(&follows, "\"version\":\"3\",\"held\":false,\"older\":[\"1\",\"2\"]", NEW);
    usleep(400000); /* the others would have looked, too */
    is_at(&holds, "\"version\":\"1\",\"held\":true,\"older\":[\"1\",\"2\"]", OLD);
    is_at(&asked, "\"version\":\"2\",\"held\":true,\"older\":[\"1\",\"2\"]", OLD);
    served_check(served_ask(&asked, "POST /version", "", "newest"), 200, NULL, "3\n");
    is_at(&asked, "\"version\":\"3\",\"held\":false,\"older\":[\"1\",\"2\"]", NEW);
    assert_int_equal(served_end(&follows) | served_end(&holds) | served_end(&asked), 0);
}

/* An exported file is one version, called by its step, without older ones; one in its place
 * is taken by itself. */
static void versions__an_exported_file__is_taken_anew_when_it_is_replaced(void **state)
{
    (void)state;
    char file[512];
    snprintf(file, sizeof file, "%s", fixture_path("line.lean"));
    served_export(file, 5, served_weights_old);
    struct running r = start(file);
    is_at(&r, "\"version\":\"5\",\"held\":false,\"older\":[]", OLD);
    served_check(served_ask(&r, "POST /predict", "", ASK), 200, "Heterps-Version: 5\r\n", OLD);
    served_check(served_ask(&r, "POST /version", "", "4"), 409, NULL, NULL);
    served_export(file, 6, served_weights_new);
    for (int i = 0; i < 500 && strstr(served_ask(&r, "POST /predict", "", ASK), OLD); i++) usleep(20000);
    is_at(&r, "\"version\":\"6\",\"held\":false,\"older\":[]", NEW);
    assert_int_equal(served_end(&r), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_post__by_name__another_save_answers),
        cmocka_unit_test(version_post__no_such_save__changes_nothing),
        cmocka_unit_test(version_post__no_such_save__the_newest_is_taken_all_the_same),
        cmocka_unit_test(version_post__names_as_long_as_they_may_be__are_read),
        cmocka_unit_test(versions_counts__after_a_change__are_of_all_versions),
        cmocka_unit_test(versions__an_exported_file__is_taken_anew_when_it_is_replaced),
        cmocka_unit_test(versions__a_new_save__is_taken_unless_one_is_held),
    };
    return cmocka_run_group_tests(tests, served_open, served_close) ? 1 : 0;
}
