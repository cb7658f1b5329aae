/* The format of the Criteo click logs: a line an example, 40 columns separated by tabs.
 *
 *     column  1      2 .. 14     15 .. 40
 *     name    label  I1 .. I13   C1 .. C26
 *     text    0|1    integers    any bytes, normally 8 hexadecimal digits
 *
 * Integers have up to 64 bits, may be negative and may be missing (empty); categorical columns may be empty.
 * Where the label is optional it may be empty, or its whole column may be missing. An integer may be a field,
 * too, by its text. All columns are checked, even those that the schema leaves out, so that the graph does
 * not decide whether a line is bad.
 *
 * Workload: a line of about 250 bytes, 150 to 400 ns. The line's end and its tabs are found in one pass, 64
 * bytes at a time. Integers are converted eight digits at a time; a vector holds several of them, or of keys.
 * Nothing is copied. Unusual values go through the plain code here, which is the reference. */
#include "io/read/reader_internal.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/fmath.h"

#define INTEGER_COUNT  CRITEO_INTEGERS
#define CATEGORY_COUNT CRITEO_CATEGORIES
#define COLUMN_COUNT   (1 + INTEGER_COUNT + CATEGORY_COUNT)

/* Most integers are small: their logarithms are looked up. */
#define LOG1P_COUNT TEXT_LOG1P_COUNT

/* Bytes of a categorical value; within READER_SLACK_BYTES. */
#define USUAL_BYTES 8

struct criteo {
    const struct text_kernels *kernels;
    uint32_t dense_count, label_count;
    uint32_t dense_column[INTEGER_COUNT];
    float dense_mean[INTEGER_COUNT], dense_scale[INTEGER_COUNT];
    bool is_scaled;
    struct criteo_fields fields;
    bool has_integer_fields; /* some fields are integers, by their texts: plain code makes the keys */
    bool log1p, label_optional;
    float missing_value;
    float log1p_of[LOG1P_COUNT];
    /* the last line of line_find; NULL: there is none, or parse has seen it */
    const char *line;
    struct text_columns columns;
    /* One place in front: where the label is missing, columns are counted from there. */
    uint32_t begin[1 + COLUMN_COUNT + TEXT_BEGIN_MORE];
};

static size_t criteo_bytes(const struct reader_options *options)
{
    return arena_bytes(sizeof(struct criteo)) + text_plain_bytes(options->schema.example.field_count);
}

/* The numbers of columns, from 0, by their names: a prefix and a number from 1. */
static status columns_place(uint32_t *out, const struct reader_column *column, uint32_t count, char prefix,
                            uint32_t column_count, const char *kind)
{
    if (count > column_count) FAIL(INVALID, "criteo has %u %s columns; the graph uses %u", column_count, kind, count);
    for (uint32_t i = 0; i < count; i++) {
        char *end;
        const char *name = column ? column[i].name : NULL;
        unsigned long number = name && name[0] == prefix ? strtoul(name + 1, &end, 10) : 0;
        if (name && (number < 1 || number > column_count || *end))
            FAIL(INVALID, "criteo has the %s columns %c1 to %c%u; the graph uses %s", kind, prefix, prefix,
                 column_count, name);
        out[i] = name ? (uint32_t)number - 1 : i;
    }
    return ST_OK;
}

/* The same for fields, which may be integers, too: all are then numbered from I1 on. */
static status fields_place(struct criteo *c, const struct reader_column *column)
{
    struct criteo_fields *f = &c->fields;
    const uint32_t field_count = f->plain.field_count;
    uint32_t integers = 0, at = 0;
    for (uint32_t i = 0; column && i < field_count; i++) integers += column[i].name[0] == 'I';
    if (integers == 0) return columns_place(f->column, column, field_count, 'C', CATEGORY_COUNT, "categorical");
    if (field_count > INTEGER_COUNT + CATEGORY_COUNT)
        FAIL(INVALID, "criteo has %u columns of texts; the graph uses %u", INTEGER_COUNT + CATEGORY_COUNT, field_count);
    c->has_integer_fields = true;
    for (uint32_t i = 0; i < field_count; i++) {
        bool is_integer = column[i].name[0] == 'I';
        TRY(columns_place(&at, &column[i], 1, is_integer ? 'I' : 'C', is_integer ? INTEGER_COUNT : CATEGORY_COUNT,
                          is_integer ? "integer" : "categorical"));
        f->column[i] = at + (is_integer ? 0 : INTEGER_COUNT);
    }
    return ST_OK;
}

static status criteo_place(void **state, struct arena *arena, const struct reader_options *options)
{
    const struct reader_schema *schema = &options->schema;
    struct criteo *c = arena_take(arena, sizeof *c);
    struct criteo_fields *f = &c->fields;
    c->kernels = text_kernels_of(options->isa);
    c->columns.begin = c->begin + 1;
    c->dense_count = schema->example.dense_count;
    const uint32_t field_count = schema->example.field_count;
    text_plain_place(&f->plain, arena, field_count, schema->missing_is_key);
    CHECK(schema->example.key_count_max >= field_count);
    c->label_count = schema->example.label_count;
    if (c->label_count > 1) FAIL(INVALID, "criteo has one label; the graph uses %u", c->label_count);
    if (schema->example.has_weight || schema->example.has_group)
        FAIL(INVALID, "criteo has no column of weights or groups");
    if (schema->label_map && *schema->label_map)
        FAIL(INVALID, "criteo's label is 0 or 1; data.label_map is for other formats, found \"%.40s\"",
             schema->label_map);
    TRY(columns_place(c->dense_column, schema->dense, c->dense_count, 'I', INTEGER_COUNT, "integer"));
    TRY(fields_place(c, schema->field));
    for (uint32_t i = 0; i < c->dense_count; i++) {
        c->dense_mean[i] = schema->dense ? schema->dense[i].mean : 0;
        c->dense_scale[i] = schema->dense ? schema->dense[i].scale : 1;
        c->is_scaled |= c->dense_mean[i] != 0 || c->dense_scale[i] != 1;
    }
    for (uint32_t field = 0; field < field_count; field++)
        text_plain_set(&f->plain, field, schema->field ? schema->field[field].seed : f->column[field]);
    c->log1p = schema->log1p;
    c->missing_value = schema->missing_value;
    c->label_optional = options->label_optional;
    for (uint32_t i = 0; i < LOG1P_COUNT; i++) c->log1p_of[i] = (float)fmath_log1p(i);
    *state = c;
    return ST_OK;
}

static size_t criteo_line_find(void *state, const char *text, size_t bytes)
{
    struct criteo *c = state;
    c->kernels->columns_find(text, bytes, '\t', COLUMN_COUNT, &c->columns);
    c->line = c->columns.has_end ? text : NULL;
    return c->columns.line_bytes;
}

/* The number of columns of a line, even if too many. If the number is right,
 * their places are in c->begin + 1. */
static uint32_t columns_of(struct criteo *c, const char *line, size_t bytes)
{
    if (c->line == line)
        c->columns.begin[c->columns.separator_count < COLUMN_COUNT ? c->columns.separator_count + 1 : COLUMN_COUNT] =
            (uint32_t)bytes + 1; /* a "\r" does not belong to the line */
    else
        c->kernels->columns_find(line, bytes, '\t', COLUMN_COUNT, &c->columns);
    c->line = NULL;
    return c->columns.separator_count + 1;
}

enum integer_result { INTEGER_OK, INTEGER_NOT, INTEGER_TOO_WIDE, INTEGER_TOO_FAR };

/* -?[0-9]+ of any length; *magnitude < 2^63, or 2^63 for a negative number. */
static enum integer_result integer_parse_long(const char *text, uint32_t bytes, bool is_negative, uint64_t *magnitude)
{
    uint64_t limit = ((uint64_t)1 << 63) - !is_negative, value = 0;
    bool is_wide = false;
    for (uint32_t i = 0; i < bytes; i++) {
        unsigned digit = (unsigned char)text[i] - (unsigned)'0';
        if (digit > 9) return INTEGER_NOT;
        if (value > (limit - digit) / 10)
            is_wide = true;
        else
            value = value * 10 + digit;
    }
    *magnitude = value;
    return is_wide ? INTEGER_TOO_WIDE : INTEGER_OK;
}

/* -?[0-9]+, or nothing, which is 0; may read 8 bytes from the first digit on, and the byte of
 * a sign. Lengths and signs are hard to predict, so the usual case, up to eight digits, has
 * no branch that depends on them. */
static inline enum integer_result integer_parse(const char *text, uint32_t bytes, bool *is_negative,
                                                uint64_t *magnitude)
{
    bool has_sign = (*text == '-') & (bytes > 0);
    *is_negative = has_sign;
    text += has_sign;
    bytes -= has_sign;
    if (__builtin_expect(has_sign & (bytes == 0), 0)) return INTEGER_NOT;
    if (__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__ || __builtin_expect(bytes > 8, 0))
        return integer_parse_long(text, bytes, has_sign, magnitude);
    /* The digits move to the top of a word, the last one uppermost, with zeros in front of them. Then
     * neighbours are joined: eight digits to four numbers below 100, to two below 10,000, to one. Two shifts,
     * because one by 64 is undefined. */
    uint64_t word;
    memcpy(&word, text, sizeof word);
    unsigned half_shift = 32 - 4 * bytes;
    word = (word << half_shift << half_shift) ^ (UINT64_C(0x3030303030303030) << half_shift << half_shift);
    if (((word + UINT64_C(0x7676767676767676)) | word) & UINT64_C(0x8080808080808080)) return INTEGER_NOT;
    word = (word * 10 + (word >> 8)) & UINT64_C(0x00ff00ff00ff00ff);
    word = (word * 100 + (word >> 16)) & UINT64_C(0x0000ffff0000ffff);
    *magnitude = (word * 10000 + (word >> 32)) & UINT64_C(0xffffffff);
    return INTEGER_OK;
}

static inline float integer_transform(const struct criteo *c, bool is_negative, uint64_t magnitude)
{
    float value;
    if (!c->log1p)
        value = (float)magnitude;
    else if (magnitude < LOG1P_COUNT)
        value = c->log1p_of[magnitude];
    else
        value = (float)fmath_log1p((double)magnitude);
    return is_negative ? 0 - value : value; /* never -0 */
}

static enum reader_found bad_integer(char *why, uint32_t column, uint32_t integer, enum integer_result result,
                                     const char *text, uint32_t bytes)
{
    char name[16];
    snprintf(name, sizeof name, "I%u", integer);
    const char *expected = result == INTEGER_TOO_WIDE  ? "an integer of at most 64 bits"
                           : result == INTEGER_TOO_FAR ? READER_STANDARD_WITHIN
                                                       : "an integer";
    return reader_bad_column(why, column, name, expected, text, bytes);
}

/* All thirteen, in plain code. FOUND_BAD: the first that is no integer, with the reason. */
static enum reader_found integers_parse(const struct criteo *c, const char *line, const uint32_t *begin,
                                        uint32_t first_column, float *integer, char *why)
{
    for (uint32_t i = 0; i < INTEGER_COUNT; i++) {
        const char *text = line + begin[i];
        uint32_t text_bytes = begin[i + 1] - begin[i] - 1;
        bool is_negative;
        uint64_t magnitude;
        enum integer_result result = integer_parse(text, text_bytes, &is_negative, &magnitude);
        if (__builtin_expect(result != INTEGER_OK, 0))
            return bad_integer(why, first_column + i, i + 1, result, text, text_bytes);
        float value = integer_transform(c, is_negative, magnitude);
        integer[i] = text_bytes ? value : c->missing_value;
    }
    return FOUND_EXAMPLE;
}

/* Writes the keys, in plain code; returns how many. An empty text is hashed as if it had the
 * usual length, and the next key takes its place: without a branch that depends on the data,
 * hashes of neighbouring columns overlap. */
static uint32_t categories_parse(const struct criteo_fields *f, const char *line, const uint32_t *begin,
                                 uint64_t *restrict keys, uint32_t *restrict key_end)
{
    uint32_t key_count = 0;
    const uint32_t field_count = f->plain.field_count;
    const bool missing_is_key = f->plain.missing_is_key;
    for (uint32_t field = 0; field < field_count; field++) {
        const uint32_t *at = begin + f->column[field];
        uint32_t text_bytes = at[1] - at[0] - 1;
        uint64_t key =
            reader_key_inline(f->plain.seeds.seed[field], line + at[0], text_bytes ? text_bytes : USUAL_BYTES);
        if (missing_is_key) key = text_bytes ? key : f->plain.missing_key[field];
        keys[key_count] = key;
        key_count += (text_bytes > 0) | missing_is_key;
        key_end[field] = key_count;
    }
    return key_count;
}

static enum reader_found criteo_parse(void *state, const char *line, size_t bytes, struct reader_example *example,
                                      char *why)
{
    struct criteo *c = state;
    uint32_t column_count = columns_of(c, line, bytes);
    bool has_label = column_count == COLUMN_COUNT;
    if (!has_label && !(c->label_optional && column_count == COLUMN_COUNT - 1))
        return reader_bad(why, "expected %s columns separated by tabs, found %u", c->label_optional ? "40 or 39" : "40",
                          column_count);

    /* begin[i] is where I(i) begins, with the label's column or without. */
    const uint32_t *begin = has_label ? c->begin + 1 : c->begin;
    uint32_t label_bytes = has_label ? begin[1] - 1 : 0;
    float label;
    if (label_bytes == 1 && (*line == '0' || *line == '1'))
        label = (float)(*line - '0');
    else if (c->label_optional && label_bytes == 0)
        label = 0;
    else
        return reader_bad_column(why, 1, "label", "0 or 1", line, label_bytes);

    if (c->label_count) *example->label = label;

    float integer[16];
    bool is_done =
        c->kernels->integers && c->kernels->integers(line, begin + 1, begin + 2, CRITEO_INTEGERS,
                                                     c->log1p ? c->log1p_of : NULL, c->missing_value, integer);
    if (!is_done && integers_parse(c, line, begin + 1, 1 + has_label, integer, why) == FOUND_BAD) return FOUND_BAD;
    for (uint32_t i = 0; i < c->dense_count; i++) example->dense[i] = integer[c->dense_column[i]];
    for (uint32_t i = 0; c->is_scaled && i < c->dense_count; i++) {
        const uint32_t *at = begin + 1 + c->dense_column[i];
        if (at[1] - at[0] == 1) continue;
        example->dense[i] = (example->dense[i] - c->dense_mean[i]) * c->dense_scale[i];
        if (__builtin_expect(!(fabsf(example->dense[i]) <= FLT_MAX), 0))
            return bad_integer(why, c->dense_column[i] + 1 + has_label, c->dense_column[i] + 1, INTEGER_TOO_FAR,
                               line + at[0], at[1] - at[0] - 1);
    }

    begin += c->has_integer_fields ? 1 : 1 + INTEGER_COUNT;
    if (c->kernels->categories && !c->has_integer_fields)
        c->kernels->categories(&c->fields, line, begin, example->key, example->key_end);
    else
        categories_parse(&c->fields, line, begin, example->key, example->key_end);
    return FOUND_EXAMPLE;
}

const struct reader_format_functions reader_criteo = {
    .name = "criteo",
    .bytes = criteo_bytes,
    .place = criteo_place,
    .line_find = criteo_line_find,
    .parse = criteo_parse,
    .lines_are_apart = true,
};
