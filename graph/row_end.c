/* Counts a step's occurrences of a row's key, and gives a row its vector. Once a row and step. */
#include "graph/row_end.h"

#include "graph/row_vector.h"

void row_end(const struct table_update *u, uint32_t r)
{
    const struct graph_table *t = u->table;
    float *span = u->span[r];
    if (!t->life.counts || !row_life_step(&t->life, span + graph_table_rule_floats(t), u->period,
                                          u->occurrence_count[r], u->click_count[r]))
        return;
    const float trained = row_vector_get(t, span, 0);
    row_vector_begin(t, span, t->dim, u->init, u->key[r]);
    row_vector_put(t, span, 0, trained);
}
