/* Key files: what is made is read, by its owner alone; what is no key, or could be another's, is refused. */
#include "tests/io/io_test.h"

#include <sys/resource.h>

#include "io/net/link_key.h"

#define GOOD "00112233445566778899aabbccddeeffFFEEDDCCBBAA99887766554433221100"

static const char *key_file(const char *name, const char *text, mode_t mode)
{
    const char *path = test_text(name, text);
    assert_int_equal(chmod(path, mode), 0);
    return path;
}

static void key_make__new_file__is_read_by_its_owner(void **state)
{
    (void)state;
    struct secure_key first, again, second;
    struct stat about;
    const char *path = test_path("made"), *other = test_path("made_too");
    mode_t before = umask(0);
    assert_ok(key_make(path));
    umask(before);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    assert_int_equal(about.st_size, KEY_TEXT_BYTES);
    assert_ok(key_read(&first, path));
    assert_ok(key_make(other));
    assert_ok(key_read(&second, other));
    assert_memory_not_equal(first.bytes, second.bytes, 32);
    assert_fails(USAGE, "is there already", key_make(path));
    assert_ok(key_read(&again, path)); /* and is as it was */
    assert_memory_equal(first.bytes, again.bytes, 32);
    assert_fails(IO, "No such file", key_make(test_path("nowhere/key")));
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_CORE, &limit), 0);
    assert_int_equal(limit.rlim_cur, 0);
}

static void key_read__texts__only_keys_are_taken(void **state)
{
    (void)state;
    struct secure_key key;
    assert_ok(key_read(&key, key_file("key", GOOD "\n", 0600)));
    for (uint32_t i = 0; i < 32; i++) assert_int_equal(key.bytes[i], i < 16 ? i * 0x11 : 0xff - (i - 16) * 0x11);
    assert_ok(key_read(&key, key_file("key", GOOD, 0400)));
    static const char *const bad[] = {"",
                                      "\n",
                                      GOOD "\n\n",
                                      GOOD " ",
                                      GOOD "0\n",
                                      "g" GOOD,
                                      " " GOOD,
                                      "key = " GOOD,
                                      "0011223344556677889.aabbccddeeffFFEEDDCCBBAA99887766554433221100\n",
                                      "00112233445566778899aabbccddeeffFFEEDDCCBBAA9988776655443322110\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        memset(&key, 1, sizeof key);
        assert_fails(INVALID, "expected a key, 64 hexadecimal digits", key_read(&key, key_file("key", bad[i], 0600)));
        for (uint32_t k = 0; k < 32; k++) assert_int_equal(key.bytes[k], 0);
        assert_null(strstr(status_message(), "0011")); /* of a key that is nearly one nothing is told */
    }
}

static void key_read__others_could_read_or_write_it__is_refused(void **state)
{
    (void)state;
    struct secure_key key;
    static const mode_t modes[] = {0640, 0604, 0620, 0602, 0610, 0601, 0644};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        assert_fails(INVALID, "run: chmod 600", key_read(&key, key_file("key", GOOD, modes[i])));
    assert_fails(INVALID, "found a directory", key_read(&key, test_directory));
    assert_fails(INVALID, "expected a key file, found", key_read(&key, "/dev/null"));
    assert_fails(IO, "No such file", key_read(&key, test_path("none")));
    assert_int_equal(mkfifo(test_path("pipe"), 0600), 0);
    assert_fails(INVALID, "found a pipe", key_read(&key, test_path("pipe"))); /* and is not waited for */
    if (geteuid() != 0) skip();
    const char *path = key_file("key", GOOD, 0600);
    assert_int_equal(chown(path, 4711, 4711), 0);
    assert_fails(INVALID, "or of root, found one of user 4711", key_read(&key, path));
}

static void key_read_fd__pipe_or_file__is_read_to_its_end(void **state)
{
    (void)state;
    struct secure_key key;
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(write(pipes[1], GOOD, 40), 40);
    assert_int_equal(write(pipes[1], &GOOD[40], 24), 24);
    close(pipes[1]);
    assert_ok(key_read_fd(&key, pipes[0]));
    assert_int_equal(key.bytes[31], 0);
    assert_int_equal(key.bytes[1], 0x11);
    assert_int_equal(fcntl(pipes[0], F_GETFD), -1);
    int fd = open(key_file("key", GOOD, 0644), O_RDONLY);
    assert_fails(INVALID, "chmod 600", key_read_fd(&key, fd));
    assert_fails(IO, "descriptor 999", key_read_fd(&key, 999));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(key_make__new_file__is_read_by_its_owner),
        cmocka_unit_test(key_read__texts__only_keys_are_taken),
        cmocka_unit_test(key_read__others_could_read_or_write_it__is_refused),
        cmocka_unit_test(key_read_fd__pipe_or_file__is_read_to_its_end),
    };
    return cmocka_run_group_tests(tests, test_directory_make, test_directory_remove) ? 1 : 0;
}
