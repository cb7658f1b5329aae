/* Cuts columns out of lines, and queues their texts. */
#include "engine/eval/columns.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/heap.h"
#include "io/read/column_names.h"
#include "io/read/text_field.h"

#define NONE UINT32_MAX
/* Most columns of a line that can be wanted, or be labels; further columns are only counted. */
#define COLUMNS_MAX 65536u

static const char criteo_names[] = "label, I1..I13, C1..C26";

/* The cells of a line of features (libsvm, libfm, libffm), in the order in which a line is cut. */
enum { CELL_LABEL, CELL_FEATURES, CELL_GROUP, CELL_FIRST /* F1 of libfm; F2 and further ones follow */ };

/* A list of names. */
struct names {
    char **name; /* [count] */
    uint32_t count;
};

struct columns {
    struct reader_listener listener;
    const struct setup *setup;
    const char *giver;
    struct names wanted;
    enum reader_format format;
    char separator;
    bool has_header, has_quotes;
    /* of the file */
    uint32_t *position; /* [wanted.count]: of the file's columns                              */
    uint8_t *is_label;  /* [COLUMNS_MAX]: by column of the file                             */
    uint32_t file_count, label_count;
    struct column_text *cell; /* [COLUMNS_MAX]: of the line being cut */
    /* under the lock: lengths and bytes of texts, [begin, end) */
    pthread_mutex_t lock;
    char *queue;
    size_t begin, end, max;
    /* of the example taken last */
    char *taken;
    size_t taken_max;
};

static status name_add(void *to, const char *text, size_t bytes)
{
    struct names *n = to;
    TRY(heap_room(&n->name, n->count + 1, sizeof *n->name, "names of columns"));
    TRY(heap_text(&n->name[n->count], "%.*s", (int)bytes, text));
    n->count++;
    return ST_OK;
}

static void names_free(struct names *n)
{
    for (uint32_t i = 0; i < n->count; i++) free(n->name[i]);
    free(n->name);
    *n = (struct names){0};
}

/* --- a file's columns --------------------------------------------------------------------------- */

/* Whether all of the text is a value of csv between quotation marks. */
static bool is_between_marks(const struct columns *c, struct column_text text)
{
    size_t at = 1;
    if (!c->has_quotes || text.bytes < 2 || text.text[0] != '"') return false;
    while (at < text.bytes && (text.text[at] != '"' || (at + 1 < text.bytes && text.text[at + 1] == '"')))
        at += 1 + (text.text[at] == '"');
    return at + 1 == text.bytes;
}

/* Writes the bytes between the marks, with one mark for two; returns how many they are. */
static size_t marks_remove(struct column_text text, char *to)
{
    char *begin = to;
    for (size_t at = 1; at + 1 < text.bytes; at++) {
        *to++ = text.text[at];
        at += text.text[at] == '"';
    }
    return (size_t)(to - begin);
}

/* Whether a cell is a name, which may stand between marks. */
static bool is_name(const struct columns *c, struct column_text text, const char *name)
{
    const size_t bytes = strlen(name);
    if (!is_between_marks(c, text)) return text.bytes == bytes && memcmp(text.text, name, bytes) == 0;
    char value[2 * COLUMN_NAME_BYTES_MAX + 2];
    return text.bytes <= sizeof value && marks_remove(text, value) == bytes && memcmp(value, name, bytes) == 0;
}

/* Finds the columns' places by the names in the first `count` cells. */
static status file_begin(struct columns *c, uint32_t count)
{
    const struct reader_schema *s = &c->setup->schema.reader;
    c->file_count = count;
    c->label_count = 0;
    for (uint32_t i = 0; i < count && i < COLUMNS_MAX; i++) {
        c->is_label[i] = false;
        for (uint32_t l = 0; l < s->example.label_count; l++)
            c->is_label[i] |= is_name(c, c->cell[i], s->label ? s->label[l].name : "label");
        c->label_count += c->is_label[i];
    }
    for (uint32_t w = 0; w < c->wanted.count; w++) {
        c->position[w] = NONE;
        for (uint32_t i = 0; i < count && i < COLUMNS_MAX && c->position[w] == NONE; i++)
            if (is_name(c, c->cell[i], c->wanted.name[w])) c->position[w] = i;
        if (c->position[w] == NONE) FAIL(INVALID, "%s: no column is called \"%s\"", c->giver, c->wanted.name[w]);
    }
    return ST_OK;
}

/* --- lines --------------------------------------------------------------------------------------- */

static bool is_of_features(enum reader_format format)
{
    return format == READER_LIBSVM || format == READER_LIBFM || format == READER_LIBFFM;
}

/* The end of the cell that begins at `at`: a separator outside quotation marks, or `end`. */
static const char *cell_end(const struct columns *c, const char *at, const char *end)
{
    const char *first = at;
    while (first < end && *first == ' ' && c->separator != ' ') first++;
    if (c->has_quotes && first < end && *first == '"')
        /* Marks within the value come in pairs, and a single mark ends it;
         * text behind that mark is skipped below. */
        for (at = first + 1; at < end && (*at != '"' || (at + 1 < end && at[1] == '"')); at++) at += *at == '"';
    const char *stop = at < end ? memchr(at, c->separator, (size_t)(end - at)) : NULL;
    return stop ? stop : end;
}

/* Cuts a line into cells; returns their count. */
static uint32_t cells_cut(struct columns *c, const char *line, size_t bytes)
{
    const char *at = line, *end = line + bytes;
    for (uint32_t count = 0;; at++) {
        const char *stop = cell_end(c, at, end), *from = at, *to = stop;
        while (from < to && *from == ' ') from++;
        while (to > from && to[-1] == ' ') to--;
        if (count < COLUMNS_MAX) c->cell[count] = (struct column_text){from, (size_t)(to - from)};
        count++;
        if (stop == end) return count;
        at = stop;
    }
}

/* Cuts a line of features into cells: the label, all features as they stand, the group, each feature. */
static uint32_t features_cut(struct columns *c, const char *line, size_t bytes)
{
    const char *at = line, *end = line + bytes;
    struct column_text word, *all = &c->cell[CELL_FEATURES];
    uint32_t count = CELL_FIRST;
    for (uint32_t i = 0; i < CELL_FIRST; i++) c->cell[i] = (struct column_text){0};
    for (bool is_first = true; text_word_next(&at, end, &word.text, &word.bytes) && *word.text != '#';
         is_first = false) {
        if (is_first && !memchr(word.text, ':', word.bytes)) {
            c->cell[CELL_LABEL] = word;
        } else if (c->format == READER_LIBSVM && !all->text && word.bytes > 4 && !memcmp(word.text, "qid:", 4)) {
            c->cell[CELL_GROUP] = (struct column_text){word.text + 4, word.bytes - 4};
        } else {
            if (!all->text) all->text = word.text;
            all->bytes = (size_t)(at - all->text);
            if (count < COLUMNS_MAX) c->cell[count++] = word;
        }
    }
    return count;
}

/* Takes a line of names. */
static status header_take(void *context, const char *line, size_t bytes)
{
    struct columns *c = context;
    return file_begin(c, cells_cut(c, line, bytes));
}

/* Makes room for `bytes` more bytes. */
static status queue_grow(struct columns *c, size_t bytes)
{
    if (c->begin) memmove(c->queue, c->queue + c->begin, c->end - c->begin);
    c->end -= c->begin;
    c->begin = 0;
    if (c->end + bytes <= c->max) return ST_OK;
    size_t max = 2 * (c->end + bytes);
    TRY(heap_room(&c->queue, max, 1, "bytes of the data's columns"));
    c->max = max;
    return ST_OK;
}

static status queue_put(struct columns *c, struct column_text text)
{
    size_t bytes = sizeof text.bytes + text.bytes;
    if (c->end + bytes > c->max) TRY(queue_grow(c, bytes));
    memcpy(c->queue + c->end, &text.bytes, sizeof text.bytes);
    if (text.bytes) memcpy(c->queue + c->end + sizeof text.bytes, text.text, text.bytes);
    c->end += bytes;
    return ST_OK;
}

/* A wanted column's text in the line that was cut into `count` cells. */
static struct column_text text_of(const struct columns *c, uint32_t wanted, uint32_t count)
{
    uint32_t position = c->position[wanted];
    if (c->label_count && count == c->file_count - c->label_count) {
        if (c->is_label[position]) return (struct column_text){0};
        for (uint32_t i = c->position[wanted]; i-- > 0;) position -= c->is_label[i];
    }
    return position < count && position < COLUMNS_MAX ? c->cell[position] : (struct column_text){0};
}

static status example_take(void *context, const char *line, size_t bytes)
{
    struct columns *c = context;
    uint32_t count = 0;
    status st = ST_OK;
    if (line) count = is_of_features(c->format) ? features_cut(c, line, bytes) : cells_cut(c, line, bytes);
    pthread_mutex_lock(&c->lock);
    for (uint32_t w = 0; w < c->wanted.count && st == ST_OK; w++) st = queue_put(c, text_of(c, w, count));
    pthread_mutex_unlock(&c->lock);
    return st;
}

/* Takes an example's texts from the queue. Under the lock. */
static status next_take(struct columns *c, struct column_text *texts)
{
    size_t begin = c->begin, end = begin;
    for (uint32_t w = 0; w < c->wanted.count; w++) {
        CHECK(end < c->end); /* every example has had a line */
        memcpy(&texts[w].bytes, c->queue + end, sizeof texts[w].bytes);
        end += sizeof texts[w].bytes + texts[w].bytes;
    }
    if (end - begin > c->taken_max) {
        free(c->taken);
        c->taken_max = 2 * (end - begin);
        c->taken = malloc(c->taken_max);
        if (c->taken == NULL) FAIL(MEMORY, "no memory for %zu bytes of an example's columns", c->taken_max);
    }
    memcpy(c->taken, c->queue + begin, end - begin);
    c->begin = end;
    if (c->begin == c->end) c->begin = c->end = 0;
    const char *at = c->taken;
    for (uint32_t w = 0; w < c->wanted.count; w++) {
        texts[w].text = at + sizeof texts[w].bytes;
        at = texts[w].text + texts[w].bytes;
    }
    return ST_OK;
}

status columns_next(struct columns *c, struct column_text *texts)
{
    pthread_mutex_lock(&c->lock);
    status st = next_take(c, texts);
    pthread_mutex_unlock(&c->lock);
    return st;
}

void columns_marks_remove(struct columns *c, struct column_text *text)
{
    if (is_between_marks(c, *text)) text->bytes = marks_remove(*text, c->taken + (text->text - c->taken));
}

/* --- opening ---------------------------------------------------------------------------------- */

/* Finds the places of columns whose names do not come from the data. */
static status file_of_names(struct columns *c, const char *list)
{
    struct names all = {0};
    status st = column_names_each("data.columns", list, name_add, &all);
    for (uint32_t i = 0; i < all.count && i < COLUMNS_MAX; i++)
        c->cell[i] = (struct column_text){all.name[i], strlen(all.name[i])};
    if (st == ST_OK) st = file_begin(c, all.count);
    struct failure why;
    failure_keep(&why, st);
    names_free(&all);
    if (st != ST_INVALID) return failure_adopt(&why);
    FAIL(INVALID, "%s; expected some of %s", why.message, list);
}

/* The cell that a name stands for in a line of features, or NONE. */
static uint32_t feature_cell(enum reader_format format, const char *name)
{
    char *end;
    if (strcmp(name, "label") == 0) return CELL_LABEL;
    if (strcmp(name, "features") == 0) return CELL_FEATURES;
    if (format == READER_LIBSVM && strcmp(name, "qid") == 0) return CELL_GROUP;
    if (format != READER_LIBFM || name[0] != 'F' || name[1] < '1' || name[1] > '9') return NONE;
    const unsigned long number = strtoul(name + 1, &end, 10);
    return *end == 0 && number <= COLUMNS_MAX - CELL_FIRST ? CELL_FIRST - 1 + (uint32_t)number : NONE;
}

/* Finds the places of the wanted columns in lines of features. */
static status features_open(struct columns *c)
{
    for (uint32_t w = 0; w < c->wanted.count; w++) {
        c->position[w] = feature_cell(c->format, c->wanted.name[w]);
        if (c->position[w] == NONE)
            FAIL(INVALID, "%s: no column is called \"%s\"; expected some of label, features%s", c->giver,
                 c->wanted.name[w],
                 c->format == READER_LIBSVM  ? ", qid"
                 : c->format == READER_LIBFM ? ", F1, F2, … by the place in the line"
                                             : "");
    }
    return ST_OK;
}

bool columns_have_names(const struct setup *setup)
{
    const enum reader_format format = (enum reader_format)setup->settings.data_format;
    return format == READER_CSV || format == READER_CRITEO || is_of_features(format);
}

static status format_open(struct columns *c)
{
    const struct reader_schema *s = &c->setup->schema.reader;
    const enum reader_format format = c->format = (enum reader_format)c->setup->settings.data_format;
    if (!columns_have_names(c->setup))
        FAIL(INVALID,
             "columns of data have names in the formats csv, criteo, libsvm, libfm and libffm; this graph reads %s",
             cfg_data_formats[format]);
    if (is_of_features(format)) return features_open(c);
    c->separator = format == READER_CSV ? s->separator : '\t';
    c->has_quotes = format == READER_CSV && s->has_quotes;
    c->has_header = format == READER_CSV && s->has_header;
    if (c->has_header) return ST_OK;
    return file_of_names(c, format == READER_CSV ? s->columns : criteo_names);
}

status columns_open(struct columns **out, const struct setup *setup, const char *giver, const char *names)
{
    *out = NULL;
    struct columns *c = calloc(1, sizeof *c);
    if (c == NULL) FAIL(MEMORY, "no memory for the data's columns");
    c->setup = setup;
    c->giver = giver;
    c->listener = (struct reader_listener){c, header_take, example_take};
    pthread_mutex_init(&c->lock, NULL);
    status st;
    TRY_GOTO(column_names_each(giver, names, name_add, &c->wanted), failed);
    c->position = calloc(c->wanted.count + 1, sizeof *c->position);
    c->is_label = calloc(COLUMNS_MAX, sizeof *c->is_label);
    c->cell = calloc(COLUMNS_MAX, sizeof *c->cell);
    if (c->position == NULL || c->is_label == NULL || c->cell == NULL)
        st = status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for the data's columns");
    else
        st = format_open(c);
    if (st != ST_OK) goto failed;
    *out = c;
    return ST_OK;
failed:
    columns_close(c);
    return st;
}

void columns_close(struct columns *c)
{
    if (c == NULL) return;
    names_free(&c->wanted);
    pthread_mutex_destroy(&c->lock);
    free(c->position);
    free(c->is_label);
    free(c->cell);
    free(c->queue);
    free(c->taken);
    free(c);
}

const struct reader_listener *columns_listener(struct columns *c) { return &c->listener; }
uint32_t columns_count(const struct columns *c) { return c->wanted.count; }
const char *columns_name(const struct columns *c, uint32_t i) { return c->wanted.name[i]; }

status columns_text_put(const struct columns *c, struct column_text text, struct file_writer *writer)
{
    const bool is_plain = text.bytes == 0 || !memchr(text.text, '\t', text.bytes) || is_between_marks(c, text);
    if (is_plain) return file_writer_put(writer, text.text, text.bytes);
    TRY(file_writer_put(writer, "\"", 1));
    for (size_t at = 0, end; at < text.bytes; at = end) {
        for (end = at + 1; end < text.bytes && text.text[end - 1] != '"';) end++;
        TRY(file_writer_put(writer, text.text + at, end - at));
        if (text.text[end - 1] == '"') TRY(file_writer_put(writer, "\"", 1));
    }
    return file_writer_put(writer, "\"", 1);
}
