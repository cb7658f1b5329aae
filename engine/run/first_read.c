/* Reads the first lines of the data before training does. Lines of a stream are looked at when training reads
 * them (engine/run/first_read.h). */
#include "engine/run/first_read.h"

#include <stdlib.h>

#include "engine/base/log.h"
#include "engine/base/words.h"
#include "io/read/reader.h"
#include "io/store/store_rows.h"

status first_read(struct crew *crew, const struct setup *setup, const char *paths, enum reader_part lines,
                  feed_looker *look, void *context, uint64_t *bad_count)
{
    const struct batch_shape shape = graph_batch(&setup->graph);
    const struct example_shape example = graph_example(&setup->graph);
    struct reader_options options = crew_feed_options(crew, paths).reader;
    struct arena arena;
    struct micro_batch m;
    struct reader *reader = NULL;
    bool is_end = false, is_enough = false;
    options.lines = lines;
    options.readers = 1;
    options.processor_count = 0;
    TRY(arena_open(&arena, "reader", micro_batch_bytes(shape, example)));
    micro_batch_place(&m, &arena, shape, example);
    status st = reader_open(&reader, &options);
    if (st == ST_OK) st = reader_start(reader, 0);
    while (st == ST_OK && !is_end && !is_enough) {
        micro_batch_clear(&m);
        st = reader_fill(reader, &m, shape.micro, &is_end);
        if (st == ST_OK && look != NULL) st = look(context, &m, is_end, &is_enough);
        is_enough |= look == NULL;
    }
    *bad_count = reader ? reader_counts(reader).bad_count : 0;
    reader_close(reader);
    arena_close(&arena);
    return st;
}

/* --- rows to start from ------------------------------------------------------------------------- */

/* If none of this many keys has a row, it is no accident. */
#define KEYS_MANY 100u
/* Where keys are fewer, this many examples are looked at, because data may be sorted. */
#define EXAMPLES_MANY 10000u

struct first_rows {
    const struct setup *setup;
    const char *paths, *init;
    uint8_t *serves; /* [field_count] */
    uint64_t *key;   /* [table_count, KEYS_MANY]: distinct keys */
    uint64_t example_count;
    /* of each table: distinct keys, up to KEYS_MANY; whether it has rows; whether a key has one */
    uint32_t key_count[GRAPH_TABLES_MAX];
    bool has_rows[GRAPH_TABLES_MAX], is_found[GRAPH_TABLES_MAX];
};

/* Counts and looks up each key once: when a key comes again, in another micro-batch,
 * training may have made a row for it. */
static void key_look(struct first_rows *l, uint32_t table, uint64_t key)
{
    const uint32_t count = l->key_count[table];
    uint64_t *keys = &l->key[(size_t)table * KEYS_MANY];
    for (uint32_t i = 0; i < count; i++)
        if (keys[i] == key) return;
    if (count < KEYS_MANY) keys[l->key_count[table]++] = key;
    l->is_found[table] |= store_has(l->setup->model.store, table, key);
}

static void table_look(struct first_rows *l, uint32_t table, const struct micro_batch *m)
{
    const struct graph *g = &l->setup->graph;
    graph_table_serves(g, table, l->serves);
    for (uint32_t i = 0; i < m->example_count * g->field_count; i++) {
        if (!l->serves[i % g->field_count]) continue;
        for (uint32_t k = m->key_begin[i]; k < m->key_begin[i + 1] && !l->is_found[table]; k++)
            if (model_share_has(&l->setup->model.share, table, m->key[k])) key_look(l, table, m->key[k]);
    }
}

static status rows_judge(const struct first_rows *l, bool is_end)
{
    const struct graph *g = &l->setup->graph;
    uint32_t keys = 0;
    bool is_found = false;
    char number[27];
    for (uint32_t t = 0; t < g->table_count; t++) {
        keys += l->key_count[t];
        is_found |= l->is_found[t];
    }
    const char *examples = words_plural(WORDS, l->example_count, "example");
    if (keys > 0 && (keys >= KEYS_MANY || is_end) && !is_found)
        FAIL(MISMATCH,
             "%s: expected rows for keys of the first %s of %s, found none for any of %s keys%s: its keys were made by "
             "another rule, from columns of other names, or from other texts (io/README.md says how a key is made)",
             l->init, examples, l->paths, words_whole(number, keys), is_end ? "" : " or more");
    for (uint32_t t = 0; t < g->table_count; t++)
        if (l->key_count[t] > 0 && !l->is_found[t])
            log_warning("%s: table %s, first %s of %s: none of %s keys%s has a row, so training begins them anew",
                        l->init, graph_string(g, g->tables[t].name), examples, l->paths,
                        words_whole(number, l->key_count[t]), is_end || l->key_count[t] < KEYS_MANY ? "" : " or more");
    return ST_OK;
}

status first_rows_look(void *rows, const struct micro_batch *m, bool is_end, bool *is_enough)
{
    struct first_rows *l = rows;
    const uint32_t table_count = l->setup->graph.table_count;
    l->example_count += m->example_count;
    *is_enough = true;
    for (uint32_t t = 0; t < table_count; t++) {
        if (l->has_rows[t] && !l->is_found[t] && l->key_count[t] < KEYS_MANY) table_look(l, t, m);
        *is_enough &= !l->has_rows[t] || l->is_found[t] || l->key_count[t] == KEYS_MANY;
    }
    *is_enough |= is_end || l->example_count >= EXAMPLES_MANY;
    return *is_enough ? rows_judge(l, is_end) : ST_OK;
}

status first_rows_open(struct first_rows **out, const struct setup *setup, const char *paths, const char *init)
{
    const struct graph *g = &setup->graph;
    struct first_rows *l = *out = calloc(1, sizeof *l);
    if (l == NULL) FAIL(MEMORY, "no memory to look at first keys");
    l->setup = setup;
    l->paths = paths;
    l->init = init;
    l->serves = calloc((size_t)g->field_count + 1, 1);
    l->key = calloc((size_t)g->table_count * KEYS_MANY + 1, sizeof *l->key);
    for (uint32_t t = 0; t < g->table_count; t++) l->has_rows[t] = store_row_count(setup->model.store, t) > 0;
    if (l->serves && l->key) return ST_OK;
    first_rows_close(l);
    *out = NULL;
    FAIL(MEMORY, "no memory to list the fields and first keys of tables");
}

void first_rows_close(struct first_rows *l)
{
    if (l == NULL) return;
    free(l->serves);
    free(l->key);
    free(l);
}

status first_rows_check(struct crew *crew, const struct setup *setup, const char *paths, const char *init)
{
    struct first_rows *rows;
    uint64_t bad_count;
    if (store_has_home(setup->model.store)) return ST_OK;
    TRY(first_rows_open(&rows, setup, paths, init));
    const enum reader_part lines = setup->settings.data_eval_fraction > 0 ? READER_TRAIN : READER_ALL;
    status st = first_read(crew, setup, paths, lines, first_rows_look, rows, &bad_count);
    first_rows_close(rows);
    return st;
}
