/* The sum of a statistic over all examples, which forgets older ones little by little: w = decay w + g, g
 * being the sum that the backward passes of a step made over its examples (graph/op_data_norm.c). g is no
 * gradient, so there is no penalty, no clip and no learning rate. */
#include "graph/optimizer_rules.h"

const struct keyed_param optimizer_accumulate_params[] = {
    [ACCUMULATE_DECAY] = {.name = "decay", .fallback = 0.9999999, .max = 1},
    {0},
};

struct graph_optimizer optimizer_accumulate(float decay)
{
    return (struct graph_optimizer){.kind = OPTIMIZER_ID_accumulate, .param = {[ACCUMULATE_DECAY] = decay}};
}

float optimizer_accumulate_state_init(const struct graph_optimizer *o, uint32_t state)
{
    (void)o, (void)state;
    return 0;
}

void optimizer_accumulate_update(const struct graph_optimizer *o, float *weight, float *state, const float *grad,
                                 size_t count, float scale, float rate, uint64_t t)
{
    (void)state, (void)scale, (void)rate, (void)t;
    float decay = o->param[ACCUMULATE_DECAY];
    for (size_t i = 0; i < count; i++) weight[i] = decay * weight[i] + grad[i];
}
