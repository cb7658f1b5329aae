/* Examples out of text, in the order of the files: bounded buffers, lines, the rules for bad lines, and, where
 * lines do not depend on each other, threads that parse them (io/read/parsers.h).
 *
 * The buffer holds the line that is being cut and the block behind it. A block is read behind what is left of the last
 * one, which is first moved to the front:
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
    const struct reader_listener *listener; /* or NULL */
    enum reader_part lines;
    uint64_t held_out;           /* lines whose hash is below are held out */
    struct reader_example spare; /* where an example goes that nobody wants */
    struct parsers *parsers;     /* NULL: this thread parses alone         */
    struct source source;
    /* marks, since open: written by the thread that reads */
    struct reader_mark *mark; /* [READER_MARKS_MAX], or NULL: none are kept */
    _Atomic uint32_t shared_mark_count;
    uint64_t mark_every_bytes;
    struct reader_stream stream;
    /* of the pass */
    uint64_t example_number;          /* examples that it has given */
    uint64_t file_bytes;              /* of the current file's text that have come into the buffer */
    uint64_t pass_bytes;              /* the same of all files */
    uint64_t marked_bytes;            /* of these before the last mark */
    struct reader_counts pass_counts; /* counts where the pass began */
    bool is_started, is_untouched;    /* is_untouched: nothing has been taken since the first path was opened */
    bool is_over;
    bool is_file_begin; /* the block that is cut next begins a file */
    bool is_cut;        /* no block follows: the end, or a failure */
    struct failure cut;
    char shown[PATHS_SHOWN_BYTES]; /* reader.paths, where there are addresses */
    char *buffer;
    size_t begin, scan, end;
    bool is_discarding; /* the line that is being cut is too long, and its front is gone already */
    bool is_told;       /* and that it is has been told */
    uint64_t line_number;
    struct reader_example parsed; /* that a block has given last */
    /* A line that has more examples; valid as long as it is not over. */
    const char *line;
    size_t line_bytes;
    bool line_has_more;
    /* since open, but for byte_count, which is the source's */
    struct reader_counts counts;
    struct reader_lists {
        uint64_t key_count, lost_count; /* lost ones included */
        uint32_t longest;
    } lists;
};

/* What reader_text_open takes from the arena, of files or of none. `shape`: before candidates are drawn. */
size_t reader_text_bytes(const struct reader_options *options, struct example_shape shape);
/* Opens the first path and tries its first line with `spare`, where an example has room, and which it keeps, as
 * reader_open what it keeps of the options. text->reader is the reader. With lists_words or texts there are no
 * files, and only the format is set up. reader_open's errors; after one nothing is left open. */
MUST_USE status reader_text_open(struct reader_text *text, struct arena *arena, const struct reader_options *options,
                                 struct example_shape shape, const struct reader_example *spare);
/* The next line that counts, in `line` (NULL: it is too long); *over: there is none. In place of examples,
 * never both in a pass. */
MUST_USE status reader_text_line(struct reader_text *text, bool *over);

/* Keeps a mark in front of the example that comes next, of this place; what else a mark has is filled in. */
void reader_text_mark(struct reader_text *text, const struct reader_mark *place);

/* An example of nothing. */
void reader_example_empty(struct example_shape shape, struct reader_example *example);

#endif
