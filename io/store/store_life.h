/* Rows that come and go by the rules of engine/base/row_life.h. A key that is not admitted yet has
 * no row, and a ticket gives its initial values. At the end of a step store_sweep removes dead rows
 * from RAM, and rows beyond a table's bound. Dead rows on disk are found when somebody needs them,
 * and are never given to anybody. */
#ifndef HETERPS_IO_STORE_STORE_LIFE_H
#define HETERPS_IO_STORE_STORE_LIFE_H

#include "io/store/store.h"

/* Sets the period of the next steps after a model has been loaded; some of its rows may be dead. */
void store_period_set(struct store *store, uint64_t period);
/* Whether a sweep is due at the end of the step whose last ticket has just been prepared and is ready,
 * although no period ends. The store may wait for the disk to find out. */
MUST_USE status store_is_crowded(struct store *store, bool *is_crowded);
/* At the end of a step, when no later ticket is prepared. `period`: of the next step. Removes the rows that
 * have died, and of a table with too many rows those with the least scores. Spans of tickets are no longer
 * valid (store_find_again). Nobody else may use the store. IO, CORRUPT as store_make_room. */
MUST_USE status store_sweep(struct store *store, uint64_t period);
/* The same without the bounds of rows: other nodes have rows of these tables, too. */
void store_sweep_dead(struct store *store, uint64_t period);
/* Points the ticket of the step that has just ended to where its rows are now, or to zeros: they are gone. */
void store_find_again(struct store *store, const struct micro_batch *m, struct ticket *ticket);
/* Finds and removes the dead rows on disk, so that counts of rows are exact; while the store
 * is settled and nobody uses it. */
MUST_USE status store_purge(struct store *store);
/* Where keys are asked for step by step and not micro-batch by micro-batch (STORE_CREATE of store_resolve):
 * notes that a key without a row, not admitted yet, has occurred `count` times in the step under way … */
void store_unadmitted_add(struct store *store, uint32_t table, uint64_t key, uint32_t count);
/* … and, at the end of the step, counts what has been noted; nobody goes back before
 * it. FULL as store_prepare. */
MUST_USE status store_unadmitted_end(struct store *store);
/* Where several nodes have the rows of a table whose number is bounded. The rows to remove are those with the
 * least scores, of equal scores those with the least keys. They are found digit by digit, score first, from
 * the greatest digit on. Each node counts its rows that have the digits chosen so far by their next digit;
 * from the sums over all nodes everybody chooses the same digit; at the end each removes its own rows.
 * Between two steps, while nothing is prepared; with a disk, the rows on it are read for every digit. */
#define STORE_BINS 65536u
struct store_select {
    uint64_t most;      /* rows that may stay; the others are 0 to begin with   */
    uint64_t row_count; /* living rows of all nodes; known when a digit is chosen */
    uint64_t gone;      /* how many of these go; likewise. 0: they are not too many */
    uint64_t wanted;    /* of the rows that go: how many have the digits chosen so far */
    uint32_t digit;     /* which is counted now                                 */
    uint32_t chosen[6]; /* the digits before it                                 */
};
/* Both: IO, CORRUPT of rows on disk. */
MUST_USE status store_select_count(struct store *store, uint32_t table, const struct store_select *select,
                                   uint64_t bins[STORE_BINS]);
/* Returns whether that was the last digit. */
bool store_select_choose(struct store_select *select, const uint64_t bins[STORE_BINS]);
MUST_USE status store_select_remove(struct store *store, uint32_t table, const struct store_select *select);
/* Whether the table's rows come and go. */
bool store_lives(const struct store *store, uint32_t table);
/* Counts keys that have no row yet; NULL: the table admits every key. Saves hold it; read it before rows are
 * inserted. */
struct admission *store_admission(struct store *store, uint32_t table);

#endif
