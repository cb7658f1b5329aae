/* Adam with decoupled decay, Algorithm 2 of Loshchilov and Hutter, ICLR 2019, m and v being those of Adam:
 *
 *   w -= lr ((m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps) + decay w)
 *
 * Departs from Algorithm 2: there the decay is multiplied by the schedule's factor alone, here by the
 * whole learning rate, as PyTorch does. Departs as optimizer_adam.c on rows: rows that a step does
 * not touch do not decay either. */
#include "graph/optimizer_rules.h"

#include <math.h>

const struct keyed_param optimizer_adamw_params[] = {
    [ADAM_BETA1] = {.name = "beta1", .fallback = 0.9, .max = 0.999999},
    [ADAM_BETA2] = {.name = "beta2", .fallback = 0.999, .max = 0.999999},
    [ADAM_EPS] = {.name = "eps", .fallback = 1e-8, .min = 1e-20, .max = 1},
    [ADAMW_DECAY] = {.name = "decay", .fallback = 0.01, .max = 1e6},
    {0},
};

float optimizer_adamw_state_init(const struct graph_optimizer *o, uint32_t state)
{
    (void)o, (void)state;
    return 0;
}

void optimizer_adamw_update(const struct graph_optimizer *o, float *weight, float *state, const float *grad,
                            size_t count, float scale, float rate, uint64_t t)
{
    float beta1 = o->param[ADAM_BETA1], beta2 = o->param[ADAM_BETA2], eps = o->param[ADAM_EPS];
    float m_correction = optimizer_adam_correction(beta1, t), v_correction = optimizer_adam_correction(beta2, t);
    float *m = state, *v = state + count;
    for (size_t i = 0; i < count; i++) {
        float g = optimizer_gradient(o, weight[i], grad[i], scale);
        m[i] = beta1 * m[i] + (1 - beta1) * g;
        v[i] = beta2 * v[i] + (1 - beta2) * (g * g);
        weight[i] -=
            rate * ((m[i] * m_correction) / (sqrtf(v[i] * v_correction) + eps) + o->param[ADAMW_DECAY] * weight[i]);
    }
}
