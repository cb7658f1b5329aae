/* Tickets: what the store gives for the keys of a micro-batch. It is prepared in two halves, each of use by itself:
 *
 *     the asker's    distinct keys of a micro-batch       a function of the micro-batch alone (io/store/distinct.h)
 *     the owner's    their rows, for a step               store_resolve: of the keys, and what the store has
 *
 * store_prepare is both for who has the micro-batch and the rows. With STORE_CREATE it asks with all keys as they
 * occur: the loop that finds their rows tells them apart by the index, with no table of its own (io/isa/store.c),
 * which takes less time than to number them first, unless other threads do that (store_number). */
#ifndef HETERPS_IO_STORE_STORE_TICKET_H
#define HETERPS_IO_STORE_STORE_TICKET_H

#include "io/store/distinct.h"
#include "io/store/store.h"

enum store_mode {
    STORE_CREATE, /* a key never seen gets a row                                                      */
    STORE_LOOKUP, /* a key never seen gets ROW_NONE and zeros or its initial values in the ticket's scratch */
};

/* Has room in RAM made for whatever rows one more ticket may need, before each store_prepare that creates. Not
 * *has_room: too many are pinned; release tickets. Always true in RAM alone. IO, CORRUPT: the disk failed; FULL:
 * its budget is used up: raise store.ssd. */
MUST_USE status store_make_room(struct store *store, bool *has_room);
/* Deduplicates the batch's keys for every table and fills the ticket (all but step_row): uniques in order of first
 * occurrence, rows, spans, occurrences; creates rows in that order. A key that is not admitted has ROW_NONE and its
 * initial values in the ticket's scratch, also with STORE_CREATE; its occurrences count from the next step on, when
 * m->is_last. FULL: names the table, its rows, the budget and the setting to raise (store.ram); rows that were
 * created before stay. The ticket's arrays are the caller's (ticket_place; with_scratch for STORE_LOOKUP). Spans of
 * rows are 16-byte aligned; those in scratch lie span_floats apart. With a disk, a row's values may be on their
 * way, until the ticket is ready. */
MUST_USE status store_prepare(struct store *store, const struct micro_batch *m, enum store_mode mode,
                              struct ticket *ticket);

/* The asker's half of a ticket whose tables have a place for keys, for the store_prepare that follows: numbers the
 * micro-batch's keys, and finds the rows of those that have one, of tables whose rows neither leave for a disk nor go.
 * By any thread, beside all others, also the one that creates: rows that are not there yet are left to that one, which
 * makes them in order of the data. `slots`: memory of its own, of distinct_slots_layout for store_key_count_max. */
void store_number(const struct store *store, const struct distinct *slots, const struct micro_batch *m,
                  struct ticket *ticket);
/* Before anything is prepared: the table's rows are elsewhere, and tickets have none of it. */
void store_table_leave(struct store *store, uint32_t table);
/* Most keys of a micro-batch. */
size_t store_key_count_max(const struct store *store);

/* The owner's half: begins, resolves the keys of each table, at most once, and ends. After a failure the ticket is
 * of no use. */
MUST_USE status store_resolve_begin(struct store *store);
/* Finds or, with STORE_CREATE, makes the rows of a table's keys, in their order, and pins them. Of `out` fills
 * unique_count, row and span; with STORE_CREATE keys may repeat, and then asked->unique and as occurrence_begin[u +
 * 1] how often unique u occurs, too; with STORE_LOOKUP each is there once, and unique u is key u. FULL, IO, CORRUPT
 * as store_prepare. Whether keys that are not admitted count is for who has the micro-batch. */
MUST_USE status store_resolve(struct store *store, uint32_t table, enum store_mode mode, const struct asked_keys *asked,
                              struct ticket_table *out);
/* Sends for rows that are in the home, and numbers the ticket; `is_last`: of a step, whose keys count from now on. */
MUST_USE status store_resolve_end(struct store *store, enum store_mode mode, bool is_last, struct ticket *ticket);

/* From now on look-ups see the rows that exist once the ticket of this number is done, in RAM alone the first
 * row_count [table_count] of each table: whoever reads ahead has made others. While the store is settled and nobody
 * creates rows, until store_sees_all. MEMORY: then nothing has changed. */
MUST_USE status store_sees_until(struct store *store, const uint64_t *row_count, uint32_t ticket);
void store_sees_all(struct store *store);

/* Whether the ticket's rows are resident: tickets become ready in the order in which they were prepared. */
bool store_ready(const struct store *store, const struct ticket *ticket);
/* Looks after reads and writes under way: to be called while a ticket is not ready; if `wait`, until one of them is
 * done. IO, CORRUPT as store_make_room. */
MUST_USE status store_poll(struct store *store, bool wait);
/* Waits until every ticket is ready. */
MUST_USE status store_settle(struct store *store);
/* Unpins the rows of the ticket of this number (ticket.number) and of all before it. */
void store_release(struct store *store, uint32_t ticket);

#endif
