/* What an optimizer is: one line in optimizers.def and one file optimizer_<id>.c. The same rule updates a run of dense
 * parameters and one row of a table. */
#ifndef HETERPS_GRAPH_OPTIMIZER_H
#define HETERPS_GRAPH_OPTIMIZER_H

#include "graph/graph.h"

/* Updates weight[0..count) in place.
 *   state   [state_count, count]: first all first-state floats, then all second
 *   grad    sums over examples; the mean gradient is grad * scale (scale = 1 / examples of the step)
 *   t       updates of these weights including this one, from 1 (Adam's bias correction)
 * Order: g = grad * scale + l2 * weight, then the rule; each operation rounded to float32, no contraction except by
 * explicit fma. */
typedef void optimizer_update(const struct graph_optimizer *o, float *weight, float *state, const float *grad, size_t count, float scale,
                              uint64_t t);

struct optimizer {
    const char *name, *source;
    uint32_t state_count; /* floats a weight                                                             */
    const char *const *param_names; /* keys after the learning rate, NULL-terminated, at most OPTIMIZER_PARAM_COUNT */
    const float *param_defaults, *param_mins, *param_maxs;
    float (*state_init)(const struct graph_optimizer *o, uint32_t state); /* first value of a state float  */
    optimizer_update *update; /* plain reference                                                       */
};
extern const struct optimizer optimizer_table[OPTIMIZER_ID_COUNT];

/* A row's span: vector [dim], state [state_count * dim], one counter of updates (uint32_t in a float's place) if the
 * optimizer counts (Adam). */
uint32_t optimizer_span_floats(const struct graph_optimizer *o, uint32_t dim);
bool optimizer_counts(const struct graph_optimizer *o);

#endif
