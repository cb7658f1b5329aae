/* A reader is a source of examples, as a table of functions: whoever takes examples need not
 * know where the examples come from.
 *
 *     reader                          gives                                                in
 *     text                            examples of files, in their order                    io/read/reader_text.c
 *     text kept in the data cache     the same, from the second pass on without the text   io/cache/cached_reader.c
 *     texts that come one by one      examples of each as of a file: for a server          io/read/reader_texts.c
 *     files                           examples of one of the three, mixed, with candidates io/read/reader_files.c
 *     replay                          micro-batches that lie in memory                     engine/slot/replay.c
 *
 *     path, .gz, .zst, -  ──source.c: bytes──▶ line ──criteo.c: parse──▶ one example ──shuffle.c──▶ micro_batch
 *
 * A format is one file (criteo.c, …). The code that all formats share opens sources one after another, cuts
 * lines out of bounded buffers and applies the rules for bad lines (reader_text.c).
 *
 * One thread uses a reader, which may have further threads parse for it (io/read/parsers.h).
 * All memory is taken at open. Starting, filling and skipping may wait for a pipe as long as
 * nobody writes to it, and nothing can wake such a wait: whoever has to end meanwhile leaves
 * the thread behind (engine/pipe/feed.h). */
#ifndef HETERPS_IO_READ_READER_H
#define HETERPS_IO_READ_READER_H

#include "engine/base/batch.h"
#include "engine/base/notices.h"

/* Of a line, without its line end; a longer line is malformed, whatever it holds. */
#define READER_LINE_BYTES_MAX ((size_t)1 << 20)

/* How many bytes behind the end of a text a parser may read; it ignores what they hold. */
#define READER_SLACK_BYTES 64

/* The order of cfg's data.format. */
enum reader_format {
    READER_CRITEO,
    READER_CSV,
    READER_LIBSVM,
    READER_LIBFFM,
    READER_LIBFM,
    READER_PAIRS,
    READER_TOKENS,
    READER_TREES,
    READER_FORMAT_COUNT
};
enum reader_sampler { READER_LOG_UNIFORM, READER_EMPIRICAL, READER_UNIFORM }; /* the order of graph's enum sampler */
#define READER_NONE UINT32_MAX

/* The words of a column, from the most frequent on. */
struct reader_vocabulary {
    uint32_t word_count;
    uint32_t unknown;        /* number of the word that stands for all other texts; NONE: such texts are absent */
    const char *const *text; /* [word_count]                                                           */
    const uint64_t *count;   /* [word_count]: how often each word has occurred                         */
};

/* A column of the data that an example takes: a field, a numeric column or a label. */
struct reader_column {
    const char *name;
    /* fields */
    uint64_t seed; /* of its keys                                                             */
    uint32_t ids_max;
    uint32_t vocabulary; /* fields and labels: index in the schema's, or NONE; such a label is the word's number */
    /* Candidates: the key of the column's text, then negative_count keys of words that are drawn for the
     * example; log probabilities of them all go to dense[log_q ..]. 0: an ordinary field. A drawn word that
     * is the target has READER_LOG_Q_HIT. */
    uint32_t negative_count, log_q;
    enum reader_sampler sampler;
    float sampler_power;
    /* labels: numbers of 0 to label_max, only whole ones with label_is_class; 0: any number */
    float label_max;
    bool label_is_class;
    bool label_is_of_nodes; /* trees: numbers of nodes other than the root are such labels, too */
    /* numeric columns: (x - mean) * scale, after the transform */
    float mean, scale;
};
#define READER_LOG_Q_HIT 1e30f
/* Set in the key of a target that is no word, where such a target is kept; the rest is its text's key. */
#define READER_UNKNOWN (UINT64_C(1) << 63)

/* A kind of nodes of trees, and what its nodes must have. */
struct reader_kind {
    const char *name;
    uint32_t children_min, children_max;
    bool needs_word, needs_number;
};

/* An example's shape and columns; from the graph (engine/data/schema.h). The reader keeps the pointers. */
struct reader_schema {
    struct example_shape example;
    const struct reader_column *dense; /* [dense_count]; NULL: the first columns of a format that numbers them   */
    const struct reader_column *field; /* [field_count]; likewise                                          */
    const struct reader_column *label; /* [label_count]; likewise                                          */
    const struct reader_vocabulary *vocabulary;
    uint32_t vocabulary_count;
    const char *weight, *group; /* names of columns, where the shape has them                       */
    bool ids_over_is_error;     /* a longer list is an error, else it is cut and counted                    */
    bool ids_over_is_few;       /* cut, and an error when more than 1 % of the keys are lost; in predict a notice */
    bool log1p;                 /* numeric columns: sign(x) log(1 + |x|), rounded from double                */
    bool missing_is_key;        /* an empty field gets the key of the empty text, else no key                */
    float missing_value;        /* an empty numeric column, after the transform                             */
    const char *label_map;      /* "yes=1, no=0, *=0", or ""                                           */
    /* csv */
    bool has_header, has_quotes;
    const char *columns; /* names, separated by commas, where there is no header                      */
    char separator, list_separator;
    const char *missing_text;       /* a text that means an absent value, as the empty one does, or "" */
    uint32_t window;                /* tokens */
    const struct reader_kind *kind; /* [kind_count]: trees */
    uint32_t kind_count;
};

/* Which lines of the data count, by a hash of each line's bytes. */
enum reader_part { READER_ALL, READER_TRAIN /* all but the held-out ones */, READER_HELD_OUT };

/* Somebody who wants the lines of examples: the thread that takes examples tells each line, in the order
 * in which the examples are given. */
struct reader_listener {
    void *context;
    /* A file's line of names. INVALID, with a sentence without place. */
    status (*header)(void *context, const char *line, size_t bytes);
    /* The line of each example; NULL: the line is too long. */
    status (*example)(void *context, const char *line, size_t bytes);
};

/* Texts that come one by one, in place of files. Each is read like a file of the same bytes: a
 * first line of names where the format has one, then lines, and no line behind the last line end.
 * Called by the thread that reads. */
struct reader_texts {
    void *context;
    /* Waits for the next text, which stays until its last example has been given, with READER_SLACK_BYTES
     * behind it. False: no text will come any more. */
    bool (*next)(void *context, const char **text, size_t *bytes);
    /* Asked when a text has ended and the micro-batch has examples: whether to hand it on now, without
     * waiting for another text. May wait. */
    bool (*is_dry)(void *context);
    /* Of each example, as it is given. is_last: it is the last of its text. is_extra: it is an empty one that
     * the text does not have, given because the text ended without another example to be its last. Without
     * bad_keep, examples of malformed lines and extra ones are told here and not given. */
    void (*example)(void *context, bool is_last, bool is_extra);
    /* A line is malformed, and `why` says the reason; its example is an empty one with is_bad. is_whole: no
     * line of this text is read, because its first line does not name the columns. */
    void (*bad)(void *context, uint64_t line, const char *why, bool is_whole);
};

struct source_share;
struct histories; /* io/read/histories.h */
struct reader_options {
    enum reader_format format;
    /* Separated by commas; "-" is standard input; a file that starts with the magic
     * of gzip or zstd is unpacked. */
    const char *paths;
    struct reader_schema schema;
    enum reader_part lines; /* with held_out: the part that is held out, 0 .. 1                             */
    float held_out;
    bool label_optional; /* predict: a line may lack the label column, or leave it empty; weight and group likewise */
    bool bad_skip;       /* skip and count malformed lines, else they are INVALID                      */
    /* Of streams, for a server: when nothing more comes for some milliseconds, the examples that are there
     * are given (reader_fill). The end of a micro-batch then depends on timing. */
    bool gives_early;
    /* pairs with a field `history`, else NULL: further keys of users' histories, beside those of the line
     * (kept until close); histories_alone: in place of those of the line. */
    const struct histories *histories;
    bool histories_alone;
    bool bad_keep;    /* with bad_skip: a bad line gives an empty example with is_bad set           */
    uint32_t shuffle; /* window; 0 or 1: file order                                                 */
    /* No files: examples that list all words of the vocabulary of `words_field`, a field of
     * candidates, by number; each holds as many words as the field does, and nothing else.
     * For ranking (engine/eval/rank.h). */
    bool lists_words;
    uint32_t words_field;
    /* An example whose target in `words_field` is no word stays, with READER_UNKNOWN in its
     * key, and with negatives; a label of that column is then 0. Else the example is left out
     * and counted. For ranking, too. */
    bool unknown_keep;
    /* NULL, or the texts to read in place of files; `paths` is for messages,
     * and malformed lines never fail. Kept. */
    const struct reader_texts *texts;
    /* or NULL. One thread then reads; for data in file order, without a cache */
    const struct reader_listener *listener;
    uint64_t seed;
    /* Threads that parse, the caller's included; 0 is 1, which starts none. Examples, messages and counts are
     * the same for any number; one thread reads streams, pairs, tokens, and csv whose files have headers. The
     * other threads are pinned to the processors, if there are any. */
    uint32_t readers;
    const int *processors; /* [processor_count], kept until close */
    uint32_t processor_count;
    bool io_threads;  /* files are read ahead by threads, not by io_uring                           */
    bool marks;       /* keeps marks of the text on the way: reader_marks                           */
    const char *part; /* memory part to count under, e.g. "reader"                                  */
    /* NULL, or: one node of several reads the files for all (io/read/source.h). Kept until close */
    struct source_share *share;
    const struct notices *notices;
    /* A name of isa_io_names (engine/base/isa.h), by which tests compare the sets; NULL: the best
     * here. Examples do not depend on it. */
    const char *isa;
};

/* --- the table ---------------------------------------------------------------------------------- */

struct reader;
struct reader_example;
struct text_kernels;

/* A pass over all data. */
struct reader_pass {
    uint64_t number; /* of the passes over this data: 0 is the first                                          */
    uint64_t epoch;  /* its random orders are drawn for this: the number, unless other data came before this data */
};

/* A place of the text where a line begins. A pass can go on from there without reading the text
 * before. It is the same in every pass. */
struct reader_mark {
    uint64_t example;                             /* of the text, in its order, that comes next                  */
    uint64_t byte, line;                          /* of the file: bytes and lines before it                      */
    uint64_t bad_count, cut_count, unknown_count; /* of the pass before it                                     */
    uint32_t path;                                /* of the list                                                */
    /* Of a stream: `byte` counts all its text, and xxh3 is the xxh3-64 of all text before the mark. A stream
     * is read from its beginning all the same. */
    bool is_hashed;
    uint64_t xxh3;
};
/* Marks that a reader keeps; in larger data they lie further apart. */
#define READER_MARKS_MAX 4096u

struct reader_vt {
    /* required */
    status (*start)(struct reader *reader, struct reader_pass pass);
    /* one of these two, or both */
    /* `place`: where the example is wanted, NULL: anywhere. *found is `place`, filled in, or an example
     * elsewhere that is valid until the next call, and read-only. */
    status (*next)(struct reader *reader, struct reader_example *place, const struct reader_example **found, bool *end);
    /* NULL: by next */
    status (*fill)(struct reader *reader, struct micro_batch *m, uint32_t limit, bool *end);
    /* optional; NULL means what the comment says */
    status (*skip)(struct reader *reader, uint64_t count, uint64_t *passed, bool *end); /* by next */
    /* *passed is 0: skipping is the fastest way */
    status (*seek)(struct reader *reader, uint64_t count, const struct reader_mark *mark, uint32_t mark_count,
                   uint64_t *passed);
    const struct reader_mark *(*marks)(const struct reader *reader, uint32_t *count); /* none */
    bool (*is_mixed)(const struct reader *reader); /* no pass is in an order of its own */
    bool (*is_dry)(const struct reader *reader);   /* with gives_early: no example is there, and none comes soon */
    struct reader_counts (*counts)(const struct reader *reader); /* all 0 */
    void (*close)(struct reader *reader);                        /* its owner closes it */
};

/* The first member of every reader. Set at open. */
struct reader {
    const struct reader_vt *vt;
    const char *paths;          /* for messages, without queries of addresses; whoever opened it keeps them */
    struct example_shape shape; /* of the examples */
    uint64_t size_bytes;        /* of all paths, or 0 if one is a stream: for progress */
    uint64_t example_estimate;  /* about how many a pass has; 0: unknown */
    bool is_stream;             /* some path is a stream (source.h): only one pass can be read */
    bool gives_early;           /* the option is set, and it is a stream */
    /* of readers that are filled by next */
    const struct text_kernels *kernels;
    uint32_t *key_end; /* [field_count]: of the example that is being read */
};

struct reader_counts {
    /* lines read (none of a cached pass), malformed, lists cut; since open */
    uint64_t line_count, bad_count, cut_count;
    uint64_t unknown_count; /* examples left out: their target or label is no word      */
    uint64_t byte_count;    /* bytes of the files as stored, since open                 */
    uint64_t held_bytes;    /* about how many of these bytes belong to examples that wait to be mixed */
};

/* Starts a pass over all data from the front (start the first one, 0, too). INVALID: the data is a
 * stream that is in no data cache, and the number is above 0 or a pass was started before. The order of
 * a mixed pass is a function of (seed, epoch, window, data). INVALID: a pass in an order of blocks, and
 * the data does not fit into the cache. */
MUST_USE status reader_pass_start(struct reader *reader, struct reader_pass pass);
/* Starts pass `epoch` of data before which there was no other data. */
MUST_USE status reader_start(struct reader *reader, uint64_t epoch);

/* Appends examples to m until it holds `limit` examples or the pass is over. With `limit` examples *end is
 * false, and nobody has looked whether another follows; at the end of the pass, and on every later call, *end
 * is true. A reader that gives early may return with fewer than `limit` examples, at least one, and no *end:
 * nothing more is there now; every other reader waits. Only example_count, key_count and arrays of m change.
 * INVALID: "FILE:LINE: column N (NAME): expected …, found …"; the examples before the bad line are in m, and
 * a further call goes on behind that line. A line longer than READER_LINE_BYTES_MAX is a bad line. */
MUST_USE status reader_fill(struct reader *reader, struct micro_batch *m, uint32_t limit, bool *end);

/* Drops the next `count` examples of the pass, or those that are left of it, and says how many in
 * *passed (NULL: nobody asks), and in *end as reader_fill: those that a resumed run has seen, or another
 * node computes. Where a whole pass since open has shown that each line is an example, with nothing to
 * count besides, no line is parsed. */
MUST_USE status reader_skip(struct reader *reader, uint64_t count, uint64_t *passed, bool *end);
/* At the beginning of a pass: drops as many of its first `count` examples as marks of this text allow without
 * reading them all, and says in *passed how many; reader_skip drops the rest. The examples and counts that
 * follow are the same. INVALID: the text is not the one of the marks. */
MUST_USE status reader_seek(struct reader *reader, uint64_t count, const struct reader_mark *mark, uint32_t mark_count,
                            uint64_t *passed);
/* [*count], ascending: marks of the text that has been read since open, and marks given to reader_seek. Any
 * thread, while another one reads. They stay until close. Packed files have marks at their beginnings only.
 * Marks of a stream tell whether it is the same stream; reading another one fails (INVALID). */
const struct reader_mark *reader_marks(const struct reader *reader, uint32_t *count);

struct reader_counts reader_counts(const struct reader *reader);

/* Whether the pass that was started last has an order of its own, so that nobody needs to mix it. */
static inline bool reader_is_mixed(const struct reader *reader)
{
    return reader->vt->is_mixed && reader->vt->is_mixed(reader);
}

/* NULL is ignored. */
void reader_close(struct reader *reader);

/* --- for readers themselves ---------------------------------------------------------------------- */

static inline status reader_next(struct reader *reader, struct reader_example *place,
                                 const struct reader_example **found, bool *end)
{
    return reader->vt->next(reader, place, found, end);
}
/* reader_fill by reader_next, one example after another. */
MUST_USE status reader_fill_by_next(struct reader *reader, struct micro_batch *m, uint32_t limit, bool *end);
/* reader_skip by reader_next; adds to *passed. */
MUST_USE status reader_skip_by_next(struct reader *reader, uint64_t count, uint64_t *passed, bool *end);
/* Copies an example to its place. */
void reader_example_copy(struct example_shape shape, struct reader_example *to, const struct reader_example *from);

/* --- files -------------------------------------------------------------------------------------- */

/* Opens and reads the first bytes of the first path, so that a wrong path or format shows at once.
 * Every path must be readable (checked here). Keeps `paths`, `notices` and what the schema points to.
 * *reader is yours: reader_close. */
MUST_USE status reader_open(struct reader **reader, const struct reader_options *options);

/* The text of a reader from reader_open: the reader takes its examples from it, then mixes
 * them and draws candidates. Before the first pass, you can put another reader that wraps the
 * text there; the reader closes it. */
struct reader **reader_files_from(struct reader *reader);

/* Whether these bytes are empty lines, the last of which may lack its end. */
bool reader_lines_are_empty(const char *at, const char *end);

/* xxh3-64 of a text's bytes, with its column's seed: the key of every reader. */
uint64_t reader_key(uint64_t seed, const char *text, size_t bytes);

/* Counts the words of a column of the data: calls `word` for each distinct text of it, in the order of first
 * occurrence, with the number of occurrences. Of the options, format, paths and the schema's way of reading
 * count; ids_max above 1 says that the column holds lists. `column` as VOCABULARY_KEY(column) says. INVALID:
 * more than READER_TEXTS_MAX texts, no such column, and reader_fill's errors. */
#define READER_TEXTS_MAX ((uint64_t)64 << 20)
MUST_USE status reader_words_count(const struct reader_options *options, const char *column, uint32_t ids_max,
                                   status (*word)(void *to, const char *text, size_t bytes, uint64_t count), void *to);

#endif
