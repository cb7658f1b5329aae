/* Threads that parse for one reader, where lines do not depend on each other. The text is cut into blocks at
 * line ends. A free thread parses the oldest block that nobody has; the reader's thread does, too, when it
 * has nothing else to do. Examples leave in the order of the text.
 *
 *     reader   cut ──▶ block ──todo ring──▶ any parser: examples ──▶ oldest block ──▶ reader: examples, bad lines
 *                ◀──────────────────────── free again ◀─────────────────────────────────┘
 *
 * Every parser has its own format state; a block's examples do not depend on who parses it. A block has room
 * for some hundred examples. The text of shorter lines gives more: the reader parses the rest after taking
 * those examples. All memory is taken at open; no locks.
 *
 * Workload: a block of 256 KiB, a thousand lines, a quarter of a millisecond. */
#ifndef HETERPS_IO_READ_PARSERS_H
#define HETERPS_IO_READ_PARSERS_H

#include "io/read/reader_internal.h"

struct parsers;

/* The result of a line: an example, or the reason why it is bad. The counts of lines without
 * either go into the next entry. */
struct parsers_entry {
    bool is_bad;
    uint32_t line; /* of the block, from 1                     */
    uint32_t cut_count, unknown_count, lost_count, list_longest;
};

struct parsers_block {
    /* the reader's, before parsers_push */
    char *text; /* [READER_LINE_BYTES_MAX + block bytes + READER_SLACK_BYTES]; may be exchanged for another such */
    size_t begin, end;
    bool is_file_begin;  /* its first line is a file's                                                   */
    bool front_is_long;  /* the text up to the first line end belongs to a line that is too long           */
    uint32_t path_index; /* for messages                                                               */
    /* the reader's, for its marks */
    uint64_t byte, pass_bytes; /* bytes of the file and of the pass before its text */
    bool is_plain, front_was_long, is_seen;
    /* the parsers', to be read when parsers_oldest has given the block */
    uint32_t entry_count;
    struct parsers_entry *entry;
    uint32_t line_count;               /* lines so far */
    uint32_t unknown_count, cut_count; /* counts of lines behind the last entry */
    bool is_finished;                  /* the text has ended; else parsers_more goes on behind the last entry */
    char why[READER_WHY_BYTES];
    /* how far the reader is in it */
    uint32_t taken, lines_taken;
    /* the parsers' */
    uint8_t *record;
    _Atomic uint32_t shared_is_parsed;
};

struct parsers_options {
    const struct reader_format_functions *format;
    const struct reader_options *reader;
    struct example_shape shape; /* before candidates are drawn */
    uint32_t count;             /* of parsers, the reader's thread included: at least 2    */
    size_t text_bytes;          /* of a block's text */
    uint64_t held_out;          /* as reader_line_counts takes it */
};

/* What parsers_open takes from the arena; also notes the stacks of its threads. */
size_t parsers_bytes(const struct parsers_options *options);
/* INVALID as the format's place; SYSTEM: a thread cannot be started.
 * Keeps what the options' schema points to. */
MUST_USE status parsers_open(struct parsers **parsers, struct arena *arena, const struct parsers_options *options);
void parsers_close(struct parsers *parsers);

/* The next block to fill; NULL: no block is free. */
struct parsers_block *parsers_free(struct parsers *parsers);
/* Hands over the block from parsers_free. */
void parsers_push(struct parsers *parsers);
/* The oldest block, parsed; waits for it, or parses meanwhile. NULL: there is no block. */
struct parsers_block *parsers_oldest(struct parsers *parsers);
/* Goes on with the oldest block, which is not finished, behind its last entry. */
void parsers_more(struct parsers *parsers);
/* Gives the oldest block back. */
void parsers_release(struct parsers *parsers);
/* Gives all blocks back. */
void parsers_drain(struct parsers *parsers);

/* Entry i of the oldest block; not of a bad line, which has no example. */
void parsers_example(const struct parsers *parsers, uint32_t i, struct reader_example *example);

#endif
