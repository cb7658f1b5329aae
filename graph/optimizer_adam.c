/* Adam, Algorithm 1 of Kingma and Ba, ICLR 2015:
 *
 *   m = beta1 m + (1 - beta1) g          v = beta2 v + (1 - beta2) g^2
 *   w -= lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)
 *
 * The two corrections are computed once a call, in double, and multiplied as rounded reciprocals. State: m, then v.
 * Departs from Algorithm 1 on rows of a table: t counts the row's own updates, and rows that a step does not touch keep
 * their moments. */
#include "graph/optimizer_rules.h"

#include <math.h>

enum { BETA1, BETA2, EPS };
const struct optimizer_param optimizer_adam_params[] = {
    [BETA1] = {"beta1", 0.9f, 0, 0.999999f},
    [BETA2] = {"beta2", 0.999f, 0, 0.999999f},
    [EPS] = {"eps", 1e-8f, 1e-20f, 1},
    {0},
};

float optimizer_adam_state_init(const struct graph_optimizer *o, uint32_t state)
{
    (void)o, (void)state;
    return 0;
}

void optimizer_adam_update(const struct graph_optimizer *o, float *weight, float *state, const float *grad,
                           size_t count, float scale, uint64_t t)
{
    float beta1 = o->param[BETA1], beta2 = o->param[BETA2], eps = o->param[EPS];
    float m_correction = (float)(1 / (1 - optimizer_power((double)beta1, t)));
    float v_correction = (float)(1 / (1 - optimizer_power((double)beta2, t)));
    float *m = state, *v = state + count;
    for (size_t i = 0; i < count; i++) {
        float g = optimizer_gradient(o, weight[i], grad[i], scale);
        m[i] = beta1 * m[i] + (1 - beta1) * g;
        v[i] = beta2 * v[i] + (1 - beta2) * (g * g);
        weight[i] -= o->learning_rate * (m[i] * m_correction) / (sqrtf(v[i] * v_correction) + eps);
    }
}
