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

/* What parse() has found. */
enum reader_found {
    FOUND_BAD,     /* the line is malformed                                            */
    FOUND_NONE,    /* no example, or none any more                                     */
    FOUND_EXAMPLE, /* the line's only one, or its last                                 */
    FOUND_MORE     /* one of several: the next call, with the same line, gives the next */
};

struct reader_format_functions {
    const char *name;
    /* What place() takes from the arena. */
    size_t (*bytes)(const struct reader_options *options);
    /* Sets up *state, keeping of options only what the schema points to. INVALID if the schema asks for what the format lacks. */
    status (*place)(void **state, struct arena *arena, const struct reader_options *options);
    /* A pass begins (NULL: nothing to do), and each file of it. */
    void (*file_begin)(void *state);
    /* Writes a line's example: all but is_bad, which is false. After FOUND_BAD it is undefined, and the reason is
     * in `why` (READER_WHY_BYTES) if that is not NULL: "column 3 (I2): expected an integer, found \"abc\"". Empty lines come too
     * if takes_empty. */
    enum reader_found (*parse)(void *state, const char *line, size_t bytes, struct reader_example *example, char *why);
    bool takes_empty;
    /* Hands each text of a column in a line to `word`, for counting; NULL: the format has no words. */
    status (*words)(void *state, const char *line, size_t bytes,
                    status (*word)(void *to, const char *text, size_t bytes), void *to);
};

extern const struct reader_format_functions reader_criteo;

/* The text in quotation marks, cut to 40 bytes, everything but printable ASCII escaped; "nothing" if it is empty. */
#define READER_QUOTE_BYTES (2 + 40 * 4 + 4)
const char *reader_quote(char out[READER_QUOTE_BYTES], const char *text, size_t bytes);

static inline uint64_t reader_key_inline(uint64_t seed, const char *text, size_t bytes)
{
    return XXH3_64bits_withSeed(text, bytes, seed);
}

#endif
