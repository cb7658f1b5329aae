/* Histories of users, from separate files: for a format whose examples have a field `history`
 * (io/read/pairs.c), where an example's line must not tell the history, as in evaluation.
 *
 *     files ──reader──▶ (group, key) of every example, sorted ──find──▶ a group's keys, each once
 *
 * Memory: 16 bytes a pair, taken at open. Cost: the files are read twice, so they cannot be
 * streams; a look-up is a binary search. */
#ifndef HETERPS_IO_READ_HISTORIES_H
#define HETERPS_IO_READ_HISTORIES_H

#include "io/read/reader.h"

struct history_pair {
    uint64_t group, key;
};
struct histories;

/* The options are those of the data; format, paths, bad_skip, part, notices and the schema count. Field
 * `field` of the schema is the history; keys are those of its column. *histories is yours: histories_close.
 * Errors of reader_open and reader_fill. */
MUST_USE status histories_open(struct histories **histories, const struct reader_options *options, uint32_t field);
/* NULL is ignored. */
void histories_close(struct histories *histories);
/* The group's pairs, [*count], sorted by key. NULL: the group has none. */
const struct history_pair *histories_find(const struct histories *histories, uint64_t group, size_t *count);

#endif
