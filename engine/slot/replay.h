/* Micro-batches that are read once and given again and again, from memory: a reader for where training is
 * measured and reading is not. */
#ifndef HETERPS_ENGINE_SLOT_REPLAY_H
#define HETERPS_ENGINE_SLOT_REPLAY_H

#include "graph/graph.h"
#include "io/read/reader.h"

struct replay {
    /* Its passes have no end: the steps, in turn, whole micro-batches at a time. A micro-batch has to be empty
     * before; numbers are copied into its arrays, and those of keys become the replay's own, which nobody may
     * write to. One feed at a time takes it; replay_close closes it. */
    struct reader reader;
    struct arena arena;
    struct batch_shape shape;
    uint32_t step_count;
    struct micro_batch *micro; /* [step_count * micro-batches of a step] */
    uint64_t given;            /* examples of the pass */
};

/* Reads up to `step_count` whole steps of the graph's batch from the front of the files; examples that do not
 * fill a step are dropped. INVALID: there is not one whole step, or a line is malformed; IO; MEMORY. Takes what
 * it needs for all `step_count`, as part "replay". replay_close in any case. */
MUST_USE status replay_open(struct replay *replay, const struct graph *graph, const struct reader_options *options,
                            uint32_t step_count);
void replay_close(struct replay *replay);

#endif
