/* What the rings carry between two threads, each on a core of its own: numbers a second one way, and the time of a number there and
 * back on two rings; then the same through bells, as the pipeline's workers wait for each other.
 *
 *     ring_bench [SPSC]        SPSC: the path of a program that measures somebody else's ring, run between the two halves of our repeats
 *
 * Short repeats of each, in turn, each after a rest; the median, the least and the greatest. On a machine that is busy with other
 * things the best repeat says most: it is one for which both threads were on their cores. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/pipe/bell.h"
#include "engine/pipe/cores.h"
#include "engine/pipe/ring.h"

#define REPEATS     60
#define REST_US     3000
#define CELLS       4096u
#define ITEMS       100000u
#define ROUND_TRIPS 5000u

/* A direction: the ring, and the bell of who pops from it. */
struct way {
    struct ring ring;
    struct bell bell;
};
static struct way ways[2];
static struct cores cores;

enum test { CARRY, TURN, TURN_BELL, TURN_SLEEP, TEST_COUNT };
static const char *const test_names[TEST_COUNT] = {"one way", "there and back", "there and back, bells, spinning",
                                                   "there and back, bells, asleep"};

struct side {
    pthread_t thread;
    pthread_barrier_t *start;
    enum test test;
    int index;
    uint64_t wall_ns;
};

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

static void *side_main(void *argument)
{
    struct side *side = argument;
    enum test test = side->test;
    cores_pin(&cores.processor[(uint32_t)side->index % cores.count], 1);
    pthread_barrier_wait(side->start);
    uint64_t begin_ns = clock_ns();
    uint32_t count = test == CARRY ? ITEMS : test == TURN_SLEEP ? ROUND_TRIPS / 10 : ROUND_TRIPS;
    for (uint32_t i = 0; i < count; i++) {
        if (side->index == 0) push(&ways[0], i, test);
        if (side->index == 1) CHECK(pop(&ways[0], test) == i);
        if (test == CARRY) continue;
        if (side->index == 1) push(&ways[1], i, test);
        if (side->index == 0) CHECK(pop(&ways[1], test) == i);
    }
    side->wall_ns = clock_ns() - begin_ns;
    return NULL;
}

/* Nanoseconds an item, or a round trip. */
static double measure(enum test test)
{
    struct side side[2];
    pthread_barrier_t start;
    CHECK(pthread_barrier_init(&start, NULL, 2) == 0);
    usleep(REST_US);
    for (int i = 0; i < 2; i++) {
        side[i] = (struct side){.start = &start, .test = test, .index = i};
        CHECK(pthread_create(&side[i].thread, NULL, side_main, &side[i]) == 0);
    }
    for (int i = 0; i < 2; i++) pthread_join(side[i].thread, NULL);
    pthread_barrier_destroy(&start);
    uint32_t count = test == CARRY ? ITEMS : test == TURN_SLEEP ? ROUND_TRIPS / 10 : ROUND_TRIPS;
    return (double)(side[0].wall_ns > side[1].wall_ns ? side[0].wall_ns : side[1].wall_ns) / count;
}

static int double_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void repeats_run(double ns[2][TEST_COUNT][REPEATS], int from, int to)
{
    static const enum ring_kind kinds[] = {RING_ONE, RING_MANY};
    for (int r = from; r < to; r++) {
        for (int k = 0; k < 2; k++) {
            struct arena arena;
            if (arena_open(&arena, "rings", 2 * ring_bytes(CELLS, kinds[k])) != ST_OK) {
                fprintf(stderr, "ring_bench: %s\n", status_message());
                exit(1);
            }
            for (int way = 0; way < 2; way++) ring_place(&ways[way].ring, &arena, CELLS, kinds[k]);
            for (int test = 0; test < TEST_COUNT; test++) ns[k][test][r] = measure((enum test)test);
            arena_close(&arena);
        }
    }
}

int main(int argc, char **argv)
{
    static double ns[2][TEST_COUNT][REPEATS];
    cores_allowed(&cores);
    if (cores.count < 2) {
        printf("skipped: needs two cores\n");
        return 77;
    }
    repeats_run(ns, 0, REPEATS / 2);
    if (argc > 1) {
        fflush(stdout);
        if (system(argv[1]) != 0) fprintf(stderr, "ring_bench: %s failed\n", argv[1]);
    }
    repeats_run(ns, REPEATS / 2, REPEATS);
    for (int k = 0; k < 2; k++) {
        for (int test = 0; test < TEST_COUNT; test++) {
            double *of = ns[k][test];
            qsort(of, REPEATS, sizeof *of, double_compare);
            char name[64];
            snprintf(name, sizeof name, "%s, %s", k ? "RING_MANY" : "RING_ONE", test_names[test]);
            if (test == CARRY)
                printf("%-44s med %9.2f  min %9.2f  max %9.2f Mops/s\n", name, 1e3 / of[REPEATS / 2],
                       1e3 / of[REPEATS - 1], 1e3 / of[0]);
            else
                printf("%-44s med %9.2f  min %9.2f  max %9.2f ns\n", name, of[REPEATS / 2], of[0], of[REPEATS - 1]);
        }
    }
    return 0;
}
