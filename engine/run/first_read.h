/* The first lines of the data, before anything long begins: whether they can be read, and whether rows that a
 * training starts from are of their keys. */
#ifndef HETERPS_ENGINE_RUN_FIRST_READ_H
#define HETERPS_ENGINE_RUN_FIRST_READ_H

#include "engine/crew/crew.h"

/* Reads the first micro-batch of the paths, and shows it to `look`, unless that is NULL; with bad lines so many
 * that were left out. What the reader fails with. */
MUST_USE status first_read(struct crew *crew, const struct setup *setup, const char *paths,
                           void (*look)(void *context, const struct micro_batch *m), void *context,
                           uint64_t *bad_count);
/* Of a model that has rows from `init`, and none of its own: MISMATCH if none of the keys that the first lines
 * look up has one. Warns of a single table without any. Rows that may lie on a disk are not looked at. Not for
 * data that can be read only once. */
MUST_USE status first_rows_check(struct crew *crew, const struct setup *setup, const char *paths, const char *init);

#endif
