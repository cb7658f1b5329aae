/* Signals that ask runs to stop: each in a process of its own, whose exit status tells. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/scope.h"
#include "engine/base/stop.h"

/* What `run` returns, in a child; 128 and more: how a signal ended it, or _exit. */
static int in_child(int (*run)(void))
{
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(0);
        _exit(run());
    }
    int end;
    assert_int_equal(waitpid(child, &end, 0), child);
    return WIFEXITED(end) ? WEXITSTATUS(end) : 300 + WTERMSIG(end);
}

static int one_asks(void)
{
    if (stop_requested() || stop_signal() != 0) return 1;
    stop_listen(NULL, NULL);
    if (stop_requested()) return 2;
    raise(SIGTERM);
    if (!stop_requested() || stop_signal() != SIGTERM) return 3;
    return 77;
}
static int second_ends(void)
{
    stop_listen(NULL, NULL);
    raise(SIGTERM);
    raise(SIGINT);
    return 1;
}
/* Who ends a session and who started this process both send SIGTERM: within a second it is one. */
static int second_sigterm_is_the_first(void)
{
    stop_listen(NULL, NULL);
    raise(SIGINT);
    raise(SIGTERM);
    raise(SIGTERM);
    return stop_signal() == SIGINT ? 77 : 1;
}
static int late_sigterm_ends(void)
{
    stop_listen(NULL, NULL);
    raise(SIGTERM);
    usleep(1100000);
    raise(SIGTERM);
    return 1;
}
/* Who listens later has been asked, too; and the first signal stays the one. */
static int later_is_asked(void)
{
    struct scope *scope;
    stop_listen(NULL, NULL);
    raise(SIGINT);
    if (scope_open(&scope) != ST_OK) return 1;
    struct scope *first = scope_enter(scope);
    if (stop_requested()) return 2;
    stop_listen(NULL, NULL);
    if (stop_signal() != SIGINT) return 3;
    stop_ask(scope, SIGTERM);
    if (stop_signal() != SIGINT) return 4;
    scope_enter(first);
    scope_close(scope);
    return 77;
}
static int not_listening_ends(void)
{
    raise(SIGTERM);
    return 1;
}

static _Atomic int calls;
static bool wake_third(void *context)
{
    if (context != &calls) _exit(9);
    return atomic_fetch_add(&calls, 1) + 1 >= 3;
}
/* A second after it was asked it is woken, and again until it says that it has. */
static int is_woken(void)
{
    stop_listen(wake_third, &calls);
    raise(SIGINT);
    for (int i = 0; i < 100 && atomic_load(&calls) < 3; i++) pause();
    if (atomic_load(&calls) != 3) return 1;
    return alarm(0) == 0 ? 77 : 2; /* no more of it */
}
/* From now on another, or none. */
static int is_woken_no_more(void)
{
    stop_listen(wake_third, &calls);
    stop_listen(NULL, NULL);
    raise(SIGINT);
    return alarm(0) == 0 && stop_requested() ? 77 : 1;
}
static int asked_before_it_listens(void)
{
    stop_listen(NULL, NULL);
    raise(SIGINT);
    stop_listen(wake_third, &calls);
    return alarm(0) == 1 ? 77 : 1;
}

static void stop__signals__ask_whoever_listens(void **state)
{
    (void)state;
    assert_int_equal(in_child(one_asks), 77);
    assert_int_equal(in_child(second_ends), 128 + SIGINT);
    assert_int_equal(in_child(second_sigterm_is_the_first), 77);
    assert_int_equal(in_child(late_sigterm_ends), 128 + SIGTERM);
    assert_int_equal(in_child(later_is_asked), 77);
    assert_int_equal(in_child(not_listening_ends), 300 + SIGTERM);
}

static void stop__wake__is_called_until_it_has_woken(void **state)
{
    (void)state;
    assert_int_equal(in_child(is_woken), 77);
    assert_int_equal(in_child(is_woken_no_more), 77);
    assert_int_equal(in_child(asked_before_it_listens), 77);
}

/* Another's handler stays, and asks as it likes. */
static int is_left_alone(void)
{
    struct sigaction found;
    signal(SIGTERM, SIG_IGN);
    stop_signals_leave();
    stop_listen(NULL, NULL);
    if (sigaction(SIGTERM, NULL, &found) != 0 || found.sa_handler != SIG_IGN) return 1;
    raise(SIGTERM);
    if (stop_requested()) return 2;
    struct scope *own;
    if (scope_open(&own) != ST_OK) return 3;
    struct scope *before = scope_enter(own);
    stop_ask(own, SIGTERM);
    if (stop_signal() != SIGTERM) return 4;
    scope_enter(before);
    return stop_requested() ? 5 : 77;
}

static void stop_signals_leave__handlers__are_anothers(void **state)
{
    (void)state;
    assert_int_equal(in_child(is_left_alone), 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stop__signals__ask_whoever_listens),
        cmocka_unit_test(stop__wake__is_called_until_it_has_woken),
        cmocka_unit_test(stop_signals_leave__handlers__are_anothers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
