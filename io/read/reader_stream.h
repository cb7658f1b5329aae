/* Which stream is read: a hash of its text so far. Marks keep the hash, and a resumed pass is compared by it.
 * Between reader_text.c, which has the text, and reader_stream.c. */
#ifndef HETERPS_IO_READ_READER_STREAM_H
#define HETERPS_IO_READ_READER_STREAM_H

#include "io/read/reader.h"

struct reader_text;

struct reader_stream {
    void *hash; /* of the text before buffer[at]; NULL: it is no stream, or nobody wants marks */
    size_t at;  /* in the buffer */
    bool is_awaited;
    struct reader_mark awaited; /* the save's mark: the hash is compared there */
};

/* MEMORY. Closed in any case. */
MUST_USE status reader_stream_open(struct reader_stream *stream);
void reader_stream_close(struct reader_stream *stream);
/* Before the bytes before `begin` leave the buffer, or are moved: hashes them; the text then
 * goes on at the buffer's front. */
void reader_stream_leave(struct reader_text *text);
/* Before the next line is cut: keeps a mark, if one is due. INVALID: it is not the awaited stream. */
MUST_USE status reader_stream_line(struct reader_text *text);
/* The pass goes on after `count` examples: the last mark up to there is awaited. */
void reader_stream_await(struct reader_stream *stream, uint64_t count, const struct reader_mark *mark,
                         uint32_t mark_count);

#endif
