/* The benchmark of `heterps-run bench`. Each subject, a file here, measures this program on one part of the
 * machine and the most that the part can do (limits.h), alternately, in one run.
 *
 *     cmd/verb_bench.c ──▶ bench_run ──▶ checks ──▶ machine line ──▶ subjects ──▶ bench_tell: a line, or an event
 *
 * The subjects are gemm.c parse.c disk.c models.c, and bench_SUBJECT.c for rows, feed, ring, net, trees,
 * card.
 *
 * Nothing is printed before all options are checked. Then each figure goes to standard output as soon as it
 * is known, so a benchmark that is stopped has shown its figures so far. */
#ifndef HETERPS_ENGINE_BENCH_BENCH_H
#define HETERPS_ENGINE_BENCH_BENCH_H

#include "engine/bench/limits.h"
#include "engine/base/cores.h"
#include "engine/bench/watch.h"

/* In the order in which they run: X(name, check of its options before anything is printed,
 * or NULL, subject, limit). */
#define BENCH_SUBJECTS(X)                                                                                              \
    X(gemm, bench_gemm_check, "products of fully connected layers", "multiply-adds in independent chains")             \
    X(gather, NULL, "rows of a table, looked up and summed", "random rows read")                                       \
    X(update, NULL, "rows of a table, updated by SGD", "random rows read and written")                                 \
    X(lookup, NULL, "keys that become rows", "random rows of 64 B read")                                               \
    X(parse, bench_parse_check, "text that becomes micro-batches", "the file read and dropped")                        \
    X(feed, NULL, "text that becomes inputs with their rows", "one thread's rate, times what threads gain")            \
    X(ring, NULL, "numbers from thread to thread", "a plain ring")                                                     \
    X(disk, bench_disk_check, "random blocks of 4 KiB of a file", "a bare ring, file and buffers registered")          \
    X(net, NULL, "messages and sums between processes over loopback", "the same bytes through plain sockets")          \
    X(trees, NULL, "nodes of trees that are computed together", "the bound of any itinerary")                          \
    X(train, bench_train_check, "training, micro-batches in memory", "its operations at the peak of gemm")             \
    X(card, bench_card_check, "kernels of a card", "its driver's copies, its multiply-adds, cuBLASLt")

enum bench_subject {
#define SUBJECT(name, ...) BENCH_##name,
    BENCH_SUBJECTS(SUBJECT)
#undef SUBJECT
        BENCH_SUBJECT_COUNT
};

struct bench_options {
    const char *subject; /* a name, or "all"                                                       */
    /* train: a sample's name, a model text or a graph; parse: a format; disk: a directory; NULL: all, "." */
    const char *what;
    const char *isa; /* NULL: the best here                                                     */
    /* gemm, train and card: "f32", "bf16", card also "tf32"; NULL: all */
    const char *precision;
    uint32_t threads; /* 0: one, and all processors                                               */
    uint32_t repeats; /* 0: five                                                                 */
    /* of the table of rows; disk: of the file; card: of a copy; 0: the subject chooses */
    uint64_t bytes;
    uint32_t vocab;         /* values of a field in generated data; 0: BENCH_VOCAB                      */
    bool markdown;          /* a table of Markdown, not one for terminals                               */
    bool quick;             /* small sizes, short repeats: rough figures                                 */
    const char *const *set; /* [set_count]: "section.key=value" for train                              */
    uint32_t set_count;
    const char *const *shape; /* [shape_count]: "MxNxK" for gemm and card, in place of their grids              */
    uint32_t shape_count;
    uint32_t card; /* card: its number */
};
#define BENCH_REPEATS   5u
#define BENCH_VOCAB     38461u
#define BENCH_BYTES_MAX (UINT64_C(8) << 30)

struct bench {
    const struct bench_options *o;
    struct cores cores;
    enum isa isa;
    const char *isa_name;
    uint32_t repeats, vocab;
    uint32_t thread_counts[2], thread_count_count; /* each figure is measured for each */
};

/* Prints the machine's line and runs the subjects. USAGE: an unknown subject, isa, shape or setting, an
 * option that the subject has no use for. Also fails as subjects fail. */
MUST_USE status bench_run(const struct bench_options *options);

/* The processors for `threads` threads; NULL: threads are not pinned. */
const int *bench_processors(const struct bench *b, uint32_t threads);

/* Whether gemm, train and card measure a precision, PRECISION_F32, … of cfg/settings.h; gemm and train only
 * precisions below PRECISION_CPU_COUNT. */
bool bench_has_precision(const struct bench *b, uint32_t precision);
/* GFLOP/s that products in a precision can reach: by multiply-adds, or, in bfloat16, by the processor's
 * instruction for it if that is faster. *by: the name of the instruction. by_wall: as in limit_fma. */
double bench_peak(const struct bench *b, uint32_t precision, uint32_t threads, bool by_wall, const char **by);

/* A figure and its limit. The table's line has name, threads, median, least, greatest, unit, the
 * limit's median, and the share of the limit that the figure reaches. The share is the median over
 * repeats, each against the limit's repeat beside it, so that drifts of the machine's speed cancel;
 * limit over figure where less is better. */
struct bench_figure {
    const char *subject, *name, *unit, *precision; /* precision: of products, else NULL */
    uint32_t threads;
    bool less_is_better;
    const struct series *ours, *limit; /* with equally many repeats; limit NULL: there is none */
    const char *limit_name;
    /* for programs: the measured case, in numbers */
    struct {
        const char *name;
        double value;
    } detail[10];
};
double bench_share(const struct bench_figure *figure);
/* Tells the figure as an event, under --json; then, if `is_line`, as a line of the table. */
void bench_tell(const struct bench_figure *figure, bool is_line);
/* The heading of a subject, and of the columns of figures, in the table only. */
void bench_heading(const char *subject);
void bench_columns(void);
/* A line of the table for terminals; nothing under --json and --markdown. Flushed. */
void bench_line(const char *format, ...) PRINTF_LIKE(1, 2);
/* A remark on the subject's figures, such as why some are missing: a line of either table. */
void bench_note(const char *format, ...) PRINTF_LIKE(1, 2);
/* "285.1", "77.2", "0.934": four digits or so, for columns. */
char *bench_number(char *buffer, size_t bytes, double value);

/* Examples, units and inputs of a fully connected layer; parsed from "512x64x256". */
struct bench_product {
    uint32_t M, N, K;
};
MUST_USE status bench_shape_parse(const char *text, struct bench_product *p);

/* The subjects. */
#define SUBJECT(name, ...) MUST_USE status bench_##name(const struct bench *b);
BENCH_SUBJECTS(SUBJECT)
#undef SUBJECT
/* Checks of the subjects' options; they print nothing. */
MUST_USE status bench_gemm_check(const struct bench *b);
MUST_USE status bench_card_check(const struct bench *b);
MUST_USE status bench_parse_check(const struct bench *b);
MUST_USE status bench_disk_check(const struct bench *b);
MUST_USE status bench_train_check(const struct bench *b);

#endif
