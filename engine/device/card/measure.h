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
    /* The first micro-batches of a step, as many as streams of a card can have under way (CARD_STREAMS), or all. They
     * have been through both passes on the CPU: what they hold is copied, so that what depends on values is as in
     * training. */
    const struct slot *slots;          /* [slot_count], of train.micro examples each */
    const struct op_context *contexts; /* [slot_count]: of their passes              */
    uint32_t slot_count;
    void *memory; /* [memory_bytes]: slots and inputs lie there */
    size_t memory_bytes;
    double step_share;   /* micro-batches of a step over slot_count */
    const double *sizes; /* [size_count]: examples */
    uint32_t size_count;
    const double *move_bytes; /* [move_count] */
    uint32_t move_count;
    uint64_t row_bytes; /* as card_stage_options' */
    /* Updates the rows of a table, of a step of these micro-batches, by a device. */
    status (*rows_update)(void *context, struct device *device, uint32_t table);
    void *rows_context;
    double seconds; /* bound of it all; but everything is measured once */
};
struct card_times {
    /* [size_count, layer_count]: seconds of a layer's forward and backward passes; INFINITY: a card cannot
     * run it */
    double *pass;
    /* [layer_count]: seconds of the update of its parameters, once a step */
    double *update;
    /* [move_count]: seconds of a transfer of so many bytes, the wait for it included; the mean of both ways */
    double *move;
};
/* Medians. Layers that are tied (graph_ties) are measured as the stage that they have to be in, and have equal shares
 * of it. Layers that look rows up take long alone, and little of the card: keys and rows travel, and a frequent row's
 * sum is one thread's. So they have what all layers as one stage, with a micro-batch in each slot under way, take
 * beyond the sum of the other layers. Free with card_times_free. What gpu/gpu.h says; STOPPED: stop_requested(). */
MUST_USE status card_measure(struct card_times *times, const struct card_measure_options *options);
void card_times_free(struct card_times *times);

#endif
