/* Text into examples. */
#include "io/read/reader_text.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/file.h"
#include "io/read/reader_lists.h"

/* A block stays in the second-level cache between read(2) and the parser. */
#define BLOCK_BYTES  ((size_t)256 << 10)
#define BUFFER_BYTES (READER_LINE_BYTES_MAX + BLOCK_BYTES)
/* Least distance of marks: bytes that are parsed in half a millisecond. */
#define MARK_BYTES_MIN ((uint64_t)512 << 10)
/* Longer than a writer of lines takes between two of them. */
#define DRY_MS 2

static const struct reader_format_functions *const reader_format_table[READER_FORMAT_COUNT] = {
    [READER_CRITEO] = &reader_criteo, [READER_CSV] = &reader_csv,     [READER_LIBSVM] = &reader_libsvm,
    [READER_LIBFFM] = &reader_libffm, [READER_LIBFM] = &reader_libfm, [READER_PAIRS] = &reader_pairs,
    [READER_TOKENS] = &reader_tokens, [READER_TREES] = &reader_trees,
};

uint64_t reader_key(uint64_t seed, const char *text, size_t bytes) { return reader_key_inline(seed, text, bytes); }

/* --- lines ------------------------------------------------------------------------------------ */

/* Moves the rest in the buffer to the front, and reads a block behind it. *bytes = 0 at the file's end. */
static status buffer_refill(struct reader_text *text, size_t *bytes)
{
    size_t left = text->end - text->begin;
    reader_stream_leave(text);
    if (text->begin && left) memmove(text->buffer, text->buffer + text->begin, left);
    text->scan -= text->begin;
    text->end = left;
    text->begin = 0;
    CHECK(left <= READER_LINE_BYTES_MAX);
    TRY(source_read(&text->source, text->buffer + text->end, BLOCK_BYTES, bytes));
    text->end += *bytes;
    text->file_bytes += *bytes;
    text->pass_bytes += *bytes;
    return ST_OK;
}

static status text_file_next(struct reader_text *text, bool *over)
{
    text->file_bytes = 0;
    return source_next(&text->source, over);
}

/* Where the buffer holds no further line end: drops the front of too long a line, and reads a block. */
static status buffer_more(struct reader_text *text, size_t *bytes)
{
    text->scan = text->end;
    if (text->end - text->begin > READER_LINE_BYTES_MAX) {
        text->is_discarding = true;
        text->begin = text->end;
        reader_stream_leave(text);
        text->begin = text->scan = text->end = 0;
    }
    return buffer_refill(text, bytes);
}

/* At the end of a file: whether its last line, which may lack its line end, is still to be cut. */
static bool line_is_left(const struct reader_text *text) { return text->begin < text->end || text->is_discarding; }

static void file_begin(struct reader_text *text)
{
    if (text->format->file_begin) text->format->file_begin(text->format_state);
}

/* The end of the line that is being cut, if the buffer holds it. Formats find columns on the way. */
static char *line_end(struct reader_text *text)
{
    char *from = text->buffer + text->scan;
    size_t bytes = text->end - text->scan;
    if (bytes == 0) return NULL;
    if (!text->format->line_find || text->is_passing || text->scan != text->begin) return memchr(from, '\n', bytes);
    size_t line_bytes = text->format->line_find(text->format_state, from, bytes);
    return line_bytes < bytes ? from + line_bytes : NULL;
}

bool reader_lines_are_empty(const char *at, const char *end)
{
    while (at < end) {
        if (*at == '\r' && ++at == end) break;
        if (*at++ != '\n') return false;
    }
    return true;
}

/* Behind an empty line: whether nothing but empty ones is left of the file, which then are passed. */
static status file_look_over(struct reader_text *text, bool *is_over)
{
    size_t got = 1;
    for (*is_over = true; *is_over && got > 0;) {
        const size_t left = text->end - text->begin;
        *is_over = left <= READER_EMPTY_LINES_BYTES &&
                   reader_lines_are_empty(text->buffer + text->begin, text->buffer + text->end);
        if (*is_over) TRY(buffer_more(text, &got));
    }
    if (*is_over) text->begin = text->end;
    text->scan = text->begin;
    return ST_OK;
}

/* Cuts the next line, without its "\n" or "\r\n"; it is valid until the next call. *line is NULL for a line
 * too long; where that ends the run it is told before its end is found, which may never come. Empty lines at
 * the end of a file do not count, where empty lines have no meaning. *over: the files have ended. */
static status line_next(struct reader_text *text, const char **line, size_t *bytes, bool *over)
{
    *over = false;
    for (;;) {
        char *stop = line_end(text);
        bool is_whole = stop != NULL;
        if (!is_whole) {
            size_t got;
            TRY(buffer_more(text, &got));
            if (got && text->is_discarding && !text->is_told && !text->bad_skip) {
                text->is_told = true;
                text->line_number++;
                text->counts.line_count++;
                *line = NULL;
                return ST_OK;
            }
            if (got) continue;
            if (!line_is_left(text)) {
                TRY(text_file_next(text, over));
                if (*over) return ST_OK;
                text->line_number = 0;
                file_begin(text);
                reader_text_mark_file(text, text->source.path_index, source_is_plain(&text->source), 0);
                continue;
            }
            stop = text->buffer + text->end;
        }
        *line = text->buffer + text->begin;
        *bytes = (size_t)(stop - *line);
        text->begin = text->scan = (size_t)(stop - text->buffer) + is_whole;
        if (*bytes > READER_LINE_BYTES_MAX || text->is_discarding)
            *line = NULL;
        else if (*bytes && (*line)[*bytes - 1] == '\r')
            --*bytes;
        text->is_discarding = false;
        bool is_rest = text->is_told;
        text->is_told = false;
        if (is_rest) continue;
        if (*line && *bytes == 0 && !text->format->takes_empty) {
            bool is_last;
            TRY(file_look_over(text, &is_last));
            if (is_last) continue;
            *line = text->buffer + text->begin;
        }
        if (++text->line_number == 1 && *line) file_mark_skip(line, bytes);
        text->counts.line_count++;
        return ST_OK;
    }
}

enum reader_found reader_line_parse(const struct reader_format_functions *format, void *state, const char *line,
                                    size_t bytes, struct reader_example *example, char *why)
{
    if (line && (bytes || format->takes_empty)) return format->parse(state, line, bytes, example, why);
    if (why && line)
        snprintf(why, READER_WHY_BYTES, "the line is empty");
    else if (why)
        snprintf(why, READER_WHY_BYTES, "the line is longer than %zu bytes", READER_LINE_BYTES_MAX);
    return FOUND_BAD;
}

static status line_fail(const struct reader_text *text, uint32_t path_index, uint64_t line_number, const char *why)
{
    FAIL(INVALID, "%s:%" PRIu64 ": %s", source_path_name(&text->source, path_index), line_number, why);
}

/* The begin of the empty lines at the buffer's end, which may be the file's last
 * and not count; else that end. */
static size_t empty_line_begin(const struct reader_text *text)
{
    const char *first = text->buffer + text->begin, *end = text->buffer + text->end, *begin = end;
    for (const char *at = end; at > first || at == end; begin = at) {
        if (at > first && at[-1] == '\n') at--;
        if (at > first && at[-1] == '\r') at--;
        const bool is_empty = at > first ? at[-1] == '\n' : !text->is_discarding;
        if (!is_empty || (size_t)(end - begin) > READER_EMPTY_LINES_BYTES) break;
        if (at == end) return text->end;
    }
    return (size_t)(begin - text->buffer);
}

/* --- examples, in the order of the files ------------------------------------------------------ */

void reader_example_empty(struct example_shape shape, struct reader_example *example)
{
    example->is_bad = false;
    example->weight = 1;
    example->group = 0; /* the bad line may have set them */
    memset(example->label, 0, sizeof(float) * shape.label_count);
    memset(example->dense, 0, sizeof(float) * shape.dense_count);
    memset(example->key_end, 0, sizeof(uint32_t) * shape.field_count);
}

/* A file's first line goes to formats that have headers. */
static status header_take(struct reader_text *text, const char *line, size_t bytes, bool *is_header)
{
    *is_header = false;
    status st = text->format->header ? text->format->header(text->format_state, line, bytes, is_header) : ST_OK;
    if (st == ST_OK && *is_header && text->listener) st = text->listener->header(text->listener->context, line, bytes);
    return st == ST_OK ? ST_OK : line_fail(text, text->source.path_index, 1, status_message());
}

/* The next line that counts; *over: there is none. */
status reader_text_line(struct reader_text *text, bool *over)
{
    bool is_header;
    do {
        TRY(line_next(text, &text->line, &text->line_bytes, over));
        is_header = false;
        if (!*over && text->line_number == 1) TRY(header_take(text, text->line, text->line_bytes, &is_header));
    } while (!*over && (is_header || !reader_line_counts(text->lines, text->held_out, text->line, text->line_bytes)));
    return ST_OK;
}

/* A line is not what it was in the pass before, and nobody knows how many such lines were passed over. */
static status passed_fail(const struct reader_text *text)
{
    FAIL(MISMATCH,
         "%s:%" PRIu64 ": the line is not the one example that it was in the pass before: "
         "the data has changed while it was read; start anew",
         source_path_name(&text->source, text->source.path_index), text->line_number);
}

static status file_example_next(struct reader_text *text, struct reader_example *example, bool *over)
{
    char why[READER_WHY_BYTES];
    text->is_untouched = false;
    *over = text->is_over;
    while (!text->is_over) {
        if (!text->line_has_more) {
            TRY(reader_text_mark_line(text));
            TRY(reader_text_line(text, over));
            text->is_over = *over;
            if (*over) break;
        }
        example->is_bad = false;
        example->weight = 1;
        example->group = 0;
        example->cut_count = example->unknown_count = example->lost_count = example->list_longest = 0;
        enum reader_found found = reader_line_parse(text->format, text->format_state, text->line, text->line_bytes,
                                                    example, text->bad_skip ? NULL : why);
        text->line_has_more = found == FOUND_MORE;
        text->counts.cut_count += example->cut_count;
        text->counts.unknown_count += example->unknown_count;
        const bool is_plain = found == FOUND_EXAMPLE && example->cut_count == 0 && example->unknown_count == 0;
        text->is_plain &= is_plain;
        if (found != FOUND_BAD && !is_plain && text->has_passed) return passed_fail(text);
        if (found == FOUND_EXAMPLE || found == FOUND_MORE) return ST_OK;
        if (found == FOUND_NONE) continue;
        text->counts.bad_count++;
        if (!text->bad_skip) return line_fail(text, text->source.path_index, text->line_number, why);
        if (text->bad_keep) {
            reader_example_empty(text->reader.shape, example);
            example->is_bad = true;
            return ST_OK;
        }
    }
    return ST_OK;
}

/* --- the same, parsed by several threads ------------------------------------------------------- */

/* Fills a block with whole lines, by exchanging its memory with the reader's buffer;
 * *over: the files have ended. */
static status block_fill(struct reader_text *text, struct parsers_block *block, bool *over)
{
    size_t cut;
    *over = false;
    for (;;) {
        char *from = text->buffer + text->scan;
        const char *last = memrchr(from, '\n', text->end - text->scan);
        cut = last ? (size_t)(last - text->buffer) + 1 : text->end;
        const bool is_tail = cut == text->end || (cut + 1 == text->end && text->buffer[cut] == '\r');
        if (last && is_tail) cut = empty_line_begin(text);
        if (last && cut > text->begin) break;
        size_t got;
        TRY(buffer_more(text, &got));
        if (got) continue;
        if (text->begin < text->end && empty_line_begin(text) == text->begin) text->begin = text->scan = text->end;
        cut = text->end;
        if (line_is_left(text)) break;
        TRY(text_file_next(text, over));
        if (*over) return ST_OK;
        text->is_file_begin = true;
    }
    block->byte = text->file_bytes - (text->end - text->begin);
    block->pass_bytes = text->pass_bytes - (text->end - text->begin);
    block->is_plain = source_is_plain(&text->source);
    char *free = block->text;
    size_t rest = text->end - cut;
    memcpy(free, text->buffer + cut, rest);
    block->text = text->buffer;
    block->begin = text->begin;
    block->end = cut;
    block->is_file_begin = text->is_file_begin;
    block->front_is_long = block->front_was_long = text->is_discarding;
    block->path_index = text->source.path_index;
    text->buffer = free;
    text->begin = 0;
    text->scan = text->end = rest;
    text->is_file_begin = text->is_discarding = false;
    return ST_OK;
}

/* Cuts blocks as long as there is room; the end of the files, or a failure,
 * comes after the blocks before it. */
static void blocks_fill(struct reader_text *text)
{
    struct parsers_block *block;
    while (!text->is_cut && (block = parsers_free(text->parsers)) != NULL) {
        failure_keep(&text->cut, block_fill(text, block, &text->is_cut));
        if (failure_is(&text->cut)) text->is_cut = true;
        if (!text->is_cut) parsers_push(text->parsers);
    }
}

/* The oldest block with an entry that has not been taken. NULL: the files have ended. */
static struct parsers_block *block_next(struct reader_text *text)
{
    for (;;) {
        struct parsers_block *block = parsers_oldest(text->parsers);
        if (block) reader_text_mark_block(text, block);
        if (block && block->taken < block->entry_count) return block;
        if (block) {
            text->counts.unknown_count += block->unknown_count;
            text->counts.cut_count += block->cut_count;
            if (!block->is_finished) {
                parsers_more(text->parsers);
                continue;
            }
            text->counts.line_count += block->line_count - block->lines_taken;
            if (block->is_file_begin) text->line_number = 0;
            text->line_number += block->line_count;
            parsers_release(text->parsers);
        }
        blocks_fill(text);
        if (!parsers_oldest(text->parsers)) return NULL;
    }
}

/* As file_example_next; *example points into the oldest block. */
static status block_example_next(struct reader_text *text, struct reader_example *example, bool *over)
{
    text->is_untouched = false;
    *over = text->is_over;
    while (!text->is_over) {
        struct parsers_block *block = block_next(text);
        if (block == NULL) {
            TRY(failure_adopt(&text->cut));
            *over = text->is_over = true;
            break;
        }
        uint32_t i = block->taken++;
        const struct parsers_entry *entry = &block->entry[i];
        text->counts.line_count += entry->line - block->lines_taken;
        text->counts.cut_count += entry->cut_count;
        text->counts.unknown_count += entry->unknown_count;
        block->lines_taken = entry->line;
        parsers_example(text->parsers, i, example);
        example->lost_count = entry->lost_count;
        example->list_longest = entry->list_longest;
        if (!entry->is_bad) return ST_OK;
        text->counts.bad_count++;
        uint64_t lines_before = block->is_file_begin ? 0 : text->line_number;
        if (!text->bad_skip) return line_fail(text, block->path_index, lines_before + entry->line, block->why);
        if (text->bad_keep) {
            reader_example_empty(text->reader.shape, example);
            example->is_bad = true;
            return ST_OK;
        }
    }
    return ST_OK;
}

/* At the end of a pass some of whose lines were not parsed: it has as many examples as the whole one. */
static status passed_end(const struct reader_text *text)
{
    if (!text->has_passed || text->example_number == text->plain_count) return ST_OK;
    FAIL(MISMATCH,
         "%s:%" PRIu64 ": the data ends after %" PRIu64 " examples, and had %" PRIu64
         " in the pass before: the data has changed while it was read; start anew",
         source_path_name(&text->source, text->source.path_index), text->line_number, text->example_number,
         text->plain_count);
}

/* Where each line of a whole pass was an example lines are cut, and not parsed; a malformed line would have
 * ended the run. By one thread alone: others parse blocks before anybody knows whose examples they hold. */
static status lines_pass(struct reader_text *text, uint64_t count, uint64_t *passed, bool *over)
{
    status st = ST_OK;
    text->is_untouched = text->is_plain = false;
    text->has_passed = text->is_passing = true;
    *over = text->is_over;
    while (st == ST_OK && *passed < count && !*over) {
        st = reader_text_mark_line(text);
        if (st == ST_OK) st = reader_text_line(text, over);
        text->is_over = *over;
        *passed += st == ST_OK && !*over;
        text->example_number += st == ST_OK && !*over;
        if (st == ST_OK && *over) st = passed_end(text);
    }
    text->is_passing = false;
    return st;
}

static struct reader_text *text_of(struct reader *reader) { return (struct reader_text *)reader; }

static status text_next(struct reader *reader, struct reader_example *place, const struct reader_example **found,
                        bool *over)
{
    struct reader_text *text = text_of(reader);
    if (place == NULL) place = &text->spare;
    *found = text->parsers ? &text->parsed : place;
    TRY(text->parsers ? block_example_next(text, &text->parsed, over) : file_example_next(text, place, over));
    text->example_number += !*over;
    if (*over && text->is_plain) {
        text->was_plain = true;
        text->plain_count = text->example_number;
    }
    if (*over) TRY(passed_end(text));
    if (text->few_are_cut) TRY(reader_lists_count(text, *over ? NULL : *found));
    if (*over || text->listener == NULL) return ST_OK;
    return text->listener->example(text->listener->context, text->line, text->line_bytes);
}

static status text_skip(struct reader *reader, uint64_t count, uint64_t *passed, bool *over)
{
    struct reader_text *text = text_of(reader);
    if (text->was_plain) return lines_pass(text, count, passed, over);
    return reader_skip_by_next(reader, count, passed, over);
}

/* Whether no whole line is there, and none comes soon.
 * Empty lines alone may be the last, which do not count. */
static bool text_is_dry(const struct reader *reader)
{
    const struct reader_text *text = (const struct reader_text *)reader;
    size_t left = text->end - text->scan;
    bool has_line = left && memchr(text->buffer + text->scan, '\n', left) && empty_line_begin(text) > text->begin;
    return !text->line_has_more && !text->is_over && !has_line && source_is_dry(&text->source, DRY_MS);
}

static struct reader_counts text_counts(const struct reader *reader)
{
    const struct reader_text *text = (const struct reader_text *)reader;
    struct reader_counts counts = text->counts;
    counts.byte_count = text->source.byte_count;
    return counts;
}

/* --- opening ---------------------------------------------------------------------------------- */

static uint64_t lines_count(const char *text, size_t bytes)
{
    uint64_t count = 1;
    for (const char *at = text; (at = memchr(at, '\n', (size_t)(text + bytes - at))) != NULL; at++) count++;
    return count;
}

/* From the examples in the first block, and the stored bytes that it took. */
static uint64_t examples_estimate(const struct reader_text *text)
{
    const struct source *source = &text->source;
    uint64_t taken_bytes = source->byte_count - (source->raw_end - source->raw_begin);
    uint64_t count = (text->format->examples ? text->format->examples : lines_count)(text->buffer, text->end);
    double held_out = (double)text->held_out * 0x1p-64;
    double part = text->lines == READER_ALL ? 1 : text->lines == READER_TRAIN ? 1 - held_out : held_out;
    return taken_bytes ? (uint64_t)((double)count / (double)taken_bytes * (double)source->size_bytes * part) + 1 : 0;
}

/* Reads until the first line is whole, of a stream one block, and tries the line, so that a wrong file shows
 * before long work begins. The line stays in the buffer. */
static status first_line_check(struct reader_text *text, const struct reader_example *spare)
{
    char why[READER_WHY_BYTES];
    size_t bytes;
    const char *stop = NULL;
    do {
        TRY(buffer_refill(text, &bytes));
        stop = bytes ? memchr(text->buffer, '\n', text->end) : NULL;
    } while (!stop && bytes && !text->source.is_stream && text->end <= READER_LINE_BYTES_MAX);
    if (!stop) return ST_OK;
    const char *line = text->buffer;
    size_t line_bytes = (size_t)(stop - line);
    if (line_bytes && stop[-1] == '\r') line_bytes--;
    if (line_bytes > READER_LINE_BYTES_MAX)
        line = NULL;
    else
        file_mark_skip(&line, &line_bytes);
    bool is_header;
    TRY(header_take(text, line, line_bytes, &is_header));
    const bool may_be_none = line_bytes == 0 && reader_lines_are_empty(stop, text->buffer + text->end);
    if (is_header || may_be_none || text->bad_skip) return ST_OK;
    struct reader_example example = *spare;
    bool is_bad = reader_line_counts(text->lines, text->held_out, line, line_bytes) &&
                  reader_line_parse(text->format, text->format_state, line, line_bytes, &example, why) == FOUND_BAD;
    file_begin(text); /* the line will come again */
    return is_bad ? line_fail(text, text->source.path_index, 1, why) : ST_OK;
}

/* How many threads parse. */
static uint32_t readers_of(const struct reader_options *o, const struct reader_format_functions *format)
{
    bool has_headers = format->header && o->schema.has_header;
    bool is_alone = o->lists_words || o->listener || !format->lines_are_apart || has_headers || o->readers == 0;
    return is_alone ? 1 : o->readers;
}

static struct parsers_options team_of(const struct reader_options *options,
                                      const struct reader_format_functions *format, struct example_shape shape)
{
    return (struct parsers_options){.format = format,
                                    .reader = options,
                                    .shape = shape,
                                    .count = readers_of(options, format),
                                    .text_bytes = BUFFER_BYTES + READER_SLACK_BYTES,
                                    .held_out = (uint64_t)((double)options->held_out * 0x1p64)};
}

size_t reader_text_bytes(const struct reader_options *options, struct example_shape shape)
{
    const struct reader_format_functions *format = reader_format_table[options->format];
    struct parsers_options team = team_of(options, format, shape);
    size_t bytes = format->bytes(options);
    if (options->lists_words || options->texts) return bytes;
    bytes += source_bytes(options->paths, options->share) + arena_bytes(BUFFER_BYTES + READER_SLACK_BYTES);
    if (options->marks) bytes += arena_bytes(READER_MARKS_MAX * sizeof(struct reader_mark));
    return team.count > 1 ? bytes + parsers_bytes(&team) : bytes;
}

static status files_open(struct reader_text *text, struct arena *arena, const struct reader_options *options,
                         const struct reader_example *spare)
{
    struct parsers_options team = team_of(options, text->format, text->reader.shape);
    text->buffer = arena_take(arena, BUFFER_BYTES + READER_SLACK_BYTES);
    if (options->marks) text->mark = arena_take(arena, READER_MARKS_MAX * sizeof *text->mark);
    TRY(source_open(&text->source, arena, options->paths,
                    &(struct source_options){
                        .io_threads = options->io_threads, .notices = options->notices, .share = options->share}));
    text->reader.size_bytes = text->source.size_bytes;
    text->mark_every_bytes = text->source.size_bytes / (READER_MARKS_MAX / 2);
    if (text->mark_every_bytes < MARK_BYTES_MIN) text->mark_every_bytes = MARK_BYTES_MIN;
    text->reader.is_stream = text->source.is_stream;
    text->reader.gives_early = text->source.is_stream && options->gives_early;
    if (options->marks && text->source.is_stream) TRY(reader_stream_open(&text->stream));
    TRY(first_line_check(text, spare));
    text->reader.example_estimate = examples_estimate(text);
    if (team.count > 1 && !text->source.is_stream) TRY(parsers_open(&text->parsers, arena, &team));
    return ST_OK;
}

/* Goes to the front of the files. */
static status text_start(struct reader *reader, struct reader_pass pass)
{
    struct reader_text *text = text_of(reader);
    if (text->parsers) parsers_drain(text->parsers);
    bool is_first = text->is_untouched && (!text->source.is_stream || (pass.number == 0 && !text->is_started));
    if (!is_first) {
        TRY(source_restart(&text->source));
        text->begin = text->scan = text->end = 0;
        text->file_bytes = text->pass_bytes = 0;
        text->is_untouched = true;
    }
    text->is_discarding = text->is_told = text->is_over = text->line_has_more = false;
    text->line_number = text->example_number = text->marked_bytes = 0;
    text->pass_counts = text->counts;
    text->lists = (struct reader_lists){0};
    text->is_plain =
        text->format->lines_are_apart && text->parsers == NULL && text->listener == NULL && !text->bad_skip;
    text->has_passed = false;
    file_begin(text);
    text->is_file_begin = true;
    text->is_cut = false;
    text->cut.code = ST_OK;
    text->is_started = true;
    return ST_OK;
}

/* Goes to a byte of a path, with an empty buffer. */
static status place_seek(struct reader_text *text, uint32_t path, uint64_t byte)
{
    TRY(source_seek(&text->source, path, byte));
    text->begin = text->scan = text->end = 0;
    text->file_bytes = byte;
    text->line_number = 0;
    return ST_OK;
}

/* Before a file is read from its middle, formats that have headers get its first line. */
static status header_seek(struct reader_text *text, uint32_t path)
{
    const char *line = NULL;
    size_t bytes = 0;
    bool over, is_header;
    if (text->format->header == NULL) return ST_OK;
    TRY(place_seek(text, path, 0));
    TRY(line_next(text, &line, &bytes, &over));
    text->counts.line_count -= !over;
    return over ? ST_OK : header_take(text, line, bytes, &is_header);
}

static status text_seek(struct reader *reader, uint64_t count, const struct reader_mark *mark, uint32_t mark_count,
                        uint64_t *passed)
{
    struct reader_text *text = text_of(reader);
    CHECK(text->example_number == 0);
    uint32_t n = 0;
    while (n < mark_count && n < READER_MARKS_MAX && mark[n].example <= count) n++;
    reader_stream_await(&text->stream, count, mark, mark_count);
    if (n == 0 || text->source.is_stream || mark[n - 1].is_hashed) return ST_OK;
    const struct reader_mark *to = &mark[n - 1];
    if (to->path >= text->source.path_count || to->byte > text->source.path[to->path].size_bytes)
        FAIL(INVALID, "%s: it has no byte %" PRIu64 " of file %u, where the pass is to go on", text->reader.paths,
             to->byte, to->path + 1);
    file_begin(text);
    if (to->byte) TRY(header_seek(text, to->path));
    TRY(place_seek(text, to->path, to->byte));
    text->is_untouched = text->is_plain = false;
    text->line_number = to->line;
    text->is_file_begin = to->byte == 0;
    text->example_number = *passed = to->example;
    text->pass_bytes = text->marked_bytes = to->byte;
    for (uint32_t i = 0; i < to->path; i++) text->pass_bytes = text->marked_bytes += text->source.path[i].size_bytes;
    text->counts.bad_count += to->bad_count;
    text->counts.cut_count += to->cut_count;
    text->counts.unknown_count += to->unknown_count;
    text->lists.is_part = to->example > 0;
    reader_text_marks_take(text, mark, n);
    return ST_OK;
}

static void text_close(struct reader *reader)
{
    struct reader_text *text = text_of(reader);
    parsers_close(text->parsers);
    source_close(&text->source);
    reader_stream_close(&text->stream);
}

static const struct reader_vt text_vt = {.start = text_start,
                                         .next = text_next,
                                         .skip = text_skip,
                                         .seek = text_seek,
                                         .marks = reader_text_marks,
                                         .is_dry = text_is_dry,
                                         .counts = text_counts,
                                         .close = text_close};

status reader_text_open(struct reader_text *text, struct arena *arena, const struct reader_options *options,
                        struct example_shape shape, const struct reader_example *spare)
{
    const struct reader_format_functions *format = reader_format_table[options->format];
    *text = (struct reader_text){.reader = {.vt = &text_vt,
                                            .paths = options->paths,
                                            .shape = shape,
                                            .kernels = text_kernels_of(options->isa),
                                            .key_end = spare->key_end},
                                 .spare = *spare,
                                 .format = format,
                                 .bad_skip = options->bad_skip,
                                 .bad_keep = options->bad_keep,
                                 .listener = options->listener,
                                 .lines = options->lines,
                                 .held_out = team_of(options, format, shape).held_out,
                                 .few_are_cut = options->schema.ids_over_is_few,
                                 .lost_are_told = options->label_optional,
                                 .notices = options->notices,
                                 .is_untouched = true,
                                 .source.fd = -1};
    text->reader.paths = paths_shown(text->shown, options->paths);
    TRY(format->place(&text->format_state, arena, options));
    if (options->lists_words || options->texts) return ST_OK;
    status st = files_open(text, arena, options, spare);
    if (st != ST_OK) text_close(&text->reader);
    return st;
}
