/* FTRL-Proximal, a learning rate a coordinate: Algorithm 1 of McMahan et al., KDD 2013,
 * alpha being the learning rate:
 *
 *   n += g^2      sigma = (sqrt(n) - sqrt(n before)) / alpha      z += g - sigma w
 *   w = 0 where |z| <= l1, else -(z - sign(z) l1) / Q             Q = (beta + sqrt(n)) / alpha + l2
 *
 * Here w is kept, and the new z is found from it: if w is not 0, the line above gives z = -w Q - sign(w) l1
 * with the old Q, and the change of Q takes sigma w off again, so z = -w Q - sign(w) l1 + g with the new Q;
 * if w is 0, the new z is z + g. With a constant alpha and weights that begin at 0 this is Algorithm 1. The
 * code departs for the better in two cases: weights that begin elsewhere are pulled to their first value
 * instead of to 0, and when a schedule changes alpha, w moves by its gradient only (z / Q with another Q
 * would shrink every weight with the rate). A rate under FTRL_RATE_MIN, where Q could overflow, changes
 * nothing. State: z, n. l1 and l2 are the rule's own; they do not change g. */
#include "graph/optimizer_rules.h"

#include <math.h>

const struct keyed_param optimizer_ftrl_params[] = {
    [FTRL_BETA] = {.name = "beta", .fallback = 0.001, .min = 1e-10, .max = 1e6, UNTIL(8, 1)},
    [FTRL_L1] = {.name = "l1", .max = 1e6},
    [FTRL_L2] = {.name = "l2", .max = 1e6},
    {0},
};

float optimizer_ftrl_state_init(const struct graph_optimizer *o, uint32_t state)
{
    (void)o, (void)state;
    return 0;
}

void optimizer_ftrl_update(const struct graph_optimizer *o, float *weight, float *state, const float *grad,
                           size_t count, float scale, float rate, uint64_t t)
{
    (void)t;
    float beta = o->param[FTRL_BETA], l1 = o->param[FTRL_L1], l2 = o->param[FTRL_L2];
    float *z = state, *n = state + count;
    if (rate < FTRL_RATE_MIN) return;
    for (size_t i = 0; i < count; i++) {
        float w = weight[i], g = optimizer_gradient(o, w, grad[i], scale);
        n[i] += g * g;
        float q = (beta + sqrtf(n[i])) / rate + l2;
        float before = w == 0 ? z[i] : -(w * q) - (w > 0 ? l1 : -l1);
        z[i] = before + g;
        float over = (z[i] < 0 ? -z[i] : z[i]) - l1; /* the excess of |z| over l1 */
        weight[i] = over <= 0 ? 0 : (z[i] < 0 ? over : -over) / q;
    }
}
