/* A device runs lists of nodes. `cpu` is engine/cpu/device.c; others follow. */
#ifndef HETERPS_GRAPH_DEVICE_H
#define HETERPS_GRAPH_DEVICE_H

#include "graph/op.h"
#include "graph/optimizer.h"

struct device;

/* Sums of a step's gradients and where they go, for one table. */
struct table_update {
    const struct graph_table *table;
    const struct graph_optimizer *optimizer;
    uint32_t row_count; /* rows that the step touched                                           */
    float *const *span; /* [row]                                                                */
    float *const *grad; /* [lane]: [row, dim] sums; zeroed by the update                          */
    uint32_t lanes;
    float scale;
};
struct param_update {
    const struct graph_optimizer *optimizer;
    float *weight, *state; /* [count], [state_count, count]                                        */
    float *const *grad;    /* [lane]: [count] sums; zeroed by the update                             */
    uint32_t lanes;
    size_t count;
    float scale;
    uint64_t t;
};

struct device_vt {
    const char *name; /* appears in logs and plans */
    bool (*runs)(const struct device *, op_id);
    /* Runs nodes[0..count) (all of one pass) in order on one slot, and returns when their results are visible. For a
     * backward list, nodes are backward nodes; kernels get the forward node. */
    status (*submit)(struct device *, const struct op_context *, const struct graph_node *nodes, uint32_t count);
    status (*update_rows)(struct device *, const struct table_update *);
    status (*update_params)(struct device *, const struct param_update *);
    void (*close)(struct device *);
};
struct device {
    const struct device_vt *vt;
};

static inline status device_submit(struct device *d, const struct op_context *c, const struct graph_node *nodes,
                                   uint32_t count)
{
    return d->vt->submit(d, c, nodes, count);
}

#endif
