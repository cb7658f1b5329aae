/* Looks at the first lines of the data, before anything long begins: whether they can be read, and whether
 * the rows that a training starts from belong to keys of the data. */
#ifndef HETERPS_ENGINE_RUN_FIRST_READ_H
#define HETERPS_ENGINE_RUN_FIRST_READ_H

#include "engine/crew/crew.h"

/* Reads these lines of the paths from their beginning, and shows micro-batches to `look` until it has seen
 * enough; NULL: reads one. *bad_count: the malformed lines that were left out. Fails as the reader and `look`
 * do. */
MUST_USE status first_read(struct crew *crew, const struct setup *setup, const char *paths, enum reader_part lines,
                           feed_looker *look, void *context, uint64_t *bad_count);

/* Whether keys of the data find rows in a model whose rows all come from `init`: a feed_looker. It sees what
 * is read before a training (first_rows_check) or, of a stream, what the training reads, before rows are made
 * of a micro-batch (feed_look). It looks until every table has a key with a row, or a hundred keys without
 * one, or 10,000 examples are over. MISMATCH: no key has a row, and there are a hundred keys, or no more.
 * Warns where this is so of a single table, or where 10,000 examples have fewer keys of a table, and none of
 * them a row. Keeps the texts and the set-up. MEMORY. */
struct first_rows;
MUST_USE status first_rows_open(struct first_rows **rows, const struct setup *setup, const char *paths,
                                const char *init);
MUST_USE status first_rows_look(void *rows, const struct micro_batch *m, bool is_end, bool *is_enough);
void first_rows_close(struct first_rows *rows);
/* Does all of this, except for rows that may lie on a disk. Not for data that can be read only once. */
MUST_USE status first_rows_check(struct crew *crew, const struct setup *setup, const char *paths, const char *init);

#endif
