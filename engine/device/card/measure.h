/* Times of a card, for plans: of layers on the card, and of moving bytes between host and card. */
#ifndef HETERPS_ENGINE_DEVICE_CARD_MEASURE_H
#define HETERPS_ENGINE_DEVICE_CARD_MEASURE_H

#include "engine/model/model.h"
#include "engine/slot/slot.h"
#include "graph/device.h"
#include "sched/resource.h"

/* Number of cards that this program can open, from the type's card on; 0: none, or the type is no card's. */
uint32_t cards_here(const struct resource_type *type);
static inline bool card_is_here(const struct resource_type *type) { return cards_here(type) > 0; }

struct card_measure_options {
    const struct graph *graph;
    struct model *model;
    const struct resource_type *type;
    /* The first micro-batches of a step: as many as a card's streams have under way
     * (CARD_STREAMS), or all. They have been through both passes on the CPU, so the values that
     * are copied to the card are as in training. */
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
    uint64_t row_bytes; /* as device_stage_options' */
    /* Updates, on a device, the rows of a table that a step of these micro-batches has. */
    status (*rows_update)(void *context, struct device *device, uint32_t table);
    void *rows_context;
    double seconds; /* bound of all measuring; but everything is measured once */
};
struct card_times {
    /* [size_count, layer_count]: seconds of a layer's forward and backward passes; INFINITY: a card cannot
     * run it */
    double *pass;
    /* [layer_count]: seconds of the update of its parameters, once a step */
    double *update;
    /* [move_count]: seconds of a transfer of move_bytes and the wait for it; the mean of both ways */
    double *move;
};
/* Medians. Tied layers (graph_ties) are measured as the stage that they have to share, and get equal shares
 * of its time. A layer that looks rows up takes long alone, but little of the card: keys and rows travel, and
 * one thread adds up a frequent row. So all layers are also measured as one stage, with a micro-batch under
 * way in each slot; layers with rows get what this stage takes beyond the sum of the others. Free with
 * card_times_free. STOPPED: stop_requested(); else as gpu/gpu.h. */
MUST_USE status card_measure(struct card_times *times, const struct card_measure_options *options);
void card_times_free(struct card_times *times);

#endif
