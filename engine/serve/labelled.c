/* Puts labels into lines, format by format. */
#include "engine/serve/labelled.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/heap.h"
#include "io/read/column_names.h"

#define CRITEO_COLUMNS 40u
static const char criteo_labels[] = "label";

struct labelled_piece {
    const char *text;
    size_t bytes;
    bool is_open; /* it begins with a quotation mark that nothing closes */
};

/* Where lines have labels. */
struct places {
    char separator;
    bool has_quotes;
    struct labelled_piece *label; /* [label_count]: their names */
    uint32_t label_count;
    /* for each column of a line: the label that stands there, or PLACE_OTHER */
    uint32_t *place; /* [count] */
    uint32_t count, labels_there;
};
#define PLACE_OTHER UINT32_MAX

static status put(struct evbuffer *to, const char *text, size_t bytes)
{
    if (bytes && evbuffer_add(to, text, bytes) != 0) FAIL(MEMORY, "no memory for labelled lines");
    return ST_OK;
}

/* --- pieces ----------------------------------------------------------------------------------- */

/* The next value of a line: up to a separator outside of quotation marks, or to the end of the line, which no
 * value may contain, as for readers. Moves *at behind it; *is_last: it is the line's last. */
static struct labelled_piece value_next(const struct places *p, const char **at, const char *end, bool *is_last)
{
    const char *begin = *at, *c = begin;
    bool is_open = false;
    while (c < end && *c == ' ' && p->separator != ' ') c++;
    if (p->has_quotes && c < end && *c == '"') {
        for (c++; c < end && *c != '\n' && (*c != '"' || (c + 1 < end && c[1] == '"')); c++) c += *c == '"';
        is_open = c >= end || *c != '"';
    }
    while (c < end && *c != p->separator && *c != '\n') c++;
    *is_last = c >= end || *c == '\n';
    *at = c < end ? c + 1 : end;
    struct labelled_piece value = {begin, (size_t)(c - begin), is_open};
    if (*is_last && value.bytes && begin[value.bytes - 1] == '\r') value.bytes--;
    return value;
}

static struct labelled_piece line_next(const char **at, const char *end)
{
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    struct labelled_piece line = {.text = *at, .bytes = (size_t)((stop ? stop : end) - *at)};
    *at = stop ? stop + 1 : end;
    if (line.bytes && line.text[line.bytes - 1] == '\r') line.bytes--;
    return line;
}

/* --- lines of columns ------------------------------------------------------------------------- */

static uint32_t label_of(const struct places *p, struct labelled_piece name)
{
    while (name.bytes && *name.text == ' ') name.text++, name.bytes--;
    while (name.bytes && name.text[name.bytes - 1] == ' ') name.bytes--;
    if (name.bytes > 1 && *name.text == '"' && name.text[name.bytes - 1] == '"') name.text++, name.bytes -= 2;
    for (uint32_t i = 0; i < p->label_count; i++)
        if (p->label[i].bytes == name.bytes && memcmp(p->label[i].text, name.text, name.bytes) == 0) return i;
    return PLACE_OTHER;
}

static status place_add(void *places, const char *name, size_t bytes)
{
    struct places *p = places;
    TRY(heap_room(&p->place, p->count + 1, sizeof *p->place, "columns of a line"));
    const uint32_t label = label_of(p, (struct labelled_piece){.text = name, .bytes = bytes});
    p->place[p->count++] = label;
    p->labels_there += label != PLACE_OTHER;
    return ST_OK;
}

/* Takes a line's values of labels. INVALID: another number of values, or one with a
 * quotation mark that is not closed. */
static status labels_take(const struct places *p, struct labelled_piece line, struct labelled_piece *value)
{
    const char *at = line.text, *end = line.text + line.bytes;
    uint32_t count = 0;
    for (bool is_last = false; !is_last; count++) {
        const struct labelled_piece next = value_next(p, &at, end, &is_last);
        if (next.is_open)
            FAIL(INVALID, "expected a quotation mark that ends label %u of a line on this line, found none", count + 1);
        if (count < p->label_count) value[count] = next;
    }
    if (count != p->label_count) FAIL(INVALID, "expected %u labels in a line, found %u", p->label_count, count);
    return ST_OK;
}

/* Writes one line of columns with the labels in their places; a label without a place goes to the
 * end. `value` NULL: writes nothing. */
static status columns_put(const struct places *p, const char **at, const char *end, const struct labelled_piece *value,
                          bool has_header, struct evbuffer *to)
{
    const char *from = *at, *look = *at;
    uint32_t found = 0;
    for (bool is_last = false; !is_last; found++) (void)value_next(p, &look, end, &is_last);
    *at = look;
    if (value == NULL) return ST_OK;
    const bool lacks = p->labels_there && found + p->labels_there == p->count;
    bool is_last = false, is_first = true;
    for (uint32_t i = 0; i < p->count || !is_last; i++) {
        const uint32_t label = i < p->count ? p->place[i] : PLACE_OTHER;
        struct labelled_piece v = {0};
        if (label == PLACE_OTHER || !lacks) {
            if (is_last) break;
            v = value_next(p, &from, end, &is_last);
        }
        if (label != PLACE_OTHER) v = value[label];
        if (!is_first) TRY(put(to, &p->separator, 1));
        is_first = false;
        TRY(put(to, v.text, v.bytes));
    }
    for (uint32_t l = 0; has_header && l < p->label_count; l++) {
        bool is_there = false;
        for (uint32_t i = 0; i < p->count; i++) is_there |= p->place[i] == l;
        if (is_there) continue;
        TRY(put(to, &p->separator, 1));
        TRY(put(to, value[l].text, value[l].bytes));
    }
    return put(to, "\n", 1);
}

/* Finds the places of the columns by the text's first line, and writes this line with the labels' names. */
static status header_take(struct places *p, const char **at, const char *end, struct evbuffer *to)
{
    size_t left = (size_t)(end - *at);
    file_mark_skip(at, &left);
    const char *look = *at;
    for (bool is_last = false; !is_last;) {
        const struct labelled_piece name = value_next(p, &look, end, &is_last);
        TRY(place_add(p, name.text, name.bytes));
    }
    return columns_put(p, at, end, p->label, true, to);
}

/* --- lines of numbered features --------------------------------------------------------------- */

static status features_put(struct labelled_piece line, struct labelled_piece label, struct evbuffer *to)
{
    const char *end = line.text + line.bytes, *stop = line.text;
    while (stop < end && *stop != ' ' && *stop != '\t') stop++;
    const bool has_label = stop > line.text && memchr(line.text, ':', (size_t)(stop - line.text)) == NULL;
    if (has_label) line = (struct labelled_piece){.text = stop, .bytes = (size_t)(end - stop)};
    while (line.bytes && (*line.text == ' ' || *line.text == '\t')) line.text++, line.bytes--;
    TRY(put(to, label.text, label.bytes));
    TRY(put(to, " ", 1));
    TRY(put(to, line.text, line.bytes));
    return put(to, "\n", 1);
}

/* --- trees ------------------------------------------------------------------------------------ */

/* Puts the label into the line's last node without a parent, as its number. A line without such a node, or a
 * malformed one, stays as it is. */
static status tree_put(struct labelled_piece line, struct labelled_piece label, struct evbuffer *to)
{
    const char *end = line.text + line.bytes, *root = end;
    size_t depth = 0;
    for (const char *c = line.text; c < end; c++) {
        if (*c == '(' && depth++ == 0) root = c + 1;
        if (*c == ')' && depth) depth--;
    }
    const char *stop = root;
    while (stop < end && *stop != ' ' && *stop != '\t' && *stop != '(' && *stop != ')') stop++;
    const bool has_head = stop > root && *root != '#';
    const bool is_number = has_head && (memchr("+-.", *root, 3) || (*root >= '0' && *root <= '9'));
    const char *colon = has_head && !is_number ? memchr(root, ':', (size_t)(stop - root)) : NULL;
    const char *kept = !has_head ? stop : is_number ? root : colon ? colon : stop; /* the text before the number */
    TRY(put(to, line.text, (size_t)(kept - line.text)));
    if (has_head && !is_number) TRY(put(to, ":", 1));
    if (has_head) TRY(put(to, label.text, label.bytes));
    TRY(put(to, stop, (size_t)(end - stop)));
    return put(to, "\n", 1);
}

/* --- all -------------------------------------------------------------------------------------- */

static status places_open(struct places *p, const struct setup *setup)
{
    const struct reader_schema *s = &setup->schema.reader;
    const uint32_t format = setup->settings.data_format;
    *p = (struct places){.separator = format == DATA_CRITEO ? '\t'
                                      : format == DATA_CSV  ? s->separator
                                                            : ' ',
                         .has_quotes = format == DATA_CSV && s->has_quotes,
                         .label_count = s->example.label_count};
    if (p->label_count == 0 || format == DATA_PAIRS || format == DATA_TOKENS)
        FAIL(INVALID, "labels cannot be sent for lines of %s, which have no labels", cfg_data_formats[format]);
    p->label = calloc(p->label_count, sizeof *p->label);
    if (p->label == NULL) FAIL(MEMORY, "no memory for labels");
    for (uint32_t i = 0; i < p->label_count; i++) {
        const char *name = format == DATA_CSV ? s->label[i].name : criteo_labels;
        p->label[i] = (struct labelled_piece){.text = name, .bytes = strlen(name)};
    }
    if (format == DATA_CSV && !s->has_header) return column_names_each("data.columns", s->columns, place_add, p);
    if (format == DATA_CRITEO) TRY(place_add(p, criteo_labels, sizeof criteo_labels - 1));
    while (format == DATA_CRITEO && p->count < CRITEO_COLUMNS) TRY(place_add(p, "", 0));
    return ST_OK;
}

static status lines_put(struct places *p, const struct setup *setup, const char *text, size_t bytes, const char *labels,
                        size_t label_bytes, struct labelled_piece *value, struct evbuffer *to)
{
    const uint32_t format = setup->settings.data_format;
    const bool has_columns = format == DATA_CSV || format == DATA_CRITEO,
               has_header = format == DATA_CSV && setup->schema.reader.has_header;
    const char *at = text, *end = text + bytes, *label_at = labels, *label_end = labels + label_bytes;
    uint64_t lines = 0, found = 0;
    if (has_header) TRY(header_take(p, &at, end, to));
    while (at < end && !(has_columns && reader_lines_are_empty(at, end))) {
        const bool has_labels = label_at < label_end;
        const struct labelled_piece label = line_next(&label_at, label_end);
        if (label.bytes) TRY(labels_take(p, label, value));
        lines++;
        found += has_labels;
        if (has_columns) {
            TRY(columns_put(p, &at, end, label.bytes ? value : NULL, has_header, to));
        } else {
            const struct labelled_piece line = line_next(&at, end);
            const bool is_tree = format == DATA_TREES;
            if (label.bytes) TRY(is_tree ? tree_put(line, value[0], to) : features_put(line, value[0], to));
        }
    }
    while (label_at < label_end) found++, (void)line_next(&label_at, label_end);
    if (found != lines)
        FAIL(INVALID, "expected a line of labels for each of %llu lines, found %llu", (unsigned long long)lines,
             (unsigned long long)found);
    return ST_OK;
}

status labelled_put(const struct setup *setup, const char *text, size_t bytes, const char *labels, size_t label_bytes,
                    struct evbuffer *to)
{
    struct places p;
    struct labelled_piece *value = NULL;
    status st = places_open(&p, setup);
    if (st == ST_OK) {
        value = calloc(p.label_count, sizeof *value);
        st = value ? lines_put(&p, setup, text, bytes, labels, label_bytes, value, to)
                   : status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for labels");
    }
    free(value);
    free(p.label);
    free(p.place);
    return st;
}
