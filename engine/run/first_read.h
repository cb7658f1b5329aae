/* The first lines of the data, before anything long begins: whether they can be read, and whether rows that a
 * training starts from are of their keys. */
#ifndef HETERPS_ENGINE_RUN_FIRST_READ_H
#define HETERPS_ENGINE_RUN_FIRST_READ_H

#include "engine/crew/crew.h"

/* Reads the paths from their front, and shows micro-batches to `look` until that has seen enough; NULL: one is read.
 * With bad lines so many that were left out. What the reader and `look` fail with. */
MUST_USE status first_read(struct crew *crew, const struct setup *setup, const char *paths, feed_looker *look,
                           void *context, uint64_t *bad_count);

/* Whether a model that has rows from `init`, and none of its own, is looked up by the keys of the data: a feed_looker,
 * of what is read before a training (first_rows_check), or by it, in the order of the data and before rows are made of
 * a micro-batch (a stream; feed_look). It looks until every table has a key with a row, or a hundred without,
 * or 10,000 examples are over. MISMATCH: no key has a row, and they are a hundred, or all. Warns of a single table
 * likewise. Keeps the texts and the set-up. MEMORY. */
struct first_rows;
MUST_USE status first_rows_open(struct first_rows **rows, const struct setup *setup, const char *paths,
                                const char *init);
MUST_USE status first_rows_look(void *rows, const struct micro_batch *m, bool is_end, bool *is_enough);
void first_rows_close(struct first_rows *rows);
/* All of this, but rows that may lie on a disk are not looked at. Not for data that can be read only once. */
MUST_USE status first_rows_check(struct crew *crew, const struct setup *setup, const char *paths, const char *init);

#endif
