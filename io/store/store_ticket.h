/* Tickets: what the store gives for the keys of a micro-batch. A ticket is prepared in two
 * halves, each useful by itself:
 *
 *     the asker's    distinct keys of a micro-batch       a function of the micro-batch alone (io/store/distinct.h)
 *     the owner's    their rows, for a step               store_resolve: of the keys, and what the store has
 *
 * store_prepare does both, for a caller that has the micro-batch and the rows. With STORE_CREATE it asks
 * with all keys as they occur: the loop that finds their rows tells them apart by the index, without a
 * table of its own (io/isa/key_run.c). This takes less time than numbering them first, unless other
 * threads number them (store_number). */
#ifndef HETERPS_IO_STORE_STORE_TICKET_H
#define HETERPS_IO_STORE_STORE_TICKET_H

#include "io/store/distinct.h"
#include "io/store/store.h"

enum store_mode {
    STORE_CREATE, /* a key never seen gets a row                                                      */
    STORE_LOOKUP, /* a key never seen gets ROW_NONE and zeros or its initial values in the ticket's scratch */
};

/* Makes room in RAM for all rows that one more ticket may need; call before each store_prepare that creates.
 * Not *has_room: too many tickets or rows are pinned; release tickets. Always true unless store_takes_turns.
 * IO, CORRUPT: the disk failed; FULL: its budget is used up: raise store.ssd. */
MUST_USE status store_make_room(struct store *store, bool *has_room);
/* Deduplicates the batch's keys for every table and fills the ticket (all but step_row): uniques in order of
 * first occurrence, rows, spans, occurrences; creates rows in that order. A key that is not admitted has
 * ROW_NONE, also with STORE_CREATE, and its initial values lie in the ticket's scratch; its occurrences count
 * from the next step on, when m->is_last. FULL: names the table, its rows, the budget and the setting to
 * raise (store.ram); rows created so far stay. The caller owns the ticket's arrays (ticket_place;
 * with_scratch for STORE_LOOKUP). Spans of rows are 16-byte aligned; spans in scratch lie span_floats apart.
 * With a disk, a row's values may be on their way until the ticket is ready. */
MUST_USE status store_prepare(struct store *store, const struct micro_batch *m, enum store_mode mode,
                              struct ticket *ticket);

/* The asker's half of a ticket whose tables have memory for keys, for the store_prepare that follows: numbers
 * the micro-batch's keys, and finds existing rows of tables whose rows neither leave for a disk nor go. By
 * any thread, beside all others, also beside the thread that creates, which later makes the missing rows in
 * order of the data. `slots`: memory of its own, of distinct_slots_layout for store_key_count_max. */
void store_number(const struct store *store, const struct distinct *slots, const struct micro_batch *m,
                  struct ticket *ticket);
/* Before anything is prepared: the table's rows are elsewhere, and tickets have no rows of it. */
void store_table_leave(struct store *store, uint32_t table);
/* Most keys of a micro-batch. */
size_t store_key_count_max(const struct store *store);

/* The owner's half: begin, then resolve the keys of each table at most once, then end. After a
 * failure the ticket is of no use. */
MUST_USE status store_resolve_begin(struct store *store);
/* Finds the rows of a table's keys, or with STORE_CREATE makes them, in the order of keys, and pins them.
 * Fills unique_count, row and span of `out`. With STORE_CREATE keys may repeat; then it also fills
 * asked->unique, and in occurrence_begin[u + 1] how often unique u occurs. With STORE_LOOKUP each key is
 * there once, and unique u is key u. FULL, IO, CORRUPT as store_prepare. The caller, who has the micro-batch,
 * counts keys that are not admitted. */
MUST_USE status store_resolve(struct store *store, uint32_t table, enum store_mode mode, const struct asked_keys *asked,
                              struct ticket_table *out);
/* Sends for rows in the home, and numbers the ticket; `is_last`: of a step, whose keys count from now on. */
MUST_USE status store_resolve_end(struct store *store, enum store_mode mode, bool is_last, struct ticket *ticket);

/* From now on look-ups see the rows that exist once the ticket of this number is done; in RAM alone the first
 * row_count [table_count] of each table. Reading ahead has made other rows. While the store is settled and
 * nobody creates rows, until store_sees_all. MEMORY: then nothing has changed. */
MUST_USE status store_sees_until(struct store *store, const uint64_t *row_count, uint32_t ticket);
void store_sees_all(struct store *store);

/* Whether the ticket's rows are resident: tickets become ready in the order in which they were prepared. */
bool store_ready(const struct store *store, const struct ticket *ticket);
/* Looks after reads and writes under way; call it while a ticket is not ready. `wait`: until one of them is
 * done. IO, CORRUPT as store_make_room. */
MUST_USE status store_poll(struct store *store, bool wait);
/* Waits until every ticket is ready. */
MUST_USE status store_settle(struct store *store);
/* Unpins the rows of the ticket of this number (ticket.number) and of all earlier tickets. */
void store_release(struct store *store, uint32_t ticket);

#endif
