/* Plain gradient descent: w -= lr g. */
#include "graph/optimizer_rules.h"

const struct optimizer_param optimizer_sgd_params[] = {{0}};

float optimizer_sgd_state_init(const struct graph_optimizer *o, uint32_t state)
{
    (void)o, (void)state;
    return 0;
}

void optimizer_sgd_update(const struct graph_optimizer *o, float *weight, float *state, const float *grad, size_t count,
                          float scale, uint64_t t)
{
    (void)state, (void)t;
    for (size_t i = 0; i < count; i++) weight[i] -= o->learning_rate * optimizer_gradient(o, weight[i], grad[i], scale);
}
