/* The proven optimum, and the greatest throughput, by branch and bound on tau, the seconds an example
 * that the slowest stage may take.
 *
 * For a given tau every stage needs its least k, on its own. A plan is then a path over segments (first
 * layer, last layer, type), neighbours differing in type, and the units of a type on the path must keep to
 * its limit. An interval [a, b] of tau has the bound
 *
 *     least path of  price k max(a, ET(k)),   k the least with ET(k) <= b,
 *
 * since at any tau of the interval a stage has k' >= k units for at least max(a, ET(k')) each, and k ET(k)
 * never falls with k. So a = 0 already bounds well, and an interval in which no k changes is solved. An
 * interval that may have a plan cheaper than the best known one is split; if its least path is a plan, at the
 * tau from which on this plan is too dear. The half of the slower tau comes first.
 *
 * Limits: Lagrange multipliers on the units of each type (Fisher, "The Lagrangian relaxation method
 * for solving integer programming problems", Management Science 1981), moved by Polyak's step, raise
 * the bound; segments that no path cheaper than the best plan can contain are dropped, also for the
 * halves of the interval; the others are searched depth first, bounded by the least path of the layers
 * ahead and by earlier beginnings.
 *
 * Nodes: a segment is also for the nodes of the next one, to which its cut crosses links, and a path
 * goes on there; its own exchange counts. Links that stages share, memory of nodes, prices of nodes and
 * layers that must be on the same nodes couple segments that are not neighbours. The weights of segments
 * leave these out, and so bound the path's weight, which is computed at its end; beginnings that break
 * the latter go no further.
 *
 * A path costs O(number of segments), at most L (L + 1) / 2 T: 13,440 at 20 layers and 64 types. There a
 * proof takes a few intervals and 1 to 5 ms on one core of a rented machine; where limits leave little more
 * than the asked throughput, it can take seconds. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sched/exact_paths.h"

#define DIVE_NODES  2000 /* of a depth-first search; twice as many each time an interval is halved */
#define GREEDY_GAP  1e-6 /* relative, of tau */
#define FASTEST_GAP 1e-9 /* relative: closer than this, the search tries the next smaller tau, and ends */

/* --- throughput ------------------------------------------------------------------------------- */

/* Whether some plan keeps to tau within the limits; found_types is such a plan.
 * False with is_cut: not known. */
static bool keeps_to(struct exact *x, double tau)
{
    bool is_solved;
    x->wants_any = true;
    x->found = INFINITY;
    x->cutoff = x->type_count * (1 + GAP); /* of shares of limits */
    memset(x->multiplier, 0, x->type_count * sizeof *x->multiplier);
    exact_items_make(x, x->ids, x->segment_count, 0, tau);
    double bound = exact_ascend(x, &is_solved);
    if (!is_solved && bound < x->cutoff && !x->is_cut) {
        exact_items_drop(x);
        exact_search(x, UINT64_MAX);
    }
    x->wants_any = false;
    return !isinf(x->found);
}

/* The tau of a plan's fastest provision: an unreachable throughput limit finds it. */
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

/* No plan's slowest stage computes faster than this, on all units of any type. */
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

/* The tau of all layers on one type. */
static double single_type(const struct cost_model *m, uint32_t type, type_index *types, struct cost_stage *stages)
{
    uint32_t count;
    for (uint32_t l = 0; l < m->layer_count; l++) types[l] = (type_index)type;
    return tau_of(m, types, stages, &count);
}

/* Looks for a plan that keeps to tau from the first layer on: each stage is on the type whose
 * remaining units reach farthest, and takes the fewest that suffice. Of types of a place alone; ANY_PLACE: of
 * all. O(L T) for each stage. False: it finds none. types[L], left[T]. */
#define ANY_PLACE UINT32_MAX
static bool greedy_keeps_to(const struct cost_model *m, double tau, uint32_t place, type_index *types, uint32_t *left)
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
            if (place != ANY_PLACE && m->place[t] != place) continue;
            for (uint32_t last = first; last < L && sum.compute + sum.compute_shared / left[t] <= tau; last++) {
                cost_compute_add(m, last, t, &sum);
                cost_move_set(m, first, last, t, &sum);
                struct cost_time whole = sum;
                cost_stage_end(m, first, last, t, &whole);
                if (last < end || !(cost_et(&whole, left[t]) <= tau)) continue;
                end = last + 1;
                type = t;
                time = whole;
            }
        }
        if (type == NO_TYPE) return false;
        left[type] -= cost_units_least(&time, tau, left[type]);
        for (uint32_t l = first; l < end; l++) types[l] = (type_index)type;
    }
    return true;
}

/* Improves a plan by the greedy search at ever smaller tau: types[L] and its tau. tried[L], left[T]. */
static void greedy_improve(struct exact *x, const struct cost_model *m, double below, uint32_t place, type_index *tried,
                           uint32_t *left, type_index *types, struct cost_stage *stages, double *tau)
{
    uint32_t count;
    for (double low = below; *tau - low > GREEDY_GAP * *tau && !exact_cut(x);) {
        double middle = low > 0 ? sqrt(low) * sqrt(*tau) : *tau / 2;
        bool is_found = greedy_keeps_to(m, middle, place, tried, left);
        double et = is_found ? tau_of(m, tried, stages, &count) : INFINITY;
        if (et < *tau) {
            *tau = et;
            memcpy(types, tried, m->layer_count * sizeof *types);
        } else {
            low = middle;
        }
    }
}

/* Finds the best plan of one type, then of the greedy search: of all types, and of those of each place, as a
 * plan that mixes places may be one that a run refuses (COST_TABLES, …). types[L] and its tau. */
static status fast_plan_find(struct exact *x, const struct cost_model *m, double below, type_index *types,
                             struct cost_stage *stages, double *least)
{
    uint32_t L = m->layer_count, T = m->type_count, type = 0;
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
    if (tried && left) {
        greedy_improve(x, m, below, ANY_PLACE, tried, left, types, stages, &tau);
        for (uint32_t place = 0; m->place_count > 1 && place < m->place_count; place++)
            greedy_improve(x, m, below, place, tried, left, types, stages, &tau);
    }
    bool is_short = tried == NULL || left == NULL;
    free(tried);
    free(left);
    if (is_short) FAIL(MEMORY, "no memory for a plan of %u layers on %u types", L, T);
    *least = tau;
    return ST_OK;
}

/* As exact_fastest, for an x that is not open yet but knows when to stop. types[L], stages[L]. */
static status fastest_find(struct exact *x, const struct cost_model *m, type_index *types, struct cost_stage *stages,
                           struct fastest *fastest)
{
    double below = tau_least(m), tau = INFINITY;
    TRY(fast_plan_find(x, m, below, types, stages, &tau));
    if (x->offers) search_evaluate(x->search, types);
    status st = exact_open(x, m, tau);
    if (st != ST_OK && st != ST_INVALID) return st;
    /* If there are too many possible stages, this plan stays, unproven. */
    while (st == ST_OK && below < tau && !exact_cut(x)) {
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

/* Where to split [a, b], whose least path is the found one, with a bound below the cutoff: the tau from which
 * on the path's weight is not below it, at most the tau of the path's slowest stage. */
static double split_at_plan(struct exact *x, double a, double b)
{
    const struct cost_model *m = x->model;
    uint32_t count = cost_stages(m, x->found_types, x->stages);
    double low = a, high = a, nodes = cost_nodes_price(m, x->stages, count);
    for (uint32_t at = 0; at < count; at++) {
        struct cost_stage *stage = &x->stages[at];
        stage->k = cost_units_least(&stage->time, b, m->limit[stage->type]);
        stage->et = cost_et(&stage->time, stage->k);
        if (stage->et > high) high = stage->et;
    }
    while (high - low > FASTEST_GAP * high) {
        double middle = low + (high - low) / 2, weight = nodes * middle;
        for (uint32_t at = 0; at < count; at++)
            weight += m->price[x->stages[at].type] * x->stages[at].k * fmax(middle, x->stages[at].et);
        if (m->usd_per_rate * weight < x->cutoff)
            low = middle;
        else
            high = middle;
    }
    return high;
}

/* Bounds [a, b], a part of `whole`, with the segments of `whole` alone; pushes it if one of its plans may
 * be cheaper than the best plan. */
static status interval_bound(struct exact *x, const struct interval *whole, double a, double b)
{
    struct interval part = {.a = a, .b = b, .bound = whole->bound, .depth = whole->depth + 1, .id_begin = x->id_count};
    bool is_solved;
    uint64_t nodes_max = a < b && part.depth < 40 ? (uint64_t)DIVE_NODES << part.depth : UINT64_MAX;
    x->found = INFINITY;
    exact_items_make(x, x->ids + whole->id_begin, whole->id_count, a, b);
    double bound = exact_ascend(x, &is_solved);
    if (bound < x->cutoff && !x->is_cut) {
        exact_items_drop(x);
        if (!is_solved && exact_search(x, nodes_max)) {
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

/* Takes the last interval and bounds its halves; the half of slower plans,
 * which have fewer units, comes last. */
static status interval_split(struct exact *x)
{
    struct interval whole = x->intervals[--x->interval_count];
    uint32_t first = x->interval_count;
    size_t end = whole.id_begin + whole.id_count; /* of the stack's ids; those of the halves come behind */
    if (whole.bound < x->cutoff) {
        TRY(interval_bound(x, &whole, whole.a, nextafter(whole.split, 0)));
        TRY(interval_bound(x, &whole, whole.split, whole.b));
    }
    memmove(x->ids + whole.id_begin, x->ids + end, (x->id_count - end) * sizeof *x->ids);
    x->id_count -= whole.id_count;
    for (uint32_t i = first; i < x->interval_count; i++) x->intervals[i].id_begin -= whole.id_count;
    return ST_OK;
}

/* Finds the least cost over all tau up to the model's; a feasible plan must be known. */
static status cheapest_find(struct exact *x)
{
    struct search *s = x->search;
    struct interval all = {.id_count = x->segment_count};
    double least = INFINITY;
    for (uint32_t i = 0; i < x->segment_count; i++) {
        double et = cost_et(&x->segments[i].time, 1);
        if (et > all.b) all.b = et; /* no stage is slower at any tau, but for a link that cuts share */
    }
    all.b += x->model->links_most;
    if (all.b > x->model->tau_max) all.b = x->model->tau_max;
    x->cutoff = s->best_score * (1 - GAP);
    memset(x->multiplier, 0, x->type_count * sizeof *x->multiplier);
    TRY(interval_bound(x, &all, 0, all.b));
    while (x->interval_count > 0 && !exact_cut(x)) TRY(interval_split(x));
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
        if (stages == NULL || types == NULL)
            st = status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for %u stages", m->layer_count);
        else
            st = fastest_find(&fast, m, types, stages, &fastest);
        if (st == ST_OK) search_evaluate(s, types);
        s->is_proven = st == ST_OK && fastest.is_proven;
        exact_close(&fast);
        free(stages);
        free(types);
    }
    exact_close(&x);
    return st;
}
