/* Figures of the benchmark, made by hand: what a line of the table and an event say of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/bench/bench.h"

/* What is printed from here on. */
static int saved, file;
static void print_begin(enum log_format format)
{
    fflush(NULL);
    saved = dup(STDOUT_FILENO), file = memfd_create("out", MFD_CLOEXEC);
    assert_true(saved >= 0 && file >= 0 && dup2(file, STDOUT_FILENO) == STDOUT_FILENO);
    log_open(format, 0);
}
static const char *print_end(void)
{
    static char text[4096];
    fflush(NULL);
    ssize_t bytes = pread(file, text, sizeof text - 1, 0);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    close(file);
    assert_true(bytes >= 0);
    text[bytes] = 0;
    return text;
}

/* What is printed of a figure. */
static const char *told(enum log_format format, const struct bench_figure *f)
{
    print_begin(format);
    bench_tell(f, true);
    return print_end();
}

/* Medians of 100 and 400, but no repeat of the one is beside that of the other: shares of 1/5, 1/4, 1/2. */
static const struct series three = {3, {100, 250, 80}}, limit_of_three = {3, {400, 500, 400}}, four = {4, {1, 4, 3, 2}};

static void bench_tell__figures__line_of_the_table(void **state)
{
    (void)state;
    static const struct {
        struct bench_figure figure;
        const char *line;
    } cases[] = {
        {{.subject = "gemm",
          .name = "a product",
          .unit = "GFLOP/s",
          .threads = 2,
          .ours = &three,
          .limit = &limit_of_three},
         "  a product                                    2    100.0       80.00 - 250.0 GFLOP/s       400.0   0.25\n"},
        /* A time: twice, four and five times the limit's. */
        {{.subject = "ring",
          .name = "a time",
          .unit = "ns",
          .threads = 1,
          .less_is_better = true,
          .ours = &limit_of_three,
          .limit = &three},
         "  a time                                       1    400.0       400.0 - 500.0 ns            100.0   0.25\n"},
        {{.subject = "lookup", .name = "no limit", .unit = "M/s", .threads = 16, .ours = &four},
         "  no limit                                    16    2.500       1.000 - 4.000 M/s                       \n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(told(LOG_TEXT, &cases[i].figure), cases[i].line);
}

static void bench_tell__figure__event(void **state)
{
    (void)state;
    const struct bench_figure figure = {.subject = "gemm",
                                        .name = "a product",
                                        .precision = "bf16",
                                        .unit = "GFLOP/s",
                                        .threads = 2,
                                        .ours = &three,
                                        .limit = &limit_of_three,
                                        .limit_name = "VDPBF16PS",
                                        .detail = {{"M", 40}, {"N", 24}}};
    json_error_t error;
    json_t *event = json_loads(told(LOG_JSON, &figure), 0, &error),
           *expected = json_pack(
               "{s:s, s:s, s:s, s:s, s:i, s:s, s:f, s:f, s:f, s:f, s:f, s:i, s:s, s:f, s:f, s:f, s:f}", "event",
               "bench", "subject", "gemm", "name", "a product", "precision", "bf16", "threads", 2, "unit", "GFLOP/s",
               "M", 40.0, "N", 24.0, "median", 100.0, "least", 80.0, "greatest", 250.0, "repeats", 3, "limit_name",
               "VDPBF16PS", "limit", 400.0, "limit_least", 400.0, "limit_greatest", 500.0, "share", 0.25);
    assert_non_null(event);
    assert_non_null(expected);
    const char *key;
    json_t *value;
    json_object_foreach(expected, key, value)
    {
        const json_t *found = json_object_get(event, key);
        if (json_is_number(value) ? json_number_value(found) != json_number_value(value) : !json_equal(found, value))
            fail_msg("%s is %g", key, json_number_value(found));
    }
    assert_int_equal(json_object_size(event), json_object_size(expected));
    json_decref(event);
    json_decref(expected);
}

/* A run that is refused has chosen how the next figures are printed. */
static void form_choose(bool is_markdown)
{
    const struct bench_options o = {.subject = "none", .markdown = is_markdown};
    log_open(LOG_TEXT, 0);
    assert_int_equal(bench_run(&o), ST_USAGE);
}

static const char *subject_told(enum log_format format)
{
    print_begin(format);
    bench_heading("ring");
    bench_columns();
    bench_note("left out: %d", 7);
    bench_line("seconds  %d", 5);
    return print_end();
}

static void bench_tell__markdown__row_of_a_page(void **state)
{
    (void)state;
    const struct bench_figure with = {.subject = "gemm",
                                      .name = "a product",
                                      .unit = "GFLOP/s",
                                      .threads = 2,
                                      .ours = &three,
                                      .limit = &limit_of_three},
                              without = {.subject = "lookup", .name = "n", .unit = "M/s", .threads = 16, .ours = &four};
    form_choose(true);
    assert_string_equal(told(LOG_TEXT, &with),
                        "| gemm | a product | 2 | 100.0 | 80.00 - 250.0 | GFLOP/s | 400.0 | 0.25 |\n");
    assert_string_equal(told(LOG_TEXT, &without), "| lookup | n | 16 | 2.500 | 1.000 - 4.000 | M/s |  |  |\n");
    assert_string_equal(subject_told(LOG_TEXT), "| ring | left out: 7 | | | | | | |\n");
    form_choose(false);
    const char *text = subject_told(LOG_TEXT);
    assert_memory_equal(text, "\nring: ", 7);
    assert_non_null(strstr(text, "; limit: "));
    const char *columns = strstr(text, "threads   median    least - greatest unit ");
    assert_non_null(columns);
    assert_non_null(strstr(columns, " share\n  left out: 7\nseconds  5\n"));
    assert_string_equal(subject_told(LOG_JSON), "");
}

static void bench_run__markdown_and_json__are_refused(void **state)
{
    (void)state;
    const struct bench_options o = {.subject = "trees", .markdown = true};
    log_open(LOG_JSON, 0);
    assert_int_equal(bench_run(&o), ST_USAGE);
    assert_string_equal(status_message(), "expected one of --markdown and --json, found both");
    form_choose(false);
}

static void bench_number__sizes__four_digits_or_so(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0, "0.000"},      {0.93449, "0.934"}, {9.9994, "9.999"}, {10, "10.00"},
                 {77.156, "77.16"}, {285.14, "285.1"},  {1000, "1000"},    {-12.345, "-12.35"}};
    char text[16];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(bench_number(text, sizeof text, cases[i].value), cases[i].text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bench_tell__figures__line_of_the_table),
        cmocka_unit_test(bench_tell__figure__event),
        cmocka_unit_test(bench_tell__markdown__row_of_a_page),
        cmocka_unit_test(bench_run__markdown_and_json__are_refused),
        cmocka_unit_test(bench_number__sizes__four_digits_or_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
