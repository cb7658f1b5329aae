/* Texts that come one by one. A text gives the same examples as a file of the same bytes: the rules of lines
 * are those of reader_text.c. Each text has a last example, so that a server knows when the text is
 * answered. It is the one behind which nothing but empty lines are left or, where further lines turn out to
 * give no example, an empty extra one.
 *
 * Workload: a text of one line of 240 bytes, twenty thousand a second; or of thousands. */
#include "io/read/reader_texts.h"

#include "engine/base/file.h"

static struct texts_reader *texts_of(struct reader *reader) { return (struct texts_reader *)reader; }

static status texts_start(struct reader *reader, struct reader_pass pass)
{
    (void)reader;
    CHECK(pass.number == 0); /* a text is answered once */
    return ST_OK;
}

static bool text_begin(struct texts_reader *t)
{
    size_t bytes;
    if (!t->texts->next(t->texts->context, &t->at, &bytes)) return false;
    t->end = t->at + bytes;
    t->is_inside = true;
    t->line_has_more = false;
    t->line_number = 0;
    t->counts.byte_count += bytes;
    if (t->format->file_begin) t->format->file_begin(t->format_state);
    return true;
}

/* The length, without line end, of the line that begins at t->at, which is before the text's end. */
static size_t line_length(struct texts_reader *t)
{
    size_t left = (size_t)(t->end - t->at);
    if (t->format->line_find) return t->format->line_find(t->format_state, t->at, left);
    const char *stop = memchr(t->at, '\n', left);
    return stop ? (size_t)(stop - t->at) : left;
}

/* Whether the text has ended: nothing is left but, where they do not count, empty lines. */
static bool text_is_over(const struct texts_reader *t)
{
    size_t left = (size_t)(t->end - t->at);
    if (left == 0) return true;
    if (t->format->takes_empty) return false;
    const size_t first = *t->at == '\r' ? 2 : 1;
    return left <= first + READER_EMPTY_LINES_BYTES && reader_lines_are_empty(t->at, t->end);
}

/* Gives the text's first line to a format that has headers. Where that line is wrong, the text is over. */
static bool line_is_header(struct texts_reader *t)
{
    bool is_header = false;
    if (t->line_number != 1 || t->format->header == NULL) return false;
    if (t->format->header(t->format_state, t->line, t->line_bytes, &is_header) == ST_OK) return is_header;
    t->texts->bad(t->texts->context, 1, status_message(), true);
    t->at = t->end;
    return true;
}

/* Cuts the next line; t->line is NULL if it is too long. False: there is no line. */
static bool line_cut(struct texts_reader *t)
{
    size_t left = (size_t)(t->end - t->at);
    if (text_is_over(t)) { /* an empty first line does not count, but may have to name columns */
        t->line = left && t->line_number == 0 && t->end[-1] == '\n' ? t->at : NULL;
        t->line_bytes = 0;
        t->line_number++;
        if (t->line) (void)line_is_header(t);
        return false;
    }
    size_t bytes = line_length(t);
    t->line = bytes > READER_LINE_BYTES_MAX ? NULL : t->at;
    t->at += bytes + (bytes < left);
    if (t->line && bytes && t->line[bytes - 1] == '\r') bytes--;
    t->line_bytes = bytes;
    if (++t->line_number == 1 && t->line) file_mark_skip(&t->line, &t->line_bytes);
    t->counts.line_count++;
    return true;
}

static void example_give_empty(const struct texts_reader *t, struct reader_example *example)
{
    reader_example_empty(t->reader.shape, example);
    example->is_bad = true;
}

/* Whether the line, which is cut, gives an example. */
static bool line_example(struct texts_reader *t, struct reader_example *example)
{
    char why[READER_WHY_BYTES];
    example->is_bad = false;
    example->weight = 1;
    example->group = 0;
    example->cut_count = example->unknown_count = example->lost_count = example->list_longest = 0;
    enum reader_found found = reader_line_parse(t->format, t->format_state, t->line, t->line_bytes, example, why);
    t->line_has_more = found == FOUND_MORE;
    t->counts.cut_count += example->cut_count;
    t->counts.unknown_count += example->unknown_count;
    if (found == FOUND_NONE) return false;
    if (found != FOUND_BAD) return true;
    t->counts.bad_count++;
    t->texts->bad(t->texts->context, t->line_number, why, false);
    example_give_empty(t, example);
    return true;
}

static status texts_next(struct reader *reader, struct reader_example *place, const struct reader_example **found,
                         bool *over)
{
    struct texts_reader *t = texts_of(reader);
    CHECK(place != NULL); /* nobody skips here */
    *found = place;
    for (;;) {
        *over = !t->is_inside && !text_begin(t);
        if (*over) return ST_OK;
        bool has_line = t->line_has_more || line_cut(t);
        if (has_line && !t->line_has_more && line_is_header(t)) continue;
        if (has_line && !line_example(t, place)) continue;
        if (!has_line) example_give_empty(t, place);
        t->is_inside = has_line && (t->line_has_more || !text_is_over(t));
        t->texts->example(t->texts->context, !t->is_inside, !has_line);
        if (!place->is_bad || t->bad_keep) return ST_OK;
    }
}

/* A resumed training gives only texts after those that are done. */
static status texts_skip(struct reader *reader, uint64_t count, uint64_t *passed, bool *end)
{
    (void)reader;
    *passed = count;
    *end = false;
    return ST_OK;
}

static bool texts_is_dry(const struct reader *reader)
{
    const struct texts_reader *t = (const struct texts_reader *)reader;
    return !t->is_inside && t->texts->is_dry(t->texts->context);
}

static struct reader_counts texts_counts(const struct reader *reader)
{
    return ((const struct texts_reader *)reader)->counts;
}

static const struct reader_vt texts_vt = {
    .start = texts_start, .next = texts_next, .skip = texts_skip, .is_dry = texts_is_dry, .counts = texts_counts};

void texts_reader_open(struct texts_reader *t, const struct reader_text *text, const struct reader_texts *texts)
{
    *t = (struct texts_reader){.reader = text->reader,
                               .format = text->format,
                               .format_state = text->format_state,
                               .texts = texts,
                               .bad_keep = text->bad_keep};
    t->reader.vt = &texts_vt;
    t->reader.is_stream = t->reader.gives_early = true;
}
