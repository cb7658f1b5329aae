/* Times work on one or several threads, and collects repeats: the clockwork of every benchmark. */
#ifndef HETERPS_ENGINE_BENCH_WATCH_H
#define HETERPS_ENGINE_BENCH_WATCH_H

#include <stdint.h>

#define SERIES_MAX 128u

/* One thread is timed by its processor time, so that other work on the machine costs it caches but no time;
 * several by the clock on the wall, which shows waiting. */
uint64_t watch_ns(uint32_t threads);

/* Runs work(context, thread) for every thread in [0, threads) at once, and returns the seconds from the first
 * beginning to the last end. One thread is the calling thread; several are new threads, pinned to
 * processors[0], … unless `processors` is NULL. CHECKs that threads can be started. */
typedef void watch_work(void *context, uint32_t thread);
double watch_run(uint32_t threads, const int *processors, watch_work *work, void *context);
/* The same by the clock on the wall, with new threads for any number. */
double watch_run_wall(uint32_t threads, const int *processors, watch_work *work, void *context);

/* The repeats of a figure. */
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
/* Of a series of at least one value. The median of an even number of values is the mean of the middle two. */
struct spread series_spread(const struct series *s);

#endif
