/* Threads: what one that steps back leaves to others, and how soon one that answers runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

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

/* Words of sched_attr: size, policy; flags; nice, priority; runtime; deadline; period. */
static uint64_t slice_ns(void)
{
    uint64_t words[7] = {0};
    assert_int_equal(syscall(SYS_sched_getattr, 0, words, sizeof words, 0), 0);
    return words[3];
}

static void *slice_main(void *slice)
{
    *(uint64_t *)slice = slice_ns();
    return NULL;
}

static void *answer_main(void *slices)
{
    uint64_t *slice = slices;
    pthread_t started;
    const int before = getpriority(PRIO_PROCESS, 0);
    thread_answer();
    slice[0] = slice_ns();
    assert_int_equal(getpriority(PRIO_PROCESS, 0), before);
    assert_int_equal(thread_start(&started, slice_main, &slice[1]), 0);
    pthread_join(started, NULL);
    thread_step_back();
    slice[2] = slice_ns();
    return NULL;
}

static void thread_answer__slice__is_short_until_it_steps_back(void **state)
{
    (void)state;
    uint64_t slice[3] = {0};
    pthread_t thread;
    const uint64_t usual = slice_ns();
    if (usual == 0) skip(); /* Linux before 6.12 has one slice for all */
    assert_int_equal(thread_start(&thread, answer_main, slice), 0);
    pthread_join(thread, NULL);
    assert_int_equal(slice[0], 100000);
    assert_int_equal(slice[1], 100000);
    assert_int_equal(slice[2], usual);
}

static void pin_to_first(void)
{
    cpu_set_t set, one;
    int processor = 0;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    while (!CPU_ISSET(processor, &set)) processor++;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
}

static void *busy_main(void *is_over)
{
    while (!atomic_load((atomic_bool *)is_over)) continue;
    return NULL;
}

/* How often the processor changed hands while this thread offered it ten times. */
static long hands_changed(void)
{
    struct rusage before, after;
    assert_int_equal(getrusage(RUSAGE_THREAD, &before), 0);
    for (int i = 0; i < 10; i++) thread_give_way();
    assert_int_equal(getrusage(RUSAGE_THREAD, &after), 0);
    return after.ru_nivcsw - before.ru_nivcsw;
}

/* Beside a thread on the same processor that never rests. */
static void *give_way_main(void *changes)
{
    long *changed = changes;
    atomic_bool is_over = false;
    pthread_t busy;
    pin_to_first();
    assert_int_equal(thread_start(&busy, busy_main, &is_over), 0);
    changed[0] = hands_changed();
    thread_step_back();
    changed[1] = hands_changed();
    atomic_store(&is_over, true);
    pthread_join(busy, NULL);
    return NULL;
}

static void thread_give_way__of_one_that_has_stepped_back__leaves_the_processor(void **state)
{
    (void)state;
    long changed[2] = {-1, -1};
    pthread_t thread;
    assert_int_equal(thread_start(&thread, give_way_main, changed), 0);
    pthread_join(thread, NULL);
    assert_in_range(changed[0], 0, 3); /* of its own slices' ends */
    assert_in_range(changed[1], 5, 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thread_step_back__is_of_the_thread_and_what_it_starts),
        cmocka_unit_test(thread_answer__slice__is_short_until_it_steps_back),
        cmocka_unit_test(thread_give_way__of_one_that_has_stepped_back__leaves_the_processor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
