/* What an optimizer is: one line in optimizers.def and one file optimizer_<id>.c. The same rule updates a run of dense
 * parameters and one row of a table. */
#ifndef HETERPS_GRAPH_OPTIMIZER_H
#define HETERPS_GRAPH_OPTIMIZER_H

#include "graph/graph.h"

/* Updates weight[0..count) in place.
 *   state   [state_count, count]: first all first-state floats, then all second
 *   grad    sums over examples; the mean gradient is grad * scale (scale = 1 / examples of the step)
 *   t       updates of these weights including this one, from 1 (Adam's bias correction); for rows of a table under a
 *           rule that does not count them, the number of the step
 * Order: g = grad * scale + l2 * weight, then the rule; each operation rounded to float32, no contraction except by
 * explicit fma. */
typedef void optimizer_update(const struct graph_optimizer *o, float *weight, float *state, const float *grad,
                              size_t count, float scale, uint64_t t);

/* Whether data-parallel pipelines may add up what each has changed: optimizers.def. */
enum optimizer_across { ACROSS_ADD, ACROSS_NEVER, ACROSS_OWN };

struct optimizer_param {
    const char *name; /* key after the learning rate                                                    */
    float fallback, min, max;
};
struct optimizer {
    const char *name, *source;
    uint32_t state_count; /* floats a weight                                                             */
    uint32_t counts;      /* 1: a row has a counter of its own updates, which is its t                   */
    bool is_internal;     /* the compiler's own: no text names it                                        */
    enum optimizer_across across;
    const struct optimizer_param *params; /* their values are graph_optimizer.param[i]; ends with name == NULL, at most
                                             OPTIMIZER_PARAM_COUNT                                       */
    float (*state_init)(const struct graph_optimizer *o, uint32_t state); /* first value of a state float  */
    optimizer_update *update; /* plain reference                                                       */
};
extern const struct optimizer optimizer_table[OPTIMIZER_ID_COUNT];

/* A row's span: vector [dim], state [state_count * dim], one counter of updates (uint32_t in a float's place) if the
 * optimizer counts (Adam). */
uint32_t optimizer_span_floats(const struct graph_optimizer *o, uint32_t dim);
bool optimizer_counts(const struct graph_optimizer *o);

/* The gradient that a rule sees. */
static inline float optimizer_gradient(const struct graph_optimizer *o, float weight, float grad, float scale)
{
    return grad * scale + o->l2 * weight;
}
/* base^t by repeated squaring, in double: the same bits on every machine. */
double optimizer_power(double base, uint64_t t);
/* The learning rate of sgd at update t: lr t^-power. */
float optimizer_sgd_rate(const struct graph_optimizer *o, uint64_t t);
/* The rules of statistics as optimizers: w = momentum w + (1 - momentum) grad scale, and w = decay w + grad. */
struct graph_optimizer optimizer_moving_average(float momentum);
struct graph_optimizer optimizer_accumulate(float decay);
#define MOMENTUM_MAX      0.999999f

#define LEARNING_RATE_MAX 1e6f
/* Reads "NAME LEARNING_RATE [KEY=VALUE …]" ("adagrad 0.02 eps=1e-8") into *out; l2 is 0, parameters that are not
 * named have their defaults. Any other text (an internal rule's name too) is INVALID, with a sentence without place (expected, found, the nearest
 * name): the caller adds file and line. */
MUST_USE status optimizer_parse(const char *text, struct graph_optimizer *out);
/* INVALID, with a sentence without place, unless kind and every number are within what optimizer_parse gives. */
MUST_USE status optimizer_validate(const struct graph_optimizer *o);

#endif
