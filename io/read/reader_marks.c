/* Marks of a text: where a later pass, or a run that is resumed, can go on (reader_marks). */
#include <stdatomic.h>
#include <string.h>

#include "io/read/reader_text.h"

/* Whether a mark is due `ahead` bytes before the end of the bytes read. */
static bool mark_is_due(const struct reader_text *text, uint64_t ahead)
{
    return text->mark != NULL && text->pass_bytes - ahead >= text->marked_bytes + text->mark_every_bytes;
}

void reader_text_mark(struct reader_text *text, const struct reader_mark *place)
{
    /* Relaxed: this thread's own. */
    uint32_t count = atomic_load_explicit(&text->shared_mark_count, memory_order_relaxed);
    if (count == READER_MARKS_MAX || (count && text->example_number <= text->mark[count - 1].example)) return;
    text->mark[count] = *place;
    text->mark[count].example = text->example_number;
    text->mark[count].bad_count = text->counts.bad_count - text->pass_counts.bad_count;
    text->mark[count].cut_count = text->counts.cut_count - text->pass_counts.cut_count;
    text->mark[count].unknown_count = text->counts.unknown_count - text->pass_counts.unknown_count;
    /* Release pairs with the acquire in reader_text_marks(). */
    atomic_store_explicit(&text->shared_mark_count, count + 1, memory_order_release);
}

/* Keeps a mark where the next line begins, `ahead` bytes before the end of the bytes read. */
static void mark_keep(struct reader_text *text, uint32_t path, uint64_t byte, uint64_t line, uint64_t ahead)
{
    text->marked_bytes = text->pass_bytes - ahead;
    reader_text_mark(text, &(struct reader_mark){.byte = byte, .line = line, .path = path});
}

void reader_text_mark_file(struct reader_text *text, uint32_t path, bool is_plain, uint64_t ahead)
{
    bool is_wanted = text->mark && !is_plain && text->source.path[path].size_bytes >= text->mark_every_bytes / 2;
    if (text->stream.hash == NULL && (is_wanted || mark_is_due(text, ahead))) mark_keep(text, path, 0, 0, ahead);
}

status reader_text_mark_line(struct reader_text *text)
{
    uint64_t ahead = text->end - text->begin;
    if (text->stream.hash) return reader_stream_line(text);
    bool is_inside = text->is_discarding || text->is_told || text->format->keeps_context;
    if (mark_is_due(text, ahead) && !is_inside && source_is_plain(&text->source))
        mark_keep(text, text->source.path_index, text->file_bytes - ahead, text->line_number, ahead);
    return ST_OK;
}

const struct reader_mark *reader_text_marks(const struct reader *reader, uint32_t *count)
{
    const struct reader_text *text = (const struct reader_text *)reader;
    /* Acquire pairs with the release in reader_text_mark() and reader_text_marks_take(): the
     * marks come before their number. */
    *count = atomic_load_explicit(&text->shared_mark_count, memory_order_acquire);
    return text->mark;
}

void reader_text_mark_block(struct reader_text *text, struct parsers_block *block)
{
    uint64_t ahead = text->pass_bytes - block->pass_bytes;
    bool is_seen = block->is_seen;
    block->is_seen = true;
    if (is_seen || block->front_was_long) return;
    if (block->is_file_begin)
        reader_text_mark_file(text, block->path_index, block->is_plain, ahead);
    else if (block->is_plain && mark_is_due(text, ahead))
        mark_keep(text, block->path_index, block->byte, text->line_number, ahead);
}

void reader_text_marks_take(struct reader_text *text, const struct reader_mark *mark, uint32_t count)
{
    if (text->mark == NULL || atomic_load_explicit(&text->shared_mark_count, memory_order_relaxed)) return;
    memcpy(text->mark, mark, count * sizeof *mark);
    /* Release pairs with the acquire in reader_text_marks(). */
    atomic_store_explicit(&text->shared_mark_count, count, memory_order_release);
}
