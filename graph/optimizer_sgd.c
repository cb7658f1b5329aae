/* Gradient descent: w -= lr t^-power g. With power = 0.5 the steps are those of HetPipe (Park et al., USENIX
 * ATC 2020, Theorem 1: sigma / sqrt(t)); with power = 0, the default, the rate is constant. t counts
 * steps, also for rows of a table. */
#include "engine/base/fmath.h"
#include "graph/optimizer_rules.h"

const struct keyed_param optimizer_sgd_params[] = {
    [SGD_POWER] = {.name = "power", .max = 10},
    {0},
};

float optimizer_sgd_state_init(const struct graph_optimizer *o, uint32_t state)
{
    (void)o, (void)state;
    return 0;
}

float optimizer_sgd_rate(const struct graph_optimizer *o, float rate, uint64_t t)
{
    if (o->param[SGD_POWER] == 0) return rate;
    return (float)((double)rate * fmath_exp(-(double)o->param[SGD_POWER] * fmath_log((double)t)));
}

void optimizer_sgd_update(const struct graph_optimizer *o, float *weight, float *state, const float *grad, size_t count,
                          float scale, float rate, uint64_t t)
{
    (void)state;
    rate = optimizer_sgd_rate(o, rate, t);
    for (size_t i = 0; i < count; i++) weight[i] -= rate * optimizer_gradient(o, weight[i], grad[i], scale);
}
