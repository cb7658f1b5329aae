/* Texts of evaluation sets taken apart: names, files, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/eval/eval_sets.h"
#include "tests/engine/fixture_files.h"

#define MANY "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" /* as long as a name may be */

static void parses_to(const char *text, const char *name, const char *paths)
{
    struct eval_set set;
    assert_ok(eval_set_parse(&set, "--eval", text));
    assert_string_equal(set.name, name);
    assert_string_equal(set.paths, paths);
}

static void eval_set_parse__texts__are_a_name_and_files_or_files(void **state)
{
    (void)state;
    parses_to("test.tsv", "", "test.tsv");
    parses_to("a.tsv,b.tsv", "", "a.tsv,b.tsv");
    parses_to("-", "", "-");
    parses_to("next=test.tsv", "next", "test.tsv");
    parses_to("A-z_0.9=a.tsv,b=c.tsv", "A-z_0.9", "a.tsv,b=c.tsv");
    parses_to("day=-", "day", "-");
    parses_to(MANY "=f", MANY, "f");
    parses_to("./a=b.tsv", "", "./a=b.tsv");
    parses_to("folder/a=b.tsv", "", "folder/a=b.tsv");
    parses_to("a,b=c", "", "a,b=c");
    parses_to("two words=f", "", "two words=f");
    parses_to("=f", "", "=f");
}

static void eval_set_parse__a_file_of_that_name__is_a_file(void **state)
{
    (void)state;
    assert_int_equal(chdir(fixture_directory), 0);
    parses_to("a=b.tsv", "a", "b.tsv");
    FILE *file = fopen("a=b.tsv", "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    parses_to("a=b.tsv", "", "a=b.tsv");
    parses_to("a=b.tsv,c.tsv", "", "a=b.tsv,c.tsv");
    parses_to("day=a=b.tsv", "day", "a=b.tsv");
}

static void refused(const char *message, const char *const *texts, uint32_t count)
{
    struct eval_sets sets;
    assert_int_equal(eval_sets_parse(&sets, "--eval", texts, count), ST_USAGE);
    assert_message(message);
}
#define REFUSED(message, ...)                                                                                          \
    refused(message, (const char *const[]){__VA_ARGS__}, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *))

static void eval_sets_parse__sets_that_cannot_be_told_apart__are_refused(void **state)
{
    (void)state;
    REFUSED("two sets are called a, x and z", "a=x", "b=y", "a=z");
    REFUSED("two sets are called a, http://h/x and http://h/z", "a=http://h/x?secret", "a=http://h/z?secret");
    REFUSED("--eval http://h/y has no name", "a=x", "http://h/y?secret");
    REFUSED("--eval y has no name", "a=x", "y");
    REFUSED("--eval x has no name", "x", "b=y");
    REFUSED("a and b both read standard input", "a=-", "b=x,-");
    REFUSED("expected files behind the name", "a=");
    REFUSED("has 64 letters, 63 at most", MANY "a=x");
    const char *texts[EVAL_SETS_MAX + 1];
    for (uint32_t i = 0; i <= EVAL_SETS_MAX; i++) texts[i] = "x";
    refused("17 times; at most 16", texts, EVAL_SETS_MAX + 1);
}

static void eval_sets_parse__names__stay_in_order(void **state)
{
    (void)state;
    struct eval_sets sets;
    assert_ok(eval_sets_parse(&sets, "--eval", (const char *const[]){"b=x", "a=y,-"}, 2));
    assert_int_equal(sets.count, 2);
    assert_string_equal(sets.item[0].name, "b");
    assert_string_equal(sets.item[1].name, "a");
    assert_true(eval_sets_name_stdin(&sets));
    assert_ok(eval_sets_parse(&sets, "--eval", NULL, 0));
    assert_int_equal(sets.count, 0);
    assert_false(eval_sets_name_stdin(&sets));
    sets.item[0].paths = sets.item[1].paths = "-"; /* of sets that are there no more */
    assert_false(eval_sets_name_stdin(&sets));
    sets = eval_sets_of("a=b");
    assert_int_equal(sets.count, 1);
    assert_string_equal(sets.item[0].name, "");
    assert_string_equal(sets.item[0].paths, "a=b");
}

static int open_all(void **state)
{
    (void)state;
    return fixture_directory_make("eval_sets");
}
static int close_all(void **state)
{
    (void)state;
    return fixture_directory_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eval_set_parse__texts__are_a_name_and_files_or_files),
        cmocka_unit_test(eval_set_parse__a_file_of_that_name__is_a_file),
        cmocka_unit_test(eval_sets_parse__sets_that_cannot_be_told_apart__are_refused),
        cmocka_unit_test(eval_sets_parse__names__stay_in_order),
    };
    return cmocka_run_group_tests(tests, open_all, close_all) ? 1 : 0;
}
