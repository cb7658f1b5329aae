/* Gradients of parameters that several nodes use (graph/graph.h: aliases). Each use adds to a place of its own; before an update, or anything
 * else that reads an owner's gradient, the uses are added up. */
#ifndef HETERPS_ENGINE_ALIAS_H
#define HETERPS_ENGINE_ALIAS_H

#include "graph/graph.h"

/* In each lane adds the gradients of the aliases' floats within [begin, end) of the parameters to their owners', alias after alias, and
 * clears them. `param_grad` [lanes]: of header->grad_floats. Cost: a visit of these gradients by one thread; none without aliases. */
void aliases_fold(const struct graph_alias *aliases, uint32_t alias_count, float *const *param_grad, uint32_t lanes,
                  uint64_t begin, uint64_t end);

#endif
