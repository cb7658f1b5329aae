/* Micro-batches that are read once and then given again and again, from memory: a reader for
 * measuring training without reading. */
#ifndef HETERPS_ENGINE_SLOT_REPLAY_H
#define HETERPS_ENGINE_SLOT_REPLAY_H

#include "graph/graph.h"
#include "io/read/reader.h"

struct replay {
    /* A reader whose passes have no end: it gives the steps in turn, whole micro-batches at a time. A
     * micro-batch must be empty before. Numbers are copied into its arrays; its arrays of keys become the
     * replay's own, to which nobody may write. One feed at a time takes the reader, and replay_close
     * closes it. */
    struct reader reader;
    struct arena arena;
    struct batch_shape shape;
    uint32_t step_count;
    struct micro_batch *micro; /* [step_count * micro-batches of a step] */
    uint64_t given;            /* examples of the pass */
};

/* Reads up to `step_count` whole steps of the graph's batch from the front of the files; drops examples that
 * do not fill a step. INVALID: there is not one whole step, or a line is malformed; IO; MEMORY. Takes the
 * memory of all `step_count` steps as part "replay". replay_close in any case. */
MUST_USE status replay_open(struct replay *replay, const struct graph *graph, const struct reader_options *options,
                            uint32_t step_count);
void replay_close(struct replay *replay);

#endif
