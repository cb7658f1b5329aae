/* The functions behind the lines of optimizers.def, as optimizer_table.c expects them
 * of every optimizer_<id>.c. */
#ifndef HETERPS_GRAPH_OPTIMIZER_RULES_H
#define HETERPS_GRAPH_OPTIMIZER_RULES_H

#include "graph/optimizer.h"

#define OPTIMIZER(id, ...)                                                                                             \
    extern const struct keyed_param optimizer_##id##_params[];                                                         \
    float optimizer_##id##_state_init(const struct graph_optimizer *o, uint32_t state);                                \
    optimizer_update optimizer_##id##_update;
#include "graph/optimizers.def"
#undef OPTIMIZER

/* Indices of the rules' keys, also for kernels. */
enum { SGD_POWER };
enum { ADAGRAD_EPS, ADAGRAD_INITIAL_ACCUMULATOR };
enum { ADAM_BETA1, ADAM_BETA2, ADAM_EPS, ADAMW_DECAY }; /* the first three of both */
enum { AVERAGE_MOMENTUM };
enum { ACCUMULATE_DECAY };
enum { MOMENTUM_BETA, MOMENTUM_NESTEROV };
enum { FTRL_BETA, FTRL_L1, FTRL_L2 };
#define FTRL_RATE_MIN 1e-20f
enum { ROW_INITIAL_G2SUM, ROW_BOUND };

/* Adam's corrections of its moments at update t: 1 / (1 - beta^t), in double, rounded once. */
float optimizer_adam_correction(float beta, uint64_t t);
/* The rate of a row under adagrad_row, given the row's g2sum. */
float optimizer_adagrad_row_rate(const struct graph_optimizer *o, float rate, float g2sum);

#endif
