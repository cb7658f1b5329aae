/* Measures how fast a graph trains with its micro-batches in memory: a run without reading and parsing. */
#ifndef HETERPS_ENGINE_BENCH_BENCH_TRAIN_H
#define HETERPS_ENGINE_BENCH_BENCH_TRAIN_H

#include "engine/pipe/pipeline.h"
#include "engine/crew/crew.h"
#include "engine/slot/replay.h"

struct train_bench_options {
    struct setup_options setup; /* bench_train.c sets `training`                                */
    struct crew_options crew;
    const char *data;      /* files in the graph's format, of at least one step             */
    uint32_t replay_steps; /* different steps, given in turn                                */
};

struct train_bench {
    struct setup setup;
    struct crew crew;
    struct replay replay;
    struct feed *feed;
    uint64_t steps;
};

/* Opens the graph, reads the steps and trains on each once, which makes all rows. Fails as setup_open,
 * crew_open, replay_open and training. train_bench_close in any case. */
MUST_USE status train_bench_open(struct train_bench *bench, const struct train_bench_options *options);
/* Trains for about `seconds`; gives the examples a second. */
MUST_USE status train_bench_run(struct train_bench *bench, double seconds, double *examples_per_s);
void train_bench_close(struct train_bench *bench);

/* Floating-point operations of an example in a step: the products of fully connected
 * layers, forward and backward. */
double train_bench_flops(const struct graph *graph);

#endif
