/* How a process starts itself anew: what it leaves to itself, and with which words;
 * it never becomes another here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "tests/engine/fixture_files.h"

/* In place of becoming the new process: which words it would have. */
static char became[4096];
static int fake_execv(const char *path, char *const *words)
{
    assert_string_equal(path, "/proc/self/exe");
    became[0] = 0;
    for (size_t used = 0; *words && used < sizeof became; words++)
        used += (size_t)snprintf(became + used, sizeof became - used, "%s\n", *words);
    errno = ENOEXEC;
    return -1;
}
#define execv fake_execv
#include "engine/cmd/anew.c"

static struct anew sample(void)
{
    struct anew anew;
    memset(&anew, 0, sizeof anew);
    anew.past.nonce = 77;
    anew.past.roster.says[3] = UINT64_C(5) << 32;
    anew.has_key = true;
    memset(&anew.key, 9, sizeof anew.key);
    return anew;
}

static void anew_read__what_was_written__the_same_and_closed(void **state)
{
    (void)state;
    const struct anew wanted = sample();
    struct anew found;
    int fd;
    assert_ok(anew_write(&wanted, &fd));
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0); /* the new process has it */
    assert_int_equal(write(fd, "x", 1), -1);
    assert_int_equal(ftruncate(fd, 1), -1);
    assert_ok(anew_read(&found, fd));
    assert_memory_equal(&found, &wanted, sizeof found);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
}

/* Of another size, with another beginning, or one that could still change. */
static void anew_read__another_file__refused(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct anew_file file = {.anew = sample()};
        struct anew found;
        char wanted[128];
        memcpy(file.magic, magic, sizeof magic);
        if (i == 0) file.magic[7]++;
        const int fd = memfd_create("roster", MFD_ALLOW_SEALING);
        assert_true(fd >= 0);
        assert_true(write(fd, &file, sizeof file - (i == 1)) > 0);
        if (i < 2) assert_int_equal(fcntl(fd, F_ADD_SEALS, SEALS), 0);
        if (i == 2) assert_int_equal(fcntl(fd, F_ADD_SEALS, SEALS & ~F_SEAL_WRITE), 0);
        snprintf(wanted, sizeof wanted,
                 "--roster-fd %d: expected the file that a node leaves when it starts itself anew", fd);
        assert_int_equal(anew_read(&found, fd), ST_INVALID);
        assert_message(wanted);
        assert_int_equal(fcntl(fd, F_GETFD), -1);
    }
    FILE *plain = tmpfile();
    struct anew found;
    assert_non_null(plain);
    assert_int_equal(anew_read(&found, dup(fileno(plain))), ST_INVALID);
    assert_int_equal(fclose(plain), 0);
}

static void words_make__roster_of_a_start_before__the_flags_once(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t bytes;
        const char *wanted[6];
    } cases[] = {
        {"run\0a.bin", 10, {"run", "a.bin", "--again", "--roster-fd=9"}},
        {"run\0--roster-fd=4\0--again\0b", 28, {"run", "--again", "b", "--roster-fd=9"}},
        {"run\0\0--roster-fdx", 18, {"run", "", "--roster-fdx", "--again", "--roster-fd=9"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64], roster[] = "--roster-fd=9", **words;
        memcpy(text, cases[i].text, cases[i].bytes);
        assert_ok(words_make(text, cases[i].bytes, roster, &words));
        uint32_t n = 0;
        for (; cases[i].wanted[n]; n++) assert_string_equal(words[n], cases[i].wanted[n]);
        assert_null(words[n]);
        free(words);
    }
}

/* Whoever cannot become another says why, and keeps nothing open;
 * signals would reach the new one, and no alarm. */
static void anew_start__cannot__says_why_and_keeps_nothing(void **state)
{
    (void)state;
    sigset_t set, before;
    const struct anew anew = sample();
    const int next = dup(STDERR_FILENO);
    close(next);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &set, &before), 0);
    alarm(200);
    assert_int_equal(anew_start(&anew), ST_SYSTEM);
    assert_message("this node cannot start itself anew: Exec format error");
    assert_int_equal(alarm(0), 0);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, &set), 0);
    assert_int_equal(sigismember(&set, SIGTERM), 0);
    char wanted[64];
    snprintf(wanted, sizeof wanted, "\n--again\n--roster-fd=%d\n", next);
    assert_non_null(strstr(became, "test_anew"));
    assert_string_equal(became + strlen(became) - strlen(wanted), wanted);
    assert_int_equal(fcntl(next, F_GETFD), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(anew_read__what_was_written__the_same_and_closed),
        cmocka_unit_test(anew_read__another_file__refused),
        cmocka_unit_test(words_make__roster_of_a_start_before__the_flags_once),
        cmocka_unit_test(anew_start__cannot__says_why_and_keeps_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
