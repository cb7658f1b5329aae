/* What fields and labels of texts share in all formats: a text's key, or its word's number in the column's
 * vocabulary. */
#ifndef HETERPS_IO_READ_TEXT_FIELD_H
#define HETERPS_IO_READ_TEXT_FIELD_H

#include "io/read/reader_internal.h"
#include "io/read/vocabulary.h"

/* A field or a label of a schema. */
struct text_field {
    uint64_t seed, unknown_key;
    const struct vocabulary *vocabulary; /* NULL: every text has its key                                     */
    /* candidates and labels: the key is the word's number, and the text must be a word */
    bool is_number;
    bool is_label;
    bool keeps_unknown; /* a text that is no word is found, too: READER_UNKNOWN and its key; of a label 0 */
};

struct text_fields {
    struct text_field *field, *label; /* [field_count], [label_count] */
};

size_t text_fields_bytes(const struct reader_schema *schema);
/* INVALID: candidates without a vocabulary; labels without one, where the format has no numbers for them. */
MUST_USE status text_fields_place(struct text_fields *fields, struct arena *arena, const struct reader_options *options,
                                  bool labels_are_words);

/* Finds the text's key, for candidates and labels its word's number; false: it is no word. */
static inline bool text_field_find(const struct text_field *f, const char *text, size_t bytes, uint64_t *key)
{
    if (!f->vocabulary) {
        *key = reader_key_inline(f->seed, text, bytes);
        return true;
    }
    uint32_t word = vocabulary_find(f->vocabulary, text, bytes);
    if (word == READER_NONE) {
        if (f->keeps_unknown) *key = f->is_label ? 0 : READER_UNKNOWN | reader_key_inline(f->seed, text, bytes);
        return f->keeps_unknown;
    }
    *key = f->is_number                           ? word
           : word == f->vocabulary->words.unknown ? f->unknown_key
                                                  : reader_key_inline(f->seed, text, bytes);
    return true;
}

/* Cuts the next word off *at: bytes between blanks (spaces and tabs). False: there is no word. */
static inline bool text_word_next(const char **at, const char *stop, const char **word, size_t *bytes)
{
    const char *from = *at;
    while (from < stop && (*from == ' ' || *from == '\t')) from++;
    const char *end = from;
    while (end < stop && *end != ' ' && *end != '\t') end++;
    *at = end;
    *word = from;
    *bytes = (size_t)(end - from);
    return end > from;
}

/* Counts words and line ends. */
void text_words_count(const char *text, size_t bytes, uint64_t *word_count, uint64_t *line_count);

#endif
