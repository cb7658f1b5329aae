/* Preparing tickets: the owner's half, and both halves together; and rows that arrive from the home.
 *
 * The mark of a cell finds the distinct keys of a micro-batch without a table for them: it holds the number
 * of the unique that the row was in the last micro-batch that had it. The mark is believed if that unique of
 * the present micro-batch is this row, so nothing needs clearing. It belongs to the thread that creates;
 * look-ups beside it number their keys first, by a table.
 *
 * A row on its way from the home has its cell and its place in RAM already, so no key has two rows.
 *
 * Workload: store_prepare for every micro-batch, some 53,000 keys of which a quarter to all are distinct;
 * the index is far larger than any cache, so buckets are asked for ahead. The loop over the keys of a ticket
 * that creates is io/isa/key_run.c. */
#include <stdlib.h>
#include <string.h>

#include "io/store/store_internal.h"

/* When rows are only looked up: how many uniques ahead first buckets are prefetched. */
#define LOOK_UP_AHEAD 32u

/* --- rows that are created, or come from the home ------------------------------------------------- */

static void row_created(struct store_table *table, uint32_t row, uint32_t ticket)
{
    if (table->is_tiered) created_note(table, row, ticket);
    row_count_add(table);
}

status row_bring(struct store *store, uint32_t table_index, uint64_t key, struct store_cell *place, uint32_t *row)
{
    struct store_table *table = &store->table[table_index];
    TRY(row_take(store, table, row));
    const struct home_row asked = {
        .key = key, .span = span_of(table, *row), .table = table_index, .ticket = store->ticket_count + 1};
    const bool is_coming = home_find(store->home, &asked);
    if (!is_coming) row_init(table, table_index, key, asked.span);
    marks_row_key(store, table_index, *row, key);
    row_publish(table, *row, key, place);
    place->mark =
        (table->serial - 1) << USES_BITS; /* until the row gets its unique's number: no unique of this ticket */
    if (!is_coming) row_created(table, *row, asked.ticket);
    return ST_OK;
}

/* The values of a key without a row in a look-up. */
static void row_unseen(const struct store_table *table, uint32_t table_index, uint64_t key, float *span)
{
    if (table->unseen_is_zeros)
        memset(span, 0, table->span_floats * sizeof *span);
    else
        row_init(table, table_index, key, span);
}

void row_copy(struct store *store, uint32_t table_index, uint64_t key, float *span)
{
    const struct home_row asked = {.key = key, .span = span, .table = table_index, .is_copy = true};
    if (!home_find(store->home, &asked)) row_unseen(&store->table[table_index], table_index, key, span);
}

void ticket_row_arrived(void *context, const struct home_row *row, bool is_found)
{
    struct store *store = context;
    struct store_table *table = &store->table[row->table];
    const enum row_fate fate = !is_found      ? ROW_LIVES
                               : row->is_copy ? life_fate(store, table, row->span)
                                              : life_end(store, row->table, row->span);
    if (is_found && fate == ROW_LIVES) {
        if (!row->is_copy) marks_row_come(store, row->table, row_index(table, row->span), row->is_saved);
        return;
    }
    /* A row that was taken for a living one is a new one, or no row. */
    if (row->is_copy) {
        row_unseen(table, row->table, row->key, row->span);
        return;
    }
    row_init(table, row->table, row->key, row->span);
    row_created(table, row_index(table, row->span), row->ticket);
}

/* --- the owner's half, where rows are created ------------------------------------------------------ */

status cell_settle(struct store *store, uint32_t table_index, uint64_t key, struct store_cell **cell)
{
    struct store_table *table = &store->table[table_index];
    struct store_cell *place = NULL;
    *cell = index_find(table, key, &place);
    if (*cell != NULL) return ST_OK;
    if (life_has_admission(table) && !admission_has(&table->admission, key)) return ST_OK;
    *cell = place;
    uint32_t row;
    return row_bring(store, table_index, key, place, &row);
}

uint32_t unadmitted_settle(struct store *store, uint32_t table_index, uint64_t key, uint32_t *unique_count,
                           struct ticket_table *out)
{
    const struct store_table *table = &store->table[table_index];
    const uint32_t count = *unique_count, unique = distinct_number(&store->distinct, key, unique_count);
    if (unique == count) {
        out->span[unique] = out->scratch + (size_t)unique * table->span_floats;
        row_init(table, table_index, key, out->span[unique]);
        out->row[unique] = ROW_NONE;
    }
    out->occurrence_begin[unique + 1]++;
    return unique;
}

static status rows_create(struct store *store, uint32_t table_index, const struct asked_keys *asked,
                          struct ticket_table *out)
{
    struct store_table *table = &store->table[table_index];
    if (life_has_admission(table)) distinct_clear(&store->distinct);
    TRY(store->keys_settle(
        &(struct key_run){.store = store, .table = table, .table_index = table_index, .asked = *asked, .out = out}));
    table->serial += out->unique_count;
    table->touched_count += out->unique_count;
    return ST_OK;
}

/* --- the owner's half, where rows are looked up ---------------------------------------------------- */

/* The row of the key of unique u, if it is one of the first row_count; else its span points to the initial
 * values in the ticket's scratch. */
static void unique_look_up(struct store *store, uint32_t table_index, uint64_t row_count, uint64_t key, uint32_t unique,
                           struct ticket_table *out)
{
    const struct store_table *table = &store->table[table_index];
    struct store_cell *place, *cell = index_find(table, key, &place);
    uint32_t row = cell != NULL ? cell_row(cell) : ROW_NONE;
    if (row != ROW_NONE && table->is_ahead != NULL && table->is_ahead[row / 8] >> row % 8 & 1) row = ROW_NONE;
    out->row[unique] = row < row_count ? row : ROW_NONE;
    out->span[unique] = row < row_count ? span_of(table, row) : out->scratch + (size_t)unique * table->span_floats;
    if (row >= row_count) row_copy(store, table_index, key, out->span[unique]);
}

static void rows_look_up(struct store *store, uint32_t table_index, const struct asked_keys *asked,
                         struct ticket_table *out)
{
    const struct store_table *table = &store->table[table_index];
    /* A cell names its row before the row is counted: a row that is made from here
     * on is one beyond the count. */
    uint64_t row_count = table->is_tiered ? ROW_NONE : row_count_of(table);
    if (table->sees_less && table->seen_count < row_count) row_count = table->seen_count;
    out->unique_count = asked->count;
    for (uint32_t u = 0, ahead = 0; u < asked->count; u++) {
        for (; ahead < asked->count && ahead < u + LOOK_UP_AHEAD; ahead++)
            __builtin_prefetch(first_bucket(table, asked->key[ahead]), 0);
        unique_look_up(store, table_index, row_count, asked->key[u], u, out);
    }
}

status store_sees_until(struct store *store, const uint64_t *row_count, uint32_t ticket)
{
    for (uint32_t t = 0; t < store->table_count; t++) {
        struct store_table *table = &store->table[t];
        CHECK(!table->sees_less);
        table->seen_count = table->is_tiered ? UINT64_MAX : row_count[t];
        table->sees_less = true;
        if (!table->is_tiered) continue;
        table->is_ahead = created_after(table, ticket);
        if (table->is_ahead != NULL) continue;
        store_sees_all(store);
        FAIL(MEMORY, "no memory to tell the rows of table \"%s\" that were read ahead", table->name);
    }
    return ST_OK;
}

void store_sees_all(struct store *store)
{
    for (uint32_t t = 0; t < store->table_count; t++) {
        struct store_table *table = &store->table[t];
        free(table->is_ahead);
        table->is_ahead = NULL;
        table->sees_less = false;
    }
}

/* --- tickets ---------------------------------------------------------------------------------- */

status store_resolve_begin(struct store *store) { return home_ask(store->home); }

status store_resolve(struct store *store, uint32_t table_index, enum store_mode mode, const struct asked_keys *asked,
                     struct ticket_table *out)
{
    CHECK(table_index < store->table_count && asked->count <= store->key_count_max);
    CHECK(out->scratch || (mode == STORE_CREATE && !life_has_admission(&store->table[table_index])));
    if (mode == STORE_CREATE) return rows_create(store, table_index, asked, out);
    rows_look_up(store, table_index, asked, out);
    return ST_OK;
}

status store_resolve_end(struct store *store, enum store_mode mode, bool is_last, struct ticket *ticket)
{
    if (mode == STORE_CREATE) {
        ticket->number = ++store->ticket_count;
        if (is_last) TRY(life_step_end(store));
        room_ticket_end(store);
    }
    const status st = home_bring(store->home, &ticket->batch);
    if (mode == STORE_CREATE) store_counts_tell(store);
    return st;
}

/* Notes the occurrences of keys without a row, for the end of the step. */
static void unadmitted_list(struct store_table *table, const struct micro_batch *m, const struct ticket_table *out)
{
    const uint32_t before = table->unadmitted_count;
    for (struct key_walk walk = key_walk_of(&table->fields, m); key_walk_on(&walk); walk.position++)
        if (out->row[out->unique_of[walk.position]] == ROW_NONE)
            table->unadmitted[table->unadmitted_count++] = m->key[walk.position];
    table->lives.refused += table->unadmitted_count - before;
}

void store_table_leave(struct store *store, uint32_t table) { store->table[table].is_left = true; }

size_t store_key_count_max(const struct store *store) { return store->key_count_max; }

/* Whether an existing row of the table keeps its number for good: then other threads can find the row
 * beside the thread that creates. */
static bool rows_stay(const struct store_table *table) { return !table->is_tiered && !row_life_is_on(&table->life); }

/* The row of a key, or ROW_NONE if it does not exist yet. */
static uint32_t row_seek(const struct store_table *table, uint64_t key)
{
    for (struct bucket *bucket = first_bucket(table, key);; bucket = bucket_next(table, bucket)) {
        /* Read before the cells: its last cell is filled after the others. */
        const bool is_full = bucket_is_full(bucket);
        const struct store_cell *cell = bucket_find(bucket, key);
        if (cell != NULL) return cell_row(cell);
        if (!is_full) return ROW_NONE;
    }
}

/* Finds the existing rows of the uniques; the thread that creates makes the others. */
static void rows_seek(const struct store_table *table, struct ticket_table *out)
{
    const uint32_t count = out->unique_count;
    for (uint32_t u = 0, ahead = 0; u < count; u++) {
        for (; ahead < count && ahead < u + LOOK_UP_AHEAD; ahead++)
            __builtin_prefetch(first_bucket(table, out->key[ahead]), 0);
        out->row[u] = row_seek(table, out->key[u]);
        out->span[u] = out->row[u] != ROW_NONE ? span_of(table, out->row[u]) : NULL;
    }
}

void store_number(const struct store *store, const struct distinct *slots, const struct micro_batch *m,
                  struct ticket *ticket)
{
    for (uint32_t t = 0; t < store->table_count; t++) {
        struct distinct distinct = *slots;
        distinct.key = ticket->table[t].key;
        (void)distinct_keys(&distinct, &store->table[t].fields, m, &ticket->table[t]);
        if (rows_stay(&store->table[t])) rows_seek(&store->table[t], &ticket->table[t]);
    }
    ticket->is_numbered = true;
}

/* The owner's half of a table whose rows have been sought: makes the missing ones, in order of the data.
 * Finds rows that were made meanwhile. */
static status sought_resolve(struct store *store, uint32_t table_index, struct ticket_table *out)
{
    struct store_table *table = &store->table[table_index];
    struct store_cell *cell;
    for (uint32_t u = 0; u < out->unique_count; u++) {
        if (__builtin_expect(out->row[u] != ROW_NONE, 1)) continue;
        TRY(cell_settle(store, table_index, out->key[u], &cell));
        out->row[u] = cell_row(cell);
        out->span[u] = span_of(table, out->row[u]);
    }
    table->touched_count += out->unique_count;
    return ST_OK;
}

/* The owner's half of a table whose keys are numbered. No key repeats, so the results for repeated keys go
 * into memory that nobody needs. */
static status numbered_resolve(struct store *store, uint32_t table_index, enum store_mode mode,
                               struct ticket_table *out)
{
    struct ticket_table gets = *out;
    const struct asked_keys asked = {out->key, out->unique_count, .unique = out->step_row};
    gets.occurrence_begin = (uint32_t *)store->distinct.all;
    TRY(store_resolve(store, table_index, mode, &asked, &gets));
    CHECK(gets.unique_count == out->unique_count);
    return ST_OK;
}

/* Both halves for a table, or those that are left to do. */
static status table_prepare(struct store *store, uint32_t table_index, const struct micro_batch *m,
                            enum store_mode mode, bool is_numbered, struct ticket_table *out)
{
    struct store_table *table = &store->table[table_index];
    if (table->is_left) {
        out->unique_count = 0;
        return ST_OK;
    }
    if (is_numbered && mode == STORE_CREATE && rows_stay(table)) {
        TRY(sought_resolve(store, table_index, out));
    } else if (is_numbered) {
        TRY(numbered_resolve(store, table_index, mode, out));
    } else if (mode == STORE_LOOKUP) {
        const struct asked_keys each = distinct_keys(&store->distinct, &table->fields, m, out);
        TRY(store_resolve(store, table_index, mode, &each, out));
    } else {
        const struct asked_keys all = distinct_all(&store->distinct, &table->fields, m, out);
        TRY(store_resolve(store, table_index, mode, &all, out));
        distinct_end(&table->fields, m, &all, out);
    }
    if (mode == STORE_CREATE && life_has_admission(table)) unadmitted_list(table, m, out);
    return ST_OK;
}

status store_prepare(struct store *store, const struct micro_batch *m, enum store_mode mode, struct ticket *ticket)
{
    CHECK(ticket->table_count == store->table_count);
    CHECK(m->key_count <= store->key_count_max);
    TRY(store_resolve_begin(store));
    const bool is_numbered = ticket->is_numbered;
    ticket->is_numbered = false;
    for (uint32_t t = 0; t < store->table_count; t++) {
        TRY(table_prepare(store, t, m, mode, is_numbered, &ticket->table[t]));
        ticket->table[t].row_count = row_count_of(&store->table[t]);
    }
    return store_resolve_end(store, mode, m->is_last, ticket);
}

bool store_ready(const struct store *store, const struct ticket *ticket)
{
    return home_has_arrived(store->home, ticket->batch);
}

status store_poll(struct store *store, bool wait) { return home_poll(store->home, wait); }

status store_settle(struct store *store)
{
    const status st = home_settle(store->home);
    store_counts_tell(store);
    return st;
}
