/* Adagrad: s += g^2;  w -= lr g / (sqrt(s) + eps). Duchi, Hazan, Singer, JMLR 2011, eq. (1) with the diagonal of G;
 * their delta is eps, added after the root. */
#include "graph/optimizer_rules.h"

#include <math.h>

enum { EPS, INITIAL_ACCUMULATOR };
const struct optimizer_param optimizer_adagrad_params[] = {
    [EPS] = {"eps", 1e-10f, 1e-20f, 1},
    [INITIAL_ACCUMULATOR] = {"initial_accumulator", 0, 0, 1e6f},
    {0},
};

float optimizer_adagrad_state_init(const struct graph_optimizer *o, uint32_t state)
{
    (void)state;
    return o->param[INITIAL_ACCUMULATOR];
}

void optimizer_adagrad_update(const struct graph_optimizer *o, float *weight, float *state, const float *grad,
                              size_t count, float scale, uint64_t t)
{
    (void)t;
    for (size_t i = 0; i < count; i++) {
        float g = optimizer_gradient(o, weight[i], grad[i], scale);
        state[i] += g * g;
        weight[i] -= o->learning_rate * g / (sqrtf(state[i]) + o->param[EPS]);
    }
}
