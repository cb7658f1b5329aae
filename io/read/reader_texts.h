/* Examples out of texts that come one by one (struct reader_texts), by the format
 * that a reader_text has set up. */
#ifndef HETERPS_IO_READ_READER_TEXTS_H
#define HETERPS_IO_READ_READER_TEXTS_H

#include "io/read/reader_text.h"

struct texts_reader {
    struct reader reader;
    /* set at open */
    const struct reader_format_functions *format;
    void *format_state;
    const struct reader_texts *texts;
    bool bad_keep;
    /* of the text that is being read */
    bool is_inside;
    const char *at, *end;
    uint64_t line_number;
    /* A line that has more examples; valid until the last of them. */
    const char *line;
    size_t line_bytes;
    bool line_has_more;
    /* since open; byte_count: of texts that have come */
    struct reader_counts counts;
};

/* Takes format and shape of a reader_text that was opened without files, and keeps both;
 * there is nothing to close. */
void texts_reader_open(struct texts_reader *t, const struct reader_text *text, const struct reader_texts *texts);

#endif
