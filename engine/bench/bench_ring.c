/* Measures rings between two threads, each on a core of its own: numbers a second one way, and a
 * number's round trip on two rings; then a round trip with bells, by which the pipeline's workers wait
 * for each other. Repeats are short, each after a rest, and more than for other figures: on a busy
 * machine the median of few says little. */
#include "engine/bench/bench.h"

#include <stdio.h>
#include <unistd.h>

#include "engine/base/bell.h"
#include "engine/base/log.h"
#include "engine/base/ring.h"

#define REPEATS_MORE 6u /* times the repeats of other figures */
#define REST_US      3000
#define CELLS        4096u
#define ITEMS        1000000u
#define TURNS        20000u
#define SLEEPS       500u

/* A direction: the ring, and the bell of the thread that pops from it. */
struct way {
    struct ring ring;
    struct bell bell;
};
static struct way ways[2];

enum test { CARRY, TURN, TURN_BELL, TURN_SLEEP, TEST_COUNT };
static const char *const test_names[TEST_COUNT] = {"items", "round trip", "round trip, bells, awake",
                                                   "round trip, bells, asleep"};
static const uint32_t test_items[TEST_COUNT] = {ITEMS, TURNS, TURNS, SLEEPS};

struct wanted {
    struct ring *ring;
    uint32_t item;
};
static bool look(void *context)
{
    struct wanted *w = context;
    return ring_try_pop(w->ring, &w->item);
}

static void push(struct way *way, uint32_t item, enum test test)
{
    while (!ring_try_push(&way->ring, item)) spin_pause();
    if (test >= TURN_BELL) bell_ring(&way->bell);
}

static uint32_t pop(struct way *way, enum test test)
{
    struct wanted w = {.ring = &way->ring};
    if (test >= TURN_BELL)
        bell_await(&way->bell, test == TURN_BELL, look, &w);
    else if (test == CARRY)
        while (!look(&w)) spin_pause();
    else
        while (!look(&w)) continue;
    return w.item;
}

static void side(void *context, uint32_t thread)
{
    const enum test test = *(const enum test *)context;
    for (uint32_t i = 0; i < test_items[test]; i++) {
        if (thread == 0) push(&ways[0], i, test);
        if (thread == 1) CHECK(pop(&ways[0], test) == i);
        if (test == CARRY) continue;
        if (thread == 1) push(&ways[1], i, test);
        if (thread == 0) CHECK(pop(&ways[1], test) == i);
    }
}

/* Millions of items a second, or nanoseconds of a round trip. */
static status test_measure(const int *processors, enum ring_kind kind, enum test test, double *value)
{
    struct arena arena;
    TRY(arena_open(&arena, "rings", 2 * ring_bytes(CELLS, kind)));
    for (int way = 0; way < 2; way++) ring_place(&ways[way].ring, &arena, CELLS, kind);
    usleep(REST_US);
    double seconds = watch_run(2, processors, side, &test);
    arena_close(&arena);
    *value = test == CARRY ? test_items[test] / seconds * 1e-6 : seconds * 1e9 / test_items[test];
    return ST_OK;
}

static double limit_measure(const int *processors, enum test test)
{
    usleep(REST_US);
    return test == CARRY ? limit_ring_items(ITEMS, processors) * 1e-6 : limit_ring_turn_ns(TURNS, processors);
}

status bench_ring(const struct bench *b)
{
    static const char *const kind_names[] = {"one to one", "many to many"};
    static const enum ring_kind kinds[] = {RING_ONE, RING_MANY};
    bench_heading("ring");
    bench_columns();
    if (b->cores.count < 2) {
        bench_note("left out: needs two cores, and this process may use one");
        log_warning("bench ring: left out: needs two cores, and this process may use one");
        return ST_OK;
    }
    const int *processors = bench_processors(b, 2);
    for (int k = 0; k < 2; k++)
        for (enum test test = 0; test < TEST_COUNT; test++) {
            struct series ours = {0}, limit = {0};
            char name[64];
            for (uint32_t r = 0; r < (b->o->quick ? 1 : REPEATS_MORE) * b->repeats; r++) {
                double value;
                series_add(&limit, limit_measure(processors, test));
                TRY(test_measure(processors, kinds[k], test, &value));
                series_add(&ours, value);
            }
            snprintf(name, sizeof name, "%s, %s", kind_names[k], test_names[test]);
            bench_tell(&(struct bench_figure){.subject = "ring",
                                              .name = name,
                                              .unit = test == CARRY ? "M items/s" : "ns",
                                              .threads = 2,
                                              .less_is_better = test != CARRY,
                                              .ours = &ours,
                                              .limit = test == TURN_SLEEP ? NULL : &limit, /* the limit never sleeps */
                                              .limit_name = test == CARRY ? "ring items" : "ring turn"},
                       true);
        }
    return ST_OK;
}
