/* Distinct texts, each with its number of occurrences, in the order in which they first came: a vocabulary is
 * made of them. Grows as needed, at compile time, when a whole data set is read once. */
#ifndef HETERPS_IO_READ_WORD_TABLE_H
#define HETERPS_IO_READ_WORD_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

struct word_table {
    struct word_entry {
        uint64_t hash, count;
        uint64_t text_begin; /* in `text` */
        uint32_t text_bytes;
    } * entry; /* [entry_count] */
    uint64_t entry_count, entry_max;
    uint32_t *cell; /* [cell_count], a power of two: 1 + index of an entry, or 0; linear probing */
    uint64_t cell_count;
    char *text; /* all texts, one after another */
    uint64_t text_bytes, text_max;
};

/* Counts one occurrence; a zero-initialised table is empty. INVALID: more than count_max
 * (below 2^32) distinct texts. MEMORY. */
MUST_USE status word_table_add(struct word_table *table, const char *text, size_t bytes, uint64_t count_max);
void word_table_free(struct word_table *table);

#endif
