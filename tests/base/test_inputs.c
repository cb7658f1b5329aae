/* What is read is not written to, by whatever name it is called. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/inputs.h"

static char directory[] = "/tmp/test_inputs.XXXXXX";

static int directory_enter(void **state)
{
    (void)state;
    return mkdtemp(directory) && chdir(directory) == 0 ? 0 : -1;
}

static int directory_remove(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b", "c,d", "e,f", "hard", "soft", "new"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unlink(names[i]);
    return chdir("/") == 0 ? rmdir(directory) : -1;
}

static void inputs__list_links_commas__are_spared(void **state)
{
    (void)state;
    assert_int_equal(file_write("a", "1", 1), ST_OK);
    assert_int_equal(file_write("b", "2", 1), ST_OK);
    assert_int_equal(file_write("c,d", "3", 1), ST_OK);
    assert_int_equal(link("b", "hard"), 0);
    assert_int_equal(symlink("c,d", "soft"), 0);
    assert_int_equal(inputs_spare("a"), ST_OK);
    assert_int_equal(inputs_add("--data", "a,absent,b"), ST_OK);
    assert_int_equal(inputs_add(NULL, "c,d"), ST_OK);
    assert_int_equal(inputs_add(NULL, "."), ST_OK);
    assert_int_equal(inputs_spare("a"), ST_USAGE);
    assert_int_equal(inputs_spare("hard"), ST_USAGE);
    assert_non_null(strstr(status_message(), "hard is to be written, and is the same file as --data b, which is read"));
    assert_int_equal(inputs_spare("soft"), ST_USAGE);
    assert_non_null(strstr(status_message(), "the same file as c,d,"));
    assert_int_equal(file_write("e,f", "4", 1), ST_OK);
    assert_int_equal(inputs_add("--data", "a, e\\,f"), ST_OK);
    assert_int_equal(inputs_spare("e,f"), ST_USAGE);
    assert_int_equal(inputs_spare("."), ST_OK);
    assert_int_equal(inputs_spare("new"), ST_OK);
}

static void file_writer__input__refused_and_as_it_was(void **state)
{
    (void)state;
    assert_int_equal(file_write("hard", "9", 1), ST_USAGE);
    struct file_map map;
    assert_int_equal(file_map_open(&map, "b"), ST_OK);
    assert_true(map.bytes == 1 && map.data[0] == '2');
    file_map_close(&map);
    assert_int_equal(file_write("new", "9", 1), ST_OK);
}

static void inputs_stop__what_comes_later__is_no_input(void **state)
{
    (void)state;
    inputs_stop();
    assert_int_equal(file_write("new", "1", 1), ST_OK);
    assert_int_equal(inputs_add("--data", "new"), ST_OK);
    assert_int_equal(inputs_spare("new"), ST_OK);
    assert_int_equal(inputs_spare("a"), ST_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inputs__list_links_commas__are_spared),
        cmocka_unit_test(file_writer__input__refused_and_as_it_was),
        cmocka_unit_test(inputs_stop__what_comes_later__is_no_input),
    };
    return cmocka_run_group_tests_name("inputs", tests, directory_enter, directory_remove);
}
