/* The cheapest integer provision of a plan. Called for every plan that a method proposes:
 * up to a million times a second. */
#include <math.h>

#include "sched/provision.h"

/* State of the steps, beside the stages. The next times are computed a step ahead, so that they need not wait
 * for the search for the slowest stage. */
struct walk {
    double et[INSTANCE_LAYERS_MAX];
    double next_et[INSTANCE_LAYERS_MAX];  /* with the fewest further units that make it less than et */
    uint32_t next_k[INSTANCE_LAYERS_MAX]; /* units for next_et; 0: none suffice                        */
    uint32_t left[RESOURCE_TYPES_MAX];    /* units; set only for types that occur                      */
};

#define NEAR       1.05       /* the steps begin this far above an unreachable time                       */
#define STEPS_MAX  (1u << 13) /* then a search in tau takes over: limits are far beyond those of clusters */
#define RANGES_MAX 384u       /* of that search                                                           */
#define PRECISION  0x1p-43    /* relative, of its bounds                                                  */

/* The limits do not give each stage a unit, a run refuses where stages lie, or a node's memory is too small:
 * the score grows with what is missing. */
static struct cost_result unplaceable(const struct cost_model *m, const struct cost_stage *stages, uint32_t count)
{
    struct cost_result r = {.is_limit_reached = true};
    uint32_t stage_count[RESOURCE_TYPES_MAX], missing = 0;
    for (uint32_t s = 0; s < count; s++) stage_count[stages[s].type] = 0;
    for (uint32_t s = 0; s < count; s++) {
        if (stage_count[stages[s].type]++ < m->limit[stages[s].type]) continue;
        if (missing++ == 0) r.limiting_stage = s;
    }
    if (missing == 0) missing = cost_misplaced(m, stages, count, &r.misplaced);
    r.score = missing ? m->penalty * (COST_UNPLACEABLE + missing) : 0;
    const double lack = missing ? 0 : cost_memory_lack(m, stages, count, &r.node);
    if (lack > 0) {
        while (!(cost_nodes(m, stages[r.limiting_stage].type) >> r.node & 1)) r.limiting_stage++;
        r.is_memory_short = true;
        r.score = m->penalty * (COST_UNPLACEABLE + lack / (m->node_memory[r.node] + lack));
    }
    return r;
}

/* The slowest stage, the first of equals. */
static inline uint32_t slowest(const struct walk *w, uint32_t count)
{
    uint32_t at = 0;
    double et = w->et[0];
    for (uint32_t s = 1; s < count; s++) {
        at = w->et[s] > et ? s : at;
        et = w->et[s] > et ? w->et[s] : et;
    }
    return at;
}

static void stage_set(struct cost_stage *stage, uint32_t k)
{
    stage->k = k;
    stage->et = cost_et(&stage->time, k);
}

static inline void walk_look(struct walk *w, const struct cost_stage *stages, uint32_t s)
{
    const struct cost_stage *stage = &stages[s];
    double least = stage->time.compute > stage->time.move ? stage->time.compute : stage->time.move;
    uint32_t left = w->left[stage->type], k = 0;
    double tau = stage->et, et = tau;
    if (least < tau && left > 0) {
        k = stage->k + 1;
        et = cost_et(&stage->time, k);
        /* One unit is enough, unless rounding leaves the time as it is. */
        if (et >= tau) {
            k = cost_units_least(&stage->time, nextafter(tau, 0), stage->k + left);
            et = k > 0 ? cost_et(&stage->time, k) : tau;
        }
    }
    w->et[s] = tau;
    w->next_et[s] = et;
    w->next_k[s] = k;
}

static void walk_begin(struct walk *w, const struct cost_model *m, const struct cost_stage *stages, uint32_t count)
{
    for (uint32_t s = 0; s < count; s++) w->left[stages[s].type] = m->limit[stages[s].type];
    for (uint32_t s = 0; s < count; s++) w->left[stages[s].type] -= stages[s].k;
    for (uint32_t s = 0; s < count; s++) walk_look(w, stages, s);
}

/* Gives the slowest stage the fewest units that make it faster; false if none do. */
static inline bool speed_up(struct walk *w, struct cost_stage *stages, uint32_t at)
{
    struct cost_stage *stage = &stages[at];
    uint32_t *left = &w->left[stage->type];
    if (w->next_k[at] == 0 || w->next_k[at] - stage->k > *left) return false;
    *left -= w->next_k[at] - stage->k;
    stage->k = w->next_k[at];
    stage->et = w->next_et[at];
    walk_look(w, stages, at);
    return true;
}

/* Gives each stage its least k within tau; false if the limits do not allow tau. */
static bool within(const struct cost_model *m, struct cost_stage *stages, uint32_t count, double tau)
{
    uint64_t used[RESOURCE_TYPES_MAX];
    for (uint32_t s = 0; s < count; s++) used[stages[s].type] = 0;
    for (uint32_t s = 0; s < count; s++) {
        uint32_t limit = m->limit[stages[s].type], k = cost_units_least(&stages[s].time, tau, limit);
        used[stages[s].type] += k;
        if (k == 0 || used[stages[s].type] > limit) return false;
        stage_set(&stages[s], k);
    }
    return true;
}

/* The greatest time of the stages, each on all units of its type: no provision is faster. */
static double fastest(const struct cost_model *m, const struct cost_stage *stages, uint32_t count)
{
    double fast = 0;
    for (uint32_t s = 0; s < count; s++) {
        double least = cost_et(&stages[s].time, m->limit[stages[s].type]);
        fast = least > fast ? least : fast;
    }
    return fast;
}

/* Provisions a plan that cannot keep to the throughput: as fast as the limits allow. */
static struct cost_result nearest(const struct cost_model *m, struct cost_stage *stages, uint32_t count)
{
    struct walk walk;
    double slow = 0, fast = fmax(m->tau_max, fastest(m, stages, count));
    for (uint32_t s = 0; s < count; s++) slow = fmax(slow, cost_et(&stages[s].time, 1));
    /* Steps would pass through the least units of every time that the limits allow: halving skips most. */
    while (slow > fast * NEAR) {
        double middle = sqrt(slow * fast);
        if (within(m, stages, count, middle))
            slow = middle;
        else
            fast = middle;
    }
    CHECK(within(m, stages, count, slow));
    walk_begin(&walk, m, stages, count);
    uint32_t at = slowest(&walk, count), step_count = 0;
    while (step_count++ < STEPS_MAX && speed_up(&walk, stages, at)) at = slowest(&walk, count);
    if (step_count > STEPS_MAX) {
        /* Halves down to neighbouring doubles; then at most a step for each of the slowest stages is left. */
        for (slow = walk.et[at]; nextafter(fast, slow) < slow;) {
            double middle = fast + (slow - fast) / 2;
            if (within(m, stages, count, middle))
                slow = middle;
            else
                fast = middle;
        }
        CHECK(within(m, stages, count, slow));
        walk_begin(&walk, m, stages, count);
        at = slowest(&walk, count);
        while (speed_up(&walk, stages, at)) at = slowest(&walk, count);
    }
    struct cost_result r = cost_of(m, stages, count);
    r.limiting_stage = at;
    r.is_limit_reached = walk.left[stages[at].type] == 0;
    return r;
}

/* Branch and bound over tau, for optima that are too many steps away. */
struct range {
    double bound;     /* sum of price k tau is not less for any tau of the range */
    double low, high; /* from low to high, both included            */
};

struct branch {
    const struct cost_model *model;
    struct cost_stage *stages;
    uint32_t count;
    double best, best_tau; /* least sum of price k tau so far, nodes included */
    double nodes;          /* price of the nodes, USD an hour                        */
    uint32_t range_count;
    struct range ranges[RANGES_MAX + 1]; /* a heap: the least bound first */
};

static void heap_push(struct branch *x, struct range range)
{
    uint32_t at = x->range_count++;
    for (; at > 0 && x->ranges[(at - 1) / 2].bound > range.bound; at = (at - 1) / 2)
        x->ranges[at] = x->ranges[(at - 1) / 2];
    x->ranges[at] = range;
}

static struct range heap_pop(struct branch *x)
{
    struct range first = x->ranges[0], last = x->ranges[--x->range_count];
    uint32_t at = 0;
    for (uint32_t next = 1; next < x->range_count; next = 2 * at + 1) {
        if (next + 1 < x->range_count && x->ranges[next + 1].bound < x->ranges[next].bound) next++;
        if (!(x->ranges[next].bound < last.bound)) break;
        x->ranges[at] = x->ranges[next];
        at = next;
    }
    x->ranges[at] = last;
    return first;
}

/* The tangent at tau of a function of tau. */
struct tangent {
    double value, slope;
};

/* Raises the tangent to that of k tau for the real k with fixed + shared / k = tau, which is shared
 * tau / (tau - fixed), and convex. Tau is taken slightly greater, as cost_et may round. */
static inline void tangent_raise(struct tangent *t, double fixed, double shared, double tau)
{
    double rest = tau * (1 + 0x1p-50) - fixed, value = shared * tau / rest;
    if (value > t->value) *t = (struct tangent){value, -value * fixed / (tau * rest)};
}

/* The tangent of a convex lower bound of the sum of price k tau, where stages have
 * at least their present units. */
static struct tangent tangent_at(const struct branch *x, double tau)
{
    struct tangent sum = {x->nodes * tau, x->nodes};
    for (uint32_t s = 0; s < x->count; s++) {
        const struct cost_stage *stage = &x->stages[s];
        struct tangent t = {stage->k * tau, stage->k};
        tangent_raise(&t, stage->time.compute, stage->time.compute_shared, tau);
        tangent_raise(&t, stage->time.move, stage->time.move_shared, tau);
        sum.value += x->model->price[stage->type] * t.value;
        sum.slope += x->model->price[stage->type] * t.slope;
    }
    return sum;
}

/* Tries the provision at `high`, and bounds the range below it. */
static void branch_look(struct branch *x, double low, double high)
{
    if (low > high || !within(x->model, x->stages, x->count, high)) return;
    double tau = 0, rate = x->nodes;
    for (uint32_t s = 0; s < x->count; s++) {
        tau = fmax(tau, x->stages[s].et);
        rate += x->model->price[x->stages[s].type] * x->stages[s].k;
    }
    if (rate * tau < x->best) {
        x->best = rate * tau;
        x->best_tau = tau;
    }
    if (!(low < tau)) return;
    /* The least is where the tangents of both ends meet, or at an end. */
    struct tangent left = tangent_at(x, low), right = tangent_at(x, tau);
    double width = tau - low, bound;
    if (left.slope >= 0)
        bound = left.value;
    else if (right.slope <= 0)
        bound = right.value;
    else {
        double at = (left.value - right.value + right.slope * width) / (right.slope - left.slope);
        bound = right.value - right.slope * (width - fmin(fmax(at, 0), width));
    }
    heap_push(x, (struct range){bound, low, nextafter(tau, 0)});
}

/* Ends when nothing cheaper is left, up to rounding, or after RANGES_MAX looks. The latter
 * happens only if several stages with prices have a great many units: then the result is about a
 * unit of each stage off the optimum. */
static double branch_search(struct branch *x, double low, double high)
{
    branch_look(x, low, high);
    for (uint32_t look_count = 1; look_count + 2 <= RANGES_MAX && x->range_count > 0; look_count += 2) {
        struct range range = heap_pop(x);
        if (range.bound >= x->best * (1 - PRECISION)) break;
        double middle =
            range.high > 2 * range.low ? sqrt(range.low * range.high) : range.low + (range.high - range.low) / 2;
        branch_look(x, nextafter(middle, INFINITY), range.high);
        branch_look(x, range.low, middle);
    }
    return x->best_tau;
}

struct cost_result provision_exact(const struct cost_model *m, struct cost_stage *stages, uint32_t count)
{
    struct cost_result none = unplaceable(m, stages, count);
    if (none.score > 0) return none;
    if (!within(m, stages, count, m->tau_max)) return nearest(m, stages, count);

    /* The bound: price * k * ET(k) grows with k, and a stage's part of the cost,
     * price * k * tau, is not less. */
    struct walk walk;
    walk_begin(&walk, m, stages, count);
    const double nodes = cost_nodes_price(m, stages, count);
    double rate = nodes, bound = nodes > 0 ? nodes * fastest(m, stages, count) : 0, best = INFINITY, best_tau = 0;
    for (uint32_t s = 0; s < count; s++) {
        rate += m->price[stages[s].type] * stages[s].k;
        bound += m->price[stages[s].type] * stages[s].k * stages[s].et;
    }
    for (uint32_t step_count = 0;; step_count++) {
        uint32_t at = slowest(&walk, count);
        double tau = walk.et[at];
        if (rate * tau < best) {
            best = rate * tau;
            best_tau = tau;
        }
        if (step_count == STEPS_MAX) {
            struct branch branch;
            branch.model = m;
            branch.stages = stages;
            branch.count = count;
            branch.nodes = nodes;
            branch.best = best;
            branch.best_tau = best_tau;
            branch.range_count = 0;
            best_tau = branch_search(&branch, fastest(m, stages, count), nextafter(tau, 0));
            break;
        }
        double price = m->price[stages[at].type], k = stages[at].k;
        if (!(bound < best) || !speed_up(&walk, stages, at)) break;
        rate += price * (stages[at].k - k);
        bound += price * (stages[at].k * stages[at].et - k * tau);
    }
    for (uint32_t s = 0; s < count; s++)
        stage_set(&stages[s], cost_units_least(&stages[s].time, best_tau, m->limit[stages[s].type]));
    return cost_of(m, stages, count);
}
