/* Counts the words of a column. */
#include "io/read/reader_text.h"
#include "io/read/word_table.h"

static status word_count_one(void *to, const char *text, size_t bytes)
{
    return word_table_add(to, text, bytes, READER_TEXTS_MAX);
}

/* Counts the rest of the pass. */
static status words_count(struct reader_text *text, struct word_table *table)
{
    for (;;) {
        bool over;
        TRY(reader_text_line(text, &over));
        if (over) return ST_OK;
        const char *line = text->line;
        if (line && (text->line_bytes || text->format->takes_empty))
            TRY(text->format->words(text->format_state, line, text->line_bytes, word_count_one, table));
    }
}

status reader_words_count(const struct reader_options *options, const char *column, uint32_t ids_max,
                          status (*word)(void *to, const char *text, size_t bytes, uint64_t count), void *to)
{
    const struct reader_column field = {.name = column, .ids_max = ids_max, .vocabulary = READER_NONE};
    struct reader_options alone = *options;
    alone.readers = 1;
    uint32_t key_count_max = ids_max > options->schema.window ? ids_max : options->schema.window;
    struct example_shape shape = {.field_count = 1, .key_count_max = key_count_max};
    alone.schema.example = shape;
    alone.schema.field = &field;
    alone.schema.vocabulary_count = 0;
    struct reader_text text;
    struct word_table table = {0};
    struct arena arena;
    size_t key_bytes = sizeof(uint64_t) * key_count_max, value_bytes = sizeof(float) * key_count_max;
    TRY(arena_open(&arena, options->part,
                   reader_text_bytes(&alone, shape) + arena_bytes(key_bytes) + arena_bytes(value_bytes) +
                       arena_bytes(sizeof(uint32_t))));
    struct reader_example spare = {.key = arena_take(&arena, key_bytes),
                                   .value = arena_take(&arena, value_bytes),
                                   .key_end = arena_take(&arena, sizeof(uint32_t))};
    status st = reader_text_open(&text, &arena, &alone, shape, &spare);
    if (st == ST_OK) {
        if (!text.format->words)
            st = status_fail(ST_INVALID, __FILE__, __LINE__, "the %s format has no words to count", text.format->name);
        if (st == ST_OK) st = reader_start(&text.reader, 0);
        if (st == ST_OK) st = words_count(&text, &table);
        reader_close(&text.reader);
    }
    arena_close(&arena);
    for (uint64_t i = 0; st == ST_OK && i < table.entry_count; i++)
        st = word(to, table.text + table.entry[i].text_begin, table.entry[i].text_bytes, table.entry[i].count);
    word_table_free(&table);
    return st;
}
