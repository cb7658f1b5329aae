/* The cheapest integer provision of a plan. Called for every plan that a method proposes: up to a million times a second. */
#include <math.h>

#include "sched/provision.h"

/* Units of the stage's type that no stage has. */
static uint32_t units_left(const struct cost_model *m, const struct cost_stage *stages, uint32_t count, uint32_t type)
{
    uint64_t used = 0;
    for (uint32_t s = 0; s < count; s++)
        if (stages[s].type == type) used += stages[s].k;
    return used < m->limit[type] ? (uint32_t)(m->limit[type] - used) : 0;
}

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

/* The slowest stage; its time in *tau. */
static uint32_t slowest(const struct cost_stage *stages, uint32_t count, double *tau)
{
    uint32_t at = 0;
    for (uint32_t s = 1; s < count; s++)
        if (stages[s].et > stages[at].et) at = s;
    *tau = stages[at].et;
    return at;
}

static void stage_set(struct cost_stage *stage, uint32_t k)
{
    stage->k = k;
    stage->et = cost_et(&stage->time, k);
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

/* Gives the slowest stage units until it is faster than tau, its time before; false if it cannot be. */
static bool speed_up(const struct cost_model *m, struct cost_stage *stages, uint32_t count, uint32_t at, double tau)
{
    struct cost_stage *stage = &stages[at];
    double least = stage->time.compute > stage->time.move ? stage->time.compute : stage->time.move;
    if (!(least < tau)) return false;
    uint32_t left = units_left(m, stages, count, stage->type), k = stage->k;
    /* A unit is enough but where communication does not divide, and there rounding may hold it for some. */
    while (left-- > 0 && cost_et(&stage->time, ++k) >= tau) continue;
    if (!(cost_et(&stage->time, k) < tau)) return false;
    stage_set(stage, k);
    return true;
}

/* Of a plan that cannot keep to the throughput: as fast as the limits allow. */
static struct cost_result nearest(const struct cost_model *m, struct cost_stage *stages, uint32_t count)
{
    double tau;
    for (uint32_t s = 0; s < count; s++) stage_set(&stages[s], 1);
    uint32_t at = slowest(stages, count, &tau);
    while (speed_up(m, stages, count, at, tau)) at = slowest(stages, count, &tau);
    struct cost_result r = cost_of(m, stages, count);
    r.limiting_stage = at;
    r.is_limit_reached = units_left(m, stages, count, stages[at].type) == 0;
    return r;
}

struct cost_result provision_exact(const struct cost_model *m, struct cost_stage *stages, uint32_t count)
{
    struct cost_result none = unplaceable(m, stages, count);
    if (none.score > 0) return none;
    if (!within(m, stages, count, m->tau_max)) return nearest(m, stages, count);

    /* price * k * ET(k) grows with k, and a stage's part of the cost, price * k * tau, is never less. */
    double rate = 0, bound = 0, tau, best = INFINITY, best_tau = 0;
    for (uint32_t s = 0; s < count; s++) {
        rate += m->price[stages[s].type] * stages[s].k;
        bound += m->price[stages[s].type] * stages[s].k * stages[s].et;
    }
    for (;;) {
        uint32_t at = slowest(stages, count, &tau);
        if (rate * tau < best) {
            best = rate * tau;
            best_tau = tau;
        }
        double price = m->price[stages[at].type], k = stages[at].k, et = stages[at].et;
        if (!(bound < best) || !speed_up(m, stages, count, at, tau)) break;
        rate += price * (stages[at].k - k);
        bound += price * (stages[at].k * stages[at].et - k * et);
    }
    for (uint32_t s = 0; s < count; s++)
        stage_set(&stages[s], cost_units_least(&stages[s].time, best_tau, m->limit[stages[s].type]));
    return cost_of(m, stages, count);
}
