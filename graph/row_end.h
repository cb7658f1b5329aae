/* The end of a step for one row of a table whose rows come and go: its counters, and its vector once its
 * score is high enough. One code for every instruction set, so the bits are the same. */
#ifndef HETERPS_GRAPH_ROW_END_H
#define HETERPS_GRAPH_ROW_END_H

#include "graph/device.h"

/* Columns of the row that the step trains: one, as long as the row has no vector. */
static inline uint32_t row_trained_columns(const struct table_update *u, const float *span)
{
    const struct graph_table *t = u->table;
    if (!t->life.counts || row_counters_get(span + graph_table_rule_floats(t)).has_vector) return t->dim;
    return 1;
}

/* Ends the step for row r of the update, after its rule. */
void row_end(const struct table_update *u, uint32_t r);

#endif
