/* Sorts the rows of a model's own store (engine/model/model_sorted.h), a few times a run. */
#include "engine/model/model_sorted.h"

#include <stdlib.h>
#include <string.h>

#include "io/store/store_life.h"
#include "io/store/store_rows.h"

static const char part[] = "order of rows";

static bool is_worth(const struct model *m, uint32_t table, const float *span, const struct model_sorted_filter *filter)
{
    const struct graph_table *t = &m->graph->tables[table];
    if (!filter->has_score) return true;
    return row_life_score(&t->life, span + graph_table_rule_floats(t), model_period(m->graph, m->progress.step)) >=
           filter->score;
}

static status keys_list(struct model_sorted_own *own, uint32_t table, const struct model_sorted_filter *filter)
{
    struct store *store = own->model->store;
    uint64_t *keys = own->keys[table].key, key, used = 0, left_out = 0;
    const uint64_t count = own->keys[table].room;
    struct store_walk walk;
    const float *span = NULL;
    status st = store_walk_open(&walk, store, table, count, 0);
    for (uint64_t i = 0; i < count && st == ST_OK; i++) {
        st = store_walk_next(&walk, &key, &span);
        if (st != ST_OK) break;
        if (is_worth(own->model, table, span, filter))
            keys[used++] = key;
        else
            left_out++;
    }
    store_walk_close(&walk);
    store_keys_sort(keys, used);
    own->sorted.table[table].row_count = used;
    own->sorted.table[table].left_out = left_out;
    return st;
}

static status own_open(struct model_sorted *sorted, uint32_t table, const struct model_sorted_filter *filter)
{
    struct model_sorted_own *own = (struct model_sorted_own *)sorted;
    const struct graph *g = own->model->graph;
    const uint64_t count = store_row_count(own->model->store, table);
    void *block;
    if (filter->has_score && !g->tables[table].life.counts)
        FAIL(INVALID,
             "--score: rows of table %s have no score, "
             "for its [table] asks for no rule that counts them (delete_score, ttl, rows, …)",
             graph_string(g, g->tables[table].name));
    TRY(memory_take(part, count * sizeof *own->keys->key, &block));
    own->keys[table].key = block;
    own->keys[table].room = count;
    return keys_list(own, table, filter);
}

static status own_begin(struct model_sorted *sorted, uint32_t table, bool has_vectors)
{
    struct model_sorted_own *own = (struct model_sorted_own *)sorted;
    own->at_table = table;
    own->at = own->copied = 0;
    own->has_vectors = has_vectors;
    return ST_OK;
}

static status own_next(struct model_sorted *sorted, uint64_t *key, const float **vector)
{
    struct model_sorted_own *own = (struct model_sorted_own *)sorted;
    const uint32_t table = own->at_table;
    const struct graph_table *t = &own->model->graph->tables[table];
    const uint64_t count = sorted->table[table].row_count, *keys = own->keys[table].key;
    CHECK(own->at < count);
    if (own->has_vectors && own->at == own->copied) {
        const uint64_t left = count - own->at;
        const uint32_t more = left < MODEL_SORTED_AT_ONCE ? (uint32_t)left : MODEL_SORTED_AT_ONCE;
        TRY(store_copy(own->model->store, table, keys + own->at, more, own->spans));
        own->copied += more;
    }
    if (own->has_vectors) {
        row_vector_read(t, own->spans + own->at % MODEL_SORTED_AT_ONCE * t->span_floats, own->vector);
        *vector = own->vector;
    }
    *key = keys[own->at++];
    return ST_OK;
}

static void own_close(struct model_sorted *sorted, uint32_t table)
{
    struct model_sorted_own *own = (struct model_sorted_own *)sorted;
    if (own->keys[table].key) memory_give(part, own->keys[table].key, own->keys[table].room * sizeof *own->keys->key);
    own->keys[table].key = NULL;
}

status model_sorted_own_open(struct model_sorted_own *own, const struct model *model)
{
    static const struct model_sorted_vt vt = {own_open, own_begin, own_next, own_close};
    const struct graph *g = model->graph;
    uint32_t floats = 0, dim = 0;
    *own = (struct model_sorted_own){.sorted = {.vt = &vt}, .model = model};
    for (uint32_t table = 0; table < g->table_count; table++) {
        if (g->tables[table].span_floats > floats) floats = g->tables[table].span_floats;
        if (g->tables[table].dim > dim) dim = g->tables[table].dim;
    }
    own->spans = malloc(((size_t)MODEL_SORTED_AT_ONCE * floats + dim) * sizeof *own->spans + 1);
    own->vector = own->spans + (size_t)MODEL_SORTED_AT_ONCE * floats;
    if (own->spans == NULL) FAIL(MEMORY, "no memory for %u rows", MODEL_SORTED_AT_ONCE);
    return ST_OK;
}

void model_sorted_own_close(struct model_sorted_own *own)
{
    for (uint32_t table = 0; table < GRAPH_TABLES_MAX && own->model; table++) own_close(&own->sorted, table);
    free(own->spans);
    *own = (struct model_sorted_own){0};
}
