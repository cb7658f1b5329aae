/* The format of running text for language models: words separated by spaces or tabs. The word <eos> follows
 * the last word of a line; a line without words gives nothing.
 *
 *     data        the cat sat        │ it slept
 *     tokens      the  cat  sat  <eos>  it  slept  <eos>           (window = 3)
 *     example 0   └─ context ──┘  next
 *     example 1        └── context ──┘  next
 *
 * An example is a token that has `window` tokens before it in its file. The field context has their keys in
 * order, the field next the token's own key; the label next is the number of its word. Files end a context,
 * lines do not. A text that is no word of its column's vocabulary has no key (or that of the unknown word);
 * if it is a label or the target of candidates, the example is left out and counted. Where these are optional
 * (predict), the example stays, without a target and with label 0.
 *
 * Workload: a token of 5 bytes, 40 ns and 1 ns a word of the context. */
#include "io/read/text_field.h"

#include <stdio.h>
#include <string.h>

static const char eos[] = "<eos>";

struct tokens {
    struct text_fields texts;
    uint32_t field_count, window;
    uint32_t context; /* the field of the column context; field_count: none */
    bool missing_is_key, has_label, target_optional;
    uint64_t *missing_key; /* [field_count] */
    /* The last `window` tokens of the file; once there are as many, the oldest is at `oldest`. */
    uint64_t *key; /* [window] */
    bool *has_key; /* [window] */
    uint32_t oldest, seen;
    /* of the line; NULL: the next line begins */
    const char *at;
    bool has_words;
};

static size_t tokens_bytes(const struct reader_options *options)
{
    const struct reader_schema *schema = &options->schema;
    return arena_bytes(sizeof(struct tokens)) + text_fields_bytes(schema) +
           arena_bytes(sizeof(uint64_t) * schema->example.field_count) +
           arena_bytes(sizeof(uint64_t) * schema->window) + arena_bytes(sizeof(bool) * schema->window);
}

static status tokens_place(void **state, struct arena *arena, const struct reader_options *options)
{
    const struct reader_schema *schema = &options->schema;
    struct example_shape shape = schema->example;
    if (shape.dense_count) FAIL(INVALID, "tokens have no numeric columns; the graph uses %u", shape.dense_count);
    if (shape.has_weight || shape.has_group) FAIL(INVALID, "tokens have no column of weights or groups");
    if (shape.field_count && !schema->field) FAIL(INVALID, "the columns of tokens have names: context, next");
    if (shape.label_count > 1 || (shape.label_count && (!schema->label || strcmp(schema->label[0].name, "next") != 0)))
        FAIL(INVALID, "tokens have one label, next; the graph uses %u%s%s", shape.label_count,
             schema->label ? ": " : "", schema->label ? schema->label[0].name : "");
    if (schema->window == 0) FAIL(INVALID, "tokens need a window of at least 1 word, found 0");
    struct tokens *t = arena_take(arena, sizeof *t);
    t->field_count = t->context = shape.field_count;
    t->has_label = shape.label_count;
    t->window = schema->window;
    t->missing_is_key = schema->missing_is_key;
    t->target_optional = options->label_optional;
    t->missing_key = arena_take(arena, sizeof *t->missing_key * shape.field_count);
    t->key = arena_take(arena, sizeof *t->key * t->window);
    t->has_key = arena_take(arena, sizeof *t->has_key * t->window);
    for (uint32_t f = 0; f < t->field_count; f++) {
        const struct reader_column *column = &schema->field[f];
        bool is_context = strcmp(column->name, "context") == 0;
        if (!is_context && strcmp(column->name, "next") != 0)
            FAIL(INVALID, "tokens have the columns context and next; expected one of them, found \"%s\"", column->name);
        if (is_context && column->negative_count)
            FAIL(INVALID, "candidates of tokens are of the column next, not context");
        if (is_context && t->context < f) FAIL(INVALID, "the column context is named twice");
        if (is_context) t->context = f;
        t->missing_key[f] = reader_key(column->seed, "", 0);
    }
    CHECK(shape.key_count_max >=
          shape.field_count - (t->context < t->field_count) + (t->context < t->field_count ? t->window : 0));
    TRY(text_fields_place(&t->texts, arena, options, true));
    *state = t;
    return ST_OK;
}

static void tokens_file_begin(void *state)
{
    struct tokens *t = state;
    t->at = NULL;
    t->oldest = t->seen = 0;
}

/* Cuts the line's next token off; false: the line is over. */
static bool token_next(struct tokens *t, const char *line, size_t bytes, const char **token, size_t *token_bytes)
{
    if (!t->at) {
        t->at = line;
        t->has_words = false;
    }
    if (text_word_next(&t->at, line + bytes, token, token_bytes)) return t->has_words = true;
    bool has_words = t->has_words;
    t->has_words = false; /* <eos> comes once */
    *token = eos;
    *token_bytes = sizeof eos - 1;
    if (!has_words) t->at = NULL;
    return has_words;
}

static void window_push(struct tokens *t, const char *token, size_t bytes)
{
    uint32_t place = t->seen < t->window ? t->seen++ : t->oldest;
    if (t->context < t->field_count)
        t->has_key[place] = text_field_find(&t->texts.field[t->context], token, bytes, &t->key[place]);
    if (t->seen == t->window) t->oldest = place + 1 < t->window ? place + 1 : 0;
}

/* False: the label or the target is no word. */
static bool token_example(const struct tokens *t, const char *token, size_t bytes, struct reader_example *e)
{
    uint32_t key_count = 0;
    for (uint32_t f = 0; f < t->field_count; f++) {
        const struct text_field *field = &t->texts.field[f];
        uint32_t begin = key_count;
        uint64_t key = 0;
        if (f == t->context)
            for (uint32_t i = 0, place = t->oldest; i < t->window; i++, place = place + 1 < t->window ? place + 1 : 0) {
                if (t->has_key[place]) e->key[key_count++] = t->key[place];
            }
        else if (text_field_find(field, token, bytes, &key))
            e->key[key_count++] = key;
        else if (field->is_number && !t->target_optional)
            return false;
        if (key_count == begin && t->missing_is_key && !field->is_number) e->key[key_count++] = t->missing_key[f];
        e->key_end[f] = key_count;
    }
    uint64_t word = 0;
    if (t->has_label && !text_field_find(&t->texts.label[0], token, bytes, &word) && !t->target_optional) return false;
    if (t->has_label) e->label[0] = (float)word;
    for (uint32_t n = 0; e->value && n < key_count; n++) e->value[n] = 1;
    return true;
}

static enum reader_found tokens_parse(void *state, const char *line, size_t bytes, struct reader_example *e, char *why)
{
    (void)why; /* every line is text */
    struct tokens *t = state;
    const char *token;
    size_t token_bytes;
    while (token_next(t, line, bytes, &token, &token_bytes)) {
        bool is_whole = t->seen == t->window, is_example = is_whole && token_example(t, token, token_bytes, e);
        window_push(t, token, token_bytes);
        if (is_example && t->has_words) return FOUND_MORE;
        if (is_example) { /* it is that of <eos> */
            t->at = NULL;
            return FOUND_EXAMPLE;
        }
        e->unknown_count += is_whole;
    }
    return FOUND_NONE;
}

static status tokens_words(void *state, const char *line, size_t bytes,
                           status (*word)(void *to, const char *text, size_t bytes), void *to)
{
    struct tokens *t = state;
    const char *token;
    size_t token_bytes;
    while (token_next(t, line, bytes, &token, &token_bytes)) TRY(word(to, token, token_bytes));
    return ST_OK;
}

static uint64_t tokens_examples(const char *text, size_t bytes)
{
    uint64_t word_count, line_count;
    text_words_count(text, bytes, &word_count, &line_count);
    return word_count + line_count;
}

const struct reader_format_functions reader_tokens = {
    .name = "tokens",
    .bytes = tokens_bytes,
    .place = tokens_place,
    .file_begin = tokens_file_begin,
    .parse = tokens_parse,
    .takes_empty = true,
    .keeps_context = true,
    .words = tokens_words,
    .examples = tokens_examples,
};
