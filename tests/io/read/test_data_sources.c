/* What data is: each kind of change is noticed by itself, and said. */
#include "tests/io/read/look_test.h"

#define BYTES ((size_t)3 << 20)

/* Whether the data is another than when it was opened, and says `words`; NULL: it is that. */
static void look_assert(struct look *l, const char *words)
{
    struct data_source was = l->sources.source[0];
    char why[1200];
    assert_ok(data_sources_look(&l->sources, l->sources.source));
    assert_int_equal(data_sources_differ(&l->sources, &was, why, sizeof why), words != NULL);
    if (words && !strstr(why, words)) fail_msg("\"%s\" lacks \"%s\"", why, words);
}

/* Changes the byte `at`; the time stays. */
static void byte_change(const char *path, size_t at)
{
    struct stat before;
    assert_int_equal(stat(path, &before), 0);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, (long)at, SEEK_SET), 0);
    fputc('!', file);
    assert_int_equal(fclose(file), 0);
    const struct timespec times[2] = {before.st_atim, before.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static const char *data_make(size_t bytes)
{
    char *text = malloc(bytes);
    assert_non_null(text);
    for (size_t i = 0; i < bytes; i++) text[i] = (char)('a' + i % 23);
    const char *path = test_file("data", text, bytes);
    free(text);
    return path;
}

static void data_sources__same_bytes_written_later__has_been_written_to(void **state)
{
    (void)state;
    char path[1024];
    struct look l;
    snprintf(path, sizeof path, "%s", data_make(100));
    look_open(&l, path);
    look_assert(&l, NULL);
    struct stat before;
    assert_int_equal(stat(path, &before), 0);
    struct timespec times[2] = {before.st_atim, before.st_mtim};
    times[1].tv_nsec += times[1].tv_nsec < 999999999 ? 1 : -1;
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    look_assert(&l, "data has been written to since");
    look_assert(&l, NULL);
    look_close(&l);
}

static void data_sources__a_byte_changed_at_the_same_time__has_changed(void **state)
{
    (void)state;
    char path[1024];
    struct look l;
    snprintf(path, sizeof path, "%s", data_make(BYTES));
    look_open(&l, path);
    static const size_t places[] = {0, ((size_t)1 << 20) - 1, BYTES / 17 * 8, BYTES - ((size_t)1 << 20), BYTES - 1};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        byte_change(path, places[i]);
        look_assert(&l, "data has changed");
        look_assert(&l, NULL);
    }
    look_close(&l);
}

static void data_sources__other_size_or_name__is_said(void **state)
{
    char why[1200];
    (void)state;
    char path[1024];
    struct look l;
    snprintf(path, sizeof path, "%s", data_make(100));
    look_open(&l, path);
    data_make(101);
    look_assert(&l, "data has 101 bytes, and had 100");
    struct data_source other = l.sources.source[0];
    other.name_hash++;
    assert_true(data_sources_differ(&l.sources, &other, why, sizeof why));
    assert_non_null(strstr(why, "it is of another file than "));
    look_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_sources__same_bytes_written_later__has_been_written_to),
        cmocka_unit_test(data_sources__a_byte_changed_at_the_same_time__has_changed),
        cmocka_unit_test(data_sources__other_size_or_name__is_said),
    };
    return cmocka_run_group_tests(tests, test_directory_make, test_directory_remove) ? 1 : 0;
}
