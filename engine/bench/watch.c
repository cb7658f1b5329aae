/* Clocks and threads of benchmarks. */
#include "engine/bench/watch.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/cores.h"
#include "engine/base/status.h"
#include "engine/base/thread.h"

uint64_t watch_ns(uint32_t threads) { return threads == 1 ? clock_thread_ns() : clock_ns(); }

struct gang {
    watch_work *work;
    void *context;
    pthread_barrier_t start;
};
struct gang_thread {
    struct gang *gang;
    pthread_t id;
    uint32_t index;
    const int *processor;
    uint64_t begin_ns, end_ns;
};

static void *thread_main(void *argument)
{
    struct gang_thread *t = argument;
    if (t->processor) cores_pin(t->processor, 1);
    pthread_barrier_wait(&t->gang->start);
    t->begin_ns = clock_ns();
    t->gang->work(t->gang->context, t->index);
    t->end_ns = clock_ns();
    return NULL;
}

double watch_run_wall(uint32_t threads, const int *processors, watch_work *work, void *context)
{
    struct gang gang = {.work = work, .context = context};
    struct gang_thread thread[CORES_MAX];
    CHECK(threads <= CORES_MAX && pthread_barrier_init(&gang.start, NULL, threads) == 0);
    for (uint32_t i = 0; i < threads; i++) {
        thread[i] = (struct gang_thread){.gang = &gang, .index = i, .processor = processors ? &processors[i] : NULL};
        CHECK(thread_start(&thread[i].id, thread_main, &thread[i]) == 0);
    }
    uint64_t begin_ns = UINT64_MAX, end_ns = 0;
    for (uint32_t i = 0; i < threads; i++) {
        pthread_join(thread[i].id, NULL);
        if (thread[i].begin_ns < begin_ns) begin_ns = thread[i].begin_ns;
        if (thread[i].end_ns > end_ns) end_ns = thread[i].end_ns;
    }
    pthread_barrier_destroy(&gang.start);
    return (double)(end_ns - begin_ns) * 1e-9;
}

double watch_run(uint32_t threads, const int *processors, watch_work *work, void *context)
{
    if (threads > 1) return watch_run_wall(threads, processors, work, context);
    uint64_t begin_ns = watch_ns(1);
    work(context, 0);
    return (double)(watch_ns(1) - begin_ns) * 1e-9;
}

static int double_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct spread series_spread(const struct series *s)
{
    double value[SERIES_MAX];
    uint32_t n = s->count;
    CHECK(n > 0);
    memcpy(value, s->value, n * sizeof *value);
    qsort(value, n, sizeof *value, double_compare);
    return (struct spread){(value[(n - 1) / 2] + value[n / 2]) / 2, value[0], value[n - 1]};
}
