/* A kind of devices is a row of functions and facts; engine/device/devices.def lists the kinds. Whoever places,
 * opens or describes a stage asks its row; who asks for the word itself engine/README.md lists, with the steps to add
 * a kind.
 *
 *     plan's stage ──device_kind_of──▶ row
 *         ──device_stage_open──▶ what all devices of the stage share (on a card: its memory there)
 *         ──device_open────────▶ a device a worker
 *         ──device_stage_join──▶ replicas that exchange gradients and parameters know each other */
#ifndef HETERPS_ENGINE_DEVICE_KIND_H
#define HETERPS_ENGINE_DEVICE_KIND_H

#include "engine/slot/extent.h"
#include "graph/device.h"
#include "sched/plan.h"

/* What is the same for all devices of a stage; kept until the stage is closed, as is what it points to. */
struct device_stage_options {
    const struct graph *graph;
    struct model *model;
    const struct plan *plan;
    uint32_t stage;              /* of the plan                                       */
    const struct extent *extent; /* what it has of the graph, a part each replica     */
    void *slots;                 /* [slots_bytes]: the memory that all slots lie in   */
    size_t slots_bytes;
    uint32_t slot_count, input_count, lanes; /* lanes: of gradients, in training      */
    uint64_t row_bytes;                      /* for rows that stay in memory of the devices' own  */
    const char *isa;                         /* of devices on cores (cpu_device_open)             */
    bool spins;                              /* gangs wait for work without sleeping              */
    bool training;
};

/* The worker that a device is for. */
struct device_seat {
    uint32_t replica;
    uint32_t core_count;   /* its gang; 0: none            */
    const int *processors; /* [core_count], kept; or NULL  */
};

/* What devices of a stage have moved in training so far. */
struct device_figures {
    uint64_t front_bytes, behind_bytes; /* across the cuts in front of the stage and behind it       */
    uint64_t other_bytes;               /* columns of the data without a cut in front; losses        */
    /* Rows of steps that were resident in memory of the stage's own, and that were not; that moved in, and home. */
    struct device_row_figures {
        uint64_t resident, cold, moved_in, moved_home;
    } rows;
};

struct device_stage;
struct device_kind {
    const char *unit;      /* "card": what a unit is called where it has no cores; NULL: it has        */
    uint32_t streams;      /* workers of a replica, each of which takes micro-batches                  */
    uint32_t replicas_max; /* of a stage                                                                */
    bool has_cores;        /* units are cores of this node: gangs of them, and pools that stages share  */
    /* Devices keep parameters, gradients and activations in memory of their own (device_begin, device_settle):
     * each replica has the lanes of its own seats and its own part of the parameters, and what is computed
     * besides is computed on the host. */
    bool has_memory;
    bool imitates; /* a worker stands for all k units of its replica */
    /* Optional: NULL: the stage's devices share nothing. INVALID: a layer that they cannot run, with why;
     * USAGE: there is no such unit; MEMORY: with what the stage needs and what is free. */
    status (*stage_open)(struct device_stage **stage, const struct device_stage_options *options);
    /* After device_open of all workers; optional. INVALID: what the stage has cannot be on several units. */
    status (*stage_join)(struct device_stage *stage);
    void (*stage_close)(struct device_stage *stage);
    struct device_figures (*stage_figures)(const struct device_stage *stage);
    /* A device for a worker; closed with device_close, before its stage. As stage_open; SYSTEM. */
    status (*open)(struct device **device, struct device_stage *stage, const struct device_stage_options *options,
                   const struct device_seat *seat);
    /* The device does work of this speed from now on (sched/resource.h); optional. Between submits. */
    void (*slow_set)(struct device *device, const struct resource_slow *slow);
};

/* The row of a kind. */
const struct device_kind *device_kind(enum resource_device device);
/* That of a stage of a plan. */
static inline const struct device_kind *device_kind_of(const struct plan *plan, uint32_t stage)
{
    return device_kind(plan->types[plan->stages[stage].type].device);
}

/* A stage's devices, where they share nothing and where they do. */
static inline status device_stage_open(const struct device_kind *kind, struct device_stage **stage,
                                       const struct device_stage_options *options)
{
    *stage = NULL;
    return kind->stage_open ? kind->stage_open(stage, options) : ST_OK;
}
static inline status device_stage_join(const struct device_kind *kind, struct device_stage *stage)
{
    return kind->stage_join ? kind->stage_join(stage) : ST_OK;
}
/* After its devices. A stage that is NULL is ignored. */
static inline void device_stage_close(const struct device_kind *kind, struct device_stage *stage)
{
    if (stage) kind->stage_close(stage);
}
static inline struct device_figures device_stage_figures(const struct device_kind *kind,
                                                         const struct device_stage *stage)
{
    return stage ? kind->stage_figures(stage) : (struct device_figures){0};
}
static inline void device_slow_set(const struct device_kind *kind, struct device *device,
                                   const struct resource_slow *slow)
{
    if (kind->slow_set) kind->slow_set(device, slow);
}

#endif
