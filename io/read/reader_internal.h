/* Between reader_text.c and the files of the formats. A format is a line of reader_format_table
 * (reader_text.c) and three functions: how much state it keeps, how it sets up the state, and how it turns
 * one line into one example. Other places that have to know a new format: io/README.md. */
#ifndef HETERPS_IO_READ_READER_INTERNAL_H
#define HETERPS_IO_READ_READER_INTERNAL_H

/* Inlined, a key of 8 bytes costs a few multiplications instead of a call. */
#define XXH_INLINE_ALL
#include <string.h>
#include <xxhash.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "io/read/reader.h"
#include "io/read/shuffle.h"
#include "io/read/text_isa.h"

/* Room for the reason why a line is bad. */
#define READER_WHY_BYTES 400

/* The result of parse(). */
enum reader_found {
    FOUND_BAD,     /* the line is malformed                                            */
    FOUND_NONE,    /* no example, or no further one                                    */
    FOUND_EXAMPLE, /* the line's only one, or its last                                 */
    FOUND_MORE     /* one of several: the next call, with the same line, gives the next */
};

/* Of a field of candidates parse() writes one key, the number of the target's word; io/read/candidates.c
 * makes keys of it and of the words that it draws. Where the target is no word there is no example: the
 * format goes on to the next one, and adds the one that it left out to the example's unknown_count. */
struct reader_format_functions {
    const char *name;
    /* What place() takes from the arena. */
    size_t (*bytes)(const struct reader_options *options);
    /* Sets up *state; keeps only what the schema points to.
     * INVALID if the schema asks for what the format lacks. */
    status (*place)(void **state, struct arena *arena, const struct reader_options *options);
    /* A file of a pass begins; NULL: nothing to do. */
    void (*file_begin)(void *state);
    /* NULL, or called with the first line of each file (NULL: it is too long), before parse: *is_header says
     * that the line is no example. INVALID, with a sentence without place, if the file is not what the schema
     * asks for: bad lines may be skipped, such files not. */
    status (*header)(void *state, const char *line, size_t bytes, bool *is_header);
    /* A line's examples depend on no other line but a header:
     * several threads may parse, each with its own state. */
    bool lines_are_apart;
    /* A line's examples depend on earlier lines of its file: a file cannot be read from its middle. */
    bool keeps_context;
    /* NULL, or cuts off the line with which a text of `bytes` bytes begins. Returns the line's length without
     * "\n", or `bytes` if the line does not end in the text. The state may keep notes of the line for the
     * next parse, if it parses this line. */
    size_t (*line_find)(void *state, const char *text, size_t bytes);
    /* Writes a line's example: all but is_bad, which is false. After FOUND_BAD the example is undefined, and
     * `why` (READER_WHY_BYTES), if not NULL, has the reason: "column 3 (I2): expected an integer, found
     * \"abc\"". Empty lines come only if takes_empty. */
    enum reader_found (*parse)(void *state, const char *line, size_t bytes, struct reader_example *example, char *why);
    bool takes_empty;
    /* Hands each text of the schema's only field in a line to `word`, as often as it occurs in
     * examples; NULL: the format has no words. An empty line comes only if takes_empty; what it hands
     * of a malformed line is undefined. */
    status (*words)(void *state, const char *line, size_t bytes,
                    status (*word)(void *to, const char *text, size_t bytes), void *to);
    /* About how many examples these bytes hold, for estimates; NULL: one a line. */
    uint64_t (*examples)(const char *text, size_t bytes);
};

extern const struct reader_format_functions reader_criteo, reader_csv, reader_libsvm, reader_libffm, reader_libfm,
    reader_pairs, reader_tokens, reader_trees;

/* A list of a field has `found` keys, and is cut to ids_max. */
static inline void reader_list_cut(struct reader_example *example, uint32_t found, uint32_t ids_max)
{
    example->cut_count++;
    example->lost_count += found - ids_max;
    if (found > example->list_longest) example->list_longest = found;
}

/* The text in quotation marks, cut to 40 bytes, everything but printable ASCII escaped;
 * "nothing" if it is empty. */
#define READER_QUOTE_BYTES (2 + 40 * 4 + 4)
const char *reader_quote(char out[READER_QUOTE_BYTES], const char *text, size_t bytes);

/* Writes the reason, if `why` is not NULL. Returns FOUND_BAD always, so that a parser can return it. */
enum reader_found reader_bad(char *why, const char *format, ...) PRINTF_LIKE(2, 3);
/* The expected text for a number whose distance from the mean, in deviations, is beyond float32. */
#define READER_STANDARD_WITHIN "a number of at most 3.4028235e38 deviations from its column's mean"
/* "column 3 (I2): expected EXPECTED, found "abc"" */
enum reader_found reader_bad_column(char *why, uint32_t column, const char *name, const char *expected,
                                    const char *text, size_t bytes);

/* Parses a line (NULL: it is too long); if it is bad, `why` (if not NULL) says the reason. */
enum reader_found reader_line_parse(const struct reader_format_functions *format, void *state, const char *line,
                                    size_t bytes, struct reader_example *example, char *why);

/* Bit i: byte i of the 64 bytes is c. */
static inline uint64_t reader_mask(const char *text, char c)
{
    uint64_t mask = 0;
#ifdef __SSE2__
    const __m128i wanted = _mm_set1_epi8(c);
    for (int i = 0; i < 4; i++) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(text + 16 * i));
        mask |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, wanted)) << (16 * i);
    }
#else
    for (int i = 0; i < 64; i++) mask |= (uint64_t)(text[i] == c) << i;
#endif
    return mask;
}

/* Seeds of `count` fields, all 0 until they are set. */
static inline size_t text_seeds_words(uint32_t count)
{
    return ((size_t)count + TEXT_SEEDS_PAD - 1) / TEXT_SEEDS_PAD * TEXT_SEEDS_PAD;
}
static inline size_t text_seeds_bytes(uint32_t count)
{
    return 3 * arena_bytes(sizeof(uint64_t) * text_seeds_words(count));
}
static inline void text_seeds_place(struct text_seeds *seeds, struct arena *arena, uint32_t count)
{
    seeds->seed = arena_take(arena, sizeof(uint64_t) * text_seeds_words(count));
    seeds->flip_short = arena_take(arena, sizeof(uint64_t) * text_seeds_words(count));
    seeds->flip_usual = arena_take(arena, sizeof(uint64_t) * text_seeds_words(count));
}
/* The flips are those of xxh3's short inputs: two words of its secret, and the seed. */
static inline void text_seeds_set(struct text_seeds *seeds, uint32_t i, uint64_t seed)
{
    uint64_t twice = seed ^ (uint64_t)XXH_swap32((uint32_t)seed) << 32;
    seeds->seed[i] = seed;
    seeds->flip_short[i] = (uint64_t)(XXH_readLE32(XXH3_kSecret) ^ XXH_readLE32(XXH3_kSecret + 4)) + seed;
    seeds->flip_usual[i] = (XXH_readLE64(XXH3_kSecret + 8) ^ XXH_readLE64(XXH3_kSecret + 16)) - twice;
}

static inline size_t text_plain_bytes(uint32_t count)
{
    return text_seeds_bytes(count) + arena_bytes(sizeof(uint64_t) * text_seeds_words(count));
}
static inline void text_plain_place(struct text_plain *plain, struct arena *arena, uint32_t count, bool missing_is_key)
{
    plain->field_count = count;
    plain->missing_is_key = missing_is_key;
    text_seeds_place(&plain->seeds, arena, count);
    plain->missing_key = arena_take(arena, sizeof(uint64_t) * text_seeds_words(count));
}
static inline void text_plain_set(struct text_plain *plain, uint32_t field, uint64_t seed)
{
    text_seeds_set(&plain->seeds, field, seed);
    plain->missing_key[field] = XXH3_64bits_withSeed("", 0, seed);
}

static inline uint64_t reader_key_inline(uint64_t seed, const char *text, size_t bytes)
{
    return XXH3_64bits_withSeed(text, bytes, seed);
}

/* The same with seed i; for short texts, which most are, without a call. */
static inline uint64_t reader_key_of(const struct text_seeds *seeds, uint32_t i, const char *text, size_t bytes)
{
    if (bytes - 4 <= 4) {
        uint64_t word = XXH_readLE32(text + bytes - 4) + ((uint64_t)XXH_readLE32(text) << 32);
        return XXH3_rrmxmx(word ^ seeds->flip_usual[i], bytes);
    }
    if (bytes - 1 < 3) {
        const uint8_t *byte = (const uint8_t *)text;
        uint32_t word =
            (uint32_t)byte[0] << 16 | (uint32_t)byte[bytes >> 1] << 24 | byte[bytes - 1] | (uint32_t)bytes << 8;
        return XXH64_avalanche(word ^ seeds->flip_short[i]);
    }
    return reader_key_inline(seeds->seed[i], text, bytes);
}

/* Of the hash that says which lines are held out: of nothing else. */
#define READER_HELD_OUT_SEED UINT64_C(0x68656c646f7574)

/* Whether a line belongs to the part that is read; lines whose hash is below held_out are held out. */
static inline bool reader_line_counts(enum reader_part part, uint64_t held_out, const char *line, size_t bytes)
{
    if (part == READER_ALL || !line) return true;
    bool is_held_out = XXH3_64bits_withSeed(line, bytes, READER_HELD_OUT_SEED) < held_out;
    return is_held_out == (part == READER_HELD_OUT);
}

#endif
