/* Counts a step's occurrences of a row's key, and gives a row its vector. Once a row and step. */
#include "graph/row_end.h"

void row_end(const struct table_update *u, uint32_t r)
{
    const struct graph_table *t = u->table;
    float *span = u->span[r];
    if (!t->life.counts || !row_life_step(&t->life, span + graph_table_rule_floats(t), u->period,
                                          u->occurrence_count[r], u->click_count[r]))
        return;
    const float trained = span[0];
    random_fill(span, t->dim, t->init, t->init_scale, u->init, u->key[r]);
    span[0] = trained;
}
