/* Makes lines from values of columns. */
#include "engine/serve/line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/heap.h"
#include "io/read/column_names.h"

static const char criteo_names[] = "I1..I13, C1..C26";
static const char whole_name[] = "text";

/* --- columns ---------------------------------------------------------------------------------- */

uint32_t lines_find(const struct lines *l, const char *name)
{
    for (uint32_t i = 0; i < l->count; i++)
        if (strcmp(l->column[i].name, name) == 0) return i;
    return LINE_NONE;
}

static void column_add(struct lines *l, const char *name, bool is_number, bool is_list)
{
    const uint32_t found = lines_find(l, name);
    if (found == LINE_NONE)
        l->column[l->count++] = (struct line_column){name, is_number, is_list};
    else
        l->column[found].is_list |= is_list;
}

static status place_add(void *to, const char *text, size_t bytes)
{
    struct lines *l = to;
    (void)bytes;
    TRY(heap_room(&l->place, l->place_count + 1, sizeof *l->place, "columns of a line"));
    l->place[l->place_count++] = lines_find(l, text);
    return ST_OK;
}

/* Columns in the model's own order. */
static status places_of_columns(struct lines *l)
{
    for (uint32_t i = 0; i < l->count; i++) TRY(place_add(l, l->column[i].name, 0));
    return ST_OK;
}

static status columns_make(struct lines *l)
{
    const struct reader_schema *s = &l->setup->schema.reader;
    const uint32_t format = l->setup->settings.data_format;
    if (format != DATA_CSV && format != DATA_CRITEO) {
        column_add(l, whole_name, false, false);
        return places_of_columns(l);
    }
    for (uint32_t i = 0; i < s->example.dense_count; i++) column_add(l, s->dense[i].name, true, false);
    for (uint32_t i = 0; i < s->example.field_count; i++)
        column_add(l, s->field[i].name, false, s->list_separator != 0 && s->field[i].ids_max > 1);
    l->separator = format == DATA_CSV ? s->separator : '\t';
    l->has_quotes = format == DATA_CSV && s->has_quotes;
    l->has_names = format == DATA_CSV && s->has_header;
    if (l->has_names) return places_of_columns(l);
    return column_names_each("data.columns", format == DATA_CSV ? s->columns : criteo_names, place_add, l);
}

status lines_open(struct lines *l, const struct setup *setup)
{
    const struct example_shape shape = setup->schema.reader.example;
    *l = (struct lines){.setup = setup};
    l->column = calloc((size_t)shape.dense_count + shape.field_count + 1, sizeof *l->column);
    if (l->column == NULL) FAIL(MEMORY, "no memory for the columns of a line");
    status st = columns_make(l);
    if (st != ST_OK) lines_close(l);
    return st;
}

void lines_close(struct lines *l)
{
    free(l->column);
    free(l->place);
    *l = (struct lines){0};
}

/* --- values ----------------------------------------------------------------------------------- */

static status put(struct evbuffer *to, const void *text, size_t bytes)
{
    if (evbuffer_add(to, text, bytes) != 0) FAIL(MEMORY, "no memory for a line");
    return ST_OK;
}

static status quoted_put(struct evbuffer *to, const char *text, size_t bytes)
{
    const char *end = text + bytes;
    TRY(put(to, "\"", 1));
    for (const char *mark; (mark = memchr(text, '"', (size_t)(end - text))) != NULL; text = mark + 1) {
        TRY(put(to, text, (size_t)(mark + 1 - text)));
        TRY(put(to, "\"", 1));
    }
    TRY(put(to, text, (size_t)(end - text)));
    return put(to, "\"", 1);
}

static status value_put(const struct lines *l, const char *column, const char *text, size_t bytes, struct evbuffer *to)
{
    if (memchr(text, '\n', bytes) || memchr(text, '\r', bytes))
        FAIL(INVALID, "column %.100s: expected a value without line ends", column);
    if (l->separator == 0 || bytes == 0) return put(to, text, bytes);
    const bool has_separator = memchr(text, l->separator, bytes) != NULL;
    const bool is_special = has_separator || memchr(text, '"', bytes) || text[0] == ' ' || text[bytes - 1] == ' ';
    if (l->has_quotes && is_special) return quoted_put(to, text, bytes);
    if (has_separator)
        FAIL(INVALID, "column %.100s: expected a value without %s, which is between columns", column,
             l->separator == '\t' ? "tabs" : "the separator");
    return put(to, text, bytes);
}

status lines_names_put(const struct lines *l, struct evbuffer *to)
{
    if (!l->has_names) return ST_OK;
    for (uint32_t i = 0; i < l->count; i++) {
        if (i) TRY(put(to, &l->separator, 1));
        TRY(value_put(l, l->column[i].name, l->column[i].name, strlen(l->column[i].name), to));
    }
    return put(to, "\n", 1);
}

status lines_put(const struct lines *l, const struct line_value *values, struct evbuffer *to)
{
    for (uint32_t i = 0; i < l->place_count; i++) {
        const uint32_t column = l->place[i];
        if (i) TRY(put(to, &l->separator, 1));
        if (column == LINE_NONE || values[column].text == NULL) continue;
        TRY(value_put(l, l->column[column].name, values[column].text, values[column].bytes, to));
    }
    return put(to, "\n", 1);
}
