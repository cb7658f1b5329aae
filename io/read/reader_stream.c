/* A hash of every byte of a stream: some 10 GB/s, once. */
#include "io/read/reader_stream.h"

#include <inttypes.h>
#include <xxhash.h>

#include "io/read/reader_text.h"

/* Least distance of marks; from a MiB on marks are apart by a part of the text before them. So there are
 * enough for any stream: some 180 each time that it has doubled. */
#define MARK_BYTES_MIN ((uint64_t)4 << 10)
#define MARK_PART      256u

status reader_stream_open(struct reader_stream *s)
{
    s->hash = XXH3_createState();
    if (s->hash == NULL) FAIL(MEMORY, "no memory for the hash of a stream");
    CHECK(XXH3_64bits_reset(s->hash) == XXH_OK);
    return ST_OK;
}

void reader_stream_close(struct reader_stream *s)
{
    XXH3_freeState(s->hash);
    s->hash = NULL;
}

static void text_hash(struct reader_text *text)
{
    struct reader_stream *s = &text->stream;
    CHECK(XXH3_64bits_update(s->hash, text->buffer + s->at, text->begin - s->at) == XXH_OK);
    s->at = text->begin;
}

void reader_stream_leave(struct reader_text *text)
{
    if (text->stream.hash == NULL) return;
    text_hash(text);
    text->stream.at = 0;
}

void reader_stream_await(struct reader_stream *s, uint64_t count, const struct reader_mark *mark, uint32_t mark_count)
{
    for (uint32_t i = 0; i < mark_count && mark[i].example <= count; i++) {
        if (!mark[i].is_hashed) continue;
        s->is_awaited = s->hash != NULL;
        s->awaited = mark[i];
    }
}

/* Where the line begins. */
static uint64_t byte_of(const struct reader_text *text) { return text->pass_bytes - (text->end - text->begin); }

static status awaited_compare(struct reader_text *text)
{
    struct reader_stream *s = &text->stream;
    const struct reader_mark *m = &s->awaited;
    if (byte_of(text) < m->byte && text->example_number <= m->example) return ST_OK;
    text_hash(text);
    s->is_awaited = false;
    if (byte_of(text) == m->byte && text->example_number == m->example && XXH3_64bits_digest(s->hash) == m->xxh3)
        return ST_OK;
    FAIL(INVALID,
         "%s: it is not the stream in which the save's training has stopped: the first %" PRIu64
         " bytes differ; to go on with the pass of the save, give its stream from the beginning; "
         "to train the model on other data, in a new pass and with all its state, give --continue in place of --resume",
         source_name(&text->source), m->byte);
}

status reader_stream_line(struct reader_text *text)
{
    const uint64_t byte = byte_of(text), part = text->marked_bytes / MARK_PART;
    if (text->stream.is_awaited) TRY(awaited_compare(text));
    if (byte < text->marked_bytes + (part > MARK_BYTES_MIN ? part : MARK_BYTES_MIN)) return ST_OK;
    text_hash(text);
    reader_text_mark(
        text, &(struct reader_mark){.byte = byte, .is_hashed = true, .xxh3 = XXH3_64bits_digest(text->stream.hash)});
    text->marked_bytes = byte;
    return ST_OK;
}
