/* Own changes: a hash table of keys, in which a key has a change for each wave. Thousands of rows a wave. */
#include "engine/sync/wsp_rows.h"

#include <string.h>

#include "io/store/shard.h"

/* --- letters ------------------------------------------------------------------------------------ */

uint64_t wave_rows_max(const struct sync_site *site, uint32_t table)
{
    return (uint64_t)site->in_flight * site->graph->header->micro * site->graph->tables[table].key_count_max;
}

/* Bytes of floats, in whole words of eight. */
static size_t floats_bytes(size_t floats) { return ((floats + 1) & ~(size_t)1) * sizeof(float); }

size_t letter_rows_bytes(const struct graph *g, uint64_t table, uint64_t count)
{
    return sizeof(struct letter_rows) + count * sizeof(uint64_t) + floats_bytes(count * g->tables[table].span_floats);
}

bool letter_rows_at(const struct graph *g, const uint8_t *letter, size_t bytes, size_t at, struct letter_rows *rows)
{
    if (bytes - at < sizeof *rows) return false;
    memcpy(rows, letter + at, sizeof *rows);
    return rows->table < g->table_count && rows->count <= UINT32_MAX &&
           letter_rows_bytes(g, rows->table, rows->count) <= bytes - at;
}

/* --- changes by keys ------------------------------------------------------------------------------ */

void row_chains_layout(struct row_chains *out, struct layout *l, size_t most)
{
    struct row_chains chains = {.bucket_mask = 1};
    while (chains.bucket_mask < most) chains.bucket_mask *= 2;
    LAYOUT_TAKE(l, chains.bucket, chains.bucket_mask);
    LAYOUT_TAKE(l, chains.next, most);
    LAYOUT_TAKE(l, chains.key, most);
    chains.bucket_mask--;
    if (!l->arena) return;
    row_chains_clear(&chains);
    *out = chains;
}

void row_chains_clear(struct row_chains *chains)
{
    for (uint32_t i = 0; i <= chains->bucket_mask; i++) chains->bucket[i] = ROW_NONE;
}

void row_chain_put(struct row_chains *chains, uint32_t *link, uint32_t change, uint64_t key)
{
    chains->key[change] = key;
    chains->next[change] = *link;
    *link = change;
}

void row_chain_take(struct row_chains *chains, uint32_t change)
{
    uint32_t *at = row_chain(chains, chains->key[change]);
    while (*at != change) at = &chains->next[*at];
    *at = chains->next[change];
}

/* --- own changes -------------------------------------------------------------------------------- */

void own_rows_layout(struct own_rows *out, struct layout *l, const struct sync_site *site, uint32_t table)
{
    struct own_rows rows = {.floats = site->graph->tables[table].span_floats,
                            .wave_max = (uint32_t)wave_rows_max(site, table),
                            .wave_count = (uint32_t)OWN_WAVES(site->clock_distance)};
    const size_t most = (size_t)rows.wave_count * rows.wave_max;
    row_chains_layout(&rows.chains, l, most);
    LAYOUT_TAKE(l, rows.change, most * rows.floats);
    LAYOUT_TAKE(l, rows.wave, rows.wave_count);
    LAYOUT_TAKE(l, rows.count, rows.wave_count);
    LAYOUT_TAKE(l, rows.read, rows.floats);
    if (!l->arena) return;
    own_rows_clear(&rows);
    *out = rows;
}

void own_rows_clear(struct own_rows *rows)
{
    row_chains_clear(&rows->chains);
    for (uint32_t i = 0; i < rows->wave_count; i++) rows->wave[i] = UINT64_MAX;
    memset(rows->count, 0, rows->wave_count * sizeof *rows->count);
}

static float *change_of(const struct own_rows *rows, uint32_t change)
{
    return rows->change + (size_t)change * rows->floats;
}

static uint64_t wave_of(const struct own_rows *rows, uint32_t change) { return rows->wave[change / rows->wave_max]; }

/* Forgets what the wave at this place has changed. Older waves are gone: its changes are the
 * first ones of their buckets, but for keys of other waves. */
static void wave_drop(struct own_rows *rows, uint32_t place)
{
    for (uint32_t i = 0; i < rows->count[place]; i++) row_chain_take(&rows->chains, place * rows->wave_max + i);
    rows->count[place] = 0;
}

void own_rows_read(const struct own_rows *rows, uint64_t key, uint64_t level, const float *value, float *row)
{
    memcpy(row, value, rows->floats * sizeof *row);
    for (uint32_t c = *row_chain(&rows->chains, key); c != ROW_NONE; c = rows->chains.next[c]) {
        if (rows->chains.key[c] != key || wave_of(rows, c) < level) continue;
        const float *change = change_of(rows, c);
        for (uint32_t i = 0; i < rows->floats; i++) row[i] += change[i];
    }
}

void own_rows_keep(struct own_rows *rows, uint64_t wave, uint64_t key, uint64_t level, const float *value,
                   const float *row)
{
    const uint32_t place = (uint32_t)(wave % rows->wave_count);
    struct row_chains *chains = &rows->chains;
    uint32_t *at = row_chain(chains, key);
    own_rows_read(rows, key, level, value, rows->read);
    if (rows->wave[place] != wave) wave_drop(rows, place);
    rows->wave[place] = wave;
    while (*at != ROW_NONE && (chains->key[*at] != key || wave_of(rows, *at) != wave)) at = &chains->next[*at];
    if (*at == ROW_NONE) {
        CHECK(rows->count[place] < rows->wave_max);
        row_chain_put(chains, at, place * rows->wave_max + rows->count[place]++, key);
        memset(change_of(rows, *at), 0, rows->floats * sizeof *row);
    }
    float *change = change_of(rows, *at);
    for (uint32_t i = 0; i < rows->floats; i++) change[i] += row[i] - rows->read[i];
}

/* The first change of the wave; how many it has is in *count. */
static uint32_t wave_begin(const struct own_rows *rows, uint64_t wave, uint32_t *count)
{
    const uint32_t place = (uint32_t)(wave % rows->wave_count);
    *count = rows->wave[place] == wave ? rows->count[place] : 0;
    return place * rows->wave_max;
}

void own_rows_count(const struct own_rows *rows, uint64_t wave, const uint8_t *owner_of, uint32_t *count)
{
    uint32_t all;
    const uint32_t begin = wave_begin(rows, wave, &all);
    for (uint32_t i = 0; i < all; i++) count[owner_of[shard_of(rows->chains.key[begin + i])]]++;
}

void own_rows_write(const struct own_rows *rows, uint64_t wave, uint32_t table, const uint8_t *owner_of,
                    uint32_t owner_count, const uint32_t *count, uint8_t **at)
{
    uint64_t *key[ASKED_OWNERS_MAX];
    float *change[ASKED_OWNERS_MAX];
    uint32_t all;
    const uint32_t begin = wave_begin(rows, wave, &all);
    for (uint32_t o = 0; o < owner_count; o++) {
        const struct letter_rows head = {.table = table, .count = count[o]};
        const size_t floats = (size_t)count[o] * rows->floats;
        if (count[o] == 0) continue;
        memcpy(at[o], &head, sizeof head);
        key[o] = (uint64_t *)(void *)(at[o] + sizeof head);
        change[o] = (float *)(void *)(key[o] + count[o]);
        if (floats % 2) change[o][floats] = 0;
        at[o] = (uint8_t *)change[o] + floats_bytes(floats);
    }
    for (uint32_t i = 0; i < all; i++) {
        const uint32_t o = owner_of[shard_of(rows->chains.key[begin + i])];
        *key[o]++ = rows->chains.key[begin + i];
        memcpy(change[o], change_of(rows, begin + i), rows->floats * sizeof(float));
        change[o] += rows->floats;
    }
}
