/* Lines of values between separators. The columns' names are in each file's first line or in data.columns.
 *
 *     age, workclass, label      spaces around a value do not count
 *     39, "State-gov", <=50K     quotation marks may hold separators, and "" for one of them, but no line end
 *     ?, a|b|c, >50K             nothing, or missing_text: absent; a list where the field's ids_max is above 1
 *
 * An example whose target of candidates or whose label is no word is left out and counted, or kept where
 * labels are optional. Columns are found by name, file by file; the schema names the columns that are read.
 *
 * Workload: a line of about 250 bytes, half a microsecond. Separators are found 64 bytes at a
 * time, keys as many at once as a vector holds. Only a line with quotation marks is copied:
 * its values, without the marks. */
#include "io/read/reader_internal.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/fmath.h"
#include "engine/base/nearest.h"
#include "io/read/column_names.h"
#include "io/read/csv_quotes.h"
#include "io/read/decimal.h"
#include "io/read/label_map.h"
#include "io/read/text_field.h"

#define COLUMNS_MAX 65536u
#define BEGIN_COUNT (COLUMNS_MAX + TEXT_BEGIN_MORE)
#define ABSENT      UINT32_MAX /* the file lacks the column */

/* Logarithms of small integers are looked up. */
#define LOG1P_COUNT 4096

struct csv_span {
    const char *text;
    uint32_t bytes;
};

/* The numbers of the wanted columns in a line, beside csv.name; ABSENT: the line lacks it. */
struct csv_places {
    uint32_t *column;
    bool numbers_are_run, fields_are_run; /* they lie one behind another, in order */
};

/* Texts of columns, for kernels: text i is the bytes at[i] .. stop[i] - 2, none of an absent column. */
struct csv_texts {
    const uint32_t *at, *stop;
};

struct csv {
    /* set at open */
    const struct reader_column *dense, *field, *label;
    uint32_t dense_count, field_count, label_count;
    const char **name;            /* [column_count]: of the wanted columns: dense, fields, labels, weight, group */
    struct csv_places labelled;   /* in the file's lines */
    struct csv_places unlabelled; /* in lines that lack the labels' columns */
    /* the last two are indices of name, or ABSENT */
    uint32_t column_count, weight, group;
    uint32_t *by_name; /* [by_name_count], a power of two: 1 + index of name, by its hash, or 0; linear probing */
    uint32_t by_name_count;
    uint32_t *same_name; /* beside name: the next wanted column of the same name, or ABSENT             */
    struct text_fields texts;
    struct label_map label_map;
    const struct text_kernels *kernels;
    /* Every field has at most one key, of any text: all keys are then hashed at once. */
    bool is_plain;
    struct text_plain plain;
    uint32_t *text_at, *text_stop; /* [text_count, padded]: the line's csv_texts, where they do not lie in begin */
    float *number, *mean, *scale;  /* [dense_count, padded]; mean and scale of dense */
    bool is_scaled;                /* some mean is not 0, or some scale is not 1 */
    bool has_header, has_quotes, log1p, missing_is_key, ids_over_is_error, label_optional;
    char separator, list_separator;
    const char *missing_text;
    uint32_t missing_bytes;
    float missing_value;
    float log1p_of[LOG1P_COUNT];
    /* of the file */
    /* columns of a line; the same without labels, or ABSENT: no line can lack the labels */
    uint32_t file_columns, file_columns_unlabelled;
    bool may_be_absent; /* a number or a field uses a label's column: lines without labels lack it        */
    /* the last line of line_find, with its columns in `begin`; NULL: there is none, or parse has seen it */
    const char *line;
    struct text_columns columns;
    /* of the line: column i is base[begin[i]] .. base[begin[i + 1] - 2] */
    const char *base;
    bool is_trimmed;
    bool is_quoted;  /* a value may have quotation marks around it, which do not belong to it */
    uint32_t *begin; /* [BEGIN_COUNT] */
    char *copy;      /* [READER_LINE_BYTES_MAX + 1] */
};

/* --- columns ---------------------------------------------------------------------------------- */

/* Notes where columns begin, up to `limit` of them, and returns how many there are, even if more. *has_quote:
 * there may be quotation marks, with columns that this does not find. */
static uint32_t columns_find(struct csv *c, const char *line, uint32_t bytes, uint32_t limit, bool *has_quote)
{
    struct text_columns *found = &c->columns;
    if (c->line != line || limit != c->file_columns)
        c->kernels->columns_find(line, bytes, c->separator, limit, found);
    else if (found->separator_count < limit)
        c->begin[found->separator_count + 1] = bytes + 1; /* a "\r" does not belong to the line */
    c->line = NULL;
    c->base = line;
    c->is_trimmed = !found->has_space;
    c->is_quoted = found->has_quote && c->has_quotes && c->is_trimmed && found->is_quoted;
    *has_quote = found->has_quote && c->has_quotes && !c->is_quoted;
    return found->separator_count + 1;
}

static size_t csv_line_find(void *state, const char *text, size_t bytes)
{
    struct csv *c = state;
    c->kernels->columns_find(text, bytes, c->separator, c->file_columns, &c->columns);
    c->line = c->columns.has_end ? text : NULL;
    return c->columns.line_bytes;
}

static uint32_t columns_split(struct csv *c, const char *line, uint32_t bytes, uint32_t limit, char *why)
{
    bool has_quote;
    uint32_t count = columns_find(c, line, bytes, limit, &has_quote);
    if (__builtin_expect(!has_quote, 1)) return count;
    c->base = c->copy;
    c->is_trimmed = true;
    c->is_quoted = false;
    return csv_unquote(c->copy, c->begin, limit, line, bytes, c->separator, why);
}

/* The text of a column of the line that was split last; empty if the column is absent. */
static inline struct csv_span span_of(const struct csv *c, uint32_t column)
{
    if (column == ABSENT) return (struct csv_span){.text = c->base};
    const char *at = c->base + c->begin[column], *end = c->base + c->begin[column + 1] - 1;
    if (!c->is_trimmed) {
        while (at < end && *at == ' ') at++;
        while (end > at && end[-1] == ' ') end--;
    }
    bool has_marks = c->is_quoted && at < end && *at == '"';
    at += has_marks;
    end -= has_marks;
    return (struct csv_span){at, (uint32_t)(end - at)};
}

static inline bool is_missing(const struct csv *c, struct csv_span s)
{
    return s.bytes == 0 || (s.bytes == c->missing_bytes && memcmp(s.text, c->missing_text, s.bytes) == 0);
}

/* --- names ------------------------------------------------------------------------------------ */

static bool is_label(const struct csv *c, uint32_t wanted)
{
    return wanted >= c->dense_count + c->field_count && wanted < c->dense_count + c->field_count + c->label_count;
}

static bool may_lack(const struct csv *c, uint32_t wanted)
{
    return c->label_optional && wanted >= c->dense_count + c->field_count;
}

/* The names of the columns that exist, as many as fit, for messages. */
static void names_list(const struct csv *c, uint32_t count, char *out, size_t bytes)
{
    size_t used = 0;
    *out = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct csv_span name = span_of(c, i);
        if (used + name.bytes + 8 > bytes) {
            snprintf(out + used, bytes - used, ", ...");
            return;
        }
        used += (size_t)snprintf(out + used, bytes - used, "%s%.*s", i ? ", " : "", (int)name.bytes, name.text);
    }
}

static status fail_lacking(const struct csv *c, const char *name, const char *where, uint32_t count)
{
    char names[512], near_text[2][NEAREST_BYTES_MAX + 1];
    const char *near = NULL;
    uint32_t distance = 0, spare = 0;
    names_list(c, count, names, sizeof names);
    for (uint32_t i = 0; i < count; i++) {
        struct csv_span span = span_of(c, i);
        if (span.bytes > NEAREST_BYTES_MAX) continue;
        /* Writes over the text that is not the nearest so far. */
        memcpy(near_text[spare], span.text, span.bytes);
        near_text[spare][span.bytes] = 0;
        nearest_offer(&near, &distance, name, near_text[spare]);
        if (near == near_text[spare]) spare = 1 - spare;
    }
    if (near) FAIL(INVALID, "%s lacks the column \"%s\"; did you mean \"%s\"? It has %s", where, name, near, names);
    FAIL(INVALID, "%s lacks the column \"%s\"; it has %s", where, name, names);
}

/* The place of a wanted name, or the free one where it belongs. */
static uint32_t *name_place(const struct csv *c, const char *text, size_t bytes)
{
    uint32_t mask = c->by_name_count - 1, at = (uint32_t)reader_key_inline(0, text, bytes) & mask;
    for (; c->by_name[at]; at = (at + 1) & mask) {
        const char *name = c->name[c->by_name[at] - 1];
        if (strlen(name) == bytes && memcmp(name, text, bytes) == 0) break;
    }
    return &c->by_name[at];
}

/* Enters the wanted names, the last one first, so that equal names are in order. */
static void by_name_fill(struct csv *c)
{
    memset(c->by_name, 0, c->by_name_count * sizeof *c->by_name);
    for (uint32_t w = c->column_count; w-- > 0;) {
        uint32_t *place = name_place(c, c->name[w], strlen(c->name[w]));
        c->same_name[w] = *place ? *place - 1 : ABSENT;
        *place = w + 1;
    }
}

static bool is_run(const uint32_t *column, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (*column == ABSENT || column[i] != *column + i) return false;
    return count > 0;
}

static void runs_find(const struct csv *c, struct csv_places *places)
{
    places->numbers_are_run = is_run(places->column, c->dense_count);
    places->fields_are_run = is_run(places->column + c->dense_count, c->field_count);
}

/* Finds the wanted columns among the `count` names of the line that was split last. */
static status names_resolve(struct csv *c, uint32_t count, const char *where)
{
    uint32_t label_count = 0, *column_of = c->labelled.column;
    c->file_columns_unlabelled = ABSENT;
    c->may_be_absent = false;
    for (uint32_t w = 0; w < c->column_count; w++) column_of[w] = ABSENT;
    for (uint32_t i = 0; i < count; i++) {
        struct csv_span name = span_of(c, i);
        uint32_t first = *name_place(c, name.text, name.bytes);
        if (first && column_of[first - 1] != ABSENT)
            FAIL(INVALID, "%s names the column \"%s\" twice", where, c->name[first - 1]);
        for (uint32_t w = first - 1; w != ABSENT; w = c->same_name[w]) column_of[w] = i;
    }
    for (uint32_t w = 0; w < c->column_count; w++)
        if (column_of[w] == ABSENT && !may_lack(c, w)) return fail_lacking(c, c->name[w], where, count);
    for (uint32_t w = 0; w < c->column_count; w++) {
        uint32_t before = 0, column = column_of[w];
        bool is_of_label = false;
        for (uint32_t l = c->dense_count + c->field_count; l < c->column_count && is_label(c, l); l++) {
            before += column_of[l] < column;
            is_of_label |= column_of[l] == column;
        }
        c->unlabelled.column[w] = is_of_label || column == ABSENT ? ABSENT : column - before;
        c->may_be_absent |= is_of_label && !is_label(c, w);
        label_count += is_label(c, w) && column != ABSENT;
    }
    runs_find(c, &c->labelled);
    runs_find(c, &c->unlabelled);
    c->file_columns = count;
    if (c->label_optional && label_count && label_count < count) c->file_columns_unlabelled = count - label_count;
    return ST_OK;
}

static status csv_header(void *state, const char *line, size_t bytes, bool *is_header)
{
    struct csv *c = state;
    char why[READER_WHY_BYTES];
    *is_header = c->has_header;
    if (!c->has_header) return ST_OK;
    c->file_columns = 0;
    c->file_columns_unlabelled = ABSENT;
    c->line = NULL;
    if (!line) FAIL(INVALID, "the line of the columns' names is longer than %zu bytes", READER_LINE_BYTES_MAX);
    uint32_t count = columns_split(c, line, (uint32_t)bytes, COLUMNS_MAX, why);
    if (count == 0) FAIL(INVALID, "the columns' names: %s", why);
    if (count > COLUMNS_MAX) FAIL(INVALID, "expected names of at most %u columns, found %u", COLUMNS_MAX, count);
    return names_resolve(c, count, "the line of the columns' names");
}

/* --- opening ---------------------------------------------------------------------------------- */

static uint32_t wanted_count(const struct reader_schema *schema)
{
    return schema->example.dense_count + schema->example.field_count + schema->example.label_count +
           schema->example.has_weight + schema->example.has_group;
}

/* Kernels take sixteen texts at a time. */
static size_t texts_padded(uint32_t count) { return ((size_t)count + TEXT_PAD - 1) & ~(size_t)(TEXT_PAD - 1); }

static void csv_layout(struct csv *c, struct layout *layout, const struct reader_schema *schema)
{
    uint32_t count = wanted_count(schema);
    LAYOUT_TAKE(layout, c->name, count);
    LAYOUT_TAKE(layout, c->labelled.column, count);
    LAYOUT_TAKE(layout, c->unlabelled.column, count);
    LAYOUT_TAKE(layout, c->same_name, count);
    for (c->by_name_count = 1; c->by_name_count < 2 * count + 1;) c->by_name_count *= 2;
    LAYOUT_TAKE(layout, c->by_name, c->by_name_count);
    const uint32_t fields = schema->example.field_count, dense = schema->example.dense_count;
    const size_t numbers = texts_padded(dense), texts = texts_padded(dense > fields ? dense : fields);
    LAYOUT_TAKE(layout, c->text_at, texts);
    LAYOUT_TAKE(layout, c->text_stop, texts);
    LAYOUT_TAKE(layout, c->number, numbers);
    LAYOUT_TAKE(layout, c->mean, numbers);
    LAYOUT_TAKE(layout, c->scale, numbers);
    LAYOUT_TAKE(layout, c->begin, BEGIN_COUNT);
    LAYOUT_TAKE(layout, c->copy, READER_LINE_BYTES_MAX + 1);
}

static size_t csv_bytes(const struct reader_options *options)
{
    const struct reader_schema *schema = &options->schema;
    struct csv unused;
    struct layout sum = {.bytes = arena_bytes(sizeof(struct csv)) + label_map_bytes(schema->label_map) +
                                  text_plain_bytes(schema->example.field_count)};
    csv_layout(&unused, &sum, schema);
    /* Without the columns' names opening fails before it uses this size. */
    bool has_names = (schema->field || !schema->example.field_count) && (schema->label || !schema->example.label_count);
    return sum.bytes + (has_names ? text_fields_bytes(schema) : 0);
}

/* A name of data.columns on its way to c->copy, where the names of a file's first line would be. */
struct columns_place {
    struct csv *c;
    char *to;
    uint32_t count;
};
static status column_place(void *context, const char *text, size_t bytes)
{
    struct columns_place *p = context;
    if (p->count == COLUMNS_MAX || bytes + 1 > (size_t)(p->c->copy + READER_LINE_BYTES_MAX - p->to))
        FAIL(INVALID, "data.columns: expected at most %u names of %zu bytes in all", COLUMNS_MAX,
             READER_LINE_BYTES_MAX);
    p->c->begin[p->count++] = (uint32_t)(p->to - p->c->copy);
    p->to = mempcpy(p->to, text, bytes + 1);
    return ST_OK;
}

static status columns_place(struct csv *c, const char *names)
{
    struct columns_place place = {.c = c, .to = c->copy};
    if (!*names) FAIL(INVALID, "data.header = no needs the names of all columns, in order: give data.columns");
    TRY(column_names_each("data.columns", names, column_place, &place));
    c->begin[place.count] = (uint32_t)(place.to - c->copy);
    c->base = c->copy;
    c->is_trimmed = true;
    c->is_quoted = false;
    return names_resolve(c, place.count, "data.columns");
}

static status names_place(struct csv *c, const struct reader_schema *schema)
{
    const uint32_t counts[] = {c->dense_count, c->field_count, c->label_count};
    const struct reader_column *const columns[] = {c->dense, c->field, c->label};
    for (uint32_t kind = 0; kind < 3; kind++) {
        if (counts[kind] && !columns[kind])
            FAIL(INVALID, "csv numbers no columns: the graph must name those that it uses");
        for (uint32_t i = 0; i < counts[kind]; i++) c->name[c->column_count++] = columns[kind][i].name;
    }
    c->weight = c->group = ABSENT;
    if (schema->example.has_weight) c->name[c->weight = c->column_count++] = schema->weight;
    if (schema->example.has_group) c->name[c->group = c->column_count++] = schema->group;
    by_name_fill(c);
    return ST_OK;
}

static status csv_place(void **state, struct arena *arena, const struct reader_options *options)
{
    const struct reader_schema *schema = &options->schema;
    struct layout place = {.arena = arena};
    struct csv *c = arena_take(arena, sizeof *c);
    csv_layout(c, &place, schema);
    text_plain_place(&c->plain, arena, schema->example.field_count, schema->missing_is_key);
    c->kernels = text_kernels_of(options->isa);
    c->columns.begin = c->begin;
    c->columns.takes_quotes = schema->has_quotes;
    c->dense = schema->dense;
    c->field = schema->field;
    c->label = schema->label;
    c->dense_count = schema->example.dense_count;
    c->field_count = schema->example.field_count;
    c->label_count = schema->example.label_count;
    if (schema->example.has_value) FAIL(INVALID, "keys have no values in csv");
    c->has_header = schema->has_header;
    c->has_quotes = schema->has_quotes;
    c->separator = schema->separator;
    c->list_separator = schema->list_separator;
    c->missing_text = schema->missing_text ? schema->missing_text : "";
    c->missing_bytes = (uint32_t)strlen(c->missing_text);
    c->log1p = schema->log1p;
    c->missing_is_key = schema->missing_is_key;
    c->missing_value = schema->missing_value;
    c->ids_over_is_error = schema->ids_over_is_error;
    c->label_optional = options->label_optional;
    TRY(label_map_place(&c->label_map, arena, schema->label_map));
    TRY(names_place(c, schema));
    TRY(text_fields_place(&c->texts, arena, options, false));
    c->is_plain = c->kernels->fields != NULL;
    for (uint32_t f = 0; f < c->field_count; f++) {
        const struct reader_column *field = &c->field[f];
        text_plain_set(&c->plain, f, field->seed);
        c->is_plain = c->is_plain && field->ids_max == 1 && !c->texts.field[f].vocabulary && !field->negative_count;
    }
    for (uint32_t i = 0; i < LOG1P_COUNT; i++) c->log1p_of[i] = (float)fmath_log1p(i);
    for (uint32_t i = 0; i < c->dense_count; i++) {
        c->mean[i] = c->dense[i].mean, c->scale[i] = c->dense[i].scale;
        c->is_scaled |= c->mean[i] != 0 || c->scale[i] != 1;
    }
    *state = c;
    if (c->has_header && schema->columns && *schema->columns)
        FAIL(INVALID, "data.columns and each file's first line both name the columns; "
                      "give data.header = no, or no data.columns");
    return c->has_header ? ST_OK : columns_place(c, schema->columns ? schema->columns : "");
}

/* --- values ----------------------------------------------------------------------------------- */

static inline float log1p_of(const struct csv *c, double value)
{
    double magnitude = value < 0 ? -value : value;
    float log1p = magnitude < LOG1P_COUNT && magnitude == (uint32_t)magnitude ? c->log1p_of[(uint32_t)magnitude]
                                                                              : (float)fmath_log1p(magnitude);
    return value < 0 ? -log1p : log1p;
}

static inline bool dense_parse(const struct csv *c, uint32_t i, struct csv_span s, float *out)
{
    double wide;
    float narrow;
    if (is_missing(c, s)) {
        *out = c->missing_value;
        return true;
    }
    if (!decimal_parse_ahead(s.text, s.bytes, &wide, &narrow)) return false;
    if (c->log1p) narrow = log1p_of(c, wide);
    *out = (narrow - c->mean[i]) * c->scale[i];
    return fabsf(*out) <= FLT_MAX;
}

/* The texts of columns, which `are_run` if they lie one behind another. Nobody can predict well which columns
 * have marks. */
static struct csv_texts texts_find(const struct csv *c, const uint32_t *restrict column, uint32_t count, bool are_run)
{
    uint32_t *restrict at = c->text_at, *restrict stop = c->text_stop;
    const bool are_whole = c->is_trimmed && c->missing_bytes == 0 && !c->may_be_absent, is_quoted = c->is_quoted;
    if (are_whole && !is_quoted && are_run) return (struct csv_texts){c->begin + *column, c->begin + *column + 1};
    for (uint32_t i = 0; i < count && are_whole; i++) {
        const uint32_t from = c->begin[column[i]], end = c->begin[column[i] + 1];
        const uint32_t has_marks = is_quoted ? (end - from > 1) & (c->base[from] == '"') : 0;
        at[i] = from + has_marks;
        stop[i] = end - has_marks;
    }
    for (uint32_t i = 0; i < count && !are_whole; i++) {
        const struct csv_span s = span_of(c, column[i]);
        at[i] = (uint32_t)(s.text - c->base);
        stop[i] = at[i] + 1 + (is_missing(c, s) ? 0 : s.bytes);
    }
    for (size_t i = count; i < texts_padded(count); i++) at[i] = 0, stop[i] = 1;
    return (struct csv_texts){at, stop};
}

/* All numeric columns, if each is a short integer or absent, as most are; false:
 * one is not, and dense is undefined. */
static bool integers_parse(const struct csv *c, const struct csv_places *places, float *restrict dense)
{
    if (!c->kernels->integers) return false;
    const struct csv_texts texts = texts_find(c, places->column, c->dense_count, places->numbers_are_run);
    for (uint32_t i = 0; i < c->dense_count; i += 16) {
        uint32_t left = c->dense_count - i;
        if (!c->kernels->integers(c->base, texts.at + i, texts.stop + i, left < 16 ? left : 16,
                                  c->log1p ? c->log1p_of : NULL, c->missing_value, c->number + i))
            return false;
    }
    memcpy(dense, c->number, c->dense_count * sizeof *dense);
    bool are_finite = true;
    for (uint32_t i = 0; c->is_scaled && i < c->dense_count; i++) {
        const float value = (dense[i] - c->mean[i]) * c->scale[i];
        dense[i] = texts.stop[i] - texts.at[i] > 1 ? value : c->missing_value;
        are_finite &= fabsf(dense[i]) <= FLT_MAX;
    }
    return are_finite;
}

/* False: the text has no key, like an absent text. */
static inline bool key_find(const struct csv *c, uint32_t field, struct csv_span s, uint64_t *key)
{
    return !is_missing(c, s) && text_field_find(&c->texts.field[field], s.text, s.bytes, key);
}

/* Takes the next item of a list; *at is NULL behind the last item. */
static inline struct csv_span item_next(const struct csv *c, const char **at, const char *end)
{
    const char *first = *at, *stop = first < end ? memchr(first, c->list_separator, (size_t)(end - first)) : NULL;
    const char *last = stop ? stop : end;
    *at = stop ? stop + 1 : NULL;
    first = csv_spaces_skip(first, last);
    while (last > first && last[-1] == ' ') last--;
    return (struct csv_span){first, (uint32_t)(last - first)};
}

/* Writes the keys of a list, up to the field's ids_max; returns how many it has, even if more. */
static uint32_t keys_of_list(const struct csv *c, uint32_t field, struct csv_span list, uint64_t *key)
{
    uint32_t count = 0;
    uint64_t found = 0;
    for (const char *at = is_missing(c, list) ? NULL : list.text; at;) {
        if (!key_find(c, field, item_next(c, &at, list.text + list.bytes), &found)) continue;
        if (count < c->field[field].ids_max) key[count] = found;
        count++;
    }
    return count;
}

/* A value is bad: says its column's number and name. */
static enum reader_found bad_value(const struct csv *c, char *why, uint32_t wanted, const uint32_t *column,
                                   const char *expected)
{
    struct csv_span s = span_of(c, column[wanted]);
    return reader_bad_column(why, column[wanted] + 1, c->name[wanted], expected, s.text, s.bytes);
}

static enum reader_found bad_number(const struct csv *c, char *why, uint32_t wanted, const uint32_t *column)
{
    struct csv_span s = span_of(c, column[wanted]);
    double wide;
    float narrow;
    const char *expected = decimal_parse(s.text, s.bytes, &wide, &narrow) ? READER_STANDARD_WITHIN
                           : decimal_is_beyond(s.text, s.bytes)           ? DECIMAL_WITHIN
                                                                          : "a number";
    return bad_value(c, why, wanted, column, expected);
}

static enum reader_found label_parse(const struct csv *c, uint32_t i, const uint32_t *column,
                                     struct reader_example *example, char *why)
{
    uint32_t wanted = c->dense_count + c->field_count + i;
    const struct text_field *label = &c->texts.label[i];
    struct csv_span s = span_of(c, column[wanted]);
    const bool is_absent = is_missing(c, s);
    s.bytes = is_absent ? 0 : s.bytes;
    if (is_absent && c->label_optional) {
        example->label[i] = 0;
        return FOUND_EXAMPLE;
    }
    if (!label->vocabulary) {
        char expected[LABEL_MAP_EXPECTED_BYTES];
        if (!label_map_find(&c->label_map, s.text, s.bytes, &example->label[i]))
            return bad_value(c, why, wanted, column, label_map_expected(&c->label_map, s.text, s.bytes, expected));
        if (c->label_optional || label_is_in_range(&c->label[i], example->label[i])) return FOUND_EXAMPLE;
        return bad_value(c, why, wanted, column, label_range_expected(&c->label[i], expected));
    }
    if (is_absent) return bad_value(c, why, wanted, column, "a word");
    uint64_t word = 0;
    bool is_word = text_field_find(label, s.text, s.bytes, &word);
    example->label[i] = (float)word;
    return is_word || c->label_optional ? FOUND_EXAMPLE : FOUND_NONE;
}

static enum reader_found fields_parse(const struct csv *c, const uint32_t *column, struct reader_example *example,
                                      char *why)
{
    uint32_t key_count = 0;
    const uint32_t *field_column = column + c->dense_count;
    for (uint32_t f = 0; f < c->field_count; f++) {
        const struct reader_column *field = &c->field[f];
        struct csv_span s = span_of(c, field_column[f]);
        uint32_t found;
        if (field->ids_max == 1 || field->negative_count)
            found = key_find(c, f, s, &example->key[key_count]);
        else
            found = keys_of_list(c, f, s, &example->key[key_count]);
        if (__builtin_expect(found > field->ids_max, 0)) {
            char expected[64];
            snprintf(expected, sizeof expected, "at most %u keys, not %u", field->ids_max, found);
            if (c->ids_over_is_error) return bad_value(c, why, c->dense_count + f, column, expected);
            reader_list_cut(example, found, field->ids_max);
            found = field->ids_max;
        }
        if (found == 0 && field->negative_count && !c->label_optional) {
            example->unknown_count++;
            return FOUND_NONE;
        }
        if (found == 0 && c->missing_is_key && !field->negative_count) {
            example->key[key_count] = c->plain.missing_key[f];
            found = 1;
        }
        key_count += found;
        example->key_end[f] = key_count;
    }
    return FOUND_EXAMPLE;
}

/* The same where every field has at most one key, of any text; no branch depends on absent texts. */
static enum reader_found plain_fields_parse(const struct csv *c, const struct csv_places *places,
                                            struct reader_example *example)
{
    const uint32_t *column = places->column + c->dense_count;
    const struct csv_texts texts = texts_find(c, column, c->field_count, places->fields_are_run);
    c->kernels->fields(&c->plain, c->base, texts.at, texts.stop, example->key, example->key_end);
    return FOUND_EXAMPLE;
}

static enum reader_found csv_parse(void *state, const char *line, size_t bytes, struct reader_example *example,
                                   char *why)
{
    struct csv *c = state;
    uint32_t count = columns_split(c, line, (uint32_t)bytes, c->file_columns, why);
    const struct csv_places *places = &c->labelled;
    if (__builtin_expect(count != c->file_columns, 0)) {
        if (count == 0) return FOUND_BAD;
        if (count != c->file_columns_unlabelled) {
            char fewer[32] = "";
            if (c->file_columns_unlabelled != ABSENT)
                snprintf(fewer, sizeof fewer, ", or %u without labels", c->file_columns_unlabelled);
            return reader_bad(why, "expected %u columns%s, found %u", c->file_columns, fewer, count);
        }
        places = &c->unlabelled;
    }
    const uint32_t *restrict column = places->column;
    bool is_done = integers_parse(c, places, example->dense);
    for (uint32_t i = 0; i < c->dense_count && !is_done; i++)
        if (__builtin_expect(!dense_parse(c, i, span_of(c, column[i]), &example->dense[i]), 0))
            return bad_number(c, why, i, column);

    enum reader_found whole =
        c->is_plain ? plain_fields_parse(c, places, example) : fields_parse(c, column, example, why);
    if (whole != FOUND_EXAMPLE) return whole;
    for (uint32_t i = 0; i < c->label_count; i++) {
        enum reader_found found = label_parse(c, i, column, example, why);
        if (found == FOUND_BAD) return FOUND_BAD;
        if (found == FOUND_NONE) whole = FOUND_NONE;
    }
    if (c->weight != ABSENT) {
        struct csv_span s = span_of(c, column[c->weight]);
        double wide;
        float weight = 1;
        bool is_absent = is_missing(c, s) && c->label_optional;
        if (!is_absent && (!decimal_parse(s.text, s.bytes, &wide, &weight) || weight < 0))
            return bad_value(c, why, c->weight, column, "a weight of at least 0");
        example->weight = weight; /* a bad line that is kept has an ordinary weight */
    }
    if (c->group != ABSENT) {
        struct csv_span s = span_of(c, column[c->group]);
        example->group = reader_key_inline(0, s.text, s.bytes);
    }
    example->unknown_count += whole == FOUND_NONE;
    return whole;
}

/* Words of the only field's column. */
static status csv_words(void *state, const char *line, size_t bytes,
                        status (*word)(void *to, const char *text, size_t bytes), void *to)
{
    struct csv *c = state;
    CHECK(c->field_count == 1);
    const struct reader_column *field = &c->field[0];
    if (columns_split(c, line, (uint32_t)bytes, c->file_columns, NULL) != c->file_columns) return ST_OK;
    struct csv_span s = span_of(c, c->labelled.column[c->dense_count]);
    if (is_missing(c, s)) return ST_OK;
    if (field->ids_max == 1) return word(to, s.text, s.bytes);
    for (const char *at = s.text; at;) {
        struct csv_span item = item_next(c, &at, s.text + s.bytes);
        if (!is_missing(c, item)) TRY(word(to, item.text, item.bytes));
    }
    return ST_OK;
}

const struct reader_format_functions reader_csv = {
    .name = "csv",
    .bytes = csv_bytes,
    .place = csv_place,
    .line_find = csv_line_find,
    .header = csv_header,
    .parse = csv_parse,
    .lines_are_apart = true,
    .words = csv_words,
};
