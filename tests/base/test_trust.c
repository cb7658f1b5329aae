/* A path to be written that comes of a graph lies below the graph's folder, or is the command line's. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/trust.h"

static char directory[] = "/tmp/test_trust.XXXXXX";

static int folders_make(void **state)
{
    (void)state;
    return mkdtemp(directory) && chdir(directory) == 0 && mkdir("home", 0700) == 0 && mkdir("homely", 0700) == 0 &&
                   symlink("../homely", "home/link") == 0 && symlink("../nothing", "home/dangling") == 0 &&
                   symlink("home", "alias") == 0
               ? 0
               : -1;
}

static int folders_remove(void **state)
{
    (void)state;
    unlink("alias");
    unlink("home/link");
    unlink("home/dangling");
    return rmdir("home") + rmdir("homely") + chdir("/") == 0 ? rmdir(directory) : -1;
}

static void trust_check__path__below_the_graph_s_folder(void **state)
{
    (void)state;
    static const struct {
        const char *path, *graph;
        status expected;
    } cases[] = {
        {"home/rows", "home/g.bin", ST_OK},
        {"home", "home/g.bin", ST_OK},
        {"home/", "home/g.bin", ST_OK},
        {"home/a/b/c", "home/g.bin", ST_OK},
        {"alias/rows", "home/g.bin", ST_OK},
        {"home/rows", "alias/g.bin", ST_OK},
        {"rows", "g.bin", ST_OK},
        {"home/../home/rows", "home/g.bin", ST_OK},
        {"home/a,/etc/b", "home/g.bin", ST_OK}, /* a comma is of the name */
        {"home,/etc/b", "home/g.bin", ST_USAGE},
        {"rows", "home/g.bin", ST_USAGE},
        {"homely/rows", "home/g.bin", ST_USAGE},
        {"homely", "home/g.bin", ST_USAGE},
        {"home/../rows", "home/g.bin", ST_USAGE},
        {"home/none/../rows", "home/g.bin", ST_USAGE},
        {"home/link/rows", "home/g.bin", ST_USAGE},
        {"home/dangling", "home/g.bin", ST_USAGE},
        {"home/dangling/rows", "home/g.bin", ST_USAGE},
        {"/etc/rows", "home/g.bin", ST_USAGE},
        {"/", "home/g.bin", ST_USAGE},
        {"", "home/g.bin", ST_USAGE},
        {"/etc/rows", "/g.bin", ST_OK},
    };
    const char *const set[] = {"cache.path=/etc/c", "store.pathology=1"};
    assert_true(trust_is_whole());
    assert_int_equal(trust_check("store.path", "/etc/rows", "home/g.bin"), ST_OK);
    trust_only(set, 2);
    assert_false(trust_is_whole());
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (trust_check("store.path", cases[i].path, cases[i].graph) != cases[i].expected)
            fail_msg("%s of %s: %s", cases[i].path, cases[i].graph, status_message());
    assert_int_equal(trust_check("cache.path", "/etc/c", "home/g.bin"), ST_OK);
    assert_int_equal(trust_check("store.path", "/etc/c", "home/g.bin"), ST_USAGE);
    assert_non_null(
        strstr(status_message(), "home/g.bin: its store.path would write to /etc/c, outside its own folder"));
    assert_non_null(strstr(status_message(), "--trust-paths, or --set store.path=PATH"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(trust_check__path__below_the_graph_s_folder)};
    return cmocka_run_group_tests_name("trust", tests, folders_make, folders_remove);
}
