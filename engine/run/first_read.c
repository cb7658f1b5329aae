/* Reads the first lines of the data once more than training does (engine/run/first_read.h). */
#include "engine/run/first_read.h"

#include <stdlib.h>

#include "engine/base/log.h"
#include "engine/base/words.h"
#include "io/read/reader.h"
#include "io/store/store_rows.h"

status first_read(struct crew *crew, const struct setup *setup, const char *paths,
                  void (*look)(void *context, const struct micro_batch *m), void *context, uint64_t *bad_count)
{
    const struct batch_shape shape = graph_batch(&setup->graph);
    const struct example_shape example = graph_example(&setup->graph);
    struct reader_options options = crew_feed_options(crew, paths).reader;
    struct arena arena;
    struct micro_batch m;
    struct reader *reader = NULL;
    bool is_end;
    options.readers = 1;
    options.processor_count = 0;
    TRY(arena_open(&arena, "reader", micro_batch_bytes(shape, example)));
    micro_batch_place(&m, &arena, shape, example);
    status st = reader_open(&reader, &options);
    if (st == ST_OK) st = reader_start(reader, 0);
    if (st == ST_OK) st = reader_fill(reader, &m, shape.micro, &is_end);
    *bad_count = reader ? reader_counts(reader).bad_count : 0;
    if (st == ST_OK && look != NULL) look(context, &m);
    reader_close(reader);
    arena_close(&arena);
    return st;
}

/* --- rows to start from ------------------------------------------------------------------------- */

/* So many keys, none of which has a row, are no accident. */
#define KEYS_MANY 100u

struct rows_look {
    const struct setup *setup;
    uint8_t *serves; /* [field_count] */
    uint32_t example_count;
    uint64_t key[KEYS_MANY]; /* of the table that is looked at: different ones */
    /* of tables with rows: different keys, up to KEYS_MANY; whether one has a row */
    uint32_t key_count[GRAPH_TABLES_MAX];
    bool is_found[GRAPH_TABLES_MAX];
};

/* A key counts once: data may be sorted. */
static void key_count(struct rows_look *l, uint32_t table, uint64_t key)
{
    const uint32_t count = l->key_count[table];
    uint32_t i = 0;
    while (i < count && l->key[i] != key) i++;
    if (i == count && count < KEYS_MANY) l->key[l->key_count[table]++] = key;
}

static void rows_look(void *context, const struct micro_batch *m)
{
    struct rows_look *l = context;
    const struct graph *g = &l->setup->graph;
    const struct model *model = &l->setup->model;
    const struct store *store = model->store;
    l->example_count = m->example_count;
    for (uint32_t t = 0; t < g->table_count; t++) {
        if (store_row_count(store, t) == 0) continue;
        graph_table_serves(g, t, l->serves);
        for (uint32_t i = 0; i < m->example_count * g->field_count; i++) {
            if (!l->serves[i % g->field_count]) continue;
            for (uint32_t k = m->key_begin[i]; k < m->key_begin[i + 1]; k++) {
                if (!model_share_has(&model->share, t, m->key[k])) continue;
                key_count(l, t, m->key[k]);
                l->is_found[t] |= store_has(store, t, m->key[k]);
            }
        }
    }
}

static status rows_judge(const struct rows_look *l, const char *paths, const char *init)
{
    const struct graph *g = &l->setup->graph;
    uint32_t keys = 0;
    bool is_found = false;
    for (uint32_t t = 0; t < g->table_count; t++) {
        keys += l->key_count[t];
        is_found |= l->is_found[t];
    }
    if (keys >= KEYS_MANY && !is_found)
        FAIL(MISMATCH,
             "%s: no row of it is one of the keys of the first %s of %s, %u different ones or more: the keys were made "
             "by another rule, of columns of other names, or of other texts (io/README.md says how a key is made)",
             init, words_plural(WORDS, l->example_count, "example"), paths, KEYS_MANY);
    for (uint32_t t = 0; t < g->table_count; t++)
        if (l->key_count[t] == KEYS_MANY && !l->is_found[t])
            log_warning("%s: none of the keys of table %s in the first %s of %s, %u different ones or more, has a row "
                        "of it",
                        init, graph_string(g, g->tables[t].name), words_plural(WORDS, l->example_count, "example"),
                        paths, KEYS_MANY);
    return ST_OK;
}

status first_rows_check(struct crew *crew, const struct setup *setup, const char *paths, const char *init)
{
    uint64_t bad_count;
    if (store_has_home(setup->model.store)) return ST_OK;
    struct rows_look look = {.setup = setup, .serves = calloc((size_t)setup->graph.field_count + 1, 1)};
    if (look.serves == NULL) FAIL(MEMORY, "no memory to list the fields of tables");
    status st = first_read(crew, setup, paths, rows_look, &look, &bad_count);
    free(look.serves);
    if (st == ST_OK) st = rows_judge(&look, paths, init);
    return st;
}
