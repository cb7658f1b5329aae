/* Runs the layers of a graph as training does, forward, backward and update, and takes the time of each.
 *
 *     reader ──▶ 5 slots: parsed, rows found or made, numbered
 *            ──▶ whole passes: layer by layer, a look at the clock between two ──▶ …
 *                after a step's micro-batches: its updates, layer by layer
 *
 * A layer so finds its input as the layer before it has just left it, its parameters as the rest of the pass
 * has left the caches, and rows that are hot or cold as the data has them. Data is read on as long as measuring
 * goes on, up to PROFILE_EXAMPLES, then from the front.
 *
 * What is compared takes turns of some milliseconds, in rounds, in reversed order every other round, so that a
 * neighbour on the machine hits all alike. Of what a turn sees of a layer the median counts; of the rounds'
 * medians the median: what a run will see of such a machine, which a lower quantile would promise too much of.
 * The time of one core is that of its work, so that it does not matter who else wants the core; turns in which
 * the threads of a gang have waited for cores are left out. */
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
    uint32_t cores;    /* a gang of so many                       */
    uint32_t examples; /* of a micro-batch: 1 … the graph's micro */
};

struct profile_run_options {
    const struct graph *graph;
    const struct settings *settings; /* of the graph's text: how data is read, the tables' budget    */
    const char *data; /* files separated by commas; NULL: generated, where there is a generator for the format */
    const struct cores *cores;
    const char *isa;                      /* as cpu_device_open's */
    const struct profile_config *configs; /* [config_count]; none: only reading is measured */
    uint32_t config_count;
    /* Kinds of devices: as it is (NULL), or slowed. What is measured is the same; each op and update counts by
     * its factor, which is what a slowed cpu device makes of it (engine/device/cpu/cpu_device.h). */
    const struct resource_slow *const *kinds; /* [kind_count] */
    uint32_t kind_count;
    /* Types on cards that are here (engine/device/card/measure.h), and the micro-batches that are measured
     * there; they need a config of one core. */
    const struct resource_type *const *cards; /* [card_count] */
    uint32_t card_count;
    const double *card_sizes; /* [card_size_count] */
    uint32_t card_size_count;
    const double *move_bytes; /* [move_count]: sizes of what one core writes and another reads */
    uint32_t move_count;
    double seconds; /* bound of it all; but one round is always made */
};

/* Seconds of a layer. */
struct profile_seconds {
    double pass; /* forward and backward of a micro-batch                                                            */
    /* of its parameters and rows, once a step. A step whose micro-batches do not all fit into a turn is
     * measured with fewer, and its rows' part taken in proportion: too much where rows come again within a
     * step */
    double update;
};
struct profile_run_result {
    struct profile_seconds *layers; /* [kind_count, config_count, layer_count]                        */
    bool *is_disturbed;   /* [config_count]: its gang has had to wait for cores in every turn: the figures say little */
    double *move_seconds; /* [move_count]                                                   */
    /* [card_count] */
    struct card_times *cards;
    uint32_t card_count;
    double reading_seconds; /* reading, parsing and preparing the rows of an example, on one core */
    double examples;        /* that a pass over the data has, about; 0: not known, or generated   */
    uint32_t rounds;
    /* of the rounds' times of a whole pass: their middle half over their median; of all configs the median */
    double spread;
    double seconds; /* that it took */
};
/* Fails as reading, the store and the device do; USAGE: the data can be read only once; STOPPED: stop_requested(). */
MUST_USE status profile_run(const struct profile_run_options *options, struct profile_run_result *result);
void profile_run_free(struct profile_run_result *result);

/* What it costs to read `bytes` bytes that another core has just written, from the moment on when it has; where
 * there is only one core, what it costs to copy them. Lower quartile. For the calling thread, which should be
 * pinned; other: the processor of the other one, or -1: not pinned. */
MUST_USE status profile_move(const double *bytes, double *seconds, uint32_t count, uint32_t core_count, int other,
                             double time_limit);

#endif
