/* Gradients of parameters that several nodes use (graph/graph.h: aliases). Each use adds to a gradient of its
 * own; the uses are added up before an update, or before anything else reads the owner's gradient. */
#ifndef HETERPS_GRAPH_ALIAS_H
#define HETERPS_GRAPH_ALIAS_H

#include <stdbool.h>

#include "graph/graph.h"

/* Cuts an alias to the floats [begin, end) of the parameters; false: nothing of it lies there. */
static inline bool alias_cut(struct graph_alias *alias, uint64_t begin, uint64_t end)
{
    const uint64_t first = begin > alias->offset ? begin : alias->offset,
                   behind = end < alias->offset + alias->count ? end : alias->offset + alias->count;
    if (first >= behind) return false;
    alias->grad += first - alias->offset;
    alias->offset = first;
    alias->count = behind - first;
    return true;
}

/* In each lane, adds the gradients of all aliases within floats [begin, end) of the parameters to their
 * owners' gradients, alias after alias, and clears them. `param_grad` [lanes]: of header->grad_floats. Cost:
 * one thread visits these gradients once; nothing without aliases. */
void aliases_fold(const struct graph_alias *aliases, uint32_t alias_count, float *const *param_grad, uint32_t lanes,
                  uint64_t begin, uint64_t end);

#endif
