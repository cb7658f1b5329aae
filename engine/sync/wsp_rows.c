/* Rows of waves: a hash table of the rows that own waves have changed, and sums. Thousands of rows a wave. */
#include "engine/sync/wsp_rows.h"

#include <string.h>

#include "io/store/store_save.h"
#include "io/store/store_ticket.h"

/* --- letters ------------------------------------------------------------------------------------ */

uint64_t wave_rows_max(const struct sync_site *site, uint32_t table)
{
    return (uint64_t)site->in_flight * site->graph->header->micro * site->graph->tables[table].key_count_max;
}

size_t letter_rows_bytes(const struct graph *g, uint64_t table, uint64_t count)
{
    const size_t floats = count * g->tables[table].span_floats;
    return sizeof(struct letter_rows) + count * sizeof(uint64_t) + ((floats + 1) & ~(size_t)1) * sizeof(float);
}

bool letter_rows_at(const struct graph *g, const uint8_t *letter, size_t bytes, size_t at, struct letter_rows *rows)
{
    if (bytes - at < sizeof *rows) return false;
    memcpy(rows, letter + at, sizeof *rows);
    return rows->table < g->table_count && rows->count <= UINT32_MAX &&
           letter_rows_bytes(g, rows->table, rows->count) <= bytes - at;
}

/* --- own rows ----------------------------------------------------------------------------------- */

/* Besides the wave under way and one that is being sent, at most D + 1 own waves have no round here yet. */
void own_rows_layout(struct own_rows *out, struct layout *l, const struct sync_site *site, uint32_t table)
{
    const size_t floats = site->graph->tables[table].span_floats;
    struct own_rows rows = {.of_wave_max = (uint32_t)wave_rows_max(site, table), .free = ROW_NONE, .bucket_mask = 1};
    rows.max = rows.of_wave_max * (site->clock_distance + 3);
    while (rows.bucket_mask < rows.max) rows.bucket_mask *= 2;
    LAYOUT_TAKE(l, rows.bucket, rows.bucket_mask);
    LAYOUT_TAKE(l, rows.row, rows.max);
    LAYOUT_TAKE(l, rows.settled, rows.max * floats);
    LAYOUT_TAKE(l, rows.base, rows.max * floats);
    LAYOUT_TAKE(l, rows.of_wave, rows.of_wave_max);
    rows.found_max = site->graph->header->micro * site->graph->tables[table].key_count_max;
    LAYOUT_TAKE(l, rows.found.row, rows.found_max);
    LAYOUT_TAKE(l, rows.found.span, rows.found_max);
    LAYOUT_TAKE(l, rows.found.occurrence_begin, rows.found_max + 1);
    LAYOUT_TAKE(l, rows.unique, rows.found_max);
    rows.bucket_mask--;
    if (!l->arena) return;
    for (uint32_t i = 0; i <= rows.bucket_mask; i++) rows.bucket[i] = ROW_NONE;
    *out = rows;
}

static uint32_t *bucket_of(const struct own_rows *rows, const float *span)
{
    return &rows->bucket[(((uintptr_t)span >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 32) & rows->bucket_mask];
}

/* The number of the row of this span, or ROW_NONE. */
static uint32_t own_row_of(const struct own_rows *rows, const float *span)
{
    uint32_t row = *bucket_of(rows, span);
    while (row != ROW_NONE && rows->row[row].span != span) row = rows->row[row].next;
    return row;
}

static uint32_t own_row_make(struct own_rows *rows, float *span, uint64_t key, uint32_t floats)
{
    uint32_t *bucket = bucket_of(rows, span), row = rows->free;
    if (row == ROW_NONE)
        row = rows->used++;
    else
        rows->free = rows->row[row].next;
    CHECK(row < rows->max);
    rows->row[row] = (struct own_row){.span = span, .key = key, .last_wave = UINT64_MAX, .next = *bucket};
    memcpy(rows->settled + (size_t)row * floats, span, floats * sizeof *span);
    *bucket = row;
    rows->count++;
    return row;
}

static void own_row_drop(struct own_rows *rows, uint32_t row)
{
    uint32_t *at = bucket_of(rows, rows->row[row].span);
    while (*at != row) at = &rows->row[*at].next;
    *at = rows->row[row].next;
    rows->row[row].next = rows->free;
    rows->free = row;
    rows->count--;
}

static void floats_add(float *to, const float *change, uint32_t floats)
{
    for (uint32_t i = 0; i < floats; i++) to[i] += change[i];
}

/* Adds what another node has changed of a row. */
static void row_add(const struct own_rows *rows, uint64_t own_wave, float *span, const float *change, uint32_t floats)
{
    const uint32_t row = own_row_of(rows, span);
    floats_add(span, change, floats);
    if (row == ROW_NONE) return;
    floats_add(rows->settled + (size_t)row * floats, change, floats);
    if (rows->row[row].last_wave == own_wave) floats_add(rows->base + (size_t)row * floats, change, floats);
}

/* Adds what this node itself has changed of a row; with the last own wave the row is as on all nodes. */
static void own_row_add(struct own_rows *rows, uint64_t round, float *span, const float *change, uint32_t floats)
{
    const uint32_t row = own_row_of(rows, span);
    CHECK(row != ROW_NONE);
    float *settled = rows->settled + (size_t)row * floats;
    floats_add(settled, change, floats);
    if (rows->row[row].last_wave != round) return;
    memcpy(span, settled, floats * sizeof *span);
    own_row_drop(rows, row);
}

void own_rows_note(struct own_rows *rows, const struct step_rows *step, uint64_t wave, uint32_t floats)
{
    for (uint32_t r = 0; r < step->row_count; r++) {
        float *span = step->span[r];
        uint32_t row = own_row_of(rows, span);
        if (row == ROW_NONE) row = own_row_make(rows, span, step->key[r], floats);
        if (rows->row[row].last_wave == wave) continue;
        rows->row[row].last_wave = wave;
        memcpy(rows->base + (size_t)row * floats, span, floats * sizeof *span);
        CHECK(rows->of_wave_count < rows->of_wave_max);
        rows->of_wave[rows->of_wave_count++] = row;
    }
}

size_t own_rows_write(struct own_rows *rows, const struct graph *g, uint32_t table, uint8_t *at)
{
    const struct letter_rows head = {.table = table, .count = rows->of_wave_count};
    const uint32_t floats = g->tables[table].span_floats;
    if (head.count == 0) return 0;
    uint64_t *key = (uint64_t *)(void *)(at + sizeof head);
    float *change = (float *)(void *)(key + head.count);
    memcpy(at, &head, sizeof head);
    for (uint32_t r = 0; r < head.count; r++) {
        const uint32_t row = rows->of_wave[r];
        const float *base = rows->base + (size_t)row * floats;
        key[r] = rows->row[row].key;
        for (uint32_t i = 0; i < floats; i++) *change++ = rows->row[row].span[i] - base[i];
    }
    if (head.count * floats % 2) *change = 0;
    rows->of_wave_count = 0;
    return letter_rows_bytes(g, table, head.count);
}

static status rows_find(struct own_rows *rows, struct store *store, uint32_t table, const uint64_t *key, uint32_t count)
{
    struct ticket ticket = {0};
    const struct asked_keys asked = {.key = key, .count = count, .unique = rows->unique};
    TRY(store_resolve_begin(store));
    TRY(store_resolve(store, table, STORE_CREATE, &asked, &rows->found));
    return store_resolve_end(store, STORE_CREATE, false, &ticket);
}

status own_rows_add(struct own_rows *rows, const struct round_rows *of)
{
    const struct graph_table *table = &of->graph->tables[of->table];
    const uint32_t floats = table->span_floats;
    const float *change = (const float *)(const void *)(of->key + of->count);
    for (uint32_t first = 0, some; first < of->count; first += some) {
        some = of->count - first < rows->found_max ? of->count - first : rows->found_max;
        pthread_mutex_lock(of->store_lock);
        const status st = rows_find(rows, of->store, of->table, of->key + first, some);
        pthread_mutex_unlock(of->store_lock);
        TRY(st);
        if (rows->found.unique_count != some)
            FAIL(INVALID, "a wave has a row of table \"%s\" twice: not all nodes run the same program",
                 graph_string(of->graph, table->name));
        store_rows_change(of->store, of->table, rows->found.span, some);
        for (uint32_t i = 0; i < some; i++, change += floats) {
            if (of->is_own)
                own_row_add(rows, of->round, rows->found.span[i], change, floats);
            else
                row_add(rows, of->own_wave, rows->found.span[i], change, floats);
        }
    }
    return ST_OK;
}
