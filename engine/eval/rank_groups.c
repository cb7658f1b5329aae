/* Numbers groups, and measures how many of their targets are among their best words. */
#include "engine/eval/rank_groups.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/fmath.h"
#include "engine/base/memory.h"
#include "io/read/reader.h"

static const char part[] = "ranking";

#define FIRST_MAX   ((size_t)4096)
#define RESERVE_MAX ((size_t)1 << 20) /* groups */

/* --- pairs ------------------------------------------------------------------------------------ */

static status pairs_reserve(struct rank_pairs *p, size_t max)
{
    if (max <= p->max) return ST_OK;
    void *grown;
    TRY(memory_take(part, max * sizeof *p->pair, &grown));
    if (p->count) memcpy(grown, p->pair, p->count * sizeof *p->pair);
    memory_give(part, p->pair, p->max * sizeof *p->pair);
    p->pair = grown;
    p->max = max;
    return ST_OK;
}

static status pairs_add(struct rank_pairs *p, uint64_t group, uint64_t item)
{
    if (p->count == p->max) TRY(pairs_reserve(p, p->max ? 2 * p->max : FIRST_MAX));
    p->pair[p->count++] = (struct rank_pair){group, item};
    return ST_OK;
}

static int pair_order(const void *a_pointer, const void *b_pointer)
{
    const struct rank_pair *a = a_pointer, *b = b_pointer;
    if (a->group != b->group) return a->group < b->group ? -1 : 1;
    return (a->item > b->item) - (a->item < b->item);
}

static void pairs_sort(struct rank_pairs *p)
{
    if (p->count) qsort(p->pair, p->count, sizeof *p->pair, pair_order);
}

/* The first pair that is not before `pair`. */
static size_t pairs_find(const struct rank_pairs *p, size_t begin, size_t end, struct rank_pair pair)
{
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        if (pair_order(&p->pair[middle], &pair) < 0)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

/* The group's pairs, sorted. */
static const struct rank_pair *pairs_of(const struct rank_pairs *p, uint64_t group, size_t *count)
{
    size_t begin = pairs_find(p, 0, p->count, (struct rank_pair){group, 0}), end = begin;
    while (end < p->count && p->pair[end].group == group) end++;
    *count = end - begin;
    return p->pair + begin;
}

/* --- groups ----------------------------------------------------------------------------------- */

void rank_groups_open(struct rank_groups *g, const struct setup *setup, uint32_t best_max)
{
    *g = (struct rank_groups){.setup = setup, .best_max = best_max};
}

static void arrays_give(const struct rank_groups *g)
{
    memory_give(part, g->group, g->max * sizeof *g->group);
    memory_give(part, g->best, g->max * g->best_max * sizeof *g->best);
    memory_give(part, g->index, 2 * g->max * sizeof *g->index);
}

void rank_groups_close(struct rank_groups *g)
{
    arrays_give(g);
    memory_give(part, g->excluded.pair, g->excluded.max * sizeof *g->excluded.pair);
    memory_give(part, g->targets.pair, g->targets.max * sizeof *g->targets.pair);
    *g = (struct rank_groups){0};
}

/* Groups are hashes already. */
static size_t index_home(const struct rank_groups *g, uint64_t group)
{
    size_t mask = 2 * g->max - 1, at = group & mask;
    while (g->index[at] && g->group[g->index[at] - 1] != group) at = (at + 1) & mask;
    return at;
}

/* `max` is a power of two. */
static status groups_grow(struct rank_groups *g, size_t max)
{
    struct rank_groups new = *g;
    new.max = max;
    new.group = NULL, new.best = NULL, new.index = NULL;
    void *taken;
    status st;
    TRY_GOTO(memory_take(part, max * sizeof *g->group, &taken), failed);
    new.group = taken;
    TRY_GOTO(memory_take(part, max * g->best_max * sizeof *g->best, &taken), failed);
    new.best = taken;
    TRY_GOTO(memory_take(part, 2 * max * sizeof *g->index, &taken), failed);
    new.index = taken;
    if (g->count) {
        memcpy(new.group, g->group, g->count * sizeof *g->group);
        memcpy(new.best, g->best, g->count * g->best_max * sizeof *g->best);
    }
    for (size_t i = 0; i < g->count; i++) new.index[index_home(&new, g->group[i])] = (uint32_t)i + 1;
    arrays_give(g);
    *g = new;
    return ST_OK;
failed:
    arrays_give(&new);
    return st;
}

status rank_groups_reserve(struct rank_groups *g, uint64_t example_count)
{
    size_t max = FIRST_MAX;
    while (max < example_count && max < RESERVE_MAX) max *= 2;
    if (max > g->max) TRY(groups_grow(g, max));
    return pairs_reserve(&g->targets, example_count);
}

void rank_groups_begin(struct rank_groups *g)
{
    /* Where groups are few, their places alone, the newest first: a place is found by those before it. */
    const bool is_few = g->count < g->max / 16;
    for (size_t i = g->count; is_few && i-- > 0;) g->index[index_home(g, g->group[i])] = 0;
    if (!is_few && g->count) memset(g->index, 0, 2 * g->max * sizeof *g->index);
    g->count = g->targets.count = 0;
}

/* Checks that memory that has grown fits beside all other memory. */
static status growth_check(const struct rank_groups *g, status grown)
{
    if (grown == ST_OK) grown = setup_memory_check(g->setup);
    if (grown == ST_OK) return ST_OK;
    struct failure why;
    failure_keep(&why, grown);
    return status_fail(grown, __FILE__, __LINE__,
                       "no memory to rank words for more groups than the %zu that have come, with %zu targets, "
                       "of %zu bytes a group and %zu a target: %s; evaluate fewer at a time, or lower eval.top",
                       g->count, g->targets.count, sizeof *g->group + (g->best_max + 4) * sizeof *g->best,
                       sizeof *g->targets.pair, why.message);
}

status rank_groups_number(struct rank_groups *g, uint64_t group, uint32_t *number, bool *is_new)
{
    if (g->count == g->max) TRY(growth_check(g, groups_grow(g, g->max ? 2 * g->max : FIRST_MAX)));
    size_t home = index_home(g, group);
    *is_new = g->index[home] == 0;
    if (*is_new) {
        CHECK(g->count < RANK_WORD_NONE);
        g->group[g->count] = group;
        g->index[home] = (uint32_t)++g->count;
    }
    *number = g->index[home] - 1;
    return ST_OK;
}

uint32_t *rank_groups_best(const struct rank_groups *g, uint32_t number)
{
    return g->best + (size_t)number * g->best_max;
}

status rank_groups_target_add(struct rank_groups *g, uint64_t group, uint64_t item)
{
    bool grows = g->targets.count == g->targets.max;
    status st = pairs_add(&g->targets, group, item);
    return grows ? growth_check(g, st) : st;
}

/* --- what a group has already ------------------------------------------------------------------ */

status rank_groups_exclude(struct rank_groups *g, uint64_t group, uint64_t item)
{
    return pairs_add(&g->excluded, group, item);
}

void rank_groups_excluded_end(struct rank_groups *g) { pairs_sort(&g->excluded); }

const struct rank_pair *rank_groups_excluded(const struct rank_groups *g, uint64_t group, size_t *count)
{
    return pairs_of(&g->excluded, group, count);
}

/* --- measuring -------------------------------------------------------------------------------- */

static double discount(uint32_t place) { return fmath_log(2) / fmath_log(2 + (double)place); }

/* A group's relevant words, sorted; `count`: its relevant items, words or not. */
struct relevant {
    const uint32_t *word;
    size_t word_count, count;
};

static int word_order(const void *a_pointer, const void *b_pointer)
{
    const uint32_t *one = a_pointer, *other = b_pointer;
    return (*one > *other) - (*one < *other);
}

static void sums_add(struct rank_figures *sums, const uint32_t *best, uint32_t cutoff, const struct relevant *r)
{
    uint32_t found = 0;
    double gain = 0, gain_max = 0;
    for (uint32_t place = 0; place < cutoff && best[place] != RANK_WORD_NONE; place++) {
        if (!r->word_count || !bsearch(&best[place], r->word, r->word_count, sizeof *r->word, word_order)) continue;
        gain += discount(place);
        found++;
    }
    for (uint32_t place = 0; place < r->count && place < cutoff; place++) gain_max += discount(place);
    sums->recall += (double)found / (double)r->count;
    sums->hit_rate += found > 0;
    sums->ndcg += gain / gain_max;
}

static void sums_divide(struct rank_figures *sums, uint64_t count)
{
    sums->recall /= (double)count;
    sums->hit_rate /= (double)count;
    sums->ndcg /= (double)count;
}

/* Writes the words among a group's sorted targets over the first targets, each once, without excluded
 * words; counts all relevant items. */
static struct relevant relevant_find(const struct rank_groups *g, struct rank_pair *target, size_t count)
{
    size_t excluded_count;
    const struct rank_pair *excluded = rank_groups_excluded(g, target->group, &excluded_count);
    uint32_t *word = (uint32_t *)(void *)target; /* 4 bytes for 16: never ahead of reading */
    struct relevant r = {.word = word};
    uint64_t before = UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        const struct rank_pair pair = target[i];
        if (pair.item == before) continue;
        before = pair.item;
        if (excluded_count && bsearch(&pair, excluded, excluded_count, sizeof pair, pair_order)) continue;
        r.count++;
        if (!(pair.item & READER_UNKNOWN)) word[r.word_count++] = (uint32_t)pair.item;
    }
    return r;
}

/* Adds in the order of the groups' hashes, so that sums do not depend on the order of the data. */
void rank_groups_measure(struct rank_groups *g, const uint32_t *cutoffs, uint32_t cutoff_count,
                         struct rank_groups_result *result)
{
    struct rank_pair *target = g->targets.pair;
    uint64_t known_count = 0;
    *result = (struct rank_groups_result){0};
    pairs_sort(&g->targets);
    for (size_t begin = 0, end; begin < g->targets.count; begin = end) {
        const uint64_t group = target[begin].group;
        for (end = begin + 1; end < g->targets.count && target[end].group == group;) end++;
        struct relevant r = relevant_find(g, target + begin, end - begin);
        if (r.count == 0) continue;
        const uint32_t *best = rank_groups_best(g, g->index[index_home(g, group)] - 1);
        for (uint32_t k = 0; k < cutoff_count; k++) sums_add(&result->at[k], best, cutoffs[k], &r);
        result->group_count++;
        result->target_count += r.count;
        result->unknown_count += r.count - r.word_count;
        if (r.word_count == 0) continue;
        r.count = r.word_count;
        sums_add(&result->known, best, cutoffs[0], &r);
        known_count++;
    }
    for (uint32_t k = 0; k < cutoff_count; k++) sums_divide(&result->at[k], result->group_count);
    sums_divide(&result->known, known_count);
}
