/* A device runs lists of nodes and updates. Kinds of devices are listed in engine/device/devices.def. */
#ifndef HETERPS_GRAPH_DEVICE_H
#define HETERPS_GRAPH_DEVICE_H

#include "graph/op.h"
#include "graph/optimizer.h"

struct device;

/* The update of one table's rows: sums of a step's gradients, and where they go. Within a lane the uses (the
 * table's lookups) are added in order. Then the lanes are added along a binary tree: level by level, sum[i] =
 * sum[2i] + sum[2i+1]; the last one of an odd count passes through. */
struct table_update {
    const struct graph_table *table;
    const struct graph_optimizer *optimizer;
    uint32_t row_count; /* rows that the step touched                                           */
    float *const *span; /* [row]                                                                */
    float *const *grad; /* [use]: sums, zeroed by the update; [row, dim], or [lane row, dim] of several lanes */
    uint32_t lanes, use_count;
    const uint32_t *last_lane_row;    /* [row]: its lane row in the last lane that has it; NULL of one lane */
    const struct lane_row *lane_rows; /* [lane_row_count]: lead to the row's other lanes; NULL of one lane */
    uint32_t lane_row_count;
    /* [row]: its occurrences in the step; NULL, unless the rule reads shows or rows are counted */
    const uint32_t *occurrence_count;
    /* of rows that come and go (graph/row_end.h): */
    bool lives;
    const float *nobody;         /* the span of keys without a row: their gradients are dropped   */
    const uint32_t *click_count; /* [row], where rows are counted                                 */
    const uint64_t *key;         /* [row], where rows begin without a vector, or are in bfloat16  */
    struct random_stream noise;  /* where in bfloat16: row_noise() of the step                    */
    uint64_t period;             /* of the step                                                   */
    struct random_stream init;   /* of the table's initial values                                 */
    float scale;
    float rate; /* the learning rate of the step                                                 */
    uint64_t t; /* number of the step, from 1                                                    */
};
/* Sums of rows that another node updates: over uses, and over each of `run_count` runs of lanes. They go to
 * `to`, and the sums are cleared. */
struct table_sums {
    uint32_t dim, row_count, use_count;
    float *const *grad;               /* [use]: sums, [lane row, dim]      */
    const uint32_t *last_lane_row;    /* [row]                             */
    const struct lane_row *lane_rows; /* as table_update's                 */
    const uint32_t *run_begin;        /* [run_count + 1]: lanes, ascending */
    uint32_t run_count;
    float *const *to; /* [row]: [run, dim]                 */
    uint64_t t;
};
/* An update of a run of parameters: one update of the graph, or a part of it. Lanes are added as above. */
struct param_update {
    const struct graph_optimizer *optimizer;
    float *weight;       /* [count]                                                                  */
    float *state;        /* [state_count, count], state_stride floats from one state array to the next */
    size_t state_stride; /* >= count: the length of the graph's whole update                          */
    float *const *grad;  /* [lane]: [count] sums, from the run's first float on; zeroed by the update */
    uint32_t lanes;
    bool is_bf16; /* each lane's sum, and each sum of lanes, is rounded to bfloat16 (engine/base/bf16.h) */
    size_t count;
    float scale;
    float rate; /* the learning rate of the step                                                  */
    uint64_t t; /* number of the step, from 1                                                     */
};
/* Before an update whose norm is bounded: the sums of lanes, and the squares of their elements. */
struct param_block {
    uint64_t offset, count; /* floats */
};
struct param_sums {
    float *const *grad; /* [lane]: whole arrays; the sums end in the first lane's array, the others are zeroed */
    uint32_t lanes, block_count;
    bool is_bf16; /* as param_update's */
    const struct param_block *block;
    /* [block_count]: of the sums, in the order of optimizer_squares();
     * NULL, for devices of cores: not wanted */
    double *squares;
    uint64_t t;
};

/* Sums of parameters that the host updates: those of some lanes, which lie on a device with memory of
 * its own. The device adds them up along the tree, and rounds them, as sum_params does, copies the sum
 * to the host, and clears its own. */
struct param_fetch {
    uint32_t lane, lanes; /* the first of them, among the device's; how many */
    bool is_bf16;
    uint64_t begin, end; /* floats of the parameters                 */
    float *to;           /* the host's whole array, of which these exist */
};
/* Likewise of a table, lane row by lane row. */
struct table_fetch {
    uint32_t table, use_count, lane_row_count;
    uint32_t row_count; /* of the step: for figures */
    float *const *to;   /* [use]: [lane row, dim]   */
};

struct device_vt {
    const char *name; /* appears in logs and plans */
    /* Runs nodes[0..count) (all of one pass) in order on one slot, and returns when their results are
     * visible. For a backward list, nodes are backward nodes; kernels get the forward node. */
    status (*submit)(struct device *, const struct op_context *, const struct graph_node *nodes, uint32_t count);
    status (*update_rows)(struct device *, const struct table_update *);
    status (*update_params)(struct device *, const struct param_update *);
    status (*sum_params)(struct device *, const struct param_sums *);
    status (*sum_rows)(struct device *, const struct table_sums *); /* of a device whose units are cores */
    /* Of a device with memory of its own; NULL: it works on the host's memory. begin, before a job:
     * the host's parameters and state are the newest; the job's inputs lie in [inputs, inputs +
     * bytes); inputs NULL: their place is not known. settle, after a job, when no device works: the
     * host gets parameters and state back. */
    status (*begin)(struct device *, void *inputs, size_t bytes);
    status (*settle)(struct device *);
    /* Of such a device in a stage whose parameters and rows the host updates; all three wait. fetch_…:
     * within a step, its sums go to the host. put_params, before the next step: floats [begin, end) of
     * the host's parameters have changed. */
    status (*fetch_params)(struct device *, const struct param_fetch *);
    status (*fetch_rows)(struct device *, const struct table_fetch *);
    status (*put_params)(struct device *, uint64_t begin, uint64_t end);
    /* Of a device that has begin, after a job: its inputs, [inputs, inputs + bytes), will be given back now,
     * so the device drops all that it keeps for them. */
    void (*leave)(struct device *, void *inputs, size_t bytes);
    void (*close)(struct device *);
};
struct device {
    const struct device_vt *vt;
};

/* Callers use these functions, which own the defaults. */
static inline status device_submit(struct device *d, const struct op_context *c, const struct graph_node *nodes,
                                   uint32_t count)
{
    return d->vt->submit(d, c, nodes, count);
}
static inline status device_update_rows(struct device *d, const struct table_update *update)
{
    return d->vt->update_rows(d, update);
}
static inline status device_update_params(struct device *d, const struct param_update *update)
{
    return d->vt->update_params(d, update);
}
static inline status device_sum_params(struct device *d, const struct param_sums *sums)
{
    return d->vt->sum_params(d, sums);
}
static inline status device_sum_rows(struct device *d, const struct table_sums *sums)
{
    return d->vt->sum_rows(d, sums);
}
static inline status device_fetch_params(struct device *d, const struct param_fetch *fetch)
{
    return d->vt->fetch_params(d, fetch);
}
static inline status device_fetch_rows(struct device *d, const struct table_fetch *fetch)
{
    return d->vt->fetch_rows(d, fetch);
}
static inline status device_put_params(struct device *d, uint64_t begin, uint64_t end)
{
    return d->vt->put_params(d, begin, end);
}
static inline status device_begin(struct device *d, void *inputs, size_t bytes)
{
    return d->vt->begin ? d->vt->begin(d, inputs, bytes) : ST_OK;
}
static inline status device_settle(struct device *d) { return d->vt->settle ? d->vt->settle(d) : ST_OK; }
static inline void device_leave(struct device *d, void *inputs, size_t bytes)
{
    if (d->vt->leave) d->vt->leave(d, inputs, bytes);
}
/* NULL is ignored. */
static inline void device_close(struct device *d)
{
    if (d) d->vt->close(d);
}

#endif
