/* Gradients of parameters that several nodes use (graph/graph.h: aliases). Each use adds to a place of its own;
 * before an update, or anything else that reads an owner's gradient, the uses are added up. */
#ifndef HETERPS_GRAPH_ALIAS_H
#define HETERPS_GRAPH_ALIAS_H

#include <stdbool.h>

#include "graph/graph.h"

/* Cuts an alias to what it has of the floats [begin, end) of the parameters; false: nothing. */
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

/* In each lane adds the gradients of the aliases' floats within [begin, end) of the parameters to their
 * owners', alias after alias, and clears them. `param_grad` [lanes]: of header->grad_floats. Cost: a visit of
 * these gradients by one thread; none without aliases. */
void aliases_fold(const struct graph_alias *aliases, uint32_t alias_count, float *const *param_grad, uint32_t lanes,
                  uint64_t begin, uint64_t end);

#endif
