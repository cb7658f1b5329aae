/* Waiting for a processor is told: of threads that share one, and of none that only sleeps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/cores.h"
#include "engine/base/thread.h"
#include "engine/base/waits.h"

static int processor;
static struct waits waits;
static _Atomic bool is_over;

static void *busy(void *unused)
{
    (void)unused;
    cores_pin(&processor, 1);
    while (!atomic_load_explicit(&is_over, memory_order_relaxed)) continue;
    return NULL;
}

/* The share of a moment in which three threads take turns. */
static double share_of_three(void)
{
    pthread_t thread[3];
    waits_begin(&waits);
    assert_true(waits.thread_count >= 1);
    atomic_store_explicit(&is_over, false, memory_order_relaxed);
    for (int i = 0; i < 3; i++) assert_int_equal(thread_start(&thread[i], busy, NULL), 0);
    /* While they are there. */
    const struct timespec moment = {.tv_nsec = 120000000};
    nanosleep(&moment, NULL);
    const double share = waits_share(&waits);
    atomic_store_explicit(&is_over, true, memory_order_relaxed);
    for (int i = 0; i < 3; i++) pthread_join(thread[i], NULL);
    return share;
}

static void waits__three_threads_on_one_processor__waited_for_most_of_the_time(void **state)
{
    (void)state;
    struct cores cores;
    double share = 0;
    if (access("/proc/self/schedstat", R_OK) != 0) skip();
    cores_allowed(&cores);
    processor = cores.processor[0];
    /* On a busy machine threads may begin late. */
    for (int i = 0; i < 10 && !(share > 0.3); i++) {
        share = share_of_three();
        assert_true(share < 1);
    }
    if (!(share > 0.3)) fail_msg("share %g", share);
}

static void waits__asleep__waits_for_nobody(void **state)
{
    (void)state;
    const struct timespec moment = {.tv_nsec = 100000000};
    double least = 1;
    /* Waking up may take a while where others are busy. */
    for (int i = 0; i < 5; i++) {
        waits_begin(&waits);
        nanosleep(&moment, NULL);
        const double share = waits_share(&waits);
        least = share < least ? share : least;
    }
    if (!(least < 0.3)) fail_msg("share %g", least);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits__three_threads_on_one_processor__waited_for_most_of_the_time),
        cmocka_unit_test(waits__asleep__waits_for_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
