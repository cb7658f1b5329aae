/* The moving average of a statistic: w = momentum w + (1 - momentum) g, g being the mean over a step's
 * examples of the sum that its backward passes made (graph/op_batch_norm.c). g is no gradient, so there is no
 * penalty, no clip and no learning rate. */
#include "graph/optimizer_rules.h"

const struct keyed_param optimizer_moving_average_params[] = {
    [AVERAGE_MOMENTUM] = {.name = "momentum", .fallback = 0.9, .max = (double)MOMENTUM_MAX},
    {0},
};

struct graph_optimizer optimizer_moving_average(float momentum)
{
    return (struct graph_optimizer){.kind = OPTIMIZER_ID_moving_average, .param = {[AVERAGE_MOMENTUM] = momentum}};
}

float optimizer_moving_average_state_init(const struct graph_optimizer *o, uint32_t state)
{
    (void)o, (void)state;
    return 0;
}

void optimizer_moving_average_update(const struct graph_optimizer *o, float *weight, float *state, const float *grad,
                                     size_t count, float scale, float rate, uint64_t t)
{
    (void)state, (void)rate, (void)t;
    float momentum = o->param[AVERAGE_MOMENTUM];
    for (size_t i = 0; i < count; i++) weight[i] = momentum * weight[i] + (1 - momentum) * (grad[i] * scale);
}
