/* The bell: no wake is lost, whatever the moment at which the other side rings; who waits asleep uses no
 * processor; time limits hold; a signal handler may ring. Also run under ThreadSanitizer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/memory.h"
#include "engine/base/bell.h"
#include "engine/base/ring.h"

#ifdef __SANITIZE_THREAD__
#define ROUNDS 20000u
#else
#define ROUNDS 100000u
#endif

static uint32_t random_next(uint32_t *seed) { return *seed = *seed * 1664525u + 1013904223u, *seed >> 8; }

/* Mostly nothing; now and then about as long as the way to sleep, as a spin, and longer. */
static void delay(uint32_t *seed)
{
    uint32_t draw = random_next(seed) % 64;
    uint64_t span_ns = draw == 0 ? 60000 : draw < 8 ? random_next(seed) % 2000 : 0;
    if (draw == 1) nanosleep(&(struct timespec){.tv_nsec = 30000}, NULL);
    for (uint64_t end_ns = span_ns ? clock_ns() + span_ns : 0; span_ns && clock_ns() < end_ns;) continue;
}

static uint64_t thread_cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* --- ping-pong ------------------------------------------------------------------------------------ */

struct side {
    struct ring *in, *out;
    struct bell *mine, *theirs;
    uint32_t seed, rounds, popped;
    bool spins, is_late;
};
static bool side_look(void *context)
{
    struct side *s = context;
    if (ring_try_pop(s->in, &s->popped)) return true;
    /* As if the system took the waiter off its core between its look and its sleep: the moment
     * at which a wake could be lost. */
    if (random_next(&s->seed) % 8 == 0)
        for (uint64_t end_ns = clock_ns() + random_next(&s->seed) % 8000; clock_ns() < end_ns;) continue;
    return false;
}
/* A lost wake would last for ever; here it ends after ten seconds, and is seen. */
static bool side_await(struct side *s)
{
    s->is_late |= !bell_await_until(s->mine, s->spins, clock_ns() + UINT64_C(10000000000), side_look, s);
    return !s->is_late;
}
static void *side_main(void *argument)
{
    struct side *s = argument;
    for (uint32_t round = 0; round < s->rounds && side_await(s); round++) {
        if (s->popped != round) return NULL;
        delay(&s->seed);
        if (!ring_try_push(s->out, round)) return NULL;
        bell_ring(s->theirs);
    }
    return s;
}

static void ping_pong(bool spins, uint32_t rounds)
{
    static struct bell bell[2];
    static struct ring ring[2];
    struct arena arena;
    pthread_t thread;
    void *result;
    memset(bell, 0, sizeof bell);
    assert_int_equal(arena_open(&arena, "test", 2 * ring_bytes(4, RING_ONE)), ST_OK);
    for (int i = 0; i < 2; i++) ring_place(&ring[i], &arena, 4, RING_ONE);
    struct side other = {&ring[0], &ring[1], &bell[0], &bell[1], 1, rounds, 0, spins, false};
    struct side self = {&ring[1], &ring[0], &bell[1], &bell[0], 2, rounds, 0, spins, false};
    assert_int_equal(pthread_create(&thread, NULL, side_main, &other), 0);
    uint32_t round = 0;
    for (; round < rounds; round++) {
        delay(&self.seed);
        if (!ring_try_push(self.out, round)) break;
        bell_ring(self.theirs);
        if (!side_await(&self) || self.popped != round) break;
    }
    pthread_join(thread, &result);
    assert_int_equal(round, rounds);
    assert_non_null(result);
    assert_int_equal(bell[0].shared_sleepers + bell[1].shared_sleepers, 0);
    arena_close(&arena);
}
static void bell__two_threads_answer_each_other__no_wake_is_lost(void **state)
{
    (void)state;
    ping_pong(false, ROUNDS);
    ping_pong(true, ROUNDS / 5); /* most rounds end in the spin */
}

/* --- one bell, many sleepers, many ringers -------------------------------------------------------- */

struct crowd {
    struct ring ring;
    struct arena arena;
    struct bell bell, done;
    _Atomic uint32_t shared_popped, shared_late;
    uint32_t item_count;
    bool spins;
};
struct taker {
    struct crowd *crowd;
    uint32_t item;
    bool is_found;
};
static bool taker_look(void *context)
{
    struct taker *t = context;
    t->is_found = ring_try_pop(&t->crowd->ring, &t->item);
    return t->is_found || t->crowd->shared_popped >= t->crowd->item_count;
}
static void *taker_main(void *argument)
{
    struct taker t = {.crowd = argument};
    uint32_t seed = (uint32_t)(uintptr_t)&t;
    for (;;) {
        if (!bell_await_until(&t.crowd->bell, t.crowd->spins, clock_ns() + UINT64_C(10000000000), taker_look, &t)) {
            t.crowd->shared_late++;
            t.crowd->shared_popped = UINT32_MAX / 2;
        }
        if (!t.is_found) return NULL;
        t.crowd->shared_popped++;
        bell_ring(&t.crowd->done);
        delay(&seed);
    }
}
static bool all_popped_look(void *context)
{
    struct crowd *c = context;
    return c->shared_popped >= c->item_count;
}
static void *giver_main(void *argument)
{
    struct crowd *c = argument;
    uint32_t seed = (uint32_t)(uintptr_t)&seed;
    for (uint32_t i = 0; i < c->item_count / 2; i++) {
        while (!ring_try_push(&c->ring, i) && c->shared_popped < UINT32_MAX / 2) delay(&seed);
        bell_ring(&c->bell);
        delay(&seed);
    }
    return NULL;
}
static void bell__three_sleepers_two_ringers__every_item_is_found(void **state)
{
    (void)state;
    for (int spins = 0; spins < 2; spins++) {
        static struct crowd c;
        pthread_t taker[3], giver[2];
        memset(&c, 0, sizeof c);
        c.item_count = 10000;
        c.spins = spins;
        assert_int_equal(arena_open(&c.arena, "test", ring_bytes(16, RING_MANY)), ST_OK);
        ring_place(&c.ring, &c.arena, 16, RING_MANY);
        for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&taker[i], NULL, taker_main, &c), 0);
        for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&giver[i], NULL, giver_main, &c), 0);
        assert_true(bell_await_until(&c.done, false, clock_ns() + UINT64_C(60000000000), all_popped_look, &c));
        bell_ring(&c.bell); /* takers who wait for an item that will not come */
        for (int i = 0; i < 3; i++) pthread_join(taker[i], NULL);
        for (int i = 0; i < 2; i++) pthread_join(giver[i], NULL);
        assert_int_equal(c.shared_late, 0);
        assert_int_equal(c.shared_popped, c.item_count);
        arena_close(&c.arena);
    }
}

/* --- sleep ---------------------------------------------------------------------------------------- */

struct sleeper {
    struct bell bell;
    _Atomic bool shared_is_set;
    _Atomic uint32_t shared_looks;
    uint64_t cpu_ns;
    bool spins;
};
static bool sleeper_look(void *context)
{
    struct sleeper *sleeper = context;
    sleeper->shared_looks++;
    return sleeper->shared_is_set;
}
static void *sleeper_main(void *argument)
{
    struct sleeper *sleeper = argument;
    uint64_t begin_ns = thread_cpu_ns();
    bell_await(&sleeper->bell, sleeper->spins, sleeper_look, sleeper);
    sleeper->cpu_ns = thread_cpu_ns() - begin_ns;
    return NULL;
}
static void bell_await__nothing_comes__uses_no_processor(void **state)
{
    (void)state;
    for (int spins = 0; spins < 2; spins++) {
        static struct sleeper sleeper;
        pthread_t thread;
        memset(&sleeper, 0, sizeof sleeper);
        sleeper.spins = spins;
        assert_int_equal(pthread_create(&thread, NULL, sleeper_main, &sleeper), 0);
        /* A third of a second in which the sleeper is also woken for nothing a few times. */
        for (int i = 0; i < 3; i++) {
            nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
            bell_ring(&sleeper.bell);
        }
        uint32_t looks = sleeper.shared_looks;
        sleeper.shared_is_set = true;
        bell_ring(&sleeper.bell);
        pthread_join(thread, NULL);
        assert_true(sleeper.cpu_ns < 30000000); /* a tenth; a spin is 0.02 ms */
        if (!spins) assert_in_range(looks, 2, 50);
    }
}

static bool never_look(void *context)
{
    (void)context;
    return false;
}
static void bell_await_until__nothing_comes__ends_in_time(void **state)
{
    (void)state;
    static struct bell bell;
    uint64_t begin_ns = clock_ns();
    assert_false(bell_await_until(&bell, true, begin_ns + 50000000, never_look, NULL));
    uint64_t took_ns = clock_ns() - begin_ns;
    assert_true(took_ns >= 50000000 && took_ns < UINT64_C(5000000000));
    assert_int_equal(bell.shared_sleepers, 0);
    assert_false(bell_await_until(&bell, false, 0, never_look, NULL)); /* long past */
}

/* --- signals -------------------------------------------------------------------------------------- */

static struct sleeper signalled;
static void on_alarm(int number)
{
    (void)number;
    signalled.shared_is_set = true;
    bell_ring(&signalled.bell);
}
/* The handler runs on the thread that waits, at any moment on its way to sleep. */
static void bell_ring__from_a_handler_on_the_waiting_thread__wakes_it(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    for (uint32_t round = 0; round < 1000; round++) {
        signalled.shared_is_set = false;
        struct itimerspec span = {.it_value = {.tv_nsec = 1000 + 100 * round}};
        assert_int_equal(timer_settime(timer, 0, &span, NULL), 0);
        assert_true(
            bell_await_until(&signalled.bell, round % 2, clock_ns() + UINT64_C(10000000000), sleeper_look, &signalled));
    }
    timer_delete(timer);
    signal(SIGALRM, SIG_DFL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bell__two_threads_answer_each_other__no_wake_is_lost),
        cmocka_unit_test(bell__three_sleepers_two_ringers__every_item_is_found),
        cmocka_unit_test(bell_await__nothing_comes__uses_no_processor),
        cmocka_unit_test(bell_await_until__nothing_comes__ends_in_time),
        cmocka_unit_test(bell_ring__from_a_handler_on_the_waiting_thread__wakes_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
