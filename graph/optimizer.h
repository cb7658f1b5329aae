/* An optimizer is one line in optimizers.def and one file optimizer_<id>.c. The same rule updates a run of
 * dense parameters and one row of a table. */
#ifndef HETERPS_GRAPH_OPTIMIZER_H
#define HETERPS_GRAPH_OPTIMIZER_H

#include "graph/graph.h"
#include "graph/keyed.h"

/* Updates weight[0..count) in place.
 *   state   [state_count, count]: first all first-state floats, then all second; then [row_state_count]
 *   grad    sums over examples; the mean gradient is grad * scale (scale = 1 / examples of the step; for a rule
 *           that reads shows 1 / occurrences of the row)
 *   rate    the learning rate of this step: optimizer_rate
 *   t       updates of these weights including this one, from 1 (Adam's bias correction); for rows of a table under a
 *           rule that does not count them, the number of the step
 * Order: g = optimizer_gradient, then the rule; each operation rounded to float32, no contraction except by
 * explicit fma. */
typedef void optimizer_update(const struct graph_optimizer *o, float *weight, float *state, const float *grad,
                              size_t count, float scale, float rate, uint64_t t);

/* Whether data-parallel pipelines may add up their changes: optimizers.def. */
enum optimizer_across { ACROSS_ADD, ACROSS_NEVER, ACROSS_OWN };

struct optimizer {
    const char *name, *source;
    uint32_t state_count;     /* floats a weight                                                         */
    uint32_t row_state_count; /* floats a row                                                            */
    uint32_t counts;          /* 1: a row counts its own updates, which are its t                        */
    bool reads_shows;         /* its scale is 1 / occurrences of the row in the step                     */
    bool is_internal;         /* the compiler's own: no text names it                                    */
    enum optimizer_across across;
    /* their values are graph_optimizer.param[i]; ends with name == NULL, at most OPTIMIZER_PARAM_COUNT */
    const struct keyed_param *params;
    /* first value of a state float; the state of a row is counted behind the state of a weight */
    float (*state_init)(const struct graph_optimizer *o, uint32_t state);
    optimizer_update *update; /* plain reference */
};
extern const struct optimizer optimizer_table[OPTIMIZER_ID_COUNT];

/* A row's span: vector [dim], state [state_count * dim], [row_state_count], and, if the optimizer counts
 * (Adam), one counter of updates, a uint32_t in the space of a float. */
uint32_t optimizer_span_floats(const struct graph_optimizer *o, uint32_t dim);
/* The span of a row of a table that `o` updates, with the counters of the row's life: its span_floats. */
uint32_t optimizer_table_floats(const struct graph_optimizer *o, const struct graph_table *table);
bool optimizer_counts(const struct graph_optimizer *o);
bool optimizer_reads_shows(const struct graph_optimizer *o);
/* Whether the optimizer is for rows alone: it cannot train parameters. */
bool optimizer_is_for_rows(const struct graph_optimizer *o);
/* The learning rate at step t, from 1, in a pass over the data, from 0: with the schedule's factor. */
float optimizer_rate(const struct graph *g, const struct graph_optimizer *o, uint64_t t, uint64_t pass);

/* The gradient that a rule uses: the mean, each element cut to [-clip_value, clip_value]; then the terms of
 * l2 and l1. The subgradient of l1 at 0 is 0. */
static inline float optimizer_gradient(const struct graph_optimizer *o, float weight, float grad, float scale)
{
    float gradient = grad * scale, clip = o->clip_value;
    if (clip > 0) gradient = gradient > clip ? clip : gradient < -clip ? -clip : gradient;
    gradient += o->l2 * weight;
    if (o->l1 > 0) gradient += weight > 0 ? o->l1 : weight < 0 ? -o->l1 : 0;
    return gradient;
}
/* Sums of squares in double: element i is added to part i % OPTIMIZER_SQUARES, then the parts are added along
 * a tree. So vectors of any width give the same bits. */
#define OPTIMIZER_SQUARES 16
static inline double optimizer_squares_total(double part[OPTIMIZER_SQUARES])
{
    for (int width = OPTIMIZER_SQUARES / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++) part[i] += part[i + width];
    return part[0];
}
static inline double optimizer_squares(const float *x, size_t count)
{
    double part[OPTIMIZER_SQUARES] = {0};
    size_t whole = count - count % OPTIMIZER_SQUARES;
    for (size_t i = 0; i < whole; i += OPTIMIZER_SQUARES)
        for (size_t k = 0; k < OPTIMIZER_SQUARES; k++) part[k] += (double)x[i + k] * (double)x[i + k];
    for (size_t i = whole; i < count; i++) part[i - whole] += (double)x[i] * (double)x[i];
    return optimizer_squares_total(part);
}
/* The factor that replaces `scale` so that the mean gradient's norm is at most clip_norm;
 * `squares` is the sum of squares before scaling. As clip_grad_norm_ of PyTorch, without the 1e-6
 * that PyTorch adds to the norm. */
float optimizer_clip_scale(float scale, double squares, float clip_norm);

/* base^t by repeated squaring, in double: the same bits on every machine. */
double optimizer_power(double base, uint64_t t);
/* The rate of sgd at update t: rate t^-power. */
float optimizer_sgd_rate(const struct graph_optimizer *o, float rate, uint64_t t);
/* The rules of statistics as optimizers: w = momentum w + (1 - momentum) grad
 * scale, and w = decay w + grad. */
struct graph_optimizer optimizer_moving_average(float momentum);
struct graph_optimizer optimizer_accumulate(float decay);
#define MOMENTUM_MAX      0.999999f

#define LEARNING_RATE_MAX 1e6f
#define PENALTY_MAX       1e6f  /* of l1 and l2            */
#define CLIP_MAX          1e30f /* of clip_value, clip_norm */
/* Reads "NAME LEARNING_RATE [KEY=VALUE …]" ("adagrad 0.02 eps=1e-8") into *out. l1, l2 and clips are 0;
 * parameters that the text does not name have their defaults by `rules` (cfg/rules.h). Any other text, also
 * the name of an internal rule, is INVALID, with a sentence without place (expected, found, the nearest
 * name): the caller adds file and line. */
MUST_USE status optimizer_parse(const char *text, uint32_t rules, struct graph_optimizer *out);
/* The text that `auto` stands for in a model text, for parameters or for rows of tables: adagrad; the rate
 * depends on whether the model has hidden layers. Rows begin as if their key had occurred once before, alone
 * in a batch of `batch` examples (weights of a linear model by rules 13 and later: 16 times), so a key that
 * is never seen again moves little. A larger batch makes this start smaller, as it makes gradients smaller.
 *   row_dim   numbers of a row; 0: for parameters
 *   bytes     OPTIMIZER_AUTO_BYTES are enough */
#define OPTIMIZER_AUTO       "auto"
#define OPTIMIZER_AUTO_BYTES ((size_t)64)
void optimizer_auto(const struct ini *ini, uint32_t rules, uint32_t batch, uint32_t row_dim, char *text, size_t bytes);
/* The schedule that `auto` stands for: passes in a linear model (one without hidden layers, whose rows are
 * of one number), else constant. */
const char *schedule_auto(const struct ini *ini);
/* schedule_parse of the text, or of what `auto` stands for. INVALID, with a sentence without place. */
MUST_USE status schedule_choose(const struct ini *ini, const char *text, uint32_t rules, struct graph_schedule *s);
/* INVALID, with a sentence without place, unless optimizer_parse could give the kind and every number. */
MUST_USE status optimizer_validate(const struct graph_optimizer *o);

#endif
