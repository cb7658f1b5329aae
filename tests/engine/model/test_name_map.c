/* Name maps: pairs, comments and spaces as the header says, and what is refused with its line. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "engine/model/name_map.h"

static status parsed(struct name_map *map, const char *text)
{
    return name_map_parse(map, "m.txt", text, strlen(text));
}

static void name_map_parse__pairs_comments_and_spaces__are_sorted_pairs(void **state)
{
    (void)state;
    struct name_map map;
    assert_int_equal(parsed(&map, "# theirs = ours\n"
                                  "\n"
                                  "  fc2.weight=h2.weight # the second\r\n"
                                  "fc1/kernel:0 =\th1.weight\n"
                                  "a#b c = y.bias"),
                     ST_OK);
    assert_int_equal(map.count, 3);
    assert_string_equal(map.pairs[0].theirs, "a#b c");
    assert_string_equal(map.pairs[0].ours, "y.bias");
    assert_int_equal(map.pairs[0].line, 5);
    assert_string_equal(map.pairs[1].theirs, "fc1/kernel:0");
    assert_string_equal(map.pairs[1].ours, "h1.weight");
    assert_string_equal(name_map_find(&map, "fc2.weight")->ours, "h2.weight");
    assert_null(name_map_find(&map, "fc2"));
    assert_null(name_map_find(&map, "z"));
    name_map_free(&map);
    assert_int_equal(parsed(&map, "\xef\xbb\xbf"
                                  "a = b\n"),
                     ST_OK);
    assert_string_equal(name_map_find(&map, "a")->ours, "b");
    name_map_free(&map);
    assert_int_equal(parsed(&map, ""), ST_OK);
    assert_int_equal(map.count, 0);
    assert_null(name_map_find(&map, "a"));
    name_map_free(&map);
}

static void name_map_parse__what_is_no_pair__is_refused_with_its_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"a = b\nc\n", "m.txt:2: expected \"theirs = ours\", found \"c\""},
        {"= b\n", "m.txt:1: expected \"theirs = ours\""},
        {"a = # b\n", "m.txt:1: expected \"theirs = ours\", found \"a = \""},
        {"a = b = c\n", "m.txt:1: expected"},
        {"a = b\n\na = c\n", "m.txt:3: \"a\" stands left of \"=\" in line 1 too"},
        {"a = b\nc = b\n", "m.txt:2: \"b\" stands right of \"=\" in line 1 too"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct name_map map;
        assert_int_equal(parsed(&map, cases[i].text), ST_INVALID);
        if (strstr(status_message(), cases[i].message) == NULL)
            fail_msg("\"%s\" lacks \"%s\"", status_message(), cases[i].message);
        assert_null(map.pairs);
    }
    struct name_map map;
    assert_int_equal(name_map_parse(&map, "m.txt", "a = b\0c", 7), ST_INVALID);
    assert_non_null(strstr(status_message(), "byte 5: expected text, found a NUL byte"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(name_map_parse__pairs_comments_and_spaces__are_sorted_pairs),
        cmocka_unit_test(name_map_parse__what_is_no_pair__is_refused_with_its_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
