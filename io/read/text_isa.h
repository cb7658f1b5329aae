/* What parsers do to many bytes, columns or keys at once, in one table for each instruction set.
 * io/isa/text.c is compiled once for each, with ISA defined as its name. Where a table has no function
 * (NULL), the plain code beside the call computes. Both give the same results, bit by bit, so no setting
 * chooses. The sets are those of enum isa_io (engine/base/isa.h).
 *
 * All functions may read READER_SLACK_BYTES beyond the end of a text. */
#ifndef HETERPS_IO_READ_TEXT_ISA_H
#define HETERPS_IO_READ_TEXT_ISA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A line and its columns, from text_kernels.columns_find: column i is the bytes
 * begin[i] .. begin[i + 1] - 2. */
struct text_columns {
    size_t line_bytes; /* up to the line end, or to the end of the text                                     */
    bool has_end;      /* there is a line end                                                           */
    bool has_quote;    /* there is a quotation mark                                                     */
    /* takes_quotes: every mark is a column's first or last byte, and no separator
     * between two marks was counted */
    bool is_quoted;
    bool has_space;           /* there is a space; with takes_quotes, outside of quotation marks               */
    uint32_t separator_count; /* columns - 1                                                                  */
    bool takes_quotes;        /* set by the caller: separators between two quotation marks are none       */
    /* [limit + TEXT_BEGIN_MORE]; columns beyond the limit are not kept. A line of `limit` columns at most has
     * TEXT_PAD beginnings more, all at its end, so that kernels may take sixteen columns where fewer are
     * left: the first of these is an empty column, the others are none. */
    uint32_t *begin;
};
/* A block of 64 separators behind the last column that is kept. */
#define TEXT_BEGIN_MORE 66u
#define TEXT_PAD        16u

/* Seeds of keys, and numbers derived from them; padded to a multiple of TEXT_SEEDS_PAD. */
struct text_seeds {
    uint64_t *seed, *flip_short, *flip_usual; /* [count, padded]: for texts of 1 to 3, of 4 to 8 bytes */
};
#define TEXT_SEEDS_PAD 8u

/* Fields of at most one key each, of any text. */
struct text_plain {
    uint32_t field_count;
    bool missing_is_key;
    struct text_seeds seeds;
    uint64_t *missing_key; /* [field_count] */
};

/* The part of criteo's state that kernels see. */
#define CRITEO_INTEGERS   13u
#define CRITEO_CATEGORIES 26u
#define CRITEO_FIELDS     40u /* fields: categories, and integers by their texts; padded */
struct criteo_fields {
    struct text_plain plain;
    uint32_t column[CRITEO_FIELDS]; /* [field_count]: from 0, which is C1, or, where some fields are integers, I1 */
};

/* Which field of the schema a feature is of: that of its number, or `all`. */
struct text_numbers {
    bool has_number; /* features have numbers, up to 65535 */
    uint32_t all;
    uint32_t number_count;
    const uint32_t *field; /* [number_count + 1]: by number; the last is that of greater numbers */
    struct text_seeds seeds;
};

/* Features of a line, from text_kernels.features; arrays are padded like seeds, with places in the text. */
#define TEXT_FEATURES 64u
struct text_features {
    uint32_t count;
    uint32_t at[TEXT_FEATURES], id_bytes[TEXT_FEATURES]; /* of the id: up to 20 digits, no leading zero */
    uint32_t field[TEXT_FEATURES];
    uint64_t key[TEXT_FEATURES]; /* of the id, with the field's seed */
    float value[TEXT_FEATURES];
};

struct text_kernels {
    const char *name;
    /* Cuts the text at its first '\n' and finds the separators before it, in one pass.
     * `limit`: columns to keep. */
    void (*columns_find)(const char *text, size_t bytes, char separator, uint32_t limit, struct text_columns *found);
    /* `count` <= 16 integers, -?[0-9]* of up to 8 bytes each; text i is the bytes at[i] .. stop[i] - 2, as of
     * columns. If log1p_of, a table of log1p(0 .. TEXT_LOG1P_COUNT - 1), is not NULL: sign times the
     * logarithm of 1 + magnitude. False if one of the texts has another form: `out` is then undefined. All
     * sixteen `at` must be places in the line. Or NULL. */
    bool (*integers)(const char *line, const uint32_t at[16], const uint32_t stop[16], uint32_t count,
                     const float *log1p_of, float missing_value, float out[16]);
    /* The keys of the categories at begin[0] .. begin[26]; returns how many. Or NULL. */
    uint32_t (*categories)(const struct criteo_fields *fields, const char *line, const uint32_t *begin, uint64_t *key,
                           uint32_t *key_end);
    /* The same of the texts at[i] .. stop[i] - 2, which are padded like seeds, with any texts. Or NULL. */
    uint32_t (*fields)(const struct text_plain *fields, const char *text, const uint32_t *at, const uint32_t *stop,
                       uint64_t *key, uint32_t *key_end);
    /* key[i] = reader_key(seed[which[i]], text + at[i], bytes[i]), bytes > 0, for any count; arrays are
     * padded like seeds, with any `at` within the text, any `bytes` and any `which` of a seed. Or NULL. */
    void (*keys)(uint64_t *key, const char *text, const uint32_t *at, const uint32_t *bytes,
                 const struct text_seeds *seeds, const uint32_t *which, uint32_t count);
    /* Finds features "id:value" or, with numbers, "number:id:value", one blank between two, at the front of
     * the text, at most TEXT_FEATURES. Returns how many bytes they take, up to the next feature or the text's
     * end; 0 if there are none, or if one has another form, which may be valid all the same. Or NULL. */
    size_t (*features)(const char *text, size_t bytes, const struct text_numbers *numbers, struct text_features *found);
    /* Notes where the keys of an example's fields lie: key_begin[i + 1] = key_base + key_end[i],
     * and key_home of each key is home + i. False if a field has several keys: key_home is then
     * the caller's to fill. Or NULL. */
    bool (*homes)(uint32_t *key_begin, uint32_t *key_home, const uint32_t *key_end, uint32_t field_count, uint32_t home,
                  uint32_t key_base);
};
#define TEXT_LOG1P_COUNT 4096u

extern const struct text_kernels text_kernels_base, text_kernels_avx2, text_kernels_avx512;

/* By name; NULL: the best that runs here. Returns NULL if there is no such set, or it does not run here. */
const struct text_kernels *text_kernels_of(const char *name);

#endif
