/* Measures training by a crew whose feed replays micro-batches from memory. Jobs run whole steps; the first
 * makes all rows and brings the caches into their usual state, later jobs are timed. */
#include "engine/bench/bench_train.h"

#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/stop.h"

static void step_done(void *context, const struct step_done *done)
{
    struct progress *p = context;
    p->step++;
    p->examples += done->example_count;
}

static bool tick(void *context)
{
    (void)context;
    return stop_requested();
}

static status steps_run(struct train_bench *b, uint64_t steps)
{
    struct progress *progress = &b->setup.model.progress;
    struct train_job job = {.feed = b->feed,
                            .step_until = progress->step + steps,
                            .step_done = step_done,
                            .tick = tick,
                            .context = progress};
    bool is_end;
    TRY(pipeline_train(b->crew.pipeline, &job, &is_end));
    if (is_end) TRY(feed_result(b->feed));
    if (stop_requested()) FAIL(STOPPED, "stopped by a signal");
    return ST_OK;
}

status train_bench_open(struct train_bench *b, const struct train_bench_options *o)
{
    memset(b, 0, sizeof *b);
    struct setup_options setup = o->setup;
    setup.training = setup.joins_lanes = true;
    TRY(setup_open(&b->setup, &setup));
    TRY(crew_open(&b->crew, &b->setup, &o->crew));
    struct feed_options feed = crew_feed_options(&b->crew, o->data);
    TRY(replay_open(&b->replay, &b->setup.graph, &feed.reader, o->replay_steps));
    feed.training = true;
    feed.epochs = 1;
    feed.source = &b->replay.reader;
    TRY(feed_open(&b->feed, &feed));
    feed_bell_set(b->feed, pipeline_feed_bell(b->crew.pipeline));
    TRY(setup_memory_check(&b->setup));
    model_init(&b->setup.model);
    TRY(feed_start(b->feed, NULL));
    return steps_run(b, b->replay.step_count);
}

status train_bench_run(struct train_bench *b, double seconds, double *examples_per_s)
{
    const struct progress *progress = &b->setup.model.progress;
    uint64_t begin_examples = progress->examples, begin_ns = clock_ns(), now_ns = begin_ns, steps = 1;
    /* The first job tells how long the second has to be; the begin and end of a job are small beside it. */
    for (int job = 0; job < 2; job++) {
        TRY(steps_run(b, steps));
        now_ns = clock_ns();
        steps = (uint64_t)(seconds * 1e9 / (double)(now_ns - begin_ns) * (double)steps);
        if (steps == 0) break;
    }
    *examples_per_s = (double)(progress->examples - begin_examples) * 1e9 / (double)(now_ns - begin_ns);
    return ST_OK;
}

void train_bench_close(struct train_bench *b)
{
    pipeline_forget(b->crew.pipeline);
    feed_close(b->feed);
    replay_close(&b->replay);
    crew_close(&b->crew);
    setup_close(&b->setup);
    memset(b, 0, sizeof *b);
}

double train_bench_flops(const struct graph *g)
{
    double sum = 0;
    for (uint32_t i = 0; i < g->layer_count; i++)
        sum += (double)(g->layers[i].flops_forward + g->layers[i].flops_backward);
    return sum;
}
