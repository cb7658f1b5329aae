/* Rows that come and go by the rules of engine/base/row_life.h: a key that is not admitted yet has no row, and a
 * ticket gives its initial values; store_sweep, at the end of a step, removes rows in RAM that are dead, and all
 * that are too many. Rows on disk that are dead are found when somebody needs them, and never given to anybody. */
#ifndef HETERPS_IO_STORE_STORE_LIFE_H
#define HETERPS_IO_STORE_STORE_LIFE_H

#include "io/store/store.h"

/* The period of the steps that follow, once a model has been loaded, among whose rows may be dead ones. */
void store_period_set(struct store *store, uint64_t period);
/* Whether a sweep is due at the end of the step whose last ticket has just been prepared and is ready, though no
 * period ends. For this the store may wait for the disk. */
MUST_USE status store_is_crowded(struct store *store, bool *is_crowded);
/* At the end of a step, when no ticket behind it is prepared: `period` is that of the next step. Removes the rows
 * that have died, and of a table with too many those of the least scores. Spans of tickets are no longer valid
 * (store_find_again). Nobody else may use the store. IO, CORRUPT as store_make_room. */
MUST_USE status store_sweep(struct store *store, uint64_t period);
/* The same without the bounds of rows, which are others' too. */
void store_sweep_dead(struct store *store, uint64_t period);
/* Points the ticket, of the step that has just ended, to where its rows are now: to zeros if they are gone. */
void store_find_again(struct store *store, const struct micro_batch *m, struct ticket *ticket);
/* Finds and removes the dead rows on disk, so that counts of rows are exact; while the store is settled and nobody
 * uses it. */
MUST_USE status store_purge(struct store *store);
/* Where keys are asked for step by step, and not micro-batch by micro-batch (STORE_CREATE of store_resolve): notes
 * that a key, which has no row and is not admitted, has occurred `count` times in the step under way … */
void store_unadmitted_add(struct store *store, uint32_t table, uint64_t key, uint32_t count);
/* … and at its end counts what has been noted; nobody will go back before it. FULL as store_prepare. */
MUST_USE status store_unadmitted_end(struct store *store);
/* Where several have the rows of a table whose number is bounded: the rows that are too many, those of the least
 * scores and of equal ones the least keys, are found digit by digit of both, from the greatest on. Each counts its
 * rows with the digits chosen so far by their next one; of the sums over all everybody chooses the same; and each
 * removes its own. Between two steps, while nothing is prepared; with a disk it reads the rows there for every
 * digit. */
#define STORE_BINS 65536u
struct store_select {
    uint64_t most;      /* rows that may stay; the others are 0 to begin with   */
    uint64_t row_count; /* of all, that live: known when a digit is chosen      */
    uint64_t gone;      /* of these; likewise. 0: they are not too many         */
    uint64_t wanted;    /* of those that go, that have the digits chosen so far */
    uint32_t digit;     /* that is counted                                      */
    uint32_t chosen[6]; /* of those before it                                   */
};
/* IO, CORRUPT, both: of rows on disk. */
MUST_USE status store_select_count(struct store *store, uint32_t table, const struct store_select *select,
                                   uint64_t bins[STORE_BINS]);
/* Returns whether that was the last digit. */
bool store_select_choose(struct store_select *select, const uint64_t bins[STORE_BINS]);
MUST_USE status store_select_remove(struct store *store, uint32_t table, const struct store_select *select);
/* Whether the table's rows come and go. */
bool store_lives(const struct store *store, uint32_t table);
/* Counts keys that have no row yet; NULL: the table admits every key. To be saved, and read before rows are
 * inserted. */
struct admission *store_admission(struct store *store, uint32_t table);

#endif
