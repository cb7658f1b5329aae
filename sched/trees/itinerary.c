/* Itineraries by the policies of batching.def, and the bound below which none can be. */
#include "sched/trees/itinerary.h"

#include <stdio.h>

#include "sched/trees/frontier.h"

typedef void itinerary_maker(struct itinerary *, const struct tree_nodes *, uint32_t kind_count,
                             const struct batching *, struct itinerary_scratch *);
#define BATCHING(id, ...) static itinerary_maker itinerary_##id;
#include "sched/trees/batching.def"
#undef BATCHING

const struct batching_name batching_table[BATCHING_ID_COUNT] = {
#define BATCHING(id, name_, meaning_) [BATCHING_ID_##id] = {.name = name_, .meaning = meaning_},
#include "sched/trees/batching.def"
#undef BATCHING
};

status batching_find(batching_id *id, const char *name)
{
    char names[256] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < BATCHING_ID_COUNT && used < sizeof names; i++) {
        if (strcmp(batching_table[i].name, name) == 0) {
            *id = (batching_id)i;
            return ST_OK;
        }
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", batching_table[i].name);
    }
    FAIL(USAGE, "unknown batching \"%s\"; expected one of %s", name, names);
}

void itinerary_layout(struct itinerary *it, struct layout *l, size_t node_max)
{
    LAYOUT_TAKE(l, it->order, node_max);
    LAYOUT_TAKE(l, it->batch_begin, node_max + 1);
    LAYOUT_TAKE(l, it->batch_kind, node_max);
}

void itinerary_scratch_layout(struct itinerary_scratch *s, struct layout *l, size_t node_max, size_t edge_max)
{
    LAYOUT_TAKE(l, s->height, node_max);
    LAYOUT_TAKE(l, s->batch, node_max);
    LAYOUT_TAKE(l, s->batch_of_agenda, node_max);
    LAYOUT_TAKE(l, s->next, node_max);
    LAYOUT_TAKE(l, s->left, node_max);
    LAYOUT_TAKE(l, s->edge, node_max);
    LAYOUT_TAKE(l, s->kinds, node_max);
    LAYOUT_TAKE(l, s->edge_next, edge_max);
    LAYOUT_TAKE(l, s->edge_parent, edge_max);
}

/* --- the frontier ----------------------------------------------------------------------------- */

static uint32_t height_of(const struct tree_nodes *nodes, uint32_t node, const uint32_t *height)
{
    uint32_t most = 0;
    for (uint32_t e = nodes->child_begin[node]; e < nodes->child_begin[node + 1]; e++) {
        uint32_t above = height[nodes->child[e]] + 1;
        if (above > most) most = above;
    }
    return most;
}

void frontier_open(struct frontier *f, const struct tree_nodes *nodes, uint32_t kind_count, struct itinerary_scratch *s)
{
    CHECK(kind_count <= TREE_KINDS_MAX);
    f->nodes = nodes;
    f->kind_count = kind_count;
    f->scratch = s;
    for (uint32_t i = 0; i < nodes->count; i++) {
        s->height[i] = height_of(nodes, i, s->height);
        s->edge[i] = TREE_NONE;
        for (uint32_t e = nodes->child_begin[i]; e < nodes->child_begin[i + 1]; e++) {
            s->edge_next[e] = s->edge[nodes->child[e]];
            s->edge[nodes->child[e]] = e;
            s->edge_parent[e] = i;
        }
    }
}

void frontier_begin(struct frontier *f)
{
    memset(f->kinds, 0, sizeof f->kinds);
    memset(f->ready, 0xff, f->kind_count * sizeof *f->ready);
    memset(f->ready_count, 0, f->kind_count * sizeof *f->ready_count);
    memset(f->height_sum, 0, f->kind_count * sizeof *f->height_sum);
    for (uint32_t i = 0; i < f->nodes->count; i++) {
        f->scratch->left[i] = f->nodes->child_begin[i + 1] - f->nodes->child_begin[i];
        if (f->scratch->left[i] == 0) frontier_add(f, i);
    }
}

/* The first kind with ready nodes from `kind` on; kind_count: there is none. */
static uint32_t kind_next(const struct frontier *f, uint32_t kind)
{
    while (kind < f->kind_count) {
        uint32_t rest = f->kinds[kind / 32] >> kind % 32;
        if (rest) return kind + (uint32_t)__builtin_ctz(rest);
        kind = (kind / 32 + 1) * 32;
    }
    return f->kind_count;
}

uint32_t frontier_lowest(const struct frontier *f)
{
    uint32_t lowest = AUTOMATON_NONE;
    double least = 0;
    for (uint32_t k = kind_next(f, 0); k < f->kind_count; k = kind_next(f, k + 1)) {
        double mean = (double)f->height_sum[k] / f->ready_count[k];
        if (lowest != AUTOMATON_NONE && mean >= least) continue;
        lowest = k;
        least = mean;
    }
    return lowest;
}

struct automaton_sight frontier_sight(const struct frontier *f)
{
    struct automaton_sight sight = {{0}, 0};
    uint32_t most = 0;
    memcpy(sight.kinds, f->kinds, sizeof sight.kinds);
    for (uint32_t k = kind_next(f, 0); k < f->kind_count; k = kind_next(f, k + 1)) {
        if (f->ready_count[k] <= most) continue;
        most = f->ready_count[k];
        sight.most = k;
    }
    return sight;
}

uint32_t frontier_run(struct frontier *f, const struct automaton *automaton, uint32_t *batch_of, uint32_t batch_max)
{
    uint32_t batch = 0, kind;
    frontier_begin(f);
    while (batch < batch_max && (kind = frontier_lowest(f)) != AUTOMATON_NONE) {
        if (automaton) {
            struct automaton_sight sight = frontier_sight(f);
            uint32_t take = automaton_take(automaton, &sight);
            if (take != AUTOMATON_NONE) kind = take;
        }
        frontier_take(f, kind, batch++, batch_of);
    }
    return batch;
}

/* --- policies --------------------------------------------------------------------------------- */

static void itinerary_per_node(struct itinerary *it, const struct tree_nodes *nodes, uint32_t kind_count,
                               const struct batching *policy, struct itinerary_scratch *s)
{
    (void)kind_count, (void)policy, (void)s;
    it->batch_count = nodes->count;
    for (uint32_t i = 0; i < nodes->count; i++) {
        it->order[i] = it->batch_begin[i] = i;
        it->batch_kind[i] = nodes->kind[i];
    }
    it->batch_begin[nodes->count] = nodes->count;
}

/* Writes the itinerary of nodes whose batches are known. */
static void batches_write(struct itinerary *it, const struct tree_nodes *nodes, const uint32_t *batch_of,
                          uint32_t batch_count)
{
    uint32_t *end = it->batch_begin; /* of a batch: first its begin, then the place behind its last node so far */
    it->batch_count = batch_count;
    memset(end, 0, (batch_count + 1) * sizeof *end);
    for (uint32_t i = 0; i < nodes->count; i++) {
        end[batch_of[i]]++;
        it->batch_kind[batch_of[i]] = nodes->kind[i];
    }
    for (uint32_t b = 0, at = 0; b < batch_count; b++) {
        uint32_t count = end[b];
        end[b] = at;
        at += count;
    }
    for (uint32_t i = 0; i < nodes->count; i++) it->order[end[batch_of[i]]++] = i;
    for (uint32_t b = batch_count; b > 0; b--) it->batch_begin[b] = it->batch_begin[b - 1];
    it->batch_begin[0] = 0;
}

/* The number of set bits below `bit`. */
static uint32_t bits_below(const uint32_t *words, uint32_t bit)
{
    uint32_t count = (uint32_t)__builtin_popcountll(words[bit / 32] & ((UINT64_C(1) << bit % 32) - 1));
    for (uint32_t w = 0; w < bit / 32; w++) count += (uint32_t)__builtin_popcountll(words[w]);
    return count;
}

static void itinerary_by_height(struct itinerary *it, const struct tree_nodes *nodes, uint32_t kind_count,
                                const struct batching *policy, struct itinerary_scratch *s)
{
    (void)policy, (void)kind_count;
    uint32_t heights = 0, batch_count = 0, *first = s->left;
    for (uint32_t i = 0; i < nodes->count; i++) {
        uint32_t height = s->height[i] = height_of(nodes, i, s->height), kind = nodes->kind[i];
        for (; heights <= height; heights++) memset(s->kinds[heights], 0, sizeof *s->kinds);
        s->kinds[height][kind / 32] |= UINT32_C(1) << kind % 32;
    }
    for (uint32_t h = 0; h < heights; h++) {
        first[h] = batch_count;
        for (uint32_t w = 0; w < KIND_WORDS; w++) batch_count += (uint32_t)__builtin_popcountll(s->kinds[h][w]);
    }
    for (uint32_t i = 0; i < nodes->count; i++)
        s->batch[i] = first[s->height[i]] + bits_below(s->kinds[s->height[i]], nodes->kind[i]);
    batches_write(it, nodes, s->batch, batch_count);
}

static void itinerary_agenda(struct itinerary *it, const struct tree_nodes *nodes, uint32_t kind_count,
                             const struct batching *policy, struct itinerary_scratch *s)
{
    (void)policy;
    struct frontier f;
    frontier_open(&f, nodes, kind_count, s);
    batches_write(it, nodes, s->batch_of_agenda, frontier_run(&f, NULL, s->batch_of_agenda, UINT32_MAX));
}

/* Never makes more batches than the agenda, which is tried, too. */
static void itinerary_learned(struct itinerary *it, const struct tree_nodes *nodes, uint32_t kind_count,
                              const struct batching *policy, struct itinerary_scratch *s)
{
    struct frontier f;
    frontier_open(&f, nodes, kind_count, s);
    uint32_t agenda = frontier_run(&f, NULL, s->batch_of_agenda, UINT32_MAX), learned = agenda;
    if (policy->automaton.state_count > 0) learned = frontier_run(&f, &policy->automaton, s->batch, agenda);
    bool is_less = learned < agenda;
    batches_write(it, nodes, is_less ? s->batch : s->batch_of_agenda, is_less ? learned : agenda);
}

void itinerary_make(struct itinerary *it, const struct tree_nodes *nodes, uint32_t kind_count,
                    const struct batching *policy, struct itinerary_scratch *scratch)
{
    static itinerary_maker *const makers[BATCHING_ID_COUNT] = {
#define BATCHING(id, ...) [BATCHING_ID_##id] = itinerary_##id,
#include "sched/trees/batching.def"
#undef BATCHING
    };
    makers[policy->id](it, nodes, kind_count, policy, scratch);
}

/* --- the bound -------------------------------------------------------------------------------- */

void itinerary_chains(const struct tree_nodes *nodes, uint32_t kind_count, uint32_t *above, uint32_t *chain,
                      uint32_t *longest)
{
    for (uint32_t k = 0; k < kind_count; k++) {
        memset(above, 0, nodes->count * sizeof *above);
        longest[k] = 0;
        for (uint32_t i = nodes->count; i-- > 0;) {
            uint32_t here = above[i] + (nodes->kind[i] == k);
            if (nodes->kind[i] == k) chain[i] = here;
            if (here > longest[k]) longest[k] = here;
            for (uint32_t e = nodes->child_begin[i]; e < nodes->child_begin[i + 1]; e++)
                if (above[nodes->child[e]] < here) above[nodes->child[e]] = here;
        }
    }
}

uint32_t itinerary_bound(const struct tree_nodes *nodes, uint32_t kind_count, struct itinerary_scratch *scratch)
{
    uint32_t longest[TREE_KINDS_MAX], bound = 0;
    CHECK(kind_count <= TREE_KINDS_MAX);
    itinerary_chains(nodes, kind_count, scratch->next, scratch->batch, longest);
    for (uint32_t k = 0; k < kind_count; k++) bound += longest[k];
    return bound;
}
