/* Micro-batches that are read once and given again and again, from memory: what a feed takes in place of files where training is measured
 * and reading is not. */
#ifndef HETERPS_ENGINE_SLOT_REPLAY_H
#define HETERPS_ENGINE_SLOT_REPLAY_H

#include "graph/graph.h"
#include "io/read/reader.h"

struct replay {
    struct arena arena;
    struct batch_shape shape;
    struct example_shape example;
    uint32_t step_count;
    struct micro_batch *micro; /* [step_count * micro-batches of a step] */
};

/* Reads up to `step_count` whole steps of the graph's batch from the front of the files; examples that do not fill a step are dropped.
 * INVALID: there is not one whole step, or a line is malformed; IO; MEMORY. Takes what it needs for all `step_count`, as part "replay".
 * replay_close in any case. */
MUST_USE status replay_open(struct replay *replay, const struct graph *graph, const struct reader_options *options,
                            uint32_t step_count);
void replay_close(struct replay *replay);

/* Makes m's examples those of a step (modulo step_count) and one of its micro-batches. Numbers are copied into m's arrays; those of keys
 * become the replay's own, which nobody may write to. */
void replay_give(const struct replay *replay, uint64_t step, uint32_t micro_index, struct micro_batch *m);

#endif
