/* Rows that come and go: counts a step's keys for their admission, and removes rows at the end of a step.
 *
 * A sweep runs between two steps, while nothing is prepared. In RAM alone the living rows move together, in
 * order. With a home the dead rows leave RAM; dead rows in the home are dead by the same rule for whoever
 * comes upon them: a fetch that brings one makes it a new row, cleaning drops it. Only when a bound of rows
 * is passed, or exact counts are needed, does a sweep go through the home. */
#include "io/store/store_life.h"

#include <string.h>

#include "engine/base/clock.h"
#include "io/store/store_internal.h"
#include "io/store/store_rows.h"

/* When rows are too many, nine tenths of the bound stay: evictions are rare. */
#define EVICT_PART 10u
/* Digits of score and key, from the greatest on. */
#define SCORE_DIGITS 2u
#define DIGITS       6u
_Static_assert(sizeof((struct store_select *)0)->chosen / sizeof(uint32_t) == DIGITS && STORE_BINS == EVICT_BINS,
               "a select of the header");

/* --- opening ------------------------------------------------------------------------------------ */

void life_layout(struct store *store, struct layout *l, const struct store_options *o)
{
    uint32_t span_floats = 0;
    bool is_bounded = false;
    for (uint32_t t = 0; t < o->table_count; t++) {
        const struct row_life *life = &o->table[t].life;
        uint64_t *unadmitted;
        is_bounded |= life->row_max != 0;
        if (row_life_is_on(life) && o->table[t].span_floats > span_floats) span_floats = o->table[t].span_floats;
        if (life->admit <= 1) continue;
        LAYOUT_TAKE(l, unadmitted, o->batch.batch * example_keys_of(o, t));
        if (l->arena) store->table[t].unadmitted = unadmitted;
    }
    float *zeros = NULL;
    uint64_t *histogram = NULL;
    if (span_floats) LAYOUT_TAKE(l, zeros, span_floats);
    if (is_bounded) LAYOUT_TAKE(l, histogram, EVICT_BINS);
    if (!l->arena) return;
    store->zeros = zeros;
    store->histogram = histogram;
}

status life_open(struct store *store, const struct store_options *o)
{
    for (uint32_t t = 0; t < o->table_count; t++) {
        struct store_table *table = &store->table[t];
        if (!life_has_admission(table)) continue;
        const struct admission_options admission = {.table = table->name,
                                                    .life = table->life,
                                                    .addition_max =
                                                        o->ticket_max * o->batch.micro * table->example_keys_max,
                                                    .ticket_max = o->ticket_max};
        TRY(admission_open(&table->admission, &admission));
    }
    return ST_OK;
}

void life_close(struct store *store)
{
    for (uint32_t t = 0; t < store->table_count; t++) admission_close(&store->table[t].admission);
}

bool store_lives(const struct store *store, uint32_t table)
{
    CHECK(table < store->table_count);
    return row_life_is_on(&store->table[table].life);
}

struct admission *store_admission(struct store *store, uint32_t table)
{
    CHECK(table < store->table_count);
    return life_has_admission(&store->table[table]) ? &store->table[table].admission : NULL;
}

/* --- steps -------------------------------------------------------------------------------------- */

status life_step_end(struct store *store)
{
    for (uint32_t t = 0; t < store->table_count; t++) {
        struct store_table *table = &store->table[t];
        if (!life_has_admission(table)) continue;
        const uint32_t count = table->unadmitted_count;
        table->unadmitted_count = 0;
        if (admission_has_order(&table->admission)) store_keys_sort(table->unadmitted, count);
        for (uint32_t i = 0; i < count; i++) TRY(admission_add(&table->admission, table->unadmitted[i]));
        admission_step_end(&table->admission, store->ticket_count);
    }
    return ST_OK;
}

void store_unadmitted_add(struct store *store, uint32_t table_index, uint64_t key, uint32_t count)
{
    struct store_table *table = &store->table[table_index];
    table->lives.refused += count;
    for (; count > 0; count--) table->unadmitted[table->unadmitted_count++] = key;
}

status store_unadmitted_end(struct store *store)
{
    TRY(life_step_end(store));
    store_release(store, store->ticket_count);
    return ST_OK;
}

/* --- which rows live ---------------------------------------------------------------------------- */

enum row_fate life_fate(const struct store *store, const struct store_table *table, const float *span)
{
    return table->life.counts ? row_life_fate(&table->life, counters_of(table, span), store->period) : ROW_LIVES;
}

enum row_fate life_end(struct store *store, uint32_t table_index, const float *span)
{
    struct store_table *table = &store->table[table_index];
    const enum row_fate fate = life_fate(store, table, span);
    if (fate == ROW_LIVES) return fate;
    table->lives.died[fate]++;
    row_count_subtract(table, 1);
    return fate;
}

/* Which rows go: the dead, or those with the least scores. */
struct removal {
    const struct store *store;
    struct store_table *table;
    bool is_eviction;
    /* an eviction: rows go whose score and key, digit by digit, are at most these */
    uint32_t score;
    uint64_t key;
    uint64_t count; /* removed */
};

/* Scores are not negative, so their bits have the order of their values. */
static uint32_t score_bits(const struct store *store, const struct store_table *table, const float *span)
{
    float score = row_life_score(&table->life, counters_of(table, span), store->period);
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    return bits;
}

static bool goes(struct removal *r, uint64_t key, const float *span)
{
    if (r->is_eviction) {
        const uint32_t score = score_bits(r->store, r->table, span);
        return score < r->score || (score == r->score && key <= r->key);
    }
    const enum row_fate fate = life_fate(r->store, r->table, span);
    r->table->lives.died[fate]++;
    return fate != ROW_LIVES;
}

/* --- rows of the home --------------------------------------------------------------------------- */

static status home_walk(struct store *store, uint32_t t, row_look *look, void *context)
{
    const float *span;
    uint64_t key;
    TRY(home_settle(store->home));
    home_walk_begin(store->home, t);
    status st = home_walk_next(store->home, &key, &span);
    for (; st == ST_OK && span != NULL; st = home_walk_next(store->home, &key, &span))
        if (look(context, key, span)) home_walk_remove(store->home);
    home_walk_end(store->home);
    return st;
}

/* --- removing ----------------------------------------------------------------------------------- */

static bool removal_look(void *context, uint64_t key, const float *span)
{
    struct removal *r = context;
    const bool is_gone = goes(r, key, span);
    r->count += is_gone;
    return is_gone;
}

static status home_purge(struct store *store, uint32_t t)
{
    struct store_table *table = &store->table[t];
    struct removal r = {.store = store, .table = table};
    if (!table->life.counts || table->is_purged) return ST_OK;
    status st = home_walk(store, t, removal_look, &r);
    row_count_subtract(r.table, r.count);
    table->is_purged = st == ST_OK;
    return st;
}

status store_purge(struct store *store)
{
    for (uint32_t t = 0; t < store->table_count; t++) TRY(home_purge(store, t));
    return ST_OK;
}

/* --- evicting: a radix select of the least by (score, key) ------------------------------------- */

struct selecting {
    const struct store *store;
    const struct store_table *table;
    const struct store_select *select;
    uint64_t *bins;
};

static uint32_t digit_of(uint32_t score, uint64_t key, uint32_t digit)
{
    return digit < SCORE_DIGITS ? score >> (SCORE_DIGITS - 1 - digit) * EVICT_DIGIT_BITS & (EVICT_BINS - 1)
                                : (uint32_t)(key >> (DIGITS - 1 - digit) * EVICT_DIGIT_BITS & (EVICT_BINS - 1));
}

static bool select_look(void *context, uint64_t key, const float *span)
{
    struct selecting *s = context;
    const uint32_t score = score_bits(s->store, s->table, span);
    for (uint32_t d = 0; d < s->select->digit; d++)
        if (digit_of(score, key, d) != s->select->chosen[d]) return false;
    s->bins[digit_of(score, key, s->select->digit)]++;
    return false;
}

bool store_select_choose(struct store_select *select, const uint64_t bins[STORE_BINS])
{
    uint32_t bin = 0;
    if (select->digit == 0) {
        for (uint32_t b = 0; b < STORE_BINS; b++) select->row_count += bins[b];
        if (select->row_count <= select->most) return true;
        select->gone = select->wanted = select->row_count - (select->most - select->most / EVICT_PART);
    }
    for (; bins[bin] < select->wanted; bin++) {
        CHECK(bin + 1 < STORE_BINS);
        select->wanted -= bins[bin];
    }
    select->chosen[select->digit++] = bin;
    return select->digit == DIGITS || bins[bin] == select->wanted; /* all rows of the last bin go */
}

/* The greatest score and key of the rows that go. */
static void threshold_set(const struct store_select *select, struct removal *r)
{
    for (uint32_t d = 0; d < DIGITS; d++) {
        const uint64_t digit = d < select->digit ? select->chosen[d] : EVICT_BINS - 1;
        if (d < SCORE_DIGITS)
            r->score = r->score << EVICT_DIGIT_BITS | (uint32_t)digit;
        else
            r->key = r->key << EVICT_DIGIT_BITS | digit;
    }
}

status store_select_count(struct store *store, uint32_t t, const struct store_select *select, uint64_t bins[STORE_BINS])
{
    struct store_table *table = &store->table[t];
    struct selecting s = {store, table, select, bins};
    const uint64_t begin_ns = clock_ns();
    if (select->digit == 0) TRY(home_purge(store, t));
    memset(bins, 0, EVICT_BINS * sizeof *bins);
    ram_walk(table, select_look, &s);
    TRY(home_walk(store, t, select_look, &s));
    table->lives.eviction_ns += clock_ns() - begin_ns;
    return ST_OK;
}

status store_select_remove(struct store *store, uint32_t t, const struct store_select *select)
{
    struct store_table *table = &store->table[t];
    struct removal r = {.store = store, .table = table, .is_eviction = true};
    const uint64_t begin_ns = clock_ns();
    if (select->gone == 0) return ST_OK;
    threshold_set(select, &r);
    ram_walk(table, removal_look, &r);
    const status st = home_walk(store, t, removal_look, &r);
    row_count_subtract(table, r.count);
    table->lives.evicted += r.count;
    table->lives.evictions++;
    table->lives.eviction_ns += clock_ns() - begin_ns;
    return st;
}

static status evict(struct store *store, uint32_t t)
{
    struct store_select select = {.most = store->table[t].life.row_max};
    if (select.most == 0 || row_count_of(&store->table[t]) <= select.most) return ST_OK;
    TRY(home_purge(store, t));
    if (row_count_of(&store->table[t]) <= select.most) return ST_OK;
    for (bool is_last = false; !is_last; is_last = store_select_choose(&select, store->histogram))
        TRY(store_select_count(store, t, &select, store->histogram));
    return store_select_remove(store, t, &select);
}

/* --- sweeps ------------------------------------------------------------------------------------- */

/* Rows of tickets that are still fetched may turn out to be new ones; then this waits for the fetches. */
status store_is_crowded(struct store *store, bool *is_crowded)
{
    *is_crowded = false;
    for (uint32_t t = 0; t < store->table_count; t++) {
        struct store_table *table = &store->table[t];
        const uint64_t most = table->life.row_max;
        if (most == 0) continue;
        if (row_count_of(table) + (uint64_t)store->ticket_max * table->ticket_rows_max > most)
            TRY(home_settle(store->home));
        *is_crowded |= row_count_of(table) > most;
    }
    return ST_OK;
}

void store_sweep_dead(struct store *store, uint64_t period)
{
    const bool is_next = period > store->period;
    store->period = period;
    for (uint32_t t = 0; t < store->table_count; t++) {
        struct store_table *table = &store->table[t];
        struct removal r = {.store = store, .table = table};
        if (!table->life.counts) continue;
        if (is_next) ram_walk(table, removal_look, &r);
        row_count_subtract(r.table, r.count);
        table->is_purged &= !is_next;
    }
}

status store_sweep(struct store *store, uint64_t period)
{
    store_sweep_dead(store, period);
    for (uint32_t t = 0; t < store->table_count; t++)
        if (store->table[t].life.counts) TRY(evict(store, t));
    return ST_OK;
}

void store_period_set(struct store *store, uint64_t period)
{
    store->period = period;
    for (uint32_t t = 0; t < store->table_count; t++) {
        struct store_table *table = &store->table[t];
        struct removal r = {.store = store, .table = table};
        if (table->life.counts) ram_walk(table, removal_look, &r);
        row_count_subtract(r.table, r.count);
        table->is_purged = false;
        table->lives = (struct store_life_counts){0};
    }
}

void store_find_again(struct store *store, const struct micro_batch *m, struct ticket *ticket)
{
    for (uint32_t t = 0; t < store->table_count; t++) {
        struct store_table *table = &store->table[t];
        struct ticket_table *to = &ticket->table[t];
        for (uint32_t u = 0; u < to->unique_count && table->life.counts; u++) {
            struct store_cell *place, *cell;
            if (to->row[u] == ROW_NONE) continue; /* its span is in scratch */
            cell = index_find(table, m->key[to->occurrence[to->occurrence_begin[u]]], &place);
            to->row[u] = cell != NULL ? cell_row(cell) : ROW_NONE;
            to->span[u] = cell != NULL ? span_of(table, cell_row(cell)) : store->zeros;
        }
    }
}
