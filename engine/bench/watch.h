/* Takes the time of work on one thread or on several, and what becomes of repeated times: the clockwork of
 * every benchmark. */
#ifndef HETERPS_ENGINE_BENCH_WATCH_H
#define HETERPS_ENGINE_BENCH_WATCH_H

#include <stdint.h>

#define SERIES_MAX 128u

/* One thread is measured by its processor time, so that what else the machine runs costs it caches but no time;
 * several by the clock on the wall: a thread that waits shows. */
uint64_t watch_ns(uint32_t threads);

/* Runs work(context, thread) for every thread in [0, threads) at once, and returns the seconds from the first
 * one's beginning to the last one's end. One runs on the calling thread; several are threads of their own,
 * pinned to processors[0], …, where that is not NULL. A thread that cannot be started ends the program (CHECK). */
typedef void watch_work(void *context, uint32_t thread);
double watch_run(uint32_t threads, const int *processors, watch_work *work, void *context);
/* The same by the clock on the wall, however many they are, each a thread of its own. */
double watch_run_wall(uint32_t threads, const int *processors, watch_work *work, void *context);

/* Repeats of one figure. */
struct series {
    uint32_t count;
    double value[SERIES_MAX];
};
static inline void series_add(struct series *s, double value)
{
    if (s->count < SERIES_MAX) s->value[s->count++] = value;
}
struct spread {
    double median, least, greatest;
};
/* Of a series of at least one. The median of an even number is the mean of the middle two. */
struct spread series_spread(const struct series *s);

#endif
