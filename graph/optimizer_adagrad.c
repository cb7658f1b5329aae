/* Adagrad: s += g^2;  w -= lr g / (sqrt(s) + eps). Duchi, Hazan, Singer, JMLR 2011, eq. (1) with the diagonal of G;
 * their delta is eps, added after the root. */
#include "graph/optimizer_rules.h"

#include <math.h>

const struct keyed_param optimizer_adagrad_params[] = {
    [ADAGRAD_EPS] = {.name = "eps", .fallback = 1e-10, .min = 1e-20, .max = 1},
    [ADAGRAD_INITIAL_ACCUMULATOR] = {.name = "initial_accumulator", .max = 1e6},
    {0},
};

float optimizer_adagrad_state_init(const struct graph_optimizer *o, uint32_t state)
{
    (void)state;
    return o->param[ADAGRAD_INITIAL_ACCUMULATOR];
}

void optimizer_adagrad_update(const struct graph_optimizer *o, float *weight, float *state, const float *grad,
                              size_t count, float scale, float rate, uint64_t t)
{
    (void)t;
    for (size_t i = 0; i < count; i++) {
        float g = optimizer_gradient(o, weight[i], grad[i], scale);
        state[i] += g * g;
        weight[i] -= rate * g / (sqrtf(state[i]) + o->param[ADAGRAD_EPS]);
    }
}
