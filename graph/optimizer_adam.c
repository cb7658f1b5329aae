/* Adam, Algorithm 1 of Kingma and Ba, ICLR 2015:
 *
 *   m = beta1 m + (1 - beta1) g          v = beta2 v + (1 - beta2) g^2
 *   w -= lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)
 *
 * The two corrections are computed once a call, in double, and multiplied as rounded reciprocals. State: m,
 * then v. Departs from Algorithm 1 on rows of a table: t counts the row's own updates, and rows that a step
 * does not touch keep their moments. */
#include "graph/optimizer_rules.h"

#include <math.h>

const struct keyed_param optimizer_adam_params[] = {
    [ADAM_BETA1] = {.name = "beta1", .fallback = 0.9, .max = 0.999999},
    [ADAM_BETA2] = {.name = "beta2", .fallback = 0.999, .max = 0.999999},
    [ADAM_EPS] = {.name = "eps", .fallback = 1e-8, .min = 1e-20, .max = 1},
    {0},
};

float optimizer_adam_state_init(const struct graph_optimizer *o, uint32_t state)
{
    (void)o, (void)state;
    return 0;
}

float optimizer_adam_correction(float beta, uint64_t t) { return (float)(1 / (1 - optimizer_power((double)beta, t))); }

void optimizer_adam_update(const struct graph_optimizer *o, float *weight, float *state, const float *grad,
                           size_t count, float scale, float rate, uint64_t t)
{
    float beta1 = o->param[ADAM_BETA1], beta2 = o->param[ADAM_BETA2], eps = o->param[ADAM_EPS];
    float m_correction = optimizer_adam_correction(beta1, t), v_correction = optimizer_adam_correction(beta2, t);
    float *m = state, *v = state + count;
    for (size_t i = 0; i < count; i++) {
        float g = optimizer_gradient(o, weight[i], grad[i], scale);
        m[i] = beta1 * m[i] + (1 - beta1) * g;
        v[i] = beta2 * v[i] + (1 - beta2) * (g * g);
        weight[i] -= rate * (m[i] * m_correction) / (sqrtf(v[i] * v_correction) + eps);
    }
}
