/* Adds up the gradients of several uses of a parameter. Once a step, before its update. */
#include "graph/alias.h"

void aliases_fold(const struct graph_alias *aliases, uint32_t alias_count, float *const *param_grad, uint32_t lanes,
                  uint64_t begin, uint64_t end)
{
    for (uint32_t a = 0; a < alias_count; a++) {
        struct graph_alias alias = aliases[a];
        if (!alias_cut(&alias, begin, end)) continue;
        for (uint32_t lane = 0; lane < lanes; lane++) {
            float *restrict owner = param_grad[lane] + alias.offset, *restrict use = param_grad[lane] + alias.grad;
            for (uint64_t i = 0; i < alias.count; i++) {
                owner[i] += use[i];
                use[i] = 0;
            }
        }
    }
}
