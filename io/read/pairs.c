/* The format of implicit feedback: a line a user, with the user's items, separated by spaces or tabs:
 *
 *     user item item item …
 *
 * An example is a pair, with the columns user, item and history; its group is its user. The history has
 * the line's other items, at most ids_max of them: those behind the pair's, then those from the line's
 * begin on, so that each item is left out as often as any other. Where the target is optional (predict),
 * the history has all of the line, from its begin on. Items of the reader's histories come first. A text
 * that is no word of its column's vocabulary has no key (or that of the unknown word); if it is the
 * target of candidates, the pair is left out and counted. A user without items gives no example. Where
 * the target is optional (predict), a pair whose target is no word stays, without a target, and a user
 * without items is an example, too.
 *
 * Workload: a pair of 6 bytes, 30 ns; the user's part of a line is looked up once. */
#include "io/read/histories.h"
#include "io/read/text_field.h"

#include <stdio.h>
#include <string.h>

struct pairs {
    struct text_fields texts;
    uint32_t field_count;
    bool *is_user; /* [field_count]: the field is of the column user, else of item or history */
    bool *has_key; /* [field_count], for user fields: the line's user has a key */
    uint64_t *key; /* [field_count], for user fields */
    bool missing_is_key, has_group, target_optional;
    uint64_t *missing_key;             /* [field_count] */
    uint32_t history, history_max;     /* the field of the column history, or NONE; its ids_max */
    const struct histories *histories; /* NULL: there are none */
    bool histories_alone;
    /* of the line; NULL: the next line begins */
    const char *at;
    uint64_t group;
    bool has_items;       /* the line has an item */
    uint32_t item_number; /* the present item's */
    /* with a history: the line's items that have a key in it */
    uint32_t item_count, item_next; /* next: the first of them whose number is not below item_number */
    uint64_t *item_key;             /* [ITEMS_MAX] */
    uint32_t *item_at;              /* [ITEMS_MAX]: its number in the line                           */
    uint32_t *item_run_end;         /* [ITEMS_MAX]: the first behind it of another key               */
};
/* Most items of a line: a letter and a blank each. */
#define ITEMS_MAX (READER_LINE_BYTES_MAX / 2 + 1)

/* The field that is the history, or NONE. */
static uint32_t history_of(const struct reader_schema *schema)
{
    uint32_t f = 0;
    while (f < schema->example.field_count && !(schema->field && strcmp(schema->field[f].name, "history") == 0)) f++;
    return f < schema->example.field_count ? f : READER_NONE;
}

static size_t pairs_bytes(const struct reader_options *options)
{
    const struct reader_schema *schema = &options->schema;
    uint32_t field_count = schema->example.field_count;
    const size_t items = history_of(schema) == READER_NONE ? 0 : ITEMS_MAX;
    return arena_bytes(sizeof(struct pairs)) + text_fields_bytes(schema) + 2 * arena_bytes(sizeof(uint32_t) * items) +
           arena_bytes(sizeof(uint64_t) * items) + 2 * arena_bytes(sizeof(bool) * field_count) +
           2 * arena_bytes(sizeof(uint64_t) * field_count);
}

static status pairs_place(void **state, struct arena *arena, const struct reader_options *options)
{
    const struct reader_schema *schema = &options->schema;
    struct example_shape shape = schema->example;
    if (shape.dense_count) FAIL(INVALID, "pairs have no numeric columns; the graph uses %u", shape.dense_count);
    if (shape.label_count) FAIL(INVALID, "pairs have no label; the graph uses %u", shape.label_count);
    if (shape.has_weight) FAIL(INVALID, "pairs have no column of weights");
    if (shape.field_count && !schema->field) FAIL(INVALID, "the columns of pairs have names: user, item");
    struct pairs *p = arena_take(arena, sizeof *p);
    p->field_count = shape.field_count;
    p->missing_is_key = schema->missing_is_key;
    p->has_group = shape.has_group;
    p->target_optional = options->label_optional;
    p->is_user = arena_take(arena, sizeof *p->is_user * p->field_count);
    p->has_key = arena_take(arena, sizeof *p->has_key * p->field_count);
    p->key = arena_take(arena, sizeof *p->key * p->field_count);
    p->missing_key = arena_take(arena, sizeof *p->missing_key * p->field_count);
    p->history = history_of(schema);
    p->histories = options->histories;
    p->histories_alone = options->histories_alone;
    const size_t items = p->history == READER_NONE ? 0 : ITEMS_MAX;
    p->item_at = arena_take(arena, sizeof *p->item_at * items);
    p->item_run_end = arena_take(arena, sizeof *p->item_run_end * items);
    p->item_key = arena_take(arena, sizeof *p->item_key * items);
    if (p->history != READER_NONE) {
        p->history_max = schema->field[p->history].ids_max;
        p->has_group = p->has_group || p->histories; /* histories are found by it */
        if (schema->field[p->history].negative_count) FAIL(INVALID, "candidates are of an item, and not of a history");
    }
    for (uint32_t f = 0; f < p->field_count; f++) {
        const char *name = schema->field[f].name;
        p->is_user[f] = strcmp(name, "user") == 0;
        if (!p->is_user[f] && f != p->history && strcmp(name, "item") != 0)
            FAIL(INVALID, "pairs have the columns user, item and history; expected one of them, found \"%s\"", name);
        p->missing_key[f] = reader_key(schema->field[f].seed, "", 0);
    }
    CHECK(shape.key_count_max >= shape.field_count);
    TRY(text_fields_place(&p->texts, arena, options, true));
    *state = p;
    return ST_OK;
}

static void pairs_file_begin(void *state) { ((struct pairs *)state)->at = NULL; }

static void user_begin(struct pairs *p, const char *text, size_t bytes)
{
    if (p->has_group) p->group = reader_key_inline(0, text, bytes);
    for (uint32_t f = 0; f < p->field_count; f++)
        if (p->is_user[f]) p->has_key[f] = text_field_find(&p->texts.field[f], text, bytes, &p->key[f]);
}

/* The keys of all items behind the user. */
static void items_find(struct pairs *p, const char *at, const char *stop)
{
    const struct text_field *field = &p->texts.field[p->history];
    const char *item;
    size_t bytes;
    p->item_number = p->item_count = p->item_next = 0;
    for (uint32_t number = 0; text_word_next(&at, stop, &item, &bytes); number++) {
        p->item_at[p->item_count] = number;
        p->item_count += text_field_find(field, item, bytes, &p->item_key[p->item_count]);
    }
    for (uint32_t i = p->item_count; i-- > 0;) {
        const bool is_run = i + 1 < p->item_count && p->item_key[i + 1] == p->item_key[i];
        p->item_run_end[i] = is_run ? p->item_run_end[i + 1] : i + 1;
    }
}

static void item_pass(struct pairs *p)
{
    p->item_number++;
    while (p->item_next < p->item_count && p->item_at[p->item_next] < p->item_number) p->item_next++;
}

/* Appends the user's history, without the example's item. Passes its runs at once: a line may have a million
 * items, and each needs a history. */
static void history_make(const struct pairs *p, struct reader_example *e, uint32_t *key_count)
{
    const uint32_t end = *key_count + p->history_max, next = p->item_next;
    size_t known_count = 0;
    const struct history_pair *known = p->histories ? histories_find(p->histories, p->group, &known_count) : NULL;
    for (size_t i = 0; i < known_count && *key_count < end; i++) e->key[(*key_count)++] = known[i].key;
    if (p->histories_alone) return;
    const bool has_own = !p->target_optional && next < p->item_count && p->item_at[next] == p->item_number;
    const uint32_t from = p->target_optional ? 0 : next + has_own, count = p->item_count - has_own;
    for (uint32_t i = 0; i < count && *key_count < end;) {
        const uint32_t at = (from + i) % p->item_count;
        if (has_own && p->item_key[at] == p->item_key[next]) {
            i += p->item_run_end[at] - at;
            continue;
        }
        e->key[(*key_count)++] = p->item_key[at];
        i++;
    }
}

/* `item` NULL: there is no item. False: the target is no word. */
static bool pair_make(const struct pairs *p, const char *item, size_t item_bytes, struct reader_example *e)
{
    uint32_t key_count = 0;
    for (uint32_t f = 0; f < p->field_count; f++) {
        const struct text_field *field = &p->texts.field[f];
        uint64_t key = p->key[f];
        if (f == p->history) {
            history_make(p, e, &key_count);
            e->key_end[f] = key_count;
            continue;
        }
        bool has_key = p->is_user[f] ? p->has_key[f] : item && text_field_find(field, item, item_bytes, &key);
        if (!has_key && field->is_number && !p->target_optional) return false;
        if (!has_key && !field->is_number && p->missing_is_key) has_key = true, key = p->missing_key[f];
        if (has_key && e->value) e->value[key_count] = 1;
        if (has_key) e->key[key_count++] = key;
        e->key_end[f] = key_count;
    }
    e->group = p->group;
    return true;
}

/* Whether the line has another item behind a pair: so this is known without the next line. */
static enum reader_found pair_found(struct pairs *p, const char *stop)
{
    while (p->at < stop && (*p->at == ' ' || *p->at == '\t')) p->at++;
    if (p->at < stop) return FOUND_MORE;
    p->at = NULL;
    return FOUND_EXAMPLE;
}

static enum reader_found pairs_parse(void *state, const char *line, size_t bytes, struct reader_example *e, char *why)
{
    struct pairs *p = state;
    const char *stop = line + bytes, *text;
    size_t text_bytes;
    if (!p->at) {
        const char *at = line;
        if (!text_word_next(&at, stop, &text, &text_bytes)) {
            if (why) snprintf(why, READER_WHY_BYTES, "expected a user and its items, found only blanks");
            return FOUND_BAD;
        }
        user_begin(p, text, text_bytes);
        p->at = at;
        p->has_items = false;
        if (p->history != READER_NONE) items_find(p, at, stop);
    }
    while (text_word_next(&p->at, stop, &text, &text_bytes)) {
        p->has_items = true;
        const bool is_made = pair_make(p, text, text_bytes, e);
        if (p->history != READER_NONE) item_pass(p);
        if (is_made) return pair_found(p, stop);
        e->unknown_count++;
    }
    p->at = NULL;
    if (p->has_items || !p->target_optional) return FOUND_NONE;
    pair_make(p, NULL, 0, e);
    return FOUND_EXAMPLE;
}

static status pairs_words(void *state, const char *line, size_t bytes,
                          status (*word)(void *to, const char *text, size_t bytes), void *to)
{
    const struct pairs *p = state;
    const char *at = line, *stop = line + bytes, *user, *item;
    size_t user_bytes, item_bytes;
    if (!text_word_next(&at, stop, &user, &user_bytes)) return ST_OK;
    while (text_word_next(&at, stop, &item, &item_bytes))
        TRY(p->is_user[0] ? word(to, user, user_bytes) : word(to, item, item_bytes));
    return ST_OK;
}

static uint64_t pairs_examples(const char *text, size_t bytes)
{
    uint64_t word_count, line_count;
    text_words_count(text, bytes, &word_count, &line_count);
    return word_count > line_count ? word_count - line_count : word_count;
}

const struct reader_format_functions reader_pairs = {
    .name = "pairs",
    .bytes = pairs_bytes,
    .place = pairs_place,
    .file_begin = pairs_file_begin,
    .parse = pairs_parse,
    .words = pairs_words,
    .examples = pairs_examples,
};
