/* Least paths over stages, their bounds, and the search for the least path within limits: the inner part of
 * method exact (method_exact.c explains the whole). A proof finds some thousands of paths. */
#include "sched/exact_paths.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"

#define SEGMENTS_MAX ((uint32_t)1 << 22) /* 400 MiB, with all that belongs to a segment */
#define ASCENT_STEPS 40                  /* of the multipliers, an interval */
#define DIVE_LOOK    4096                /* nodes between two looks at the clock */
#define LOOK_NS      5000000u

void exact_close(struct exact *x)
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
    free(x->place_of);
    free(x->stages);
}

bool exact_cut(struct exact *x)
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

/* Whether a stage on a place can follow a stage on a type. */
static bool has_next(const struct cost_model *m, uint32_t type, uint32_t place)
{
    for (uint32_t t = 0; t < m->type_count; t++)
        if (t != type && m->place[t] == place) return true;
    return false;
}

/* Adds a segment before a stage on a place. */
static status segment_place_add(struct exact *x, struct segment segment, uint32_t place, double tau)
{
    const struct cost_model *m = x->model;
    const bool is_last = segment.last + 1u == x->layer_count;
    if (!is_last && !has_next(m, segment.type, place)) return ST_OK;
    segment.time.move +=
        cost_links_seconds(m, segment.first, segment.last, segment.type, is_last ? 0 : m->place_nodes[place]);
    segment.place = (uint16_t)m->place[segment.type];
    segment.next = is_last ? 0 : (uint16_t)place;
    return cost_units_least(&segment.time, tau, m->limit[segment.type]) > 0 ? segment_add(x, &segment) : ST_OK;
}

/* Adds the segment once for each place that the stage behind it may be on. */
static status segment_places_add(struct exact *x, const struct segment *segment, double tau)
{
    const bool is_last = segment->last + 1u == x->layer_count;
    for (uint32_t place = 0; place < (is_last ? 1 : x->place_count); place++)
        TRY(segment_place_add(x, *segment, place, tau));
    return ST_OK;
}

/* Adds the segments that begin at a layer and keep to tau within their limits.
 * Sums in the order of cost_segment. */
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
            cost_stage_end(m, first, last, t, &segment.time);
            TRY(segment_places_add(x, &segment, tau));
        }
    }
    return ST_OK;
}

status exact_open(struct exact *x, const struct cost_model *m, double tau)
{
    uint32_t L = m->layer_count, T = m->type_count;
    x->model = m;
    x->layer_count = L;
    x->type_count = T;
    x->node_count = m->node_count;
    x->place_count = m->place_count;
    x->first_rows = 0;
    while (x->first_rows < L && !(m->row_bytes[x->first_rows + 1] > 0)) x->first_rows++;
    x->is_coupled = m->node_count > 1 || m->has_node_memory || m->has_node_price;
    x->begin = calloc(L + 1, sizeof *x->begin);
    x->ahead = calloc(2 * ((size_t)L + 1) * x->place_count, sizeof *x->ahead);
    x->held = calloc(m->node_count, sizeof *x->held);
    x->visits = calloc(m->node_count, sizeof *x->visits);
    x->place_of = calloc(L, sizeof *x->place_of);
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
        x->scarce && x->reserve && x->held && x->visits && x->place_of && sums)
        for (uint32_t l = 0; l < L && st == ST_OK && !exact_cut(x); l++) st = segments_begin(x, l, tau, sums);
    else
        st = status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for %u layers on %u types", L, T);
    free(sums);
    if (st != ST_OK) return st;
    x->behind = x->ahead + ((size_t)L + 1) * x->place_count;
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

/* Least paths from a layer on that begin on a place; and those up to a layer whose next stage is on a
 * place. */
static inline struct least_two *ahead_of(const struct exact *x, uint32_t layer, uint32_t place)
{
    return &x->ahead[(size_t)layer * x->place_count + place];
}
static inline struct least_two *behind_of(const struct exact *x, uint32_t layer, uint32_t place)
{
    return &x->behind[(size_t)layer * x->place_count + place];
}

/* The place on which the least path of all layers begins. */
static uint32_t ahead_place(const struct exact *x)
{
    uint32_t least = 0;
    for (uint32_t n = 1; n < x->place_count; n++)
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

void exact_items_make(struct exact *x, const uint32_t *ids, uint32_t id_count, double a, double b)
{
    const struct cost_model *m = x->model;
    uint32_t count = 0, layer = 0;
    x->a = a;
    x->b = b;
    for (uint32_t i = 0; i < id_count; i++) {
        const struct segment *segment = &x->segments[ids[i]];
        uint32_t k = cost_units_least(&segment->time, b, m->limit[segment->type]);
        if (k == 0) continue;
        double et = cost_et(&segment->time, k);
        double money = m->usd_per_rate * m->price[segment->type] * k * (et > a ? et : a);
        while (layer <= segment->first) x->begin[layer++] = count;
        x->items[count++] = (struct item){.weight = x->wants_any ? (double)k / m->limit[segment->type] : money,
                                          .segment = ids[i],
                                          .k = k,
                                          .last = segment->last,
                                          .type = segment->type,
                                          .place = segment->place,
                                          .next = segment->next};
    }
    while (layer <= x->layer_count) x->begin[layer++] = count;
}

/* Finds the least paths of the layers ahead, with multipliers. */
static void ahead_find(struct exact *x)
{
    for (uint32_t n = 0; n < x->place_count; n++) *ahead_of(x, x->layer_count, n) = (struct least_two){.type = NO_TYPE};
    for (uint32_t l = x->layer_count; l-- > 0;) {
        for (uint32_t n = 0; n < x->place_count; n++) *ahead_of(x, l, n) = nothing;
        for (uint32_t i = x->begin[l]; i < x->begin[l + 1]; i++) {
            struct item *item = &x->items[i];
            item->least = item->weight + x->multiplier[item->type] * item->k +
                          least_without(ahead_of(x, item->last + 1u, item->next), item->type);
            least_add(ahead_of(x, l, item->place), item->least, item->type, i);
        }
    }
}

/* The worth of all units at the multipliers. */
static double worth_of_limits(const struct exact *x)
{
    double worth = 0;
    for (uint32_t t = 0; t < x->type_count; t++) worth += x->multiplier[t] * x->model->limit[t];
    return worth;
}

/* A bound of the rounding of a sum of weights with multipliers, less the worth of the limits, that is about
 * `value`: at most 2 L + 8 additions of numbers no greater than value + worth, and T of the worth (Higham,
 * "Accuracy and Stability of Numerical Algorithms", 2002, section 4.2). Multipliers on large limits can be
 * worth many times the cost, and then the bound exceeds GAP. */
static double rounding(const struct exact *x, double value, double worth)
{
    double additions = 2.0 * x->layer_count + 8;
    return DBL_EPSILON / 2 * (additions * fabs(value) + (additions + x->type_count) * worth);
}

void exact_items_drop(struct exact *x)
{
    ahead_find(x);
    double worth = worth_of_limits(x), cutoff = x->cutoff + worth + rounding(x, x->cutoff, worth);
    uint32_t count = 0;
    for (uint32_t l = 0; l <= x->layer_count; l++)
        for (uint32_t n = 0; n < x->place_count; n++)
            *behind_of(x, l, n) = l > 0 ? nothing : (struct least_two){.type = NO_TYPE};
    for (uint32_t l = 0; l < x->layer_count; l++) {
        uint32_t begin = x->begin[l], end = x->begin[l + 1];
        x->begin[l] = count;
        for (uint32_t i = begin; i < end; i++) {
            struct item item = x->items[i];
            double before = least_without(behind_of(x, l, item.place), item.type);
            if (!(before + item.least < cutoff)) continue;
            least_add(behind_of(x, item.last + 1u, item.next), before + item.weight + x->multiplier[item.type] * item.k,
                      item.type, 0);
            x->items[count++] = item;
        }
    }
    x->begin[x->layer_count] = count;
}

static void path_item(struct exact *x, const struct item *item, uint32_t layer)
{
    for (uint32_t l = layer; l <= item->last; l++) x->types[l] = item->type;
}

/* The weight of the path in types[] where segments are coupled; infinite:
 * the interval does not allow the path. */
static double path_weight(struct exact *x)
{
    const struct cost_model *m = x->model;
    const uint32_t count = cost_stages(m, x->types, x->stages);
    uint32_t node;
    enum cost_misplaced why;
    double weight = x->wants_any ? 0 : m->usd_per_rate * cost_nodes_price(m, x->stages, count) * x->a;
    if (cost_memory_lack(m, x->stages, count, &node) > 0) return INFINITY;
    if (cost_misplaced(m, x->stages, count, &why) > 0) return INFINITY;
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

/* Takes a path in types[] that the limits allow. With is_within false they do not, but the path may
 * be a good plan at another tau. */
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

/* Takes the least path: sets its units in used[] and its weight; returns whether the limits allow it. */
static bool path_take(struct exact *x, double *weight)
{
    uint32_t before = NO_TYPE;
    bool is_within = true;
    *weight = 0;
    memset(x->used, 0, x->type_count * sizeof *x->used);
    for (uint32_t l = 0, place = ahead_place(x); l < x->layer_count;) {
        const struct least_two *two = ahead_of(x, l, place);
        const struct item *item = &x->items[two->type != before ? two->best_item : two->second_item];
        x->used[item->type] += item->k;
        is_within = is_within && x->used[item->type] <= x->model->limit[item->type];
        *weight += item->weight;
        before = item->type;
        path_item(x, item, l);
        l = item->last + 1u;
        place = item->next;
    }
    if (x->is_coupled && is_within) {
        const double coupled = path_weight(x);
        is_within = isfinite(coupled);
        if (is_within) *weight = coupled;
    }
    path_offer(x, *weight, is_within);
    return is_within;
}

/* Moves the multipliers along the path's excess over the limits,
 * in shares of the limits; false if none moves. */
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

double exact_ascend(struct exact *x, bool *is_solved)
{
    double best = -INFINITY, pace = 1, weight;
    uint32_t stalled = 0;
    *is_solved = false;
    for (uint32_t step = 0; step < ASCENT_STEPS; step++) {
        ahead_find(x);
        const double least = ahead_of(x, 0, ahead_place(x))->best;
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
        if (*is_solved || best >= x->cutoff || exact_cut(x) || !multipliers_move(x, bound, pace)) break;
    }
    memcpy(x->multiplier, x->multiplier_best, x->type_count * sizeof *x->multiplier);
    return *is_solved ? x->found : best;
}

/* --- depth-first search ------------------------------------------------------------------------ */

static int item_compare(const void *left, const void *right)
{
    const struct item *one = left, *other = right;
    if (one->least != other->least) return one->least < other->least ? -1 : 1;
    return one->segment < other->segment ? -1 : one->segment > other->segment;
}

/* Takes the path in trail[]; returns whether it is possible. */
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

/* Finds the units that the layers ahead may want of every type, and the scarce types. */
static void reserve_find(struct exact *x)
{
    uint32_t T = x->type_count;
    memset(x->reserve + (size_t)x->layer_count * T, 0, T * sizeof *x->reserve);
    for (uint32_t l = x->layer_count; l-- > 0 && !exact_cut(x);) {
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
    /* Beginnings coupled with the layers ahead cannot be compared. */
    if (!is_narrow || x->is_coupled) x->scarce_count = 0;
}

/* Whether a beginning up to a layer, with used[], is no better than an earlier one;
 * else it is kept for later ones. */
static bool is_dominated(struct exact *x, uint32_t layer, uint32_t type, double weight)
{
    struct label label = {.weight = x->wants_any ? 0 : weight, .state = layer * x->type_count + type};
    struct label_group *group = &x->groups[label.state % LABEL_GROUPS];
    const uint32_t *reserve = x->reserve + (size_t)layer * x->type_count;
    for (uint32_t i = 0; i < x->scarce_count; i++) {
        uint32_t t = x->scarce[i], limit = x->model->limit[t];
        /* While enough is left for any path ahead, the amount does not matter. */
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

/* Covers the rounding of held[]. */
#define MEMORY_SLACK (1 + 1e-9)

/* A beginning goes on with an item, or goes back; adds the cost of the nodes that the item is the first
 * on. Returns whether its nodes hold the parameters. */
static bool nodes_enter(struct exact *x, const struct item *item, uint32_t first, double *entry)
{
    const struct cost_model *m = x->model;
    const double bytes = cost_held_bytes(m, first, item->last, item->type);
    bool holds = true;
    for (uint64_t left = cost_nodes(m, item->type); left; left &= left - 1) {
        const uint32_t node = (uint32_t)__builtin_ctzll(left);
        x->held[node] += bytes;
        holds = holds && !(x->held[node] > m->node_memory[node] * MEMORY_SLACK);
        if (x->visits[node]++ == 0 && !x->wants_any) *entry += m->usd_per_rate * m->node_price[node] * x->a;
    }
    return holds;
}
static void nodes_leave(struct exact *x, const struct item *item, uint32_t first)
{
    const struct cost_model *m = x->model;
    const double bytes = cost_held_bytes(m, first, item->last, item->type);
    for (uint64_t left = cost_nodes(m, item->type); left; left &= left - 1) {
        const uint32_t node = (uint32_t)__builtin_ctzll(left);
        x->held[node] = --x->visits[node] == 0 ? 0 : x->held[node] - bytes;
    }
}

/* Sets where the item's layers are. Returns whether a run takes them there, behind a beginning (COST_APART,
 * COST_TABLES). */
static bool place_enter(struct exact *x, const struct item *item, uint32_t first)
{
    const struct cost_model *m = x->model;
    const uint32_t place = m->place[item->type];
    bool is_right = true;
    for (uint32_t l = first; l <= item->last; l++) {
        x->place_of[l] = place;
        is_right = is_right && x->place_of[m->leader[l]] == place;
    }
    if (!m->has_shared || x->first_rows >= first || !(m->row_bytes[item->last + 1u] > m->row_bytes[first]))
        return is_right;
    const uint32_t rows = x->place_of[x->first_rows];
    const uint64_t nodes = m->place_nodes[rows];
    return is_right && (rows == place || ((nodes & (nodes - 1)) == 0 && !cost_is_shared(m, item->type)));
}

/* Goes on from a layer, on a place; `reduced` is the weight with multipliers, less the worth of the
 * limits and the bound of rounding. False: the search must end now. */
static bool dive(struct exact *x, uint32_t layer, uint32_t depth, uint32_t before, uint32_t place, double reduced,
                 double weight)
{
    const struct cost_model *m = x->model;
    if (layer == x->layer_count) {
        if (x->is_coupled && exact_cut(x)) return false; /* the links of a path take as long as many of its nodes */
        return !(dive_end(x, depth, weight) && x->wants_any);
    }
    if (x->scarce_count > 0 && depth > 0 && is_dominated(x, layer, before, weight)) return true;
    for (uint32_t i = x->begin[layer]; i < x->begin[layer + 1]; i++) {
        const struct item *item = &x->items[i];
        double least = x->found * (1 - GAP) < x->cutoff ? x->found * (1 - GAP) : x->cutoff;
        if (reduced + item->least >= least) break;
        if (item->type == before || x->used[item->type] + item->k > m->limit[item->type]) continue;
        if (depth > 0 && item->place != place) continue;
        if (++x->nodes > x->nodes_max || (x->nodes % DIVE_LOOK == 0 && exact_cut(x))) return false;
        x->used[item->type] += item->k;
        x->trail[depth] = i;
        double entry = 0;
        bool goes_on = true, fits = true;
        if (x->is_coupled) {
            const bool has_nodes = nodes_enter(x, item, layer, &entry);
            fits = place_enter(x, item, layer) && has_nodes;
        }
        if (fits)
            goes_on =
                dive(x, item->last + 1u, depth + 1, item->type, item->next,
                     reduced + (item->weight + x->multiplier[item->type] * item->k) + entry, weight + item->weight);
        x->used[item->type] -= item->k;
        if (x->is_coupled) nodes_leave(x, item, layer);
        if (!goes_on) return false;
    }
    return true;
}

bool exact_search(struct exact *x, uint64_t nodes_max)
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
