/* Between reader.c and the files of the formats. A format is a line of reader_format_table (reader.c) and three
 * functions: how much state it keeps, how it sets that up, and how it turns one line into one example. */
#ifndef HETERPS_IO_READER_INTERNAL_H
#define HETERPS_IO_READER_INTERNAL_H

/* Inlined, a key of 8 bytes costs a few multiplications instead of a call. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "io/reader.h"
#include "io/shuffle.h"

/* How far past the end of a line a parser may read (and ignore what it finds). */
#define READER_SLACK_BYTES 64
/* Room for the reason why a line is bad. */
#define READER_WHY_BYTES 320

struct reader_format_functions {
    const char *name;
    /* What place() takes from the arena. */
    size_t (*bytes)(const struct reader_options *options);
    /* Sets up *state, keeping nothing of options. INVALID if the schema asks for what the format lacks. */
    status (*place)(void **state, struct arena *arena, const struct reader_options *options);
    /* Writes a line's example: label and the arrays, all of them. False for a bad line, whose example is undefined;
     * then the reason is in `why` (READER_WHY_BYTES) if that is not NULL: "column 3 (I2): expected an integer, found
     * \"abc\"". */
    bool (*parse)(void *state, const char *line, size_t bytes, struct reader_example *example, char *why);
};

extern const struct reader_format_functions reader_criteo;

/* The text in quotation marks, cut to 40 bytes, everything but printable ASCII escaped; "nothing" if it is empty. */
#define READER_QUOTE_BYTES (2 + 40 * 4 + 4)
const char *reader_quote(char out[READER_QUOTE_BYTES], const char *text, size_t bytes);

static inline uint64_t reader_key_inline(uint32_t column, const char *text, size_t bytes)
{
    return XXH3_64bits_withSeed(text, bytes, column);
}

#endif
