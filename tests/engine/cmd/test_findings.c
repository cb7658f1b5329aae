/* Findings of a doctor, as a page and as events. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/cmd/findings.h"
#include "tests/engine/cmd/printed.h"

/* Not in the order of sections. */
static const struct doctor_line lines[] = {
    {DOCTOR_memory, DOCTOR_OK, "planned", "2 GiB", "4 GiB", ""},
    {DOCTOR_links, DOCTOR_WARN, "0 and 1", "", "1 Gbit/s", "use another"},
    {DOCTOR_model, DOCTOR_OK, "layers", "", "12", ""},
    {DOCTOR_memory, DOCTOR_FAIL, "rows", "9 GiB", "", "give less"},
    {DOCTOR_memory, DOCTOR_FAIL, "", "", "", "a sentence."},
};
static const struct findings_words words = {
    .of = "this training", .good = "training can begin", .header = {[DOCTOR_links] = "found at"}};

static void findings_tell__page__sections_in_order(void **state)
{
    (void)state;
    print_begin(LOG_TEXT);
    const status st = findings_tell(lines, 5, &words);
    print_end();
    assert_int_equal(st, ST_INFEASIBLE);
    assert_string_equal(status_message(), "2 things are in the way of this training; see \"fail\" above");
    assert_string_equal(printed, "model\n"
                                 "  ok    layers                12\n"
                                 "memory\n"
                                 "  ok    planned               needs 2 GiB, has 4 GiB\n"
                                 "  fail  rows                  needs 9 GiB\n"
                                 "                              give less\n"
                                 "  fail  a sentence.\n"
                                 "links\n"
                                 "                              found at\n"
                                 "  warn  0 and 1               1 Gbit/s\n"
                                 "                              use another\n");
}

static void findings_tell__one_or_none_fail__says_so(void **state)
{
    (void)state;
    print_begin(LOG_TEXT);
    status st = findings_tell(&lines[3], 1, &words);
    print_end();
    assert_int_equal(st, ST_INFEASIBLE);
    assert_string_equal(status_message(), "1 thing is in the way of this training; see \"fail\" above");
    assert_string_equal(printed, "memory\n  fail  rows                  needs 9 GiB\n"
                                 "                              give less\n");
    print_begin(LOG_TEXT);
    st = findings_tell(&lines[2], 1, &words);
    print_end();
    assert_int_equal(st, ST_OK);
    assert_string_equal(printed, "model\n  ok    layers                12\ntraining can begin\n");
}

static void findings_tell__events__a_line_each_and_the_verdict(void **state)
{
    (void)state;
    print_begin(LOG_JSON);
    const status st = findings_tell(lines, 4, &words);
    print_end();
    assert_int_equal(st, ST_INFEASIBLE);
    static const char *const wanted[] = {
        "{\"event\":\"doctor\",\"section\":\"model\",\"state\":\"ok\",\"what\":\"layers\",\"needed\":\"\",\"found\":"
        "\"12\",\"todo\":\"\"}",
        "{\"event\":\"doctor\",\"section\":\"memory\",\"state\":\"ok\",\"what\":\"planned\",\"needed\":\"2 GiB\","
        "\"found\":\"4 GiB\",\"todo\":\"\"}",
        "{\"event\":\"doctor\",\"section\":\"memory\",\"state\":\"fail\",\"what\":\"rows\",\"needed\":\"9 GiB\","
        "\"found\":\"\",\"todo\":\"give less\"}",
        "{\"event\":\"doctor\",\"section\":\"links\",\"state\":\"warn\",\"what\":\"0 and 1\",\"needed\":\"\","
        "\"found\":\"1 Gbit/s\",\"todo\":\"use another\"}",
        "{\"event\":\"verdict\",\"fails\":1,\"warnings\":1}",
    };
    char *line = printed;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        char *end = strchr(line, '\n');
        assert_non_null(end);
        *end = 0;
        assert_event(line, wanted[i]);
        line = end + 1;
    }
    assert_string_equal(line, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(findings_tell__page__sections_in_order),
        cmocka_unit_test(findings_tell__one_or_none_fail__says_so),
        cmocka_unit_test(findings_tell__events__a_line_each_and_the_verdict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
