/* Which stream is read: a hash of its text so far, that marks are given and that a resumed pass is compared by. Between
 * reader_text.c, whose text it is of, and reader_stream.c. */
#ifndef HETERPS_IO_READ_READER_STREAM_H
#define HETERPS_IO_READ_READER_STREAM_H

#include "io/read/reader.h"

struct reader_text;

struct reader_stream {
    void *hash; /* of the text before buffer[at]; NULL: it is none, or nobody wants marks */
    size_t at;  /* in the buffer */
    bool is_awaited;
    struct reader_mark awaited; /* that of the save: the text has to come by there */
};

/* MEMORY. Closed in any case. */
MUST_USE status reader_stream_open(struct reader_stream *stream);
void reader_stream_close(struct reader_stream *stream);
/* Before the bytes in front of `begin` leave the buffer, or are moved: those are hashed, and lie there no more. */
void reader_stream_leave(struct reader_text *text);
/* In front of the line that is cut next: keeps a mark, if one is due. INVALID: it is not the awaited stream. */
MUST_USE status reader_stream_line(struct reader_text *text);
/* The pass goes on behind `count` examples: the last of the marks up to there is awaited. */
void reader_stream_await(struct reader_stream *stream, uint64_t count, const struct reader_mark *mark,
                         uint32_t mark_count);

#endif
