/* Older saves that go: what a power cut may bring back never names what is gone for good. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "tests/engine/model/model_dir_test.h"

/* What is done to names, in order: a letter each. */
static char done[4096];
static size_t done_count;
static bool is_watched;
static void doing(char what)
{
    if (is_watched && done_count + 1 < sizeof done) done[done_count++] = what;
}
static char letter_of(const char *path) { return strstr(path, "manifest.") ? 'm' : 'd'; } /* a manifest, or data */

int fsync(int fd)
{
    struct stat about;
    if (fstat(fd, &about) == 0 && S_ISDIR(about.st_mode)) doing('s');
    return (int)syscall(SYS_fsync, fd);
}
int unlink(const char *path)
{
    doing(letter_of(path));
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}
int unlinkat(int directory, const char *path, int flags)
{
    doing(letter_of(path));
    return (int)syscall(SYS_unlinkat, directory, path, flags);
}

/* Whether every 'd' has an 's' between it and the last 'm' before it. */
static bool is_in_order(void)
{
    bool is_open = false;
    for (size_t i = 0; i < done_count; i++) {
        if (done[i] == 'm') is_open = true;
        if (done[i] == 's') is_open = false;
        if (done[i] == 'd' && is_open) return false;
    }
    return true;
}

static void model_save__older_saves__data_goes_once_it_is_sure_that_no_manifest_names_it(void **state)
{
    (void)state;
    char path[256];
    snprintf(path, sizeof path, "%s", fixture_path("thinned"));
    for (uint64_t seed = 1; seed <= 4; seed++) save_kept(path, seed, 4);
    /* With fewer to be kept several go at once. */
    is_watched = true;
    save_kept(path, 5, 2);
    is_watched = false;
    done[done_count] = 0;
    assert_kept(path, "manifest.json", 5);
    assert_kept(path, "manifest.40.json", 4);
    assert_int_equal(assert_all_whole(path), 2);
    assert_non_null(strchr(done, 'm'));
    assert_non_null(strchr(done, 'd'));
    if (!is_in_order()) fail_msg("data has gone right after a manifest: %s", done);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(model_save__older_saves__data_goes_once_it_is_sure_that_no_manifest_names_it),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close) ? 1 : 0;
}
