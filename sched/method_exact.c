/* The proven optimum, and the greatest throughput, by branch and bound on tau, the seconds an example that the slowest
 * stage may take.
 *
 * For a given tau every stage needs its least k, on its own. A plan is then a path over segments (first layer, last
 * layer, type), neighbours differing in type, and the units of a type on the path must keep to its limit. An interval
 * [a, b] of tau has the bound
 *
 *     least path of  price k max(a, ET(k)),   k the least with ET(k) <= b,
 *
 * since at any tau in it a stage has k' >= k units for at least max(a, ET(k')) each, and k ET(k) never falls
 * with k. So a = 0 already bounds well, and an interval without a step of any k is solved. An interval that may
 * hold something cheaper than the best known plan is split, where its least path is a plan at the tau from
 * which on that plan is too dear; the half of the slower tau comes first.
 *
 * Limits: Lagrange multipliers on the units of each type (Fisher, "The Lagrangian relaxation method for solving
 * integer programming problems", Management Science 1981), moved by Polyak's step, raise the bound; segments
 * that no path below the best plan can contain are dropped, for the halves of the interval too; what remains is
 * searched depth first, bounded by the least path of the layers ahead and by what beginnings before came to.
 *
 * Nodes: a segment is then also for the node of the next one, whose link its cut crosses, and a path goes on there. What
 * cuts of one link take from each other, what memory of a node allows, and what nodes cost, couples segments that are
 * not neighbours; the weights of segments leave it out, and so bound what a path comes to, which is asked at its end.
 *
 * A path costs O(number of segments), at most L (L + 1) / 2 T: 13,440 at 20 layers and 64 types. There a proof
 * takes a few intervals and 1 to 5 ms on one core of a rented machine; where limits leave little more than the
 * throughput that is asked for, it can take seconds. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "sched/method.h"

#define NO_TYPE      UINT32_MAX
#define SEGMENTS_MAX ((uint32_t)1 << 22) /* 400 MiB of them and what belongs to them */
#define GAP          1e-12               /* relative: what costs less than this less is not cheaper, but rounding */
#define ASCENT_STEPS 40                  /* of the multipliers, an interval */
#define DIVE_NODES   2000                /* of a depth-first search; twice as many each time an interval is halved */
#define DIVE_LOOK    4096                /* nodes from look to look at the clock */
#define LOOK_NS      5000000u
#define GREEDY_GAP   1e-6 /* relative, of tau */
#define FASTEST_GAP  1e-9 /* relative: from here on the next smaller tau is asked for, which ends the search */

struct segment {
    struct cost_time time;
    uint16_t first, last, type;
    uint16_t next; /* node of the stage behind it; 0 for the last layer's */
};

/* A segment with its units for the tau at hand. */
struct item {
    double weight; /* of the objective */
    double least;  /* with multipliers: it and the least path behind its last layer */
    uint32_t segment, k;
    uint16_t last, type, next;
};

/* The least of several paths, and the least of those that differ from it in the type next to where they meet. */
struct least_two {
    double best, second;
    uint32_t type;
    uint32_t best_item, second_item;
};

struct interval {
    double a, b;  /* both included */
    double bound; /* USD: no plan at a tau in it costs less */
    double split; /* a < split <= b: the halves are [a, before split] and [split, b] */
    uint32_t depth;
    size_t id_begin;
    uint32_t id_count; /* segments that something cheaper may contain */
};

/* A beginning of plans in the depth-first search: up to a layer and its type. Another one to the same that is no
 * cheaper and has used no fewer units of any scarce type leads nowhere better. */
#define LABEL_TYPES  32   /* scarce types; with more of them beginnings are not compared */
#define LABEL_GROUPS 1024 /* of states, by hash                                           */
#define LABEL_PLACES 16   /* the latest of a group                                        */
struct label {
    double weight;
    uint32_t state;
    uint16_t used[LABEL_TYPES];
};
struct label_group {
    uint32_t count;
    struct label labels[LABEL_PLACES];
};

struct exact {
    const struct cost_model *model;
    uint32_t layer_count, type_count;
    uint32_t node_count;
    bool is_coupled;       /* paths come to more than their segments */
    struct search *search; /* says when to stop */
    bool offers;           /* it is given the plans that come up */
    uint64_t look_ns;
    bool is_cut;
    /* all segments that fit the limits at the greatest tau, ordered by first layer */
    struct segment *segments;
    uint32_t segment_count, segment_room;
    /* lists of segments: of every interval on the stack */
    uint32_t *ids;
    size_t id_count, id_room;
    struct interval *intervals;
    uint32_t interval_count, interval_room;
    /* the problem at hand: items of layer l are begin[l] … begin[l + 1] - 1 */
    struct item *items;
    uint32_t *begin;                      /* [L + 1] */
    struct least_two *ahead, *behind;     /* [L + 1, nodes]: of layers l … L - 1, that begin on a node; of 0 … l - 1,
                                             for which the next one is on it */
    double a, b;                          /* the interval of tau */
    double *multiplier, *multiplier_best; /* [T] */
    uint64_t *used;                       /* [T] units on the path */
    uint64_t *units;                      /* [T] the same as coupled */
    double cutoff;                        /* only what is below it matters */
    bool wants_any;                       /* any path within the limits will do */
    type_index *types;                    /* [L]: the path */
    type_index *found_types;              /* [L]: the least one within limits */
    double found;                         /* its weight; infinite: none */
    uint32_t *trail;                      /* [L] items of the depth-first search */
    struct cost_stage *stages;            /* [L] */
    uint64_t nodes, nodes_max;
    struct label_group *groups; /* [LABEL_GROUPS] */
    uint32_t *scarce;           /* [T] types whose limit a path could break */
    uint32_t scarce_count;      /* 0: beginnings are not compared           */
    double *held;               /* [nodes] of a beginning: bytes of parameters */
    uint32_t *visits;           /* [nodes] and stages                          */
    uint32_t *reserve;          /* [L + 1, T] units that layers l … L - 1 may want, at most their type's limit */
};

static void exact_close(struct exact *x)
{
    free(x->segments);
    free(x->ids);
    free(x->intervals);
    free(x->items);
    free(x->begin);
    free(x->ahead);
    free(x->multiplier);
    free(x->used);
    free(x->types);
    free(x->trail);
    free(x->groups);
    free(x->scarce);
    free(x->reserve);
    free(x->held);
    free(x->visits);
    free(x->stages);
}

/* Whether the time is up; looks at the clock, and lets the search look, a few hundred times a second. */
static bool cut(struct exact *x)
{
    uint64_t now = clock_ns();
    if (x->is_cut || now - x->look_ns < LOOK_NS) return x->is_cut;
    x->look_ns = now;
    x->search->next_look = x->search->evaluations;
    x->is_cut = search_is_over(x->search);
    return x->is_cut;
}

/* --- segments --------------------------------------------------------------------------------- */

static status segment_add(struct exact *x, const struct segment *segment)
{
    if (x->segment_count == x->segment_room) {
        if (x->segment_room == SEGMENTS_MAX)
            FAIL(INVALID, "exact: %u layers on %u types have more than %u possible stages, which is too many",
                 x->layer_count, x->type_count, SEGMENTS_MAX);
        uint32_t room = x->segment_room ? 2 * x->segment_room : 1024;
        struct segment *segments = realloc(x->segments, room * sizeof *segments);
        if (segments == NULL) FAIL(MEMORY, "no memory for %u possible stages", room);
        x->segments = segments;
        x->segment_room = room;
    }
    x->segments[x->segment_count++] = *segment;
    return ST_OK;
}

/* Whether a stage on a type can have another one behind it on a node. */
static bool has_next(const struct cost_model *m, uint32_t type, uint32_t node)
{
    for (uint32_t t = 0; t < m->type_count; t++)
        if (t != type && m->node[t] == node) return true;
    return false;
}

/* One for each node that the stage behind it may be on. */
static status segment_nodes_add(struct exact *x, struct segment segment, double tau)
{
    const struct cost_model *m = x->model;
    const uint32_t own = m->node[segment.type];
    const bool is_last = segment.last + 1u == x->layer_count;
    const double move = segment.time.move;
    for (uint32_t next = 0; next < (is_last ? 1 : x->node_count); next++) {
        if (x->node_count > 1 && !is_last) {
            if (!has_next(m, segment.type, next)) continue;
            const struct cost_link *link = next == own ? NULL : &m->links[(size_t)own * x->node_count + next];
            segment.time.move = move + cost_link_seconds(m, segment.last, link);
        }
        segment.next = (uint16_t)next;
        if (cost_units_least(&segment.time, tau, m->limit[segment.type]) > 0) TRY(segment_add(x, &segment));
    }
    return ST_OK;
}

/* Those that begin at a layer and keep to tau within their limits. Sums as cost_segment does, in the same order. */
static status segments_begin(struct exact *x, uint32_t first, double tau, struct cost_time *sums)
{
    const struct cost_model *m = x->model;
    uint32_t open = x->type_count;
    memset(sums, 0, x->type_count * sizeof *sums);
    for (uint32_t last = first; last < x->layer_count && open > 0; last++) {
        open = 0;
        for (uint32_t t = 0; t < x->type_count; t++) {
            struct segment segment = {.first = (uint16_t)first, .last = (uint16_t)last, .type = (uint16_t)t};
            cost_compute_add(m, last, t, &sums[t]);
            /* Computation grows with every layer; communication may fall. */
            if (cost_units_least(&sums[t], tau, m->limit[t]) == 0) continue;
            open++;
            segment.time = sums[t];
            cost_move_set(m, first, last, t, &segment.time);
            TRY(segment_nodes_add(x, segment, tau));
        }
    }
    return ST_OK;
}

/* Opens the search for plans with ET <= tau. With is_cut some stages may be missing: nothing follows then. */
static status exact_open(struct exact *x, const struct cost_model *m, double tau)
{
    uint32_t L = m->layer_count, T = m->type_count;
    x->model = m;
    x->layer_count = L;
    x->type_count = T;
    x->node_count = m->node_count;
    x->is_coupled = m->node_count > 1 || m->has_node_memory || m->has_node_price;
    x->begin = calloc(L + 1, sizeof *x->begin);
    x->ahead = calloc(2 * ((size_t)L + 1) * m->node_count, sizeof *x->ahead);
    x->held = calloc(m->node_count, sizeof *x->held);
    x->visits = calloc(m->node_count, sizeof *x->visits);
    x->multiplier = calloc(2 * (size_t)T, sizeof *x->multiplier);
    x->used = calloc(2 * (size_t)T, sizeof *x->used);
    x->types = calloc(2 * (size_t)L, sizeof *x->types);
    x->trail = calloc(L, sizeof *x->trail);
    x->stages = calloc(L, sizeof *x->stages);
    x->groups = calloc(LABEL_GROUPS, sizeof *x->groups);
    x->scarce = calloc(T, sizeof *x->scarce);
    x->reserve = calloc(((size_t)L + 1) * T, sizeof *x->reserve);
    struct cost_time *sums = calloc(T, sizeof *sums);
    status st = ST_OK;
    if (x->begin && x->ahead && x->multiplier && x->used && x->types && x->trail && x->stages && x->groups &&
        x->scarce && x->reserve && x->held && x->visits && sums)
        for (uint32_t l = 0; l < L && st == ST_OK && !cut(x); l++) st = segments_begin(x, l, tau, sums);
    else
        st = status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for %u layers on %u types", L, T);
    free(sums);
    if (st != ST_OK) return st;
    x->behind = x->ahead + ((size_t)L + 1) * x->node_count;
    x->multiplier_best = x->multiplier + T;
    x->units = x->used + T;
    x->found_types = x->types + L;
    x->id_room = 4 * (size_t)x->segment_count + 1;
    x->ids = malloc(x->id_room * sizeof *x->ids);
    x->items = malloc(((size_t)x->segment_count + 1) * sizeof *x->items);
    if (x->ids == NULL || x->items == NULL) FAIL(MEMORY, "no memory for %u possible stages", x->segment_count);
    for (uint32_t s = 0; s < x->segment_count; s++) x->ids[s] = s;
    x->id_count = x->segment_count;
    return ST_OK;
}

/* --- paths ------------------------------------------------------------------------------------ */

static const struct least_two nothing = {INFINITY, INFINITY, NO_TYPE, 0, 0};

/* Of paths from a layer on that begin on a node; and of those to a layer, for which the next is on it. */
static inline struct least_two *ahead_of(const struct exact *x, uint32_t layer, uint32_t node)
{
    return &x->ahead[(size_t)layer * x->node_count + node];
}
static inline struct least_two *behind_of(const struct exact *x, uint32_t layer, uint32_t node)
{
    return &x->behind[(size_t)layer * x->node_count + node];
}

/* The node that the least path of all layers begins on. */
static uint32_t ahead_node(const struct exact *x)
{
    uint32_t least = 0;
    for (uint32_t n = 1; n < x->node_count; n++)
        if (ahead_of(x, 0, n)->best < ahead_of(x, 0, least)->best) least = n;
    return least;
}

static inline double least_without(const struct least_two *two, uint32_t type)
{
    return two->type != type ? two->best : two->second;
}

static inline void least_add(struct least_two *two, double value, uint32_t type, uint32_t item)
{
    if (type == two->type) {
        if (value < two->best) {
            two->best = value;
            two->best_item = item;
        }
    } else if (value < two->best) {
        two->second = two->best;
        two->second_item = two->best_item;
        two->best = value;
        two->best_item = item;
        two->type = type;
    } else if (value < two->second) {
        two->second = value;
        two->second_item = item;
    }
}

/* Makes the items of listed segments for tau in [a, b]. The objective: money, or shares of the limits with
 * wants_any. */
static void items_make(struct exact *x, const uint32_t *ids, uint32_t id_count, double a, double b)
{
    const struct cost_model *m = x->model;
    uint32_t count = 0, layer = 0;
    x->a = a;
    x->b = b;
    for (uint32_t i = 0; i < id_count; i++) {
        const struct segment *s = &x->segments[ids[i]];
        uint32_t k = cost_units_least(&s->time, b, m->limit[s->type]);
        if (k == 0) continue;
        double et = cost_et(&s->time, k);
        double money = m->usd_per_rate * m->price[s->type] * k * (et > a ? et : a);
        while (layer <= s->first) x->begin[layer++] = count;
        x->items[count++] = (struct item){.weight = x->wants_any ? (double)k / m->limit[s->type] : money,
                                          .segment = ids[i],
                                          .k = k,
                                          .last = s->last,
                                          .type = s->type,
                                          .next = s->next};
    }
    while (layer <= x->layer_count) x->begin[layer++] = count;
}

/* Least paths of the layers ahead, with multipliers. */
static void ahead_find(struct exact *x)
{
    for (uint32_t n = 0; n < x->node_count; n++)
        *ahead_of(x, x->layer_count, n) = (struct least_two){.type = NO_TYPE};
    for (uint32_t l = x->layer_count; l-- > 0;) {
        for (uint32_t n = 0; n < x->node_count; n++) *ahead_of(x, l, n) = nothing;
        for (uint32_t i = x->begin[l]; i < x->begin[l + 1]; i++) {
            struct item *item = &x->items[i];
            item->least = item->weight + x->multiplier[item->type] * item->k +
                          least_without(ahead_of(x, item->last + 1u, item->next), item->type);
            least_add(ahead_of(x, l, x->model->node[item->type]), item->least, item->type, i);
        }
    }
}

/* What all units together are worth at the multipliers. */
static double worth_of_limits(const struct exact *x)
{
    double worth = 0;
    for (uint32_t t = 0; t < x->type_count; t++) worth += x->multiplier[t] * x->model->limit[t];
    return worth;
}

/* What sums of weights with multipliers, less the worth of the limits, may be off by where they come to about `value`:
 * at most 2 L + 8 additions of what is no greater than both together, and T + 8 of the worth (Higham, "Accuracy and
 * Stability of Numerical Algorithms", 2002, section 4.2). Multipliers on large limits can be worth many times the cost,
 * and then this exceeds GAP. */
static double rounding(const struct exact *x, double value, double worth)
{
    double additions = 2.0 * x->layer_count + 8;
    return DBL_EPSILON / 2 * (additions * fabs(value) + (additions + x->type_count) * worth);
}

/* Drops the items that no path below the cutoff contains; ahead_find() has run. */
static void items_drop(struct exact *x)
{
    double worth = worth_of_limits(x), cutoff = x->cutoff + worth + rounding(x, x->cutoff, worth);
    uint32_t count = 0;
    for (uint32_t l = 0; l <= x->layer_count; l++)
        for (uint32_t n = 0; n < x->node_count; n++)
            *behind_of(x, l, n) = l > 0 ? nothing : (struct least_two){.type = NO_TYPE};
    for (uint32_t l = 0; l < x->layer_count; l++) {
        uint32_t begin = x->begin[l], end = x->begin[l + 1];
        x->begin[l] = count;
        for (uint32_t i = begin; i < end; i++) {
            struct item item = x->items[i];
            double before = least_without(behind_of(x, l, x->model->node[item.type]), item.type);
            if (!(before + item.least < cutoff)) continue;
            least_add(behind_of(x, item.last + 1u, item.next),
                      before + item.weight + x->multiplier[item.type] * item.k, item.type, 0);
            x->items[count++] = item;
        }
    }
    x->begin[x->layer_count] = count;
}

static void path_item(struct exact *x, const struct item *item, uint32_t layer)
{
    for (uint32_t l = layer; l <= item->last; l++) x->types[l] = item->type;
}

/* What the path in types[] comes to where segments are coupled; infinite: it is none in this interval. */
static double path_weight(struct exact *x)
{
    const struct cost_model *m = x->model;
    const uint32_t count = cost_stages(m, x->types, x->stages);
    uint32_t node;
    double weight = x->wants_any ? 0 : m->usd_per_rate * cost_nodes_price(m, x->stages, count) * x->a;
    if (cost_memory_lack(m, x->stages, count, &node) > 0) return INFINITY;
    memset(x->units, 0, x->type_count * sizeof *x->units);
    for (uint32_t s = 0; s < count; s++) {
        const struct cost_stage *stage = &x->stages[s];
        const uint32_t limit = m->limit[stage->type], k = cost_units_least(&stage->time, x->b, limit);
        const double et = k > 0 ? cost_et(&stage->time, k) : 0;
        x->units[stage->type] += k;
        if (k == 0 || x->units[stage->type] > limit) return INFINITY;
        weight += x->wants_any ? (double)k / limit : m->usd_per_rate * m->price[stage->type] * k * fmax(et, x->a);
    }
    return weight;
}

/* A path in types[] that the limits allow, or, with is_within false, do not: it may still be a good plan at another
 * tau. */
static void path_offer(struct exact *x, double weight, bool is_within)
{
    if (is_within && weight < x->found) {
        x->found = weight;
        memcpy(x->found_types, x->types, x->layer_count * sizeof *x->types);
    }
    if (!x->offers || !(weight < x->cutoff)) return;
    double score = search_evaluate(x->search, x->types);
    if (!x->wants_any && x->search->is_feasible && score * (1 - GAP) < x->cutoff) x->cutoff = score * (1 - GAP);
}

/* The least path: its units in used[], its weight, whether limits allow it. */
static bool path_take(struct exact *x, double *weight)
{
    uint32_t before = NO_TYPE;
    bool is_within = true;
    *weight = 0;
    memset(x->used, 0, x->type_count * sizeof *x->used);
    for (uint32_t l = 0, node = ahead_node(x); l < x->layer_count;) {
        const struct least_two *two = ahead_of(x, l, node);
        const struct item *item = &x->items[two->type != before ? two->best_item : two->second_item];
        x->used[item->type] += item->k;
        is_within = is_within && x->used[item->type] <= x->model->limit[item->type];
        *weight += item->weight;
        before = item->type;
        path_item(x, item, l);
        l = item->last + 1u;
        node = item->next;
    }
    if (x->is_coupled && is_within) {
        const double coupled = path_weight(x);
        is_within = isfinite(coupled);
        if (is_within) *weight = coupled;
    }
    path_offer(x, *weight, is_within);
    return is_within;
}

/* Moves the multipliers along the path's excess over the limits, in shares of these; false if nothing pulls at them. */
static bool multipliers_move(struct exact *x, double bound, double pace)
{
    const uint32_t *limit = x->model->limit;
    double norm = 0;
    for (uint32_t t = 0; t < x->type_count; t++) {
        if (x->used[t] <= limit[t] && x->multiplier[t] == 0) continue;
        double excess = (double)x->used[t] / limit[t] - 1;
        norm += excess * excess;
    }
    if (norm == 0) return false;
    double target = x->cutoff < x->found ? x->cutoff : x->found;
    if (target > 2 * fabs(bound)) target = bound + 0.1 * fabs(bound); /* no good plan is known yet */
    double step = pace * (target - bound) / norm;
    for (uint32_t t = 0; t < x->type_count; t++) {
        if (x->used[t] <= limit[t] && x->multiplier[t] == 0) continue;
        double moved = x->multiplier[t] + step * ((double)x->used[t] / limit[t] - 1) / limit[t];
        x->multiplier[t] = moved > 0 ? moved : 0;
    }
    return true;
}

/* Raises the bound of the items by multipliers; infinite: there is no path. is_solved: the least is found, and it is
 * the bound. */
static double ascend(struct exact *x, bool *is_solved)
{
    double best = -INFINITY, pace = 1, weight;
    uint32_t stalled = 0;
    *is_solved = false;
    for (uint32_t step = 0; step < ASCENT_STEPS; step++) {
        ahead_find(x);
        const double least = ahead_of(x, 0, ahead_node(x))->best;
        if (isinf(least)) return INFINITY;
        double worth = worth_of_limits(x), bound = least - worth;
        bound -= rounding(x, bound, worth);
        if (bound > best) {
            best = bound;
            stalled = 0;
            memcpy(x->multiplier_best, x->multiplier, x->type_count * sizeof *x->multiplier);
        } else if (++stalled == 3) {
            pace /= 2;
            stalled = 0;
        }
        if (best >= x->cutoff) break;
        bool is_within = path_take(x, &weight);
        *is_solved = x->found * (1 - GAP) <= best || (is_within && x->wants_any);
        if (*is_solved || best >= x->cutoff || cut(x) || !multipliers_move(x, bound, pace)) break;
    }
    memcpy(x->multiplier, x->multiplier_best, x->type_count * sizeof *x->multiplier);
    return *is_solved ? x->found : best;
}

/* --- depth-first search ------------------------------------------------------------------------ */

static int item_compare(const void *left, const void *right)
{
    const struct item *a = left, *b = right;
    if (a->least != b->least) return a->least < b->least ? -1 : 1;
    return a->segment < b->segment ? -1 : a->segment > b->segment;
}

/* Whether the path is one. */
static bool dive_end(struct exact *x, uint32_t count, double weight)
{
    const struct item *item;
    uint32_t layer = 0;
    for (uint32_t s = 0; s < count; s++, layer = item->last + 1u) {
        item = &x->items[x->trail[s]];
        path_item(x, item, layer);
    }
    if (x->is_coupled) weight = path_weight(x);
    if (isinf(weight)) return false;
    path_offer(x, weight, true);
    return true;
}

/* What the layers ahead may want of every type, and which types are scarce. */
static void reserve_find(struct exact *x)
{
    uint32_t T = x->type_count;
    memset(x->reserve + (size_t)x->layer_count * T, 0, T * sizeof *x->reserve);
    for (uint32_t l = x->layer_count; l-- > 0 && !cut(x);) {
        uint32_t *reserve = x->reserve + (size_t)l * T;
        memset(reserve, 0, T * sizeof *reserve);
        for (uint32_t i = x->begin[l]; i < x->begin[l + 1]; i++) {
            const struct item *item = &x->items[i];
            const uint32_t *behind = x->reserve + (size_t)(item->last + 1) * T;
            for (uint32_t t = 0; t < T; t++) {
                uint64_t units = behind[t] + (uint64_t)(t == item->type ? item->k : 0);
                if (units > reserve[t]) reserve[t] = units > UINT32_MAX ? UINT32_MAX : (uint32_t)units;
            }
        }
    }
    x->scarce_count = 0;
    for (uint32_t t = 0; t < T; t++)
        if (x->reserve[t] > x->model->limit[t]) x->scarce[x->scarce_count++] = t;
    bool is_narrow = x->scarce_count <= LABEL_TYPES;
    for (uint32_t i = 0; i < x->scarce_count; i++) is_narrow = is_narrow && x->model->limit[x->scarce[i]] <= UINT16_MAX;
    /* Beginnings that are coupled with what is ahead cannot be compared. */
    if (!is_narrow || x->is_coupled) x->scarce_count = 0;
}

/* Whether a beginning up to a layer, with used[], is no better than one that came before; else it is kept for those to
 * come. */
static bool is_dominated(struct exact *x, uint32_t layer, uint32_t type, double weight)
{
    struct label label = {.weight = x->wants_any ? 0 : weight, .state = layer * x->type_count + type};
    struct label_group *group = &x->groups[label.state % LABEL_GROUPS];
    const uint32_t *reserve = x->reserve + (size_t)layer * x->type_count;
    for (uint32_t i = 0; i < x->scarce_count; i++) {
        uint32_t t = x->scarce[i], limit = x->model->limit[t];
        /* As long as enough is left for any way ahead, it does not matter how much. */
        uint64_t free_from = reserve[t] < limit ? limit - reserve[t] : 0;
        label.used[i] = (uint16_t)(x->used[t] > free_from ? x->used[t] : free_from);
    }
    uint32_t count = group->count < LABEL_PLACES ? group->count : LABEL_PLACES;
    for (uint32_t p = 0; p < count; p++) {
        const struct label *other = &group->labels[p];
        if (other->state != label.state || other->weight > label.weight) continue;
        uint32_t more = 0;
        for (uint32_t i = 0; i < LABEL_TYPES; i++) more |= other->used[i] > label.used[i];
        if (!more) return true;
    }
    group->labels[group->count++ % LABEL_PLACES] = label;
    return false;
}

/* A beginning goes on with an item, or goes back; returns what its node costs where it is the first there. */
static double nodes_enter(struct exact *x, const struct item *item, uint32_t first)
{
    const struct cost_model *m = x->model;
    const uint32_t node = m->node[item->type];
    x->held[node] += m->weight_bytes[item->last + 1u] - m->weight_bytes[first];
    return x->visits[node]++ == 0 && !x->wants_any ? m->usd_per_rate * m->node_price[node] * x->a : 0;
}
static void nodes_leave(struct exact *x, const struct item *item, uint32_t first)
{
    const struct cost_model *m = x->model;
    const uint32_t node = m->node[item->type];
    if (--x->visits[node] == 0)
        x->held[node] = 0;
    else
        x->held[node] -= m->weight_bytes[item->last + 1u] - m->weight_bytes[first];
}
/* Far enough for what held[] may be off by rounding. */
#define MEMORY_SLACK (1 + 1e-9)

/* Goes on from a layer, on a node; `reduced` is the weight with multipliers, less what the limits are worth and what rounding may
 * add. False: to end now. */
static bool dive(struct exact *x, uint32_t layer, uint32_t depth, uint32_t before, uint32_t node, double reduced,
                 double weight)
{
    const struct cost_model *m = x->model;
    if (layer == x->layer_count) return !(dive_end(x, depth, weight) && x->wants_any);
    if (x->scarce_count > 0 && depth > 0 && is_dominated(x, layer, before, weight)) return true;
    for (uint32_t i = x->begin[layer]; i < x->begin[layer + 1]; i++) {
        const struct item *item = &x->items[i];
        double least = x->found * (1 - GAP) < x->cutoff ? x->found * (1 - GAP) : x->cutoff;
        if (reduced + item->least >= least) break;
        if (item->type == before || x->used[item->type] + item->k > m->limit[item->type]) continue;
        if (depth > 0 && m->node[item->type] != node) continue;
        if (++x->nodes > x->nodes_max || (x->nodes % DIVE_LOOK == 0 && cut(x))) return false;
        x->used[item->type] += item->k;
        x->trail[depth] = i;
        const double entry = x->is_coupled ? nodes_enter(x, item, layer) : 0;
        bool goes_on = true;
        if (!(x->held[m->node[item->type]] > m->node_memory[m->node[item->type]] * MEMORY_SLACK))
            goes_on = dive(x, item->last + 1u, depth + 1, item->type, item->next,
                           reduced + (item->weight + x->multiplier[item->type] * item->k) + entry,
                           weight + item->weight);
        x->used[item->type] -= item->k;
        if (x->is_coupled) nodes_leave(x, item, layer);
        if (!goes_on) return false;
    }
    return true;
}

/* Searches the items that are left; true: to the end, so that `found`, or the cutoff, is the least. */
static bool search_depth_first(struct exact *x, uint64_t nodes_max)
{
    ahead_find(x);
    for (uint32_t l = 0; l < x->layer_count; l++)
        qsort(x->items + x->begin[l], x->begin[l + 1] - x->begin[l], sizeof *x->items, item_compare);
    memset(x->used, 0, x->type_count * sizeof *x->used);
    x->nodes = 0;
    x->nodes_max = nodes_max;
    reserve_find(x);
    if (x->is_cut) return false;
    for (uint32_t g = 0; g < LABEL_GROUPS; g++) x->groups[g].count = 0;
    double worth = worth_of_limits(x), least = x->found < x->cutoff ? x->found : x->cutoff;
    memset(x->held, 0, x->node_count * sizeof *x->held);
    memset(x->visits, 0, x->node_count * sizeof *x->visits);
    return dive(x, 0, 0, NO_TYPE, 0, -worth - rounding(x, least, worth), 0);
}

/* --- throughput ------------------------------------------------------------------------------- */

/* Whether a plan keeps to tau within the limits: it is in found_types. False with is_cut: not known. */
static bool keeps_to(struct exact *x, double tau)
{
    bool is_solved;
    x->wants_any = true;
    x->found = INFINITY;
    x->cutoff = x->type_count * (1 + GAP); /* of shares of limits */
    memset(x->multiplier, 0, x->type_count * sizeof *x->multiplier);
    items_make(x, x->ids, x->segment_count, 0, tau);
    double bound = ascend(x, &is_solved);
    if (!is_solved && bound < x->cutoff && !x->is_cut) {
        ahead_find(x);
        items_drop(x);
        search_depth_first(x, UINT64_MAX);
    }
    x->wants_any = false;
    return !isinf(x->found);
}

/* The fastest provision of a plan: as what is asked for cannot be reached. */
static double tau_of(const struct cost_model *m, const type_index *types, struct cost_stage *stages, uint32_t *count)
{
    struct cost_model fast = *m;
    fast.tau_max = 0;
    *count = cost_stages(m, types, stages);
    if (provision_exact(&fast, stages, *count).throughput == 0) return INFINITY;
    double tau = 0;
    for (uint32_t i = 0; i < *count; i++) {
        double et = cost_et(&stages[i].time, stages[i].k);
        if (et > tau) tau = et;
    }
    return tau;
}

/* No stage, on all units of any type, computes a layer faster than this. */
static double tau_least(const struct cost_model *m)
{
    double tau = 0;
    for (uint32_t l = 0; l < m->layer_count; l++) {
        double least = INFINITY;
        for (uint32_t t = 0; t < m->type_count; t++) {
            struct cost_time time = m->times[(size_t)l * m->type_count + t];
            time.move = time.move_shared = 0;
            double et = cost_et(&time, m->limit[t]);
            if (et < least) least = et;
        }
        if (least > tau) tau = least;
    }
    return tau;
}

/* All layers on one type; its fastest. */
static double single_type(const struct cost_model *m, uint32_t type, type_index *types, struct cost_stage *stages)
{
    uint32_t count;
    for (uint32_t l = 0; l < m->layer_count; l++) types[l] = (type_index)type;
    return tau_of(m, types, stages, &count);
}

/* Looks for a plan that keeps to tau from the first layer on: each stage is on the type whose units that are left reach
 * farthest, and takes as few of them as suffice. O(L T) for each stage. False: this finds none. types[L], left[T]. */
static bool greedy_keeps_to(const struct cost_model *m, double tau, type_index *types, uint32_t *left)
{
    uint32_t L = m->layer_count, T = m->type_count;
    memcpy(left, m->limit, T * sizeof *left);
    for (uint32_t first = 0, end; first < L; first = end) {
        struct cost_time time = {0};
        uint32_t type = NO_TYPE;
        end = first;
        for (uint32_t t = 0; t < T; t++) {
            struct cost_time sum = {0};
            if (left[t] == 0 || (first > 0 && types[first - 1] == t)) continue;
            for (uint32_t last = first; last < L && sum.compute + sum.compute_shared / left[t] <= tau; last++) {
                cost_compute_add(m, last, t, &sum);
                cost_move_set(m, first, last, t, &sum);
                if (last < end || !(cost_et(&sum, left[t]) <= tau)) continue;
                end = last + 1;
                type = t;
                time = sum;
            }
        }
        if (type == NO_TYPE) return false;
        left[type] -= cost_units_least(&time, tau, left[type]);
        for (uint32_t l = first; l < end; l++) types[l] = (type_index)type;
    }
    return true;
}

/* The best that one type, and then the greedy search at ever smaller tau, find: the tau of types[L]. */
static status fast_plan_find(struct exact *x, const struct cost_model *m, double below, type_index *types,
                             struct cost_stage *stages, double *least)
{
    uint32_t L = m->layer_count, T = m->type_count, type = 0, count;
    double tau = INFINITY;
    for (uint32_t t = 0; t < T; t++) {
        double et = single_type(m, t, types, stages);
        if (et < tau) {
            tau = et;
            type = t;
        }
    }
    single_type(m, type, types, stages);
    type_index *tried = malloc(L * sizeof *tried);
    uint32_t *left = malloc(T * sizeof *left);
    if (tried && left)
        for (double low = below; tau - low > GREEDY_GAP * tau && !cut(x);) {
            double middle = low > 0 ? sqrt(low) * sqrt(tau) : tau / 2;
            bool is_found = greedy_keeps_to(m, middle, tried, left);
            double et = is_found ? tau_of(m, tried, stages, &count) : INFINITY;
            if (et < tau) {
                tau = et;
                memcpy(types, tried, L * sizeof *types);
            } else {
                low = middle;
            }
        }
    bool is_short = tried == NULL || left == NULL;
    free(tried);
    free(left);
    if (is_short) FAIL(MEMORY, "no memory for a plan of %u layers on %u types", L, T);
    *least = tau;
    return ST_OK;
}

/* As exact_fastest, of a search that is not open yet but knows when to stop. types[L], stages[L]. */
static status fastest_find(struct exact *x, const struct cost_model *m, type_index *types, struct cost_stage *stages,
                           struct fastest *fastest)
{
    double below = tau_least(m), tau = INFINITY;
    TRY(fast_plan_find(x, m, below, types, stages, &tau));
    if (x->offers) search_evaluate(x->search, types);
    status st = exact_open(x, m, tau);
    if (st != ST_OK && st != ST_INVALID) return st;
    /* With too many possible stages this plan stands, unproven. */
    while (st == ST_OK && below < tau && !cut(x)) {
        double middle = sqrt(below) * sqrt(tau), next = nextafter(tau, 0);
        if (!(tau - below > FASTEST_GAP * tau) || !(middle < next)) middle = next;
        if (keeps_to(x, middle)) {
            memcpy(types, x->found_types, m->layer_count * sizeof *types);
            tau = tau_of(m, types, stages, &fastest->stage_count);
        } else if (!x->is_cut) {
            below = nextafter(middle, INFINITY);
        }
    }
    tau = tau_of(m, types, stages, &fastest->stage_count);
    fastest->is_proven = !(below < tau);
    fastest->throughput = 1 / tau;
    fastest->bound = fastest->is_proven ? fastest->throughput : 1 / below;
    fastest->ended_by = x->search->ended_by;
    return ST_OK;
}

status exact_fastest(const struct cost_model *model, const struct search_options *options, type_index *types,
                     struct cost_stage *stages, struct fastest *fastest)
{
    const struct search_options none = {0};
    struct search search;
    *fastest = (struct fastest){0};
    TRY(search_open(&search, model, options ? options : &none));
    struct exact x = {.search = &search};
    status st = fastest_find(&x, model, types, stages, fastest);
    exact_close(&x);
    search_close(&search);
    return st;
}

/* --- cost ------------------------------------------------------------------------------------- */

static status ids_room(struct exact *x, size_t count)
{
    if (x->id_count + count <= x->id_room) return ST_OK;
    size_t room = 2 * x->id_room + count;
    uint32_t *ids = realloc(x->ids, room * sizeof *ids);
    if (ids == NULL) FAIL(MEMORY, "no memory for %zu possible stages of open intervals", room);
    x->ids = ids;
    x->id_room = room;
    return ST_OK;
}

/* Where to split [a, b], whose least path is the one found, the bound being below the cutoff: where the path no longer
 * is so if only slower tau remain. */
static double split_at_plan(struct exact *x, double a, double b)
{
    const struct cost_model *m = x->model;
    uint32_t count = cost_stages(m, x->found_types, x->stages);
    double low = a, high = a, nodes = cost_nodes_price(m, x->stages, count);
    for (uint32_t s = 0; s < count; s++) {
        struct cost_stage *stage = &x->stages[s];
        stage->k = cost_units_least(&stage->time, b, m->limit[stage->type]);
        stage->et = cost_et(&stage->time, stage->k);
        if (stage->et > high) high = stage->et;
    }
    while (high - low > FASTEST_GAP * high) {
        double middle = low + (high - low) / 2, weight = nodes * middle;
        for (uint32_t s = 0; s < count; s++)
            weight += m->price[x->stages[s].type] * x->stages[s].k * fmax(middle, x->stages[s].et);
        if (m->usd_per_rate * weight < x->cutoff)
            low = middle;
        else
            high = middle;
    }
    return high;
}

/* Bounds [a, b], a part of `whole`, whose segments are the only ones that matter; pushes it if something in it may be
 * cheaper than the best plan. */
static status interval_bound(struct exact *x, const struct interval *whole, double a, double b)
{
    struct interval part = {.a = a, .b = b, .bound = whole->bound, .depth = whole->depth + 1, .id_begin = x->id_count};
    bool is_solved;
    uint64_t nodes_max = a < b && part.depth < 40 ? (uint64_t)DIVE_NODES << part.depth : UINT64_MAX;
    x->found = INFINITY;
    items_make(x, x->ids + whole->id_begin, whole->id_count, a, b);
    double bound = ascend(x, &is_solved);
    if (bound < x->cutoff && !x->is_cut) {
        ahead_find(x);
        items_drop(x);
        if (!is_solved && search_depth_first(x, nodes_max)) {
            bound = x->found;
            is_solved = true;
        }
    }
    if (x->is_cut) bound = part.bound;
    if (bound > part.bound) part.bound = bound;
    if (part.bound >= x->cutoff) return ST_OK;

    part.split = is_solved ? split_at_plan(x, a, b) : a > 0 ? sqrt(a) * sqrt(b) : b / 2;
    if (!(part.split > a)) part.split = b;
    part.id_count = x->begin[x->layer_count];
    TRY(ids_room(x, part.id_count));
    for (uint32_t i = 0; i < part.id_count; i++) x->ids[x->id_count + i] = x->items[i].segment;
    x->id_count += part.id_count;
    if (x->interval_count == x->interval_room) {
        uint32_t room = x->interval_room ? 2 * x->interval_room : 64;
        struct interval *intervals = realloc(x->intervals, room * sizeof *intervals);
        if (intervals == NULL) FAIL(MEMORY, "no memory for %u open intervals", room);
        x->intervals = intervals;
        x->interval_room = room;
    }
    x->intervals[x->interval_count++] = part;
    return ST_OK;
}

/* Takes the last interval and bounds its halves; the one of slower plans, whose units are fewer, comes last. */
static status interval_split(struct exact *x)
{
    struct interval whole = x->intervals[--x->interval_count];
    uint32_t first = x->interval_count;
    size_t end = whole.id_begin + whole.id_count; /* of what the stack holds; the halves' come behind it */
    if (whole.bound < x->cutoff) {
        TRY(interval_bound(x, &whole, whole.a, nextafter(whole.split, 0)));
        TRY(interval_bound(x, &whole, whole.split, whole.b));
    }
    memmove(x->ids + whole.id_begin, x->ids + end, (x->id_count - end) * sizeof *x->ids);
    x->id_count -= whole.id_count;
    for (uint32_t i = first; i < x->interval_count; i++) x->intervals[i].id_begin -= whole.id_count;
    return ST_OK;
}

/* The least cost over all tau up to the model's, a feasible plan being known. */
static status cheapest_find(struct exact *x)
{
    struct search *s = x->search;
    struct interval all = {.id_count = x->segment_count};
    double least = INFINITY;
    for (uint32_t i = 0; i < x->segment_count; i++) {
        double et = cost_et(&x->segments[i].time, 1);
        if (et > all.b) all.b = et; /* no stage is slower, whatever tau allows, but for a link that cuts share */
    }
    all.b += x->model->links_most;
    if (all.b > x->model->tau_max) all.b = x->model->tau_max;
    x->cutoff = s->best_score * (1 - GAP);
    memset(x->multiplier, 0, x->type_count * sizeof *x->multiplier);
    TRY(interval_bound(x, &all, 0, all.b));
    while (x->interval_count > 0 && !cut(x)) TRY(interval_split(x));
    for (uint32_t i = 0; i < x->interval_count; i++)
        if (x->intervals[i].bound < least) least = x->intervals[i].bound;
    s->is_proven = x->interval_count == 0;
    s->lower_bound = least < s->best_score ? least : s->best_score;
    return ST_OK;
}

status method_exact(struct search *s)
{
    const struct cost_model *m = s->model;
    struct exact x = {.search = s, .offers = true};
    status st = exact_open(&x, m, m->tau_max);
    bool is_feasible = st == ST_OK && !x.is_cut && keeps_to(&x, m->tau_max);
    if (is_feasible) {
        st = cheapest_find(&x);
    } else if (st == ST_OK && !x.is_cut) {
        /* The fastest plan is the nearest to a feasible one. */
        struct exact fast = {.search = s, .offers = true};
        struct cost_stage *stages = calloc(m->layer_count, sizeof *stages);
        type_index *types = calloc(m->layer_count, sizeof *types);
        struct fastest fastest = {0};
        s->is_proven = true;
        if (stages == NULL || types == NULL)
            st = status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for %u stages", m->layer_count);
        else
            st = fastest_find(&fast, m, types, stages, &fastest);
        if (st == ST_OK) search_evaluate(s, types);
        exact_close(&fast);
        free(stages);
        free(types);
    }
    exact_close(&x);
    return st;
}
