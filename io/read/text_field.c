/* Sets up fields and labels of texts: an index for each vocabulary that one of them uses. */
#include "io/read/text_field.h"

#include <string.h>

static bool is_used(const struct reader_schema *s, uint32_t vocabulary)
{
    for (uint32_t f = 0; f < s->example.field_count; f++)
        if (s->field[f].vocabulary == vocabulary) return true;
    for (uint32_t l = 0; l < s->example.label_count; l++)
        if (s->label[l].vocabulary == vocabulary) return true;
    return false;
}

size_t text_fields_bytes(const struct reader_schema *s)
{
    size_t bytes = arena_bytes(sizeof(struct text_field) * s->example.field_count) +
                   arena_bytes(sizeof(struct text_field) * s->example.label_count) +
                   arena_bytes(sizeof(struct vocabulary) * s->vocabulary_count);
    for (uint32_t v = 0; v < s->vocabulary_count; v++)
        if (is_used(s, v)) bytes += vocabulary_bytes(&s->vocabulary[v]);
    return bytes;
}

static status field_place(struct text_field *field, const struct reader_column *column, bool is_label, bool needs_words,
                          uint32_t vocabulary_count, const struct vocabulary *vocabulary)
{
    *field = (struct text_field){
        .seed = column->seed, .is_number = is_label || column->negative_count, .is_label = is_label};
    if (column->vocabulary < vocabulary_count) field->vocabulary = &vocabulary[column->vocabulary];
    if (needs_words && !field->vocabulary)
        FAIL(INVALID, "%s %s needs a vocabulary: give [column %s] a line vocabulary = NAME",
             is_label ? "the label" : "a field of candidates of", column->name, column->name);
    if (field->vocabulary && field->vocabulary->words.unknown != READER_NONE) {
        const char *unknown = field->vocabulary->words.text[field->vocabulary->words.unknown];
        field->unknown_key = reader_key(field->seed, unknown, strlen(unknown));
    }
    return ST_OK;
}

/* The field of candidates whose targets stay though they are no words, and labels of the same column. */
static void unknown_keep(struct text_fields *fields, const struct reader_schema *s, uint32_t field)
{
    fields->field[field].keeps_unknown = fields->field[field].vocabulary != NULL;
    for (uint32_t l = 0; l < s->example.label_count; l++)
        fields->label[l].keeps_unknown =
            fields->label[l].vocabulary != NULL && strcmp(s->label[l].name, s->field[field].name) == 0;
}

status text_fields_place(struct text_fields *fields, struct arena *arena, const struct reader_options *options,
                         bool labels_are_words)
{
    const struct reader_schema *s = &options->schema;
    struct vocabulary *vocabulary = arena_take(arena, sizeof *vocabulary * s->vocabulary_count);
    for (uint32_t v = 0; v < s->vocabulary_count; v++)
        if (is_used(s, v)) vocabulary_place(&vocabulary[v], arena, &s->vocabulary[v]);
    fields->field = arena_take(arena, sizeof *fields->field * s->example.field_count);
    fields->label = arena_take(arena, sizeof *fields->label * s->example.label_count);
    for (uint32_t f = 0; f < s->example.field_count; f++)
        TRY(field_place(&fields->field[f], &s->field[f], false, s->field[f].negative_count, s->vocabulary_count,
                        vocabulary));
    for (uint32_t l = 0; l < s->example.label_count; l++)
        TRY(field_place(&fields->label[l], &s->label[l], true, labels_are_words, s->vocabulary_count, vocabulary));
    if (options->unknown_keep) unknown_keep(fields, s, options->words_field);
    return ST_OK;
}

void text_words_count(const char *text, size_t bytes, uint64_t *word_count, uint64_t *line_count)
{
    uint64_t words = 0, lines = 0;
    bool is_in_word = false;
    for (size_t i = 0; i < bytes; i++) {
        bool is_blank = text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n';
        words += !is_blank && !is_in_word;
        lines += text[i] == '\n';
        is_in_word = !is_blank;
    }
    *word_count = words;
    *line_count = lines;
}
