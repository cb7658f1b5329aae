/* Lists of files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/paths.h"

/* The names with a bar behind each. */
static const char *names_of(const char *list)
{
    static char all[256];
    const char *name;
    size_t bytes;
    char *at = all, copy[PATH_MAX];
    uint32_t count = 0;
    for (const char *rest = list; paths_next(&rest, &name, &bytes); count++)
        at = stpcpy(stpcpy(at, path_copy(copy, name, bytes)), "|");
    *at = 0;
    assert_int_equal(count, paths_count(list));
    return all;
}

static void paths_next__any_list__gives_its_names_without_blanks_around(void **state)
{
    (void)state;
    assert_string_equal(names_of("a.csv"), "a.csv|");
    assert_string_equal(names_of("a.csv,b.csv"), "a.csv|b.csv|");
    assert_string_equal(names_of("a.csv, b.csv"), "a.csv|b.csv|");
    assert_string_equal(names_of(" a b.csv\t, ./ c ,-"), "a b.csv|./ c|-|");
    assert_string_equal(names_of(""), "|");
    assert_string_equal(names_of("a, ,b,"), "a||b||");
}

static void paths_name_stdin__a_dash_alone__is_it(void **state)
{
    (void)state;
    assert_true(paths_name_stdin("-"));
    assert_true(paths_name_stdin("a, -"));
    assert_false(paths_name_stdin("a-,-b,./-"));
    assert_false(paths_name_stdin(""));
}

static void paths_beside__relative_names__lie_in_the_files_folder(void **state)
{
    (void)state;
    static const struct {
        const char *file, *list, *paths;
    } cases[] = {
        {"g.bin", "a, b", "a,b"}, {"in/g.bin", "a, /b ,-, ./ c", "in/a,/b,-,in/./ c"}, {"/in/g.bin", "a,,", "/in/a,,"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *paths;
        assert_int_equal(paths_beside(&paths, cases[i].file, cases[i].list), ST_OK);
        assert_string_equal(paths, cases[i].paths);
        free(paths);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_next__any_list__gives_its_names_without_blanks_around),
        cmocka_unit_test(paths_name_stdin__a_dash_alone__is_it),
        cmocka_unit_test(paths_beside__relative_names__lie_in_the_files_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
