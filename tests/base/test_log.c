/* What the log writes, byte by byte: standard output and standard error are memory
 * files for the time of a call. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/log.h"

static struct {
    int saved[3], fd[3];
    char text[3][1 << 20]; /* what was written to 1 and 2 */
} captured;

static void capture_begin(void)
{
    fflush(NULL);
    for (int i = 1; i <= 2; i++) {
        captured.saved[i] = dup(i);
        captured.fd[i] = memfd_create("captured", MFD_CLOEXEC);
        assert_true(captured.saved[i] >= 0 && captured.fd[i] >= 0);
        assert_int_equal(dup2(captured.fd[i], i), i);
    }
}

static void capture_end(void)
{
    for (int i = 1; i <= 2; i++) {
        ssize_t bytes = pread(captured.fd[i], captured.text[i], sizeof captured.text[i] - 1, 0);
        dup2(captured.saved[i], i);
        close(captured.saved[i]);
        close(captured.fd[i]);
        assert_true(bytes >= 0);
        captured.text[i][bytes] = '\0';
    }
}

static void assert_written(const char *output, const char *error)
{
    capture_end();
    assert_string_equal(captured.text[1], output);
    assert_string_equal(captured.text[2], error);
}

static void log_info__text__a_line_to_standard_error(void **state)
{
    (void)state;
    capture_begin();
    log_open(LOG_TEXT, 0);
    log_info("rows %d of %s", 7, "emb");
    log_detail("not shown");
    assert_written("", "rows 7 of emb\n");
}

static void log__verbosity__decides_what_is_said(void **state)
{
    (void)state;
    capture_begin();
    log_open(LOG_TEXT, 1);
    log_detail("detail");
    log_open(LOG_TEXT, -1);
    log_info("not shown");
    log_warning("low");
    log_error("no");
    assert_written("", "detail\nheterps-run: warning: low\nheterps-run: error: no\n");
    assert_int_equal(log_verbosity(), -1);
}

static void log_notices__each_kind__is_a_line_of_its_kind(void **state)
{
    (void)state;
    capture_begin();
    log_open(LOG_TEXT, 0);
    notices_tell(NULL, NOTICE_WARNING, "nobody");
    notices_tell(&log_notices, NOTICE_DETAIL, "not shown");
    notices_tell(&log_notices, NOTICE_INFO, "rows %d%%", 7);
    log_open(LOG_TEXT, 1);
    notices_tell(&log_notices, NOTICE_DETAIL, "%s", "100%");
    notices_tell(&log_notices, NOTICE_WARNING, "low");
    assert_written("", "rows 7%\n100%\nheterps-run: warning: low\n");
}

static void log__json__only_events_on_standard_output(void **state)
{
    (void)state;
    capture_begin();
    log_open(LOG_JSON, 1);
    log_info("not shown");
    log_detail("not shown");
    log_warning("a \"b\"");
    log_error("no");
    assert_written("{\"event\":\"warning\",\"text\":\"a \\\"b\\\"\"}\n{\"event\":\"error\",\"text\":\"no\"}\n",
                   "heterps-run: error: no\n");
    assert_int_equal(log_format(), LOG_JSON);
}

static void log_node__json__whose_a_line_is(void **state)
{
    (void)state;
    log_open(LOG_JSON, 0);
    log_node(0, true);
    capture_begin();
    log_event_begin("progress");
    log_event_u64("step", 7);
    log_event_end();
    log_warning("w");
    assert_written(
        "{\"event\":\"progress\",\"node\":0,\"step\":7}\n{\"event\":\"warning\",\"node\":0,\"text\":\"w\"}\n", "");
    log_node(2, false); /* which has warnings and errors alone */
    capture_begin();
    log_event_begin("progress");
    log_event_open("within");
    log_event_u64("step", 7);
    log_event_close();
    log_event_end();
    log_warning("w");
    log_error("e");
    assert_written(
        "{\"event\":\"warning\",\"node\":2,\"text\":\"w\"}\n{\"event\":\"error\",\"node\":2,\"text\":\"e\"}\n",
        "heterps-run: error: e\n");
    log_open(LOG_JSON, 0);
    capture_begin();
    log_warning("w");
    assert_written("{\"event\":\"warning\",\"text\":\"w\"}\n", "");
}

static void log_event__fields_and_objects__one_line(void **state)
{
    (void)state;
    capture_begin();
    log_open(LOG_JSON, 0);
    log_event_begin("start");
    log_event_u64("rows", UINT64_MAX);
    log_event_open("memory");
    log_event_u64("a", 0);
    log_event_u64("b", 1);
    log_event_open("empty");
    log_event_close();
    log_event_close();
    log_event_f64("auc", 0.75);
    log_event_text("graph", "g");
    log_event_end();
    assert_written("{\"event\":\"start\",\"rows\":18446744073709551615,\"memory\":{\"a\":0,\"b\":1,\"empty\":{}},"
                   "\"auc\":0.75,\"graph\":\"g\"}\n",
                   "");
}

static void log_event__arrays__of_values_objects_and_arrays(void **state)
{
    (void)state;
    capture_begin();
    log_open(LOG_JSON, 0);
    log_event_begin("done");
    log_event_open_array("stages");
    for (uint64_t i = 0; i < 2; i++) {
        log_event_open(NULL);
        log_event_text("name", i ? "fc" : "e");
        log_event_u64("busy", i);
        log_event_open_array("none");
        log_event_close_array();
        log_event_close();
    }
    log_event_close_array();
    log_event_open_array("mixed");
    log_event_u64(NULL, 1);
    log_event_f64(NULL, 0.5);
    log_event_f64(NULL, (double)NAN);
    log_event_text(NULL, "a\"");
    log_event_open_array(NULL);
    log_event_u64(NULL, 2);
    log_event_close_array();
    log_event_open(NULL);
    log_event_close();
    log_event_close_array();
    log_event_u64("last", 3);
    log_event_end();
    assert_written(
        "{\"event\":\"done\",\"stages\":[{\"name\":\"e\",\"busy\":0,\"none\":[]},{\"name\":\"fc\",\"busy\":1,"
        "\"none\":[]}],\"mixed\":[1,0.5,null,\"a\\\"\",[2],{}],\"last\":3}\n",
        "");
}

/* 4000 objects of some 40 bytes do not fit: as many as do are there, each whole,
 * and the event says that it is cut. */
static void log_event__too_long_an_array__whole_objects_and_says_so(void **state)
{
    (void)state;
    for (int shift = 0; shift < 50; shift++) {
        char filler[64] = "";
        memset(filler, 'x', (size_t)shift);
        capture_begin();
        log_open(LOG_JSON, 0);
        log_event_begin(filler);
        log_event_open_array("stages");
        for (uint64_t i = 0; i < 4000; i++) {
            log_event_open(NULL);
            log_event_u64("number", 1000000 + i);
            log_event_close();
            log_event_open_array(NULL);
            log_event_u64(NULL, 1000000 + i);
            log_event_close_array();
        }
        log_event_close_array();
        log_event_end();
        capture_end();
        const char *at = strstr(captured.text[1], "[") + 1;
        uint64_t count = 0;
        while (strncmp(at, "{\"number\":", 10) == 0) {
            char *end;
            assert_int_equal(strtoull(at + 10, &end, 10), 1000000 + count);
            /* The last may have lost its number or its array, never half of them. */
            at = end;
            if (strncmp(at, "}", 1) == 0) at++;
            if (strncmp(at, ",[", 2) != 0) break;
            at += 2;
            if (*at == ']') break;
            assert_int_equal(strtoull(at, &end, 10), 1000000 + count);
            at = end;
            assert_int_equal(*at++, ']');
            at += *at == ',';
            count++;
        }
        assert_true(count > 1500 && count < 4000);
        size_t length = strlen(captured.text[1]);
        assert_true(length <= 65536);
        const char *end = "],\"cut\":true}\n";
        assert_string_equal(captured.text[1] + length - strlen(end), end);
    }
}

/* In a child: to mix names with arrays is a bug of ours. */
static void mix_named_in_array(void) { log_event_open_array("a"), log_event_u64("name", 1); }
static void mix_unnamed_in_object(void) { log_event_u64(NULL, 1); }
static void mix_brackets(void) { log_event_open_array("a"), log_event_close(); }
static void mix_end_in_array(void) { log_event_open_array("a"), log_event_end(); }

static void log_event__names_and_brackets_mixed_up__stops_the_program(void **state)
{
    (void)state;
    static void (*const mixes[])(void) = {mix_named_in_array, mix_unnamed_in_object, mix_brackets, mix_end_in_array};
    fflush(NULL);
    for (size_t i = 0; i < sizeof mixes / sizeof *mixes; i++) {
        pid_t child = fork();
        if (child == 0) {
            signal(SIGABRT, SIG_DFL);
            int null = open("/dev/null", O_WRONLY);
            dup2(null, 1), dup2(null, 2);
            log_open(LOG_JSON, 0);
            log_event_begin("e");
            mixes[i]();
            _exit(0);
        }
        int exit_status;
        assert_int_equal(waitpid(child, &exit_status, 0), child);
        assert_true(WIFSIGNALED(exit_status) && WTERMSIG(exit_status) == SIGABRT);
    }
}

static void log_event__text_format__writes_nothing(void **state)
{
    (void)state;
    capture_begin();
    log_open(LOG_TEXT, 0);
    log_event_begin("start");
    log_event_open("memory");
    log_event_u64("a", 0);
    log_event_close();
    log_event_open_array("b");
    log_event_u64(NULL, 0);
    log_event_close_array();
    log_event_end();
    assert_written("", "");
}

static void log_event_f64__any__reads_back_the_same(void **state)
{
    (void)state;
    static const double values[] = {
        0, 1, -1, 0.1, 1.0 / 3, 1e300, 5e-324, 1e15, 123456789012345680.0, 2.2250738585072014e-308};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        capture_begin();
        log_open(LOG_JSON, 0);
        log_event_begin("e");
        log_event_f64("v", values[i]);
        log_event_end();
        capture_end();
        const char *prefix = "{\"event\":\"e\",\"v\":";
        assert_memory_equal(captured.text[1], prefix, strlen(prefix));
        char *end;
        assert_true(strtod(captured.text[1] + strlen(prefix), &end) == values[i]);
        assert_string_equal(end, "}\n");
    }
}

static void log_event_f64__not_finite__is_null(void **state)
{
    (void)state;
    capture_begin();
    log_open(LOG_JSON, 0);
    log_event_begin("e");
    log_event_f64("a", (double)NAN);
    log_event_f64("b", HUGE_VAL);
    log_event_f64("c", -HUGE_VAL);
    log_event_end();
    assert_written("{\"event\":\"e\",\"a\":null,\"b\":null,\"c\":null}\n", "");
}

static void log_event_text__control_and_malformed_bytes__valid_json(void **state)
{
    (void)state;
    static const struct {
        const char *text, *json;
    } known[] = {
        {"plain", "plain"},
        {"\"\\/", "\\\"\\\\/"},
        {"\n\t\x01\x1f\x7f", "\\u000a\\u0009\\u0001\\u001f\\u007f"},
        {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
#define U "\xef\xbf\xbd"
        {"a\xff"
         "b",
         "a" U "b"},
        {"\x80", U},                      /* a continuation alone          */
        {"\xc3", U},                      /* ends early                    */
        {"\xe2\x82", U U},                /* ends early                    */
        {"\xf0\x9f\x98", U U U},          /* ends early                    */
        {"\xc0\xaf", U U},                /* '/' in too many bytes         */
        {"\xe0\x80\xaf", U U U},          /* likewise                      */
        {"\xf0\x80\x80\xaf", U U U U},    /* likewise                      */
        {"\xed\xa0\x80", U U U},          /* a surrogate                   */
        {"\xed\x9f\xbf", "\xed\x9f\xbf"}, /* the last before them          */
        {"\xf4\x90\x80\x80", U U U U},    /* beyond U+10FFFF               */
        {"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"},
        {"\xf5\x80\x80\x80", U U U U},
        {"\xc3\x22", U "\\\""}, /* the quote is not swallowed    */
#undef U
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char line[256];
        snprintf(line, sizeof line, "{\"event\":\"e\",\"t\":\"%s\"}\n", known[i].json);
        capture_begin();
        log_open(LOG_JSON, 0);
        log_event_begin("e");
        log_event_text("t", known[i].text);
        log_event_end();
        assert_written(line, "");
    }
}

static void log_event__too_long__leaves_out_whole_fields_and_says_so(void **state)
{
    (void)state;
    static char lengthy[70000];
    memset(lengthy, 'x', sizeof lengthy - 1);
    capture_begin();
    log_open(LOG_JSON, 0);
    log_event_begin("e");
    log_event_text("lengthy", lengthy);
    log_event_u64("a", 1);
    log_event_open(lengthy);
    log_event_u64("inside", 2);
    log_event_open("deeper");
    log_event_close();
    log_event_close();
    log_event_u64("b", 3);
    log_event_end();
    assert_written("{\"event\":\"e\",\"a\":1,\"b\":3,\"cut\":true}\n", "");
}

/* Every length near the buffer's end: the line ends well, and the next event is whole again. */
static void log_event__filled_to_every_length__ends_in_its_braces(void **state)
{
    (void)state;
    static char lengthy[66000];
    log_open(LOG_JSON, 0);
    for (size_t bytes = 65400; bytes < 65560; bytes++) {
        memset(lengthy, 'x', bytes);
        lengthy[bytes] = '\0';
        capture_begin();
        log_event_begin("e");
        for (int i = 0; i < 6; i++) log_event_open("o");
        log_event_text("t", lengthy);
        log_event_u64("a", 1);
        for (int i = 0; i < 6; i++) log_event_close();
        log_event_end();
        capture_end();
        size_t length = strlen(captured.text[1]);
        assert_true(length <= 65536);
        const char *cut = "}}}}}},\"cut\":true}\n", *whole = "\"a\":1}}}}}}}\n";
        assert_true(strcmp(captured.text[1] + length - strlen(cut), cut) == 0 ||
                    strcmp(captured.text[1] + length - strlen(whole), whole) == 0);
    }
}

static void log_error__longer_than_the_buffer__cut_before_a_broken_character(void **state)
{
    (void)state;
    static char lengthy[20001];
    for (int shift = 0; shift < 3; shift++) {
        memset(lengthy, 'x', (size_t)shift);
        for (size_t i = (size_t)shift; i + 3 < sizeof lengthy; i += 3) memcpy(lengthy + i, "\xe2\x82\xac", 4);
        capture_begin();
        log_open(LOG_JSON, 0);
        log_error("%s", lengthy);
        capture_end();
        assert_null(strstr(captured.text[1], "\xef\xbf\xbd"));
        assert_non_null(strstr(captured.text[1], "\xe2\x82\xac\"}\n"));
        assert_true(strlen(captured.text[2]) > 9000);
    }
}

static void log_info__control_bytes__cannot_steer_a_terminal(void **state)
{
    (void)state;
    capture_begin();
    log_open(LOG_TEXT, 0);
    log_info("a\033[2J\rb\tc");
    assert_written("", "a?[2J?b\tc\n");
}

static void *write_lines(void *argument)
{
    (void)argument;
    for (int i = 0; i < 200; i++) log_info("%s", "0123456789012345678901234567890123456789");
    return NULL;
}

static void log_info__four_threads__lines_are_whole(void **state)
{
    (void)state;
    pthread_t threads[4];
    capture_begin();
    log_open(LOG_TEXT, 0);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, write_lines, NULL), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    capture_end();
    assert_int_equal(strlen(captured.text[2]), 4 * 200 * 41);
    for (size_t i = 0; i < 4 * 200; i++)
        assert_memory_equal(captured.text[2] + i * 41, "0123456789012345678901234567890123456789\n", 41);
}

static void log_redraw__terminal__cut_to_its_width_and_cleared(void **state)
{
    (void)state;
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) {
        print_message("# not tried: no pseudo-terminal is to be had\n");
        return;
    }
    int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
    assert_true(terminal >= 0);
    struct winsize size = {.ws_row = 24, .ws_col = 10};
    assert_int_equal(ioctl(terminal, TIOCSWINSZ, &size), 0);
    capture_begin();
    dup2(terminal, 2);
    log_open(LOG_TEXT, 0);
    bool is_terminal = log_is_terminal();
    log_redraw("\xc3\xa9"
               "23456789%s",
               "too long");
    log_info("line");
    log_info("line");
    capture_end();
    /* The terminal itself turns \n into \r\n; what it has been given may arrive in pieces. */
    static const char expected[] = "\r\033[K\xc3\xa9"
                                   "23456789\r\033[Kline\r\nline\r\n";
    char seen[256] = "";
    size_t used = 0;
    for (ssize_t bytes = 1; bytes > 0 && used<sizeof expected - 1; used += bytes> 0 ? (size_t)bytes : 0)
        bytes = read(master, seen + used, sizeof seen - 1 - used);
    close(terminal);
    close(master);
    assert_true(is_terminal);
    assert_string_equal(seen, expected);
}

static void log_redraw__no_terminal__writes_nothing(void **state)
{
    (void)state;
    capture_begin();
    log_open(LOG_TEXT, 0);
    assert_false(log_is_terminal());
    log_redraw("50 %%");
    assert_written("", "");
}

/* Last: it cannot be taken back. */
static void log_result__to_output__whatever_the_verbosity(void **state)
{
    (void)state;
    capture_begin();
    log_open(LOG_TEXT, -1);
    log_result("not yet %d", 1);
    log_open(LOG_TEXT, 0);
    log_result("said %d", 2);
    log_results_to_output();
    log_result("found %d\x1b", 3);
    log_open(LOG_TEXT, -1);
    log_result("found %d", 4);
    log_open(LOG_JSON, 0);
    log_result("an event says it");
    fflush(stdout);
    assert_written("found 3?\nfound 4\n", "said 2\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(log_info__text__a_line_to_standard_error),
        cmocka_unit_test(log__verbosity__decides_what_is_said),
        cmocka_unit_test(log_notices__each_kind__is_a_line_of_its_kind),
        cmocka_unit_test(log__json__only_events_on_standard_output),
        cmocka_unit_test(log_node__json__whose_a_line_is),
        cmocka_unit_test(log_event__fields_and_objects__one_line),
        cmocka_unit_test(log_event__arrays__of_values_objects_and_arrays),
        cmocka_unit_test(log_event__too_long_an_array__whole_objects_and_says_so),
        cmocka_unit_test(log_event__names_and_brackets_mixed_up__stops_the_program),
        cmocka_unit_test(log_event__text_format__writes_nothing),
        cmocka_unit_test(log_event_f64__any__reads_back_the_same),
        cmocka_unit_test(log_event_f64__not_finite__is_null),
        cmocka_unit_test(log_event_text__control_and_malformed_bytes__valid_json),
        cmocka_unit_test(log_event__too_long__leaves_out_whole_fields_and_says_so),
        cmocka_unit_test(log_event__filled_to_every_length__ends_in_its_braces),
        cmocka_unit_test(log_error__longer_than_the_buffer__cut_before_a_broken_character),
        cmocka_unit_test(log_info__control_bytes__cannot_steer_a_terminal),
        cmocka_unit_test(log_info__four_threads__lines_are_whole),
        cmocka_unit_test(log_redraw__terminal__cut_to_its_width_and_cleared),
        cmocka_unit_test(log_redraw__no_terminal__writes_nothing),
        cmocka_unit_test(log_result__to_output__whatever_the_verbosity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
