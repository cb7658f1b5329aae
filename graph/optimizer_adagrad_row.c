/* Adagrad with one accumulator a row, as the sparse tables of PaddlePaddle have it (SparseAdaGradSGDRule of
 * its parameter server); for tables only:
 *
 *   g = (sum of the row's gradients over its occurrences in the step) / show        show = number of these occurrences
 *   w -= lr g sqrt(initial_g2sum / (initial_g2sum + s)), then |w| <= bound
 *   s += mean over the row of g^2
 *
 * So s grows after its use, and begins at 0. State: one s for each row. */
#include "graph/optimizer_rules.h"

#include <math.h>

const struct keyed_param optimizer_adagrad_row_params[] = {
    [ROW_INITIAL_G2SUM] = {.name = "initial_g2sum", .fallback = 3, .min = 1e-10, .max = 1e10},
    [ROW_BOUND] = {.name = "bound", .fallback = 10, .min = 1e-10, .max = 1e10},
    {0},
};

float optimizer_adagrad_row_state_init(const struct graph_optimizer *o, uint32_t state)
{
    (void)o, (void)state;
    return 0;
}

float optimizer_adagrad_row_rate(const struct graph_optimizer *o, float rate, float g2sum)
{
    float initial = o->param[ROW_INITIAL_G2SUM];
    return rate * sqrtf(initial / (initial + g2sum));
}

void optimizer_adagrad_row_update(const struct graph_optimizer *o, float *weight, float *state, const float *grad,
                                  size_t count, float scale, float rate, uint64_t t)
{
    (void)t;
    float row_rate = optimizer_adagrad_row_rate(o, rate, *state), bound = o->param[ROW_BOUND];
    double squares[OPTIMIZER_SQUARES] = {0};
    for (size_t i = 0; i < count; i++) {
        float g = optimizer_gradient(o, weight[i], grad[i], scale);
        float w = weight[i] - row_rate * g;
        weight[i] = w > bound ? bound : w < -bound ? -bound : w;
        squares[i % OPTIMIZER_SQUARES] += (double)g * (double)g;
    }
    *state += (float)(optimizer_squares_total(squares) / (double)count);
}
