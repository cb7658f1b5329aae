/* Gradient descent with momentum:
 *
 *   v = beta v + g;      w -= lr v              heavy ball: Polyak 1964
 *                        w -= lr (g + beta v)   nesterov=1: Sutskever et al., ICML 2013, eq. (3) and (4), at the point
 *                                               where the gradient is taken
 *
 * The learning rate stands outside the sum, as in PyTorch, so that a schedule's factor acts on the whole sum
 * at once. State: v. Rows that a step does not touch keep their v. */
#include "graph/optimizer_rules.h"

const struct keyed_param optimizer_momentum_params[] = {
    [MOMENTUM_BETA] = {.name = "beta", .fallback = 0.9, .max = 0.999999},
    [MOMENTUM_NESTEROV] = {.name = "nesterov", .max = 1, .is_whole = true},
    {0},
};

float optimizer_momentum_state_init(const struct graph_optimizer *o, uint32_t state)
{
    (void)o, (void)state;
    return 0;
}

void optimizer_momentum_update(const struct graph_optimizer *o, float *weight, float *state, const float *grad,
                               size_t count, float scale, float rate, uint64_t t)
{
    (void)t;
    float beta = o->param[MOMENTUM_BETA];
    bool is_nesterov = o->param[MOMENTUM_NESTEROV] != 0;
    for (size_t i = 0; i < count; i++) {
        float g = optimizer_gradient(o, weight[i], grad[i], scale);
        state[i] = beta * state[i] + g;
        weight[i] -= rate * (is_nesterov ? g + beta * state[i] : state[i]);
    }
}
