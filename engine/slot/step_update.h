/* From the sums of a step's gradients to new parameters and rows: the sums themselves, and how a part of an
 * update is put together for a device.
 *
 *     backward passes ──add──▶ gradients: of parameters a set each (a lane, or a pipeline), of lane rows one a look-up
 *                                  │ update_sum: lanes of a part, and squares (where the norm is bounded)
 *                                  ▼ update_params, update_rows: a run of parameters, rows of a table
 *                              model                                                     sums are zero again
 */
#ifndef HETERPS_ENGINE_SLOT_STEP_UPDATE_H
#define HETERPS_ENGINE_SLOT_STEP_UPDATE_H

#include "engine/slot/extent.h"
#include "engine/slot/fold.h"
#include "engine/slot/step_rows.h"
#include "graph/alias.h"
#include "graph/device.h"

/* Sums of gradients, zero between updates. */
struct gradients {
    uint32_t set_count;          /* sets of parameters' sums                                                */
    float **param;               /* [set_count] of [grad_floats]                                            */
    float **table;               /* [lookup_count] of [lane rows of a step, dim]                            */
    float **of_table;            /* the same pointers, table by table: [use], from of_table_begin on        */
    uint32_t *of_table_begin;    /* [table_count]                                                           */
    uint32_t *use_count;         /* [table_count]: its look-ups                                             */
    struct graph_alias *aliases; /* of all parameters                                                      */
    uint32_t alias_count;
};
/* Gradients for steps of at most `examples`. */
void gradients_layout(struct gradients *gradients, struct layout *l, const struct graph *g, uint32_t set_count,
                      uint64_t examples);
/* Pointers that an updater's scratch needs for these gradients. */
uint32_t gradients_scratch(const struct graph *g, uint32_t lanes);

/* What a thread updates with; borrows all. */
struct updater {
    const struct graph *graph;
    const struct gradients *gradients;
    struct device *device; /* that works where the model is */
    /* NULL; or the device that has the sums of the own lanes and rows in memory of its own, where `device`
     * works on the host's (device_fetch_params, device_fetch_rows) */
    struct device *away;
    float **scratch; /* [gradients_scratch] */
};

/* What a step's update works on. */
struct update {
    float *param, *state;         /* whole arrays, as the model's                                           */
    float *const *param_grad;     /* [sets]: whole arrays                                                   */
    uint32_t lanes;               /* of a step                                                              */
    uint32_t sets;                /* of sums of parameters; 0: one a lane                                   */
    const struct step_rows *rows; /* [table_count]                                                          */
    uint32_t example_count;       /* of the step                                                            */
    uint64_t t;                   /* updates including this one                                             */
    uint64_t pass;                /* over the data of this training, from 0                                 */
    float clip_scale;             /* of parameters whose norm is bounded; their sums are in the first lane  */
    bool is_joined;               /* all sums of parameters are in the first lane (update_lanes, update_join) */
    bool is_bf16;                 /* train.reduce: sums of gradients are rounded to bfloat16                  */
};
/* Whether sums of what the graph's update changes are rounded: gradients are, statistics are not. */
bool update_is_bf16(const struct update *u, const struct graph *g, uint32_t update);
/* `runs` are runs of the node's own lanes (engine/slot/fold.h), numbered from its first lane on. Adds
 * the lanes of each run up into the run's first lane, for the floats [begin, end) of the parameters,
 * and rounds every sum, if is_bf16. Sums that are away come to the host. */
MUST_USE status update_lanes(const struct updater *w, const struct update *u, const struct fold_lanes *runs,
                             uint32_t run_count, uint64_t begin, uint64_t end, bool is_bf16);
/* Adds `right` to `left` for the floats [begin, end) of the parameters, and clears `right`. Both point to
 * whole arrays, of which these floats exist. */
MUST_USE status update_join(const struct updater *w, float *left, float *right, uint64_t begin, uint64_t end,
                            uint64_t t, bool is_bf16);
/* Adds the lanes of `count` blocks up into the first lane, and fills their squares. Fails as the device
 * fails, like the functions below. */
MUST_USE status update_sum(const struct updater *w, const struct update *u, const struct param_block *blocks,
                           uint32_t count, double *squares);
/* Updates the floats [begin, end) of a run; an empty range is fine. */
MUST_USE status update_params(const struct updater *w, const struct update *u, const struct param_run *run,
                              uint64_t begin, uint64_t end);
/* Updates the rows [begin, end) of the step's rows of a table; an empty range is fine. */
MUST_USE status update_rows(const struct updater *w, const struct update *u, uint32_t table, uint32_t begin,
                            uint32_t end);

#endif
