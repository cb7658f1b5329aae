/* Examples out of text, in the order of the files: bounded buffers, lines, the rules for bad lines, and,
 * where lines do not depend on each other, threads that parse them (io/read/parsers.h).
 *
 * The buffer holds the line that is being cut and the block behind it. The rest of a line is moved to the
 * front of the buffer, and the next block is read behind it:
 *
 *     | rest of a line | block …                              | free … | slack |
 *     begin            scan (no line end before it)           end
 *
 * Workload: 2^20 lines of 240 bytes a second; a refill every thousand lines. */
#ifndef HETERPS_IO_READ_READER_TEXT_H
#define HETERPS_IO_READ_READER_TEXT_H

#include "engine/base/paths.h"
#include "io/read/parsers.h"
#include "io/read/reader_internal.h"
#include "io/read/reader_stream.h"
#include "io/read/source.h"

struct reader_text {
    struct reader reader; /* its shape: before candidates are drawn */
    /* set at open */
    const struct reader_format_functions *format;
    void *format_state;
    bool bad_skip, bad_keep;
    bool few_are_cut;                       /* lists may lose a small part of their keys */
    bool lost_are_told;                     /* to the notices, when a pass is over, in place of an error */
    const struct notices *notices;          /* or NULL */
    const struct reader_listener *listener; /* or NULL */
    enum reader_part lines;
    uint64_t held_out;           /* a line is held out if its hash is below this */
    struct reader_example spare; /* takes an example that nobody wants */
    struct parsers *parsers;     /* NULL: this thread parses alone         */
    struct source source;
    /* marks, since open: written by the thread that reads */
    struct reader_mark *mark; /* [READER_MARKS_MAX], or NULL: none are kept */
    _Atomic uint32_t shared_mark_count;
    uint64_t mark_every_bytes;
    struct reader_stream stream;
    /* of the pass */
    uint64_t example_number;          /* examples that the pass has given */
    uint64_t file_bytes;              /* bytes of the current file's text that have come into the buffer */
    uint64_t pass_bytes;              /* the same of all files of the pass */
    uint64_t marked_bytes;            /* bytes of the pass before the last mark */
    struct reader_counts pass_counts; /* counts where the pass began */
    bool is_started, is_untouched;    /* is_untouched: nothing has been taken since the first path was opened */
    bool is_over;
    bool is_plain;  /* from the front on each line was parsed, and was an example with nothing to count */
    bool was_plain; /* since open: a whole pass was so, of plain_count examples */
    uint64_t plain_count;
    bool is_passing;    /* lines are cut and not parsed */
    bool has_passed;    /* some lines of the pass were not parsed */
    bool is_file_begin; /* the next block begins a file */
    bool is_cut;        /* no block follows: the end of the files, or a failure */
    struct failure cut;
    char shown[PATHS_SHOWN_BYTES]; /* reader.paths, where there are addresses */
    char *buffer;
    size_t begin, scan, end;
    bool is_discarding; /* the line that is being cut is too long, and its front has been dropped */
    bool is_told;       /* such a line has been told already */
    uint64_t line_number;
    struct reader_example parsed; /* the last example from a block */
    /* A line that has more examples; valid until the last of them. */
    const char *line;
    size_t line_bytes;
    bool line_has_more;
    /* since open, but for byte_count, which is the source's */
    struct reader_counts counts;
    /* of this pass */
    struct reader_lists {
        uint64_t key_count, lost_count; /* key_count includes lost keys */
        uint32_t longest;
        bool is_part; /* it was begun in its middle */
    } lists;
};

/* What reader_text_open takes from the arena, with files or without. `shape`: before candidates are drawn. */
size_t reader_text_bytes(const struct reader_options *options, struct example_shape shape);
/* Opens the first path and tries its first line with `spare`, an example with memory, which it keeps; of the
 * options it keeps what reader_open keeps. text->reader is the reader. With lists_words or texts there are no
 * files, and only the format is set up. reader_open's errors; after an error nothing is left open. */
MUST_USE status reader_text_open(struct reader_text *text, struct arena *arena, const struct reader_options *options,
                                 struct example_shape shape, const struct reader_example *spare);
/* Puts the next line that counts into `line` (NULL: it is too long); *over: there is no line. A pass uses
 * this or takes examples, never both. */
MUST_USE status reader_text_line(struct reader_text *text, bool *over);

/* --- marks (reader_marks.c) ------------------------------------------------------------------------ */

/* Keeps a mark before the next example, with the place that is given; fills in the mark's other members. */
void reader_text_mark(struct reader_text *text, const struct reader_mark *place);
/* Keeps a mark where a file begins; sooner, if there is no mark in its middle.
 * `ahead`: bytes read behind it. */
void reader_text_mark_file(struct reader_text *text, uint32_t path, bool is_plain, uint64_t ahead);
/* Keeps a mark, if one is due, where the next line of the buffer begins. Fails as reader_stream_line. */
MUST_USE status reader_text_mark_line(struct reader_text *text);
/* Keeps a mark where the block begins, before any of its examples is taken. */
void reader_text_mark_block(struct reader_text *text, struct parsers_block *block);
/* As reader_marks. */
const struct reader_mark *reader_text_marks(const struct reader *reader, uint32_t *count);
/* Keeps the given marks up to the one where the pass goes on. */
void reader_text_marks_take(struct reader_text *text, const struct reader_mark *mark, uint32_t count);

/* Bytes of empty lines at the end of a file or a text, behind a first one, that at most do not count. */
#define READER_EMPTY_LINES_BYTES 4096u
/* Makes an example empty. */
void reader_example_empty(struct example_shape shape, struct reader_example *example);

#endif
