/* The functions behind the lines of optimizers.def, as optimizer_table.c expects them of every optimizer_<id>.c. */
#ifndef HETERPS_GRAPH_OPTIMIZER_RULES_H
#define HETERPS_GRAPH_OPTIMIZER_RULES_H

#include "graph/optimizer.h"

#define OPTIMIZER(id, ...)                                                                                             \
    extern const struct optimizer_param optimizer_##id##_params[];                                                     \
    float optimizer_##id##_state_init(const struct graph_optimizer *o, uint32_t state);                                \
    optimizer_update optimizer_##id##_update;
#include "graph/optimizers.def"
#undef OPTIMIZER

#endif
