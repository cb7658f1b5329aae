/* Figures of the server: times by their bounds, quantiles of them, and the text that Prometheus reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "engine/serve/figures.h"
#include "tests/engine/serve/served_test.h"

#define MILLISECOND UINT64_C(1000000)

static void figures_add__a_time_at_a_bound__is_within_it(void **state)
{
    (void)state;
    struct figures f = {0};
    figures_add(&f, 200000, 0);
    figures_add(&f, 200001, 2);
    figures_add(&f, 1000 * MILLISECOND, 0);
    figures_add(&f, 5000 * MILLISECOND, 1);
    figures_add(&f, 5001 * MILLISECOND, 0);
    assert_int_equal(f.requests, 5);
    assert_int_equal(f.bad_lines, 3);
    static const uint64_t within[FIGURES_BOUNDS + 1] = {1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1};
    assert_memory_equal(f.within, within, sizeof within);
    assert_true(fabs(f.seconds - 11.001400001) < 1e-12);
}

static void figures_quantile__is_the_bound_above_the_share(void **state)
{
    (void)state;
    struct figures f = {0};
    assert_true(isnan(figures_quantile(&f, 0.5)));
    for (int i = 0; i < 2; i++) figures_add(&f, MILLISECOND / 10, 0);
    assert_true(figures_quantile(&f, 1) == 0.0002);
    for (int i = 0; i < 2; i++) figures_add(&f, 15 * MILLISECOND, 0);
    assert_true(figures_quantile(&f, 0.5) == 0.0002);
    assert_true(figures_quantile(&f, 0.51) == 0.02);
    assert_true(figures_quantile(&f, 1) == 0.02);
    figures_add(&f, 4000 * MILLISECOND, 0);
    assert_true(figures_quantile(&f, 1) == 5);
    figures_add(&f, 6000 * MILLISECOND, 0);
    assert_true(isinf(figures_quantile(&f, 1)));
    assert_true(figures_quantile(&f, 0.8) == 5);
}

/* The value of a line, which begins so. */
static double figure(const char *text, const char *name)
{
    char line[256];
    snprintf(line, sizeof line, "\n%s ", name);
    const char *at = strstr(text, line);
    if (at == NULL) fail_msg("no %s in: %s", name, text);
    return strtod(at + strlen(line), NULL);
}

static void figures_metrics__are_those_of_what_was_asked(void **state)
{
    (void)state;
    const struct serve_model models[] = {{"one", served_graph, served_directory},
                                         {"two", served_graph, served_directory}};
    struct serve_options o = served_options();
    o.models = models;
    o.model_count = 2;
    o.connections = 7;
    struct running r = served_start(&o);
    for (int i = 0; i < 3; i++) (void)served_ask(&r, "POST /predict/two", "", "a,b,job\n1,2,\n1,z,\n");
    (void)served_ask(&r, "POST /predict/one", "", "a,b,job\n1,2,\n");
    for (int i = 0; i < 2; i++) (void)served_ask(&r, "POST /predict/one", "", i ? "" : "a,b,job\n"); /* no line */
    for (int i = 0; i < 2; i++) (void)served_ask(&r, "GET /none", "", "");
    const char *text = served_ask(&r, "GET /metrics", "", "");
    static const struct {
        const char *name;
        double value;
    } cases[] = {
        {"heterps_http_answers_total{code=\"200\"}", 6},
        {"heterps_http_answers_total{code=\"404\"}", 2},
        {"heterps_http_answers_total{code=\"500\"}", 0},
        {"heterps_http_connections", 1},
        {"heterps_http_connections_max", 7},
        {"heterps_http_held_bytes", 0},
        {"heterps_requests_waiting{model=\"two\"}", 0},
        {"heterps_model_step{model=\"one\"}", 20},
        {"heterps_examples_total{model=\"one\"}", 1},
        {"heterps_examples_total{model=\"two\"}", 6},
        {"heterps_batches_total{model=\"two\"}", 3},
        {"heterps_bad_lines_total{model=\"one\"}", 0},
        {"heterps_bad_lines_total{model=\"two\"}", 3},
        {"heterps_request_duration_seconds_bucket{model=\"one\",le=\"+Inf\"}", 3},
        {"heterps_request_duration_seconds_bucket{model=\"two\",le=\"+Inf\"}", 3},
        {"heterps_request_duration_seconds_count{model=\"two\"}", 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (figure(text, cases[i].name) != cases[i].value)
            fail_msg("%s: expected %g, found %g", cases[i].name, cases[i].value, figure(text, cases[i].name));
    assert_true(figure(text, "heterps_resident_memory_bytes") > 100000);
    assert_true(figure(text, "heterps_request_duration_seconds_sum{model=\"two\"}") > 0);
    static const char *const bounds[] = {"0.0002", "0.0005", "0.001", "0.002", "0.005", "0.01", "0.02",
                                         "0.05",   "0.1",    "0.2",   "0.5",   "1",     "5"};
    double before = 0;
    for (size_t i = 0; i < FIGURES_BOUNDS; i++) { /* added up */
        char name[160];
        snprintf(name, sizeof name, "heterps_request_duration_seconds_bucket{model=\"two\",le=\"%s\"}", bounds[i]);
        const double value = figure(text, name);
        assert_true(value >= before && value <= 3);
        before = value;
    }
    assert_int_equal(served_end(&r), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_add__a_time_at_a_bound__is_within_it),
        cmocka_unit_test(figures_quantile__is_the_bound_above_the_share),
        cmocka_unit_test(figures_metrics__are_those_of_what_was_asked),
    };
    return cmocka_run_group_tests(tests, served_open, served_close) ? 1 : 0;
}
