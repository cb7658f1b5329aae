/* Codes, sentences, the last message of each thread, and CHECK. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/status.h"

static void status_sentence__every_code__has_one_and_an_exit_status(void **state)
{
    (void)state;
    for (int code = 0; code < ST_COUNT; code++) {
        assert_true(strlen(status_sentence((status)code)) > 0);
        for (int other = 0; other < code; other++)
            assert_string_not_equal(status_sentence((status)code), status_sentence((status)other));
        const bool is_temporary = code == ST_PEER_LOST || code == ST_AGAIN;
        const int expected = code == ST_OK ? 0 : code == ST_USAGE ? 2 : code == ST_UNREAD ? 141 : is_temporary ? 75 : 1;
        assert_int_equal(status_exit((status)code), expected);
    }
    assert_non_null(status_sentence(ST_COUNT));
    assert_int_equal(status_exit(ST_COUNT), 1);
}

static status fails(int number) { FAIL(CORRUPT, "block %d", number); }
static status passes_up(int number)
{
    TRY(ST_OK);
    TRY(fails(number));
    return ST_OK;
}
static status cleans_up(int *cleaned)
{
    status st;
    TRY_GOTO(fails(3), cleanup);
    *cleaned = -1;
cleanup:
    *cleaned += 1;
    return st;
}

static void fail__passed_up__code_and_message_arrive(void **state)
{
    (void)state;
    assert_int_equal(passes_up(42), ST_CORRUPT);
    assert_string_equal(status_message(), "block 42");
    int cleaned = 0;
    assert_int_equal(cleans_up(&cleaned), ST_CORRUPT);
    assert_int_equal(cleaned, 1);
}

static void status_fail__quotes_the_last_message__whole(void **state)
{
    (void)state;
    assert_int_equal(fails(1), ST_CORRUPT);
    assert_int_equal(status_fail(ST_IO, __FILE__, __LINE__, "a.bin: %s", status_message()), ST_IO);
    assert_string_equal(status_message(), "a.bin: block 1");
}

static status describes(const char *format, ...) PRINTF_LIKE(1, 2);
static status describes(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    status_describe(format, arguments);
    va_end(arguments);
    FAIL(INVALID, "a.ini:3: %s", status_message());
}

static void status_describe__quoting_the_last_message__leaves_it_to_be_put_in_place(void **state)
{
    (void)state;
    assert_int_equal(fails(4), ST_CORRUPT);
    assert_int_equal(describes("slow: %s", status_message()), ST_INVALID);
    assert_string_equal(status_message(), "a.ini:3: slow: block 4");
}

static char lengthy[2 * STATUS_MESSAGE_BYTES];

static void status_fail__longer_than_the_buffer__is_cut(void **state)
{
    (void)state;
    memset(lengthy, 'x', sizeof lengthy - 1);
    assert_int_equal(status_fail(ST_IO, __FILE__, __LINE__, "%s", lengthy), ST_IO);
    assert_int_equal(strlen(status_message()), STATUS_MESSAGE_BYTES - 1);
}

static void *fail_elsewhere(void *failure)
{
    failure_keep(failure, fails(7));
    return NULL;
}

static void failure__of_another_thread__own_until_adopted(void **state)
{
    (void)state;
    static struct failure failure;
    assert_int_equal(fails(5), ST_CORRUPT);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &failure), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(status_message(), "block 5");
    assert_int_equal(failure_adopt(&failure), ST_CORRUPT);
    assert_string_equal(status_message(), "block 7");
}

/* As long as a message can be: the two buffers are one length. */
static void failure__kept_over_another__comes_back_whole(void **state)
{
    (void)state;
    static struct failure failure;
    memset(lengthy, 'y', STATUS_MESSAGE_BYTES - 1);
    lengthy[STATUS_MESSAGE_BYTES - 1] = 0;
    failure_keep(&failure, status_fail(ST_MEMORY, __FILE__, __LINE__, "%s", lengthy));
    assert_true(failure_is(&failure));
    assert_int_equal(fails(6), ST_CORRUPT);
    assert_int_equal(failure_adopt(&failure), ST_MEMORY);
    assert_string_equal(status_message(), lengthy);
}

static void failure__of_no_failure__leaves_the_last_message(void **state)
{
    (void)state;
    static struct failure failure;
    assert_false(failure_is(&failure));
    assert_int_equal(fails(8), ST_CORRUPT);
    failure_keep(&failure, ST_OK);
    assert_false(failure_is(&failure));
    assert_int_equal(fails(9), ST_CORRUPT);
    assert_int_equal(failure_adopt(&failure), ST_OK);
    assert_string_equal(status_message(), "block 9");
}

static void check__broken__prints_the_condition_and_aborts(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], 2);
        volatile int two = 2;
        CHECK(two == 2);
        CHECK(two == 3);
        _exit(0);
    }
    close(ends[1]);
    char text[4096] = "";
    ssize_t bytes = read(ends[0], text, sizeof text - 1);
    close(ends[0]);
    int exit_status;
    assert_int_equal(waitpid(child, &exit_status, 0), child);
    assert_true(bytes > 0);
    assert_non_null(strstr(text, "two == 3"));
    assert_non_null(strstr(text, "test_status.c"));
    assert_true(WIFSIGNALED(exit_status) && WTERMSIG(exit_status) == SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_sentence__every_code__has_one_and_an_exit_status),
        cmocka_unit_test(fail__passed_up__code_and_message_arrive),
        cmocka_unit_test(status_fail__quotes_the_last_message__whole),
        cmocka_unit_test(status_fail__longer_than_the_buffer__is_cut),
        cmocka_unit_test(status_describe__quoting_the_last_message__leaves_it_to_be_put_in_place),
        cmocka_unit_test(failure__of_another_thread__own_until_adopted),
        cmocka_unit_test(failure__kept_over_another__comes_back_whole),
        cmocka_unit_test(failure__of_no_failure__leaves_the_last_message),
        cmocka_unit_test(check__broken__prints_the_condition_and_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
