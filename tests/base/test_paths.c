/* Lists of files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

static void paths_next__commas_of_names__are_written_behind_a_backslash(void **state)
{
    (void)state;
    assert_string_equal(names_of("a\\,b.csv"), "a,b.csv|");
    assert_string_equal(names_of("\\, , c\\,\\,d,"), ",|c,,d||");
    assert_string_equal(names_of("a\\b,\\\\,c,d\\ ,e\\"), "a\\b|\\,c|d\\|e\\|");
    char path[PATH_MAX], *end = path_take(path, "a\\,b", 2); /* cut within */
    assert_int_equal(end - path, 2);
    assert_memory_equal(path, "a\\", 2);
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
    } cases[] = {{"g.bin", "a, b", "a,b"},
                 {"in/g.bin", "a, /b ,-, ./ c", "in/a,/b,-,in/./ c"},
                 {"/in/g.bin", "a,,", "/in/a,,"},
                 {"i,n/g.bin", "a\\,b,-,/c", "i\\,n/a\\,b,-,/c"},
                 {"in/g.bin", "a,http://h/b,HTTPS://h/c", "in/a,http://h/b,HTTPS://h/c"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *paths;
        assert_int_equal(paths_beside(&paths, cases[i].file, cases[i].list), ST_OK);
        assert_string_equal(paths, cases[i].paths);
        free(paths);
    }
}

static void paths_beside__a_file_of_the_working_directory__is_told_where_it_is_looked_for(void **state)
{
    (void)state;
    char folder[] = "/tmp/test_paths_XXXXXX", *paths, before[PATH_MAX];
    assert_non_null(getcwd(before, sizeof before));
    assert_true(mkdtemp(folder) && chdir(folder) == 0 && mkdir("in", 0700) == 0);
    assert_int_equal(mkdir("in/both", 0700) | mkdir("both", 0700) | mkdir("t,rain", 0700), 0);
    assert_int_equal(paths_beside(&paths, "in/g.bin", "both, t\\,rain"), ST_IO);
    assert_null(paths);
    assert_string_equal(status_message(),
                        "in/t,rain: No such file or directory; t,rain is taken relative to the folder of in/g.bin; to "
                        "read that of the working directory, give its whole path");
    assert_int_equal(paths_beside(&paths, "in/g.bin", "both,nowhere,/tmp"), ST_OK);
    assert_string_equal(paths, "in/both,in/nowhere,/tmp");
    free(paths);
    assert_int_equal(rmdir("in/both") | rmdir("in") | rmdir("both") | rmdir("t,rain"), 0);
    assert_int_equal(chdir(before) | rmdir(folder), 0);
}

static void paths_have_stream__devices_and_a_dash__are_one(void **state)
{
    (void)state;
    assert_true(paths_have_stream("-") && paths_have_stream("a, - ,b") &&
                paths_have_stream("/proc/self/exe,/dev/null"));
    assert_false(paths_have_stream("/proc/self/exe") || paths_have_stream("/tmp") || paths_have_stream("") ||
                 paths_have_stream("/nowhere/a") || paths_have_stream("http://h/b"));
}

static void text_shown__addresses__are_cut_and_all_else_stays(void **state)
{
    (void)state;
    static const char text[] = "[data]\n path = a?b, http://h/b?s=1,s3://k:x@h/c ; http://h/?q\r\n\thttp://h/d#e";
    char *shown;
    size_t bytes = sizeof text; /* with the 0 */
    assert_int_equal(text_shown(&shown, text, &bytes), ST_OK);
    assert_string_equal(shown, "[data]\n path = a?b, http://h/b,s3:// ; http://h/\r\n\thttp://h/d");
    assert_int_equal(bytes, strlen(shown));
    free(shown);
    bytes = 0;
    assert_int_equal(text_shown(&shown, text, &bytes), ST_OK);
    assert_true(*shown == 0 && bytes == 0);
    free(shown);
}

static void path_shown_bytes__addresses__end_before_their_query(void **state)
{
    (void)state;
    assert_int_equal(path_shown_bytes("http://h/b?s", 12), 10);
    assert_int_equal(path_shown_bytes("http://h/b#s", 12), 10);
    assert_int_equal(path_shown_bytes("http://h/b?s", 9), 9);
    assert_int_equal(path_shown_bytes("a?b", 3), 3);
    assert_int_equal(path_shown_bytes("http://me:secret@h/b", 20), 7);
    assert_int_equal(path_shown_bytes("https://me:secret@h/b", 21), 8);
    assert_int_equal(path_shown_bytes("http://h/b@c?s", 14), 12);
    assert_int_equal(path_shown_bytes("s3://me:secret@h/b?s", 20), 5);
    assert_int_equal(path_shown_bytes("hdfs://h/b?s", 12), 10);
    assert_true(path_has_query("http://h/b?s", 12));
    assert_false(path_has_query("http://h/b?s", 10) || path_has_query("a?b", 3));
    char text[PATHS_SHOWN_BYTES], many[2000] = "http://h/x";
    const char *plain = "a?b, c";
    assert_ptr_equal(paths_shown(text, plain), plain);
    assert_string_equal(paths_shown(text, "http://h/b?s, a?b ,http://h/c#d"), "http://h/b,…,http://h/c");
    assert_string_equal(paths_shown(text, "before,http://h/c?d"), "before,http://h/c");
    assert_string_equal(paths_shown(text, "http://h/b,a?b,http://h/c?d,,-"), "http://h/b,a?b,http://h/c,,-");
    memset(many + 10, 'x', 1900);
    assert_int_equal(strlen(paths_shown(text, many)), PATHS_SHOWN_BYTES - 1);
    strcpy(many + 505, ",b,c,d,e,f");
    assert_int_equal(strlen(paths_shown(text, many)), PATHS_SHOWN_BYTES - 1);
    assert_true(paths_have_address("http://h/a") && paths_have_address("a.tsv, -, HTTPS://h/a"));
    assert_false(paths_have_address("") || paths_have_address("a.tsv,-,dir/http://h"));
    assert_false(path_is_address("http:/", 6) || path_is_address("http://h", 5) || path_is_address("://h", 4) ||
                 path_is_address("3s://h", 6) || path_is_address("s3:/h", 5) || path_is_address("s3/h", 4) ||
                 path_is_address("a/s3://h", 8));
    assert_true(path_is_address("s3://h", 6) && path_is_address("git+ssh://h", 11));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_next__any_list__gives_its_names_without_blanks_around),
        cmocka_unit_test(paths_next__commas_of_names__are_written_behind_a_backslash),
        cmocka_unit_test(paths_name_stdin__a_dash_alone__is_it),
        cmocka_unit_test(paths_have_stream__devices_and_a_dash__are_one),
        cmocka_unit_test(text_shown__addresses__are_cut_and_all_else_stays),
        cmocka_unit_test(path_shown_bytes__addresses__end_before_their_query),
        cmocka_unit_test(paths_beside__relative_names__lie_in_the_files_folder),
        cmocka_unit_test(paths_beside__a_file_of_the_working_directory__is_told_where_it_is_looked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
