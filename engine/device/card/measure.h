/* Times of a card, for plans: what a layer takes there, and what moving bytes between host and card does. */
#ifndef HETERPS_ENGINE_DEVICE_CARD_MEASURE_H
#define HETERPS_ENGINE_DEVICE_CARD_MEASURE_H

#include "engine/model/model.h"
#include "engine/slot/slot.h"
#include "graph/device.h"
#include "sched/resource.h"

/* Cards that this program can open, from the one that the type names on; 0: none, or the type is on none. */
uint32_t cards_here(const struct resource_type *type);
static inline bool card_is_here(const struct resource_type *type) { return cards_here(type) > 0; }

struct card_measure_options {
    const struct graph *graph;
    struct model *model;
    const struct resource_type *type;
    /* A micro-batch of train.micro examples that has been through both passes on the CPU: what it holds is copied, so that what depends on values
     * is as in training. */
    struct slot *slot;
    const struct op_context *context; /* of its passes          */
    const double *sizes;              /* [size_count]: examples */
    uint32_t size_count;
    const double *move_bytes; /* [move_count] */
    uint32_t move_count;
    uint64_t row_bytes; /* as card_stage_options' */
    /* Updates the rows of a table, of a step of that micro-batch, by a device. */
    status (*rows_update)(void *context, struct device *device, uint32_t table);
    void *rows_context;
    double seconds; /* bound of it all; but everything is measured once */
};
struct card_times {
    double *
        pass; /* [size_count, layer_count]: seconds of a layer's forward and backward passes; INFINITY: a card cannot run it */
    double *
        update; /* [layer_count]: seconds of the update of its parameters, once a step                                        */
    double *
        move; /* [move_count]: seconds of a transfer of so many bytes, the wait for it included; the mean of both ways       */
};
/* Medians. Layers that are tied (graph_ties) are measured as the stage that they have to be in, and have equal shares of it. Free with card_times_free. What gpu/gpu.h says; STOPPED: stop_requested(). */
MUST_USE status card_measure(struct card_times *times, const struct card_measure_options *options);
void card_times_free(struct card_times *times);

#endif
