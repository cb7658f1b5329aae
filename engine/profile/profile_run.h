/* Runs the layers of a graph as training does, forward, backward and update, and times each layer.
 *
 *     reader ──▶ 5 slots: parsed, rows found or made, numbered
 *            ──▶ whole passes: layer by layer, a look at the clock between two ──▶ …
 *                after a step's micro-batches: its updates, layer by layer
 *
 * So a layer finds its input fresh from the layer before it, its parameters in the caches as the rest of the
 * pass left them, and rows hot or cold as in the data. Reading goes on while measuring does, and begins again
 * after PROFILE_EXAMPLES examples.
 *
 * Configs take turns of some milliseconds, in rounds, in reversed order every other round, so that a
 * neighbour on the machine hits all alike. A layer's time is the median over a turn, then the median
 * over rounds, as a run on this machine will see it; a lower quantile would promise too much. One
 * core's time is the time of its work, whatever else wants the core. A gang's turn is left out if its
 * threads have waited for cores. */
#ifndef HETERPS_ENGINE_PROFILE_PROFILE_RUN_H
#define HETERPS_ENGINE_PROFILE_PROFILE_RUN_H

#include "cfg/settings.h"
#include "engine/base/cores.h"
#include "engine/device/card/measure.h"
#include "graph/graph.h"
#include "sched/resource.h"

#define PROFILE_EXAMPLES UINT64_C(65536)

/* One way to run the graph. */
struct profile_config {
    uint32_t cores;    /* of a gang                               */
    uint32_t examples; /* of a micro-batch, 1 … the graph's micro */
};

struct profile_run_options {
    const struct graph *graph;
    const struct settings *settings; /* in the graph's text: how data is read, the tables' budget    */
    const char *data;                /* files separated by commas; NULL: generated */
    const struct cores *cores;
    const char *isa;                      /* as in cpu_device_open */
    const struct profile_config *configs; /* [config_count]; none: only reading is measured */
    uint32_t config_count;
    /* Kinds of devices: not slowed (NULL), or slowed. Each op and update is measured once, and its time
     * multiplied by the kind's factor, as a slowed cpu device does (engine/device/cpu/cpu_device.h). */
    const struct resource_slow *const *kinds; /* [kind_count] */
    uint32_t kind_count;
    /* Types on cards here (engine/device/card/measure.h), and the sizes of micro-batches measured on them;
     * cards need a config of one core. */
    const struct resource_type *const *cards; /* [card_count] */
    uint32_t card_count;
    const double *card_sizes; /* [card_size_count] */
    uint32_t card_size_count;
    const double *move_bytes; /* [move_count]: bytes that one core writes and another reads */
    uint32_t move_count;
    double seconds; /* bound of the whole; but one round is always made */
};

/* Seconds of a layer. */
struct profile_seconds {
    double pass; /* forward and backward of a micro-batch                                                            */
    /* of its parameters and rows, once a step. A step that does not fit into a turn is measured with fewer
     * micro-batches, and the rows' part is scaled up: too high where rows recur within a step */
    double update;
};
struct profile_run_result {
    struct profile_seconds *layers; /* [kind_count, config_count, layer_count]                        */
    bool *is_disturbed;   /* [config_count]: its gang waited for cores in every turn, so its figures say little */
    double *move_seconds; /* [move_count]                                                   */
    /* [card_count] */
    struct card_times *cards;
    uint32_t card_count;
    double reading_seconds; /* reading, parsing and preparing the rows of an example, on one core */
    double *rows;           /* [table_count]: distinct rows that an example adds to a step */
    double examples;        /* of a pass over the data, about; 0: not known, or generated         */
    uint32_t rounds;
    /* of whole passes: the middle half of the rounds' times over their median; the median of all configs */
    double spread;
    double seconds; /* that the run took */
};
/* Fails as reader, store and device; USAGE: the data can be read only once; STOPPED: stop_requested(). */
MUST_USE status profile_run(const struct profile_run_options *options, struct profile_run_result *result);
void profile_run_free(struct profile_run_result *result);

/* seconds[i]: the lower quartile of the time to read bytes[i] bytes that another core has just written;
 * with one core, to copy them. Measured on the calling thread, which should be pinned; `other`: the
 * writer's processor, or -1: not pinned. */
MUST_USE status profile_move(const double *bytes, double *seconds, uint32_t count, uint32_t core_count, int other,
                             double time_limit);

#endif
