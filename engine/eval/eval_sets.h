/* The data sets that a model is evaluated on, each by its name, one after another:
 *
 *     --eval test.tsv                                        one set without a name
 *     --eval tomorrow=day9.tsv --eval holdout=a.tsv,b.tsv    two sets; the first decides about early stopping
 *
 * A text is FILE,… or NAME=FILE,…: the part before the first '=' is a name, if it has only letters, digits,
 * '_', '.' and '-', and the text's first path, '=' included, is not a file; "./a=b.tsv" is always a file. */
#ifndef HETERPS_ENGINE_EVAL_EVAL_SETS_H
#define HETERPS_ENGINE_EVAL_EVAL_SETS_H

#include "engine/eval/evaluate.h"

/* For --help, where a flag takes sets. The formatter would place a backslash by bytes, not by columns. */
/* clang-format off */
#define EVAL_SETS_HELP                                                                                                 \
    "A set of data is FILE,… or NAME=FILE,…: tomorrow=day9.tsv. "                                                      \
    "What is before the first = is a name, of letters, digits, _ . and -,\n"                                           \
    "unless there is a file called that, = included; ./a=b.tsv is always a file."
/* clang-format on */

#define EVAL_SETS_MAX      16u
#define EVAL_SET_NAME_MAX  63u /* letters */
#define EVAL_SET_NAME_HOLD (EVAL_SET_NAME_MAX + 1)
struct eval_set {
    char name[EVAL_SET_NAME_HOLD]; /* "": none, for a set alone */
    const char *paths;             /* borrowed */
};
struct eval_sets {
    struct eval_set item[EVAL_SETS_MAX];
    uint32_t count; /* 0: nothing is evaluated */
};

/* One set without a name. */
struct eval_sets eval_sets_of(const char *paths);
/* Takes a text apart; set->paths points into it. USAGE: a name without files, or too long; `flag` is for the
 * message. */
MUST_USE status eval_set_parse(struct eval_set *set, const char *flag, const char *text);
/* The sets of texts[count]. USAGE: also a set without a name beside others, two sets of one name,
 * standard input twice, too many sets. */
MUST_USE status eval_sets_parse(struct eval_sets *sets, const char *flag, const char *const *texts, uint32_t count);
/* Whether one of the sets reads standard input. */
bool eval_sets_name_stdin(const struct eval_sets *sets);

/* The sets of an evaluation: how each is read, and one set's feed at a time. All zero: none. */
struct eval_feeds {
    struct eval_sets sets;
    /* paths, cache_kept and the cache's suffix are set by eval_feeds_begin */
    struct evaluate_options options[EVAL_SETS_MAX];
    struct data_cache *cache[EVAL_SETS_MAX]; /* kept between evaluations: data once read; or NULL */
    char suffix[EVAL_SETS_MAX][sizeof ".eval." + EVAL_SET_NAME_MAX];
    struct feed *feed; /* open, or NULL … */
    uint32_t at;       /* … of this set   */
};
/* Copies the sets, and keeps their paths until eval_feeds_close. *feeds must not be moved. */
void eval_feeds_begin(struct eval_feeds *feeds, const struct eval_sets *sets);
void eval_feeds_close(struct eval_feeds *feeds);
/* Opens a feed for set i, for one evaluation, unless its feed is open; closes another set's feed. A
 * node without lanes opens none. */
MUST_USE status eval_feeds_open(struct eval_feeds *feeds, struct crew *crew, uint32_t i);
/* Closes the open feed. */
void eval_feeds_shut(struct eval_feeds *feeds);
/* Opens every set once, so that a wrong path fails early, and takes room for its examples (evaluate_reserve).
 * The feed that takes most memory stays open and so is part of the plan. INVALID: one of several sets is a
 * stream, which cannot be opened twice. */
MUST_USE status eval_feeds_reserve(struct eval_feeds *feeds, struct crew *crew, struct heads *heads);
/* evaluate_measure_as of the set whose feed is open, under its name. */
MUST_USE status eval_feeds_measure(struct eval_feeds *feeds, struct crew *crew, struct heads *heads,
                                   struct by_value *by);

#endif
