/* A home in memory that behaves as another node would: it cannot tell at once whether it has a row, and its
 * answers come later, a few a poll. */
#ifndef HETERPS_TESTS_IO_STORE_HOME_REMOTE_H
#define HETERPS_TESTS_IO_STORE_HOME_REMOTE_H

#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"
#include "io/store/home.h"

#define REMOTE_PLACES  65536u /* a table; a key has its place for good */
#define REMOTE_ASKED   8192u  /* rows under way                        */
#define REMOTE_BATCHES 64u
#define REMOTE_ANSWERS 40u /* a poll */
#define REMOTE_TABLES  2u

struct remote {
    struct home home;
    struct home_options o;
    struct remote_place {
        uint64_t key;
        bool is_used, is_live;
        float *span;
    } * place[REMOTE_TABLES];
    struct home_counts counts[REMOTE_TABLES];
    struct home_row asked[REMOTE_ASKED];
    uint64_t asked_begin, asked_end, begun, batch_end[REMOTE_BATCHES]; /* numbers of rows, of batches */
    bool is_open;
    uint32_t walk_table, walk_next, changed;
};

static inline struct remote_place *remote_place(struct remote *r, uint32_t table, uint64_t key)
{
    uint32_t at = (uint32_t)(key >> 32) % REMOTE_PLACES;
    while (r->place[table][at].is_used && r->place[table][at].key != key) at = (at + 1) % REMOTE_PLACES;
    struct remote_place *place = &r->place[table][at];
    if (!place->is_used)
        *place = (struct remote_place){
            .key = key, .is_used = true, .span = calloc(r->o.table[table].span_floats, sizeof(float))};
    return place;
}

static inline status remote_poll(struct home *home, bool wait)
{
    struct remote *r = (struct remote *)home;
    const uint64_t sent = r->is_open ? r->batch_end[(r->begun - 1) % REMOTE_BATCHES] : r->asked_end;
    (void)wait;
    for (uint32_t i = 0; i < REMOTE_ANSWERS && r->asked_begin < sent; i++) {
        const struct home_row row = r->asked[r->asked_begin++ % REMOTE_ASKED];
        struct remote_place *place = remote_place(r, row.table, row.key);
        const bool is_found = place->is_live;
        if (is_found) memcpy(row.span, place->span, r->o.table[row.table].span_floats * sizeof(float));
        if (is_found && !row.is_copy) {
            place->is_live = false;
            r->counts[row.table].row_count--;
        }
        r->o.arrived(r->o.context, &row, is_found);
    }
    while (home->arrived + r->is_open < r->begun &&
           r->batch_end[(home->arrived + 1) % REMOTE_BATCHES] <= r->asked_begin)
        home->arrived++;
    return ST_OK;
}

static inline status remote_settle(struct home *home)
{
    const struct remote *r = (struct remote *)home;
    CHECK(!r->is_open);
    while (home->arrived < r->begun) TRY(remote_poll(home, true));
    return ST_OK;
}

static inline status remote_ask(struct home *home)
{
    struct remote *r = (struct remote *)home;
    CHECK(!r->is_open);
    while (r->begun - home->arrived + 1 == REMOTE_BATCHES ||
           r->asked_end - r->asked_begin + r->o.fetch_max > REMOTE_ASKED)
        TRY(remote_poll(home, true));
    if (r->begun == 0) r->batch_end[0] = 0;
    r->begun++;
    r->is_open = true;
    return ST_OK;
}

static inline bool remote_find(struct home *home, const struct home_row *row)
{
    struct remote *r = (struct remote *)home;
    CHECK(r->is_open);
    r->asked[r->asked_end++ % REMOTE_ASKED] = *row;
    return true;
}

static inline status remote_bring(struct home *home, uint64_t *batch)
{
    struct remote *r = (struct remote *)home;
    r->batch_end[r->begun % REMOTE_BATCHES] = r->asked_end;
    r->is_open = false;
    *batch = r->begun;
    return ST_OK;
}

static inline status remote_put(struct home *home, uint32_t table, uint64_t key, const float *span)
{
    struct remote *r = (struct remote *)home;
    struct remote_place *place = remote_place(r, table, key);
    CHECK(!place->is_live && !r->is_open);
    memcpy(place->span, span, r->o.table[table].span_floats * sizeof *span);
    place->is_live = true;
    r->counts[table].row_count++;
    r->counts[table].put++;
    return ST_OK;
}

static inline void remote_change(struct home *home, uint32_t table, float *const *span, uint32_t count)
{
    (void)table;
    (void)span;
    ((struct remote *)home)->changed += count;
}

static inline void remote_walk_begin(struct home *home, uint32_t table)
{
    struct remote *r = (struct remote *)home;
    CHECK(home->arrived == r->begun);
    r->walk_table = table;
    r->walk_next = 0;
}

static inline status remote_walk_next(struct home *home, uint64_t *key, const float **span)
{
    struct remote *r = (struct remote *)home;
    while (r->walk_next < REMOTE_PLACES) {
        const struct remote_place *place = &r->place[r->walk_table][r->walk_next++];
        if (!place->is_live) continue;
        *key = place->key;
        *span = place->span;
        break;
    }
    return ST_OK;
}

static inline void remote_walk_remove(struct home *home)
{
    struct remote *r = (struct remote *)home;
    r->place[r->walk_table][r->walk_next - 1].is_live = false;
    r->counts[r->walk_table].row_count--;
}

static inline void remote_walk_end(struct home *home) { (void)home; }

static inline struct home_counts remote_counts(const struct home *home, uint32_t table)
{
    return ((const struct remote *)home)->counts[table];
}

static inline const char *remote_words(const struct home *home)
{
    (void)home;
    return "memory";
}

static inline void remote_close(struct home *home)
{
    struct remote *r = (struct remote *)home;
    for (uint32_t t = 0; t < r->o.table_count; t++) {
        for (uint32_t i = 0; i < REMOTE_PLACES; i++) free(r->place[t][i].span);
        free(r->place[t]);
    }
    free((void *)(uintptr_t)r->o.table);
    free(r);
}

static const struct home_vt remote_vt = {.close = remote_close,
                                         .ask = remote_ask,
                                         .find = remote_find,
                                         .bring = remote_bring,
                                         .put = remote_put,
                                         .poll = remote_poll,
                                         .settle = remote_settle,
                                         .walk_begin = remote_walk_begin,
                                         .walk_next = remote_walk_next,
                                         .walk_remove = remote_walk_remove,
                                         .walk_end = remote_walk_end,
                                         .counts = remote_counts,
                                         .words = remote_words,
                                         .change = remote_change};

/* The last one that was opened. */
static struct remote *remote_last;

static inline status remote_open(struct home **home, const struct home_options *o)
{
    struct remote *r = calloc(1, sizeof *r);
    struct home_table_options *tables = calloc(o->table_count, sizeof *tables);
    CHECK(o->table_count <= REMOTE_TABLES && o->fetch_max <= REMOTE_ASKED);
    memcpy(tables, o->table, o->table_count * sizeof *tables);
    r->home.vt = &remote_vt;
    r->o = *o;
    r->o.table = tables;
    for (uint32_t t = 0; t < o->table_count; t++) r->place[t] = calloc(REMOTE_PLACES, sizeof **r->place);
    remote_last = r;
    *home = &r->home;
    return ST_OK;
}

static inline uint64_t remote_ram_bytes(const struct home_options *o)
{
    (void)o;
    return 0;
}

static inline uint64_t remote_row_bytes(uint32_t span_floats) { return span_floats * sizeof(float); }

static const struct home_kind remote_home = {
    .ram_bytes = remote_ram_bytes, .row_bytes = remote_row_bytes, .open = remote_open};

#endif
