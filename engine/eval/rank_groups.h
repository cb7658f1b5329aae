/* The groups (users) of a ranking, whose examples come in any order: a group's best words, the targets of all
 * its examples, and its excluded items, which the group has already and which do not count.
 *
 *     group ──index──▶ number, in the order in which groups come ──▶ best words [best_max]
 *     (group, item) pairs: targets, excluded items; sorted when they are compared
 *
 * An item is a word's number, or the key, with READER_UNKNOWN, of a text that is no word: such a
 * target counts, and is never found.
 *
 * Figures are means over groups with relevant items (a group's targets, each once, without excluded
 * items), from a group's k best words:
 *   recall@k    found / relevant
 *   hit rate@k  share of groups with one found
 *   NDCG@k      sum over found of 1 / log2(2 + place), over its greatest value (Jarvelin, Kekalainen, TOIS 2002)
 * The same figures once more over relevant items that are words.
 *
 * Memory (part "ranking"; all of it grows by doubling): 16 bytes a pair, 8 + 4 best_max a
 * group, and 8 to 16 of the index. */
#ifndef HETERPS_ENGINE_EVAL_RANK_GROUPS_H
#define HETERPS_ENGINE_EVAL_RANK_GROUPS_H

#include "engine/crew/setup.h"

#define RANK_CUTOFFS_MAX 9 /* eval.top, and eval.cutoffs */
#define RANK_WORD_NONE   UINT32_MAX

struct rank_pair {
    uint64_t group, item;
};
/* A block that grows by doubling. */
struct rank_pairs {
    struct rank_pair *pair;
    size_t count, max;
};

struct rank_groups {
    /* set at open */
    const struct setup *setup;
    uint32_t best_max;
    struct rank_pairs excluded; /* sorted by rank_groups_excluded_end */
    /* of the evaluation */
    size_t count, max;
    uint64_t *group; /* [max] */
    uint32_t *best;  /* [max, best_max]: words, the best first; RANK_WORD_NONE after the last */
    uint32_t *index; /* [2 * max], a power of two: 1 + number, by the group, which is a hash; 0: none */
    struct rank_pairs targets;
};

/* Keeps the set-up. */
void rank_groups_open(struct rank_groups *groups, const struct setup *setup, uint32_t best_max);
void rank_groups_close(struct rank_groups *groups);
/* Takes room for the examples, and for as many groups, at most 2^20: groups are fewer than examples, and
 * further groups get room as they come. MEMORY. */
MUST_USE status rank_groups_reserve(struct rank_groups *groups, uint64_t example_count);
/* Forgets all but the excluded items. */
void rank_groups_begin(struct rank_groups *groups);

/* Excludes an item of a group; all calls come before the first evaluation. MEMORY. */
MUST_USE status rank_groups_exclude(struct rank_groups *groups, uint64_t group, uint64_t item);
void rank_groups_excluded_end(struct rank_groups *groups);
/* The group's excluded items, [*count], sorted. */
const struct rank_pair *rank_groups_excluded(const struct rank_groups *groups, uint64_t group, size_t *count);

/* *number is the group's; *is_new: the group has not come before, and the caller sets its best words. MEMORY
 * tells how many groups have come, and what to do. */
MUST_USE status rank_groups_number(struct rank_groups *groups, uint64_t group, uint32_t *number, bool *is_new);
uint32_t *rank_groups_best(const struct rank_groups *groups, uint32_t number);
/* Adds a target of the group. MEMORY likewise. */
MUST_USE status rank_groups_target_add(struct rank_groups *groups, uint64_t group, uint64_t item);

struct rank_figures {
    double recall, hit_rate, ndcg; /* NaN: no group has a relevant item */
};
struct rank_groups_result {
    uint64_t group_count, target_count; /* groups with a relevant item; relevant items */
    uint64_t unknown_count;             /* of these items, the ones that are no words */
    struct rank_figures at[RANK_CUTOFFS_MAX];
    struct rank_figures known; /* at the first cutoff, over words alone */
};
/* Cutoffs are at most best_max. Sorts the targets. */
void rank_groups_measure(struct rank_groups *groups, const uint32_t *cutoffs, uint32_t cutoff_count,
                         struct rank_groups_result *result);

#endif
