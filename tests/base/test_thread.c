/* Threads: what one that steps back leaves to others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/resource.h>

#include "engine/base/thread.h"

static void *own_main(void *priority)
{
    *(int *)priority = getpriority(PRIO_PROCESS, 0);
    return NULL;
}

static void *back_main(void *priorities)
{
    int *priority = priorities;
    pthread_t started;
    thread_step_back();
    own_main(&priority[0]);
    assert_int_equal(thread_start(&started, own_main, &priority[1]), 0);
    pthread_join(started, NULL);
    return NULL;
}

static void thread_step_back__is_of_the_thread_and_what_it_starts(void **state)
{
    (void)state;
    const int before = getpriority(PRIO_PROCESS, 0);
    int priority[2] = {-1, -1}, behind = -1;
    pthread_t back, other;
    assert_int_equal(thread_start(&back, back_main, priority), 0);
    pthread_join(back, NULL);
    assert_int_equal(thread_start(&other, own_main, &behind), 0);
    pthread_join(other, NULL);
    const int expected = before > 15 ? before : 15; /* nobody comes forward */
    assert_int_equal(priority[0], expected);
    assert_int_equal(priority[1], expected);
    assert_int_equal(behind, before);
    assert_int_equal(getpriority(PRIO_PROCESS, 0), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(thread_step_back__is_of_the_thread_and_what_it_starts)};
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
