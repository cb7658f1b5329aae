/* Rows that leave RAM for the disk, and come back.
 *
 * A row is in RAM while a ticket that is not released names it: it is pinned. Of the others those leave that are used least: a hand goes
 * over the index, in long strides so that it thins it out evenly, halves what it finds of a row's uses, and moves out a row that has none left (the clock with counters, GCLOCK: Smith, ACM
 * TODS 1978, section 3.3). What is pinned the cell's mark tells: serials are dealt in order, so those of tickets in flight are the last ones.
 *
 * A row on its way from the disk has its cell and its place in RAM already, so no key has two rows. Which rows exist, and with which
 * values, does not depend on any of this. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "io/store/store_internal.h"

/* --- opening ---------------------------------------------------------------------------------- */

/* Rows that tickets not released can have created: in RAM, pinned. */
static uint64_t created_max_of(const struct store_options *o)
{
    return (uint64_t)o->ticket_max * o->batch.micro * o->example.key_count_max;
}

/* Entries for them: one that comes late, behind those of later tickets, goes when these do. */
static uint64_t created_entries(const struct store_options *o) { return 2 * created_max_of(o); }

void tiers_layout(struct store *store, struct layout *l, const struct store_options *o)
{
    if (o->disk_bytes == 0) return;
    uint32_t *serial_end;
    LAYOUT_TAKE(l, serial_end, (size_t)o->ticket_max * o->table_count);
    for (uint32_t t = 0; t < o->table_count; t++) {
        struct created *created;
        LAYOUT_TAKE(l, created, created_entries(o));
        if (!l->arena) continue;
        store->table[t].created = created;
        store->table[t].created_max = created_entries(o);
    }
    if (!l->arena) return;
    store->serial_end = serial_end;
}

static bool is_resident(void *context, uint32_t table, uint64_t key)
{
    const struct store *store = context;
    struct cell *place;
    return index_find(&store->table[table], key, &place) != NULL;
}

static void created_note(struct store_table *table, uint32_t row, uint32_t ticket)
{
    CHECK(table->created_end - table->created_begin < table->created_max);
    table->created[table->created_end++ % table->created_max] = (struct created){.row = row, .ticket = ticket};
}

static uint32_t row_index(const struct store_table *table, const float *span)
{
    return (uint32_t)((size_t)(span - table->span) / table->stride_floats);
}

/* A row that was taken for a living one on disk is a new one, or none. */
static void row_init_late(struct store *store, const struct cold_row *row)
{
    struct store_table *table = &store->table[row->table];
    memset(row->span, 0, table->span_floats * sizeof *row->span);
    table->row_init(table->context, row->table, row->key, row->span);
    if (row->is_copy) return;
    created_note(table, row_index(table, row->span), row->ticket);
    row_count_add(table);
}

static void row_arrived(void *context, const struct cold_row *row, bool is_found)
{
    struct store *store = context;
    struct store_table *table = &store->table[row->table];
    const enum row_fate fate = is_found ? life_fate(store, table, row->span) : ROW_LIVES;
    if (is_found && fate == ROW_LIVES) {
        if (!row->is_copy) marks_row_come(store, row->table, row_index(table, row->span), row->is_saved);
        return;
    }
    if (is_found && !row->is_copy) {
        table->lives.died[fate]++;
        row_count_subtract(table, 1);
    }
    row_init_late(store, row);
}

/* Whether cleaning may drop a row. */
static bool row_is_dead(void *context, uint32_t table_index, const float *span)
{
    struct store *store = context;
    struct store_table *table = &store->table[table_index];
    const enum row_fate fate = life_fate(store, table, span);
    if (fate == ROW_LIVES) return false;
    table->lives.died[fate]++;
    row_count_subtract(table, 1);
    return true;
}

static status disk_open(struct store *store, const struct cold_options *cold, uint64_t disk_bytes)
{
    status st = cold_open(&store->cold, cold);
    if (st != ST_INVALID) return st;
    return status_fail(st, __FILE__, __LINE__, "%s; store.ssd is %" PRIu64 " bytes for %" PRIu32 " table%s",
                       status_message(), disk_bytes, cold->table_count, cold->table_count == 1 ? "" : "s");
}

status tiers_open(struct store *store, const struct store_options *o, uint64_t *rows_bytes)
{
    struct cold_table_options *tables = calloc(o->table_count, sizeof *tables);
    if (tables == NULL) FAIL(MEMORY, "no memory to describe %" PRIu32 " tables", o->table_count);
    struct budget disk = {.name = "ssd", .whole = o->disk_bytes};
    for (uint32_t t = 0; t < o->table_count; t++) budget_add(&disk, o->table[t].disk_bytes, o->table[t].share);
    for (uint32_t t = 0; t < o->table_count; t++)
        tables[t] =
            (struct cold_table_options){.name = o->table[t].name,
                                        .span_floats = o->table[t].span_floats,
                                        .disk_bytes = budget_part(&disk, o->table[t].disk_bytes, o->table[t].share)};
    const struct cold_options cold = {
        .path = o->path,
        .table_count = o->table_count,
        .table = tables,
        .fetch_max = (uint32_t)(store->key_count_max * o->table_count), /* a field may be looked up in every table */
        .io_threads = o->io_threads,
        .tag_bits = o->tag_bits,
        .faults = o->faults,
        .context = store,
        .is_resident = is_resident,
        .arrived = row_arrived,
        .is_dead = row_is_dead};
    uint64_t cold_bytes = cold_ram_bytes(&cold);
    status st = budget_check(&disk);
    if (st != ST_OK) {
        /* more than there is */
    } else if (created_max_of(o) > SERIAL_MASK / 2)
        st = status_fail(
            ST_MEMORY, __FILE__, __LINE__,
            "%" PRIu32
            " micro-batches of up to %zu keys in flight are more than %u keys; lower train.micro or the slots",
            o->ticket_max, store->key_count_max, SERIAL_MASK / 2);
    else if (cold_bytes >= o->ram_bytes)
        st = status_fail(ST_MEMORY, __FILE__, __LINE__,
                         "index and buffers of %" PRIu64 " bytes on disk take %" PRIu64
                         " bytes of RAM, which leaves none for rows; raise store.ram, or lower store.ssd",
                         o->disk_bytes, cold_bytes);
    else
        st = disk_open(store, &cold, o->disk_bytes);
    free(tables);
    *rows_bytes = o->ram_bytes - cold_bytes;
    return st;
}

bool store_has_disk(const struct store *store) { return store->cold != NULL; }

uint64_t store_disk_files(const struct store *store) { return cold_files(store->cold); }

const char *store_disk_name(const struct store *store)
{
    bool is_direct = cold_is_direct(store->cold);
    if (strcmp(cold_io_name(store->cold), "threads") == 0) return is_direct ? "threads" : "threads, by the page cache";
    return is_direct ? "io_uring" : "io_uring, by the page cache";
}

/* --- rows of RAM ------------------------------------------------------------------------------- */

uint64_t tiers_resident_count(const struct store *store, uint32_t table_index)
{
    const struct store_table *table = &store->table[table_index];
    return store->cold != NULL ? table->used_count - table->free_count : row_count_of(table);
}

struct store_counts store_counts(const struct store *store, uint32_t table)
{
    CHECK(table < store->table_count);
    struct store_counts counts = {.ram_rows = tiers_resident_count(store, table),
                                  .touched = store->table[table].touched_count};
    if (store->cold != NULL) counts.disk = cold_counts(store->cold, table);
    counts.disk_rows = counts.disk.row_count;
    return counts;
}

static uint64_t rows_free(const struct store_table *table)
{
    return table->free_count + table->row_max - table->used_count;
}

static uint32_t row_take(struct store_table *table)
{
    if (table->free_count == 0) {
        CHECK(table->used_count < table->row_max);
        return table->used_count++;
    }
    uint32_t row = table->free_row;
    memcpy(&table->free_row, span_of(table, row), sizeof table->free_row);
    table->free_count--;
    return row;
}

static void row_give(struct store_table *table, uint32_t row)
{
    memcpy(span_of(table, row), &table->free_row, sizeof table->free_row);
    table->free_row = row;
    table->free_count++;
}

static uint64_t bucket_index(const struct store_table *table, const struct bucket *bucket)
{
    return (uint64_t)(bucket - table->bucket);
}

/* Steps from the one bucket on to the other. */
static uint64_t bucket_steps(const struct store_table *table, uint64_t from, uint64_t to)
{
    return to >= from ? to - from : to + table->bucket_count - from;
}

static void cell_move(struct store_table *table, struct cell *to, struct bucket *to_bucket, struct cell *from)
{
    /* Relaxed, all: with a disk one thread at a time uses the store. */
    uint32_t row = atomic_load_explicit(&from->shared_row, memory_order_relaxed);
    atomic_store_explicit(&to->shared_key, atomic_load_explicit(&from->shared_key, memory_order_relaxed),
                          memory_order_relaxed);
    atomic_store_explicit(&to->shared_row, row, memory_order_relaxed);
    to->mark = from->mark;
    if (table->bucket_of) table->bucket_of[row - 1] = (uint32_t)bucket_index(table, to_bucket);
}

/* Empties a cell. A key that lies behind a full bucket must still be found from its home on: so the hole is filled by one that had to pass it,
 * as long as there is one, and lies at the end of its bucket then. */
void cell_remove(struct store_table *table, struct bucket *bucket, struct cell *hole)
{
    struct bucket *at = bucket;
    while (bucket_is_full(at)) {
        struct cell *found = NULL;
        at = bucket_next(table, at);
        for (uint32_t i = 0; i < BUCKET_CELLS && found == NULL; i++) {
            struct cell *cell = &at->cell[i];
            if (cell_row(cell) == ROW_NONE) break;
            uint64_t home =
                bucket_index(table, home_of(table, atomic_load_explicit(&cell->shared_key, memory_order_relaxed)));
            uint64_t here = bucket_index(table, at);
            if (bucket_steps(table, home, here) >= bucket_steps(table, bucket_index(table, bucket), here)) found = cell;
        }
        if (found == NULL) continue;
        cell_move(table, hole, bucket, found);
        hole = found;
        bucket = at;
    }
    struct cell *last = &bucket->cell[BUCKET_CELLS - 1];
    while (cell_row(last) == ROW_NONE) last--;
    if (last != hole) cell_move(table, hole, bucket, last);
    atomic_store_explicit(&last->shared_row, 0, memory_order_relaxed);
    atomic_store_explicit(&last->shared_key, 0, memory_order_relaxed);
    last->mark = 0;
}

void tiers_row_remove(struct store_table *table, struct bucket *bucket, struct cell *cell)
{
    const uint32_t row = cell_row(cell);
    cell_remove(table, bucket, cell);
    row_give(table, row);
}

static bool is_pinned(const struct store_table *table, const struct cell *cell)
{
    uint32_t since = ((cell->mark >> USES_BITS) - table->serial_pinned) & SERIAL_MASK;
    return since < ((table->serial - table->serial_pinned) & SERIAL_MASK);
}

/* Buckets that are asked for before the hand comes to them. */
#define HAND_AHEAD 8u

/* Buckets between two looks at what is under way: what there is to move out takes longer. */
#define HAND_LOOKS 32u

static uint64_t hand_next(const struct store_table *table, uint64_t bucket)
{
    return bucket + table->hand_stride < table->bucket_count ? bucket + table->hand_stride
                                                             : bucket + table->hand_stride - table->bucket_count;
}

/* About the golden section of the buckets, and without a divisor in common with their number, so that every bucket has its turn. */
static uint64_t hand_stride_of(uint64_t bucket_count)
{
    uint64_t stride = (uint64_t)((double)bucket_count * 0.6180339887498949) | 1;
    for (;; stride++) {
        uint64_t a = bucket_count, b = stride % bucket_count;
        while (b) {
            uint64_t rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1 || bucket_count == 1) return stride % bucket_count;
    }
}

/* Uses of a row that is not worth its place: that which has brought it. */
#define USES_LEAST 1u

/* Of a bucket to which the hand comes soon: asks for the rows that will leave, and for their places in the disk's index. */
static void rows_fetch(const struct store *store, uint32_t table_index, const struct bucket *bucket)
{
    const struct store_table *table = &store->table[table_index];
    for (uint32_t i = 0; i < BUCKET_CELLS && cell_row(&bucket->cell[i]) != ROW_NONE; i++) {
        const struct cell *cell = &bucket->cell[i];
        if ((cell->mark & USES_MAX) > USES_LEAST || is_pinned(table, cell)) continue;
        __builtin_prefetch(span_of(table, cell_row(cell)), 1);
        cold_fetch_prefetch(store->cold, table_index, atomic_load_explicit(&cell->shared_key, memory_order_relaxed));
    }
}

/* Makes rows free until there are `wanted`, as far as rows are not pinned. */
static status rows_move_out(struct store *store, uint32_t table_index, uint64_t wanted)
{
    struct store_table *table = &store->table[table_index];
    if (table->hand_stride == 0) table->hand_stride = hand_stride_of(table->bucket_count);
    uint64_t ahead = table->hand, near = table->hand;
    for (uint32_t i = 0; i < HAND_AHEAD; i++) ahead = hand_next(table, ahead);
    for (uint32_t i = 0; i < HAND_AHEAD / 2; i++) near = hand_next(table, near);
    /* A row's uses are halved to none in so many rounds; one that is pinned stays. */
    uint64_t looks_left = (USES_BITS + 2) * table->bucket_count;
    for (; rows_free(table) < wanted && looks_left > 0; looks_left--) {
        struct bucket *bucket = &table->bucket[table->hand];
        uint32_t i = 0;
        __builtin_prefetch(&table->bucket[ahead], 1);
        ahead = hand_next(table, ahead);
        rows_fetch(store, table_index, &table->bucket[near]);
        near = hand_next(table, near);
        if (looks_left % HAND_LOOKS == 0) TRY(cold_poll(store->cold, false));
        while (i < BUCKET_CELLS && cell_row(&bucket->cell[i]) != ROW_NONE) {
            struct cell *cell = &bucket->cell[i];
            const uint32_t uses = cell->mark & USES_MAX, row = cell_row(cell);
            if (is_pinned(table, cell) || uses > USES_LEAST) {
                if (!is_pinned(table, cell)) cell->mark += uses / 2 - uses;
                i++;
                continue;
            }
            TRY(cold_put(store->cold, table_index, atomic_load_explicit(&cell->shared_key, memory_order_relaxed),
                         span_of(table, row)));
            marks_row_leave(store, table_index, row);
            tiers_row_remove(table, bucket, cell);
        }
        table->hand = hand_next(table, table->hand);
    }
    return ST_OK;
}

status store_make_room(struct store *store, bool *has_room)
{
    *has_room = true;
    if (!store->takes_turns) return ST_OK;
    if (store->ticket_count - store->released_count == store->ticket_max) *has_room = false;
    for (uint32_t t = 0; t < store->table_count && *has_room && store->cold != NULL; t++) {
        struct store_table *table = &store->table[t];
        TRY(rows_move_out(store, t, table->ticket_rows_max));
        *has_room = rows_free(table) >= table->ticket_rows_max;
    }
    return ST_OK;
}

/* --- rows of tickets ---------------------------------------------------------------------------- */

void tiers_row_bring(struct store *store, uint32_t table_index, uint64_t key, struct cell *cell)
{
    struct store_table *table = &store->table[table_index];
    const uint32_t row = row_take(table), ticket = store->ticket_count + 1;
    float *span = span_of(table, row);
    row_publish(table, row, key, cell);
    marks_row_key(store, table_index, row, key);
    cell->mark =
        (table->serial - 1) << USES_BITS; /* until it gets the number of its unique: of no one in this ticket */
    if (cold_fetch(store->cold, &(struct cold_row){.key = key, .span = span, .table = table_index, .ticket = ticket}))
        return;
    memset(span, 0, table->stride_floats * sizeof *span);
    table->row_init(table->context, table_index, key, span);
    created_note(table, row, ticket);
    row_count_add(table);
}

void tiers_row_copy(struct store *store, uint32_t table_index, uint64_t key, float *span)
{
    const struct cold_row row = {.key = key, .span = span, .table = table_index, .is_copy = true};
    if (!cold_fetch(store->cold, &row)) row_init_late(store, &row);
}

status tiers_ticket_end(struct store *store, enum store_mode mode, struct ticket *ticket)
{
    if (mode == STORE_CREATE)
        for (uint32_t t = 0; t < store->table_count; t++)
            store->serial_end[store->ticket_count % store->ticket_max * store->table_count + t] =
                store->table[t].serial;
    return cold_fetch_end(store->cold, &ticket->batch);
}

bool store_ready(const struct store *store, const struct ticket *ticket)
{
    return store->cold == NULL || cold_arrived(store->cold) >= ticket->batch;
}

status store_poll(struct store *store, bool wait) { return store->cold != NULL ? cold_poll(store->cold, wait) : ST_OK; }

status store_settle(struct store *store) { return store->cold != NULL ? cold_settle(store->cold) : ST_OK; }

/* Whether ticket a was prepared after b. */
static bool is_after(uint32_t a, uint32_t b) { return (int32_t)(a - b) > 0; }

void store_release(struct store *store, uint32_t ticket)
{
    if (!store->takes_turns || !is_after(ticket, store->released_count)) return;
    store->released_count = ticket;
    for (uint32_t t = 0; t < store->table_count; t++) {
        struct store_table *table = &store->table[t];
        if (life_has_admission(table)) admission_release(&table->admission, ticket);
        if (store->cold == NULL) continue;
        table->serial_pinned = store->serial_end[ticket % store->ticket_max * store->table_count + t];
        while (table->created_begin < table->created_end &&
               !is_after(table->created[table->created_begin % table->created_max].ticket, ticket))
            table->created_begin++;
    }
}

/* --- all rows ------------------------------------------------------------------------------------ */

status tiers_put(struct store *store, uint32_t table_index, uint64_t key, float **span, bool *was_there)
{
    struct store_table *table = &store->table[table_index];
    struct cell *cell = NULL;
    TRY(rows_move_out(store, table_index, 1));
    CHECK(index_find(table, key, &cell) == NULL);
    uint64_t row_count = row_count_of(table);
    TRY(cold_fetch_begin(store->cold));
    tiers_row_bring(store, table_index, key, cell);
    uint64_t batch;
    TRY(cold_fetch_end(store->cold, &batch));
    while (cold_arrived(store->cold) < batch) TRY(cold_poll(store->cold, true));
    *was_there = row_count_of(table) == row_count;
    table->created_begin = table->created_end; /* no ticket's */
    *span = span_of(table, cell_row(cell));
    if (*was_there) return ST_OK;
    memset(*span, 0, table->stride_floats * sizeof **span);
    marks_row_come(store, table_index, row_index(table, *span), true);
    return ST_OK;
}

uint64_t store_row_count_at(const struct store *store, uint32_t table_index, uint64_t row_count, uint32_t ticket)
{
    const struct store_table *table = &store->table[table_index];
    if (store->cold == NULL) return row_count;
    uint64_t count = row_count_of(table);
    for (uint64_t n = table->created_begin; n < table->created_end; n++)
        count -= is_after(table->created[n % table->created_max].ticket, ticket);
    return count;
}

status store_walk_open(struct store_walk *walk, struct store *store, uint32_t table_index, uint64_t row_count,
                       uint32_t ticket)
{
    CHECK(table_index < store->table_count);
    struct store_table *table = &store->table[table_index];
    *walk = (struct store_walk){.store = store, .table = table_index, .row_count = row_count};
    if (store->cold == NULL) return ST_OK;
    TRY(store_purge(store));
    walk->row_count = store_row_count_at(store, table_index, row_count, ticket);
    walk->is_left_out = calloc(table->row_max / 8 + 1, 1);
    if (walk->is_left_out == NULL) FAIL(MEMORY, "no memory to walk the rows of table \"%s\"", table->name);
    for (uint64_t n = table->created_begin; n < table->created_end; n++) {
        const struct created *c = &table->created[n % table->created_max];
        if (is_after(c->ticket, ticket)) walk->is_left_out[c->row / 8] |= (uint8_t)(1u << c->row % 8);
    }
    cold_walk_open(&walk->cold, store->cold, table_index);
    return ST_OK;
}

status store_copy(struct store *store, uint32_t table_index, const uint64_t *key, uint32_t count, float *spans)
{
    struct store_table *table = &store->table[table_index];
    for (uint32_t begin = 0, end; begin < count; begin = end) {
        end = count - begin < store->key_count_max ? count : begin + (uint32_t)store->key_count_max;
        if (store->cold != NULL) TRY(cold_fetch_begin(store->cold));
        for (uint32_t i = begin; i < end; i++) {
            struct cell *place, *cell = index_find(table, key[i], &place);
            float *span = spans + (size_t)i * table->span_floats;
            CHECK(cell != NULL || store->cold != NULL);
            if (cell != NULL)
                memcpy(span, span_of(table, cell_row(cell)), table->span_floats * sizeof *span);
            else
                tiers_row_copy(store, table_index, key[i], span);
        }
        uint64_t batch;
        if (store->cold != NULL) TRY(cold_fetch_end(store->cold, &batch));
        TRY(store_settle(store));
    }
    return ST_OK;
}

void store_walk_close(struct store_walk *walk)
{
    free(walk->is_left_out);
    cold_walk_close(&walk->cold);
    *walk = (struct store_walk){0};
}

status store_walk_next(struct store_walk *walk, uint64_t *key, const float **span)
{
    struct store *store = walk->store;
    const struct store_table *table = &store->table[walk->table];
    *span = NULL;
    if (store->cold == NULL) {
        if (walk->next == walk->row_count) return ST_OK;
        *key = store_key(store, walk->table, walk->next);
        *span = span_of(table, walk->next++);
        return ST_OK;
    }
    while (walk->next < table->bucket_count * BUCKET_CELLS) {
        const struct cell *cell = &table->bucket[walk->next / BUCKET_CELLS].cell[walk->next % BUCKET_CELLS];
        const uint32_t row = cell_row(cell);
        walk->next++;
        if (row == ROW_NONE || walk->is_left_out[row / 8] >> row % 8 & 1) continue;
        *key = atomic_load_explicit(&cell->shared_key, memory_order_relaxed);
        *span = span_of(table, row);
        return ST_OK;
    }
    return cold_walk_next(&walk->cold, key, span);
}
