/* Lines of a label and numbered features, each with a value, in three dialects:
 *
 *     libsvm    1 qid:7 3:0.5 17:1 90        label, perhaps a group, id:value; without a value it is 1
 *     libfm     1 3:0.5 17:1 90:1            the same; the n-th feature of a line is field Fn, too
 *     libffm    1 0:3:0.5 2:17:1             label, field:id:value; field n is Fn
 *
 * A feature is one key, whose row is multiplied by the value. An id is a number of at most 20 digits; its key
 * is that of its digits without leading zeros. After white space '#' begins a comment. Field "features" has
 * all of a line's ids, in order. All of a line is checked, even what the schema leaves out.
 *
 * Workload: ten to forty features a line, 10 bytes each. They are read many at a time where the processor can
 * and none of them is unusual (text_kernels.features), else one by one. In most lines features are in the
 * order of their fields: their keys then lie one behind another at once. From the first other feature on each
 * one goes to a place of its field, as far as the field has room, and the keys of the fields move together at
 * last. */
#include "io/read/reader_internal.h"

#include <stdio.h>
#include <string.h>

#include "io/read/decimal.h"
#include "io/read/label_map.h"

#define NUMBER_MAX   65535u /* most of a field's number */
#define ID_BYTES_MAX 20u    /* any 64-bit number */
#define NO_FIELD     UINT32_MAX
#define END_MORE     3u /* fields behind a feature's that are told where keys end: few lack features */

struct libsvm {
    enum reader_format format;
    const struct text_kernels *kernels;
    uint32_t field_count, label_count;
    const struct reader_column *field, *label;
    uint32_t all; /* the field "features", or field_count: there is none */
    /* numbers of wanted fields are below number_count; field_count is no field; seeds [field_count + 1] */
    struct text_numbers numbers;
    uint32_t *of_number; /* [number_count + 1]: the field Fn, or field_count */
    uint32_t *base;      /* [field_count]: where the field's keys may begin */
    uint32_t key_count_max;
    uint32_t *ids_max; /* [field_count] */
    uint32_t *count;   /* [field_count]: keys of this line, even if more than ids_max */
    struct label_map label_map;
    /* Of the line: key_count keys lie one behind another, the last of last_field; those of field f end at
     * end[f + 1] for f up to last_field + END_MORE. Else keys lie from `base` on, and `count` counts them. */
    bool are_together;
    uint32_t key_count, last_field, *end; /* end [2 + field_count + END_MORE] */
    bool has_value, has_group, missing_is_key, ids_over_is_error, label_optional;
};

/* --- opening ---------------------------------------------------------------------------------- */

/* n of "Fn"; NO_FIELD for another name. */
static uint32_t number_of(const char *name)
{
    uint32_t number = 0;
    if (name[0] != 'F' || !name[1] || strlen(name) > 6) return NO_FIELD;
    for (const char *at = name + 1; *at; at++) {
        if (*at < '0' || *at > '9') return NO_FIELD;
        number = number * 10 + (uint32_t)(*at - '0');
    }
    return number <= NUMBER_MAX ? number : NO_FIELD;
}

static uint32_t numbers_of(const struct reader_schema *s)
{
    uint32_t count = 0;
    for (uint32_t f = 0; f < s->example.field_count && s->field; f++) {
        uint32_t number = number_of(s->field[f].name);
        if (number != NO_FIELD && number >= count) count = number + 1;
    }
    return count;
}

static void libsvm_layout(struct libsvm *l, struct layout *layout, const struct reader_schema *s)
{
    LAYOUT_TAKE(layout, l->of_number, numbers_of(s) + 1);
    LAYOUT_TAKE(layout, l->base, s->example.field_count);
    LAYOUT_TAKE(layout, l->ids_max, s->example.field_count);
    LAYOUT_TAKE(layout, l->count, s->example.field_count);
    LAYOUT_TAKE(layout, l->end, 2 + s->example.field_count + END_MORE);
}

static size_t libsvm_bytes(const struct reader_options *options)
{
    struct libsvm unused;
    struct layout sum = {.bytes = arena_bytes(sizeof(struct libsvm)) + label_map_bytes(options->schema.label_map) +
                                  text_seeds_bytes(options->schema.example.field_count + 1)};
    libsvm_layout(&unused, &sum, &options->schema);
    return sum.bytes;
}

static status fields_place(struct libsvm *l, const struct reader_schema *s, const char *format)
{
    static const char *const names[] = {[READER_LIBSVM] = "features",
                                        [READER_LIBFFM] = "F0, F1, ... by the number of the field",
                                        [READER_LIBFM] = "features, and F1, F2, ... by the place in the line"};
    uint64_t base = 0;
    if (s->example.field_count && !s->field) FAIL(INVALID, "the graph must name the fields of %s that it uses", format);
    l->all = l->field_count;
    l->numbers.has_number = l->format == READER_LIBFFM;
    l->numbers.number_count = numbers_of(s);
    l->numbers.field = l->of_number;
    for (uint32_t n = 0; n <= l->numbers.number_count; n++) l->of_number[n] = l->field_count;
    for (uint32_t f = 0; f < l->field_count; f++) {
        const struct reader_column *field = &s->field[f];
        uint32_t number = l->format == READER_LIBSVM ? NO_FIELD : number_of(field->name);
        bool is_all = l->format != READER_LIBFFM && strcmp(field->name, "features") == 0;
        if (is_all ? l->all < l->field_count : number == NO_FIELD || (number == 0 && l->format == READER_LIBFM))
            FAIL(INVALID, "%s has the fields %s, each once; the graph uses %s", format, names[l->format], field->name);
        if (!is_all && l->of_number[number] < l->field_count)
            FAIL(INVALID, "%s has the fields %s, each once; the graph uses %s twice", format, names[l->format],
                 field->name);
        if (field->vocabulary != READER_NONE || field->negative_count)
            FAIL(INVALID, "%s has no words: %s can have no vocabulary and no candidates", format, field->name);
        *(is_all ? &l->all : &l->of_number[number]) = f;
        l->base[f] = (uint32_t)base;
        text_seeds_set(&l->numbers.seeds, f, field->seed);
        l->ids_max[f] = field->ids_max;
        base += field->ids_max;
    }
    CHECK(base <= s->example.key_count_max);
    l->key_count_max = (uint32_t)base;
    l->numbers.all = l->all;
    return ST_OK;
}

static status place(void **state, struct arena *arena, const struct reader_options *options, enum reader_format format,
                    const char *name)
{
    const struct reader_schema *s = &options->schema;
    struct layout layout = {.arena = arena};
    struct libsvm *l = arena_take(arena, sizeof *l);
    libsvm_layout(l, &layout, s);
    text_seeds_place(&l->numbers.seeds, arena, s->example.field_count + 1);
    l->kernels = text_kernels_of(options->isa);
    TRY(label_map_place(&l->label_map, arena, s->label_map));
    l->format = format;
    l->field = s->field;
    l->label = s->label;
    l->field_count = s->example.field_count;
    l->label_count = s->example.label_count;
    if (s->example.dense_count)
        FAIL(INVALID, "%s has no numeric columns; the graph uses %u", name, s->example.dense_count);
    if (l->label_count > 1) FAIL(INVALID, "%s has one label; the graph uses %u", name, l->label_count);
    if (l->label_count && s->label && s->label->vocabulary != READER_NONE)
        FAIL(INVALID, "%s has no words: its label can have no vocabulary", name);
    if (s->example.has_weight) FAIL(INVALID, "%s has no column of weights", name);
    l->has_group = s->example.has_group;
    if (l->has_group && (format != READER_LIBSVM || strcmp(s->group, "qid") != 0))
        FAIL(INVALID, "%s has %s; the graph's data.group is %s", name,
             format == READER_LIBSVM ? "one column of groups, qid" : "no column of groups", s->group);
    l->has_value = s->example.has_value;
    l->missing_is_key = s->missing_is_key;
    l->ids_over_is_error = s->ids_over_is_error;
    l->label_optional = options->label_optional;
    TRY(fields_place(l, s, name));
    *state = l;
    return ST_OK;
}

static status libsvm_place(void **state, struct arena *arena, const struct reader_options *options)
{
    return place(state, arena, options, READER_LIBSVM, "libsvm");
}
static status libffm_place(void **state, struct arena *arena, const struct reader_options *options)
{
    return place(state, arena, options, READER_LIBFFM, "libffm");
}
static status libfm_place(void **state, struct arena *arena, const struct reader_options *options)
{
    return place(state, arena, options, READER_LIBFM, "libfm");
}

/* --- a line ----------------------------------------------------------------------------------- */

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

static inline uint64_t word_at(const char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? word : __builtin_bswap64(word);
}

/* The top bits of bytes that are c. The lowest one is right; bytes above it may be marked without being c. */
static inline uint64_t bytes_equal(uint64_t word, char c)
{
    const uint64_t each = UINT64_C(0x0101010101010101);
    uint64_t x = word ^ each * (unsigned char)c;
    return (x - each) & ~x & each * 0x80;
}

/* The top bits of bytes that are no digits. */
static inline uint64_t bytes_no_digits(uint64_t word)
{
    word ^= UINT64_C(0x3030303030303030);
    return (((word & UINT64_C(0x7f7f7f7f7f7f7f7f)) + UINT64_C(0x7676767676767676)) | word) &
           UINT64_C(0x8080808080808080);
}

/* The end of the digits at `at`. */
static inline const char *digits_end(const char *at, const char *end)
{
    for (; at < end; at += 8) {
        uint64_t marks = bytes_no_digits(word_at(at));
        if (!marks) continue;
        at += __builtin_ctzll(marks) / 8;
        break;
    }
    return at < end ? at : end;
}

/* The end of the word at `at`: a blank or the end of the line. */
static inline const char *word_end(const char *at, const char *end)
{
    /* Lengths are hard to predict, so a step looks at eight bytes; bytes behind the line may be anything. */
    for (; at < end; at += 8) {
        uint64_t marks = bytes_equal(word_at(at), ' ') | bytes_equal(word_at(at), '\t');
        if (!marks) continue;
        at += __builtin_ctzll(marks) / 8;
        break;
    }
    return at < end ? at : end;
}

static enum reader_found bad_word(char *why, const char *line, const char *at, const char *end, const char *expected)
{
    char quote[READER_QUOTE_BYTES];
    if (!why) return FOUND_BAD;
    return reader_bad(why, "byte %zu: expected %s, found %s", (size_t)(at - line) + 1, expected,
                      reader_quote(quote, at, (size_t)(word_end(at, end) - at)));
}

/* The id or the value of field:id:value or id:value is bad:
 * says which form is expected, or the value's bound. */
static enum reader_found bad_feature(char *why, const char *line, const char *at, const char *end, bool has_field)
{
    char expected[160];
    const char *stop = word_end(at, end), *colon = memrchr(at, ':', (size_t)(stop - at));
    bool is_beyond = colon && decimal_is_beyond(colon + 1, (size_t)(stop - colon - 1));
    snprintf(expected, sizeof expected, "%sid:value, with an id of digits and %s", has_field ? "field:" : "",
             is_beyond ? "a value that is " DECIMAL_WITHIN : "a finite value");
    return bad_word(why, line, at, end, expected);
}

/* Takes digits without leading zeros; moves *at behind them. False: no digits, or too many. */
static inline bool digits_take(const char **at, const char *end, const char **first, size_t *bytes)
{
    const char *from = *at, *stop = digits_end(from, end);
    *at = stop;
    if (stop == from) return false;
    while (*from == '0' && stop - from > 1) from++;
    *first = from;
    *bytes = (size_t)(stop - from);
    return *bytes <= ID_BYTES_MAX;
}

/* Takes the number of a field: 0 .. NUMBER_MAX. */
static inline bool number_take(const char **at, const char *end, uint32_t *number)
{
    const char *first;
    size_t bytes;
    if (!digits_take(at, end, &first, &bytes) || bytes > 5) return false;
    *number = 0;
    for (size_t i = 0; i < bytes; i++) *number = *number * 10 + (uint32_t)(first[i] - '0');
    return *number <= NUMBER_MAX;
}

/* Takes what follows an id: its value, or a blank. */
static inline bool value_take(const char **at, const char *end, float *value)
{
    *value = 1;
    if (*at == end || is_blank(**at)) return true;
    if (**at != ':') return false;
    const char *first = *at + 1, *stop = word_end(first, end);
    *at = stop;
    if (stop - first == 1 && *first == '1') return true;
    double wide;
    return decimal_parse_ahead(first, (size_t)(stop - first), &wide, value);
}

static inline void feature_put(const struct libsvm *l, struct reader_example *example, uint32_t field, const char *id,
                               size_t bytes, float value)
{
    uint32_t n = l->count[field]++;
    if (n >= l->ids_max[field]) return;
    uint32_t at = l->base[field] + n;
    example->key[at] = reader_key_of(&l->numbers.seeds, field, id, bytes);
    if (l->has_value) example->value[at] = value;
}

/* The field of a number; field_count: none. */
static inline uint32_t field_of(const struct libsvm *l, uint32_t number)
{
    return l->of_number[number < l->numbers.number_count ? number : l->numbers.number_count];
}

/* Puts features into field "features". */
static void features_put_all(const struct libsvm *l, struct reader_example *example, const struct text_features *found)
{
    uint32_t begin = l->count[l->all], room = l->ids_max[l->all], at = l->base[l->all] + begin;
    l->count[l->all] += found->count;
    if (begin >= room) return;
    uint32_t count = found->count < room - begin ? found->count : room - begin;
    memcpy(example->key + at, found->key, count * sizeof *found->key);
    if (l->has_value) memcpy(example->value + at, found->value, count * sizeof *found->value);
}

/* Of features without numbers: their fields by their places in the line, from `place` on, and the keys. */
static void features_number(const struct libsvm *l, const char *text, uint32_t place, struct text_features *found)
{
    for (uint32_t i = 0; i < found->count; i++) found->field[i] = field_of(l, place + i);
    for (uint32_t i = found->count; i % TEXT_SEEDS_PAD; i++) found->field[i] = l->field_count;
    l->kernels->keys(found->key, text, found->at, found->id_bytes, &l->numbers.seeds, found->field, found->count);
}

static inline void key_move(const struct libsvm *l, struct reader_example *example, uint32_t to, uint32_t from)
{
    example->key[to] = example->key[from];
    if (l->has_value) example->value[to] = example->value[from];
}

/* Tells the fields from last_field on, up to `stop`, where the line's keys end. */
static void ends_fill(const struct libsvm *l, uint32_t last_field, uint32_t stop, uint32_t key_count)
{
    for (uint32_t f = last_field + END_MORE + 1; f < stop; f++) l->end[f + 1] = key_count;
}

/* Moves keys that lie one behind another to the places of their fields, as far as these have room. */
static void keys_spread(struct libsvm *l, struct reader_example *example)
{
    uint32_t to = 0;
    if (!l->are_together) return;
    l->are_together = false;
    ends_fill(l, l->last_field, l->field_count, l->key_count);
    for (uint32_t f = 0; f < l->field_count; f++) {
        l->count[f] = l->end[f + 1] - l->end[f];
        for (uint32_t i = 0; i < l->count[f] && i < l->ids_max[f]; i++) key_move(l, example, to++, l->end[f] + i);
    }
    for (uint32_t f = l->field_count; f-- > 0;) /* base[f] is at least the number of keys before */
        for (uint32_t i = l->count[f] < l->ids_max[f] ? l->count[f] : l->ids_max[f]; i-- > 0;)
            key_move(l, example, l->base[f] + i, --to);
}

/* Puts features behind the line's others, if they are in the order of their fields. */
static bool features_append(struct libsvm *l, struct reader_example *example, const struct text_features *found,
                            uint32_t count)
{
    const uint32_t *field = found->field, begin = l->key_count;
    uint32_t last = l->last_field;
    bool is_back = count && *field < last, has_gap = false;
    if (count == 0 || !l->are_together || count > l->key_count_max - begin) return count == 0;
    for (uint32_t i = 1; i < count; i++) is_back |= field[i] < field[i - 1];
    if (is_back) return false;
    /* Whether the next field lacks features is hard to predict: each feature tells four fields, and the next
     * ones correct it. */
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t end = begin + i + 1, ends[1 + END_MORE] = {end, end, end, end};
        has_gap |= field[i] - last > 1 + END_MORE;
        last = field[i];
        memcpy(l->end + 1 + last, ends, sizeof ends);
    }
    for (uint32_t i = 0; has_gap && i < count; i++) ends_fill(l, i ? field[i - 1] : l->last_field, field[i], begin + i);
    memcpy(example->key + begin, found->key, count * sizeof *found->key);
    if (l->has_value) memcpy(example->value + begin, found->value, count * sizeof *found->value);
    l->last_field = last;
    l->key_count += count;
    return true;
}

/* Puts features into the fields of their numbers; leaves out those of no field. */
static void features_put_each(struct libsvm *l, struct reader_example *example, struct text_features *found)
{
    const uint32_t none = l->field_count;
    uint32_t *field = found->field, count = 0, to = 0;
    for (uint32_t i = 0; i < found->count; i++) count += field[i] != none;
    for (uint32_t i = 0; count < found->count && i < found->count; i++) {
        const uint32_t f = field[i];
        field[to] = f, found->key[to] = found->key[i], found->value[to] = found->value[i];
        to += f != none;
    }
    if (features_append(l, example, found, count)) return;
    keys_spread(l, example);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t f = field[i], n = l->count[f]++;
        if (n >= l->ids_max[f]) continue;
        example->key[l->base[f] + n] = found->key[i];
        if (l->has_value) example->value[l->base[f] + n] = found->value[i];
    }
}

/* Puts the features at the front of the text, as many as are found at a time; the first has
 * this place in its line. Returns how many bytes they take, and their number in *count; 0: the
 * next one must be read by itself. */
static inline __attribute__((always_inline)) size_t features_take(struct libsvm *l, enum reader_format format,
                                                                  const char *text, size_t bytes,
                                                                  struct reader_example *example, uint32_t place,
                                                                  uint32_t *count)
{
    struct text_features found;
    size_t taken = l->kernels->features(text, bytes, &l->numbers, &found);
    if (taken == 0) return 0;
    *count = found.count;
    if (format != READER_LIBFFM && l->all < l->field_count) features_put_all(l, example, &found);
    if (format == READER_LIBFM && l->numbers.number_count) features_number(l, text, place, &found);
    if (format != READER_LIBSVM && l->numbers.number_count) features_put_each(l, example, &found);
    return taken;
}

/* Where keys lie one behind another; false: a field lacks the key that it is to have, or has too many. */
static bool fields_close_together(const struct libsvm *l, struct reader_example *example)
{
    const uint32_t least = l->missing_is_key, *end = l->end;
    bool is_other = false;
    ends_fill(l, l->last_field, l->field_count, l->key_count);
    for (uint32_t f = 0; f < l->field_count; f++) {
        const uint32_t count = end[f + 1] - end[f];
        is_other |= (count < least) | (count > l->ids_max[f]);
    }
    memcpy(example->key_end, end + 1, l->field_count * sizeof *end);
    return !is_other;
}

/* Moves the fields' keys together. */
static enum reader_found fields_close(struct libsvm *l, struct reader_example *example, char *why)
{
    uint32_t total = 0;
    if (l->are_together && fields_close_together(l, example)) return FOUND_EXAMPLE;
    keys_spread(l, example);
    for (uint32_t f = 0; f < l->field_count; f++) {
        uint32_t count = l->count[f], base = l->base[f];
        if (__builtin_expect(count > l->ids_max[f], 0)) {
            if (l->ids_over_is_error)
                return reader_bad(why, "expected at most %u keys of field %.60s, found %u", l->ids_max[f],
                                  l->field[f].name, count);
            reader_list_cut(example, count, l->ids_max[f]);
            count = l->ids_max[f];
        }
        if (count == 0 && l->missing_is_key) {
            example->key[base] = reader_key_inline(l->numbers.seeds.seed[f], "", 0);
            if (l->has_value) example->value[base] = 1;
            count = 1;
        }
        /* Whether there is one key or none is hard to predict: both copy one, and the next
         * field overwrites a missing one. */
        if (count <= 1) key_move(l, example, total, base);
        for (uint32_t i = 0; count > 1 && total != base && i < count; i++) key_move(l, example, total + i, base + i);
        total += count;
        example->key_end[f] = total;
    }
    return FOUND_EXAMPLE;
}

/* Takes the label at the front, if there is one. */
static enum reader_found label_take(const struct libsvm *l, const char *line, const char **at, const char *end,
                                    struct reader_example *example, char *why)
{
    const char *first = *at, *stop = word_end(first, end);
    char expected[LABEL_MAP_EXPECTED_BYTES + 16], range[LABEL_MAP_EXPECTED_BYTES];
    float label = 0;
    if (l->label_optional && (first == stop || memchr(first, ':', (size_t)(stop - first)))) {
        stop = first;
    } else if (!label_map_find(&l->label_map, first, (size_t)(stop - first), &label)) {
        snprintf(expected, sizeof expected, "a label, %s",
                 label_map_expected(&l->label_map, first, (size_t)(stop - first), range));
        return bad_word(why, line, first, end, expected);
    } else if (l->label_count && !l->label_optional && !label_is_in_range(l->label, label)) {
        snprintf(expected, sizeof expected, "a label, %s", label_range_expected(l->label, range));
        return bad_word(why, line, first, end, expected);
    }
    if (l->label_count) *example->label = label;
    *at = stop;
    return FOUND_EXAMPLE;
}

/* Inlined into the parser of each dialect, which fixes `format`. */
static inline __attribute__((always_inline)) enum reader_found parse(struct libsvm *l, enum reader_format format,
                                                                     const char *line, size_t bytes,
                                                                     struct reader_example *example, char *why)
{
    const char *at = line, *end = line + bytes;
    while (at < end && is_blank(*at)) at++;
    if (at == end || *at == '#') return FOUND_NONE;
    if (label_take(l, line, &at, end, example, why) == FOUND_BAD) return FOUND_BAD;
    l->are_together = l->kernels->features && l->all == l->field_count;
    memset(l->count, 0, sizeof *l->count * l->field_count);
    memset(l->end, 0, sizeof *l->end * (2 + END_MORE));
    l->key_count = l->last_field = 0;
    bool has_group = false, takes_many = l->kernels->features != NULL;
    for (uint32_t place = 1;; place++) {
        while (at < end && is_blank(*at)) at++;
        if (at == end || *at == '#') break;
        const char *word = at, *id;
        size_t id_bytes;
        uint32_t many;
        if (format == READER_LIBSVM && *at == 'q' && place == 1 && !has_group) {
            bool is_group = end - at > 4 && memcmp(at, "qid:", 4) == 0;
            at += 4;
            if (!is_group || !digits_take(&at, end, &id, &id_bytes) || (at < end && !is_blank(*at)))
                return bad_word(why, line, word, end, "qid:NUMBER");
            example->group = reader_key_inline(0, id, id_bytes);
            has_group = true;
            place--;
            continue;
        }
        if (takes_many) {
            size_t taken = features_take(l, format, at, (size_t)(end - at), example, place, &many);
            takes_many = taken > 0;
            at += taken;
            place += takes_many ? many - 1 : 0;
            if (takes_many) continue;
        }
        float value;
        uint32_t number = place;
        if (format == READER_LIBFFM && (!number_take(&at, end, &number) || at == end || *at++ != ':'))
            return bad_word(why, line, word, end, "field:id:value, with a field of at most 65535");
        if (!digits_take(&at, end, &id, &id_bytes) || !value_take(&at, end, &value))
            return bad_feature(why, line, word, end, format == READER_LIBFFM);
        keys_spread(l, example);
        if (format != READER_LIBFFM && l->all < l->field_count) feature_put(l, example, l->all, id, id_bytes, value);
        if (format != READER_LIBSVM && field_of(l, number) < l->field_count)
            feature_put(l, example, field_of(l, number), id, id_bytes, value);
    }
    if (l->has_group && !has_group && !l->label_optional)
        return reader_bad(why, "expected qid:NUMBER behind the label, found none");
    return fields_close(l, example, why);
}

static enum reader_found libsvm_parse(void *state, const char *line, size_t bytes, struct reader_example *example,
                                      char *why)
{
    return parse(state, READER_LIBSVM, line, bytes, example, why);
}
static enum reader_found libffm_parse(void *state, const char *line, size_t bytes, struct reader_example *example,
                                      char *why)
{
    return parse(state, READER_LIBFFM, line, bytes, example, why);
}
static enum reader_found libfm_parse(void *state, const char *line, size_t bytes, struct reader_example *example,
                                     char *why)
{
    return parse(state, READER_LIBFM, line, bytes, example, why);
}

const struct reader_format_functions reader_libsvm = {
    .name = "libsvm", .bytes = libsvm_bytes, .place = libsvm_place, .parse = libsvm_parse, .lines_are_apart = true};
const struct reader_format_functions reader_libffm = {
    .name = "libffm", .bytes = libsvm_bytes, .place = libffm_place, .parse = libffm_parse, .lines_are_apart = true};
const struct reader_format_functions reader_libfm = {
    .name = "libfm", .bytes = libsvm_bytes, .place = libfm_place, .parse = libfm_parse, .lines_are_apart = true};
