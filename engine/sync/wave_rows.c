/* Rows of waves at their owner: once a wave and worker, and once a minibatch and worker, thousands of
 * rows. */
#include "engine/sync/wave_rows.h"

#include <inttypes.h>
#include <string.h>

#include "io/store/store_ticket.h"

void wave_rows_layout(struct wave_rows *out, struct layout *l, const struct sync_site *site, uint32_t places)
{
    const struct graph *g = site->graph;
    struct wave_rows rows = {.site = site};
    uint32_t floats = 0;
    if (g->table_count == 0) return;
    rows.found_max = g->header->micro * graph_example(g).key_count_max;
    for (uint32_t t = 0; t < g->table_count; t++)
        if (g->tables[t].span_floats > floats) floats = g->tables[t].span_floats;
    LAYOUT_TAKE(l, rows.found.row, rows.found_max);
    LAYOUT_TAKE(l, rows.found.span, rows.found_max);
    LAYOUT_TAKE(l, rows.found.occurrence_begin, rows.found_max + 1);
    LAYOUT_TAKE(l, rows.found.scratch, (size_t)rows.found_max * floats);
    LAYOUT_TAKE(l, rows.unique, rows.found_max);
    LAYOUT_TAKE(l, rows.round, places);
    LAYOUT_TAKE(l, rows.worker, places);
    if (site->is_exact) LAYOUT_TAKE(l, rows.late, g->table_count);
    for (uint32_t t = 0; t < g->table_count && site->is_exact; t++) {
        struct late_rows late = {.wave_max = (uint32_t)wave_rows_max(site, t)};
        row_chains_layout(&late.chains, l, (size_t)places * late.wave_max);
        LAYOUT_TAKE(l, late.change, places);
        if (l->arena) rows.late[t] = late;
    }
    if (l->arena) *out = rows;
}

/* --- changes that wait for their round ---------------------------------------------------------- */

/* Whether a change comes before those of a letter. */
static bool is_before(const struct wave_rows *rows, uint32_t place, const struct wave_letter *letter)
{
    return rows->round[place] < letter->round ||
           (rows->round[place] == letter->round && rows->worker[place] < letter->worker);
}

static void late_put(const struct wave_rows *rows, struct late_rows *late, const struct wave_letter *letter,
                     const uint64_t *key, uint32_t count)
{
    late->change[letter->place] = (const float *)(const void *)(key + count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t *at = row_chain(&late->chains, key[i]);
        while (*at != ROW_NONE && is_before(rows, *at / late->wave_max, letter)) at = &late->chains.next[*at];
        row_chain_put(&late->chains, at, letter->place * late->wave_max + i, key[i]);
    }
}

/* Adds what waves below `until` have changed of a row to its value. */
static void late_add(const struct wave_rows *rows, const struct late_rows *late, uint64_t key, uint64_t until,
                     float *to, uint32_t floats)
{
    for (uint32_t c = *row_chain(&late->chains, key); c != ROW_NONE; c = late->chains.next[c]) {
        const uint32_t place = c / late->wave_max;
        if (late->chains.key[c] != key || rows->round[place] >= until) continue;
        const float *change = late->change[place] + (size_t)(c % late->wave_max) * floats;
        for (uint32_t i = 0; i < floats; i++) to[i] += change[i];
    }
}

/* --- letters ------------------------------------------------------------------------------------ */

/* Goes to the letter's rows of the next table, behind byte *at; false: no valid rows are there. */
static bool letter_next(const struct wave_rows *rows, const struct wave_letter *letter, size_t *at,
                        struct letter_rows *of, const uint64_t **key)
{
    const struct graph *g = rows->site->graph;
    if (!letter_rows_at(g, letter->at, letter->bytes, *at, of)) return false;
    *key = (const uint64_t *)(const void *)(letter->at + *at + sizeof *of);
    *at += letter_rows_bytes(g, of->table, of->count);
    return true;
}

static status owner_check(const struct wave_rows *rows, uint32_t table, const uint64_t *key, uint64_t count)
{
    const struct model_share *share = &rows->site->model->share;
    const struct graph *g = rows->site->graph;
    for (uint64_t i = 0; i < count; i++)
        if (!model_share_has(share, table, key[i]))
            FAIL(INVALID,
                 "a row of table \"%s\" whose owner is node %u was sent to node %u: nodes do not share rows in the "
                 "same way",
                 graph_string(g, g->tables[table].name), model_share_owner(share, table, key[i]), share->owner);
    return ST_OK;
}

/* Tables come in order, each at most once. */
static status letter_check(const struct wave_rows *rows, const struct wave_letter *letter)
{
    uint64_t table_next = 0;
    struct letter_rows of;
    const uint64_t *key;
    for (size_t at = letter->begin; at < letter->bytes; table_next = of.table + 1) {
        if (!letter_next(rows, letter, &at, &of, &key) || of.count > wave_rows_max(rows->site, (uint32_t)of.table))
            FAIL(INVALID, "node %u sent rows of a wave that cannot be right: it does not run the same program",
                 letter->worker);
        if (of.table < table_next)
            FAIL(INVALID, "node %u sent rows of a table twice in a wave, or out of order", letter->worker);
        TRY(owner_check(rows, (uint32_t)of.table, key, of.count));
    }
    return ST_OK;
}

status wave_rows_come(struct wave_rows *rows, const struct wave_letter *letter)
{
    struct letter_rows of;
    const uint64_t *key;
    if (rows->site == NULL && letter->begin < letter->bytes)
        FAIL(INVALID, "node %u sent rows of a wave, and there are no tables", letter->worker);
    if (rows->site == NULL) return ST_OK;
    TRY(letter_check(rows, letter));
    rows->round[letter->place] = letter->round;
    rows->worker[letter->place] = letter->worker;
    for (size_t at = letter->begin; rows->late && at < letter->bytes;) {
        CHECK(letter_next(rows, letter, &at, &of, &key));
        late_put(rows, &rows->late[of.table], letter, key, (uint32_t)of.count);
    }
    return ST_OK;
}

/* Finds rows of a table, at most found_max, each once. */
static status rows_find(struct wave_rows *rows, uint32_t table, enum store_mode mode, const uint64_t *key,
                        uint32_t count)
{
    struct store *store = rows->site->model->store;
    struct ticket ticket = {0};
    const struct asked_keys asked = {.key = key, .count = count, .unique = rows->unique};
    TRY(store_resolve_begin(store));
    TRY(store_resolve(store, table, mode, &asked, &rows->found));
    TRY(store_resolve_end(store, mode, false, &ticket));
    if (rows->found.unique_count != count)
        FAIL(INVALID, "a wave has a row of table \"%s\" twice: not all nodes run the same program",
             graph_string(rows->site->graph, rows->site->graph->tables[table].name));
    return ST_OK;
}

static status table_add(struct wave_rows *rows, uint32_t table, const uint64_t *key, uint32_t count)
{
    const uint32_t floats = rows->site->graph->tables[table].span_floats;
    const float *change = (const float *)(const void *)(key + count);
    for (uint32_t first = 0, some; first < count; first += some) {
        some = count - first < rows->found_max ? count - first : rows->found_max;
        TRY(rows_find(rows, table, STORE_CREATE, key + first, some));
        for (uint32_t i = 0; i < some; i++, change += floats)
            for (uint32_t f = 0; f < floats; f++) rows->found.span[i][f] += change[f];
    }
    return ST_OK;
}

status wave_rows_add(struct wave_rows *rows, const struct wave_letter *letter)
{
    struct letter_rows of;
    const uint64_t *key;
    for (size_t at = letter->begin; rows->site && at < letter->bytes;) {
        CHECK(letter_next(rows, letter, &at, &of, &key));
        for (uint32_t i = 0; rows->late && i < of.count; i++)
            row_chain_take(&rows->late[of.table].chains, letter->place * rows->late[of.table].wave_max + i);
        TRY(table_add(rows, (uint32_t)of.table, key, (uint32_t)of.count));
    }
    return ST_OK;
}

status wave_rows_values(struct wave_rows *rows, const struct asked_letter *asked, uint64_t until, float *to)
{
    const struct graph *g = rows->site->graph;
    for (uint32_t t = 0; t < g->table_count; t++) {
        const uint32_t floats = g->tables[t].span_floats, count = asked->count[t];
        TRY(owner_check(rows, t, asked->key[t], count));
        TRY(rows_find(rows, t, STORE_LOOKUP, asked->key[t], count));
        for (uint32_t i = 0; i < count; i++, to += floats) {
            if (rows->found.row[i] == ROW_NONE) /* as it would be made, whatever look-ups give (store_table_options) */
                model_row_init(rows->site->model, t, asked->key[t][i], memset(to, 0, floats * sizeof *to));
            else
                memcpy(to, rows->found.span[i], floats * sizeof *to);
            if (rows->late) late_add(rows, &rows->late[t], asked->key[t][i], until, to, floats);
        }
    }
    return ST_OK;
}
