/* A kind of devices is a row of functions and facts; engine/device/devices.def lists the kinds. Code that
 * places, opens or describes a stage asks the kind's row; engine/README.md lists the code that asks for the
 * word itself, and the steps to add a kind.
 *
 *     plan's stage ──device_kind_of──▶ row
 *         ──device_stage_open──▶ everything that the stage's devices share (on a card: its memory there)
 *         ──device_open────────▶ a device a worker
 *         ──device_stage_join──▶ replicas that exchange gradients and parameters know each other */
#ifndef HETERPS_ENGINE_DEVICE_KIND_H
#define HETERPS_ENGINE_DEVICE_KIND_H

#include "engine/slot/extent.h"
#include "engine/slot/fold.h"
#include "graph/device.h"
#include "sched/plan.h"

/* Options of all devices of a stage; the stage keeps them, and all they point to, until it is closed. */
struct device_stage_options {
    const struct graph *graph;
    struct model *model;
    const struct plan *plan;
    uint32_t stage;              /* of the plan                                       */
    const struct extent *extent; /* the stage's extent of the graph, a part each replica */
    void *slots;                 /* [slots_bytes]: the memory that all slots lie in   */
    size_t slots_bytes;
    uint32_t slot_count, input_count;
    struct fold_lanes lanes; /* of gradients, in training */
    /* Nodes share the stage, and hosts update its parameters and rows (device_vt.fetch_params). */
    bool is_shared;
    uint64_t row_bytes; /* for rows that stay in the devices' own memory     */
    const char *isa;    /* of devices on cores (cpu_device_open)             */
    bool spins;         /* gangs wait for work without sleeping              */
    bool training;
};

/* The worker of a device. */
struct device_seat {
    uint32_t replica;
    uint32_t core_count;   /* its gang; 0: none            */
    const int *processors; /* [core_count], kept; or NULL  */
};

/* Bytes and rows that the devices of a stage have moved in training so far. */
struct device_figures {
    uint64_t front_bytes, behind_bytes; /* across the cuts in front of and behind the stage          */
    uint64_t other_bytes;               /* columns of data without a cut in front of the stage; losses */
    /* Rows of steps that were resident in the stage's own memory, and that were not;
     * rows moved in, and moved home. */
    struct device_row_figures {
        uint64_t resident, cold, moved_in, moved_home;
    } rows;
};

struct device_stage;
struct device_kind {
    const char *unit;      /* a unit's name where units are no cores: "card"; else NULL                */
    uint32_t streams;      /* workers of a replica, each of which takes micro-batches                  */
    uint32_t replicas_max; /* of a stage                                                                */
    bool has_cores;        /* units are cores of this node, in gangs, and in pools that stages share    */
    /* Devices keep parameters, gradients and activations in memory of their own (device_begin,
     * device_settle): each replica has the lanes of its own seats and its own part of the parameters;
     * all else is computed on the host. */
    bool has_memory;
    bool imitates; /* a worker stands for all k units of its replica */
    /* Optional; NULL: the stage's devices share nothing. INVALID: a layer that they cannot run, with the
     * reason; USAGE: there is no such unit; MEMORY tells the bytes needed and free. */
    status (*stage_open)(struct device_stage **stage, const struct device_stage_options *options);
    /* After device_open of all workers; optional. INVALID: the stage cannot be on several units. */
    status (*stage_join)(struct device_stage *stage);
    void (*stage_close)(struct device_stage *stage);
    struct device_figures (*stage_figures)(const struct device_stage *stage);
    /* A device for a worker; closed with device_close, before its stage. As stage_open; SYSTEM. */
    status (*open)(struct device **device, struct device_stage *stage, const struct device_stage_options *options,
                   const struct device_seat *seat);
    /* Slows the device from now on (sched/resource.h); optional. Between submits. */
    void (*slow_set)(struct device *device, const struct resource_slow *slow);
};

/* The row of a kind. */
const struct device_kind *device_kind(enum resource_device device);
/* The row of a plan's stage. */
static inline const struct device_kind *device_kind_of(const struct plan *plan, uint32_t stage)
{
    return device_kind(plan->types[plan->stages[stage].type].device);
}

/* Calls of the optional functions above. */
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
/* After its devices are closed. NULL is ignored. */
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
