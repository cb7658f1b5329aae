/* Who allocates and who locks in steady state is counted: our own calls and those of the
 * libraries. What the C library itself does is seen in test_steady_static.c, since a program
 * with cmocka is linked dynamically. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <jansson.h>
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "engine/base/memory.h"
#include "engine/base/scope.h"
#include "engine/base/steady.h"

/* A block goes through here, or the compiler leaves out an allocation that nobody reads. */
static _Thread_local void *volatile block;
static const struct timespec past = {0, 0};

struct fixture {
    pthread_mutex_t mutex;
    pthread_rwlock_t rwlock;
    pthread_spinlock_t spin;
    pthread_barrier_t barrier;
    pthread_cond_t condition;
    sem_t semaphore;
};
static struct fixture f;

static void call_malloc(void) { free(block = malloc(10)); }
static void call_malloc_large(void) { free(block = malloc(5 << 20)); }
static void call_calloc(void) { free(block = calloc(3, 10)); }
static void call_realloc(void) { free(block = realloc(NULL, 10)); }
static void call_memalign(void) { free(block = memalign(64, 64)); }
static void call_aligned_alloc(void) { free(block = aligned_alloc(64, 64)); }
static void call_posix_memalign(void)
{
    void *taken = NULL;
    assert_int_equal(posix_memalign(&taken, 64, 64), 0);
    free(block = taken);
}
static void call_mmap(void)
{
    void *mapped = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(mapped != MAP_FAILED);
    munmap(mapped, 4096);
}
static void call_mmap64(void)
{
    void *mapped = mmap64(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(mapped != MAP_FAILED);
    munmap(mapped, 4096);
}

static void call_mutex_lock(void)
{
    assert_int_equal(pthread_mutex_lock(&f.mutex), 0);
    pthread_mutex_unlock(&f.mutex);
}
static void call_mutex_timedlock(void)
{
    assert_int_equal(pthread_mutex_timedlock(&f.mutex, &past), 0);
    pthread_mutex_unlock(&f.mutex);
}
#ifndef __SANITIZE_THREAD__ /* which does not know the call, and takes the unlock for a mistake */
static void call_mutex_clocklock(void)
{
    assert_int_equal(pthread_mutex_clocklock(&f.mutex, CLOCK_MONOTONIC, &past), 0);
    pthread_mutex_unlock(&f.mutex);
}
#endif
static void call_rwlock_rdlock(void)
{
    assert_int_equal(pthread_rwlock_rdlock(&f.rwlock), 0);
    pthread_rwlock_unlock(&f.rwlock);
}
static void call_rwlock_wrlock(void)
{
    assert_int_equal(pthread_rwlock_wrlock(&f.rwlock), 0);
    pthread_rwlock_unlock(&f.rwlock);
}
static void call_rwlock_timedrdlock(void)
{
    assert_int_equal(pthread_rwlock_timedrdlock(&f.rwlock, &past), 0);
    pthread_rwlock_unlock(&f.rwlock);
}
static void call_rwlock_timedwrlock(void)
{
    assert_int_equal(pthread_rwlock_timedwrlock(&f.rwlock, &past), 0);
    pthread_rwlock_unlock(&f.rwlock);
}
static void call_spin_lock(void)
{
    assert_int_equal(pthread_spin_lock(&f.spin), 0);
    pthread_spin_unlock(&f.spin);
}
static void call_barrier_wait(void)
{
    assert_int_equal(pthread_barrier_wait(&f.barrier), PTHREAD_BARRIER_SERIAL_THREAD);
}
/* The mutex of a condition is taken by the try form, which is not counted: what is counted is the wait. */
static void call_cond_timedwait(void)
{
    assert_int_equal(pthread_mutex_trylock(&f.mutex), 0);
    (void)pthread_cond_timedwait(&f.condition, &f.mutex, &past);
    pthread_mutex_unlock(&f.mutex);
}
static void call_cond_clockwait(void)
{
    assert_int_equal(pthread_mutex_trylock(&f.mutex), 0);
    (void)pthread_cond_clockwait(&f.condition, &f.mutex, CLOCK_MONOTONIC, &past);
    pthread_mutex_unlock(&f.mutex);
}
static bool is_signalled; /* under f.mutex */
static void *signal_condition(void *unused)
{
    (void)unused;
    while (pthread_mutex_trylock(&f.mutex) != 0) usleep(100);
    is_signalled = true;
    pthread_cond_signal(&f.condition);
    pthread_mutex_unlock(&f.mutex);
    return NULL;
}
static void call_cond_wait(void)
{
    pthread_t thread;
    assert_int_equal(pthread_mutex_trylock(&f.mutex), 0);
    is_signalled = false;
    assert_int_equal(pthread_create(&thread, NULL, signal_condition, NULL), 0);
    while (!is_signalled) pthread_cond_wait(&f.condition, &f.mutex);
    pthread_mutex_unlock(&f.mutex);
    pthread_join(thread, NULL);
}
static void call_sem_wait(void)
{
    sem_post(&f.semaphore);
    assert_int_equal(sem_wait(&f.semaphore), 0);
}
static void call_sem_timedwait(void)
{
    sem_post(&f.semaphore);
    assert_int_equal(sem_timedwait(&f.semaphore, &past), 0);
}
static void call_sem_clockwait(void)
{
    sem_post(&f.semaphore);
    assert_int_equal(sem_clockwait(&f.semaphore, CLOCK_MONOTONIC, &past), 0);
}

static void call_zlib(void)
{
    z_stream stream = {0};
    assert_int_equal(inflateInit(&stream), Z_OK);
    inflateEnd(&stream);
}
static void call_jansson(void)
{
    json_t *value = json_pack("{s:i}", "a", 1);
    assert_non_null(value);
    json_decref(value);
}
static void call_memory_give_nothing(void) { memory_give("nothing", NULL, 0); }
static void call_try_forms(void)
{
    assert_int_equal(pthread_mutex_trylock(&f.mutex), 0);
    pthread_mutex_unlock(&f.mutex);
    assert_int_equal(pthread_rwlock_tryrdlock(&f.rwlock), 0);
    pthread_rwlock_unlock(&f.rwlock);
    assert_int_equal(sem_trywait(&f.semaphore), -1);
}

/* What one call counts; SOME: at least one, as the library likes. */
enum { NONE = 0, ONE = 1, SOME = 1000 };
static const struct known {
    const char *name;
    void (*call)(void);
    int allocations, locks;
} known[] = {
    {"malloc", call_malloc, ONE, NONE},
    {"malloc of 5 MiB", call_malloc_large, ONE, NONE},
    {"calloc", call_calloc, ONE, NONE},
    {"realloc", call_realloc, ONE, NONE},
    {"memalign", call_memalign, ONE, NONE},
    {"aligned_alloc", call_aligned_alloc, ONE, NONE},
    {"posix_memalign", call_posix_memalign, ONE, NONE},
    {"mmap", call_mmap, ONE, NONE},
    {"mmap64", call_mmap64, ONE, NONE},
    {"pthread_mutex_lock", call_mutex_lock, NONE, ONE},
    {"pthread_mutex_timedlock", call_mutex_timedlock, NONE, ONE},
#ifndef __SANITIZE_THREAD__
    {"pthread_mutex_clocklock", call_mutex_clocklock, NONE, ONE},
#endif
    {"pthread_rwlock_rdlock", call_rwlock_rdlock, NONE, ONE},
    {"pthread_rwlock_wrlock", call_rwlock_wrlock, NONE, ONE},
    {"pthread_rwlock_timedrdlock", call_rwlock_timedrdlock, NONE, ONE},
    {"pthread_rwlock_timedwrlock", call_rwlock_timedwrlock, NONE, ONE},
    {"pthread_spin_lock", call_spin_lock, NONE, ONE},
    {"pthread_barrier_wait", call_barrier_wait, NONE, ONE},
    {"pthread_cond_timedwait", call_cond_timedwait, NONE, ONE},
    {"pthread_cond_clockwait", call_cond_clockwait, NONE, ONE},
    {"sem_wait", call_sem_wait, NONE, ONE},
    {"sem_timedwait", call_sem_timedwait, NONE, ONE},
    {"sem_clockwait", call_sem_clockwait, NONE, ONE},
    {"inflateInit", call_zlib, SOME, NONE},
    {"json_pack", call_jansson, SOME, NONE},
    {"memory_give of nothing", call_memory_give_nothing, NONE, NONE},
    {"try forms", call_try_forms, NONE, NONE},
};
#define KNOWN_COUNT (sizeof known / sizeof *known)

static void assert_counted(const struct known *k, struct steady_counts before, uint64_t times)
{
    struct steady_counts after = steady_counts();
    uint64_t allocations = after.allocations - before.allocations, locks = after.locks - before.locks;
    if (k->allocations == SOME ? allocations < times : allocations != times * (uint64_t)k->allocations)
        fail_msg("%s: %llu allocations", k->name, (unsigned long long)allocations);
    if (locks != times * (uint64_t)k->locks) fail_msg("%s: %llu locks", k->name, (unsigned long long)locks);
}

static void steady_counts_work__this_build__all_calls_pass(void **state)
{
    (void)state;
    assert_true(steady_counts_work());
}

static void steady_counts__each_call__seen_from_begin_to_end(void **state)
{
    (void)state;
    for (size_t i = 0; i < KNOWN_COUNT; i++) {
        struct steady_counts before = steady_counts();
        known[i].call();
        steady_begin();
        known[i].call();
        known[i].call();
        steady_end();
        known[i].call();
        assert_counted(&known[i], before, 2);
    }
}

static void steady_counts__outside__nothing(void **state)
{
    (void)state;
    assert_false(steady_is_on());
    struct steady_counts before = steady_counts();
    for (size_t i = 0; i < KNOWN_COUNT; i++) known[i].call();
    struct steady_counts after = steady_counts();
    assert_int_equal(after.allocations, before.allocations);
    assert_int_equal(after.locks, before.locks);
    steady_begin();
    assert_true(steady_is_on());
    steady_end();
    assert_false(steady_is_on());
}

/* Starting and joining the thread happens outside steady state, in turns. */
static _Atomic enum { STARTING, READY, CALL, DONE } turn;
static void *call_in_turn(void *argument)
{
    const struct known *k = argument;
    turn = READY;
    while (turn != CALL) usleep(50);
    k->call();
    turn = DONE;
    return NULL;
}

static void steady_counts__another_thread__seen(void **state)
{
    (void)state;
    for (size_t i = 0; i < KNOWN_COUNT; i++) {
        pthread_t thread;
        turn = STARTING;
        assert_int_equal(pthread_create(&thread, NULL, call_in_turn, (void *)(uintptr_t)&known[i]), 0);
        while (turn != READY) usleep(50);
        struct steady_counts before = steady_counts();
        steady_begin();
        turn = CALL;
        while (turn != DONE) usleep(50);
        steady_end();
        pthread_join(thread, NULL);
        assert_counted(&known[i], before, 1);
    }
}

/* Apart from the table, since it makes a thread and may wake up early. */
static void steady_counts__condition_waited_for__seen(void **state)
{
    (void)state;
    struct steady_counts before = steady_counts();
    call_cond_wait();
    assert_int_equal(steady_counts().locks, before.locks);
    steady_begin();
    call_cond_wait();
    steady_end();
    assert_true(steady_counts().locks > before.locks);
}

static void *allocate_much(void *unused)
{
    (void)unused;
    for (int i = 0; i < 20000; i++) call_malloc(), call_mutex_lock();
    return NULL;
}

static void steady_counts__four_threads__none_is_lost(void **state)
{
    (void)state;
    pthread_t threads[4];
    struct steady_counts before = steady_counts();
    steady_begin();
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, allocate_much, NULL), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    steady_end();
    struct steady_counts after = steady_counts();
    assert_int_equal(after.locks - before.locks, 4 * 20000);
    /* Making a thread may allocate too. */
    uint64_t allocations = after.allocations - before.allocations;
    assert_in_range(allocations, 4 * 20000, 4 * 20000 + 100);
}

/* Whether the call, in a child, ends it as a CHECK does. */
static bool is_stopped(void (*call)(void))
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(open("/dev/null", O_WRONLY), 2);
        call();
        _exit(0);
    }
    int exit_status;
    assert_int_equal(waitpid(child, &exit_status, 0), child);
    return WIFSIGNALED(exit_status) && WTERMSIG(exit_status) == SIGABRT;
}

static void *given;
static void take_in_steady(void)
{
    void *taken;
    steady_begin();
    (void)!memory_take("late", 4096, &taken);
}
static void give_in_steady(void)
{
    steady_begin();
    memory_give("early", given, 4096);
}
static void take_and_give_around(void)
{
    void *taken;
    steady_begin();
    steady_end();
    if (memory_take("late", 4096, &taken) != ST_OK) abort();
    memory_give("late", taken, 4096);
}
static void end_alone(void) { steady_end(); }
static void end_once_more(void) { steady_begin(), steady_end(), steady_end(); }

static void memory_take__steady__stops_the_program(void **state)
{
    (void)state;
    assert_int_equal(memory_take("early", 4096, &given), ST_OK);
    assert_true(is_stopped(take_in_steady));
    assert_true(is_stopped(give_in_steady));
    assert_false(is_stopped(take_and_give_around));
    memory_give("early", given, 4096);
}

static void steady_end__without_a_begin__stops_the_program(void **state)
{
    (void)state;
    assert_true(is_stopped(end_alone));
    assert_true(is_stopped(end_once_more));
}

static void steady_begin__twice__until_both_have_ended(void **state)
{
    (void)state;
    const uint64_t before = steady_counts().allocations;
    steady_begin();
    steady_begin();
    steady_end();
    assert_true(steady_is_on());
    block = malloc(1);
    free(block);
    steady_end();
    assert_false(steady_is_on());
    block = malloc(1);
    free(block);
    if (steady_counts_work()) assert_int_equal(steady_counts().allocations - before, 1);
}

static sem_t entered, begun;

static void *take_and_allocate(void *scope)
{
    (void)scope_enter(scope);
    sem_post(&entered);
    while (sem_wait(&begun) != 0) {}
    take_and_give_around();
    call_malloc();
    return NULL;
}

/* A server's other threads go on as they like. */
static void steady_begin__in_a_scope__is_that_scopes_alone(void **state)
{
    (void)state;
    struct scope *other;
    pthread_t thread;
    assert_int_equal(scope_open(&other), ST_OK);
    assert_int_equal(sem_init(&entered, 0, 0) | sem_init(&begun, 0, 0), 0);
    assert_int_equal(pthread_create(&thread, NULL, take_and_allocate, other), 0);
    while (sem_wait(&entered) != 0) {}
    steady_begin();
    const struct steady_counts before = steady_counts();
    sem_post(&begun);
    assert_int_equal(pthread_join(thread, NULL), 0);
    const struct steady_counts after = steady_counts();
    assert_true(steady_is_on());
    struct scope *own = scope_enter(other);
    assert_false(steady_is_on());
    scope_enter(own);
    steady_end();
    assert_int_equal(after.allocations, before.allocations);
    sem_destroy(&begun);
    sem_destroy(&entered);
    scope_close(other);
}

int main(void)
{
    pthread_mutex_init(&f.mutex, NULL);
    pthread_rwlock_init(&f.rwlock, NULL);
    pthread_spin_init(&f.spin, PTHREAD_PROCESS_PRIVATE);
    pthread_barrier_init(&f.barrier, NULL, 1);
    pthread_cond_init(&f.condition, NULL);
    sem_init(&f.semaphore, 0, 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steady_counts_work__this_build__all_calls_pass),
        cmocka_unit_test(steady_counts__each_call__seen_from_begin_to_end),
        cmocka_unit_test(steady_counts__outside__nothing),
        cmocka_unit_test(steady_counts__another_thread__seen),
        cmocka_unit_test(steady_counts__condition_waited_for__seen),
        cmocka_unit_test(steady_counts__four_threads__none_is_lost),
        cmocka_unit_test(memory_take__steady__stops_the_program),
        cmocka_unit_test(steady_end__without_a_begin__stops_the_program),
        cmocka_unit_test(steady_begin__twice__until_both_have_ended),
        cmocka_unit_test(steady_begin__in_a_scope__is_that_scopes_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
