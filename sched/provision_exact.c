/* The cheapest integer provision of a plan. Called for every plan that a method proposes: up to a million times a second. */
#include <math.h>

#include "sched/provision.h"

/* What the steps look at, apart from the stages. The next times are worked out a step ahead, beside the search for the slowest stage
 * instead of behind it. */
struct walk {
    double et[INSTANCE_LAYERS_MAX];
    double next_et[INSTANCE_LAYERS_MAX];  /* with the fewest further units that make it less than et; */
    uint32_t next_k[INSTANCE_LAYERS_MAX]; /* 0: no number of units does                                */
    uint32_t left[INSTANCE_LAYERS_MAX];   /* units that the type has left, at the type's first stage  */
    uint16_t first[INSTANCE_LAYERS_MAX];  /* stage of the type                                        */
};

#define NEAR 1.05 /* the steps go from this far above what cannot be reached */

/* Not even a unit for each stage: graded by how many are missing. */
static struct cost_result unplaceable(const struct cost_model *m, const struct cost_stage *stages, uint32_t count)
{
    struct cost_result r = {.is_limit_reached = true};
    uint32_t missing = 0;
    for (uint32_t s = count; s-- > 0;) {
        uint32_t before = 0;
        for (uint32_t other = 0; other < s; other++) before += stages[other].type == stages[s].type;
        if (before < m->limit[stages[s].type]) continue;
        missing++;
        r.limiting_stage = s;
    }
    r.score = missing ? m->penalty * (1e6 + missing) : 0;
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
    uint32_t left = w->left[w->first[s]], k = stage->k;
    double tau = stage->et, et = tau;
    /* A unit is enough but where communication does not divide, and there rounding may hold it for some. */
    while (left > 0 && et >= tau) {
        left--;
        et = cost_et(&stage->time, ++k);
    }
    w->et[s] = tau;
    w->next_et[s] = et;
    w->next_k[s] = least < tau && et < tau ? k : 0;
}

static void walk_begin(struct walk *w, const struct cost_model *m, const struct cost_stage *stages, uint32_t count)
{
    for (uint32_t s = 0; s < count; s++) {
        uint32_t first = 0;
        while (stages[first].type != stages[s].type) first++;
        w->first[s] = (uint16_t)first;
        if (first == s) w->left[s] = m->limit[stages[s].type];
        w->left[first] -= stages[s].k;
    }
    for (uint32_t s = 0; s < count; s++) walk_look(w, stages, s);
}

/* Gives the slowest stage units until it is faster than before; false if it cannot be. */
static inline bool speed_up(struct walk *w, struct cost_stage *stages, uint32_t at)
{
    struct cost_stage *stage = &stages[at];
    uint32_t *left = &w->left[w->first[at]];
    if (w->next_k[at] == 0 || w->next_k[at] - stage->k > *left) return false;
    *left -= w->next_k[at] - stage->k;
    stage->k = w->next_k[at];
    stage->et = w->next_et[at];
    walk_look(w, stages, at);
    return true;
}

/* All stages within tau, each with its least k; false, and the stages as they were, if the limits do not allow it. */
static bool within(const struct cost_model *m, struct cost_stage *stages, uint32_t count, double tau)
{
    for (uint32_t s = 0; s < count; s++) {
        uint32_t k = cost_units_least(&stages[s].time, tau, m->limit[stages[s].type]);
        if (k == 0) return false;
        stage_set(&stages[s], k);
    }
    for (uint32_t s = 0; s < count; s++) {
        uint64_t used = 0;
        for (uint32_t other = 0; other < count; other++)
            if (stages[other].type == stages[s].type) used += stages[other].k;
        if (used > m->limit[stages[s].type]) return false;
    }
    return true;
}

/* Of a plan that cannot keep to the throughput: as fast as the limits allow. */
static struct cost_result nearest(const struct cost_model *m, struct cost_stage *stages, uint32_t count)
{
    struct walk walk;
    double slow = 0, fast = m->tau_max;
    for (uint32_t s = 0; s < count; s++) {
        double et = cost_et(&stages[s].time, 1), least = cost_et(&stages[s].time, m->limit[stages[s].type]);
        slow = et > slow ? et : slow;
        fast = least > fast ? least : fast;
    }
    /* The steps pass through the least units of every time that the limits allow: most of them are skipped. */
    while (slow > fast * NEAR) {
        double middle = sqrt(slow * fast);
        if (within(m, stages, count, middle))
            slow = middle;
        else
            fast = middle;
    }
    CHECK(within(m, stages, count, slow));
    walk_begin(&walk, m, stages, count);
    uint32_t at = slowest(&walk, count);
    while (speed_up(&walk, stages, at)) at = slowest(&walk, count);
    struct cost_result r = cost_of(m, stages, count);
    r.limiting_stage = at;
    r.is_limit_reached = walk.left[walk.first[at]] == 0;
    return r;
}

struct cost_result provision_exact(const struct cost_model *m, struct cost_stage *stages, uint32_t count)
{
    struct cost_result none = unplaceable(m, stages, count);
    if (none.score > 0) return none;
    if (!within(m, stages, count, m->tau_max)) return nearest(m, stages, count);

    /* price * k * ET(k) grows with k, and a stage's part of the cost, price * k * tau, is never less. */
    struct walk walk;
    walk_begin(&walk, m, stages, count);
    double rate = 0, bound = 0, best = INFINITY, best_tau = 0;
    for (uint32_t s = 0; s < count; s++) {
        rate += m->price[stages[s].type] * stages[s].k;
        bound += m->price[stages[s].type] * stages[s].k * stages[s].et;
    }
    for (;;) {
        uint32_t at = slowest(&walk, count);
        double tau = walk.et[at];
        if (rate * tau < best) {
            best = rate * tau;
            best_tau = tau;
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
