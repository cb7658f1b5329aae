/* What all formats share: lines out of bounded buffers, the rules for bad lines, passes, and where examples go.
 *
 * The buffer holds the line that is being cut and the block behind it. A block is read behind what is left of the last
 * one, which is first moved to the front:
 *
 *     | rest of a line | block …                              | free … | slack |
 *     begin            scan (no line end before it)           end
 *
 * Workload: 2^20 lines of 240 bytes a second; a refill every thousand lines. */
#include "io/reader_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/log.h"
#include "io/candidates.h"
#include "io/data_cache.h"
#include "io/parsers.h"
#include "io/source.h"
#include "io/word_table.h"

/* Stays in the second-level cache between read(2) and the parser. */
#define BLOCK_BYTES  ((size_t)256 << 10)
#define BUFFER_BYTES (READER_LINE_BYTES_MAX + BLOCK_BYTES)

static const struct reader_format_functions *const reader_format_table[READER_FORMAT_COUNT] = {
    [READER_CRITEO] = &reader_criteo, [READER_CSV] = &reader_csv,     [READER_LIBSVM] = &reader_libsvm,
    [READER_LIBFFM] = &reader_libffm, [READER_LIBFM] = &reader_libfm, [READER_PAIRS] = &reader_pairs,
    [READER_TOKENS] = &reader_tokens,
};

struct reader {
    /* set at open */
    struct arena arena;
    const struct reader_format_functions *format;
    void *format_state;
    const struct text_kernels *kernels;
    struct example_shape shape;
    bool bad_skip, bad_keep, is_shuffled;
    uint64_t seed, example_estimate;
    struct reader_example spare;   /* where a dropped example goes; lends key_end to the others */
    struct candidates *candidates; /* NULL: no field has any                                    */
    bool lists_words;              /* and there are no files */
    uint32_t words_field;
    uint64_t list_count; /* examples of the list */
    enum reader_part lines;
    uint64_t held_out; /* lines whose hash is below are held out */
    /* of the pass */
    bool is_started, is_untouched; /* is_untouched: nothing has been taken since the first path was opened */
    bool is_over;                  /* the files are, that is; the shuffle window may hold more     */
    uint64_t example_number;       /* how many it has given                                         */
    struct shuffle shuffle;
    struct reader_example drawn; /* that the window has given last, or a block */
    struct parsers *parsers;     /* NULL: this thread parses alone         */
    bool is_file_begin;          /* the block that is cut next begins a file */
    bool is_cut;                 /* no block follows; of why, if that is an error: */
    status cut_status;
    char cut_message[4096];
    struct data_cache *cache; /* NULL: none */
    enum data_cache_pass cache_pass;
    struct reader_counts cached; /* what the cache has been told of: counts before the last example */
    uint64_t files_number;       /* how many examples the files, or the cache, have given */
    struct source source;
    char *buffer; /* [BUFFER_BYTES + READER_SLACK_BYTES] */
    size_t begin, scan, end;
    bool is_discarding; /* the line that is being cut is too long, and its front is gone already */
    uint64_t line_number;
    /* A line that has more examples; valid as long as it is not over. */
    const char *line;
    size_t line_bytes;
    bool line_has_more;
    /* since open */
    struct reader_counts counts;
};

uint64_t reader_key(uint64_t seed, const char *text, size_t bytes) { return reader_key_inline(seed, text, bytes); }

const char *reader_quote(char out[READER_QUOTE_BYTES], const char *text, size_t bytes)
{
    if (!bytes) return "nothing";
    static const char hex[] = "0123456789abcdef";
    size_t cut = bytes < 40 ? bytes : 40;
    char *at = out;
    *at++ = '"';
    for (size_t i = 0; i < cut; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c > 0x7e) {
            *at++ = '\\';
            *at++ = 'x';
            *at++ = hex[c >> 4];
            *at++ = hex[c & 15];
        } else {
            if (c == '"' || c == '\\') *at++ = '\\';
            *at++ = (char)c;
        }
    }
    if (cut < bytes) at = stpcpy(at, "...");
    strcpy(at, "\"");
    return out;
}

enum reader_found reader_bad(char *why, const char *format, ...)
{
    if (!why) return FOUND_BAD;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, READER_WHY_BYTES, format, arguments);
    va_end(arguments);
    return FOUND_BAD;
}

enum reader_found reader_bad_column(char *why, uint32_t column, const char *name, const char *expected,
                                    const char *text, size_t bytes)
{
    char quote[READER_QUOTE_BYTES];
    if (!why) return FOUND_BAD;
    return reader_bad(why, "column %u (%.60s): expected %s, found %s", column, name, expected,
                      reader_quote(quote, text, bytes));
}

/* --- lines ------------------------------------------------------------------------------------ */

/* Reads a block behind what the buffer holds, after moving that to the front. *bytes = 0 at the end of the file. */
static status buffer_refill(struct reader *reader, size_t *bytes)
{
    size_t left = reader->end - reader->begin;
    if (reader->begin && left) memmove(reader->buffer, reader->buffer + reader->begin, left);
    reader->scan -= reader->begin;
    reader->end = left;
    reader->begin = 0;
    CHECK(left <= READER_LINE_BYTES_MAX);
    TRY(source_read(&reader->source, reader->buffer + reader->end, BLOCK_BYTES, bytes));
    reader->end += *bytes;
    return ST_OK;
}

/* Goes on where the buffer holds no further line end: drops the front of a line that is too long, and reads a block. */
static status buffer_more(struct reader *reader, size_t *bytes)
{
    reader->scan = reader->end;
    if (reader->end - reader->begin > READER_LINE_BYTES_MAX) {
        reader->is_discarding = true;
        reader->begin = reader->scan = reader->end = 0;
    }
    return buffer_refill(reader, bytes);
}

/* At the end of a file: whether its last line, which may lack its end, is still to be cut. */
static bool line_is_left(const struct reader *reader) { return reader->begin < reader->end || reader->is_discarding; }

static void file_begin(struct reader *reader)
{
    if (reader->format->file_begin) reader->format->file_begin(reader->format_state);
}

/* The end of the line that is being cut, if the buffer holds it. Formats find columns on the way. */
static char *line_end(struct reader *reader)
{
    char *from = reader->buffer + reader->scan;
    size_t bytes = reader->end - reader->scan;
    if (bytes == 0) return NULL;
    if (!reader->format->line_find || reader->scan != reader->begin) return memchr(from, '\n', bytes);
    size_t line_bytes = reader->format->line_find(reader->format_state, from, bytes);
    return line_bytes < bytes ? from + line_bytes : NULL;
}

/* Cuts the next line, without its "\n" or "\r\n"; it is valid until the next call. *line is NULL for a line that is too
 * long. *over: there is none, the files have ended. */
static status line_next(struct reader *reader, const char **line, size_t *bytes, bool *over)
{
    *over = false;
    for (;;) {
        char *stop = line_end(reader);
        bool is_whole = stop != NULL;
        if (!is_whole) {
            size_t got;
            TRY(buffer_more(reader, &got));
            if (got) continue;
            if (!line_is_left(reader)) {
                TRY(source_next(&reader->source, over));
                if (*over) return ST_OK;
                reader->line_number = 0;
                file_begin(reader);
                continue;
            }
            stop = reader->buffer + reader->end;
        }
        *line = reader->buffer + reader->begin;
        *bytes = (size_t)(stop - *line);
        reader->begin = reader->scan = (size_t)(stop - reader->buffer) + is_whole;
        if (*bytes > READER_LINE_BYTES_MAX || reader->is_discarding)
            *line = NULL;
        else if (*bytes && (*line)[*bytes - 1] == '\r')
            --*bytes;
        reader->is_discarding = false;
        if (++reader->line_number == 1 && *line) reader_mark_skip(line, bytes);
        reader->counts.line_count++;
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

static status line_fail(const struct reader *reader, uint32_t path_index, uint64_t line_number, const char *why)
{
    FAIL(INVALID, "%s:%" PRIu64 ": %s", source_path_name(&reader->source, path_index), line_number, why);
}

/* --- examples, in the order of the files ------------------------------------------------------ */

static void example_empty(const struct reader *reader, struct reader_example *example)
{
    memset(example->label, 0, sizeof(float) * reader->shape.label_count);
    memset(example->dense, 0, sizeof(float) * reader->shape.dense_count);
    memset(example->key_end, 0, sizeof(uint32_t) * reader->shape.field_count);
}

/* A file's first line goes to formats that have headers. */
static status header_take(struct reader *reader, const char *line, size_t bytes, bool *is_header)
{
    *is_header = false;
    if (!reader->format->header || reader->format->header(reader->format_state, line, bytes, is_header) == ST_OK)
        return ST_OK;
    char why[4096];
    snprintf(why, sizeof why, "%s", status_message());
    return line_fail(reader, reader->source.path_index, 1, why);
}

/* The next line that counts; *over: there is none. */
static status line_take(struct reader *reader, bool *over)
{
    bool is_header;
    do {
        TRY(line_next(reader, &reader->line, &reader->line_bytes, over));
        is_header = false;
        if (!*over && reader->line_number == 1) TRY(header_take(reader, reader->line, reader->line_bytes, &is_header));
    } while (!*over &&
             (is_header || !reader_line_counts(reader->lines, reader->held_out, reader->line, reader->line_bytes)));
    return ST_OK;
}

static status file_example_next(struct reader *reader, struct reader_example *example, bool *over)
{
    char why[READER_WHY_BYTES];
    reader->is_untouched = false;
    *over = reader->is_over;
    while (!reader->is_over) {
        if (!reader->line_has_more) {
            TRY(line_take(reader, over));
            reader->is_over = *over;
            if (*over) break;
        }
        example->is_bad = false;
        example->weight = 1;
        example->group = 0;
        example->cut_count = example->unknown_count = 0;
        enum reader_found found = reader_line_parse(reader->format, reader->format_state, reader->line,
                                                    reader->line_bytes, example, reader->bad_skip ? NULL : why);
        reader->line_has_more = found == FOUND_MORE;
        reader->counts.cut_count += example->cut_count;
        reader->counts.unknown_count += example->unknown_count;
        if (found == FOUND_EXAMPLE || found == FOUND_MORE) return ST_OK;
        if (found == FOUND_NONE) continue;
        reader->counts.bad_count++;
        if (!reader->bad_skip) return line_fail(reader, reader->source.path_index, reader->line_number, why);
        if (reader->bad_keep) {
            example->is_bad = true;
            example_empty(reader, example);
            return ST_OK;
        }
    }
    return ST_OK;
}

/* --- the same, parsed by several threads ------------------------------------------------------- */

/* Fills a block with whole lines, by exchanging its memory for the reader's buffer; *over: the files have ended. */
static status block_fill(struct reader *reader, struct parsers_block *block, bool *over)
{
    size_t cut;
    *over = false;
    for (;;) {
        char *from = reader->buffer + reader->scan;
        const char *last = memrchr(from, '\n', reader->end - reader->scan);
        cut = last ? (size_t)(last - reader->buffer) + 1 : reader->end;
        if (last) break;
        size_t got;
        TRY(buffer_more(reader, &got));
        if (got) continue;
        cut = reader->end;
        if (line_is_left(reader)) break;
        TRY(source_next(&reader->source, over));
        if (*over) return ST_OK;
        reader->is_file_begin = true;
    }
    char *text = block->text;
    size_t rest = reader->end - cut;
    memcpy(text, reader->buffer + cut, rest);
    block->text = reader->buffer;
    block->begin = reader->begin;
    block->end = cut;
    block->is_file_begin = reader->is_file_begin;
    block->front_is_long = reader->is_discarding;
    block->path_index = reader->source.path_index;
    reader->buffer = text;
    reader->begin = 0;
    reader->scan = reader->end = rest;
    reader->is_file_begin = reader->is_discarding = false;
    return ST_OK;
}

/* Cuts blocks as long as there is room; what ends that comes after the blocks before it. */
static void blocks_fill(struct reader *reader)
{
    struct parsers_block *block;
    while (!reader->is_cut && (block = parsers_free(reader->parsers)) != NULL) {
        reader->cut_status = block_fill(reader, block, &reader->is_cut);
        if (reader->cut_status != ST_OK) {
            reader->is_cut = true;
            snprintf(reader->cut_message, sizeof reader->cut_message, "%s", status_message());
        }
        if (!reader->is_cut) parsers_push(reader->parsers);
    }
}

/* The oldest block with an entry that has not been taken. NULL: the files have ended. */
static struct parsers_block *block_next(struct reader *reader)
{
    for (;;) {
        struct parsers_block *block = parsers_oldest(reader->parsers);
        if (block && block->taken < block->entry_count) return block;
        if (block) {
            reader->counts.unknown_count += block->unknown_count;
            reader->counts.cut_count += block->cut_count;
            if (!block->is_finished) {
                parsers_more(reader->parsers);
                continue;
            }
            reader->counts.line_count += block->line_count - block->lines_taken;
            if (block->is_file_begin) reader->line_number = 0;
            reader->line_number += block->line_count;
            parsers_release(reader->parsers);
        }
        blocks_fill(reader);
        if (!parsers_oldest(reader->parsers)) return NULL;
    }
}

/* As file_example_next; *example points into the oldest block. */
static status block_example_next(struct reader *reader, struct reader_example *example, bool *over)
{
    reader->is_untouched = false;
    *over = reader->is_over;
    while (!reader->is_over) {
        struct parsers_block *block = block_next(reader);
        if (block == NULL) {
            if (reader->cut_status != ST_OK) return status_adopt(reader->cut_status, reader->cut_message);
            *over = reader->is_over = true;
            break;
        }
        uint32_t i = block->taken++;
        const struct parsers_entry *entry = &block->entry[i];
        reader->counts.line_count += entry->line - block->lines_taken;
        reader->counts.cut_count += entry->cut_count;
        reader->counts.unknown_count += entry->unknown_count;
        block->lines_taken = entry->line;
        parsers_example(reader->parsers, i, example);
        if (!entry->is_bad) return ST_OK;
        reader->counts.bad_count++;
        uint64_t lines_before = block->is_file_begin ? 0 : reader->line_number;
        if (!reader->bad_skip) return line_fail(reader, block->path_index, lines_before + entry->line, block->why);
        if (reader->bad_keep) {
            example->is_bad = true;
            example->weight = 1;
            example->group = 0;
            example_empty(reader, example);
            return ST_OK;
        }
    }
    return ST_OK;
}

/* The next of the examples that list words. */
static void list_example_next(struct reader *reader, struct reader_example *example, bool *over)
{
    *over = reader->example_number == reader->list_count;
    if (*over) return;
    example->is_bad = false;
    example->weight = 1;
    example->group = 0;
    example_empty(reader, example);
    candidates_list(reader->candidates, reader->words_field, reader->example_number, example);
}

/* Copies an example that lies elsewhere to where it belongs. */
static void example_copy(struct example_shape shape, struct reader_example *to, const struct reader_example *from)
{
    uint32_t key_count = shape.field_count ? from->key_end[shape.field_count - 1] : 0;
    memcpy(to->label, from->label, sizeof(float) * shape.label_count);
    memcpy(to->dense, from->dense, sizeof(float) * shape.dense_count);
    memcpy(to->key, from->key, sizeof(uint64_t) * key_count);
    if (to->value) memcpy(to->value, from->value, sizeof(float) * key_count);
    memcpy(to->key_end, from->key_end, sizeof(uint32_t) * shape.field_count);
    to->is_bad = from->is_bad;
    to->weight = from->weight;
    to->group = from->group;
}

/* --- the same, out of the data cache or on the way into it --------------------------------------------- */

/* The next example of the text. *found is `place`, filled in, or lies in a block until the next call. */
static status text_example_next(struct reader *reader, struct reader_example *place,
                                const struct reader_example **found, bool *over)
{
    *found = reader->parsers ? &reader->drawn : place;
    return reader->parsers ? block_example_next(reader, &reader->drawn, over) : file_example_next(reader, place, over);
}

/* Adds an example of the text to the cache, with what was counted since the one before; NULL: the text is over. */
static status cache_add(struct reader *reader, const struct reader_example *example)
{
    struct reader_counts *is = &reader->counts, *was = &reader->cached;
    struct block_counts since = {.bad = (uint32_t)(is->bad_count - was->bad_count),
                                 .cut = (uint32_t)(is->cut_count - was->cut_count),
                                 .unknown = (uint32_t)(is->unknown_count - was->unknown_count)};
    uint64_t text_bytes = reader->source.byte_count - was->byte_count;
    was->bad_count = is->bad_count;
    was->cut_count = is->cut_count;
    was->unknown_count = is->unknown_count;
    if (!example) reader->cache_pass = DATA_CACHE_RESTS;
    return example ? data_cache_add(reader->cache, example, since, text_bytes)
                   : data_cache_finish(reader->cache, since, text_bytes);
}

static void cache_counts_take(struct reader *reader)
{
    struct block_counts since = data_cache_counts(reader->cache);
    reader->counts.bad_count += since.bad;
    reader->counts.cut_count += since.cut;
    reader->counts.unknown_count += since.unknown;
}

static status text_start(struct reader *reader, uint64_t epoch);

/* A block is not what was written: goes on from the text, behind the examples that the pass has had. */
static status cache_leave(struct reader *reader, status failed)
{
    char message[2048];
    if (failed != ST_CORRUPT || reader->source.is_stream) return failed;
    snprintf(message, sizeof message, "%s", status_message());
    log_warning("%s; the pass goes on from the text", message);
    data_cache_drop(reader->cache);
    cache_counts_take(reader);
    reader->cache_pass = DATA_CACHE_RESTS;
    TRY(text_start(reader, UINT64_MAX));
    struct reader_counts counts = reader->counts;
    for (uint64_t left = reader->files_number; left; left--) {
        const struct reader_example *found;
        bool over;
        TRY(text_example_next(reader, &reader->spare, &found, &over));
    }
    reader->counts = counts;
    return ST_OK;
}

/* The next example in the order of the files; as text_example_next. */
static status order_example_next(struct reader *reader, struct reader_example *place,
                                 const struct reader_example **found, bool *over)
{
    if (reader->cache_pass == DATA_CACHE_READS) {
        status st = data_cache_next(reader->cache, &reader->drawn, over);
        if (st != ST_OK) TRY(cache_leave(reader, st));
        if (st == ST_OK) {
            cache_counts_take(reader);
            *found = &reader->drawn;
            reader->is_over = *over;
            reader->files_number += !*over;
            return ST_OK;
        }
    }
    TRY(text_example_next(reader, place, found, over));
    if (reader->cache_pass == DATA_CACHE_WRITES) TRY(cache_add(reader, *over ? NULL : *found));
    reader->files_number += !*over;
    return ST_OK;
}

/* Whether the cache's examples go straight into micro-batches. */
static bool cache_is_direct(const struct reader *reader)
{
    return reader->cache_pass == DATA_CACHE_READS && !reader->is_shuffled && !reader->candidates &&
           !reader->lists_words;
}

/* Whole runs of examples; *over: of the pass. */
static status cache_fill(struct reader *reader, struct micro_batch *m, uint32_t limit, bool *over)
{
    uint32_t before = m->example_count;
    status st = data_cache_fill(reader->cache, m, limit, reader->shape.dense_stride, over);
    reader->files_number += m->example_count - before;
    reader->example_number += m->example_count - before;
    cache_counts_take(reader);
    return st == ST_OK ? ST_OK : cache_leave(reader, st);
}

static status cache_skip(struct reader *reader, uint64_t count, bool *over)
{
    uint64_t before = data_cache_row(reader->cache);
    status st = data_cache_skip(reader->cache, count, over);
    uint64_t skipped = data_cache_row(reader->cache) - before;
    reader->files_number += skipped;
    reader->example_number += skipped;
    cache_counts_take(reader);
    return st == ST_OK ? ST_OK : cache_leave(reader, st);
}

/* --- examples, in the order of the pass ------------------------------------------------------- */

/* Fills a place of the window with the next example of the files. */
static status room_fill(struct reader *reader, struct reader_example *room, bool *over)
{
    const struct reader_example *found;
    TRY(order_example_next(reader, room, &found, over));
    if (!*over && found != room) example_copy(reader->shape, room, found);
    return ST_OK;
}

/* *found is `place`, filled in, or an example that lies in the window or in a block until the next call. */
static status pass_example_next(struct reader *reader, struct reader_example *place,
                                const struct reader_example **found, bool *over)
{
    *found = place;
    if (reader->lists_words) {
        list_example_next(reader, place, over);
        return ST_OK;
    }
    if (!reader->is_shuffled) return order_example_next(reader, place, found, over);
    struct reader_example room;
    while (!reader->is_over && shuffle_room(&reader->shuffle, &room)) {
        bool is_end;
        TRY(room_fill(reader, &room, &is_end));
        if (!is_end) shuffle_keep(&reader->shuffle, &room);
    }
    *over = !shuffle_draw(&reader->shuffle, &reader->drawn);
    *found = &reader->drawn;
    return ST_OK;
}

/* Takes the example, whose dense columns and keys lie in their places already, into the batch. */
static void micro_batch_append(const struct text_kernels *kernels, struct micro_batch *m, uint32_t field_count,
                               const struct reader_example *example)
{
    uint32_t home = m->example_count * field_count, key_base = m->key_count, position = key_base;
    m->key_begin[home] = key_base;
    bool is_done = kernels->homes &&
                   kernels->homes(m->key_begin + home, m->key_home, example->key_end, field_count, home, key_base);
    if (is_done && field_count) position += example->key_end[field_count - 1];
    for (uint32_t field = 0; !is_done && field < field_count; field++) {
        uint32_t stop = key_base + example->key_end[field];
        /* Most fields have one key; the home of none is overwritten by the next field's, for which there is room. */
        m->key_home[position] = home + field;
        for (position++; position < stop; position++) m->key_home[position] = home + field;
        position = stop;
        m->key_begin[home + field + 1] = stop;
    }
    if (m->weight) m->weight[m->example_count] = example->weight;
    if (m->group) m->group[m->example_count] = example->group;
    m->is_bad[m->example_count] = example->is_bad;
    m->key_count = position;
    m->example_count++;
}

status reader_fill(struct reader *reader, struct micro_batch *m, uint32_t limit, bool *end)
{
    CHECK(reader->is_started);
    struct example_shape shape = reader->shape;
    *end = false;
    while (m->example_count < limit) {
        if (cache_is_direct(reader)) {
            TRY(cache_fill(reader, m, limit, end));
            if (*end) return ST_OK;
            continue;
        }
        struct reader_example place = {.label = m->label + (size_t)m->example_count * shape.label_count,
                                       .dense = m->dense + (size_t)m->example_count * shape.dense_stride,
                                       .key = m->key + m->key_count,
                                       .value = m->value ? m->value + m->key_count : NULL,
                                       .key_end = reader->spare.key_end};
        const struct reader_example *found;
        TRY(pass_example_next(reader, &place, &found, end));
        if (*end) return ST_OK;
        if (found != &place) example_copy(shape, &place, found);
        if (reader->candidates && !reader->lists_words)
            candidates_draw(reader->candidates, reader->example_number, &place);
        reader->example_number++;
        micro_batch_append(reader->kernels, m, shape.field_count, &place);
    }
    return ST_OK;
}

status reader_skip(struct reader *reader, uint64_t count, bool *end)
{
    CHECK(reader->is_started);
    *end = false;
    while (count && !*end) {
        if (reader->cache_pass == DATA_CACHE_READS && !reader->is_shuffled) {
            uint64_t before = reader->example_number;
            TRY(cache_skip(reader, count, end));
            count -= reader->example_number - before;
            continue;
        }
        const struct reader_example *found;
        TRY(pass_example_next(reader, &reader->spare, &found, end));
        reader->example_number++;
        count--;
    }
    return ST_OK;
}

/* --- opening and passes ----------------------------------------------------------------------- */

static uint64_t lines_count(const char *text, size_t bytes)
{
    uint64_t count = 1;
    for (const char *at = text; (at = memchr(at, '\n', (size_t)(text + bytes - at))) != NULL; at++) count++;
    return count;
}

/* From what the first block holds and the stored bytes that it took. */
static uint64_t examples_estimate(const struct reader *reader)
{
    const struct source *source = &reader->source;
    uint64_t taken_bytes = source->byte_count - (source->raw_end - source->raw_begin);
    uint64_t count = (reader->format->examples ? reader->format->examples : lines_count)(reader->buffer, reader->end);
    double held_out = (double)reader->held_out * 0x1p-64;
    double part = reader->lines == READER_ALL ? 1 : reader->lines == READER_TRAIN ? 1 - held_out : held_out;
    return taken_bytes ? (uint64_t)((double)count / (double)taken_bytes * (double)source->size_bytes * part) + 1 : 0;
}

/* Reads the first block, and tries its first line if that is whole, so that a wrong file shows before anything long
 * begins. The line stays where it is. */
static status first_line_check(struct reader *reader)
{
    char why[READER_WHY_BYTES];
    size_t bytes;
    TRY(buffer_refill(reader, &bytes));
    const char *stop = bytes ? memchr(reader->buffer, '\n', reader->end) : NULL;
    if (!stop) return ST_OK;
    const char *line = reader->buffer;
    size_t line_bytes = (size_t)(stop - line);
    if (line_bytes && stop[-1] == '\r') line_bytes--;
    if (line_bytes > READER_LINE_BYTES_MAX)
        line = NULL;
    else
        reader_mark_skip(&line, &line_bytes);
    bool is_header;
    TRY(header_take(reader, line, line_bytes, &is_header));
    if (is_header || reader->bad_skip) return ST_OK;
    struct reader_example example = reader->spare;
    bool is_bad = reader_line_counts(reader->lines, reader->held_out, line, line_bytes) &&
                  reader_line_parse(reader->format, reader->format_state, line, line_bytes, &example, why) == FOUND_BAD;
    file_begin(reader); /* the line will come again */
    return is_bad ? line_fail(reader, reader->source.path_index, 1, why) : ST_OK;
}

static status files_open(struct reader *r, struct arena *arena, const struct reader_options *options)
{
    status st =
        source_open(&r->source, arena, options->paths, &(struct source_options){.io_threads = options->io_threads});
    if (st == ST_OK) st = first_line_check(r);
    if (st == ST_OK) r->example_estimate = examples_estimate(r);
    if (st != ST_OK) source_close(&r->source);
    return st;
}

static status list_open(struct reader *r, uint32_t field)
{
    r->lists_words = true;
    r->words_field = field;
    r->example_estimate = r->list_count = candidates_list_count(r->candidates, field);
    if (r->list_count == 0) FAIL(INVALID, "field %u has no candidates to list", field);
    return ST_OK;
}

/* An example before its candidates are drawn. */
static struct example_shape parsed_shape(const struct reader_schema *schema)
{
    struct example_shape shape = schema->example;
    for (uint32_t f = 0; schema->field && f < shape.field_count; f++)
        shape.key_count_max -= schema->field[f].negative_count;
    return shape;
}

/* How many threads parse. */
static uint32_t readers_of(const struct reader_options *o, const struct reader_format_functions *format)
{
    bool has_headers = format->header && o->schema.has_header;
    return o->lists_words || !format->lines_are_apart || has_headers || o->readers == 0 ? 1 : o->readers;
}

static void hash_text(XXH3_state_t *hash, const char *text)
{
    XXH3_64bits_update(hash, text ? text : "", text ? strlen(text) + 1 : 1);
}
static void hash_number(XXH3_state_t *hash, double number) { XXH3_64bits_update(hash, &number, sizeof number); }

static void hash_columns(XXH3_state_t *hash, const struct reader_column *column, uint32_t count)
{
    hash_number(hash, column ? count : -1.0);
    for (uint32_t i = 0; column && i < count; i++) {
        hash_text(hash, column[i].name);
        XXH3_64bits_update(hash, &column[i].seed, sizeof column[i].seed);
        hash_number(hash, column[i].ids_max);
        hash_number(hash, column[i].vocabulary);
        hash_number(hash, column[i].negative_count > 0);
        hash_number(hash, column[i].mean);
        hash_number(hash, column[i].scale);
    }
}

/* Of all that decides what a line becomes before anything is drawn: what the data cache is valid for. */
static uint64_t options_hash(const struct reader_options *o, struct example_shape shape)
{
    const struct reader_schema *s = &o->schema;
    XXH3_state_t hash;
    XXH3_INITSTATE(&hash);
    XXH3_64bits_reset(&hash);
    hash_text(&hash, HETERPS_VERSION);
    const double numbers[] = {o->format,
                              o->lines,
                              o->held_out,
                              o->label_optional,
                              o->bad_skip,
                              o->bad_keep,
                              s->ids_over_is_error,
                              s->log1p,
                              s->missing_is_key,
                              s->missing_value,
                              s->has_header,
                              s->has_quotes,
                              s->separator,
                              s->list_separator,
                              s->window,
                              shape.dense_count,
                              shape.field_count,
                              shape.key_count_max,
                              shape.label_count,
                              shape.has_weight,
                              shape.has_group,
                              shape.has_value,
                              s->vocabulary_count};
    XXH3_64bits_update(&hash, numbers, sizeof numbers);
    hash_columns(&hash, s->dense, shape.dense_count);
    hash_columns(&hash, s->field, shape.field_count);
    hash_columns(&hash, s->label, shape.label_count);
    const char *const texts[] = {s->weight, s->group, s->label_map, s->columns, s->missing_text};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) hash_text(&hash, texts[i]);
    for (uint32_t v = 0; v < s->vocabulary_count; v++) {
        hash_number(&hash, s->vocabulary[v].unknown);
        hash_number(&hash, s->vocabulary[v].word_count);
        for (uint32_t w = 0; w < s->vocabulary[v].word_count; w++) hash_text(&hash, s->vocabulary[v].text[w]);
    }
    return XXH3_64bits_digest(&hash);
}

static status cache_open(struct reader *r, const struct reader_options *options, struct example_shape parsed)
{
    if (options->lists_words || (options->cache.ram_bytes == 0 && options->cache.ssd_bytes == 0)) return ST_OK;
    return data_cache_open(&r->cache, &(struct data_cache_options){.budget = options->cache,
                                                                   .shape = parsed,
                                                                   .paths = options->paths,
                                                                   .is_stream = r->source.is_stream,
                                                                   .schema = options_hash(options, parsed),
                                                                   .isa = options->isa});
}

status reader_open(struct reader **reader, const struct reader_options *options)
{
    CHECK((unsigned)options->format < READER_FORMAT_COUNT);
    const struct reader_format_functions *format = reader_format_table[options->format];
    if (format == NULL) FAIL(INVALID, "no reader of format %d", (int)options->format);
    const struct text_kernels *kernels = text_kernels_of(options->isa);
    if (kernels == NULL) FAIL(INVALID, "no parsers for the instruction set %s here", options->isa);
    struct example_shape shape = options->schema.example;
    bool is_shuffled = options->shuffle > 1;
    struct example_shape parsed = parsed_shape(&options->schema);

    size_t bytes = arena_bytes(sizeof **reader);
    if (!options->lists_words) bytes += source_bytes(options->paths);
    bytes += arena_bytes(BUFFER_BYTES + READER_SLACK_BYTES);
    bytes += format->bytes(options);
    bytes += arena_bytes(sizeof(float) * shape.dense_count); /* the spare example */
    bytes += arena_bytes(sizeof(float) * shape.label_count);
    bytes += arena_bytes(sizeof(float) * shape.key_count_max);
    bytes += arena_bytes(sizeof(uint64_t) * shape.key_count_max); /* its keys          */
    bytes += arena_bytes(sizeof(uint32_t) * shape.field_count);   /* and their ends    */
    bytes += candidates_bytes(&options->schema);
    if (is_shuffled) bytes += shuffle_bytes(parsed, options->shuffle);
    struct parsers_options team = {.format = format,
                                   .reader = options,
                                   .shape = parsed,
                                   .count = readers_of(options, format),
                                   .text_bytes = BUFFER_BYTES + READER_SLACK_BYTES,
                                   .held_out = (uint64_t)((double)options->held_out * 0x1p64)};
    if (team.count > 1) bytes += parsers_bytes(&team);

    struct arena arena;
    TRY(arena_open(&arena, options->part, bytes));
    struct reader *r = arena_take(&arena, sizeof *r);
    r->format = format;
    r->kernels = kernels;
    r->shape = shape;
    r->bad_skip = options->bad_skip;
    r->bad_keep = options->bad_keep;
    r->is_shuffled = is_shuffled;
    r->seed = options->seed;
    r->lines = options->lines;
    r->held_out = team.held_out;
    r->spare.label = arena_take(&arena, sizeof(float) * shape.label_count);
    r->spare.value = arena_take(&arena, sizeof(float) * shape.key_count_max);
    r->spare.dense = arena_take(&arena, sizeof(float) * shape.dense_count);
    r->spare.key = arena_take(&arena, sizeof(uint64_t) * shape.key_count_max);
    r->spare.key_end = arena_take(&arena, sizeof(uint32_t) * shape.field_count);
    r->buffer = arena_take(&arena, BUFFER_BYTES + READER_SLACK_BYTES);
    if (is_shuffled) shuffle_place(&r->shuffle, &arena, parsed, options->shuffle);
    r->is_untouched = true;

    status st = format->place(&r->format_state, &arena, options);
    if (st == ST_OK) st = candidates_place(&r->candidates, &arena, &options->schema, options->seed);
    if (st == ST_OK) st = options->lists_words ? list_open(r, options->words_field) : files_open(r, &arena, options);
    if (st == ST_OK && team.count > 1 && !r->source.is_stream) {
        st = parsers_open(&r->parsers, &arena, &team);
        if (st != ST_OK) {
            parsers_close(r->parsers);
            source_close(&r->source);
        }
    }
    if (st == ST_OK) {
        st = cache_open(r, options, parsed);
        if (st != ST_OK) {
            parsers_close(r->parsers);
            source_close(&r->source);
        }
    }
    if (st != ST_OK) {
        arena_close(&arena);
        return st;
    }
    r->arena = arena;
    *reader = r;
    return ST_OK;
}

void reader_close(struct reader *reader)
{
    if (!reader) return;
    parsers_close(reader->parsers);
    data_cache_close(reader->cache);
    if (!reader->lists_words) source_close(&reader->source);
    struct arena arena = reader->arena; /* the reader itself lies in it */
    arena_close(&arena);
}

/* Goes to the front of the files. */
static status text_start(struct reader *reader, uint64_t epoch)
{
    if (reader->parsers) parsers_drain(reader->parsers);
    bool is_first = reader->is_untouched && (!reader->source.is_stream || (epoch == 0 && !reader->is_started));
    if (!is_first) {
        TRY(source_restart(&reader->source));
        reader->begin = reader->scan = reader->end = 0;
        reader->is_untouched = true;
    }
    reader->is_discarding = reader->is_over = reader->line_has_more = false;
    reader->line_number = 0;
    file_begin(reader);
    reader->is_file_begin = true;
    reader->is_cut = false;
    reader->cut_status = ST_OK;
    return ST_OK;
}

status reader_start(struct reader *reader, uint64_t epoch)
{
    reader->example_number = reader->files_number = 0;
    if (reader->lists_words) {
        reader->is_started = true;
        return ST_OK;
    }
    reader->cache_pass = DATA_CACHE_RESTS;
    if (reader->cache) TRY(data_cache_start(reader->cache, &reader->cache_pass));
    if (reader->cache_pass == DATA_CACHE_READS)
        reader->is_over = false;
    else
        TRY(text_start(reader, epoch));
    reader->cached = reader->counts;
    /* The first block, which is read at open, is of the first pass. */
    reader->cached.byte_count = reader->is_started ? reader->source.byte_count : 0;
    reader->is_started = true;
    if (reader->is_shuffled) shuffle_start(&reader->shuffle, reader->seed, epoch);
    if (reader->candidates) candidates_start(reader->candidates, epoch);
    return ST_OK;
}

struct reader_counts reader_counts(const struct reader *reader)
{
    struct reader_counts counts = reader->counts;
    counts.byte_count = reader->source.byte_count;
    if (reader->cache) counts.byte_count += data_cache_text_bytes(reader->cache);
    return counts;
}

uint64_t reader_size_bytes(const struct reader *reader) { return reader->source.size_bytes; }

bool reader_is_stream(const struct reader *reader) { return reader->source.is_stream; }

uint64_t reader_example_estimate(const struct reader *reader) { return reader->example_estimate; }

/* --- words ------------------------------------------------------------------------------------ */

static status word_count_one(void *to, const char *text, size_t bytes)
{
    return word_table_add(to, text, bytes, READER_TEXTS_MAX);
}

/* Counts what is left of the pass. */
static status words_count(struct reader *reader, struct word_table *table)
{
    for (;;) {
        bool over;
        TRY(line_take(reader, &over));
        if (over) return ST_OK;
        const char *line = reader->line;
        if (line && (reader->line_bytes || reader->format->takes_empty))
            TRY(reader->format->words(reader->format_state, line, reader->line_bytes, word_count_one, table));
    }
}

status reader_words_count(const struct reader_options *options, const char *column, uint32_t ids_max,
                          status (*word)(void *to, const char *text, size_t bytes, uint64_t count), void *to)
{
    const struct reader_column field = {.name = column, .ids_max = ids_max, .vocabulary = READER_NONE};
    struct reader_options alone = *options;
    alone.readers = 1;
    uint32_t key_count_max = ids_max > options->schema.window ? ids_max : options->schema.window;
    alone.schema.example = (struct example_shape){.field_count = 1, .key_count_max = key_count_max};
    alone.schema.field = &field;
    alone.schema.vocabulary_count = 0;
    struct reader *reader;
    struct word_table table = {0};
    TRY(reader_open(&reader, &alone));
    status st = ST_OK;
    if (!reader->format->words)
        st = status_fail(ST_INVALID, __FILE__, __LINE__, "the %s format has no words to count", reader->format->name);
    if (st == ST_OK) st = reader_start(reader, 0);
    if (st == ST_OK) st = words_count(reader, &table);
    reader_close(reader);
    for (uint64_t i = 0; st == ST_OK && i < table.entry_count; i++)
        st = word(to, table.text + table.entry[i].text_begin, table.entry[i].text_bytes, table.entry[i].count);
    word_table_free(&table);
    return st;
}
