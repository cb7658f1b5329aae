/* Adds up what several uses of a parameter have added to their gradients. Once a step, before its update. */
#include "engine/alias.h"

void aliases_fold(const struct graph_alias *aliases, uint32_t alias_count, float *const *param_grad, uint32_t lanes,
                  uint64_t begin, uint64_t end)
{
    for (uint32_t a = 0; a < alias_count; a++) {
        const struct graph_alias *alias = &aliases[a];
        uint64_t first = begin > alias->offset ? begin : alias->offset,
                 behind = end < alias->offset + alias->count ? end : alias->offset + alias->count;
        for (uint32_t lane = 0; lane < lanes && first < behind; lane++) {
            float *restrict owner = param_grad[lane] + first, *restrict use = param_grad[lane] + alias->grad +
                                                                              (first - alias->offset);
            for (uint64_t i = 0; i < behind - first; i++) {
                owner[i] += use[i];
                use[i] = 0;
            }
        }
    }
}
