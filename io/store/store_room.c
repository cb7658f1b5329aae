/* Room in RAM: which rows are pinned, and which leave for their home.
 *
 * A row is in RAM while a ticket that is not released names it: it is pinned. Of the other rows the least
 * used leave. A hand goes over the index, in long strides so that it thins it out evenly; it halves each
 * row's uses, and moves out a row that has no uses left (the clock with counters, GCLOCK: Smith, ACM TODS
 * 1978, section 3.3). The cell's mark tells whether a row is pinned: serials are dealt in order, so those of
 * tickets in flight are the last ones.
 *
 * Which rows exist, and with which values, does not depend on any of this. */
#include <inttypes.h>
#include <stdlib.h>

#include "io/store/store_internal.h"
#include "io/store/store_rows.h"

/* --- opening ---------------------------------------------------------------------------------- */

/* Rows that tickets not released can have created: they are in RAM, pinned. */
static uint64_t created_max_of(const struct store_options *o)
{
    return (uint64_t)o->ticket_max * o->batch.micro * o->example.key_count_max;
}

/* Entries for these rows. A late entry stays after the entries of later tickets, and is
 * freed when these entries are freed. */
static uint64_t created_entries(const struct store_options *o) { return 2 * created_max_of(o); }

void room_layout(struct store *store, struct layout *l, const struct store_options *o)
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

status room_check(const struct store_options *o)
{
    if (created_max_of(o) > SERIAL_MASK / 2)
        FAIL(MEMORY,
             "%" PRIu32
             " micro-batches of up to %zu keys in flight are more than %u keys; lower train.micro or the slots",
             o->ticket_max, (size_t)o->batch.micro * o->example.key_count_max, SERIAL_MASK / 2);
    return ST_OK;
}

/* --- what tickets have ------------------------------------------------------------------------- */

void created_note(struct store_table *table, uint32_t row, uint32_t ticket)
{
    CHECK(table->created_end - table->created_begin < table->created_max);
    table->created[table->created_end++ % table->created_max] = (struct created){.row = row, .ticket = ticket};
}

uint8_t *created_after(const struct store_table *table, uint32_t ticket)
{
    uint8_t *bits = calloc(table->row_max / 8 + 1, 1);
    for (uint64_t n = table->created_begin; bits != NULL && n < table->created_end; n++) {
        const struct created *c = &table->created[n % table->created_max];
        if (is_after(c->ticket, ticket)) bits[c->row / 8] |= (uint8_t)(1u << c->row % 8);
    }
    return bits;
}

void room_ticket_end(struct store *store)
{
    for (uint32_t t = 0; t < store->table_count && store->home != NULL; t++)
        store->serial_end[store->ticket_count % store->ticket_max * store->table_count + t] = store->table[t].serial;
}

static bool is_pinned(const struct store_table *table, const struct store_cell *cell)
{
    uint32_t since = ((cell->mark >> USES_BITS) - table->serial_pinned) & SERIAL_MASK;
    return since < ((table->serial - table->serial_pinned) & SERIAL_MASK);
}

void store_release(struct store *store, uint32_t ticket)
{
    if (!store->takes_turns || !is_after(ticket, store->released_count)) return;
    store->released_count = ticket;
    for (uint32_t t = 0; t < store->table_count; t++) {
        struct store_table *table = &store->table[t];
        if (life_has_admission(table)) admission_release(&table->admission, ticket);
        if (!table->is_tiered) continue;
        table->serial_pinned = store->serial_end[ticket % store->ticket_max * store->table_count + t];
        while (table->created_begin < table->created_end &&
               !is_after(table->created[table->created_begin % table->created_max].ticket, ticket))
            table->created_begin++;
    }
}

uint64_t store_row_count_at(const struct store *store, uint32_t table_index, uint64_t row_count, uint32_t ticket)
{
    const struct store_table *table = &store->table[table_index];
    if (!table->is_tiered) return row_count;
    uint64_t count = row_count_of(table);
    for (uint64_t n = table->created_begin; n < table->created_end; n++)
        count -= is_after(table->created[n % table->created_max].ticket, ticket);
    return count;
}

/* --- rows that leave ---------------------------------------------------------------------------- */

/* How many buckets ahead of the hand are prefetched. */
#define HAND_AHEAD 8u

/* Buckets between two looks at transfers under way: moving out takes longer. */
#define HAND_LOOKS 32u

static uint64_t hand_next(const struct store_table *table, uint64_t bucket)
{
    return bucket + table->hand_stride < table->bucket_count ? bucket + table->hand_stride
                                                             : bucket + table->hand_stride - table->bucket_count;
}

/* About the golden section of the buckets, without a divisor in common with their number, so
 * that every bucket has its turn. */
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

/* Uses of a row that is not worth its place: only the use that has brought it. */
#define USES_LEAST 1u

/* For a bucket to which the hand comes soon: prefetches the rows that will leave,
 * and their places in the home. */
static void rows_fetch(const struct store *store, uint32_t table_index, const struct bucket *bucket)
{
    const struct store_table *table = &store->table[table_index];
    for (uint32_t i = 0; i < BUCKET_CELLS && cell_row(&bucket->cell[i]) != ROW_NONE; i++) {
        const struct store_cell *cell = &bucket->cell[i];
        if ((cell->mark & USES_MAX) > USES_LEAST || is_pinned(table, cell)) continue;
        __builtin_prefetch(span_of(table, cell_row(cell)), 1);
        home_prefetch(store->home, table_index, atomic_load_explicit(&cell->shared_key, memory_order_relaxed));
    }
}

status rows_move_out(struct store *store, uint32_t table_index, uint64_t wanted)
{
    struct store_table *table = &store->table[table_index];
    if (table->hand_stride == 0) table->hand_stride = hand_stride_of(table->bucket_count);
    uint64_t ahead = table->hand, near = table->hand;
    for (uint32_t i = 0; i < HAND_AHEAD; i++) ahead = hand_next(table, ahead);
    for (uint32_t i = 0; i < HAND_AHEAD / 2; i++) near = hand_next(table, near);
    /* After this many rounds a row's uses are halved to none; a pinned row stays. */
    uint64_t looks_left = (USES_BITS + 2) * table->bucket_count;
    for (; rows_free(table) < wanted && looks_left > 0; looks_left--) {
        struct bucket *bucket = &table->bucket[table->hand];
        uint32_t i = 0;
        __builtin_prefetch(&table->bucket[ahead], 1);
        ahead = hand_next(table, ahead);
        rows_fetch(store, table_index, &table->bucket[near]);
        near = hand_next(table, near);
        if (looks_left % HAND_LOOKS == 0) TRY(home_poll(store->home, false));
        while (i < BUCKET_CELLS && cell_row(&bucket->cell[i]) != ROW_NONE) {
            struct store_cell *cell = &bucket->cell[i];
            const uint32_t uses = cell->mark & USES_MAX, row = cell_row(cell);
            if (is_pinned(table, cell) || uses > USES_LEAST) {
                if (!is_pinned(table, cell)) cell->mark += uses / 2 - uses;
                i++;
                continue;
            }
            TRY(home_put(store->home, table_index, atomic_load_explicit(&cell->shared_key, memory_order_relaxed),
                         span_of(table, row)));
            marks_row_leave(store, table_index, row);
            row_remove(table, bucket, cell);
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
    for (uint32_t t = 0; t < store->table_count && *has_room && store->home != NULL; t++) {
        struct store_table *table = &store->table[t];
        TRY(rows_move_out(store, t, table->ticket_rows_max));
        *has_room = rows_free(table) >= table->ticket_rows_max;
    }
    return ST_OK;
}
