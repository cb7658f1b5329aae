/* What a power cut at any moment of a save would leave: the saves before it, whole. Kills and full disks are
 * in test_model_interrupted.c, what a save holds in test_model_dir.c. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>

#include "tests/engine/model/model_dir_test.h"
#include "tests/power_cut.h"

static void model_save__power_cut__leaves_whole_saves_crash(void **state)
{
    (void)state;
    char path[512];
    for (uint32_t keep = 1; keep <= 3; keep++) {
        char name[16];
        snprintf(name, sizeof name, "keep_%u", keep);
        snprintf(path, sizeof path, "%s", fixture_path(name));
        power_begin(path);
        for (uint64_t seed = 1; seed <= 5; seed++) {
            save_kept(path, seed, keep);
            assert_string_equal(power_end(path), "");
        }
        assert_int_equal(assert_all_whole(path), keep);
    }
}

/* A file system that knows no links has the older manifest copied. */
static bool refuses_links;
int linkat(int from_directory, const char *from, int to_directory, const char *to, int flags)
{
    if (refuses_links) {
        errno = EPERM;
        return -1;
    }
    return (int)syscall(SYS_linkat, from_directory, from, to_directory, to, flags);
}

static void model_save__power_cut_without_links__leaves_whole_saves_crash(void **state)
{
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s", fixture_path("copied"));
    refuses_links = true;
    power_begin(path);
    for (uint64_t seed = 1; seed <= 4; seed++) {
        save_kept(path, seed, 2);
        assert_string_equal(power_end(path), "");
    }
    refuses_links = false;
    assert_int_equal(assert_all_whole(path), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(model_save__power_cut__leaves_whole_saves_crash),
        cmocka_unit_test(model_save__power_cut_without_links__leaves_whole_saves_crash),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close) ? 1 : 0;
}
