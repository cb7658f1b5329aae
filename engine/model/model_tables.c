/* Counts the rows of tables. */
#include "engine/model/model_tables.h"

#include "io/store/store_life.h"
#include "io/store/store_rows.h"

static status vectors_count(const struct model *model, uint32_t t, const struct table_account *account, uint32_t ticket,
                            uint64_t *count)
{
    struct store_walk walk;
    const float *span;
    uint64_t key;
    status st = store_walk_open(&walk, model->store, t, account->row_count, ticket);
    while (st == ST_OK && (st = store_walk_next(&walk, &key, &span)) == ST_OK && span != NULL)
        *count += row_counters_get(span + graph_table_rule_floats(&model->graph->tables[t])).has_vector;
    store_walk_close(&walk);
    return st;
}

status model_tables_count(struct model *model, const uint64_t *row_count, uint32_t ticket,
                          struct table_account *accounts)
{
    struct store *store = model->store;
    TRY(store_purge(store));
    for (uint32_t t = 0; t < model->graph->table_count; t++) {
        struct table_account *a = &accounts[t];
        *a = (struct table_account){.row_count = row_count[t],
                                    .life = store_life_counts(store, t),
                                    .store = store_counts(store, t),
                                    .used_bytes = t == 0 ? store_used_bytes(store) : 0};
        if (store_lives(store, t)) a->row_count = store_row_count_at(store, t, row_count[t], ticket);
        if (model->graph->tables[t].life.vector_score > 0) TRY(vectors_count(model, t, a, ticket, &a->vector_count));
    }
    return ST_OK;
}

void model_tables_add(struct table_account *accounts, const struct table_account *more, uint32_t table_count)
{
    _Static_assert(sizeof *accounts % sizeof(uint64_t) == 0, "of such numbers alone");
    for (uint32_t t = 0; t < table_count; t++) {
        const uint64_t evictions = accounts[t].life.evictions, eviction_ns = accounts[t].life.eviction_ns;
        uint64_t *to = (uint64_t *)&accounts[t];
        for (size_t i = 0; i < sizeof *accounts / sizeof *to; i++) to[i] += ((const uint64_t *)&more[t])[i];
        accounts[t].life.evictions = evictions;
        accounts[t].life.eviction_ns = eviction_ns;
    }
}
