/* Lists of columns' names: ranges, spaces, and what is refused. */
#include "tests/io/io_test.h"

#include <string.h>

#include "io/read/column_names.h"

static char listed[4096];
static status name_add(void *to, const char *text, size_t bytes)
{
    assert_int_equal(strlen(text), bytes);
    snprintf((char *)to + strlen(to), sizeof listed - strlen(to), "<%s>", text);
    return ST_OK;
}

static const char *names_of(const char *list)
{
    listed[0] = 0;
    assert_ok(column_names_each("data.columns", list, name_add, listed));
    return listed;
}

static void column_names_each__names__in_order_without_spaces_around(void **state)
{
    (void)state;
    assert_string_equal(names_of("id"), "<id>");
    assert_string_equal(names_of(" a b ,c,  d  "), "<a b><c><d>");
}

static void column_names_each__ranges__are_all_of_their_names(void **state)
{
    (void)state;
    assert_string_equal(names_of("id, I1..I3, x"), "<id><I1><I2><I3><x>");
    assert_string_equal(names_of("9..11"), "<9><10><11>");
    assert_string_equal(names_of("C0..C0"), "<C0>");
    assert_string_equal(names_of("a99998..a99999"), "<a99998><a99999>");
    assert_string_equal(names_of("a08..a10"), "<a8><a9><a10>");
}

static void column_names_each__what_is_no_range__is_a_name(void **state)
{
    (void)state;
    static const char *const names[] = {"I3..I1",    "I1..J3", "I1..3",   "a..b",  "..",          "I1..",
                                        "..I1",      "I1.I3",  "I1..I3x", "I..I3", "a1..a100000", "a100000..a100001",
                                        "I1..I3..I5"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char expected[64];
        snprintf(expected, sizeof expected, "<%s>", names[i]);
        assert_string_equal(names_of(names[i]), expected);
    }
}

static status second_fails(void *to, const char *text, size_t bytes)
{
    (void)bytes;
    ++*(int *)to;
    if (strcmp(text, "b2") == 0) FAIL(FULL, "no room");
    return ST_OK;
}

static void column_names_each__nothing_or_too_long_or_a_failure__ends_it(void **state)
{
    (void)state;
    char longest[COLUMN_NAME_BYTES_MAX + 2];
    listed[0] = 0;
    assert_int_equal(column_names_each("data.columns", "a, ,b", name_add, listed), ST_INVALID);
    assert_non_null(strstr(status_message(), "found nothing for column 2"));
    assert_int_equal(column_names_each("data.columns", "", name_add, listed), ST_INVALID);
    assert_int_equal(column_names_each("data.columns", "a1..a2,", name_add, listed), ST_INVALID);
    assert_non_null(strstr(status_message(), "found nothing for column 3"));
    memset(longest, 'x', sizeof longest);
    longest[COLUMN_NAME_BYTES_MAX + 1] = 0;
    assert_int_equal(column_names_each("data.columns", longest, name_add, listed), ST_INVALID);
    assert_non_null(strstr(status_message(), "at most 4096 bytes"));
    longest[COLUMN_NAME_BYTES_MAX] = 0;
    int count = 0;
    assert_ok(column_names_each("data.columns", longest, second_fails, &count));
    assert_int_equal(column_names_each("data.columns", "b1..b4", second_fails, &count), ST_FULL);
    assert_int_equal(count, 1 + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(column_names_each__names__in_order_without_spaces_around),
        cmocka_unit_test(column_names_each__ranges__are_all_of_their_names),
        cmocka_unit_test(column_names_each__what_is_no_range__is_a_name),
        cmocka_unit_test(column_names_each__nothing_or_too_long_or_a_failure__ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
